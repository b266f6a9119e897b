// Readers and writers by the ending of a file's name.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "quern/io.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {
namespace {

enum class Format { Npy, Npz, Png, Safetensors };

constexpr std::array<std::pair<std::string_view, Format>, 4> kEndings = {
    {{".npy", Format::Npy},
     {".npz", Format::Npz},
     {".png", Format::Png},
     {".safetensors", Format::Safetensors}}};

Format format_of(std::string_view op, std::string_view path) {
    std::string lower(path);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    for (const auto& [ending, format] : kEndings)
        if (lower.ends_with(ending)) return format;
    raise(ValueError(fmt::format(
        "[{}] path: expected a name that ends in .npy, .npz, .png or .safetensors, got '{}'", op,
        path)));
}

}  // namespace

std::variant<Tensor, TensorSet> load(const std::string& path, const LoadOptions& options) {
    switch (or_out_of_memory("load", [&] { return format_of("load", path); })) {
        case Format::Npy:
            return load_npy(path);
        case Format::Npz:
            return load_npz(path, options);
        case Format::Png:
            return load_png(path, options);
        case Format::Safetensors:
            break;
    }
    return load_safetensors(path);
}

void save(const std::string& path, const Tensor& tensor) {
    switch (or_out_of_memory("save", [&] { return format_of("save", path); })) {
        case Format::Npy:
            return save_npy(path, tensor);
        case Format::Png:
            return save_png(path, tensor);
        case Format::Npz:
        case Format::Safetensors:
            break;
    }
    raise(ValueError(
        fmt::format("[save] path: expected .npy or .png for one tensor, got '{}'", path)));
}

void save(const std::string& path, const TensorSet& set) {
    switch (or_out_of_memory("save", [&] { return format_of("save", path); })) {
        case Format::Npz:
            return save_npz(path, set);
        case Format::Safetensors:
            return save_safetensors(path, set);
        case Format::Npy:
        case Format::Png:
            break;
    }
    raise(ValueError(fmt::format(
        "[save] path: expected .npz or .safetensors for a set of tensors, got '{}'", path)));
}

}  // namespace quern

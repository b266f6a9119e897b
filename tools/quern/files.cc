#include "files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "quern/io.h"
#include "quern/support/file.h"

namespace quern::command {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEndings[] = {".npy", ".npz", ".png", ".safetensors"};

std::string lower_extension(const std::string& path) {
    std::string extension = fs::path(path).extension().string();
    for (char& c : extension) {
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    }
    return extension;
}

std::string fault_in_name(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
        return fmt::format("expected NAME=VALUE, got '{}'", text);
    }
    return {};
}

struct TypedShape {
    DType dtype;
    Shape shape;
};

std::optional<TypedShape> parse_shape(std::string_view text) {
    const std::size_t open = text.find('[');
    if (open == std::string_view::npos || text.back() != ']') return std::nullopt;
    const auto dtype = dtype_from_string(text.substr(0, open));
    if (!dtype) return std::nullopt;
    TypedShape result{*dtype, {}};
    std::string_view list = text.substr(open + 1, text.size() - open - 2);
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        std::string_view item = list.substr(0, comma);
        while (item.starts_with(' ')) item.remove_prefix(1);
        const auto value = script::parse_number(item);
        const auto* extent = value ? value->as<std::int64_t>() : nullptr;
        if (extent == nullptr || *extent < 0) return std::nullopt;
        result.shape.push_back(*extent);
        if (comma + 1 == list.size()) return std::nullopt;
        list.remove_prefix(std::min(comma + 1, list.size()));
    }
    return result;
}

volatile std::sig_atomic_t interrupted = 0;

/// Keeps SIGINT and SIGTERM waiting while files are written.
class SignalGuard {
public:
    SignalGuard() {
        struct sigaction action = {};
        action.sa_handler = [](int signal) { interrupted = signal; };
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, &old_[0]);
        sigaction(SIGTERM, &action, &old_[1]);
    }
    ~SignalGuard() {
        sigaction(SIGINT, &old_[0], nullptr);
        sigaction(SIGTERM, &old_[1], nullptr);
    }
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;

private:
    struct sigaction old_[2] = {};
};

/// Files beside their places; what is left when it goes is removed. As `save` does, a link stays
/// and a file that is replaced leaves its permissions.
class Staging {
public:
    Staging() = default;
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    ~Staging() {
        std::error_code ignored;
        for (const auto& [staged, place] : files_) fs::remove(staged, ignored);
    }

    std::string add(const fs::path& place) {
        const std::string name = fmt::format(".quern-{}-{}{}", ::getpid(), files_.size(),
                                             lower_extension(place.string()));
        const fs::path target = target_of(place.string());
        fs::path staged = target;
        staged.replace_filename(name);
        files_.emplace_back(staged, target);
        return staged.string();
    }

    void commit() {
        for (auto& [staged, place] : files_) {
            std::error_code error;
            const fs::file_status replaced = fs::status(place, error);
            if (fs::is_regular_file(replaced)) {
                fs::permissions(staged, replaced.permissions(), error);
            }
            fs::rename(staged, place, error);
            if (error) {
                throw FileError(
                    fmt::format("[run] {}: expected to rename the finished file, got {}",
                                place.string(), error.message()));
            }
        }
        files_.clear();
    }

private:
    std::vector<std::pair<fs::path, fs::path>> files_;
};

void write(const std::string& path, const std::string& extension, const script::Value& value,
           const std::string& name) {
    const bool holds_set = extension == ".npz" || extension == ".safetensors";
    if (const auto* tensor = value.as<Tensor>(); tensor != nullptr && tensor->is_alive()) {
        if (holds_set) return save(path, TensorSet{{name, *tensor}});
        return save(path, *tensor);
    }
    if (const auto* view = value.as<script::SetView>(); view != nullptr && holds_set) {
        return save(path, view->tensors());
    }
    throw ValueError(fmt::format("[run] --out {} expects {} for a {} file, got {}", name,
                                 holds_set ? "a tensor or a set of tensors" : "a tensor", extension,
                                 script::describe(value)));
}

}  // namespace

Assignment assignment(const std::string& text) {
    const std::size_t equals = text.find('=');
    return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string fault_in_file(const std::string& text) {
    if (std::string fault = fault_in_name(text); !fault.empty()) return fault;
    const std::string extension = lower_extension(assignment(text).value);
    if (std::find(std::begin(kEndings), std::end(kEndings), extension) != std::end(kEndings)) {
        return {};
    }
    return fmt::format("expected a .npy, .npz, .png or .safetensors file, got '{}'",
                       assignment(text).value);
}

std::string fault_in_number(const std::string& text) {
    if (std::string fault = fault_in_name(text); !fault.empty()) return fault;
    const std::string value = assignment(text).value;
    if (script::parse_number(value)) return {};
    return fmt::format("expected a number, true or false, got '{}'", value);
}

std::string fault_in_shape(const std::string& text) {
    if (std::string fault = fault_in_name(text); !fault.empty()) return fault;
    const std::string value = assignment(text).value;
    if (parse_shape(value)) return {};
    return fmt::format("expected a dtype and a shape as in f32[2,3], got '{}'", value);
}

std::string read_script(const std::string& path) {
    // Nobody writes as much.
    constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
    return read_text(path, kMostBytes);
}

script::Value read_value(const std::string& path) {
    auto loaded = load(path);
    if (auto* tensor = std::get_if<Tensor>(&loaded)) return std::move(*tensor);
    return script::SetView{
        std::make_shared<const TensorSet>(std::move(std::get<TensorSet>(loaded))), ""};
}

Tensor zeros(const std::string& text) {
    const TypedShape typed = *parse_shape(text);
    return script::placeholder(typed.shape, typed.dtype);
}

void expect_writable(const std::string& command, const std::string& path) {
    const fs::path place(behind_links(path));
    const fs::path folder = place.has_parent_path() ? place.parent_path() : fs::path(".");
    std::error_code error;
    if (!fs::is_directory(folder, error)) {
        throw FileError(fmt::format("[{}] {}: expected a folder '{}' that exists", command, path,
                                    folder.string()));
    }
    if (fs::is_directory(place, error)) {
        throw FileError(
            fmt::format("[{}] {}: expected the name of a file, got a folder", command, path));
    }
    if (::access(folder.c_str(), W_OK) != 0) {
        throw FileError(fmt::format("[{}] {}: expected a folder that can be written, got: {}",
                                    command, path, std::strerror(errno)));
    }
    if (!fs::exists(fs::status(place, error))) {
        if (!error || error == std::errc::no_such_file_or_directory) return;
        throw FileError(fmt::format("[{}] {}: expected a file that can be written, got: {}",
                                    command, path, error.message()));
    }
    if (!fs::is_regular_file(place, error)) {
        throw FileError(fmt::format(
            "[{}] {}: expected a regular file or none, got a pipe or device", command, path));
    }
    if (::access(place.c_str(), W_OK) != 0) {
        throw FileError(fmt::format("[{}] {}: expected a file that can be written, got: {}",
                                    command, path, std::strerror(errno)));
    }
}

std::string target_of(const std::string& path) {
    std::error_code error;
    const fs::path target = fs::weakly_canonical(behind_links(path), error);
    return error ? path : target.string();
}

int interrupting_signal() { return interrupted; }

void write_all(const std::vector<std::pair<std::string, const script::Value*>>& outputs,
               const std::vector<std::string>& names) {
    const SignalGuard guard;
    Staging staging;
    for (std::size_t n = 0; n < outputs.size(); ++n) {
        const auto& [path, value] = outputs[n];
        const std::string staged = staging.add(path);
        try {
            write(staged, lower_extension(path), *value, names[n]);
        } catch (const FileError& error) {
            // It names the file that is there meanwhile.
            std::string message = error.what();
            const std::size_t at = message.find(staged);
            if (at != std::string::npos) message.replace(at, staged.size(), path);
            throw FileError(message);
        }
        if (interrupted != 0) throw FileError("[run] interrupted: no file was written");
    }
    staging.commit();
}

}  // namespace quern::command

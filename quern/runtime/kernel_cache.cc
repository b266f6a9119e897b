#include "quern/runtime/kernel_cache.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "quern/error.h"
#include "quern/ir/print.h"
#include "quern/runtime/disk_cache.h"
#include "quern/runtime/kernel_bundle.h"
#include "quern/support/check.h"

namespace quern {
namespace {

/// The kernel of an entry, or none if it is not one.
std::shared_ptr<const CompiledKernel> made_from(const ir::Kernel& kernel, const ir::Facts& facts,
                                                std::span<const std::byte> image,
                                                std::string& why) {
#if QUERN_EXCEPTIONS
    try {
        return std::make_shared<const CompiledKernel>(kernel, facts, image);
    } catch (const DeviceError& error) {
        why = error.what();
        return nullptr;
    }
#else
    static_cast<void>(why);
    return std::make_shared<const CompiledKernel>(kernel, facts, image);
#endif
}

}  // namespace

std::string cache_key(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics,
                      cpu::Simd simd) {
    fmt::memory_buffer key;
    auto out = std::back_inserter(key);
    fmt::format_to(out, "{}\n{}\n{}\n", cpu::code_version(), cpu::to_string(simd),
                   to_string(numerics));
    for (const ir::DimFacts& d : facts.dims) {
        fmt::format_to(out, "{} {} {}\n", d.is_one, d.divisible_log2, int(d.bucket));
    }
    for (const ir::OperandFacts& o : facts.operands) {
        fmt::format_to(out, "{} {} {} {} {}\n", int(o.dtype), o.rank, o.contiguous_axes,
                       o.aligned_log2, o.is_streamed);
    }
    key.append(ir::identity(kernel));
    return fmt::to_string(key);
}

std::shared_ptr<const CompiledKernel> load_or_compile(const ir::Kernel& kernel,
                                                      const ir::Facts& facts, Numerics numerics,
                                                      cpu::Simd simd, const DiskCache* cache,
                                                      schedule::Observer* observer) {
    std::string key;
    if (cache) {
        key = cache_key(kernel, facts, numerics, simd);
        if (const auto image = cache->read(key)) {
            std::string why;
            if (auto made = made_from(kernel, facts, *image, why)) return made;
            cache->refuse(key, why);
        }
    }
    if (cpu::plugin_path().empty() && has_loaded_kernels()) {
        raise(DeviceError(fmt::format(
            "[device] E0601: expected a kernel that was baked, since there is no {}, got one for "
            "{}, {}; {}",
            cpu::kPluginName, cpu::to_string(simd), to_string(numerics),
            ir::to_string(kernel, facts))));
    }
    const std::vector<std::byte> image = compile({.kernel = kernel,
                                                  .facts = facts,
                                                  .numerics = numerics,
                                                  .simd = simd,
                                                  .observer = observer});
    auto made = std::make_shared<const CompiledKernel>(kernel, facts, image);
    if (cache) cache->write(key, image);
    return made;
}

}  // namespace quern

#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/index.h"
#include "quern/semantics/bind.h"

// How much shared memory a kernel takes, against the device and what @shared says. What the text
// alone decides is checked when it is lowered, the rest when shapes are bound.

namespace quern::semantics {

using lang::Code;

namespace {

/// Beyond every device, and far from where a sum of two would overflow.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

std::optional<std::int64_t> bytes_of(const ir::Kernel& kernel, const ir::Buffer& buffer,
                                     const ir::Environment& environment) {
    auto bytes = static_cast<std::int64_t>(size_of(buffer.dtype));
    for (const ir::ExprId id : buffer.shape) {
        const auto extent = ir::evaluate(kernel, id, environment);
        if (!extent) return std::nullopt;
        const std::int64_t elements = std::max<std::int64_t>(*extent, 0);
        if (__builtin_mul_overflow(bytes, elements, &bytes)) bytes = kMostBytes;
        bytes = std::min(bytes, kMostBytes);
    }
    return bytes;
}

}  // namespace

std::optional<std::int64_t> shared_bytes(const ir::Kernel& kernel,
                                         const ir::Environment& environment) {
    std::int64_t total = 0;
    for (const ir::Buffer& buffer : kernel.buffers) {
        if (buffer.kind != ir::BufferKind::Shared) continue;
        const auto bytes = bytes_of(kernel, buffer, environment);
        if (!bytes) return std::nullopt;
        total = std::min(total + *bytes, kMostBytes);
    }
    return total;
}

void check_shared(const Lowered& lowered, const ir::Environment* shapes, const Limits& limits,
                  lang::Diagnostics& diagnostics) {
    const ir::Kernel& kernel = lowered.kernel;
    const ir::Environment nothing;
    const ir::Environment& environment = shapes ? *shapes : nothing;
    const auto of_text = shared_bytes(kernel, nothing);
    const auto total = shared_bytes(kernel, environment);
    if (!total) return;
    if (*total > limits.shared_bytes && !(shapes && of_text)) {
        const auto largest = std::find_if(
            kernel.buffers.begin(), kernel.buffers.end(),
            [&, sum = std::int64_t{0}](const ir::Buffer& buffer) mutable {
                if (buffer.kind != ir::BufferKind::Shared) return false;
                sum = std::min(sum + bytes_of(kernel, buffer, environment).value_or(0), kMostBytes);
                return sum > limits.shared_bytes;
            });
        diagnostics.add(Code::E0610, largest->span,
                        fmt::format("shared variables need {} bytes, a work-group has at most {}",
                                    *total, limits.shared_bytes));
        return;
    }
    const ir::ExprId stated = lowered.shared_hint.bytes;
    if (!exists(stated)) return;
    const auto hint = ir::evaluate(kernel, stated, environment);
    if (!hint || *hint == *total) return;
    if (shapes && of_text && ir::evaluate(kernel, stated, nothing)) return;
    diagnostics.add(*hint < *total ? Code::E0312 : Code::W0706, lowered.shared_hint.span,
                    fmt::format("@shared says {} byte{}, the shared variables take {}", *hint,
                                *hint == 1 ? "" : "s", *total));
}

}  // namespace quern::semantics

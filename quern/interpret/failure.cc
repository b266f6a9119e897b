#include "quern/interpret/failure.h"

#include <fmt/format.h>

namespace quern::interpret {
namespace {

/// "[1, 2]": the indices of an element of an array.
std::string indices_of(std::int64_t element, const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> indices(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0; element /= shape[axis]) {
        indices[axis] = element % shape[axis];
    }
    return fmt::format("[{}]", fmt::join(indices, ", "));
}

}  // namespace

Failure describe(const ir::Kernel& kernel, const Code& code, Machine& machine) {
    const Trap trap = machine.trap;
    const Site& site = code.sites[trap.site];
    const std::string name = site.buffer == ir::kNone ? "" : kernel.buffers[site.buffer].name;
    const auto element = [&] {
        const Array& array = machine.array(site.buffer - kernel.operand_count);
        return fmt::format("element {} of '{}'", indices_of(trap.value, array.shape), name);
    };
    Failure failure{site.code, site.span, {}};
    switch (site.code) {
        case ir::Code::E0507:
            if (site.buffer == ir::kNone) break;
            failure.message =
                fmt::format("index {} is outside axis {} of '{}', which has {} element{}",
                            site.is_unsigned ? std::to_string(std::uint64_t(trap.value))
                                             : std::to_string(trap.value),
                            site.axis, name, trap.limit, trap.limit == 1 ? "" : "s");
            break;
        case ir::Code::E0510:
            if (site.buffer == ir::kNone) break;
            failure.message =
                "two parallel points use " + element() + ", and one of them writes it";
            break;
        case ir::Code::E0421:
        case ir::Code::E0514:
            if (site.buffer == ir::kNone) break;
            failure.message = element() + " is read before it is written";
            break;
        case ir::Code::E0610:
            if (site.buffer == ir::kNone) break;
            if (trap.value < 0) {
                failure.code = ir::Code::E0506;
                failure.message = fmt::format("an extent of '{}' is {}", name, trap.value);
                break;
            }
            failure.message =
                fmt::format("with '{}' the arrays of one point need {} bytes, the limit is {}",
                            name, trap.value, trap.limit);
            break;
        case ir::Code::E0506:
            if (site.axis == ir::kNone) break;
            failure.message =
                fmt::format("the step of the loop over '{}' is {}, expected at least 1",
                            kernel.symbols[site.axis].name, trap.value);
            break;
        case ir::Code::E0621:
            failure.message =
                trap.value < 0
                    ? fmt::format("expected an exponent of at least 0 for an integer, got {}",
                                  trap.value)
                    : "integer division by zero";
            break;
        default:
            break;
    }
    if (failure.message.empty()) failure.message = std::string(lang::title(site.code));
    return failure;
}

}  // namespace quern::interpret

#pragma once

#include <cstdint>
#include <optional>

#include "quern/ir/cir.h"

// One kernel in place of two, of which the first makes an operand of the second.

namespace quern::ir {

/// True if the kernel is one nest of parallel loops over the axes of the output, in their order,
/// in which each point computes the element of its own from operands and stores it; if every
/// operand is read at the point's position, along all of the axes or some; and if no operation can
/// fail but an access out of bounds.
bool is_elementwise(const Kernel& kernel);

/// out2[i, j] = g(z[i, j], ...), z[i, j] = f(...) -> let z = f(...); out2[i, j] = g(z, ...)
/// The operands of `producer` stand in the place of operand `operand` of `consumer`. Scalars of
/// `producer` get that number before their names: "0.factor". None if one of them is not
/// element-wise, or if the consumer reads other elements of the operand than its points' own.
/// Spans of the producer that are of another text than the consumer's become the operand's.
/// Numerics: exact, values have the dtype that they would be stored in.
std::optional<Kernel> fuse(const Kernel& producer, const Kernel& consumer, std::uint32_t operand,
                           bool is_one_text = true);

}  // namespace quern::ir

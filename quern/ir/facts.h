#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/cir.h"

namespace quern::ir {

enum class Bucket : std::uint8_t {
    Tiny,   // at most 64
    Small,  // at most 4096
    Large,
};

/// The largest value of a bucket.
constexpr std::int64_t most_of(Bucket bucket) {
    return bucket == Bucket::Tiny ? 64 : bucket == Bucket::Small ? 4096 : std::int64_t{1} << 47;
}

/// Lanes of a vector.
inline constexpr std::int64_t kLine = 16;

/// What compiled code may assume of one dim.
struct DimFacts {
    bool is_one = false;

    /// Base-2 logarithm, at most 7, of the largest power of two that divides the value.
    std::uint8_t divisible_log2 = 0;
    Bucket bucket = Bucket::Large;

    bool operator==(const DimFacts&) const = default;
};

/// What compiled code may assume of one operand or of the output.
struct OperandFacts {
    DType dtype = DType::Float32;
    std::uint8_t rank = 0;

    /// How many of the last axes lie in row-major order without gaps, axes of extent 1 included.
    std::uint8_t contiguous_axes = 0;

    /// Base-2 logarithm, at most 7, of what divides the address of the first element, in bytes.
    std::uint8_t aligned_log2 = 0;

    /// Of an output: more than the caches hold, without gaps, at a multiple of 64 bytes, and its
    /// rows, if there are several, are multiples of kLine elements. What is written only once does
    /// better to pass the caches by, whole vectors at a time.
    bool is_streamed = false;

    bool operator==(const OperandFacts&) const = default;
};

/// What one launch looks like, as far as compiled code may depend on it: the key of a compiled
/// kernel. Two launches with equal facts may share code.
struct Facts {
    std::vector<DimFacts> dims;
    std::vector<OperandFacts> operands;

    bool operator==(const Facts&) const = default;
};

/// Where an operand lies. Strides are in elements.
struct OperandView {
    const void* data = nullptr;
    DType dtype = DType::Float32;
    std::span<const std::int64_t> shape;
    std::span<const std::int64_t> strides;
};

/// The most that is true of a launch. `dims` has a value for each of Kernel::dims, `views` one view
/// for each operand and the output.
Facts facts_of(const Kernel& kernel, std::span<const std::int64_t> dims,
               std::span<const OperandView> views);

/// True if code that assumes `assumed` is right for a launch of which `actual` is true. A bucket is
/// a largest value: code for large dims is right for small ones.
bool holds(const Facts& assumed, const Facts& actual);

/// Whether a launch may also take code that was compiled for another one: it is right, and knows
/// the sizes and gaps by which a schedule is chosen, so that those do not depend on what ran
/// before. Of divisors and addresses it may know less.
bool serves(const Facts& assumed, const Facts& actual);

/// What is left of facts without those of dims and addresses: dtypes, ranks, gapless axes, and
/// whether the output is streamed.
Facts without_numbers(Facts facts);

/// Returns "M: x16 small, K: 1; A: float32[2] contiguous 2 align 64; ...", with the kernel's
/// names.
std::string to_string(const Kernel& kernel, const Facts& facts);

}  // namespace quern::ir

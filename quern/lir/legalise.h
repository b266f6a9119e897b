#pragma once

#include <optional>
#include <string>

#include "quern/lir/lir.h"

namespace quern::lir {

/// What a target computes itself. All compute with bools, integers of 32 bits and float32, hold
/// values of any dtype, and convert between integers, from them to float32 and float64, between
/// these two, and to integers what lies in their range.
struct Native {
    /// a * b + c rounded once, and a * 2^b: these are for who makes code to choose.
    bool fma = true;
    bool scale = false;

    /// a * b + c of float32, rounded once or twice: a relaxed Fma. For who makes code too.
    bool loose_fma = false;

    bool int64 = true;
    bool float64 = true;

    /// Arithmetic of narrow integers.
    bool int8 = true;
    bool int16 = true;

    /// Conversions between float16 and float32.
    bool half_casts = true;

    /// Conversions of integers of 64 bits to float32 that round once.
    bool wide_to_float32 = true;

    /// Conversions of floats to integers as Tensor::to has them where these are out of range, or
    /// where the float is NaN.
    bool saturating_casts = true;

    /// Min and Max: a if it is NaN or better than b, else b.
    bool extremes = true;

    /// Remainders of negative integers.
    bool signed_remainders = true;

    /// Quotients of float32 by 2^126 and more, of which others take the reciprocal for zero.
    bool large_divisors = true;
};

/// A function whose numbers a target has.
struct Represented {
    Function function;

    /// Its arithmetic of float64 is arithmetic on bits.
    bool has_soft_float64 = false;

    /// It takes for granted that the numbers of a launch are small.
    bool is_small = false;

    /// What it was before its integers became 32 bits only because that is less work.
    std::optional<Function> wide = std::nullopt;
};

/// float64 and integers of 64 bits as integers that the target has. `are_small`: see without_int64.
Represented represented(Function function, const Native& native, bool are_small);

/// A function of such numbers without operations that the target lacks: by the table of
/// legalise.cc, which says of each operation what stands for it.
/// Numerics: the same bits, but for which NaN a NaN is.
Function legalise(Function function, const Native& native);

/// The first operation that the target lacks, as "cast float16 to float32", or empty.
std::string lacking(const Function& function, const Native& native);

}  // namespace quern::lir

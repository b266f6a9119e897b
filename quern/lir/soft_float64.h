#pragma once

#include "quern/lir/word.h"

namespace quern::lir {

/// Arithmetic of float64 as arithmetic on its bits, for devices that have no float64. Values are
/// uint64, in one lane or several, and so is what it writes, with int32 for exponents.
///
/// Numerics: IEEE 754. Rounded to nearest even, denormal numbers kept; every NaN that it makes is
/// the same one. No operation branches; quotients and roots are loops over bits, whose numbers of
/// iterations are constants.
/// Source: for sums, products and rounding the usual way with guard bits and a sticky bit
/// (Goldberg, "What every computer scientist should know about floating-point arithmetic", 1991,
/// section 1.2); for roots and quotients digit recurrence (Ercegovac & Lang, "Division and square
/// root", 1994).
class SoftFloat64 {
public:
    explicit SoftFloat64(Builder& builder) : b_(builder) {}

    /// Neg, Abs, Sqrt, Floor, Ceil, RoundEven.
    ValueId unary(Op op, ValueId a);

    /// Add, Sub, Mul, Div, Min, Max, Scale.
    ValueId binary(Op op, ValueId a, ValueId b);

    ValueId compare(Op op, ValueId a, ValueId b);

    /// A number of another dtype, and one that becomes another, as Tensor::to converts.
    ValueId from(ValueId number);
    ValueId to(ValueId a, DType dtype);

    /// An integer of 64 bits as a float of 16, rounded once.
    ValueId narrowed(ValueId integer, DType dtype);

private:
    struct Parts;
    struct Integer;

    Word word(ValueId id);
    Word constant(DType dtype, std::uint64_t bits);
    Word is_nan(Word size);
    Parts parts_of(Word size);
    Parts normalised(Parts parts);
    Word leading_zeros(Word m);
    Word shifted_right(Word m, Word by);
    Word rounded(Word sign, Word exponent, Word m);
    Word rounded_or_denormal(Word sign, Word exponent, Word m);
    Word upper_product(Word a, Word b);

    Word sum(Word a, Word b);
    Word product(Word a, Word b);
    Word quotient(Word a, Word b);
    Word root(Word a);
    Word whole(Op op, Word a);
    Word scaled(Word a, Word by);
    Word extreme(Op op, Word a, Word b);
    Word compared(Op op, Word a, Word b);

    Integer magnitude_of(Word number);
    Word from_integer(Word number);
    Word from_float32(Word number);
    Word to_integer(Word a, DType dtype);
    enum class Rounds { ToNearest, ToOdd };
    Word to_float32(Word sign, Parts parts, Rounds rounds);

    Builder& b_;
};

}  // namespace quern::lir

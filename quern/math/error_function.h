#pragma once

#include "quern/math/exponential.h"

// erf. Below 0.85 it is x + x P(x^2), from there on 1 - e^Q(|x|): Q = log erfc is smooth, and its
// error counts with the weight of erfc only.

namespace quern::math {

template <class Element>
struct ErrorFunctionTable;

template <>
struct ErrorFunctionTable<float> {
    /// erf(x) / x - 1, minimax in x^2 on x <= 0.85: error below 2^-27.1 (1 + P).
    static constexpr std::array kNear = {0x1.06eba8p-3,  -0x1.812728p-2, 0x1.ce25d6p-4,
                                         -0x1.b73cfap-6, 0x1.4ba4cp-8,   -0x1.4dabf2p-11};

    /// log(erfc(x)), minimax on [0.849, 4] with the weight erfc/erf: error of erf below 2^-28.8.
    static constexpr std::array kFar = {-0x1.b04862p-14, -0x1.20c906p0, -0x1.45e454p-1,
                                        -0x1.ac2e54p-4,  0x1.7109e8p-6, -0x1.98d852p-9,
                                        0x1.ab7332p-13};
    static constexpr double kOne = 4;
};

template <>
struct ErrorFunctionTable<double> {
    /// Error below 2^-55.9 (1 + P), nearly all of it the rounding of the first coefficient.
    static constexpr std::array kNear = {
        0x1.06eba8214db69p-3,   -0x1.812746b037a31p-2,  0x1.ce2f21a046b81p-4,
        -0x1.b82ce313dcc75p-6,  0x1.565bcd48a0deep-8,   -0x1.c02dbf9cb65d1p-11,
        0x1.f9a497f423f5p-14,   -0x1.f4efb07fff605p-17, 0x1.bb63e66041576p-20,
        -0x1.6b4cd32efc47fp-23, 0x1.3189cea94755dp-26,  -0x1.ebc75bc8f9c3dp-30};

    /// On [0.849, 6]: error of erf below 2^-56.1.
    static constexpr std::array kFar = {
        0x1.40227d737d5dfp-27,  -0x1.20dd775028441p0,   -0x1.45f2e76b6cc63p-1,
        -0x1.a4f90f9077164p-4,  0x1.39980a820e004p-6,   0x1.802f6967ffb1ap-13,
        -0x1.b111143268eccp-10, 0x1.16424325db18bp-11,  0x1.40be02b809ed8p-15,
        -0x1.f9affbcae8a06p-14, 0x1.2392927acc1b6p-14,  -0x1.b6a18be7443f3p-16,
        0x1.eea9b512b6a42p-18,  -0x1.b20134e98a931p-20, 0x1.297c6b7174212p-22,
        -0x1.39fbbe85ef802p-25, 0x1.ede822e3ea053p-29,  -0x1.10d982ad32addp-32,
        0x1.79d90d5b6ce6p-37,   -0x1.ed4534928c3bfp-43};
    static constexpr double kOne = 6;
};

template <Value V>
V erf(V x) {
    using Table = ErrorFunctionTable<typename V::Element>;
    const V size = abs(x);
    const V near = multiply_add(size, polynomial(x * x, Table::kNear), size);
    const V t = select(size > Table::kOne, Table::kOne, size);
    const Exponential<V> e = reduced_exp(polynomial(t, Table::kFar), kRounderOfScale<V>);
    const V far = multiply_add(-scale_of(e.rounded), e.fraction + 1.0, 1.0);
    return with_sign(select(size < 0.85, near, far), sign_of(x));
}

}  // namespace quern::math

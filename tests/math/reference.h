#pragma once

#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quern/math/functions.h"

// References of MPFR, and how far a result is from them.

namespace quern::math::testing {

/// A binary format: digits of the significand, the exponent of the least number and of the first
/// power of two that is too large.
struct Format {
    int digits, least, overflow;
};
inline constexpr Format kFloat = {24, -149, 128}, kDouble = {53, -1074, 1024};
inline constexpr Format kFloat16 = {11, -24, 16}, kBFloat16 = {8, -133, 128};

template <class T>
inline constexpr Format format_of = sizeof(T) == 4 ? kFloat : kDouble;

/// How many units in the last place of `exact` lie between it and `got`. An infinite result counts
/// as the first number that is too large. Zeros of the wrong sign and a NaN on one side only are
/// infinitely far.
inline double ulps(Format format, double got, long double exact) {
    if (std::isnan(exact) || std::isnan(got)) {
        return std::isnan(exact) && std::isnan(got) ? 0 : HUGE_VAL;
    }
    if (exact == 0 && got == 0) return std::signbit(exact) == std::signbit(got) ? 0 : HUGE_VAL;
    const long double most = std::ldexp(1.0L, format.overflow);
    const auto finite = [most](long double x) { return std::clamp(x, -most, most); };
    const long double reference = finite(exact);
    int exponent = format.least;
    if (reference != 0) exponent = std::max(std::ilogb(reference) - format.digits + 1, exponent);
    exponent = std::min(exponent, format.overflow - format.digits);
    return double(std::fabs(std::ldexp(finite(got) - reference, -exponent)));
}

/// A variable of MPFR.
class Big {
public:
    explicit Big(int digits) { mpfr_init2(value, digits); }
    ~Big() { mpfr_clear(value); }
    Big(const Big&) = delete;
    Big& operator=(const Big&) = delete;

    mpfr_t value;
};

using MpfrFunction = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);

/// 1 / sqrt(-0) is -infinity, as IEEE 754 and C have it; MPFR gives the other.
inline int reciprocal_root(mpfr_t result, const mpfr_t x, mpfr_rnd_t rounding) {
    const int inexact = mpfr_rec_sqrt(result, x, rounding);
    if (mpfr_zero_p(x) && mpfr_signbit(x)) mpfr_set_inf(result, -1);
    return inexact;
}

/// A function, what it is called in C and in MPFR, and where it changes its way of computing.
struct Function {
    std::string name;

    /// Products and sums of its polynomials are rounded once.
    bool fuses;
    float (*of_float)(float);
    double (*of_double)(double);
    double (*of_c)(double);
    MpfrFunction of_mpfr;
    std::vector<double> borders;
};

#define QUERN_FUNCTION(name, of_mpfr, ...)                                            \
    Function {                                                                        \
#name, fuses, [](float x) { return name(Native<float, fuses>{x}).number; },         \
            [](double x) { return name(Native<double, fuses>{x}).number; },                 \
            [](double x) { return std::name(x); }, of_mpfr, __VA_ARGS__ \
    }

template <bool fuses>
std::vector<Function> functions_of() {
    const double half_pi = std::acos(0.0), ln2 = std::log(2.0), root = std::sqrt(0.5);
    return {
        QUERN_FUNCTION(exp, mpfr_exp, {ln2 / 2, 88.722839, 103.9, 104, 709.7827, 745.2, 89, 710}),
        QUERN_FUNCTION(
            expm1, mpfr_expm1,
            {ln2 / 2, 0.3469, 1.5 * ln2, 0x1p-26, 0x1p-55, 17, 37, 55.5, 88.722839, 709.7827}),
        QUERN_FUNCTION(exp2, mpfr_exp2, {0.5, 126, 128, 149, 150, 1022, 1024, 1074, 1075}),
        QUERN_FUNCTION(log, mpfr_log, {1, root, 2 * root, 0x1p-126, 0x1p-1022}),
        QUERN_FUNCTION(log2, mpfr_log2, {1, root, 2 * root, 0x1p-126, 0x1p-1022, 1024}),
        QUERN_FUNCTION(log10, mpfr_log10, {1, root, 2 * root, 0x1p-126, 0x1p-1022, 100, 1000}),
        QUERN_FUNCTION(log1p, mpfr_log1p,
                       {1 - root, 2 * root - 1, 0x1p-24, 0x1p-53, 3, 0x1p24, 0x1p53}),
        QUERN_FUNCTION(asin, mpfr_asin, {0.5, 0.523, 0.527, root, 0x1p-13}),
        QUERN_FUNCTION(acos, mpfr_acos, {0.5, 0.605, root, 0x1p-13}),
        QUERN_FUNCTION(atan, mpfr_atan, {0.5, 2, 0x1p24, 0x1p53}),
        QUERN_FUNCTION(asinh, mpfr_asinh, {root, 1.168, 0x1p-12, 0x1p30, 0x1p63}),
        QUERN_FUNCTION(acosh, mpfr_acosh, {1.031, 1.5, 3, 0x1p30, 0x1p63}),
        QUERN_FUNCTION(atanh, mpfr_atanh, {0.2, 0.25, root, 1 - 0x1p-20}),
        QUERN_FUNCTION(cbrt, mpfr_cbrt, {root, 2 * root, 4 * root, 8, 0x1p-126, 0x1p-1022}),
        QUERN_FUNCTION(sin, mpfr_sin,
                       {half_pi, half_pi / 2, 2 * half_pi, 3 * half_pi, 0x1p13, 0x1p20, 0x1p24,
                        0x1p36, 0x1p108, 0x1p120, 16367173 * 0x1p72, 6381956970095103 * 0x1p797}),
        QUERN_FUNCTION(cos, mpfr_cos,
                       {half_pi, half_pi / 2, 2 * half_pi, 3 * half_pi, 0x1p13, 0x1p20, 0x1p24,
                        0x1p36, 0x1p108, 0x1p120, 16367173 * 0x1p72, 6381956970095103 * 0x1p797}),
        QUERN_FUNCTION(tan, mpfr_tan,
                       {half_pi, half_pi / 2, 2 * half_pi, 3 * half_pi, 0x1p13, 0x1p20, 0x1p24,
                        0x1p36, 0x1p108, 0x1p120, 16367173 * 0x1p72, 6381956970095103 * 0x1p797}),
        QUERN_FUNCTION(sinh, mpfr_sinh, {0.7 * ln2, 1.7 * ln2, 89.41598, 89.5, 710.4758, 710.5}),
        QUERN_FUNCTION(cosh, mpfr_cosh, {0.7 * ln2, 1.7 * ln2, 89.41598, 89.5, 710.4758, 710.5}),
        QUERN_FUNCTION(tanh, mpfr_tanh, {0.375 * ln2, 0.54, 0.875 * ln2, 9.5, 20}),
        QUERN_FUNCTION(erf, mpfr_erf, {0.85, 4, 6}),
        Function{"rsqrt",
                 fuses,
                 [](float x) { return rsqrt(Native<float, fuses>{x}).number; },
                 [](double x) { return rsqrt(Native<double, fuses>{x}).number; },
                 [](double x) { return 1 / std::sqrt(x); },
                 reciprocal_root,
                 {1, 2, 4}},
    };
}
#undef QUERN_FUNCTION

/// Each as it is, and with fused products.
inline const std::vector<Function>& functions() {
    static const std::vector<Function> all = [] {
        std::vector<Function> list = functions_of<false>();
        for (Function& f : functions_of<true>()) list.push_back(std::move(f));
        return list;
    }();
    return all;
}

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Zeros, infinities, NaN, the ends of the normal and denormal numbers, and what lies around the
/// borders, with both signs.
template <class T>
std::vector<T> special_points(const std::vector<double>& borders) {
    using Limits = std::numeric_limits<T>;
    std::vector<T> points = {T(0), Limits::infinity(), Limits::quiet_NaN()};
    std::vector<double> centres = {1,
                                   0.5,
                                   2,
                                   double(Limits::min()),
                                   double(Limits::max()),
                                   0.1,
                                   10,
                                   double(Limits::denorm_min())};
    centres.insert(centres.end(), borders.begin(), borders.end());
    for (const double centre : centres) {
        if (std::fabs(centre) > double(Limits::max())) continue;
        T below = T(centre), above = T(centre);
        for (int step = 0; step < 20; ++step) {
            points.push_back(below);
            points.push_back(above);
            below = std::nextafter(below, T(0));
            above = std::nextafter(above, Limits::infinity());
        }
    }
    const std::size_t count = points.size();
    for (std::size_t k = 0; k < count; ++k) points.push_back(-points[k]);
    return points;
}

/// Numbers of every exponent, and as many of the sizes that programs use.
template <class T>
class RandomNumbers {
public:
    T next() {
        switch (count_++ % 4) {
            case 0:
            case 1:
                return std::bit_cast<T>(BitsOf<T>(engine_()));
            case 2:
                return T(uniform_(engine_) * 20);
            default:
                return T(std::exp2(uniform_(engine_) * 12) * (engine_() % 2 == 0 ? 1 : -1));
        }
    }

private:
    std::mt19937_64 engine_{1};
    std::uniform_real_distribution<double> uniform_{-1, 1};
    unsigned count_ = 0;
};

/// The worst of many results.
struct Worst {
    double error = 0;
    double x = 0, y = 0;

    void see(double seen, double at, double also_at = 0) {
        if (!(seen > error)) return;
        error = seen;
        x = at;
        y = also_at;
    }
};

}  // namespace quern::math::testing

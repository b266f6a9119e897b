#include <gtest/gtest.h>

#include <cstdio>

#include "tests/math/reference.h"

namespace quern::math::testing {
namespace {

template <class T, bool fuses>
class Power {
public:
    static T of(T x, T y) { return pow(Native<T, fuses>{x}, Native<T, fuses>{y}).number; }

    void check(T x, T y) {
        mpfr_set_d(x_.value, double(x), MPFR_RNDN);
        mpfr_set_d(y_.value, double(y), MPFR_RNDN);
        mpfr_pow(exact_.value, x_.value, y_.value, MPFR_RNDN);
        const long double exact = mpfr_get_ld(exact_.value, MPFR_RNDN);
        const double error = ulps(format_of<T>, double(of(x, y)), exact);
        worst.see(error, double(x), double(y));
        EXPECT_LE(error, 2) << "pow(" << x << ", " << y << ") is " << of(x, y) << ", expected "
                            << exact;
    }

    Worst worst;

private:
    Big x_{53}, y_{53}, exact_{64};
};

/// Bases of every size to powers whose results have every size, bases near 1 to large powers, and
/// negative bases to integers.
template <class T, bool fuses>
void check_random_powers(int count) {
    Power<T, fuses> power;
    std::mt19937_64 engine(7);
    std::uniform_real_distribution<double> uniform(-1, 1);
    const int most = sizeof(T) == 4 ? 150 : 1075;
    for (int k = 0; k < count; ++k) {
        const double u = uniform(engine), v = uniform(engine), w = uniform(engine);
        const auto reaching = [&](T x) { return T(v * most / std::log2(x)); };
        const T any = T(std::exp2(u * format_of<T>.overflow));
        const T near = T(1 + u * std::exp2(-20 * std::fabs(w)));
        const T middle = T(1 + 0.3 * u);
        power.check(any, reaching(any));
        power.check(middle, reaching(middle));
        power.check(near, reaching(near));
        power.check(T(10 * u), T(int(40 * v)));
    }
    std::printf("pow: at most %.3f ulp, at %a %a\n", power.worst.error, power.worst.x,
                power.worst.y);
}

TEST(Power, OfFloatIsWithinTwoUlp) {
    check_random_powers<float, false>(100'000);
    check_random_powers<float, true>(100'000);
}
TEST(Power, OfDoubleIsWithinTwoUlp) {
    check_random_powers<double, false>(50'000);
    check_random_powers<double, true>(50'000);
}

template <class T, bool fuses>
void check_special_powers() {
    using Limits = std::numeric_limits<T>;
    std::vector<T> points;
    for (const T x : {T(0), T(1), T(2), T(3), T(0.5), T(1.5), T(1e30), T(16777215), T(16777216),
                      T(9007199254740991), T(9007199254740992), Limits::infinity(), Limits::min(),
                      Limits::denorm_min(), Limits::max(), std::nextafter(T(1), T(2)),
                      std::nextafter(T(1), T(0)), Limits::quiet_NaN()}) {
        points.push_back(x);
        points.push_back(-x);
    }
    Power<T, fuses> power;
    for (const T x : points) {
        for (const T y : points) power.check(x, y);
    }
}

TEST(Power, HasTheSpecialCasesOfC) {
    check_special_powers<float, false>();
    check_special_powers<double, false>();
    check_special_powers<float, true>();
    check_special_powers<double, true>();
}

}  // namespace
}  // namespace quern::math::testing

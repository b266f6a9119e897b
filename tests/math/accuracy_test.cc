#include <gtest/gtest.h>

#include <cstdio>

#include "quern/dtype.h"
#include "tests/math/reference.h"
#include "tests/sanitized.h"

// No result is more than 2 units in the last place from the exact one. Tests print the worst they
// have seen; docs/math.md has the worst of all numbers of float.

namespace quern::math::testing {
namespace {

constexpr double kMost = 2;

class Accuracy : public ::testing::TestWithParam<std::size_t> {
protected:
    const Function& function() const { return functions()[GetParam()]; }

    void judge(const Worst& worst, const char* format) const {
        std::printf("%s%s of %s: at most %.3f ulp, at %a\n", function().name.c_str(),
                    function().fuses ? ", fused," : "", format, worst.error, worst.x);
        EXPECT_LE(worst.error, kMost) << function().name << " at " << worst.x;
    }
};

/// A result that is the C library's double rounded is half an ulp from exact, or two libraries have
/// the same error; MPFR judges the others, and every 64th of all.
TEST_P(Accuracy, OfFloatOnFourMillionNumbers) {
    const Function& f = function();
    Big x(24), exact(60);
    Worst worst;
    unsigned count = 0;
    const auto check = [&](float at) {
        const float got = f.of_float(at);
        if (++count % 64 != 0 && got == float(f.of_c(at))) return;
        mpfr_set_flt(x.value, at, MPFR_RNDN);
        f.of_mpfr(exact.value, x.value, MPFR_RNDN);
        worst.see(ulps(kFloat, got, mpfr_get_ld(exact.value, MPFR_RNDN)), at);
    };
    for (const float at : special_points<float>(f.borders)) {
        count = 63;
        check(at);
    }
    RandomNumbers<float> numbers;
    for (int k = 0; k < (kSanitized ? 40'000 : 4'000'000); ++k) check(numbers.next());
    judge(worst, "float");
}

TEST_P(Accuracy, OfDouble) {
    const Function& f = function();
    Big x(53), exact(64);
    Worst worst;
    const auto check = [&](double at) {
        mpfr_set_d(x.value, at, MPFR_RNDN);
        f.of_mpfr(exact.value, x.value, MPFR_RNDN);
        worst.see(ulps(kDouble, f.of_double(at), mpfr_get_ld(exact.value, MPFR_RNDN)), at);
    };
    for (const double at : special_points<double>(f.borders)) check(at);
    RandomNumbers<double> numbers;
    for (int k = 0; k < (kSanitized ? 5'000 : 300'000); ++k) check(numbers.next());
    judge(worst, "double");
}

TEST_P(Accuracy, OfEveryFloat16AndBFloat16) {
    const Function& f = function();
    Big x(24), exact(64);
    Worst half, brain;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        const auto check = [&](float at, float got, Format format, Worst& worst) {
            mpfr_set_flt(x.value, at, MPFR_RNDN);
            f.of_mpfr(exact.value, x.value, MPFR_RNDN);
            worst.see(ulps(format, got, mpfr_get_ld(exact.value, MPFR_RNDN)), at);
        };
        const float h = float_from_float16(std::uint16_t(bits));
        check(h, float_from_float16(float16_from_float(f.of_float(h))), kFloat16, half);
        const float b = float_from_bfloat16(std::uint16_t(bits));
        check(b, float_from_bfloat16(bfloat16_from_float(f.of_float(b))), kBFloat16, brain);
    }
    judge(half, "float16");
    judge(brain, "bfloat16");
}

INSTANTIATE_TEST_SUITE_P(Functions, Accuracy, ::testing::Range<std::size_t>(0, functions().size()),
                         [](const auto& info) {
                             const Function& f = functions()[info.param];
                             return f.name + (f.fuses ? "Fused" : "");
                         });

TEST(Functions, OfTheLanguageHaveAReferenceHereUnlessExact) {
    const std::vector<std::string> exact = {"abs", "ceil", "floor", "sqrt"};
    const auto check = [&](const std::string& name) {
        const auto has_name = [&](const Function& f) { return f.name == name; };
        EXPECT_TRUE(std::find(exact.begin(), exact.end(), name) != exact.end() ||
                    std::any_of(functions().begin(), functions().end(), has_name))
            << name;
    };
#define UNARY(name, op, operand, value) check(#name);
#include "quern/lang/functions.def"
}

}  // namespace
}  // namespace quern::math::testing

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/math/reference.h"

// NumPy's validation sets: inputs and exact results as bits, and how many representable numbers a
// result may be away.

namespace quern::math::testing {
namespace {

/// What NumPy calls it.
std::string numpy_name(const std::string& function) {
    const bool is_inverse = function[0] == 'a';
    return is_inverse ? "arc" + function.substr(1) : function;
}

std::string validation_set(const std::string& function) {
    const char* folder = std::getenv("QUERN_TEST_DATA");
    const std::string root = folder != nullptr ? folder : QUERN_SOURCE_DIR "/../shared/data";
    return root + "/numpy/umath-validation-set-" + numpy_name(function) + ".csv";
}

/// How many representable numbers lie between.
template <class T>
double steps(T got, T expected) {
    if (got != got || expected != expected)
        return got != got && expected != expected ? 0 : HUGE_VAL;
    const auto place = [](T x) {
        const auto magnitude = std::int64_t(std::bit_cast<BitsOf<T>>(std::fabs(x)));
        return std::signbit(x) ? -magnitude : magnitude;
    };
    return std::fabs(double(place(got) - place(expected)));
}

template <class T>
void check_row(const Function& f, T (*of)(T), const std::string& x, const std::string& result,
               double bound) {
    const auto parse = [](const std::string& text) {
        return std::bit_cast<T>(BitsOf<T>(std::stoull(text, nullptr, 16)));
    };
    const T got = of(parse(x));
    EXPECT_LE(steps(got, parse(result)), bound)
        << f.name << "(" << parse(x) << ") is " << got << ", expected " << parse(result);
}

TEST(NumpyValidationSets, AreMetWithinTheirBounds) {
    int rows = 0;
    for (const Function& f : functions()) {
        std::ifstream file(validation_set(f.name));
        for (std::string line; std::getline(file, line);) {
            std::istringstream fields(line);
            std::string dtype, x, result, bound;
            std::getline(fields, dtype, ',');
            std::getline(fields, x, ',');
            std::getline(fields, result, ',');
            std::getline(fields, bound, ',');
            if (dtype == "np.float32") {
                check_row<float>(f, f.of_float, x, result, std::stod(bound));
            } else if (dtype == "np.float64") {
                check_row<double>(f, f.of_double, x, result, std::stod(bound));
            } else {
                continue;
            }
            ++rows;
        }
    }
    if (rows == 0) GTEST_SKIP() << "no validation sets; expected " << validation_set("exp");
    EXPECT_EQ(rows, 2 * 26'610) << "each with and without fused products";
}

}  // namespace
}  // namespace quern::math::testing

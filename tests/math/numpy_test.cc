#include <gtest/gtest.h>

#include "tests/math/reference.h"
#include "tests/math/validation_sets.h"

namespace quern::math::testing {
namespace {

template <class T>
int check_rows(const Function& f, T (*of)(T)) {
    const auto rows = validation_rows<T>(f.name);
    for (const ValidationRow<T>& row : rows) {
        const T got = of(row.x);
        EXPECT_LE(steps(got, row.result), row.bound)
            << f.name << "(" << row.x << ") is " << got << ", expected " << row.result;
    }
    return int(rows.size());
}

TEST(NumpyValidationSets, AreMetWithinTheirBounds) {
    int rows = 0;
    for (const Function& f : functions()) {
        rows += check_rows<float>(f, f.of_float) + check_rows<double>(f, f.of_double);
    }
    if (rows == 0) GTEST_SKIP() << "no validation sets; expected " << validation_set("exp");
    EXPECT_EQ(rows, 2 * 26'610) << "each with and without fused products";
}

}  // namespace
}  // namespace quern::math::testing

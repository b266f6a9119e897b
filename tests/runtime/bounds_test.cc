#include "quern/runtime/bounds.h"

#include <gtest/gtest.h>

namespace quern {
namespace {

TEST(MachineBounds, OfACopyAndOfASumAreTheirRates) {
    const Bounds bounds{.copy = 40e9, .read = 50e9, .operations = 0};
    EXPECT_DOUBLE_EQ(bounds.seconds_of(20e9, 20e9), 1);
    EXPECT_DOUBLE_EQ(bounds.seconds_of(50e9, 0), 1);
    // 20 GB read take 0.4 s of the copy's second, so 20 GB written take 0.6 s.
    EXPECT_DOUBLE_EQ(bounds.seconds_of(0, 20e9), 0.6);
    EXPECT_DOUBLE_EQ(bounds.seconds_of(40e9, 20e9), 1.4);
}

TEST(MachineBounds, GiveTimeToReadWhereACopyIsTwiceAsFast) {
    const Bounds bounds{.copy = 120e9, .read = 50e9, .operations = 0};
    EXPECT_DOUBLE_EQ(bounds.seconds_of(50e9, 50e9), 1);
}

TEST(MachineBounds, AreMeasured) {
    const Bounds bounds = measure_bounds(1);
    EXPECT_GT(bounds.copy, 0);
    EXPECT_GT(bounds.read, 0);
}

}  // namespace
}  // namespace quern

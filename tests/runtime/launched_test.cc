#include "quern/runtime/launched.h"

#include <gtest/gtest.h>

#include <thread>

namespace quern {
namespace {

TEST(Launched, KnowsOfLaunchesOfItsThreadWhileItIsTheInnermost) {
    Launched::note(0, 1);
    const Launched outer;
    EXPECT_TRUE(outer.is_empty()) << "of before";
    {
        const Launched inner;
        Launched::note(0, 1);
        EXPECT_FALSE(inner.is_empty());
        EXPECT_TRUE(outer.is_empty()) << "work that is done inside other work";
    }
    std::thread([] { Launched::note(0, 1); }).join();
    EXPECT_TRUE(outer.is_empty()) << "of another thread";
    Launched::note(0, 0);
    EXPECT_TRUE(outer.is_empty()) << "one that has ended";
    Launched::note(0, 1);
    EXPECT_FALSE(outer.is_empty());
}

TEST(Launched, KnowsOfDevicesOfAnyNumber) {
    for (const std::size_t device : {1, 7, 8, 1000}) {
        const Launched launched;
        Launched::note(device, 5);
        EXPECT_FALSE(launched.is_empty()) << device;
    }
}

}  // namespace
}  // namespace quern

#include "quern/support/short_vector.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace quern {
namespace {

using List = ShortVector<int, 3>;

std::vector<int> entries(const List& list) { return {list.begin(), list.end()}; }

TEST(ShortVector, HoldsWhatAVectorHoldsAfterAnySeriesOfChanges) {
    std::mt19937 random(1);
    List list;
    List other;
    std::vector<int> expected;
    std::vector<int> expected_other;
    for (int step = 0; step < 20000; ++step) {
        const int value = static_cast<int>(random());
        switch (random() % 9) {
            case 0:
                list = other;
                expected = expected_other;
                break;
            case 1:
                list = std::exchange(other, List{});
                expected = std::exchange(expected_other, {});
                break;
            case 2:
                std::swap(list, other);
                std::swap(expected, expected_other);
                break;
            case 3:
                if (expected.empty()) break;
                list.erase(list.begin());
                expected.erase(expected.begin());
                break;
            case 4:
                if (expected.empty()) break;
                list.pop_back();
                expected.pop_back();
                break;
            case 5:
                if (random() % 8 != 0) break;
                list.truncate(expected.size() / 2);
                expected.resize(expected.size() / 2);
                break;
            default:
                list.push_back(value);
                expected.push_back(value);
        }
        ASSERT_EQ(entries(list), expected);
        ASSERT_EQ(entries(other), expected_other);
        ASSERT_EQ(list == other, expected == expected_other);
    }
}

TEST(ShortVector, IsCopiedAndMovedAtEverySize) {
    for (int size : {0, 1, 2, 3, 4, 5, 100}) {
        List list;
        for (int i = 0; i < size; ++i) list.push_back(i);
        const std::vector<int> expected = entries(list);
        List copy = list;
        EXPECT_EQ(entries(copy), expected);
        copy = *&copy;
        EXPECT_EQ(entries(copy), expected);
        const List moved = std::move(list);
        EXPECT_EQ(entries(moved), expected);
        EXPECT_TRUE(list.empty());
        list.push_back(7);
        EXPECT_EQ(entries(list), std::vector<int>{7});
    }
}

}  // namespace
}  // namespace quern

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "tests/tensor_test.h"

namespace quern {
namespace views_test {

using Integers = std::vector<std::int64_t>;

/// 0, 1, 2, ... in row-major order.
Tensor counting(const Shape& shape) {
    std::vector<int> values(static_cast<std::size_t>(element_count(shape)));
    std::iota(values.begin(), values.end(), 0);
    return Tensor::from(shape, values);
}

TEST(Permute, MovesAxesWithoutCopying) {
    const Tensor tensor = counting({2, 3, 4});
    const Tensor view = tensor.permute({2, 0, 1});
    EXPECT_EQ(view.shape(), (Shape{4, 2, 3}));
    EXPECT_EQ(view.strides(), (Integers{1, 12, 4}));
    EXPECT_TRUE(view.shares_storage_with(tensor));
    EXPECT_FALSE(view.is_contiguous());
    EXPECT_EQ(view.integers(), (Integers{0, 4, 8,  12, 16, 20, 1, 5, 9,  13, 17, 21,
                                         2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23}));
}

TEST(Permute, CountsNegativeAxesFromTheLast) {
    EXPECT_EQ(Tensor({2, 3, 4}).permute({-1, 0, -2}).shape(), (Shape{4, 2, 3}));
    EXPECT_EQ(Tensor().permute({}).rank(), 0);
}

TEST(Permute, RefusesWhatIsNoPermutation) {
    const Tensor tensor({2, 3});
    EXPECT_THROWS(ShapeError, "[permute] expected each of the 2 axes once, got [0, 0]",
                  tensor.permute({0, 0}));
    EXPECT_THROWS(ShapeError, "got [1, -1]", tensor.permute({1, -1}));
    EXPECT_THROWS(ShapeError, "got [0]", tensor.permute({0}));
    EXPECT_THROWS(ShapeError, "got [0, 1, 2]", tensor.permute({0, 1, 2}));
    EXPECT_THROWS(ShapeError, "[permute] expected axis in [-2, 2), got axis 2 of shape [2, 3]",
                  tensor.permute({0, 2}));
}

TEST(Slice, TakesEachStepThElementOfARange) {
    const Tensor tensor = counting({3, 10});
    const Tensor view = tensor.slice(1, 1, 9, 3);
    EXPECT_EQ(view.shape(), (Shape{3, 3}));
    EXPECT_EQ(view.integers(), (Integers{1, 4, 7, 11, 14, 17, 21, 24, 27}));
    EXPECT_TRUE(view.shares_storage_with(tensor));
    EXPECT_EQ(tensor.slice(1, 0, 10, 5).integers(), (Integers{0, 5, 10, 15, 20, 25}));
    EXPECT_EQ(tensor.slice(-2, 1, 2).slice(-1, 8, 10).integers(), (Integers{18, 19}));
    EXPECT_EQ(view.slice(1, 1, 3, 2).integers(), (Integers{4, 14, 24}));
}

TEST(Slice, MayBeEmptyOrTakeOneElementWithAHugeStep) {
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    const Tensor tensor = counting({4, 2});
    EXPECT_EQ(tensor.slice(0, 4, 4).shape(), (Shape{0, 2}));
    EXPECT_EQ(tensor.slice(0, 2, 2, kHuge).element_count(), 0);
    EXPECT_EQ(tensor.slice(0, 1, 4, kHuge).integers(), (Integers{2, 3}));
    EXPECT_EQ(tensor.slice(0, 4, 4).data(), tensor.data()) << "the address stays inside";
}

TEST(Slice, RefusesWhatLiesOutside) {
    const Tensor tensor({4, 2});
    EXPECT_THROWS(ShapeError,
                  "[slice] expected 0 <= begin <= end <= 4 on axis 0 of shape [4, 2], got 0 and 5",
                  tensor.slice(0, 0, 5));
    EXPECT_THROWS(ShapeError, "got -1 and 2", tensor.slice(0, -1, 2));
    EXPECT_THROWS(ShapeError, "got 3 and 2", tensor.slice(0, 3, 2));
    EXPECT_THROWS(ShapeError, "[slice] expected step >= 1, got 0", tensor.slice(0, 0, 2, 0));
    EXPECT_THROWS(ShapeError, "[slice] expected axis in [-2, 2), got axis 2",
                  tensor.slice(2, 0, 1));
}

TEST(Contiguity, IgnoresTheStridesOfAxesOfOneElement) {
    EXPECT_TRUE(counting({1, 4}).permute({1, 0}).is_contiguous());
    EXPECT_TRUE(counting({4, 3}).slice(0, 1, 3).is_contiguous());
    EXPECT_TRUE(counting({4, 3}).slice(0, 0, 4, 3).slice(0, 1, 2).is_contiguous());
    EXPECT_FALSE(counting({4, 3}).slice(1, 0, 2).is_contiguous());
    EXPECT_FALSE(counting({4, 3}).slice(0, 0, 4, 2).is_contiguous());
    int memory[4] = {};
    EXPECT_FALSE(Tensor::adopt(memory, {4}, DType::Int32, {0}).is_contiguous());
}

TEST(Contiguous, CopiesOnlyWhatIsNotInOrder) {
    const Tensor tensor = counting({2, 3});
    EXPECT_TRUE(tensor.contiguous().shares_storage_with(tensor));
    const Tensor copy = tensor.permute({1, 0}).contiguous();
    EXPECT_FALSE(copy.shares_storage_with(tensor));
    EXPECT_EQ(copy.strides(), (Integers{2, 1}));
    EXPECT_EQ(copy.integers(), (Integers{0, 3, 1, 4, 2, 5}));
}

TEST(Contiguous, FollowsViewsOfViews) {
    const Tensor view = counting({4, 5, 6}).slice(1, 1, 5, 2).permute({2, 1, 0}).slice(0, 2, 6, 3);
    ASSERT_EQ(view.shape(), (Shape{2, 2, 4}));
    Integers expected;
    for (const int k : {2, 5}) {
        for (const int j : {1, 3}) {
            for (const int i : {0, 1, 2, 3}) expected.push_back((i * 5 + j) * 6 + k);
        }
    }
    EXPECT_EQ(view.integers(), expected);
    EXPECT_EQ(view.contiguous().integers(), expected);
    EXPECT_EQ(view.to(DType::Float16).values(),
              std::vector<double>(expected.begin(), expected.end()));
}

TEST(Clone, CopiesOnlyTheElementsOfTheView) {
    const Tensor copy = counting({100}).slice(0, 10, 90, 40).clone();
    EXPECT_EQ(copy.integers(), (Integers{10, 50}));
    EXPECT_EQ(copy.strides(), (Integers{1}));
}

TEST(Reshape, SharesStorageWhenElementsAreInOrder) {
    const Tensor tensor = counting({2, 6});
    const Tensor view = tensor.reshape({3, 4});
    EXPECT_EQ(view.strides(), (Integers{4, 1}));
    EXPECT_TRUE(view.shares_storage_with(tensor));
    EXPECT_EQ(tensor.slice(0, 1, 2).reshape({3, 2}).integers(), (Integers{6, 7, 8, 9, 10, 11}));
}

TEST(Reshape, CopiesAfterAPermutation) {
    const Tensor tensor = counting({2, 3});
    const Tensor flat = tensor.permute({1, 0}).reshape({6});
    EXPECT_FALSE(flat.shares_storage_with(tensor));
    EXPECT_EQ(flat.integers(), (Integers{0, 3, 1, 4, 2, 5}));
}

TEST(Reshape, FindsTheExtentOfMinusOne) {
    EXPECT_EQ(counting({4, 6}).reshape({-1, 8}).shape(), (Shape{3, 8}));
    EXPECT_EQ(counting({4, 6}).reshape({-1}).shape(), (Shape{24}));
    EXPECT_EQ(counting({1}).reshape({}).rank(), 0);
    EXPECT_EQ(counting({1}).reshape({}).reshape({1, -1, 1}).shape(), (Shape{1, 1, 1}));
    EXPECT_EQ(Tensor({0, 3}).reshape({3, -1}).shape(), (Shape{3, 0}));
}

TEST(Reshape, RefusesOtherNumbersOfElements) {
    const Tensor tensor({2, 3});
    EXPECT_THROWS(ShapeError, "[reshape] expected a shape of 6 elements as in [2, 3], got [4, 2]",
                  tensor.reshape({4, 2}));
    EXPECT_THROWS(ShapeError, "[reshape] expected at most one extent of -1, got [-1, -1]",
                  tensor.reshape({-1, -1}));
    EXPECT_THROWS(ShapeError,
                  "[reshape] expected extents that leave -1 one value for 6 elements, got [4, -1]",
                  tensor.reshape({4, -1}));
    EXPECT_THROWS(ShapeError, "leave -1 one value", Tensor({0}).reshape({0, -1}));
    EXPECT_THROWS(ShapeError, "expected extents >= 0", tensor.reshape({-2, -3}));
}

TEST(Split, GivesEqualViews) {
    const Tensor tensor = counting({2, 6});
    const std::vector<Tensor> parts = tensor.split(3, -1);
    ASSERT_EQ(parts.size(), 3u);
    EXPECT_EQ(parts[0].integers(), (Integers{0, 1, 6, 7}));
    EXPECT_EQ(parts[2].integers(), (Integers{4, 5, 10, 11}));
    EXPECT_TRUE(parts[1].shares_storage_with(tensor));
    EXPECT_EQ(Tensor({0, 2}).split(2, 0)[1].shape(), (Shape{0, 2}));
}

TEST(Split, RefusesARemainder) {
    const Tensor tensor({2, 6});
    EXPECT_THROWS(ShapeError,
                  "[split] expected a number of equal parts of 6 on axis 1 of shape [2, 6], got 4",
                  tensor.split(4, 1));
    EXPECT_THROWS(ShapeError, "got 0", tensor.split(0, 1));
    EXPECT_THROWS(ShapeError, "got -2", tensor.split(-2, 1));
    EXPECT_THROWS(ShapeError, "[split] expected axis in [-2, 2), got axis 2", tensor.split(2, 2));
}

}  // namespace views_test
}  // namespace quern

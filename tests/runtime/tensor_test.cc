#include "quern/tensor.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>

#include "quern/memory.h"

#ifdef __linux__
#include <sys/resource.h>
#endif

#include "tests/sanitized.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

/// 0, 1, 2, ... in row-major order.
Tensor counting(const Shape& shape) {
    std::vector<int> values(static_cast<std::size_t>(element_count(shape)));
    std::iota(values.begin(), values.end(), 0);
    return Tensor::from(shape, values);
}

using Integers = std::vector<std::int64_t>;

TEST(Shapes, CountTheirElements) {
    EXPECT_EQ(element_count({}), 1);
    EXPECT_EQ(element_count({7}), 7);
    EXPECT_EQ(element_count({2, 3, 4}), 24);
    EXPECT_EQ(element_count({2, 0, 4}), 0);
    EXPECT_EQ(element_count({std::int64_t{1} << 59}), std::int64_t{1} << 59);
}

TEST(Shapes, ArePrintedInBrackets) {
    EXPECT_EQ(to_string(Shape{}), "[]");
    EXPECT_EQ(to_string(Shape{2, 3}), "[2, 3]");
}

TEST(Shapes, RefuseNegativeExtentsAndOverflow) {
    constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
    EXPECT_THROWS(ShapeError, "[shape] E0617: expected extents >= 0, got [2, -3]",
                  element_count({2, -3}));
    EXPECT_THROWS(ShapeError, "expected extents >= 0", element_count({0, -1}));
    EXPECT_THROWS(ShapeError, "expected extents >= 0", element_count({-kHuge - 1}));
    EXPECT_THROWS(ShapeError,
                  "[shape] E0618: expected at most 2^59 elements, got [576460752303423489]",
                  element_count({(std::int64_t{1} << 59) + 1}));
    EXPECT_THROWS(ShapeError, "at most 2^59", element_count({std::int64_t{1} << 30, 1 << 30}));
    EXPECT_THROWS(ShapeError, "at most 2^59", element_count({kHuge, kHuge}));
    EXPECT_THROWS(ShapeError, "at most 2^59", element_count({0, kHuge, kHuge}));
    EXPECT_THROWS(ShapeError, "at most 2^59", Tensor({kHuge, 0, 2}));
    EXPECT_THROWS(ShapeError, "expected extents >= 0", Tensor({-1}));
}

TEST(Tensors, AreAScalarZeroByDefault) {
    const Tensor tensor;
    EXPECT_EQ(tensor.rank(), 0);
    EXPECT_EQ(tensor.dtype(), DType::Float32);
    EXPECT_EQ(tensor.element_count(), 1);
    EXPECT_EQ(tensor.bytes(), 4u);
    EXPECT_EQ(tensor.item(), 0.0);
    EXPECT_TRUE(tensor.is_contiguous());
}

TEST(Tensors, StartAsAlignedZeros) {
    for (const DType dtype : kAllDTypes) {
        const Tensor tensor({3, 5, 7}, dtype);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0u);
        EXPECT_EQ(tensor.bytes(), 105 * size_of(dtype));
        EXPECT_EQ(tensor.strides(), (Integers{35, 7, 1}));
        EXPECT_EQ(tensor.values(), std::vector<double>(105, 0.0)) << to_string(dtype);
    }
}

TEST(Tensors, MayHaveNoElements) {
    const Tensor tensor({4, 0, 3}, DType::Int32);
    EXPECT_EQ(tensor.element_count(), 0);
    EXPECT_EQ(tensor.bytes(), 0u);
    EXPECT_NE(tensor.data(), nullptr);
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(tensor.strides(), (Integers{3, 3, 1}));
    EXPECT_TRUE(tensor.values().empty());
    EXPECT_TRUE(tensor.integers().empty());
    EXPECT_EQ(tensor.permute({2, 0, 1}).shape(), (Shape{3, 4, 0}));
    EXPECT_EQ(tensor.to(DType::Float16).shape(), (Shape{4, 0, 3}));
    EXPECT_EQ(tensor.slice(0, 4, 4).shape(), (Shape{0, 0, 3}));
    EXPECT_EQ(tensor.reshape({0}).shape(), (Shape{0}));
    EXPECT_EQ(tensor.clone().element_count(), 0);
}

TEST(Tensors, SayHowMuchMemoryIsMissing) {
    EXPECT_THROWS(OutOfMemory,
                  "[tensor] expected room for 4611686018427387904 bytes, got none from the system",
                  Tensor({std::int64_t{1} << 59}, DType::Float64));
    // What the pool has: two blocks of 1 MiB that touch neither each other nor the rest.
    trim_memory();
    std::vector<Tensor> all;
    for (int i = 0; i < 31; ++i) all.push_back(Tensor({1 << 18}));
    all[3] = all[10] = Tensor();
    try {
        Tensor({std::int64_t{1} << 59});
        FAIL() << "there is room";
    } catch (const OutOfMemory& error) {
        const std::string said = error.what();
        const std::string behind = "got none from the system; ";
        const std::size_t at = said.find(behind);
        ASSERT_NE(at, std::string::npos) << said;
        unsigned long long free = 0, largest = 0;
        const char* const numbers = said.c_str() + at + behind.size();
        ASSERT_EQ(std::sscanf(numbers, "%llu bytes are free, %llu in one block", &free, &largest),
                  2)
            << said;
        EXPECT_GE(free, 2u << 20);
        EXPECT_GE(largest, 1u << 20);
        EXPECT_LE(largest, free);
        EXPECT_EQ(free, memory_counters().held - memory_counters().live);
    }
}

#ifdef __linux__
TEST(Tensors, SurviveASystemThatRefusesMemory) {
    if (kSanitized) GTEST_SKIP() << "a sanitizer ends the program where malloc returns null";
    EXPECT_EXIT(
        {
            rlimit limit;
            limit.rlim_cur = limit.rlim_max = rlim_t{1} << 32;
            ::setrlimit(RLIMIT_AS, &limit);
            const bool refused = bool(throws<OutOfMemory>([] { Tensor({std::int64_t{1} << 31}); },
                                                          "expected room for 8589934592 bytes"));
            std::_Exit(refused ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}
#endif

TEST(Tensors, AnswerForEachAxis) {
    const Tensor tensor({2, 3, 4});
    EXPECT_EQ(tensor.shape(0), 2);
    EXPECT_EQ(tensor.shape(2), 4);
    EXPECT_EQ(tensor.shape(-1), 4);
    EXPECT_EQ(tensor.shape(-3), 2);
    EXPECT_THROWS(ShapeError, "[shape] expected axis in [-3, 3), got axis 3 of shape [2, 3, 4]",
                  tensor.shape(3));
    EXPECT_THROWS(ShapeError, "got axis -4", tensor.shape(-4));
    EXPECT_THROWS(ShapeError, "[shape] expected a tensor with an axis, got axis 0 of shape []",
                  Tensor().shape(0));
}

TEST(Tensors, ShareElementsWithTheirCopies) {
    Tensor tensor = counting({3});
    const Tensor copy = tensor;
    const Tensor apart = tensor.clone();
    tensor.data<int>()[1] = 9;
    EXPECT_EQ(copy.integers(), (Integers{0, 9, 2}));
    EXPECT_EQ(apart.integers(), (Integers{0, 1, 2}));
    EXPECT_TRUE(copy.shares_storage_with(tensor));
    EXPECT_FALSE(apart.shares_storage_with(tensor));
}

TEST(From, TakesAllStandardNumbers) {
    EXPECT_EQ(Tensor::from<bool>({2}, {true, false}).dtype(), DType::Bool);
    EXPECT_EQ(Tensor::from<std::int8_t>({1}, {-1}).dtype(), DType::Int8);
    EXPECT_EQ(Tensor::from<std::int16_t>({1}, {-1}).dtype(), DType::Int16);
    EXPECT_EQ(Tensor::from<std::int32_t>({1}, {-1}).dtype(), DType::Int32);
    EXPECT_EQ(Tensor::from<std::int64_t>({1}, {-1}).dtype(), DType::Int64);
    EXPECT_EQ(Tensor::from<long long>({1}, {-1}).dtype(), DType::Int64);
    EXPECT_EQ(Tensor::from<std::uint8_t>({1}, {1}).dtype(), DType::UInt8);
    EXPECT_EQ(Tensor::from<std::uint16_t>({1}, {1}).dtype(), DType::UInt16);
    EXPECT_EQ(Tensor::from<std::uint32_t>({1}, {1}).dtype(), DType::UInt32);
    EXPECT_EQ(Tensor::from<std::uint64_t>({1}, {1}).dtype(), DType::UInt64);
    EXPECT_EQ(Tensor::from<unsigned long long>({1}, {1}).dtype(), DType::UInt64);
    EXPECT_EQ(Tensor::from<float>({1}, {1}).dtype(), DType::Float32);
    EXPECT_EQ(Tensor::from({1}, {1.5}).dtype(), DType::Float64);
}

TEST(From, CopiesInRowMajorOrder) {
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    EXPECT_EQ(Tensor::from({2, 3}, values).values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(Tensor::from<float>({2}, std::span(values).last(2)).values(),
              (std::vector<double>{5, 6}));
}

TEST(From, CopiesVectorsOfBool) {
    const Tensor tensor = Tensor::from({3}, std::vector<bool>{true, false, true});
    EXPECT_EQ(tensor.dtype(), DType::Bool);
    EXPECT_EQ(tensor.integers(), (Integers{1, 0, 1}));
    EXPECT_THROWS(ShapeError, "[from] expected 2 values for shape [2], got 1",
                  Tensor::from({2}, std::vector<bool>{true}));
}

TEST(From, RefusesAnotherNumberOfValues) {
    EXPECT_THROWS(ShapeError, "[from] expected 6 values for shape [2, 3], got 5",
                  Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5}));
    EXPECT_THROWS(ShapeError, "[from] expected 0 values for shape [0], got 1",
                  Tensor::from<float>({0}, {1}));
    EXPECT_THROWS(ShapeError, "expected extents >= 0", Tensor::from<float>({-1}, {1}));
}

TEST(Adopt, ReleasesOnceAfterTheLastTensor) {
    int released = 0;
    float memory[6] = {1, 2, 3, 4, 5, 6};
    {
        Tensor last({1});
        {
            const Tensor tensor =
                Tensor::adopt(memory, {2, 3}, DType::Float32, {}, [&] { ++released; });
            EXPECT_EQ(tensor.data(), memory);
            last = tensor.slice(1, 1, 3).permute({1, 0});
        }
        EXPECT_EQ(released, 0);
        EXPECT_EQ(last.values(), (std::vector<double>{2, 5, 3, 6}));
        last.data<float>()[0] = 9;
    }
    EXPECT_EQ(released, 1);
    EXPECT_EQ(memory[1], 9);
}

TEST(Adopt, TakesStridesOfEveryKind) {
    int memory[] = {1, 2, 3, 4, 5, 6};
    EXPECT_EQ(Tensor::adopt(memory, {3, 2}, DType::Int32, {1, 3}).integers(),
              (Integers{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(Tensor::adopt(memory, {2, 3}, DType::Int32, {0, 1}).integers(),
              (Integers{1, 2, 3, 1, 2, 3}));
    EXPECT_EQ(Tensor::adopt(memory, {2, 3}, DType::Int32, {1, 1}).integers(),
              (Integers{1, 2, 3, 2, 3, 4}));
    EXPECT_EQ(Tensor::adopt(memory + 5, {6}, DType::Int32, {-1}).integers(),
              (Integers{6, 5, 4, 3, 2, 1}));
    EXPECT_EQ(Tensor::adopt(memory, {}, DType::Int32).item(), 1);
    EXPECT_TRUE(Tensor::adopt(nullptr, {0, 4, 2}, DType::Int32, {12, 3, 1}).values().empty());
}

TEST(Adopt, RefusesWhatItCannotReach) {
    int memory[6] = {};
    int released = 0;
    const auto release = [&] { ++released; };
    EXPECT_THROWS(ShapeError, "[adopt] expected a stride for each axis of [2, 3], got strides [1]",
                  Tensor::adopt(memory, {2, 3}, DType::Int32, {1}, release));
    EXPECT_THROWS(ShapeError,
                  "[adopt] expected strides that reach at most 2^59 elements far, got [",
                  Tensor::adopt(memory, {8}, DType::Int32, {std::int64_t{1} << 57}, release));
    EXPECT_THROWS(ShapeError, "reach at most 2^59",
                  Tensor::adopt(memory, {8}, DType::Int32, {-(std::int64_t{1} << 57)}, release));
    EXPECT_THROWS(ValueError, "[adopt] expected the address of 6 elements, got null",
                  Tensor::adopt(nullptr, {6}, DType::Int32, {}, release));
    EXPECT_THROWS(ShapeError, "expected extents >= 0",
                  Tensor::adopt(memory, {-6}, DType::Int32, {}, release));
    EXPECT_EQ(released, 0);
    EXPECT_EQ(Tensor::adopt(nullptr, {0}, DType::Int32, {}, release).element_count(), 0);
    EXPECT_EQ(released, 1);
}

TEST(Data, HasTheTypeOfTheElements) {
    Tensor f16({2}, DType::Float16), boolean({2}, DType::Bool), e4m3({2}, DType::Float8E4M3);
    f16.data<std::uint16_t>()[1] = 0x3C00;
    e4m3.data<std::uint8_t>()[1] = 0x38;
    boolean.data<bool>()[1] = true;
    for (const Tensor& tensor : {f16, boolean, e4m3}) {
        EXPECT_EQ(tensor.values(), (std::vector<double>{0, 1}));
    }
    EXPECT_EQ(Tensor({1}, DType::BFloat16).data<std::uint16_t>()[0], 0);
    EXPECT_EQ(Tensor({1}, DType::Float8E5M2).data<std::uint8_t>()[0], 0);
    EXPECT_EQ(std::as_const(f16).data<std::uint16_t>()[1], 0x3C00);
}

TEST(Data, RefusesOtherTypes) {
    Tensor tensor({2}, DType::Float16);
    EXPECT_THROWS(DTypeError,
                  "[data] expected a pointer to uint16 for elements of float16, got one to float32",
                  tensor.data<float>());
    EXPECT_THROWS(DTypeError, "expected a pointer to bool for elements of bool, got one to uint8",
                  Tensor({1}, DType::Bool).data<std::uint8_t>());
    EXPECT_THROWS(DTypeError, "got one to int32", Tensor({1}, DType::UInt32).data<int>());
    EXPECT_THROWS(DTypeError, "got one to float64", Tensor({1}).data<double>());
    EXPECT_THROWS(DTypeError, "got one to int16", std::as_const(tensor).data<std::int16_t>());
}

TEST(Item, IsTheOnlyElement) {
    EXPECT_EQ(Tensor::from<float>({1, 1}, {2.5f}).item(), 2.5);
    EXPECT_EQ(counting({4}).slice(0, 2, 3).item(), 2);
    EXPECT_THROWS(ShapeError, "[item] expected a tensor of one element, got shape [2]",
                  Tensor({2}).item());
    EXPECT_THROWS(ShapeError, "got shape [0]", Tensor({0}).item());
}

TEST(IntegerValues, AreExactAndRefuseFloats) {
    const std::int64_t large = (std::int64_t{1} << 53) + 1;
    EXPECT_EQ(Tensor::from<std::int64_t>({1}, {large}).integers(), (Integers{large}));
    EXPECT_EQ(Tensor::from<std::uint64_t>({1}, {~std::uint64_t{0}}).integers(), (Integers{-1}));
    EXPECT_THROWS(DTypeError, "[integers] expected an integer dtype or bool, got bfloat16",
                  Tensor({1}, DType::BFloat16).integers());
}

}  // namespace
}  // namespace quern

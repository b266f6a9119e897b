#include <gtest/gtest.h>

#include <numeric>

#include "tests/tensor_test.h"

namespace quern {
namespace {

// What is expected here is what NumPy prints for the same elements, below a line of our own.

TEST(Printing, StartsWithDTypeAndShape) {
    EXPECT_EQ(to_string(Tensor({2}, DType::BFloat16)), "bfloat16 [2]\n[0. 0.]");
    EXPECT_EQ(to_string(Tensor()), "float32 []\n0.");
    EXPECT_EQ(to_string(Tensor({2, 0, 3}, DType::Int8)), "int8 [2, 0, 3]\n[]");
}

TEST(Printing, AlignsPointsAndSigns) {
    EXPECT_EQ(to_string(Tensor::from<float>({2, 3}, {1, 2.5f, -3, 4, 0.1f, 100})),
              "float32 [2, 3]\n"
              "[[  1.    2.5  -3. ]\n"
              " [  4.    0.1 100. ]]");
    EXPECT_EQ(to_string(Tensor::from<double>({3}, {-0.0, -0.5, -12})),
              "float64 [3]\n[ -0.   -0.5 -12. ]");
    EXPECT_EQ(to_string(Tensor::from<int>({2, 2}, {1, -20, 300, 4})),
              "int32 [2, 2]\n"
              "[[  1 -20]\n"
              " [300   4]]");
    EXPECT_EQ(to_string(Tensor::from({3}, std::vector<bool>{true, false, true})),
              "bool [3]\n[ true false  true]");
}

TEST(Printing, SeparatesOuterAxesByEmptyLines) {
    EXPECT_EQ(to_string(Tensor::from<int>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})),
              "int32 [2, 2, 2]\n"
              "[[[0 1]\n"
              "  [2 3]]\n"
              "\n"
              " [[4 5]\n"
              "  [6 7]]]");
    EXPECT_EQ(to_string(Tensor::from<int>({2, 1, 1, 1}, {0, 1})),
              "int32 [2, 1, 1, 1]\n"
              "[[[[0]]]\n"
              "\n"
              "\n"
              " [[[1]]]]");
}

TEST(Printing, UsesAsFewDigitsAsTheDTypeNeeds) {
    const Tensor third = Tensor::from<double>({1}, {1.0 / 3});
    EXPECT_EQ(to_string(third), "float64 [1]\n[0.33333333]");
    EXPECT_EQ(to_string(third.to(DType::Float32)), "float32 [1]\n[0.33333334]");
    EXPECT_EQ(to_string(third.to(DType::Float16)), "float16 [1]\n[0.3333]");
    EXPECT_EQ(to_string(third.to(DType::BFloat16)), "bfloat16 [1]\n[0.334]");
    EXPECT_EQ(to_string(third.to(DType::Float8E4M3)), "float8_e4m3 [1]\n[0.34]");
    EXPECT_EQ(to_string(third.to(DType::Float8E5M2)), "float8_e5m2 [1]\n[0.3]");
    EXPECT_EQ(to_string(Tensor::from<float>({2}, {0.1f, 16777216})),
              "float32 [2]\n[1.0000000e-01 1.6777216e+07]");
}

TEST(Printing, RoundsToEightDigitsAfterThePointOnce) {
    // The shortest decimal of this double is 0.123456785; the double itself is below it.
    EXPECT_EQ(to_string(Tensor::from<double>({1}, {0.123456785})), "float64 [1]\n[0.12345678]");
    EXPECT_EQ(to_string(Tensor::from<double>({1}, {0.999999999})), "float64 [1]\n[1.]");
    EXPECT_EQ(to_string(Tensor::from<double>({1}, {1.999999999e10})), "float64 [1]\n[2.e+10]");
}

TEST(Printing, TurnsToExponentsForWideRanges) {
    EXPECT_EQ(to_string(Tensor::from<double>({5}, {1e10, 1.5, 0, -3, kNaN})),
              "float64 [5]\n[ 1.0e+10  1.5e+00  0.0e+00 -3.0e+00      nan]");
    EXPECT_EQ(to_string(Tensor::from<double>({2}, {-1e300, 1e-300})),
              "float64 [2]\n[-1.e+300  1.e-300]");
    EXPECT_EQ(to_string(Tensor::from<double>({2}, {1e5, 99})), "float64 [2]\n[1.0e+05 9.9e+01]");
    EXPECT_EQ(to_string(Tensor::from<double>({2}, {1e5, 100})), "float64 [2]\n[100000.    100.]");
    EXPECT_EQ(to_string(Tensor::from<double>({1}, {1e8})), "float64 [1]\n[1.e+08]");
    EXPECT_EQ(to_string(Tensor::from<double>({1}, {99999999})), "float64 [1]\n[99999999.]");
    EXPECT_EQ(to_string(Tensor::from<double>({1}, {1e-4})), "float64 [1]\n[0.0001]");
    EXPECT_EQ(to_string(Tensor::from<double>({1}, {9.9e-5})), "float64 [1]\n[9.9e-05]");
}

TEST(Printing, ShowsWhatIsNotFinite) {
    EXPECT_EQ(to_string(Tensor::from<double>({4}, {kNaN, kInfinity, -kInfinity, 1.25})),
              "float64 [4]\n[ nan  inf -inf 1.25]");
    EXPECT_EQ(to_string(Tensor::from<double>({2}, {kNaN, kInfinity})), "float64 [2]\n[nan inf]");
}

TEST(Printing, ShowsWholeNumbersOf64Bits) {
    EXPECT_EQ(to_string(Tensor::from<std::uint64_t>({1}, {~std::uint64_t{0}})),
              "uint64 [1]\n[18446744073709551615]");
    EXPECT_EQ(to_string(Tensor::from<std::int64_t>({1}, {INT64_MIN})),
              "int64 [1]\n[-9223372036854775808]");
}

TEST(Printing, BreaksLongRows) {
    std::vector<int> values(30);
    std::iota(values.begin(), values.end(), 100);
    const Tensor tensor = Tensor::from({30}, values);
    EXPECT_EQ(to_string(tensor),
              "int32 [30]\n"
              "[100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117\n"
              " 118 119 120 121 122 123 124 125 126 127 128 129]");
    EXPECT_EQ(to_string(tensor.reshape({1, 30})),
              "int32 [1, 30]\n"
              "[[100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117\n"
              "  118 119 120 121 122 123 124 125 126 127 128 129]]");
}

TEST(Printing, KeepsRoomForTheClosingBracket) {
    std::vector<int> values(15);
    std::iota(values.begin(), values.end(), 1000);
    EXPECT_EQ(to_string(Tensor::from({15}, values)),
              "int32 [15]\n"
              "[1000 1001 1002 1003 1004 1005 1006 1007 1008 1009 1010 1011 1012 1013\n"
              " 1014]");
}

TEST(Printing, LeavesTheMiddleOutAboveAThousandElements) {
    std::vector<int> values(1001);
    std::iota(values.begin(), values.end(), 0);
    const Tensor tensor = Tensor::from({1001}, values);
    EXPECT_EQ(to_string(tensor), "int32 [1001]\n[   0    1    2 ...  998  999 1000]");
    EXPECT_EQ(to_string(tensor.slice(0, 0, 1000)).find("..."), std::string::npos);
    EXPECT_EQ(to_string(Tensor({7, 200}, DType::UInt8)),
              "uint8 [7, 200]\n"
              "[[0 0 0 ... 0 0 0]\n"
              " [0 0 0 ... 0 0 0]\n"
              " [0 0 0 ... 0 0 0]\n"
              " ...\n"
              " [0 0 0 ... 0 0 0]\n"
              " [0 0 0 ... 0 0 0]\n"
              " [0 0 0 ... 0 0 0]]");
    EXPECT_EQ(to_string(Tensor({2, 6, 200}, DType::UInt8)).find("\n  ..."), std::string::npos);
}

TEST(Printing, FollowsStrides) {
    const Tensor tensor = Tensor::from<int>({2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(to_string(tensor.permute({1, 0}).slice(0, 0, 3, 2)),
              "int32 [2, 2]\n"
              "[[1 4]\n"
              " [3 6]]");
}

}  // namespace
}  // namespace quern

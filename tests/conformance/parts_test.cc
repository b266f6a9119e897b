// Kernels that read parts of declared axes or store blocks of rows, against loops in C++.
#include "tests/conformance/operands.h"

namespace quern {
namespace {

Tensor run_text(const std::string& header, const std::string& body,
                const std::vector<Tensor>& operands) {
    return Kernel("compute(" + header + ") {\n@kernel custom\n" + body + "\n}").run(operands, {});
}

std::vector<float> floats(const Tensor& tensor) {
    const std::vector<double> values = tensor.values();
    return {values.begin(), values.end()};
}

TEST(PartsOfAxes, DifferencesOfNeighboursAreExact) {
    for (const std::int64_t n : {1, 2, 5, 64, 257}) {
        const Tensor x = uniform({n}, 1);
        const Tensor result =
            run_text("x: [m]", "for i in 0..m - 1: out[i] = x[i + 1] - x[i]", {x});
        const Tensor same = run_text("x: [m + 1]", "for i in 0..m: out[i] = x[i + 1] - x[i]", {x});
        const std::vector<float> in = floats(x), out = floats(result);
        ASSERT_EQ(result.shape(), Shape{n - 1});
        for (std::size_t i = 0; i + 1 < in.size(); ++i) EXPECT_EQ(out[i], in[i + 1] - in[i]) << i;
        EXPECT_TRUE(same_bits(result, same));
    }
}

TEST(PartsOfAxes, ATableMayHaveMoreRowsThanAreRead) {
    const std::string header = "x: [n, d], table: [most, d]";
    const std::string body = "for i in 0..n, j in 0..d: out[i, j] = x[i, j] + table[i, j]";
    for (const std::int64_t rows : {0, 1, 7, 33}) {
        const Tensor x = uniform({rows, 19}, 1), table = uniform({33, 19}, 2);
        const std::vector<float> a = floats(x), b = floats(table),
                                 out = floats(run_text(header, body, {x, table}));
        ASSERT_EQ(out.size(), a.size());
        for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(out[i], a[i] + b[i]) << i;
    }
    EXPECT_THROWS(KernelError, "error[E0507]",
                  run_text(header, body, {uniform({34, 19}, 1), uniform({33, 19}, 2)}));
}

TEST(PartsOfAxes, AGuardReadsAsFarAsADeclaredDimension) {
    const std::string header = "x: [most], y: [n]";
    const std::string body =
        "for i in 0..64:\n  var v = 0.0\n  if i < n: v = x[i] - y[i]\n  out[i] = v";
    const Tensor x = uniform({50}, 1), y = uniform({37}, 2);
    const std::vector<float> a = floats(x), b = floats(y),
                             out = floats(run_text(header, body, {x, y}));
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], i < 37 ? a[i] - b[i] : 0) << i;
    EXPECT_THROWS(KernelError, "error[E0507]", run_text(header, body, {y, x}));
}

TEST(PartsOfAxes, WhatAGuardProvesIsNotProvenBehindIt) {
    const auto of = [](const std::string& behind, std::int64_t count) {
        return floats(run_text(
            "x: [n]",
            "for i in 0..64:\n  var v = 0.0\n  if i < n: v = x[i]\n  " + behind + "\n  out[i] = v",
            {uniform({count}, 1)}));
    };
    const std::vector<float> x = floats(uniform({64}, 1)), twice = of("v += x[i]", 64);
    for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(twice[i], x[i] + x[i]) << i;
    EXPECT_THROWS(KernelError, "error[E0507]", of("v += x[i]", 63));
    EXPECT_THROWS(KernelError, "error[E0507]", of("if i < n + 1: v += x[i]", 63));
}

TEST(PartsOfAxes, RowsOfCompressedStorageAddUp) {
    const Tensor first = Tensor::from({6}, {0, 3, 3, 4, 20, 40}).to(DType::Int32);
    const Tensor values = random_tensor({40}, DType::Int32, 3).to(DType::Int64);
    const Tensor result = run_text("first: [rows + 1], values: [n]",
                                   "for r in 0..rows:\n  var sum = 0\n  for k in "
                                   "first[r]..first[r + 1]: sum += values[k]\n  out[r] = sum",
                                   {first, values});
    const std::vector<double> ends = first.values(), in = values.values(), out = result.values();
    ASSERT_EQ(result.shape(), Shape{5});
    for (std::size_t r = 0; r < 5; ++r) {
        double sum = 0;
        for (auto k = std::size_t(ends[r]); k < std::size_t(ends[r + 1]); ++k) sum += in[k];
        EXPECT_EQ(out[r], sum) << r;
    }
}

TEST(PartsOfAxes, LoopsBetweenDataThatAreFarApartFailInTheirFirstIteration) {
    const Tensor x = uniform({8}, 1);
    const auto run_between = [&](const std::string& loop, std::vector<std::int64_t> at) {
        const auto count = std::int64_t(at.size());
        const Tensor data = Tensor::adopt(at.data(), {count}, DType::Int64).clone();
        return run_text(
            "first: [rows + 1], x: [n]",
            "for r in 0..rows:\n  var s = 0.0\n  for k in " + loop + ": s += x[k]\n  out[r] = s",
            {data, x});
    };
    const std::string rows = "first[r]..first[r + 1]";
    EXPECT_EQ(floats(run_between(rows, {3, 3, 2}))[1], 0);
    EXPECT_EQ(floats(run_between(rows, {INT64_MAX, 3, INT64_MIN})), (std::vector<float>{0, 0}));
    EXPECT_THROWS(KernelError, "error[E0507]", run_between(rows, {0, -2, INT64_MAX}));
    EXPECT_THROWS(KernelError, "error[E0507]", run_between(rows, {INT64_MIN, 3, 8}));
    EXPECT_THROWS(KernelError, "error[E0507]", run_between("first[r]..n", {INT64_MIN + 8, 3}));
    EXPECT_THROWS(KernelError, "error[E0507]", run_between("0..first[r] step 3", {INT64_MAX, 3}));
    EXPECT_THROWS(KernelError, "error[E0507]", run_between("0..first[r]", {INT64_MAX, 3}));
}

TEST(PartsOfAxes, AnAxisIsReadBackwards) {
    for (const std::int64_t n : {0, 1, 37, 256}) {
        const Tensor x = uniform({n}, 1);
        std::vector<float> in = floats(x);
        std::ranges::reverse(in);
        EXPECT_EQ(floats(run_text("x", "for i in 0..n: out[i] = x[n - 1 - i]", {x})), in);
    }
}

TEST(BlocksOfRows, StoreEachRowOnce) {
    const std::string body =
        "for j in i..min(i + 4, n):\n    var sum = 0.0\n    for k in 0..m: sum += x[j, k]\n    "
        "out[j] = sum";
    for (const std::int64_t n : {0, 1, 3, 4, 30, 65}) {
        const Tensor x = random_tensor({n, 5}, DType::Float32, 4);
        const std::vector<float> in = floats(x);
        for (const char* first : {"", "  let half = 0.5\n"}) {
            const std::vector<float> out = floats(run_text(
                "x: [n, m]", std::string("for i in 0..n step 4:\n") + first + "  " + body, {x}));
            ASSERT_EQ(out.size(), std::size_t(n));
            for (std::size_t r = 0; r < out.size(); ++r) {
                float sum = 0;
                for (std::size_t k = 0; k < 5; ++k) sum += in[5 * r + k];
                EXPECT_EQ(out[r], sum) << r;
            }
        }
    }
}

}  // namespace
}  // namespace quern

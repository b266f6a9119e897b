#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "tests/interpret/kernels.h"

// The fixed tree, against its definition written down as a recursion over lists.

namespace quern::interpret::testing {
namespace {

constexpr std::int64_t kCounts[] = {0,  1,   3,   4,   5,    7,    8,    15,   16,   17,    31,
                                    33, 255, 256, 257, 1023, 4095, 4096, 4097, 8192, 10000, 70000};

template <class C>
using Combine = std::function<C(C, C)>;

/// The value of the tree over a list.
template <class C>
C tree(const std::vector<C>& list, const Combine<C>& op, C identity) {
    if (list.size() > 4096) {
        std::vector<C> results;
        for (std::size_t begin = 0; begin < list.size(); begin += 4096) {
            const auto end = std::min(list.size(), begin + 4096);
            results.push_back(tree(std::vector<C>(list.begin() + std::ptrdiff_t(begin),
                                                  list.begin() + std::ptrdiff_t(end)),
                                   op, identity));
        }
        return tree(results, op, identity);
    }
    std::vector<C> partials(16, identity);
    for (std::size_t k = 0; k < list.size(); ++k) {
        partials[k % 16] = op(partials[k % 16], list[k]);
    }
    for (std::size_t half = 8; half >= 1; half /= 2) {
        for (std::size_t j = 0; j < half; ++j) partials[j] = op(partials[j], partials[j + half]);
    }
    return partials[0];
}

/// var = init; for k: var op= x[k]; out = var.
Kernel reduction(DType dtype, BinaryOp op, ExprId (*init)(Build&)) {
    Build b;
    const BufferId x = b.operand("x", dtype, 1);
    const BufferId out = b.output("out", dtype, {});
    const SymbolId v = b.var("v", init(b));
    const ExprId k = b.loop("k", b.extent(x), {v});
    b.accumulate(v, op, b.at(x, {k}));
    b.end_for();
    b.store(out, {}, b.read(v));
    return b.take();
}

/// Numbers of which sums depend on the order.
std::vector<double> numbers(std::int64_t count, double scale, unsigned seed = 1) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    std::vector<double> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back(normal(random) * scale);
    return list;
}

float half(double x) { return float_from_float16(float16_from_double(x)); }
float brain(double x) { return float_from_bfloat16(bfloat16_from_double(x)); }

float larger(float x, float y) { return std::isnan(x) || std::isnan(y) ? NAN : (x > y ? x : y); }
float smaller(float x, float y) { return std::isnan(x) || std::isnan(y) ? NAN : (x < y ? x : y); }

TEST(Tree, AddsFloatsInTheFixedOrder) {
    const Kernel kernel =
        reduction(DType::Float32, BinaryOp::Add, [](Build& b) { return b.f(0.3); });
    for (const std::int64_t n : kCounts) {
        std::vector<float> list;
        for (const double x : numbers(n, 100)) list.push_back(float(x));
        const Combine<float> add = [](float x, float y) { return x + y; };
        const float expected = 0.3f + tree(list, add, 0.f);
        Data<float> x(DType::Float32, {n}, list);
        const float got = values_of(run<float>(kernel, {x.view}, {}))[0];
        EXPECT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected))
            << "n = " << n;
    }
}

TEST(Tree, MultipliesDoublesInTheFixedOrder) {
    const Kernel kernel =
        reduction(DType::Float64, BinaryOp::Mul, [](Build& b) { return b.f(1.5, DType::Float64); });
    for (const std::int64_t n : kCounts) {
        std::vector<double> list;
        for (const double x : numbers(n, 1e-3)) list.push_back(1 + x);
        const Combine<double> mul = [](double x, double y) { return x * y; };
        const double expected = 1.5 * tree(list, mul, 1.0);
        Data<double> x(DType::Float64, {n}, list);
        EXPECT_EQ(values_of(run<double>(kernel, {x.view}, {}))[0], expected) << "n = " << n;
    }
}

TEST(Tree, RoundsNarrowFloatsAtEachStep) {
    for (const DType dtype : {DType::Float16, DType::BFloat16}) {
        const bool is_half = dtype == DType::Float16;
        const auto round = [&](double x) { return is_half ? half(x) : brain(x); };
        Build b;
        const BufferId x = b.operand("x", dtype, 1);
        const BufferId out = b.output("out", dtype, {});
        const SymbolId v = b.var("v", b.f(0.25, dtype));
        const ExprId k = b.loop("k", b.extent(x), {v});
        b.accumulate(v, BinaryOp::Add, b.at(x, {k}));
        b.end_for();
        b.store(out, {}, b.read(v));
        const Kernel kernel = b.take();
        for (const std::int64_t n : kCounts) {
            std::vector<float> list;
            std::vector<std::uint16_t> bits;
            for (const double value : numbers(n, 3)) {
                list.push_back(round(value));
                bits.push_back(is_half ? float16_from_float(list.back())
                                       : bfloat16_from_float(list.back()));
            }
            const Combine<float> add = [&](float p, float q) { return round(double(p) + q); };
            const float expected = round(0.25 + double(tree(list, add, 0.f)));
            Data<std::uint16_t> operand(dtype, {n}, bits);
            const std::uint16_t got = values_of(run<std::uint16_t>(kernel, {operand.view}, {}))[0];
            EXPECT_EQ(is_half ? float_from_float16(got) : float_from_bfloat16(got), expected)
                << "n = " << n;
        }
    }
}

TEST(Tree, MaximumAndMinimumKeepNan) {
    const Kernel most =
        reduction(DType::Float32, BinaryOp::Max, [](Build& b) { return b.f(-INFINITY); });
    const Kernel least =
        reduction(DType::Float32, BinaryOp::Min, [](Build& b) { return b.f(INFINITY); });
    for (const std::int64_t n : kCounts) {
        for (const bool with_nan : {false, true}) {
            std::vector<float> list;
            for (const double x : numbers(n, 1)) list.push_back(float(x));
            if (with_nan && n > 0) list[std::size_t(n * 2 / 3)] = NAN;
            Data<float> x(DType::Float32, {n}, list);
            const float highest = values_of(run<float>(most, {x.view}, {}))[0];
            const float lowest = values_of(run<float>(least, {x.view}, {}))[0];
            const float expected_highest = tree<float>(list, larger, -INFINITY);
            const float expected_lowest = tree<float>(list, smaller, INFINITY);
            if (with_nan && n > 0) {
                EXPECT_TRUE(std::isnan(highest) && std::isnan(lowest)) << "n = " << n;
            } else {
                EXPECT_EQ(highest, expected_highest) << "n = " << n;
                EXPECT_EQ(lowest, expected_lowest) << "n = " << n;
            }
        }
    }
}

template <class T>
void check_integers(DType dtype) {
    for (const BinaryOp op : {BinaryOp::Add, BinaryOp::Mul, BinaryOp::Max, BinaryOp::Min}) {
        Build b;
        const BufferId x = b.operand("x", dtype, 1);
        const BufferId out = b.output("out", dtype, {});
        const SymbolId v = b.var("v", b.kernel().cast(b.i(3), dtype));
        const ExprId k = b.loop("k", b.extent(x), {v});
        b.accumulate(v, op, b.at(x, {k}));
        b.end_for();
        b.store(out, {}, b.read(v));
        const Kernel kernel = b.take();
        for (const std::int64_t n : {0, 1, 5, 17, 4097}) {
            std::mt19937_64 random(7);
            std::vector<T> list;
            for (std::int64_t i = 0; i < n; ++i) {
                // Odd, so that products do not vanish.
                list.push_back(T(random() | (op == BinaryOp::Mul ? 1 : 0)));
            }
            // Wrapping sums and products do not depend on the order.
            std::uint64_t wide = 3;
            T extreme = 3;
            for (const T value : list) {
                wide =
                    op == BinaryOp::Mul ? wide * std::uint64_t(value) : wide + std::uint64_t(value);
                extreme = op == BinaryOp::Max ? std::max(extreme, value) : std::min(extreme, value);
            }
            const bool is_sum = op == BinaryOp::Add || op == BinaryOp::Mul;
            Data<T> operand(dtype, {n}, list);
            EXPECT_EQ(values_of(run<T>(kernel, {operand.view}, {}))[0], is_sum ? T(wide) : extreme)
                << to_string(dtype) << " " << to_string(op) << " n = " << n;
        }
    }
}

TEST(Tree, ReducesEveryIntegerDtype) {
    check_integers<std::int8_t>(DType::Int8);
    check_integers<std::int16_t>(DType::Int16);
    check_integers<std::int32_t>(DType::Int32);
    check_integers<std::int64_t>(DType::Int64);
    check_integers<std::uint8_t>(DType::UInt8);
    check_integers<std::uint16_t>(DType::UInt16);
    check_integers<std::uint32_t>(DType::UInt32);
    check_integers<std::uint64_t>(DType::UInt64);
}

TEST(Tree, ReducesBoolByAndAndOr) {
    for (const BinaryOp op : {BinaryOp::And, BinaryOp::Or}) {
        const bool is_and = op == BinaryOp::And;
        const Kernel kernel =
            is_and ? reduction(DType::Bool, op, [](Build& b) { return b.kernel().boolean(true); })
                   : reduction(DType::Bool, op, [](Build& b) { return b.kernel().boolean(false); });
        for (const std::int64_t n : kCounts) {
            std::vector<std::uint8_t> list(std::size_t(n), is_and ? 1 : 0);
            Data<std::uint8_t> plain(DType::Bool, {n}, list);
            EXPECT_EQ(values_of(run<std::uint8_t>(kernel, {plain.view}, {}))[0], is_and ? 1 : 0);
            if (n == 0) continue;
            list[std::size_t(n / 2)] = is_and ? 0 : 1;
            Data<std::uint8_t> other(DType::Bool, {n}, list);
            EXPECT_EQ(values_of(run<std::uint8_t>(kernel, {other.view}, {}))[0], is_and ? 0 : 1);
        }
    }
}

/// for i: for j: v += x[i, j], both loops reducing.
TEST(Tree, GivesTheResultOfAnInnerLoopToItsIterationOfTheOuterOne) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 2);
    const BufferId out = b.output("out", DType::Float32, {});
    const SymbolId v = b.var("v", b.f(7));
    const ExprId i = b.loop("i", b.extent(x, 0), {v});
    const ExprId j = b.loop("j", b.extent(x, 1), {v});
    b.accumulate(v, BinaryOp::Add, b.at(x, {i, j}));
    b.end_for();
    b.end_for();
    b.store(out, {}, b.read(v));
    const Kernel kernel = b.take();
    const Combine<float> add = [](float p, float q) { return p + q; };
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{3, 5},
                                     {17, 33},
                                     {1, 5000},
                                     {5000, 3},
                                     {20, 0},
                                     {0, 4}}) {
        std::vector<float> list, sums;
        for (const double value : numbers(rows * cols, 10)) list.push_back(float(value));
        for (std::int64_t r = 0; r < rows; ++r) {
            sums.push_back(
                tree(std::vector<float>(list.begin() + r * cols, list.begin() + (r + 1) * cols),
                     add, 0.f));
        }
        Data<float> operand(DType::Float32, {rows, cols}, list);
        EXPECT_EQ(values_of(run<float>(kernel, {operand.view}, {}))[0], 7 + tree(sums, add, 0.f))
            << rows << "x" << cols;
    }
}

/// A loop that does not reduce, inside one that does: its contributions go to one partial in order.
TEST(Tree, AddsWhatAnIterationContributesInOrder) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 2);
    const BufferId out = b.output("out", DType::Float32, {});
    const SymbolId v = b.var("v", b.f(0));
    const ExprId i = b.loop("i", b.extent(x, 0), {v});
    b.accumulate(v, BinaryOp::Add, b.at(x, {i, b.i(0)}));
    b.accumulate(v, BinaryOp::Add, b.at(x, {i, b.i(1)}));
    b.begin_if(b.less(b.f(0), b.at(x, {i, b.i(2)})));
    b.accumulate(v, BinaryOp::Add, b.mul(b.at(x, {i, b.i(2)}), b.at(x, {i, b.i(1)})));
    b.end_if();
    b.end_for();
    b.store(out, {}, b.read(v));
    const Kernel kernel = b.take();
    for (const std::int64_t n : {1, 16, 40}) {
        std::vector<float> list;
        for (const double value : numbers(n * 3, 10)) list.push_back(float(value));
        std::vector<float> partials(16, 0.f);
        for (std::size_t k = 0; k < std::size_t(n); ++k) {
            float& p = partials[k % 16];
            p += list[3 * k];
            p += list[3 * k + 1];
            const float product = list[3 * k + 2] * list[3 * k + 1];
            if (list[3 * k + 2] > 0) p += product;
        }
        for (std::size_t half = 8; half >= 1; half /= 2) {
            for (std::size_t j = 0; j < half; ++j) partials[j] += partials[j + half];
        }
        Data<float> operand(DType::Float32, {n, 3}, list);
        EXPECT_EQ(values_of(run<float>(kernel, {operand.view}, {}))[0], 0.f + partials[0]);
    }
}

TEST(Tree, ReducesTwoVarsInOneLoop) {
    Build b;
    const BufferId x = b.operand("x", DType::Float32, 1);
    const BufferId out = b.output("out", DType::Float32, {b.i(2)});
    const SymbolId sum = b.var("sum", b.f(0)), most = b.var("most", b.f(-INFINITY));
    const ExprId k = b.loop("k", b.extent(x), {sum, most});
    b.accumulate(sum, BinaryOp::Add, b.at(x, {k}));
    b.accumulate(most, BinaryOp::Max, b.at(x, {k}));
    b.end_for();
    b.store(out, {b.i(0)}, b.read(sum));
    b.store(out, {b.i(1)}, b.read(most));
    std::vector<float> list;
    for (const double value : numbers(9001, 10)) list.push_back(float(value));
    Data<float> operand(DType::Float32, {9001}, list);
    const Combine<float> add = [](float p, float q) { return p + q; };
    const std::vector<float> got = values_of(run<float>(b.take(), {operand.view}, {2}));
    EXPECT_EQ(got[0], tree(list, add, 0.f));
    EXPECT_EQ(got[1], *std::max_element(list.begin(), list.end()));
}

/// 4096 chunks and more: the chunks' results are cut into chunks again. Elements are repeated by a
/// stride of zero.
TEST(Tree, CutsTheResultsOfChunksIntoChunksAgain) {
    const Kernel kernel = reduction(DType::Float32, BinaryOp::Add, [](Build& b) { return b.f(0); });
    const std::int64_t n = 4096LL * 4096 + 5000;
    Data<float> x(DType::Float32, {1}, {0.1f});
    x.view.shape = {n};
    x.view.strides = {0};
    const Combine<float> add = [](float p, float q) { return p + q; };
    const float whole = tree(std::vector<float>(4096, 0.1f), add, 0.f);
    const float rest = tree(std::vector<float>(904, 0.1f), add, 0.f);
    std::vector<float> results(4097, whole);
    results.push_back(rest);
    EXPECT_EQ(values_of(run<float>(kernel, {x.view}, {}))[0], 0.f + tree(results, add, 0.f));
}

}  // namespace
}  // namespace quern::interpret::testing

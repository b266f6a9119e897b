#include "quern/builder.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "quern/kernel.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

TEST(Builder, WritesTheTextOfAMatrixProduct) {
    KernelBuilder k("matmul");
    const Operand a = k.operand("a"), b = k.operand("b");
    const Expr m = k.dim("m"), n = k.dim("n"), depth = k.dim("depth");
    k.loops({m, n}, [&](Expr i, Expr j) {
        k.out(i, j) = k.sum(depth, [&](Expr q) { return a(i, q) * b(q, j); });
    });
    EXPECT_EQ(k.text(),
              "compute(a, b) {\n"
              "    @kernel matmul\n"
              "    for i0 in 0..m, i1 in 0..n:\n"
              "        var r2 = 0\n"
              "        for k3 in 0..depth:\n"
              "            r2 += a[i0, k3] * b[k3, i1]\n"
              "        out[i0, i1] = r2\n"
              "}\n");
    const Tensor x = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor y = Tensor::from<float>({3, 2}, {1, 0, 0, 1, 1, 1});
    EXPECT_CLOSE(k.build()(x, y), (std::vector<double>{4, 5, 10, 11}), 0, 0);
}

TEST(Builder, KeepsTheGroupingOfOperators) {
    const Expr x = Expr::made("x", 7), y = Expr::made("y", 7);
    EXPECT_EQ((x * (y + 1)).text(), "x * (y + 1)");
    EXPECT_EQ((x * y + 1).text(), "x * y + 1");
    EXPECT_EQ((x - (y - 1)).text(), "x - (y - 1)");
    EXPECT_EQ((x / (y * 2)).text(), "x / (y * 2)");
    EXPECT_EQ(((x < y) && (x > 0 || y > 0)).text(), "x < y and (x > 0 or y > 0)");
    EXPECT_EQ((!(x < y)).text(), "not (x < y)");
    EXPECT_EQ((-(x + y) * 2).text(), "- (x + y) * 2");
    EXPECT_EQ((x - -2).text(), "x - -2");
    EXPECT_EQ(((x < y) == (y < x)).text(), "(x < y) == (y < x)");
}

TEST(Builder, WritesNumbersThatReadBackAsTheSame) {
    EXPECT_EQ(Expr(0.1).text(), "0.1");
    EXPECT_EQ(Expr(1.0).text(), "1.0");
    EXPECT_EQ(Expr(1e-30).text(), "1e-30");
    EXPECT_EQ(Expr(-2.5).text(), "-2.5");
    EXPECT_EQ(Expr(-kInfinity).text(), "-inf");
    for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324, -0.0, 123456789.125}) {
        KernelBuilder k("custom");
        const Operand x = k.operand("x");
        k.loops({k.dim("n")}, [&](Expr i) { k.out(i) = x(i) + value; });
        const Tensor zero({1}, DType::Float64);
        EXPECT_EQ(k.build()(zero).item(), value);
    }
}

TEST(Builder, MakesTheSameResultAsTheTextWithConditionsAndVars) {
    KernelBuilder k("custom");
    const Operand x = k.operand("x");
    const Expr n = k.dim("n"), limit = k.scalar("limit");
    k.loops({n}, [&](Expr i) {
        const Place v = k.var(0.0);
        k.when(
            x(i) > limit, [&] { v = sqrt(x(i)); }, [&] { v -= x(i); });
        k.out(i) = v;
    });
    const Tensor in = Tensor::from<float>({3}, {4, 1, 9});
    EXPECT_CLOSE(k.build()(in, arg("limit", 2.0)), (std::vector<double>{2, -1, 3}), 0, 0);
}

TEST(Builder, ReachesTilesSharedVariablesAndWholeTensors) {
    KernelBuilder tiles("flash_attention");
    const Operand q = tiles.operand("q"), keys = tiles.operand("keys");
    tiles.loop(0, tiles.dim("n"), 4, [&](Expr at) {
        const Expr scores = matmul(q(slice(at, 4)), transpose(keys));
        tiles.out(slice(at, 4)) = row_max(scores);
    });
    const Tensor a = Tensor::from<float>({5, 1}, {1, 2, 3, 4, 5});
    const Tensor b = Tensor::from<float>({2, 1}, {-1, 2});
    EXPECT_CLOSE(tiles.build()(a, b), (std::vector<double>{2, 4, 6, 8, 10}), 0, 0);

    KernelBuilder whole("fused");
    const Operand x = whole.operand("x");
    const Expr top = whole.let(whole.reduce("max", x, -1));
    const Expr e = whole.let(exp(x - top));
    whole.out() = e / whole.reduce("+", e, -1);
    const Tensor row = Tensor::from<float>({1, 2}, {1000, 1000});
    EXPECT_CLOSE(whole.build()(row), (std::vector<double>{0.5, 0.5}), 0, 0);

    KernelBuilder group("fused");
    const Operand y = group.operand("y");
    const Expr rows = group.dim("rows"), columns = group.dim("columns");
    group.loops({rows}, [&](Expr i) {
        const Place kept = group.shared("kept", {columns});
        group.loops({columns}, [&](Expr j) { kept(j) = y(i, j) * 2.0; });
        group.barrier();
        group.loops({columns}, [&](Expr j) { group.out(i, j) = kept(columns - 1 - j); });
    });
    const Tensor z = Tensor::from<float>({1, 3}, {1, 2, 3});
    EXPECT_CLOSE(group.build()(z), (std::vector<double>{6, 4, 2}), 0, 0);
}

TEST(Builder, RefusesNamesThatAreTakenOrNotNames) {
    KernelBuilder k;
    k.operand("x");
    EXPECT_THROWS(ValueError, "[builder] the name 'x' is used twice", k.dim("x"));
    EXPECT_THROWS(ValueError, "[builder] expected a name of letters, digits and '_', got '2x'",
                  k.operand("2x"));
}

TEST(Builder, RefusesWordsOfTheLanguageAsNames) {
    KernelBuilder k;
    for (const char* word : {"and", "or", "not", "in", "if", "else", "for", "yield", "out"}) {
        EXPECT_THROWS(ValueError, std::string("expected a name, got '") + word + "'",
                      k.operand(word));
        EXPECT_THROWS(ValueError, "a word of the language", k.dim(word));
    }
    k.dim("step");
}

TEST(Builder, RefusesNamesThatMeanSomethingElseInAKernel) {
    KernelBuilder k;
    EXPECT_THROWS(ValueError, "a word of the language", k.scalar("inf"));
    EXPECT_THROWS(ValueError, "a word of the language", k.operand("await"));
    EXPECT_THROWS(ValueError, "got 'a b'", k.let(1, "a b"));
    EXPECT_THROWS(ValueError, "got ''", k.var(1, ""));
}

TEST(Builder, LeavesOutBranchesAndLoopsThatWriteNothing) {
    KernelBuilder k;
    const Operand x = k.operand("x");
    k.loops({k.dim("n")}, [&](Expr i) {
        const Place v = k.var(x(i));
        k.when(x(i) > 1, [] {});
        k.when(
            x(i) > 1, [] {}, [] {});
        k.loop(0, 3, 1, [](Expr) {});
        k.when(
            x(i) > 1, [] {}, [&] { v = 5; });
        k.when(
            x(i) > 2, [&] { v += 1; }, [] {});
        k.out(i) = v;
    });
    EXPECT_EQ(k.build()(Tensor::from<float>({3}, {1, 2, 3})).values(),
              (std::vector<double>{5, 2, 4}));
}

TEST(Builder, RefusesLiteralsAboveTheLargestOfInt64) {
    EXPECT_THROWS(ValueError,
                  "expected an integer of at most 9223372036854775807 for 'literal', "
                  "got 18446744073709551615",
                  Expr(18446744073709551615u));
    EXPECT_EQ(Expr(9223372036854775807u).text(), "9223372036854775807");
    EXPECT_EQ(Expr(std::uint8_t(255)).text(), "255");
}

TEST(Builder, ExtremesAreFloatsAndCallTheirElementOnce) {
    KernelBuilder k;
    const Operand a = k.operand("a");
    int calls = 0;
    k.loops({k.dim("n")}, [&](Expr i) {
        k.out(i) = k.maximum(k.dim("w"), [&](Expr j) {
            ++calls;
            return a(i + j);
        });
    });
    EXPECT_EQ(calls, 1);
    const Kernel windows = k.build();
    EXPECT_CLOSE(windows(Tensor::from<float>({4}, {1, 5, 3, 2}), arg("w", 2)),
                 (std::vector<double>{5, 5, 3}), 0, 0);
    const Tensor whole = windows(Tensor::from<std::int32_t>({3}, {1, 2, 3}), arg("w", 2));
    EXPECT_EQ(whole.dtype(), DType::Float32);
}

TEST(Builder, RefusesABodyWithAnotherNumberOfLoops) {
    KernelBuilder k;
    const Expr n = k.dim("n");
    EXPECT_THROWS(ValueError, "expected 1 extents", k.loops({n, n}, [](Expr) {}));
    EXPECT_THROWS(ValueError, "expected a loop", k.loops({}, [] {}));
    int calls = 0;
    k.loops({n}, [calls](Expr i) mutable {
        ++calls;
        return i;
    });
}

TEST(Builder, TakesBackWhatAFunctionBeganThatThrows) {
    KernelBuilder k;
    const Operand x = k.operand("x");
    const Expr n = k.dim("n");
    const std::string before = k.text();
    const auto fail = [](auto...) -> Expr { throw std::runtime_error("no"); };
    EXPECT_THROW(k.loops({n},
                         [&](Expr i) {
                             k.loop(0, n, 1, fail);
                             k.out(i) = x(i);
                         }),
                 std::runtime_error);
    EXPECT_THROW(k.sum(n, fail), std::runtime_error);
    EXPECT_THROW(k.when(
                     x(0) > 1, [&] { k.let(1); }, [&] { fail(); }),
                 std::runtime_error);
    EXPECT_EQ(k.text(), before);
    k.loops({n}, [&](Expr i) { k.out(i) = x(i) * 2; });
    EXPECT_EQ(k.build()(Tensor::from<float>({2}, {1, 2})).values(), (std::vector<double>{2, 4}));
}

TEST(Builder, TakesNoBoolsForNumbers) {
    static_assert(!std::is_convertible_v<bool, Expr> && !std::is_constructible_v<Expr, bool>);
    static_assert(std::is_convertible_v<int, Expr> && std::is_convertible_v<float, Expr>);
}

TEST(Builder, ShowsTheTextWhereItIsWrong) {
    KernelBuilder k("custom");
    const Operand x = k.operand("x");
    k.loops({k.dim("n")}, [&](Expr i) { k.out(0) = x(i); });
    EXPECT_THROWS(KernelError, "error[E0510]", k.build()(Tensor({3})));
}

}  // namespace
}  // namespace quern

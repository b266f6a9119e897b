#include "quern/ir/print.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels.h"
#include "quern/ir/parse.h"
#include "quern/ir/verify.h"

namespace quern::ir {
namespace {

Kernel parsed(const std::string& text) {
    std::string error;
    std::optional<Kernel> kernel = parse_ir(text, error);
    EXPECT_TRUE(kernel) << error << "\n" << text;
    return kernel ? std::move(*kernel) : Kernel();
}

std::string error_of(const std::string& text) {
    std::string error;
    return parse_ir(text, error) ? "accepted" : error;
}

/// A kernel whose body is `statement`, with what the tests below use.
std::string around(const std::string& statement) {
    return "kernel k {\n"
           "dim M\n"
           "scalar s: int64\n"
           "operand A: float32[A.0, A.1]\n"
           "output out: float32[M]\n" +
           statement + "\n}\n";
}

TEST(Print, MatmulReadsLikeItsSource) {
    EXPECT_EQ(print(matmul()), R"(kernel matmul : matmul {
    dim M, N, K
    operand A: float32[A.0, A.1]
    operand B: float32[B.0, B.1]
    output out: float32[M, N]
    require M == A.0 bare_index E0501
    require K == A.1 bare_index E0501
    require K == B.0 bare_index E0501
    require N == B.1 bare_index E0501
    parallel for i in 0..M {
        parallel for j in 0..N {
            var sum: float32 = 0.0
            for k in 0..K reduces sum {
                sum += A[i, k] * B[k, j]
            }
            out[i, j] = sum
        }
    }
}
)");
}

TEST(Print, EveryStatementHasAForm) {
    EXPECT_EQ(print(everything()), R"(kernel every.thing cooperative workgroup(32, 2) {
    dim rows, `cols/2`
    scalar eps: float64
    operand x: float32[x.0, x.1]
    operand mask: bool[mask.0] flat
    output out: int64[rows]
    require `cols/2` * 2 == x.1 strided E0508
    check 0 < rows E0620
    parallel for r in 0..rows {
        local tile: float32[`cols/2`, 2]
        shared seen: bool[]
        var any: bool = false
        for c in 0..x.1 step 2 reduces any {
            let value: float32 = x[r, c]
            if eps < float64(value) and not isnan(value) {
                any or= true
            } else if mask[c] {
                tile[c // 2, 0] = sqrt(pow(value, -2.5))
            }
        }
        seen[] = any
        barrier
        var best: float32 = inf
        var at: int64 = -1
        for c.1 in 0..`cols/2` {
            argmin best, at = tile[c.1, 0], c.1
        }
        at = select(seen[], at, -at)
        out[r] = at
    }
}
)");
}

TEST(Print, TextAndKernelRoundTrip) {
    for (const Kernel& kernel : {matmul(), everything()}) {
        EXPECT_EQ(verify(kernel), std::vector<std::string>());
        for (const bool spans : {false, true}) {
            const std::string text = print(kernel, {.spans = spans});
            const Kernel again = parsed(text);
            EXPECT_EQ(print(again, {.spans = spans}), text);
            EXPECT_EQ(verify(again), std::vector<std::string>());
            EXPECT_EQ(again.body.size(), kernel.body.size());
            EXPECT_EQ(again.symbols.size(), kernel.symbols.size());
        }
    }
}

TEST(Print, SpansAreWrittenOnRequestAndReadBack) {
    const std::string text = print(matmul(), {.spans = true});
    EXPECT_NE(text.find("dim M@5+1, N"), std::string::npos) << text;
    EXPECT_NE(text.find("sum += A[i, k]@80+7 *@88+1 B[k, j] @@75+20"), std::string::npos) << text;
    const Kernel k = parsed(text);
    EXPECT_EQ(k.body[0].span, (Span{40, 9}));
    EXPECT_EQ(k.constraints[0].span, (Span{30, 7}));
    EXPECT_EQ(k.buffers[0].span, (Span{10, 1}));
}

TEST(Print, ParenthesesAreTheFewestThatKeepTheTree) {
    for (const char* text :
         {"(s + 1) * 2 - s % 3", "s - (M - 1) - 2", "s * (M // 2 / 3)", "-(s + M) * -s",
          "select(not (s < M and M < s) or s == M, s, -(-s))", "max(s, min(M, 3)) % (s % 7)",
          "select((s < M) == (M < 3), 1, 2)", "abs(s) // -2", "- s - -3"}) {
        std::string wanted = text;
        if (wanted == "- s - -3") wanted = "-s + 3";
        const Kernel k = parsed(around(std::string("let x: int64 = ") + text));
        const std::string printed = print(k, k.body[0].value);
        EXPECT_EQ(print(parsed(around("let x: int64 = " + printed)), k.body[0].value), printed);
        if (std::string(text) != "select(not (s < M and M < s) or s == M, s, -(-s))" &&
            std::string(text) != "- s - -3") {
            EXPECT_EQ(printed, text);
        }
    }
}

TEST(Print, FloatsKeepEveryBit) {
    const double values[] = {0.0,
                             -0.0,
                             1.0,
                             -2.5,
                             0.1,
                             1e300,
                             5e-324,
                             0.7978845608,
                             1e22,
                             INFINITY,
                             -INFINITY,
                             std::numeric_limits<double>::quiet_NaN(),
                             -std::numeric_limits<double>::quiet_NaN(),
                             std::bit_cast<double>(std::uint64_t{0x7ff8000000000123})};
    for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
        for (const double value : values) {
            Builder b("k");
            b.output("out", dtype, {});
            b.store(0, {}, b.kernel().floating(value, dtype));
            b.store(0, {}, b.kernel().unary(UnaryOp::Neg, b.kernel().floating(value, dtype)));
            const Kernel k = b.take();
            const Kernel again = parsed(print(k));
            const double got = again.floating_value(again.body[0].value);
            EXPECT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(value));
            EXPECT_EQ(again[again.body[0].value].dtype, dtype);
            EXPECT_EQ(again[again.body[1].value].kind, k[k.body[1].value].kind);
            EXPECT_EQ(print(again), print(k));
        }
    }
}

TEST(Print, IntegersKeepTheirExtremes) {
    for (const std::int64_t value : {std::int64_t{0}, INT64_MIN, INT64_MAX, std::int64_t{-1}}) {
        Builder b("k");
        b.output("out", DType::Int64, {});
        b.store(0, {}, b.kernel().integer(value));
        const Kernel k = parsed(print(b.take()));
        EXPECT_EQ(k.integer_value(k.body[0].value), value);
    }
}

TEST(Print, EqualNamesGetASuffixAndOddOnesQuotes) {
    Builder b("two\nlines`", "if");
    b.dim("A");
    b.operand("A", DType::Float32, 2);
    b.operand("weights.qkv_proj", DType::Float32, 1);
    b.output("out", DType::Float32, {b.kernel().extent(1, 0)});
    b.let("A", b.kernel().extent(0, 1));
    b.let("", b.kernel().extent(0, 0));
    b.let("A.1.0", b.kernel().integer(3));
    const Kernel k = b.take();
    const std::string text = print(k);
    EXPECT_EQ(text,
              "kernel `two\\x0alines\\x60` : `if` {\n"
              "    dim `A.1`\n"
              "    operand A: float32[A.0, A.1]\n"
              "    operand weights.qkv_proj: float32[weights.qkv_proj.0]\n"
              "    output out: float32[weights.qkv_proj.0]\n"
              "    let `A.2`: int64 = A.1\n"
              "    let ``: int64 = A.0\n"
              "    let A.1.0: int64 = 3\n"
              "}\n");
    EXPECT_EQ(print(parsed(text)), text);
}

TEST(Print, LongSumsAndDeepTreesCostNoStack) {
    Builder b("k");
    Kernel& k = b.kernel();
    const ExprId M = b.dim("M");
    b.output("out", DType::Int64, {});
    ExprId sum = M, tower = M;
    for (int i = 0; i < 100'000; ++i) {
        sum = k.binary(BinaryOp::Add, sum, M);
        tower = k.unary(UnaryOp::Abs, tower);
    }
    b.store(0, {}, sum);
    const std::string text = print(k);
    EXPECT_LT(print(k, tower).size(), 10'000u);
    EXPECT_EQ(print(parsed(print(b.take()))), text);
}

TEST(ParseIr, ErrorsSayLineAndExpectation) {
    EXPECT_EQ(error_of(""), "line 1: expected 'kernel', got the end of the text");
    EXPECT_EQ(error_of("kernel k {\n}"), "line 2: expected 'output', got '}'");
    EXPECT_EQ(error_of(around("out[0] = ")), "line 7: expected an expression, got '}'");
    EXPECT_EQ(error_of(around("out[0 = 1.0")), "line 6: expected ']', got '='");
    EXPECT_EQ(error_of(around("let x: int64 = q + 1")),
              "line 6: expected a name that is declared before, got 'q'");
    EXPECT_EQ(error_of(around("let x: int64 = s + 1.0")),
              "line 6: expected operands of one dtype, got int64 and float32");
    EXPECT_EQ(error_of(around("let x: int33 = s")), "line 6: expected a dtype, got 'int33'");
    EXPECT_EQ(error_of(around("let s: int64 = s")), "line 6: expected a new name, got 's' again");
    EXPECT_EQ(error_of(around("let x: int64 = gelu(s)")),
              "line 6: expected a function, got 'gelu'");
    EXPECT_EQ(error_of(around("let x: int64 = max(s)")),
              "line 6: expected 2 arguments of 'max', got 1");
    EXPECT_EQ(error_of(around("check s < M < 3 E0501")),
              "line 6: expected no second comparison, got '<'");
    EXPECT_EQ(error_of(around("check s < M E9999")),
              "line 6: expected a code such as 'E0501', got 'E9999'");
    EXPECT_EQ(
        error_of(around("let x: int64 = 9223372036854775808")),
        "line 6: expected a whole number up to 9223372036854775807, got '9223372036854775808'");
    EXPECT_EQ(error_of(around("let x: float32 = 1e999")),
              "line 6: expected a number that a double holds, got '1e999'");
    EXPECT_EQ(error_of(around("let `x")),
              "line 6: expected a name, got a name that is never closed");
    EXPECT_EQ(error_of(around("s ! 3")), "line 6: expected a statement, got 's'");
    EXPECT_EQ(error_of(around("for i in 0 M {}")), "line 6: expected '..', got 'M'");
    EXPECT_EQ(error_of(around("") + "kernel"),
              "line 8: expected the end of the text, got 'kernel'");
    EXPECT_EQ(error_of(around("let x: int64 = A.0 + A.999")),
              "line 6: expected the extent of an operand, got 'A.999'");
}

TEST(ParseIr, NestingIsLimited) {
    const auto nested = [](int depth) {
        return around("let x: int64 = " + std::string(depth, '(') + "s" + std::string(depth, ')'));
    };
    EXPECT_EQ(error_of(nested(150)), "accepted");
    EXPECT_EQ(error_of(nested(100'000)), "line 6: expected at most 200 levels of nesting");
    std::string blocks, minus(100'000, '-'), branches = "if s < 1 {}";
    for (int i = 0; i < 1000; ++i) {
        blocks += "if s < 1 {";
        branches += " else if s < 1 {}";
    }
    EXPECT_EQ(error_of(around(blocks)), "line 6: expected at most 200 levels of nesting");
    EXPECT_EQ(error_of(around(branches)), "line 6: expected at most 200 levels of nesting");
    EXPECT_EQ(error_of(around("let x: int64 = " + minus + "s")),
              "line 6: expected at most 200 levels of nesting");
}

TEST(ParseIr, CommentsAndShortDtypesAreRead) {
    const Kernel k = parsed(around("let x: f16 = f16(1.5) # a comment }{"));
    EXPECT_EQ(k.symbols[0].dtype, DType::Float16);
}

TEST(ParseIr, AnyCutOfAGoodTextIsRefusedInPeace) {
    const std::string text = print(everything(), {.spans = true});
    for (std::size_t n = 0; n + 2 < text.size(); ++n) {
        std::string error;
        EXPECT_FALSE(parse_ir(text.substr(0, n), error)) << n;
        EXPECT_EQ(error.substr(0, 5), "line ");
        std::string damaged = text;
        damaged[n] = "@{(0.`-"[n % 7];
        if (const auto kernel = parse_ir(damaged, error)) verify(*kernel);
    }
}

TEST(Identity, TellsKernelsApartThatDifferBelowWhatIsPrinted) {
    const auto deep = [](const std::string& load, const std::string& last) {
        Kernel k = parsed(around("    for i in 0..M {\n        out[i] = A[i, i]\n    }"));
        Stmt& loop = k.body[0];
        const ExprId i = k.symbol(loop.symbol), one = k.integer(1);
        const ExprId next = k.binary(BinaryOp::Add, i, one);
        ExprId value = load == "rows" ? k.load(0, {i, next}) : k.load(0, {next, i});
        for (int n = 0; n < 1200; ++n) value = k.unary(UnaryOp::Exp, value);
        const ExprId again = k.unary(UnaryOp::Exp, value);
        loop.body[0].value = last == "value" ? value : again;
        return k;
    };
    EXPECT_EQ(print(deep("rows", "value")), print(deep("columns", "value")));
    EXPECT_NE(identity(deep("rows", "value")), identity(deep("columns", "value")));
    EXPECT_EQ(identity(deep("rows", "value")), identity(deep("rows", "value")));
    EXPECT_NE(identity(deep("rows", "value")), identity(deep("rows", "again")));
}

}  // namespace
}  // namespace quern::ir

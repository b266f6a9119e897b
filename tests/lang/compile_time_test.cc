#include "quern/lang/compile_time.h"

#include <gtest/gtest.h>

#include "quern/lang/static_shapes.h"
#include "texts.h"

namespace quern::lang {
namespace {

constexpr int kLineOfText = __LINE__ + 1;
constexpr CheckedText kText = QUERN_CHECKED_TEXT(R"(compute(x, y) {
    @kernel custom
    for i in 0..len:
        out[i] = x[i] + y[i]
})");

const auto in_a_header = QUERN_TEXT(R"(let y = compute(x) {
    @kernel reduce(+)
    for i in 0..len { yield x[i] * x[i] }
} |> sqrt())");

TEST(CompileTime, TheMacroKeepsTheTextAndItsLine) {
    static_assert(kText.line == kLineOfText);
    const std::string_view text(kText.text, kText.size);
    EXPECT_TRUE(text.starts_with("compute(x, y) {\n    @kernel"));
    EXPECT_TRUE(text.ends_with("\n}"));
    EXPECT_EQ(errors_in(std::string(text)), "");
}

TEST(CompileTime, TheTypeOfATextTellsItsOperands) {
    EXPECT_EQ(in_a_header.kOperands, 1);
    EXPECT_GT(in_a_header.get().size, 20u);
    constexpr auto none = QUERN_TEXT("compute() { @kernel custom; out = 1 }");
    static_assert(none.kOperands == 0);
    // A script, or two kernels: the number of operands is not that of one compute.
    constexpr auto script = QUERN_TEXT("let a = 3");
    static_assert(script.kOperands == -1);
    constexpr auto two = QUERN_TEXT(
        "compute(x) { @kernel custom; out = x }\ncompute(x) { @kernel custom; out = x }");
    static_assert(two.kOperands == -1);
}

TEST(CompileTime, EachTextIsATypeOfItsOwn) {
    const auto a = QUERN_TEXT("compute(x) { @kernel custom; out = x }");
    const auto b = QUERN_TEXT("compute(x) { @kernel custom; out = x }");
    EXPECT_FALSE((std::is_same_v<decltype(a), decltype(b)>));
}

template <std::size_t N>
constexpr std::uint32_t first_error_at(const char (&text)[N]) {
    const Verdict verdict = check_text(text);
    return verdict.error == kernel_error::none
               ? 0
               : static_cast<std::uint32_t>(verdict.line * 100 + verdict.column);
}

TEST(CompileTime, TheFirstErrorOfTheTextIsShownWhoeverFindsIt) {
    static_assert(first_error_at("let a = b\n") == 0);
    // The lexer finds the second line's error first.
    static_assert(first_error_at("let a =\nlet b = ^\n") == 108);
    static_assert(check_text("let a =\nlet b = ^\n").error == kernel_error::expected_an_expression);
}

TEST(CompileTime, Check22_NestingBeyondFortyIsAnErrorAtThisDoorToo) {
    constexpr Verdict deep = check_text(
        "let a = "
        "(((((((((((((((((((((((((((((((((((((((((b)))))))))))))))))))))))))))))))))))))))))");
    static_assert(deep.error == kernel_error::nested_too_deeply);
    static_assert(deep.column == 49);
    // Forty levels, each with every kind of operator, stay within the compilers' depth of
    // evaluation.
    constexpr Verdict most = check_text(
        "let a = "
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f(a or b and c==d+e*-f("
        "x))))))))))))))))))))))))))))))))))))))))");
    static_assert(most.error == kernel_error::none);
}

inline constexpr auto kMatmul = QUERN_TEXT(R"(let C = compute(A, B) {
    @kernel matmul
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K:
            sum += A[i, k] * B[k, j]
        out[i, j] = sum
})");

template <class... Shapes>
constexpr StaticCheck check_matmul() {
    return check_shapes_of<decltype(kMatmul), Shapes...>();
}

TEST(StaticShapes, Check110_TwoValuesOfADimensionAreFoundWithName) {
    constexpr StaticCheck check = check_matmul<StaticShape<3, 5>, StaticShape<4, 7>>();
    static_assert(check.first == 5 && check.second == 4);
    EXPECT_EQ(std::string_view(kMatmul.data() + check.name.begin, check.name.length), "K");
    static_assert(check.line == 6 && check.column == 32);
}

TEST(StaticShapes, FittingAndUnknownExtentsAreAccepted) {
    constexpr auto fits = [](StaticCheck check) { return check.first == check.second; };
    static_assert(fits(check_matmul<StaticShape<3, 5>, StaticShape<5, 7>>()));
    static_assert(fits(check_matmul<StaticShape<3, -1>, StaticShape<4, 7>>()));
    static_assert(fits(check_matmul<AnyShape, StaticShape<4, 7>>()));
    require_shapes<decltype(kMatmul), StaticShape<3, 5>, StaticShape<5, 7>>();
    require_shapes<decltype(kMatmul), AnyShape, AnyShape>();
}

constexpr auto kDeclared = QUERN_TEXT(R"(compute(x: [n, 4], w = y) {
    @kernel custom
    for i in 0..n step 8:
        let y = w[i:i+8]
        for j in 0..4:
            out[i, j] = x[i, j] + y[j]
})");

TEST(StaticShapes, DeclaredExtentsLiteralsAndSlicesBind) {
    using Text = decltype(kDeclared);
    constexpr StaticCheck literal = check_shapes_of<Text, StaticShape<16, 5>, AnyShape>();
    static_assert(literal.first == 4 && literal.second == 5 && literal.line == 1);
    constexpr StaticCheck slice = check_shapes_of<Text, StaticShape<16, 4>, StaticShape<24>>();
    static_assert(slice.first == 16 && slice.second == 24 && slice.line == 4);
    static_assert(check_shapes_of<Text, StaticShape<16, 4>, StaticShape<16>>().first == 0);
}

constexpr auto kGuarded = QUERN_TEXT(R"(compute(x, y) {
    @kernel elementwise
    for i in 0..n:
        if i < m:
            out[i] = x[i] * y[i]
})");

constexpr auto kFlat = QUERN_TEXT(R"(compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] * y[i]
})");

TEST(StaticShapes, WhatHasAnotherMeaningIsLeftAlone) {
    static_assert(check_shapes_of<decltype(kGuarded), StaticShape<3>, StaticShape<4>>().first == 0);
    static_assert(check_shapes_of<decltype(kFlat), StaticShape<2, 6>, StaticShape<2, 6>>().first ==
                  0);
    static_assert(check_shapes_of<decltype(kFlat), StaticShape<3>, StaticShape<4>>().second == 4);
}

}  // namespace
}  // namespace quern::lang

#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

using Examples = Compiled;

TEST_F(Examples, ReluKeepsNanAndSignsOfZeroAtEverySize) {
    for (const std::int64_t n : kSizes) {
        Tensor x = uniform({n}, std::uint64_t(n));
        const float special[] = {NAN, 0.0f, -0.0f, INFINITY, -INFINITY};
        for (std::int64_t i = 0; i < std::min<std::int64_t>(n, 5); ++i) {
            x.data<float>()[i] = special[i];
        }
        expect_agreement(Case(example_text("01"), {x}));
    }
}

TEST_F(Examples, ElementwiseKernelsAtRaggedShapes) {
    expect_agreement(Case(example_text("02"), {uniform({1003}, 1), uniform({1003}, 2)}));
    for (const std::int64_t n : {1, 16, 33}) {
        expect_agreement(Case(example_text("03"), {uniform({7, n}, 1), uniform({n}, 2)}));
    }
}

TEST_F(Examples, ReductionsOfOneAxisAtEverySize) {
    for (const std::int64_t n : kSizes) {
        const Tensor x = uniform({n}, std::uint64_t(n) + 3);
        expect_agreement(Case(example_text("04"), {x}));
        expect_agreement(Case(example_text("06"), {x}));
        if (n == 0) continue;
        expect_agreement(Case(example_text("05"), {x}));
        expect_agreement(Case(example_text("08"), {x}));
    }
}

TEST_F(Examples, ReductionsLongerThanAChunkAndThanManyChunks) {
    for (const std::int64_t n : {4096, 4097, 8192, 100003}) {
        const Tensor x = uniform({n}, std::uint64_t(n));
        expect_agreement(Case(example_text("04"), {x}), 1e-5, 100);
        expect_agreement(Case(example_text("05"), {x}));
    }
}

TEST_F(Examples, ExtremaOfRowsPropagateNanFromEveryPlace) {
    for (const char* function : {"max", "min"}) {
        const std::string text = std::string(R"(compute(x) {
    @kernel custom
    for b in 0..rows: out[b] = reduce()") +
                                 function + ", x[b], axis=-1)\n}";
        // Beyond four vectors, and beyond one.
        for (const std::int64_t n : {23, 150}) {
            Tensor x = uniform({n + 1, n}, std::uint64_t(n));
            for (std::int64_t i = 0; i < n; ++i) x.data<float>()[i * n + i] = NAN;
            expect_agreement(Case(text, {x}));
            expect_agreement(Case(text, {x.to(DType::Float64)}));
        }
    }
}

TEST_F(Examples, RowSumsOfShortAndLongRows) {
    for (const Shape& shape :
         {Shape{1000, 3}, Shape{3, 1000}, Shape{2, 5000}, Shape{0, 4}, Shape{4, 0}}) {
        expect_agreement(Case(example_text("07"), {uniform(shape, 5)}), 1e-5, 10);
    }
}

TEST_F(Examples, MatmulsOfRaggedShapes) {
    expect_agreement(Case(example_text("09"), {uniform({1, 1}, 1), uniform({1, 1}, 2)}));
    expect_agreement(Case(example_text("09"), {uniform({17, 33}, 1), uniform({33, 65}, 2)}), 1e-5,
                     10);
    expect_agreement(Case(example_text("09"), {uniform({5, 4100}, 1), uniform({4100, 18}, 2)}),
                     1e-5, 100);
    expect_agreement(Case(example_text("10"), {uniform({3, 9, 33}, 1), uniform({3, 33, 65}, 2)}),
                     1e-5, 10);
}

TEST_F(Examples, ConvolutionsWithStrideAndPadding) {
    for (const auto& [stride, padding] : {std::pair{1, 0}, {1, 1}, {2, 1}, {3, 2}}) {
        const Arguments arguments{{"stride", std::int64_t(stride)},
                                  {"padding", std::int64_t(padding)}};
        expect_agreement(
            Case(example_text("11"),
                 {uniform({2, 3, 9, 21}, 1), uniform({5, 3, 3, 2}, 2), uniform({5}, 3)}, arguments),
            1e-5, 10);
    }
    expect_agreement(Case(example_text("12"), {uniform({2, 3, 9, 21}, 1), uniform({3, 3, 3}, 2)}),
                     1e-5, 10);
}

TEST_F(Examples, RotaryEmbeddingStoresBothOfEachPair) {
    expect_agreement(Case(example_text("18"),
                          {uniform({2, 3, 5, 66}, 1), uniform({5, 33}, 2), uniform({5, 33}, 3)}));
}

Tensor causal_mask(std::int64_t n) {
    Tensor mask({n, n}, DType::Bool, Device("interpreter"));
    for (std::int64_t i = 0; i < n; ++i) {
        // Row 2 is masked whole.
        for (std::int64_t j = 0; j <= i; ++j) mask.data<bool>()[i * n + j] = i != 2;
    }
    return mask;
}

TEST_F(Examples, AttentionWithACausalMaskAndAMaskedRow) {
    const Shape shape{1, 2, 17, 20};
    expect_agreement(Case(example_text("13"), {uniform(shape, 1), uniform(shape, 2),
                                               uniform(shape, 3), causal_mask(17)}));
}

TEST_F(Examples, FlashAttentionOfRaggedLengths) {
    for (const std::int64_t n : {1, 63, 64, 65, 100}) {
        const Shape shape{1, 2, n, 20};
        expect_agreement(
            Case(example_text("14"), {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)}));
    }
    // Scores of 1e4 do not overflow.
    const Shape shape{1, 1, 70, 16};
    expect_agreement(Case(example_text("14"), {uniform(shape, 1, -50, 50),
                                               uniform(shape, 2, -50, 50), uniform(shape, 3)}),
                     1e-4);
}

TEST_F(Examples, SoftmaxOverAllElementsAndByRows) {
    for (const Shape& shape : {Shape{1}, Shape{1023}, Shape{3, 257}, Shape{2, 3, 33}}) {
        expect_agreement(Case(example_text("15"), {uniform(shape, 1)}));
    }
    std::string by_rows = example_text("15");
    const auto replace = [&](const std::string& from, const std::string& to) {
        by_rows.replace(by_rows.find(from), from.size(), to);
    };
    replace("reduce(max, logits)", "reduce(max, logits, axis=-1)");
    replace("reduce(+, exp_vals)", "reduce(+, exp_vals, axis=-1)");
    for (const std::int64_t n : {1, 15, 16, 17, 1023}) {
        expect_agreement(Case(by_rows, {uniform({5, n}, 1)}));
    }
}

TEST_F(Examples, LayerNormAndGelu) {
    for (const std::int64_t n : {1, 17, 1023}) {
        expect_agreement(
            Case(example_text("16"), {uniform({3, n}, 1), uniform({n}, 2), uniform({n}, 3)},
                 {{"eps", 1e-5}}),
            1e-4);
    }
    // x (1 + t) / 2 with |x| <= 1: the two tanh are each within 2 units of 2^-24 of the exact one,
    // and their sums with 1 round to numbers one unit of 2^-23 further apart at most.
    const double tolerance = (4 * 0x1p-24 + 0x1p-23) / 2;
    for (const std::int64_t n : kSizes) {
        expect_agreement(Case(example_text("17"), {uniform({n}, std::uint64_t(n))}), tolerance);
    }
    expect_agreement(Case(example_text("17"), {uniform({2, 3, 5}, 9)}), tolerance);
}

TEST_F(Examples, OperandsThatAreViews) {
    const Tensor a = uniform({17, 33}, 1), b = uniform({33, 20}, 2);
    for (const Tensor& left : {transposed_in_memory(a), sliced_from_larger(a)}) {
        for (const Tensor& right : {transposed_in_memory(b), sliced_from_larger(b)}) {
            expect_agreement(Case(example_text("09"), {left, right}), 1e-5, 10);
        }
    }
    expect_agreement(Case(example_text("07"), {transposed_in_memory(a)}), 1e-5, 10);
    expect_agreement(Case(example_text("01"), {sliced_from_larger(uniform({65}, 4))}));
}

}  // namespace
}  // namespace quern::cpu_test

#include <functional>
#include <limits>

#include "tests/conformance/operands.h"

namespace quern {
namespace {

/// Sums in double, in order: the definition.
double sum_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) sum += v;
    return sum;
}

TEST(Check59, SumOfEverySizeAndOfTenMillion) {
    const Kernel sum = example("04");
    for (const std::int64_t n : kSizes) {
        const Tensor x = uniform({n}, 1, 0, 1);
        const Tensor total = sum(x);
        EXPECT_EQ(total.shape(), Shape{});
        EXPECT_CLOSE(total, {sum_of(x.values())}, kRelative, 0);
    }
    const Tensor many = uniform({10'000'000}, 2, 0, 1);
    EXPECT_CLOSE(sum(many), {sum_of(many.values())}, 1e-6, 0);
}

TEST(Check59, SumOfAnyRankIsOverEverything) {
    const Tensor x = random_tensor({3, 5, 7}, DType::Float32, 3);
    const Tensor total = example("04")(x);
    EXPECT_EQ(total.shape(), Shape{});
    // Multiples of 1/8 of this size add exactly.
    EXPECT_CLOSE(total, {sum_of(x.values())}, 0, 0);
    EXPECT_TRUE(same_bits(example("04")(transposed_in_memory(x)), total));
}

TEST(Check59, SumsOfManyGoOnGrowing) {
    // Of ones, a float32 that takes one after the other stays at 2^24.
    const std::int64_t many = (std::int64_t{1} << 24) + 4096;
    float one = 1;
    const Tensor ones = Tensor::adopt(&one, {many, 16}, DType::Float32, {0, 0});
    const Tensor rows = ones.permute({1, 0}).slice(0, 0, 5);
    const Kernel along(
        "compute(m) {\n    @kernel reduce(+, axis=0)\n    for i in 0..a, j in 0..b: yield m[i, "
        "j]\n}");
    // Work-groups of other devices add up as docs/language.md says.
    const Device device("auto");
    EXPECT_EQ(along.on(device)(ones).values(), std::vector<double>(16, double(many)));
    const Tensor product = example("09").on(device)(rows, ones);
    EXPECT_EQ(product.values(), std::vector<double>(5 * 16, double(many)));
}

TEST(Check59, LongSumsUnderConditionsStayWhereTheyDoNotHold) {
    const Tensor x = uniform({100, 5003}, 4);
    const Kernel kernel(R"(compute(x) {
        @kernel custom
        for i in 0..m:
            var sum = -1.0
            if i % 3 != 1:
                for k in 0..n:
                    sum += x[i, k]
            out[i] = sum
    })");
    std::vector<double> expected(100, -1.0);
    const std::vector<double> values = x.values();
    for (std::size_t i = 0; i < 100; ++i) {
        for (std::size_t k = 0; i % 3 != 1 && k < 5003; ++k) expected[i] += values[i * 5003 + k];
    }
    EXPECT_CLOSE(kernel(x), expected, 1e-5, 1e-2);
    EXPECT_CLOSE(kernel(x.permute({1, 0}).contiguous().permute({1, 0})), expected, 1e-5, 1e-2);
}

TEST(Check59, SumsThatDoNotRunKeepTheSignOfTheirZero) {
    for (const char* index : {"k, i", "i, k"}) {
        const Kernel kernel(std::string("compute(x) {\n @kernel custom\n for i in 0..m:\n"
                                        "  var sum = -0.0\n  if i % 3 != 1:\n"
                                        "   for k in 0..n: sum += x[") +
                            index + "]\n  out[i] = 1.0 / sum\n}");
        for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
            const Tensor sums =
                kernel.with(numerics)(Tensor::from({20, 20}, std::vector<float>(400, 0.25f)));
            for (std::size_t i = 0; i < 20; ++i) {
                EXPECT_EQ(sums.values()[i],
                          i % 3 == 1 ? -std::numeric_limits<double>::infinity() : double(1.0f / 5))
                    << index << ", " << i;
            }
        }
    }
}

TEST(Check59, ADifferenceIsTheSumOfWhatIsTakenAway) {
    const auto of = [](const std::string& var, const std::string& step, const Tensor& a) {
        return compute("compute(a) {\n @kernel custom\n for j in 0..1:\n  " + var +
                           "\n  for i in 0..n: " + step + "\n  out[j] = s\n}",
                       a);
    };
    const Tensor half = Tensor::from({5000}, std::vector<float>(5000, 0.1f)).to(DType::Float16);
    EXPECT_CLOSE(of("var s = 0.0", "s -= a[i]", half), {-0.0999755859375 * 5000}, 1e-3, 0);
    const Tensor bytes = Tensor::from({4}, {100, -128, 127, -7}).to(DType::Int8);
    const Tensor squares = of("var s = 0", "s -= a[i] * a[i]", bytes);
    EXPECT_EQ(squares.dtype(), DType::Int64);
    EXPECT_CLOSE(squares, {-42562}, 0, 0);
    EXPECT_CLOSE(of("var s: int64 = 7", "s -= a[i] * a[i]", bytes), {-42555}, 0, 0);
    EXPECT_CLOSE(of("var s = 0", "s -= a[i] > 0", bytes), {-2}, 0, 0);
    const Tensor unsigned_bytes = Tensor::from({2}, {20, 30}).to(DType::UInt8);
    const Tensor below = of("var s = 0", "s -= a[i] * a[i]", unsigned_bytes);
    EXPECT_EQ(below.dtype(), DType::Int64);
    EXPECT_CLOSE(below, {-1300}, 0, 0);
    EXPECT_CLOSE(of("var s: int64 = 7", "s -= a[i]", unsigned_bytes), {-43}, 0, 0);
}

TEST(Check59, ACastEndsAProductBeforeItIsAdded) {
    const Tensor bytes = Tensor::from({2}, {20, 30}).to(DType::UInt8);
    const auto sum = [&](const std::string& body) {
        return compute("compute(a) {\n @kernel custom\n" + body + "\n}", bytes).values().at(0);
    };
    const auto loop = [](const std::string& value) {
        return " for j in 0..1:\n  var s = 0\n  for i in 0..n: s += " + value + "\n  out[j] = s";
    };
    EXPECT_EQ(sum(loop("a[i] * a[i]")), 1300);
    EXPECT_EQ(sum(loop("u8(a[i] * a[i])")), 144 + 132);
    EXPECT_EQ(sum(loop("u16(a[i] * a[i])")), 144 + 132);
    EXPECT_EQ(sum(loop("u8(a[i]) * a[i]")), 1300);
    const auto reduced = [&](const std::string& value) {
        return compute("compute(a) {\n @kernel fused\n out = reduce(+, " + value + ")\n}", bytes)
            .values()
            .at(0);
    };
    EXPECT_EQ(reduced("a * a"), 1300);
    EXPECT_EQ(reduced("u8(a * a)"), 144 + 132);
    EXPECT_EQ(
        compute("compute(a) {\n @kernel reduce(+)\n for i in 0..n: yield u8(a[i] * a[i])\n}", bytes)
            .item(),
        144 + 132);
}

TEST(Check59, HalfPrecisionAddsUpInFloat32) {
    const Kernel sum = example("04");
    const Tensor ones = Tensor::from({4096}, std::vector<double>(4096, 1)).to(DType::Float16);
    EXPECT_EQ(sum(ones).dtype(), DType::Float16);
    // 2048 + 1 is 2048 in float16, 256 + 1 is 256 in bfloat16.
    EXPECT_EQ(sum(ones).item(), 4096);
    EXPECT_EQ(sum(ones.to(DType::BFloat16)).item(), 4096);
}

TEST(Check60, MaxOfEverySizeAndOfNan) {
    const Kernel largest = example("05");
    for (const std::int64_t n : kSizes) {
        if (n == 0) continue;
        const Tensor x = uniform({n}, 5, -9, -1);
        const std::vector<double> values = x.values();
        EXPECT_CLOSE(largest(x), {*std::max_element(values.begin(), values.end())}, 0, 0);
    }
    for (const int place : {0, 1, 16, 40}) {
        std::vector<double> values(41, 1);
        values[std::size_t(place)] = kNaN;
        EXPECT_TRUE(std::isnan(largest(Tensor::from({41}, values)).item())) << place;
    }
    EXPECT_EQ(largest(Tensor::from({2}, {-kInfinity, -kInfinity})).item(), -kInfinity);
}

TEST(Check61, NormOfEverySize) {
    const Kernel norm = example("06");
    for (const std::int64_t n : kSizes) {
        const Tensor x = uniform({n}, 6);
        double squares = 0;
        for (const double v : x.values()) squares += v * v;
        EXPECT_CLOSE(norm(x), {std::sqrt(squares)}, kRelative, 0);
    }
}

TEST(Check61, NormOfHalfPrecisionDoesNotOverflow) {
    // 300^2 is above the largest float16; 300 * sqrt(4) is not.
    const Tensor x = Tensor::from({4}, {300.0, 300.0, 300.0, 300.0}).to(DType::Float16);
    EXPECT_EQ(example("06")(x).item(), 600);
}

TEST(Check62, RowSumsOfTallAndWideMatrices) {
    const Kernel rows = example("07");
    for (const Shape& shape :
         {Shape{1000, 3}, Shape{3, 1000}, Shape{1, 1}, Shape{5, 0}, Shape{0, 5}}) {
        const Tensor x = uniform(shape, 7, 0, 1);
        const std::vector<double> values = x.values();
        std::vector<double> expected(static_cast<std::size_t>(shape[0]), 0.0);
        for (std::size_t i = 0; i < values.size(); ++i)
            expected[i / std::size_t(shape[1])] += values[i];
        const Tensor y = rows(x);
        EXPECT_EQ(y.shape(), Shape{shape[0]});
        EXPECT_CLOSE(y, expected, kRelative, 0);
    }
}

TEST(Check63, ArgmaxTakesTheLowestIndexAndTheFirstNan) {
    const Kernel argmax = example("08");
    for (const std::int64_t n : kSizes) {
        if (n == 0) continue;
        const Tensor x = random_tensor({n}, DType::Float32, 8);
        const std::vector<double> values = x.values();
        const Tensor at = argmax(x);
        EXPECT_EQ(at.dtype(), DType::Int64);
        EXPECT_EQ(at.item(),
                  double(std::max_element(values.begin(), values.end()) - values.begin()));
    }
    EXPECT_EQ(argmax(Tensor::from({5}, {1.0, 3.0, 3.0, 2.0, 3.0})).item(), 1);
    EXPECT_EQ(argmax(Tensor::from({5}, {1.0, 3.0, kNaN, 9.0, kNaN})).item(), 2);
    EXPECT_EQ(argmax(Tensor::from({2}, {-kInfinity, -kInfinity})).item(), 0);
}

TEST(Check74, NothingHasASumAndAProductButNoLargest) {
    const auto reduce = [](const std::string& op, const Tensor& x) {
        return compute(
            "compute(x) {\n @kernel reduce(" + op + ")\n for i in 0..len:\n  yield x[i]\n}", x);
    };
    const Tensor none({0}), no_truths({0}, DType::Bool);
    EXPECT_EQ(reduce("+", none).item(), 0);
    EXPECT_EQ(reduce("*", none).item(), 1);
    EXPECT_EQ(reduce("and", no_truths).item(), 1);
    EXPECT_EQ(reduce("or", no_truths).item(), 0);
    EXPECT_EQ(refusal([&] { return reduce("max", none); }), "E0620 3:6");
    EXPECT_EQ(refusal([&] { return reduce("min", none); }), "E0620 3:6");
    EXPECT_EQ(refusal([&] { return example("08")(none); }), "E0620 4:9");
    EXPECT_EQ(example("01")(none).shape(), Shape{0});
    EXPECT_EQ(refusal([&] { return example("15")(Tensor({0, 3})); }), "E0620 4:19");
}

struct Operator {
    const char* name;
    std::function<double(double, double)> of;
    double identity;
};

bool truth(double v) { return v != 0; }

const Operator kOperators[] = {
    {"+", [](double a, double b) { return a + b; }, 0},
    {"*", [](double a, double b) { return a * b; }, 1},
    {"min", [](double a, double b) { return std::min(a, b); }, kInfinity},
    {"max", [](double a, double b) { return std::max(a, b); }, -kInfinity},
    {"and", [](double a, double b) { return double(truth(a) && truth(b)); }, 1},
    {"or", [](double a, double b) { return double(truth(a) || truth(b)); }, 0},
};

/// What a sum of the dtype has: NumPy's rule, but f16 stays f16.
DType dtype_of(const std::string& op, DType dtype) {
    if (op == "and" || op == "or") return DType::Bool;
    if (op == "min" || op == "max" || is_floating(dtype)) return dtype;
    return is_unsigned_integer(dtype) ? DType::UInt64 : DType::Int64;
}

class Check76 : public ::testing::TestWithParam<DType> {};

TEST_P(Check76, EveryReductionOperator) {
    const DType dtype = GetParam();
    for (const Operator& op : kOperators) {
        const bool truths = std::string(op.name) == "and" || std::string(op.name) == "or";
        if (truths && is_floating(dtype)) continue;
        const bool product = std::string(op.name) == "*";
        for (const std::int64_t n : {1, 7, 33}) {
            // Powers of two near 1 multiply exactly; small integers and eighths add exactly.
            Tensor x = random_tensor({n}, dtype, std::uint64_t(n));
            if (product) {
                std::vector<double> factors(std::size_t(n), 1);
                factors[0] = dtype == DType::Bool ? 1 : 2;
                if (n > 3) factors[3] = is_floating(dtype) ? 0.5 : factors[0];
                x = Tensor::from({n}, factors).to(dtype);
            }
            double expected = op.identity;
            for (const double v : x.values()) expected = op.of(expected, v);
            const std::string head = "compute(x) {\n @kernel ", name = op.name;
            const Tensor yielded =
                compute(head + "reduce(" + name + ")\n for i in 0..len:\n  yield x[i]\n}", x);
            EXPECT_EQ(yielded.dtype(), dtype_of(name, dtype)) << name;
            EXPECT_EQ(yielded.item(), expected) << name << " of " << n;
            const Tensor called = compute(head + "fused\n out = reduce(" + name + ", x)\n}", x);
            EXPECT_TRUE(same_bits(called, yielded)) << name;
            const Tensor rows =
                compute(head + "reduce(" + name +
                            ", axis=-1)\n for i in 0..r, j in 0..c:\n  yield x[i, j]\n}",
                        x.reshape({1, n}));
            EXPECT_TRUE(same_bits(rows.reshape({}), yielded)) << name;
        }
    }
    if (dtype == DType::Bool) return;
    const Tensor x = random_tensor({33}, dtype, 3);
    const std::vector<double> values = x.values();
    const auto arg = [&](const char* op) {
        return compute(std::string("compute(x) {\n @kernel reduce(") + op +
                           ")\n for i in 0..len:\n  yield (x[i], i)\n}",
                       x);
    };
    EXPECT_EQ(arg("argmax").item(),
              double(std::max_element(values.begin(), values.end()) - values.begin()));
    EXPECT_EQ(arg("argmin").item(),
              double(std::min_element(values.begin(), values.end()) - values.begin()));
}

INSTANTIATE_TEST_SUITE_P(DTypes, Check76, ::testing::ValuesIn(kKernelDTypes),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(Check76, IntegersWrapAndKeepTheirExtremes) {
    const std::int64_t top = INT64_MAX;
    const Tensor x = Tensor::from<std::int64_t>({2}, {top, 1});
    EXPECT_EQ(example("04")(x).integers()[0], INT64_MIN);
    for (const DType dtype : {DType::Int8, DType::UInt8, DType::Int64, DType::UInt64}) {
        const std::int64_t low = dtype == DType::Int8    ? -128
                                 : dtype == DType::Int64 ? INT64_MIN
                                                         : 0;
        const Tensor one = Tensor::from<std::int64_t>({1}, {low}).to(dtype);
        EXPECT_EQ(example("05")(one).integers()[0], low) << to_string(dtype);
    }
    const Tensor large = Tensor::from<std::int64_t>({2}, {-1, 1}).to(DType::UInt64);
    EXPECT_EQ(example("05")(large).integers()[0], -1);
    EXPECT_EQ(example("08")(large).item(), 0);
}

TEST(Check76, AnElementThatNoYieldReachedHasTheEmptyValue) {
    const Tensor x = Tensor::from({2, 3}, {1.0, -1.0, 2.0, -1.0, -2.0, -3.0});
    const std::string nest = "for i in 0..r, j in 0..c:\n  if x[i, j] > 0.0:\n   yield ";
    const auto of = [&](const std::string& op) {
        return compute("compute(x) {\n @kernel reduce(" + op + ", axis=1)\n " + nest + "x[i, j]\n}",
                       x);
    };
    EXPECT_CLOSE(of("+"), {3, 0}, 0, 0);
    EXPECT_CLOSE(of("*"), {2, 1}, 0, 0);
    EXPECT_EQ(refusal([&] {
                  return compute(
                      "compute(x) {\n @kernel reduce(argmax, axis=1)\n " + nest + "(x[i, j], j)\n}",
                      x);
              }).substr(0, 5),
              "E0620");
}

}  // namespace
}  // namespace quern

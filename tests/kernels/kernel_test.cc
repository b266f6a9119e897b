#include "quern/kernel.h"

#include <cmath>

#include "quern/threads.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

const char* const kScale = R"(compute(x) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] * factor
})";

template <class Action>
std::vector<Diagnostic> refusal(Action action) {
    try {
        static_cast<void>(action());
    } catch (const KernelError& error) {
        return error.diagnostics();
    }
    return {};
}

/// What the handler receives while it lives.
class Warnings {
public:
    Warnings() {
        before_ = set_warning_handler([this](const Diagnostic& d) { codes.push_back(d.code); });
    }
    ~Warnings() { set_warning_handler(before_); }
    std::vector<std::string> codes;

private:
    WarningHandler before_;
};

TEST(Kernel, TensorsBindByPositionAndNumbersByNameInAnyOrder) {
    const Kernel kernel(R"(compute(a, b) {
        @kernel elementwise
        for i in 0..len: out[i] = a[i] * p - b[i] * q
    })");
    const Tensor a = Tensor::from({2}, {1.0f, 2.0f}), b = Tensor::from({2}, {10.0f, 20.0f});
    EXPECT_CLOSE(kernel(a, b, arg("p", 2.0), arg("q", 1)), {-8, -16}, 0, 0);
    EXPECT_CLOSE(kernel(arg("q", 1), a, arg("p", 2.0), b), {-8, -16}, 0, 0);
    EXPECT_EQ(kernel.operand_names(), (std::vector<std::string>{"a", "b"}));
}

TEST(Kernel, ANumberIsAnIntegerABoolOrAFloatAndEachCallHasItsOwn) {
    const Tensor x = Tensor::from({2}, {1.0f, 2.0f});
    const Kernel kernel(kScale);
    EXPECT_CLOSE(kernel(x, arg("factor", 3)), {3, 6}, 0, 0);
    EXPECT_CLOSE(kernel(x, arg("factor", 4)), {4, 8}, 0, 0);
    EXPECT_CLOSE(kernel(x, arg("factor", 0.5)), {0.5, 1}, 0, 0);
    EXPECT_CLOSE(kernel(x, arg("factor", 0.25f)), {0.25, 0.5}, 0, 0);
    EXPECT_THROWS(ValueError, "expected 'factor' once, got it twice",
                  kernel(x, arg("factor", 1), arg("factor", 2)));
}

TEST(Kernel, AnEpsilonOfDoublePrecisionStaysOneBesideFloat64) {
    const Tensor x = Tensor::from({1}, {1.0});
    EXPECT_EQ(Kernel(kScale)(x, arg("factor", 0.1)).item(), 0.1);
}

TEST(Kernel, ServesEveryShapeAndDtypeOfItsText) {
    const Kernel kernel(kScale);
    for (const Shape& shape : {Shape{3}, Shape{5}, Shape{2, 2}, Shape{}}) {
        for (const DType dtype : {DType::Float16, DType::Float32, DType::Float64}) {
            const Tensor y = kernel(random_tensor(shape, dtype, 1), arg("factor", 2.0));
            EXPECT_EQ(y.shape(), shape);
            EXPECT_EQ(y.dtype(), dtype);
        }
    }
}

TEST(Kernel, ACallThatDoesNotFitIsRefusedWithEveryDiagnostic) {
    const Kernel kernel(kScale);
    const Tensor x({2});
    EXPECT_EQ(refusal([&] { return kernel(x); }).at(0).code, "E0411");
    const auto few = refusal([&] { return kernel(arg("factor", 1)); });
    ASSERT_EQ(few.size(), 1u);
    EXPECT_EQ(few[0].code, "E0504");
    EXPECT_EQ(few[0].message, "expected 1 operand, got 0");
    EXPECT_EQ(refusal([&] { return kernel(x, x, arg("factor", 1)); }).at(0).message,
              "expected 1 operand, got 2");
}

TEST(Kernel, ATextThatDoesNotParseIsRefusedWhereItIsMade) {
    const auto refused = refusal([] {
        return Kernel("compute(x) {\n  @kernel custom\n  out[0] = x[0] +\n}",
                      {.file = "sum.quern", .pedantic = false});
    });
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_EQ(refused[0].code, "E0200");
    EXPECT_EQ(refused[0].file, "sum.quern");
    EXPECT_EQ(refused[0].line, 3);
    EXPECT_THROWS(ValueError, "expected one compute(...) { ... }, got a script",
                  Kernel("let a = 1\nlet b = 2"));
}

TEST(Kernel, PipesOfUnaryFunctionsBelongToIt) {
    const Kernel kernel(
        "compute(x) {\n @kernel reduce(+)\n for i in 0..len: yield x[i]\n} |> sqrt() |> exp()");
    EXPECT_CLOSE(kernel(Tensor::from({2}, {4.0f, 5.0f})), {std::exp(3.0)}, 1e-6, 0);
}

TEST(Kernel, WarningsGoToTheHandler) {
    const Warnings warnings;
    const Tensor x({3, 2}), y({3});
    const char* text = R"(compute(x, y) {
        @kernel custom
        for s in 0..n, d in 0..2:
            let s = y[s]
            out[s, d] = x[s, d] * s
    })";
    compute(text, x, y);
    EXPECT_NE(std::find(warnings.codes.begin(), warnings.codes.end(), "W0702"),
              warnings.codes.end());
    EXPECT_EQ(
        refusal([&] { return Kernel(text, {.file = {}, .pedantic = true})(x, y); }).at(0).code,
        "E0412");
}

TEST(Kernel, RunsOnTheDeviceThatIsNamed) {
    EXPECT_CLOSE(
        Kernel(kScale).on(Device("interpreter"))(Tensor::from({1}, {2.0f}), arg("factor", 2)), {4},
        0, 0);
    EXPECT_THROWS(DeviceError, "E0601", Kernel(kScale).on(Device("cuda:9")));
}

/// In float16 the angle would be infinite or a multiple of 32, and 219 * 300 too large.
TEST(Kernel, AnExpressionOfLoopVariablesBesideFloat16IsRoundedAtItsEnd) {
    const Tensor ones = Kernel(kScale)(Tensor({66000}, DType::Float16), arg("factor", 0.0));
    const auto of = [&](const std::string& value) {
        return Kernel("compute(x) {\n@kernel custom\nfor s in 0..n: out[s] = (x[s] + 1.0) * " +
                      value + "\n}")(ones)
            .values();
    };
    const std::vector<double> cosines = of("cos(s)"), parts = of("(s * 300.0 / 40000.0)");
    for (const std::size_t s : {0, 219, 2049, 65519, 65520, 65999}) {
        // Half a unit of float16, of which 1 has 2^-10, and what float32 has of the angle.
        EXPECT_NEAR(cosines[s], std::cos(double(s)), 0x1p-11) << s;
        EXPECT_NEAR(parts[s], double(s) * 300 / 40000, double(s) * 300 / 40000 * 0x1p-11) << s;
    }
}

/// The longest code there is where a device has no float64, and longer by lanes of a work-group.
TEST(Kernel, ACosineOfFloat64RunsOnEveryDevice) {
    const std::vector<double> angles = {0, 0.5, -2, 31.25, 1e6};
    std::vector<double> expected;
    for (const double angle : angles) expected.push_back(std::cos(angle));
    const Kernel kernel(
        "compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = cos(x[i])\n}");
    // 2 ulp of a number of at most 1.
    EXPECT_CLOSE(kernel(Tensor::from({5}, angles)), expected, 0, 0x1p-52);
}

TEST(Check87, ABadIndexFromDataIsReportedAtItsLineAndTheProcessLives) {
    const Kernel gather(
        "compute(x, at) {\n    @kernel custom\n    for i in 0..n:\n        out[i] = x[at[i]]\n}");
    const Tensor x = Tensor::from({3}, {1.0f, 2.0f, 3.0f});
    const auto failed = refusal([&] { return gather(x, Tensor::from({2}, {0, 1000000})); });
    ASSERT_EQ(failed.size(), 1u);
    EXPECT_EQ(failed[0].code, "E0507");
    EXPECT_EQ(failed[0].line, 4);
    EXPECT_NE(failed[0].message.find("1000000"), std::string::npos) << failed[0].message;
    EXPECT_NE(failed[0].message.find("'x'"), std::string::npos) << failed[0].message;
    EXPECT_NE(failed[0].message.find("3"), std::string::npos) << failed[0].message;
    EXPECT_EQ(refusal([&] { return gather(x, Tensor::from({1}, {-1})); }).at(0).code, "E0507");
    EXPECT_CLOSE(gather(x, Tensor::from({2}, {2, 0})), {3, 1}, 0, 0);
}

TEST(Check88, TheSameInputGivesTheSameBits) {
    const Kernel sum(
        "compute(x) {\n @kernel reduce(+, axis=1)\n for i in 0..r, j in 0..c: yield x[i, j] * "
        "0.1\n}");
    const Tensor x = random_tensor({40, 301}, DType::Float32, 1);
    const std::vector<double> first = sum(x).values();
    for (const int threads : {1, 2, 5, 0}) {
        set_num_threads(threads);
        EXPECT_EQ(sum(x).values(), first) << threads;
    }
}

TEST(Check82, TheWorkGroupChangesNoBit) {
    const Tensor a = random_tensor({9, 17}, DType::Float32, 1),
                 b = random_tensor({17, 5}, DType::Float32, 2);
    std::vector<double> first;
    for (const std::string size : {"1", "32", "256", "16, 16", "7, 3"}) {
        const Tensor c = compute("compute(A, B) {\n @kernel matmul\n @workgroup(" + size +
                                     ")\n for i in 0..M, j in 0..N:\n  var s = 0.1\n  for k in "
                                     "0..K: s += A[i, k] * B[k, j]\n  out[i, j] = s\n}",
                                 a, b);
        if (first.empty()) first = c.values();
        EXPECT_EQ(c.values(), first) << size;
    }
}

}  // namespace
}  // namespace quern

#include "quern/kernel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "quern/async.h"
#include "quern/static_kernel.h"
#include "tests/tensor_test.h"

namespace quern {
namespace kernel_test {

constexpr const char* kScale = R"(compute(x) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] * factor
})";

constexpr int kLineOfProduct = __LINE__ + 1;
inline const auto kProduct = QUERN_KERNEL(R"(compute(A, B) {
    @kernel matmul
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K:
            sum += A[i, k] * B[k, j]
        out[i, j] = sum
})");

TEST(Kernel, TakesTensorsByPositionAndNumbersByNameInAnyOrder) {
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    const Kernel scale(kScale);
    EXPECT_CLOSE(scale(x, arg("factor", 3)), (std::vector<double>{3, 6}), 0, 0);
    EXPECT_CLOSE(scale(arg("factor", 0.5f), x), (std::vector<double>{0.5, 1}), 0, 0);
    EXPECT_CLOSE(compute(kScale, x, arg("factor", 2.0)), (std::vector<double>{2, 4}), 0, 0);
    EXPECT_EQ(scale.operand_names(), std::vector<std::string>{"x"});
}

TEST(Kernel, IsOneWhereItWasMovedFrom) {
    Kernel from(kScale);
    Kernel scale = std::move(from);
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    EXPECT_CLOSE(from(x, arg("factor", 3)), (std::vector<double>{3, 6}), 0, 0);
    from = std::move(scale);
    EXPECT_EQ(scale.operand_names(), std::vector<std::string>{"x"});
    EXPECT_EQ(scale.async()(x, arg("factor", 3)).get().values()[1], 6);
}

TEST(Kernel, AppliesPipedFunctionsToTheResult) {
    const Tensor x = Tensor::from<float>({2}, {3, 4});
    const Tensor norm = compute(R"(let norm = compute(x) {
        @kernel reduce(+)
        for i in 0..len: yield x[i] * x[i]
    } |> sqrt())",
                                x);
    EXPECT_EQ(norm.item(), 5);
    const auto piped = [](const std::string& function) {
        const Tensor in = Tensor::from<float>({2}, {-1, 0});
        return compute(
            "compute(x) { @kernel elementwise; for i in 0..len { out[i] = x[i]; } } |> " +
                function + "()",
            in);
    };
    EXPECT_CLOSE(piped("relu"), (std::vector<double>{0, 0}), 0, 0);
    EXPECT_CLOSE(piped("isnan"), (std::vector<double>{0, 0}), 0, 0);
    // 1 / (1 + e), rounded to float32.
    EXPECT_CLOSE(piped("sigmoid"), (std::vector<double>{0.2689414214, 0.5}), 1e-6, 0);
    EXPECT_THROWS(KernelError, "'dot' is not a function of one value", piped("dot"));
}

/// The one diagnostic that a text is refused with before it is launched.
Diagnostic refused(const std::string& text, const KernelOptions& options = {}) {
    try {
        static_cast<void>(Kernel(text, options));
    } catch (const KernelError& error) {
        EXPECT_EQ(error.diagnostics().size(), 1u) << error.what();
        return error.diagnostics()[0];
    }
    ADD_FAILURE() << "accepted: " << text;
    return {};
}

TEST(Kernel, IsRefusedAtAPipeThatIsNoFunctionOfOneValue) {
    const std::string kernel = "compute(x) {\n    @kernel custom\n    out = x\n}";
    const Diagnostic unknown = refused(kernel + " |> abs() |> gelu()");
    EXPECT_EQ(unknown.code, "E0407");
    EXPECT_EQ(unknown.line, 4);
    EXPECT_EQ(unknown.column, 15);
    EXPECT_EQ(unknown.source, "} |> abs() |> gelu()");
    EXPECT_EQ(unknown.help.at(0), "did you mean 'relu'?");
    EXPECT_EQ(refused(kernel + " |> pow(2)").code, "E0407");
    const Diagnostic arity = refused(kernel + " |> sqrt(2)");
    EXPECT_EQ(arity.code, "E0408");
    EXPECT_EQ(arity.message, "'sqrt' expects the piped value alone, got 1 more");
    EXPECT_EQ(arity.column, 6);
}

TEST(Kernel, CountsItsLinesFromTheOneThatItIsGiven) {
    const Diagnostic error = refused("compute(x) {\n    @kernel custom\n    out = x +\n}",
                                     {.file = "net.cc", .first_line = 40});
    EXPECT_EQ(error.file, "net.cc");
    EXPECT_EQ(error.line, 42);
    EXPECT_EQ(error.source, "    out = x +");
}

TEST(Kernel, ThrowsEveryErrorOfATextAtOnce) {
    try {
        Kernel("compute(x) {\n @kernel custom\n for i in 0 n: out[i] = 1\n y = }");
        FAIL() << "expected a KernelError";
    } catch (const KernelError& error) {
        EXPECT_GE(error.diagnostics().size(), 2u);
        EXPECT_EQ(error.diagnostics()[0].code, "E0212");
        EXPECT_EQ(error.diagnostics()[0].line, 3);
    }
}

TEST(Kernel, NamesAMissingNumberAndAWrongCountOfOperands) {
    const Tensor x({2});
    EXPECT_THROWS(KernelError, "arg(\"factor\", value)", compute(kScale, x));
    EXPECT_THROWS(KernelError, "expected 1 operand", compute(kScale, x, x));
    EXPECT_THROWS(ValueError, "a name that the kernel leaves free, got 'fctor'",
                  compute(kScale, x, arg("fctor", 1)));
    EXPECT_THROWS(ValueError, "got 'x'", compute(kScale, x, arg("factor", 1), arg("x", 1)));
    EXPECT_THROWS(ValueError, "expected 'factor' once",
                  compute(kScale, x, arg("factor", 1), arg("factor", 2)));
}

TEST(Kernel, RefusesAnArgumentWhoseWordsAreThoseOfOperandsThatItWasCalledWith) {
    const Kernel kernel(
        "compute(x, mask, flag) { @kernel custom; for i in 0..n {"
        " out[i] = select(mask[i] and flag, x[i], 0.0); } }");
    // As operands 101 bools and one, as an argument 0.0 for the name of the character 101.
    const Tensor x({101}), mask({101}, DType::Bool), flag({}, DType::Bool);
    EXPECT_EQ(kernel(x, mask, flag).shape(), Shape{101});
    EXPECT_THROWS(ValueError, "got 'e'", kernel(x, arg("e", 0.0)));
}

TEST(Kernel, LeavesNoNameFreeThatTheTextDeclaresOrThatIsAWord) {
    const Kernel kernel(
        "compute(x) {\n@kernel fused\n@workgroup(w)\n@shared(bytes)\nfor i in 0..n:\n"
        "  let t = relu(x[i])\n  var v = t\n  for k in 0..k: v += scale\n"
        "  if v > 100: let h = v\n  out[i] = v + 0 * h\n}");
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    for (const char* name :
         {"t", "v", "i", "out", "kernel", "fused", "workgroup", "relu", "x", "inf"}) {
        EXPECT_THROWS(ValueError, std::string("got '") + name + "'",
                      kernel(x, arg("scale", 1), arg("k", 2), arg(name, 3)));
    }
    EXPECT_EQ(kernel(x, arg("scale", 1), arg("k", 2), arg("w", 1), arg("n", 2), arg("bytes", 1024),
                     arg("h", 1))
                  .values(),
              (std::vector<double>{3, 4}));
    const Kernel of_a_set(
        "compute(model.a) {\n@kernel custom\nfor i in 0..n: out[i] = model.a[i] * scale\n}");
    EXPECT_THROWS(ValueError, "got 'model'", of_a_set(x, arg("scale", 1), arg("model", 1)));
    EXPECT_EQ(of_a_set(x, arg("scale", 2)).values(), (std::vector<double>{2, 4}));
}

TEST(Kernel, RefusesIntegersThatInt64DoesNotHold) {
    const Kernel scale(kScale);
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    EXPECT_THROWS(ValueError, "expected an integer of at most 9223372036854775807 for 'factor'",
                  scale(x, arg("factor", std::uint64_t(1) << 63)));
    EXPECT_EQ(scale(x, arg("factor", std::uint64_t(3))).values(), (std::vector<double>{3, 6}));
}

TEST(Kernel, RefusesAResultThatAnOperandReadsBackwards) {
    std::vector<float> numbers(200);
    const Tensor x = Tensor::adopt(&numbers[150], {100}, DType::Float32, {-1});
    Tensor meets = Tensor::adopt(&numbers[0], {100}, DType::Float32);
    const Kernel scale(kScale);
    EXPECT_THROWS(ValueError, "expected a result that shares no memory with operand 0",
                  scale.into(meets, x, arg("factor", 2.0)));
    Tensor below = Tensor::adopt(&numbers[0], {51}, DType::Float32);
    const Tensor above = Tensor::adopt(&numbers[101], {51}, DType::Float32, {-1});
    scale.into(below, above, arg("factor", 2.0));
}

TEST(Kernel, MayWriteBetweenTheRowsThatAnOperandHas) {
    std::vector<float> numbers(80);
    for (int i = 0; i < 80; ++i) numbers[std::size_t(i)] = float(i);
    const Tensor all = Tensor::adopt(numbers.data(), {10, 8}, DType::Float32);
    const Kernel scale(
        "compute(x) {\n@kernel elementwise\nfor i in 0..len: out[i] = x[i] * 2.0\n}");
    const auto is_refused = [&](Tensor result, const Tensor& x) {
        try {
            scale.into(result, x);
            return false;
        } catch (const ValueError&) {
            return true;
        }
    };
    const Tensor ends = Tensor::adopt(numbers.data(), {2, 8}, DType::Float32, {72, 1});
    EXPECT_FALSE(is_refused(all.slice(0, 1, 3), ends));
    EXPECT_EQ(all.slice(0, 1, 3).values()[8], 144) << "of row 9";
    EXPECT_FALSE(is_refused(all.slice(0, 7, 9), ends));
    EXPECT_TRUE(is_refused(all.slice(0, 8, 10), ends));
    EXPECT_TRUE(is_refused(all.slice(0, 0, 2), ends));
    // 0, 1, 8, 9, 40, 41, 48, 49, forwards and backwards.
    const std::int64_t at[] = {0, 1, 8, 9, 40, 41, 48, 49};
    for (const bool is_turned : {false, true}) {
        const Tensor x = is_turned
                             ? Tensor::adopt(&numbers[49], {2, 2, 2}, DType::Float32, {-8, -1, -40})
                             : Tensor::adopt(&numbers[0], {2, 2, 2}, DType::Float32, {40, 8, 1});
        for (std::int64_t from = 0; from <= 72; ++from) {
            const bool meets =
                std::ranges::any_of(at, [&](std::int64_t i) { return i >= from && i < from + 8; });
            EXPECT_EQ(is_refused(
                          Tensor::adopt(&numbers[std::size_t(from)], {2, 2, 2}, DType::Float32), x),
                      meets)
                << from;
        }
    }
}

const auto kEarly = QUERN_KERNEL(R"(
compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] * 2.0
})");

TEST(Kernel, ThatIsMadeBeforeMainRunsOnTheDefaultDeviceOfItsCalls) {
    const std::string before = Device().id();
    for (const DeviceInfo& device : devices()) {
        set_default_device(device.id);
        const Tensor x = Tensor::from<float>({2}, {1, 2});
        Tensor result({2});
        kEarly.into(result, x);
        EXPECT_EQ(result.values(), (std::vector<double>{2, 4}));
        EXPECT_EQ(kEarly(x).device().id(), device.id);
        EXPECT_EQ(kEarly.async()(x).get().device().id(), device.id);
        EXPECT_EQ(kEarly.on(Device("interpreter"))(x).device().id(), "interpreter");
    }
    set_default_device(before);
}

TEST(Kernel, OverLenReadsAScalarBesideOthersAsItself) {
    const Tensor x = Tensor::from<float>({2, 2}, {1, 2, 3, 4}), y = Tensor::from<float>({}, {3});
    const Kernel product(
        "compute(y, x) {\n@kernel elementwise\nfor i in 0..len: out[i] = x[i] * y\n}");
    const Kernel sum("compute(x, y) {\n@kernel reduce(+)\nfor i in 0..len: yield x[i] * y\n}");
    const Kernel alone(
        "compute(x) {\n@kernel elementwise\nfor i in 0..len: out[i] = x[i] * 2.0\n}");
    for (const DeviceInfo& info : devices()) {
        const Device device(info.id);
        EXPECT_EQ(product.on(device)(y, x).shape(), (Shape{2, 2}));
        EXPECT_EQ(product.on(device)(y, x).values(), (std::vector<double>{3, 6, 9, 12}));
        EXPECT_EQ(product.on(device)(y, x.reshape({4})).values(),
                  (std::vector<double>{3, 6, 9, 12}));
        EXPECT_EQ(sum.on(device)(x, y).values(), (std::vector<double>{30}));
        EXPECT_EQ(alone.on(device)(y).shape(), Shape());
        EXPECT_EQ(alone.on(device)(y).values(), (std::vector<double>{6}));
    }
    EXPECT_THROWS(
        KernelError, "error[E0502]: expected 'z' of shape [2, 2] as 'x', got [2]",
        compute(
            "compute(y, x, z) {\n@kernel elementwise\nfor i in 0..len: out[i] = x[i] * y + z[i]\n}",
            y, x, Tensor({2})));
}

TEST(Kernel, MayIndexBySumsOfTheSameSumsAgainAndAgain) {
    std::string sums = "  let a0 = i\n";
    constexpr int kSums = 60;
    for (int n = 1; n < kSums; ++n) {
        const std::string last = "a" + std::to_string(n - 1);
        sums += "  let a" + std::to_string(n) + " = " + last + " + " + last + " * m\n";
    }
    const Kernel kernel("compute(x, y: [m]) {\n@kernel custom\nfor i in 0..2:\n" + sums +
                        "  out[i] = x[min(a" + std::to_string(kSums - 1) +
                        " * m + a3, 5) + i] + y[0]\n}");
    const Tensor x = Tensor::from<float>({7}, {1, 2, 3, 4, 5, 6, 7}), y({1});
    // Of what data says, which stays named.
    std::string named = sums;
    named.replace(named.find("a0 = i"), 6, "a0 = p[0]");
    while (named.find(" * m") != std::string::npos) named.erase(named.find(" * m"), 4);
    const Kernel of_data("compute(x: [n], p) {\n@kernel custom\nfor i in 0..2:\n" + named +
                         "  out[i] = x[a" + std::to_string(kSums - 1) + "]\n}");
    for (const DeviceInfo& info : devices()) {
        if (Device(info.id).is_vulkan()) continue;
        EXPECT_EQ(of_data.on(Device(info.id))(x, Tensor({2}, DType::Int64)).values(),
                  (std::vector<double>{1, 1}));
        EXPECT_EQ(kernel.on(Device(info.id))(x, y).values(), (std::vector<double>{1, 7}))
            << info.id;
        const Kernel plain("compute(x: [n]) {\n@kernel custom\nfor i in 0..1:\n" + sums +
                           "  out[i] = x[a" + std::to_string(kSums - 1) + "]\n}");
        EXPECT_EQ(plain.on(Device(info.id))(x, arg("m", 1)).values(), (std::vector<double>{1}));
    }
}

TEST(Kernel, NamesAnUnsignedIndexThatInt64DoesNotHold) {
    const Kernel pick("compute(x, j) {\n@kernel custom\nfor i in 0..n: out[i] = x[j[i]]\n}");
    const Tensor x({5}), j = Tensor::from<std::uint64_t>({1}, {std::uint64_t(1) << 63});
    for (const DeviceInfo& device : devices()) {
        EXPECT_THROWS(KernelError, ":3:27: error[E0507]: index 9223372036854775808 is outside axis",
                      pick.on(Device(device.id))(x, j).values());
    }
}

TEST(Kernel, RefusesMoreLoopsAndAxesThanItNests) {
    const auto loops = [](int count) {
        std::string text = "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var s = 0.0\n  for ";
        for (int k = 1; k < count; ++k) {
            text += (k > 1 ? ", a" : "a") + std::to_string(k) + " in 0..1";
        }
        return text + ":\n    s += x[i]\n  out[i] = s\n}";
    };
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    const Kernel twice("compute(x) {\n@kernel custom\nout = x * 2.0\n}");
    const Kernel sum("compute(x) {\n@kernel custom\nout = reduce(+, x)\n}");
    const Kernel most("compute(x) {\n@kernel custom\nout = reduce(max, x, axis=0)\n}");
    for (const DeviceInfo& info : devices()) {
        const Device device(info.id);
        SCOPED_TRACE(info.id);
        // Drivers have limits of their own, and take long to refuse.
        if (device.is_vulkan()) continue;
        for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
            EXPECT_EQ(Kernel(loops(40)).on(device).with(numerics)(x).values(),
                      (std::vector<double>{1, 2}));
        }
        const Tensor deep(Shape(40, 1));
        EXPECT_EQ(twice.on(device)(deep).shape(), deep.shape());
        EXPECT_EQ(sum.on(device)(deep).rank(), 0);
        EXPECT_EQ(most.on(device)(deep).rank(), 40);
        for (const int rank : {41, 64, 1000}) {
            EXPECT_THROWS(KernelError, "error[E0104]", twice.on(device)(Tensor(Shape(rank, 1))));
        }
    }
    for (const int count : {41, 64, 5000}) {
        EXPECT_THROWS(KernelError, "loops nested more than 40 deep", Kernel(loops(count))(x));
    }
}

TEST(Kernel, OfATextThatWasSeenBeforeRunsOnTheDefaultDeviceOfNow) {
    const char* const text = "compute(x) {\n@kernel elementwise\nfor i in 0..len: out[i] = x[i]\n}";
    const Tensor x({4});
    const std::string before = Device().id();
    for (const char* device : {"interpreter", "cpu:1", "interpreter"}) {
        if (device != std::string("interpreter") && devices().front().id != "cpu") continue;
        set_default_device(device);
        EXPECT_EQ(compute(text, x).device().id(), device);
    }
    set_default_device(before);
}

TEST(Kernel, RefusesAScript) {
    EXPECT_THROWS(ValueError, "expected one compute", Kernel("let a = 1\nlet b = 2"));
}

TEST(Kernel, HeedsItsDecoratorsOfPlace) {
    const Tensor x({2});
    const auto text = [](const std::string& decorator) {
        return "compute(x) " + decorator +
               " { @kernel elementwise; for i in 0..len { out[i] = x[i]; } }";
    };
    EXPECT_THROWS(KernelError, "error[E0601]", compute(text("@device(\"cuda:9\")"), x));
    EXPECT_EQ(compute(text("@async"), x).shape(), Shape{2});
    EXPECT_EQ(compute(text("@device(\"interpreter\")"), x).shape(), Shape{2});
}

TEST(Kernel, ReadsWhatThePointWroteBefore) {
    const Tensor x = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, 6});
    const Tensor sums = compute(R"(compute(x) {
        @kernel custom
        for i in 0..n:
            var first = 0.0
            for j in 0..m:
                if j > 0:
                    out[i, j] = out[i, j - 1] + x[i, j]
                else:
                    out[i, j] = x[i, j] + first
    })",
                                x);
    EXPECT_CLOSE(sums, (std::vector<double>{1, 3, 6, 4, 9, 15}), 0, 0);
    EXPECT_THROWS(KernelError, "error[E0421]",
                  compute(R"(compute(x) {
        @kernel custom
        for i in 0..n, j in 0..m:
            var last = 0.0
            if j >= 0:
                last = out[i, j]
            out[i, j] = x[i, j] + last
    })",
                          x));
}

TEST(Kernel, FailsAtItsLineAndStaysUsable) {
    const Kernel pick(R"(compute(table, index) {
        @kernel custom
        for i in 0..n:
            out[i] = table[index[i]]
    })");
    const Tensor table = Tensor::from<float>({2}, {5, 6});
    try {
        pick(table, Tensor::from<std::int64_t>({1}, {1000000}));
        FAIL() << "expected a KernelError";
    } catch (const KernelError& error) {
        EXPECT_EQ(error.diagnostics()[0].code, "E0507");
        EXPECT_EQ(error.diagnostics()[0].line, 4);
    }
    EXPECT_EQ(pick(table, Tensor::from<std::int64_t>({1}, {1})).item(), 6);
}

TEST(Kernel, MayRunOnManyThreadsAtOnce) {
    const Kernel scale(kScale);
    std::vector<std::thread> threads;
    std::vector<double> results(4);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int n = 0; n < 20; ++n) {
                results[std::size_t(t)] =
                    scale(Tensor::from<float>({1}, {float(t)}), arg("factor", 2)).item();
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < 4; ++t) EXPECT_EQ(results[std::size_t(t)], 2 * t);
}

TEST(Kernel, ExplainsItselfWithAndWithoutOperands) {
    const Kernel product(kProduct);
    EXPECT_NE(product.explain().find("K, from axis 1 of 'A' (bare index"), std::string::npos);
    const std::vector<Tensor> operands = {Tensor({2, 3}), Tensor({3, 4})};
    const std::string text = product.explain(operands);
    EXPECT_NE(text.find("K = 3"), std::string::npos) << text;
    EXPECT_NE(text.find("i in 0..M = 2, j in 0..N = 4"), std::string::npos) << text;
    EXPECT_NE(text.find("72 B read, 32 B written"), std::string::npos) << text;
    const Kernel one("compute(x, z) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 2.0\n}");
    const std::vector<Tensor> two = {Tensor({3}), Tensor({100})};
    EXPECT_NE(one.explain(two).find("12 B read, 12 B written"), std::string::npos)
        << one.explain(two);
}

/// Integers beyond 2^53 near what lies between two floats.
TEST(Kernel, IntegersOfTheTextAndOfTheHostRoundOnceToTheDtypeThatTheyMeet) {
    const std::vector<std::pair<DType, std::int64_t>> cases = {
        {DType::Float32, 9007199791611905},  {DType::BFloat16, 4629700416936869889},
        {DType::Float32, -9007199791611905}, {DType::Float32, 9223371761976868863},
        {DType::Float64, 9007199254740993},  {DType::Float16, 65519}};
    for (const auto& [dtype, number] : cases) {
        const Tensor x = Tensor::from<float>({1}, {1}).to(dtype);
        const double expected = Tensor::from<std::int64_t>({1}, {number}).to(dtype).item();
        const std::string begin = "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * ";
        EXPECT_EQ(Kernel(begin + fmt::format("{}\n}}", number))(x).item(), expected) << number;
        EXPECT_EQ(Kernel(begin + "q\n}")(x, arg("q", number)).item(), expected) << number;
    }
}

TEST(Kernel, ExplainsLoopsThatDependOnOthersAndThoseOfNoPoints) {
    const Kernel triangle(
        "compute(x: [n, n]) {\n@kernel custom\nfor i in 0..n, j in 0..i + 1: out[i, j] = x[i, "
        "j]\n}");
    const std::vector<Tensor> some = {Tensor({3, 3})}, none = {Tensor({0, 0})};
    EXPECT_NE(triangle.explain(some).find("j in 0..(i + 1)"), std::string::npos)
        << triangle.explain(some);
    EXPECT_NE(triangle.explain(some).find("over 6 points"), std::string::npos)
        << triangle.explain(some);
    EXPECT_NE(triangle.explain(none).find("over 0 points"), std::string::npos)
        << triangle.explain(none);
}

TEST(StaticKernel, IsRefusedAtItsLineOfTheProgram) {
    const Tensor a({2, 3}), b({4, 2});
    try {
        kProduct(a, b);
        FAIL() << "expected a KernelError";
    } catch (const KernelError& error) {
        const Diagnostic& first = error.diagnostics().at(0);
        EXPECT_EQ(first.code, "E0501");
        EXPECT_EQ(first.file, __FILE__);
        EXPECT_EQ(first.line, kLineOfProduct + 5) << first.source;
        EXPECT_EQ(first.source, "            sum += A[i, k] * B[k, j]");
        EXPECT_EQ(first.source.substr(std::size_t(first.column) - 1, 1), "k");
    }
}

TEST(Kernels, TakeNoNumberThatTheTextSaysItself) {
    const std::string scaled =
        "compute(x) {\n@kernel elementwise(alpha=2)\nfor i in 0..len: out[i] = x[i] * alpha\n}";
    const Tensor x = Tensor::from<float>({2}, {1, 2});
    EXPECT_EQ(Kernel(scaled)(x).values(), (std::vector<double>{2, 4}));
    EXPECT_THROWS(ValueError, "leaves free, got 'alpha'", Kernel(scaled)(x, arg("alpha", 3)));
    const std::string convolution =
        "compute(x, k) {\n@kernel conv2d(stride=1)\nfor b in 0..batch, oc in 0..out_channels:\n"
        "  for oh in 0..out_h, ow in 0..out_w:\n    var sum = 0.0\n"
        "    for ic in 0..in_channels, kh in 0..kernel_h, kw in 0..kernel_w:\n"
        "      sum += x[b, ic, oh * stride + kh, ow * stride + kw] * k[oc, ic, kh, kw]\n"
        "    out[b, oc, oh, ow] = sum\n}";
    const Tensor image({1, 1, 4, 4}), window({1, 1, 2, 2});
    EXPECT_EQ(Kernel(convolution)(image, window).shape(), (Shape{1, 1, 3, 3}));
    EXPECT_THROWS(ValueError, "leaves free, got 'stride'",
                  Kernel(convolution)(image, window, arg("stride", 2)));
    std::string passed = convolution;
    passed.replace(passed.find("stride=1"), 8, "stride=stride");
    EXPECT_EQ(Kernel(passed)(image, window, arg("stride", 2)).shape(), (Shape{1, 1, 2, 2}));
}

TEST(StaticKernel, RunsAndTakesTensorsOfStaticShape) {
    const Tensor x = Tensor::from<float>({2, 2}, {1, 2, 3, 4});
    EXPECT_CLOSE(kProduct(x, x), (std::vector<double>{7, 10, 15, 22}), 0, 0);
    const StaticTensor<2, 2> square(x);
    EXPECT_CLOSE(kProduct(square, square), (std::vector<double>{7, 10, 15, 22}), 0, 0);
    EXPECT_THROWS(ShapeError, "expected a tensor of shape [3, 2], got [2, 2]",
                  (StaticTensor<3, 2>(x)));
}

}  // namespace kernel_test
}  // namespace quern

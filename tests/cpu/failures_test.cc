#include <cstdlib>

#include "quern/error.h"
#include "quern/kernel.h"
#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

class Failures : public Compiled {};

TEST_F(Failures, AnIndexFromDataOutsideIsReportedAsByTheInterpreter) {
    const Kernel kernel(R"(
compute(x, idx) {
    @kernel custom
    for i in 0..n:
        out[i] = x[idx[i]]
})");
    const Tensor x = uniform({20}, 1);
    for (const std::int64_t bad : {20, -1, 1000000}) {
        std::vector<std::int64_t> idx(40, 3);
        idx[25] = bad;
        const Tensor index = Tensor::from({40}, idx);
        const std::string expected =
            message_of(kernel.on(Device("interpreter")), std::vector{x, index});
        EXPECT_NE(expected.find("E0507"), std::string::npos) << expected;
        EXPECT_EQ(message_of(kernel.on(Device("cpu")), std::vector{x, index}), expected);
    }
    const Tensor good = Tensor::from({3}, std::vector<std::int64_t>{19, 0, 5});
    const Tensor result = kernel.on(Device("cpu"))(x, good);
    EXPECT_EQ(result.values()[0], x.values()[19]);
}

TEST_F(Failures, AnIntegerDivisionByZeroIsReported) {
    const Kernel kernel(R"(
compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] / y[i]
})");
    std::vector<std::int64_t> y(33, 2);
    y[17] = 0;
    const std::vector<Tensor> operands = {Tensor::from({33}, std::vector<std::int64_t>(33, 9)),
                                          Tensor::from({33}, y)};
    const std::string message = message_of(kernel.on(Device("cpu")), operands);
    EXPECT_NE(message.find("E0621"), std::string::npos) << message;
}

TEST_F(Failures, ADivisorOfAllLanesMayBeZeroWhereNoLaneDivides) {
    const char* text = R"(
compute(x, d) {
    @kernel custom
    for b in 0..n:
        let divisor = d[b]
        for i in 0..m:
            out[b, i] = x[b, i]
            if x[b, i] > 0:
                out[b, i] = x[b, i] % divisor + i / (divisor + 1)
})";
    std::vector<std::int64_t> x(3 * 37);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = i < 37 ? -1 : std::int64_t(i) % 11 - 3;
    const auto divisors = [](std::int64_t first, std::int64_t last) {
        return Tensor::from({3}, std::vector<std::int64_t>{first, 5, last});
    };
    expect_agreement(Case(text, {Tensor::from({3, 37}, x), divisors(0, -4)}));
    const std::vector<Tensor> zero = {Tensor::from({3, 37}, x), divisors(1, 0)};
    const std::string message = message_of(Kernel(text).on(Device("cpu")), zero);
    EXPECT_NE(message.find("E0621"), std::string::npos) << message;
}

TEST_F(Failures, TheLeastOfNothingIsReported) {
    const std::vector<Tensor> none = {Tensor({0}, DType::Float32, Device("interpreter"))};
    const std::string message = message_of(example("05").on(Device("cpu")), none);
    EXPECT_NE(message.find("E0620"), std::string::npos) << message;
}

TEST_F(Failures, AGuardKeepsLanesFromReadingOutside) {
    // Lanes whose condition is false would read far outside of x.
    const char* text = R"(
compute(x, idx) {
    @kernel custom
    for i in 0..n:
        out[i] = select(idx[i] >= 0 and idx[i] < 5, x[max(min(idx[i], 4), 0)], 0.0)
})";
    std::vector<std::int64_t> idx(37);
    for (std::size_t i = 0; i < idx.size(); ++i)
        idx[i] = i % 3 == 0 ? std::int64_t(1) << 40 : std::int64_t(i % 5);
    expect_agreement(Case(text, {uniform({5}, 1), Tensor::from({37}, idx)}));
}

TEST_F(Failures, AConditionOnAVarSaysNothingOfItsNextValue) {
    const Kernel kernel(R"(
compute(x, idx) {
    @kernel custom
    for i in 0..n:
        var k = idx[i]
        if k >= 0 and k < 5:
            k = k + 1000000
            out[i] = x[k]
})");
    const std::vector<Tensor> operands = {uniform({5}, 1),
                                          Tensor::from({20}, std::vector<std::int64_t>(20, 3))};
    const std::string message = message_of(kernel.on(Device("cpu")), operands);
    EXPECT_NE(message.find("E0507"), std::string::npos) << message;
}

TEST(SimdLevel, IsTheOneThatTheEnvironmentNames) {
    ::setenv("QUERN_CPU", "scalar", 1);
    EXPECT_EQ(cpu::chosen_simd(), cpu::Simd::Scalar);
    ::setenv("QUERN_CPU", "mmx", 1);
    EXPECT_THROW(cpu::chosen_simd(), ValueError);
    ::unsetenv("QUERN_CPU");
    EXPECT_TRUE(cpu::has(cpu::chosen_simd()));
}

TEST_F(Failures, WhatTheDeviceDoesNotRunIsRefusedWithTheReason) {
    const Kernel kernel(R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        out[i] = x[i]
        if i > 0:
            out[i] = out[i] + out[(i * 3 + 1) % n]
})");
    const std::string message = message_of(kernel.on(Device("cpu")), std::vector{uniform({4}, 1)});
    EXPECT_NE(message.find("E0600"), std::string::npos) << message;
    EXPECT_NE(message.find("points of 'i' that may use the same element of 'out'"),
              std::string::npos)
        << message;
}

TEST_F(Failures, ALaunchWithoutIterationsAsksNothingOfTheDevice) {
    const Kernel kernel = Kernel(R"(
compute(x) {
    @kernel custom
    for b in 0..rows:
        for i in 0..n:
            out[b, i] = x[b, i]
            if i > 0:
                out[b, i] = out[b, i] + out[b, (i * 3 + 1) % n]
})")
                              .on(Device("cpu"));
    EXPECT_EQ(kernel(Tensor(Shape{0, 4})).shape(), (Shape{0, 4}));
    EXPECT_EQ(kernel(Tensor(Shape{4, 0})).shape(), (Shape{4, 0}));

    // What is done before loops without iterations may fail, and so may their steps.
    const Tensor least = uniform({0, 3}, 1);
    const Kernel spread = Kernel(R"(
compute(x) {
    @kernel custom
    var low = 1.0
    for i in 0..n, k in 0..m: low = min(low, x[i, k])
    out[0] = low
})")
                              .on(Device("cpu"));
    EXPECT_EQ(spread(least).item(), 1);
    const Kernel stepped = Kernel(R"(
compute(x) {
    @kernel custom
    for i in 0..n step s: out[i] = x[i]
})")
                               .on(Device("cpu"));
    EXPECT_EQ(stepped(Tensor(Shape{0}), arg("s", 2)).shape(), Shape{0});
    EXPECT_THROW(stepped(Tensor(Shape{0}), arg("s", 0)), KernelError);
}

TEST_F(Failures, ArraysThatNoMemoryHoldsAreSaidToBeSo) {
    // Two of 2^63 bytes add up to none in 64 bits.
    const std::string text = R"(
compute(x: [n], y: [m]) {
    @kernel custom
    for b in 0..2:
        var t = zeros(n, m)
        var u = zeros(n, m)
        for i in 0..n, j in 0..m: t[i, j] = y[j] * x[i]
        for i in 0..n, j in 0..m: u[i, j] = t[n - 1 - i, j] + y[j]
        for i in 0..n, j in 0..m: t[i, j] = u[n - 1 - i, j] + y[j]
        out[b] = t[0, 3] + u[4, 5]
})";
    float one = 1;
    const auto repeated = [&](std::int64_t n) {
        return Tensor::adopt(&one, {n}, DType::Float32, {0});
    };
    std::vector<std::string> ids = {"cpu"};
    for (const DeviceInfo& device : devices()) {
        if (device.type == "vulkan") ids.push_back(device.id);
    }
    for (const std::string& id : ids) {
        const Kernel kernel = Kernel(text).on(Device(id));
        for (const std::int64_t n : {std::int64_t{1} << 31, std::int64_t{1} << 33,
                                     (std::int64_t{1} << 31) + 1, std::int64_t{1} << 17}) {
            try {
                static_cast<void>(kernel(repeated(n), repeated(std::int64_t{1} << 30)));
                ADD_FAILURE() << "expected OutOfMemory of " << n << " on " << id;
            } catch (const OutOfMemory& error) {
                EXPECT_TRUE(error.requested() && error.free() && error.largest_block())
                    << error.what();
            }
        }
        EXPECT_EQ(kernel(repeated(7), repeated(8)).values(), std::vector<double>({5, 5}));
    }
}

TEST_F(Failures, CodeForSmallExtentsIsNotUsedForLargeOnes) {
    const Kernel kernel = example("04").on(Device("cpu"));
    for (const std::int64_t n : {10, 100000, 5, 4096, 4097}) {
        const Tensor x = uniform({n}, 3, 0, 1);
        double expected = 0;
        for (const double value : x.values()) expected += value;
        EXPECT_NEAR(kernel(x).item(), expected, 1e-5 * expected);
    }
}

}  // namespace
}  // namespace quern::cpu_test

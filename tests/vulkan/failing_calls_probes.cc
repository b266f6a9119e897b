// What the processes of probed.h do, and say.

#include <gtest/gtest.h>

#ifdef QUERN_MOCK_LOADER
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "quern/error.h"
#include "quern/kernel.h"
#include "quern/memory.h"
#include "quern/memory_pool.h"
#include "quern/runtime/storage.h"
#include "tests/cpu/compiled_run.h"
#include "tests/cpu/vulkan_devices.h"

namespace quern {
namespace {

/// It works whatever became of a device "vulkan:N".
void use_the_cpu() {
    const Kernel sums("compute(x) {\n@kernel reduce(+)\nfor i in 0..n: yield x[i]\n}");
    const Tensor sum = sums.on(Device("cpu"))(Tensor::from<std::int32_t>({3}, {1, 2, 4}));
    std::printf("cpu: %s\n", sum.integers() == std::vector<std::int64_t>{7} ? "right" : "wrong");
}

/// Uses the first device twice as a program would, then the cpu, and says how it went.
TEST(FailingCallsProbe, DISABLED_Runs) {
    const Tensor x = uniform({1000}, 1);
    const Kernel each("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 2.0\n}");
    const Kernel sums("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] % 2\n}");
    const auto use = [&](const Device& device) {
        const Tensor doubled = each.on(device)(each.on(device)(x.to(device)));
        const Tensor odd = sums.on(device)(Tensor::from<std::int64_t>({2}, {3, 4}));
        const bool is_right = doubled.values()[7] == 4 * x.values()[7] &&
                              odd.integers() == std::vector<std::int64_t>{1, 0};
        std::printf("%s: %s\n", device.id().c_str(), is_right ? "right" : "wrong");
    };
    for (const char* id : {"vulkan:0", "vulkan:0", "cpu"}) {
        try {
            use(Device(id));
        } catch (const KernelError& error) {
            std::printf("KernelError %s\n", error.what());
        } catch (const DeviceLost& error) {
            std::printf("DeviceLost %s\n", error.what());
        } catch (const DeviceError& error) {
            std::printf("DeviceError %s\n", error.what());
        } catch (const OutOfMemory& error) {
            std::printf("OutOfMemory %s\n", error.what());
        }
    }
}

/// One operand, which the host writes anew for each launch.
TEST(FailingCallsProbe, DISABLED_RunsOften) {
    const Device device("vulkan:0");
    const Kernel twice =
        Kernel("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 2.0\n}").on(device);
    Tensor x({1000}, DType::Float32, device);
    for (int round = 0; round < 3; ++round) {
        std::fputs("a round\n", stderr);
        for (int i = 0; i < 1000; ++i) x.data<float>()[i] = float(i + round);
        const Tensor y = twice(x);
        std::printf("vulkan:0: %s\n", y.values()[7] == 2 * (7 + round) ? "right" : "wrong");
    }
}

void run_as(const cpu_test::Case& c, vulkan::PointsAre points) {
    const auto got = c.on_vulkan(Device("vulkan:0"), Numerics::Reproducible, points);
    const bool is_right = got && cpu_test::same_numbers(*got, *c.interpreted());
    std::printf("vulkan:0: %s\n", is_right ? "right" : "wrong");
}

void say_groups(const cpu_test::Case& c, vulkan::PointsAre points) {
    frontend::VulkanKernels kernels;
    const auto code =
        kernels.find(Device("vulkan:0"), c.kernel(), c.facts(), Numerics::Reproducible, {points});
    std::printf("%s\n", to_string(code->groups[0]).c_str());
}

/// A kernel that is forgotten when it has run, with an error or without: others come, of which as
/// many are kept as there is room for.
TEST(FailingCallsProbe, DISABLED_RunsAndForgets) {
    const auto scaled = [](int factor) {
        return cpu_test::Case("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * " +
                                  std::to_string(factor) + ".0\n}",
                              {uniform({100}, 1)});
    };
    try {
        run_as(scaled(2), vulkan::PointsAre::Chosen);
    } catch (const DeviceError& error) {
        std::printf("DeviceError %s\n", error.what());
    }
    for (int other = 3; other < 600; ++other) scaled(other);
    use_the_cpu();
}

/// Sums of rows by the lanes of work-groups.
TEST(FailingCallsProbe, DISABLED_RunsGroups) {
    const cpu_test::Case c(example_text("07"), {uniform({3, 40}, 1)});
    for (int n = 0; n < 2; ++n) run_as(c, vulkan::PointsAre::Groups);
    say_groups(c, vulkan::PointsAre::Groups);
}

/// Elements that lanes load and store several of at once.
TEST(FailingCallsProbe, DISABLED_RunsPackets) {
    const cpu_test::Case c("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i]\n}",
                           {uniform({512}, 1)});
    for (int n = 0; n < 2; ++n) run_as(c, vulkan::PointsAre::GroupsByMemory);
    frontend::VulkanKernels kernels;
    const auto code = kernels.find(Device("vulkan:0"), c.kernel(), c.facts(), Numerics::Strict,
                                   {vulkan::PointsAre::GroupsByMemory});
    std::printf("%s\n", code->has_packets ? "in packets" : "one by one");
    say_groups(c, vulkan::PointsAre::GroupsByMemory);
    use_the_cpu();
}

/// Products of a row with a vector, of which some are no numbers.
TEST(FailingCallsProbe, DISABLED_RunsDots) {
    Tensor rows = uniform({5, 100}, 1);
    rows.data<float>()[2 * 100 + 7] = float(kNaN);
    rows.data<float>()[3 * 100 + 70] = float(kInfinity);
    const cpu_test::Case c(
        "compute(x, y) {\n@kernel custom\nfor b in 0..rows:\n  var sum = 0.0\n"
        "  for i in 0..n: sum += x[b, i] * y[i]\n  out[b] = sum\n}",
        {rows, uniform({100}, 2)});
    const auto got = c.on_vulkan(Device("vulkan:0"), Numerics::Strict);
    const std::vector<double> expected = c.interpreted()->values(), sums = got->values();
    bool is_right = true;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const bool is_nan = std::isnan(expected[i]);
        is_right &= is_nan ? std::isnan(sums[i])
                           : sums[i] == expected[i] || std::abs(sums[i] - expected[i]) < 1e-4;
    }
    std::printf("vulkan:0: %s\n", is_right ? "right" : "wrong");
    frontend::VulkanKernels kernels;
    const auto code = kernels.find(Device("vulkan:0"), c.kernel(), c.facts(), Numerics::Strict, {});
    std::printf("%s\n", code->is_fused ? "in one" : "in two");
    use_the_cpu();
}

/// Whether the host sees the memory of the first device.
TEST(FailingCallsProbe, DISABLED_SaysMemory) {
    std::printf("%s\n", vulkan::is_memory_seen(0) ? "seen" : "not seen");
}

/// Lanes that read what others wrote, in the group's memory and in the device's, on each device.
TEST(FailingCallsProbe, DISABLED_RunsShared) {
    const auto reversed = [](int size) {
        const std::string n = std::to_string(size), last = std::to_string(size - 1);
        return cpu_test::Case("compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[" +
                                  n + "]: float32\n  for i in 0.." + n +
                                  ": t[i] = exp(x[b, i])\n  barrier()\n  for i in 0.." + n +
                                  ": out[b, i] = t[" + last + " - i]\n}",
                              {uniform({3, size}, 1)});
    };
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        for (const int size : {40, 20000}) {
            const cpu_test::Case c = reversed(size);
            const auto points = vulkan::PointsAre::Groups;
            const auto got = c.on_vulkan(vulkan.device, Numerics::Reproducible, points);
            const bool is_right = got && vulkan.gives(*got, *c.interpreted());
            frontend::VulkanKernels kernels;
            const auto code = kernels.find(vulkan.device, c.kernel(), c.facts(),
                                           Numerics::Reproducible, {points});
            std::printf("%s: %s, %s\n", vulkan.is_swiftshader ? "SwiftShader" : "other",
                        is_right ? "right" : "wrong", to_string(code->groups[0]).c_str());
        }
    }
    use_the_cpu();
}

/// Products that subgroups may multiply as matrices.
TEST(FailingCallsProbe, DISABLED_RunsMatrices) {
    using vulkan::PointsAre;
    const auto matrix = [](std::uint64_t seed) {
        return uniform({70, 70}, seed, -4, 4).to(DType::Int32).to(DType::Float16);
    };
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        for (int n = 0; n < 2; ++n) {
            const cpu_test::Case c(example_text("09"), {matrix(1 + n), matrix(3)});
            const auto got = c.on_vulkan(vulkan.device, Numerics::Strict, PointsAre::Groups);
            const bool is_right = got && cpu_test::same_numbers(*got, *c.interpreted());
            std::printf("%s: %s\n", vulkan.is_swiftshader ? "SwiftShader" : "other",
                        is_right ? "right" : "wrong");
        }
    }
}

/// Sums of float16, on each device, and what code was made for them.
TEST(FailingCallsProbe, DISABLED_RunsHalves) {
    const auto halves = [](std::uint64_t seed) {
        return uniform({100}, seed, -4, 4, DType::Float16);
    };
    const cpu_test::Case c(
        "compute(x, y) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] + y[i]\n}",
        {halves(1), halves(2)});
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        for (int n = 0; n < 2; ++n) {
            const auto got = c.on_vulkan(vulkan.device, Numerics::Strict);
            const bool is_right = got && cpu_test::same_numbers(*got, *c.interpreted());
            std::printf("%s: %s\n", vulkan.is_swiftshader ? "SwiftShader" : "other",
                        is_right ? "right" : "wrong");
        }
        frontend::VulkanKernels kernels;
        const auto code = kernels.find(vulkan.device, c.kernel(), c.facts(), Numerics::Strict, {});
        std::printf("%s\n", code->has_float16 ? "as halves" : "as integers");
    }
    use_the_cpu();
}

/// Elements that are parts of words, of which the last is not whole; and those behind others.
TEST(FailingCallsProbe, DISABLED_RunsParts) {
    for (const DType dtype : {DType::Int8, DType::UInt16}) {
        const cpu_test::Case c(example_text("01"), {uniform({5}, 1, 0, 100, dtype)});
        run_as(c, vulkan::PointsAre::InvocationsOf32);
    }
    const Kernel kernel("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i]\n}");
    const Tensor x = uniform({1000}, 1, 0, 100, DType::Int16);
    const Tensor behind = x.to(Device("vulkan:0")).slice(0, 7, 20);
    const Tensor got = kernel.on(Device("vulkan:0"))(behind);
    const bool is_right = got.integers() == x.slice(0, 7, 20).integers();
    std::printf("vulkan:0: %s\n", is_right ? "right" : "wrong");
}

/// Points, and rows of lanes, that are independent.
TEST(FailingCallsProbe, DISABLED_RunsIndependentPoints) {
    const cpu_test::Case each(example_text("01"), {uniform({1000}, 1)});
    run_as(each, vulkan::PointsAre::Invocations);
    say_groups(each, vulkan::PointsAre::Invocations);
    const cpu_test::Case rows(example_text("03"), {uniform({37, 40}, 1), uniform({40}, 2)});
    run_as(rows, vulkan::PointsAre::Groups);
    say_groups(rows, vulkan::PointsAre::Groups);
}

/// What no float that is a number folds to.
TEST(FailingCallsProbe, DISABLED_RunsWhatFolds) {
    const Tensor x = Tensor::from({5}, {2.0, kInfinity, -kInfinity, kNaN, -0.0});
    const cpu_test::Case c(
        "compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 0.0 + (x[i] + 0.0)\n}",
        {x.to(DType::Float32)});
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        const auto got = c.on_vulkan(vulkan.device, Numerics::Strict);
        const bool is_right = got && cpu_test::same_numbers(*got, *c.interpreted());
        std::printf("%s: %s\n", vulkan.is_swiftshader ? "SwiftShader" : "other",
                    is_right ? "right" : "wrong");
    }
    use_the_cpu();
}

TEST(FailingCallsProbe, DISABLED_ExplainsGroups) {
    const Kernel sums = example("07").on(Device("vulkan:0"));
    std::fprintf(stderr, "%s", sums.explain(std::vector{uniform({3, 40}, 1)}).c_str());
    use_the_cpu();
}

/// Launches of few and of many instructions, behind one that has the driver tried.
TEST(FailingCallsProbe, DISABLED_RunsLong) {
    const Kernel kernel(
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var s = x[i]\n"
        "  for k in 0..2000: s = s * 0.5 + x[i]\n  out[i] = s\n}");
    const Device device("vulkan:0");
    const auto run = [&](std::int64_t n) {
        const Tensor x = uniform({n}, 1);
        const Tensor got = kernel.on(device)(x);
        std::fflush(stdout);
        const double last = x.values().back();
        // The sum of halves of halves.
        const bool is_right = std::abs(got.values().back() - 2 * last) < 1e-5;
        std::fprintf(stderr, "%lld points: %s\n", static_cast<long long>(n),
                     is_right ? "right" : "wrong");
    };
    for (const std::int64_t n : {64, 64, 200000}) run(n);
}

/// More points than a dispatch has, and more arrays than there is memory for at a time.
TEST(FailingCallsProbe, DISABLED_RunsInParts) {
    const Device device("vulkan:0");
    const Kernel each("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 2\n}");
    const Tensor x = uniform({20000}, 1);
    const bool is_doubled = each.on(device)(x).values()[19999] == 2 * x.values()[19999];
    std::printf("vulkan:0: %s\n", is_doubled ? "right" : "wrong");
    std::fputs("with arrays\n", stderr);
    const Kernel arrays(
        "compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[262144]: float32\n"
        "  for i in 0..8: t[i * 1000] = x[b, i]\n  barrier()\n"
        "  for i in 0..8: out[b, i] = t[7000 - i * 1000]\n}");
    const Tensor rows = uniform({100, 8}, 1);
    const Tensor turned = arrays.on(device)(rows);
    const bool is_right = turned.values()[99 * 8] == rows.values()[99 * 8 + 7];
    std::printf("vulkan:0: %s\n", is_right ? "right" : "wrong");
    use_the_cpu();
}

/// What tensors of a device go through, step by step.
TEST(FailingCallsProbe, DISABLED_RunsChain) {
    const Device device("vulkan:0");
    const Kernel doubled =
        Kernel("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 2.0\n}").on(device);
    const auto step = [](const char* name, const auto& work) {
        std::fprintf(stderr, "%s:\n", name);
        work();
    };
    // Behind what has the driver tried.
    doubled(Tensor({8}, DType::Float32, device)).values();
    Tensor x = Tensor::from<float>({1000}, std::vector<float>(1000, 1)).to(device), y;
    step("a chain", [&] { y = doubled(doubled(doubled(x))); });
    step("read", [&] { EXPECT_EQ(y.values()[999], 8); });
    step("read again", [&] { EXPECT_EQ(y.values()[0], 8); });
    step("used again", [&] { EXPECT_EQ(doubled(x.slice(0, 990, 1000)).values()[9], 2); });
    step("operand read", [&] { EXPECT_EQ(std::as_const(x).data<float>()[5], 1); });
    step("used after reading", [&] { doubled(x); });
    step("written", [&] { x.data<float>()[999] = 7; });
    step("used after writing", [&] { EXPECT_EQ(doubled(x).values()[999], 14); });
    step("result written", [&] {
        y.data<float>()[0] = 3;
        EXPECT_EQ(doubled(y).values()[0], 6);
        EXPECT_EQ(doubled(y).values()[999], 16);
    });
    step("half a result", [&] {
        const Kernel second =
            Kernel("compute(x) {\n@kernel custom\nfor i in 0..n: out[i * 2] = x[i]\n}").on(device);
        const Tensor z = second(x);
        EXPECT_EQ(z.values()[1998], 7);
        EXPECT_EQ(z.values()[1997], 0);
    });
    step("into a result", [&] {
        Tensor z = doubled(x);
        doubled.into(z, y);
        EXPECT_EQ(z.values()[0], 6);
    });
    const std::string several = "compute(x) @device([\"vulkan:0\", \"cpu\"]) @parallel(data) {\n";
    step("a sum in parts", [&] {
        const Kernel sum(several + "@kernel reduce(+)\nfor i in 0..n: yield x[i]\n}");
        EXPECT_EQ(sum(x).item(), 999 + 7);
    });
    step("elements in parts", [&] {
        std::string warned;
        set_warning_handler([&](const Diagnostic& d) { warned += d.code + d.message + ";"; });
        const Kernel each(several + "@kernel custom\nfor i in 0..n: out[i] = x[i] * 2.0\n}");
        EXPECT_EQ(each(x).values()[999], 14);
        EXPECT_EQ(warned, "");
        set_warning_handler({});
    });
    step("on the cpu", [&] {
        const Kernel sum = Kernel("compute(x) {\n@kernel reduce(+)\nfor i in 0..n: yield x[i]\n}");
        EXPECT_EQ(sum.on(Device("cpu"))(doubled(x)).item(), 2 * (999 + 7));
        EXPECT_EQ(sum.on(Device("cpu"))(x.slice(0, 1, 1000)).item(), 998 + 7);
    });
    step("used after the cpu", [&] { doubled(x); });
    step("large", [&] {
        Tensor large = Tensor::empty({std::int64_t{20} << 20}, DType::Float32);
        std::fill_n(large.data<float>(), large.element_count(), 3.0f);
        const Tensor there = doubled(large.to(device));
        EXPECT_EQ(std::as_const(there).data<float>()[(20 << 20) - 1], 6);
    });
    step("end", [] {});
    if (!HasFailure()) use_the_cpu();
}

/// Tensors of 64 MiB, made there and brought there, and a small one.
TEST(FailingCallsProbe, DISABLED_RunsLarge) {
    const Device device("vulkan:0");
    const Kernel doubled =
        Kernel("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 2.0\n}").on(device);
    const Shape large{std::int64_t{16} << 20};
    const auto attempt = [](const auto& work) {
        try {
            work();
            std::printf("nothing thrown\n");
        } catch (const OutOfMemory& error) {
            std::printf("OutOfMemory %s\n", error.what());
        } catch (const DeviceError& error) {
            std::printf("DeviceError %s\n", error.what());
        } catch (const KernelError& error) {
            std::printf("KernelError %s\n", error.what());
        }
    };
    attempt([&] { Tensor(large, DType::Float32, device); });
    attempt([&] { doubled(Tensor(large)); });
    attempt([&] {
        const bool is_right = doubled(Tensor::from<float>({2}, {3, 4})).values()[1] == 8;
        std::printf("vulkan:0: %s\n", is_right ? "right" : "wrong");
    });
    use_the_cpu();
}

/// Kernels whose buffers are several times what the device binds at once: elements of all sizes,
/// parts of words among them, in order, backwards, at any place, by lanes of work-groups, in arrays
/// between stages, and from the middle of a tensor.
TEST(FailingCallsProbe, DISABLED_RunsPieces) {
    using vulkan::PointsAre;
    std::vector<cpu_test::Case> cases;
    const auto custom = [](const std::string& body) {
        return "compute(x: [n]) {\n@kernel custom\n" + body + "\n}";
    };
    for (const DType dtype : {DType::Int8, DType::UInt16, DType::Float16, DType::Int32,
                              DType::Float32, DType::Int64, DType::Float64, DType::Bool}) {
        const std::int64_t count = 24000 / std::int64_t(size_of(dtype)) - 3;
        const Tensor x = uniform({count}, 1, 0, 100, DType::Int32).to(dtype);
        cases.emplace_back(custom("for i in 0..n: out[i] = x[n - 1 - i]"), std::vector{x});
    }
    const Tensor at = uniform({2500}, 2, 0, 2999, DType::Int32);
    cases.emplace_back("compute(x, at) {\n@kernel custom\nfor i in 0..n: out[i] = x[at[i]]\n}",
                       std::vector{uniform({3000}, 3), at});
    cases.emplace_back(custom("for i in 0..n:\n  if i % 3 == 0: out[i] = x[i]"),
                       std::vector{uniform({7000}, 4).slice(0, 900, 4100)});
    cases.emplace_back(example_text("07"), std::vector{uniform({40, 70}, 5)});
    cases.emplace_back(example_text("15"), std::vector{uniform({3000}, 6)});
    cases.emplace_back(example_text("09"), std::vector{uniform({40, 70}, 7), uniform({70, 50}, 8)});
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        bool is_right = true;
        for (const cpu_test::Case& c : cases) {
            for (const auto points :
                 {PointsAre::Chosen, PointsAre::InvocationsOf32, PointsAre::Groups}) {
                const auto got = c.on_vulkan(vulkan.device, Numerics::Reproducible, points);
                is_right &= got && cpu_test::same_numbers(*got, *c.interpreted());
            }
        }
        std::printf("vulkan:%d: %s\n", vulkan.is_swiftshader, is_right ? "right" : "wrong");
    }
    use_the_cpu();
}

/// Arrays of a point that are more than a binding holds.
TEST(FailingCallsProbe, DISABLED_RunsArrays) {
    const Kernel kernel(
        "compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[8192]: float32\n"
        "  for i in 0..8: t[i * 1000] = x[b, i]\n  barrier()\n"
        "  for i in 0..8: out[b, i] = t[7000 - i * 1000]\n}");
    try {
        kernel.on(Device("vulkan:0"))(uniform({3, 8}, 1));
    } catch (const DeviceError& error) {
        std::printf("DeviceError %s\n", error.what());
    }
    use_the_cpu();
}

/// An operand that no number of bindings holds, in memory that nobody touches.
TEST(FailingCallsProbe, DISABLED_RunsHuge) {
    constexpr std::size_t kBytes = (std::size_t{4} << 30) + 4096;
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    {
        const Tensor x = Tensor::adopt(memory, {std::int64_t(kBytes / 4)}, DType::Float32);
        const Kernel first("compute(x) {\n@kernel custom\nfor i in 0..3: out[i] = x[i + 1]\n}");
        try {
            first.on(Device("vulkan:0"))(x);
        } catch (const KernelError& error) {
            std::printf("KernelError %s\n", error.what());
        } catch (const DeviceError& error) {
            std::printf("DeviceError %s\n", error.what());
        }
    }
    ::munmap(memory, kBytes);
    use_the_cpu();
}

/// Numbers of 64 bits, on each device.
TEST(FailingCallsProbe, DISABLED_RunsFloat64) {
    using vulkan::PointsAre;
    const auto numbers = [](std::uint64_t seed) {
        return uniform({5, 40}, seed, -4, 4, DType::Float64);
    };
    const std::vector<cpu_test::Case> cases = {
        {example_text("07"), {numbers(1)}},
        {example_text("01"), {numbers(2)}},
        {"compute(x, y) {\n@kernel custom\nfor i in 0..m, j in 0..n:\n"
         "  out[i, j] = f64(f16(x[i, j])) / y[i, j] + sqrt(abs(x[i, j])) - floor(y[i, j])\n}",
         {numbers(3), numbers(4)}}};
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        bool is_right = true;
        for (const cpu_test::Case& c : cases) {
            for (const auto points : {PointsAre::Invocations, PointsAre::Groups}) {
                const auto got = c.on_vulkan(vulkan.device, Numerics::Reproducible, points);
                is_right &= got && cpu_test::same_numbers(*got, *c.interpreted());
            }
        }
        frontend::VulkanKernels kernels;
        const auto code = kernels.find(vulkan.device, cases[0].kernel(), cases[0].facts(),
                                       Numerics::Reproducible, {});
        std::printf("%s: %s, %s\n", vulkan.device.id().c_str(), is_right ? "right" : "wrong",
                    to_string(code->groups[0]).c_str());
    }
    use_the_cpu();
}

/// What a launch would read, which then does not come.
TEST(FailingCallsProbe, DISABLED_BringsAndDrops) {
    const Device device("vulkan:0");
    set_memory_limit(device, std::size_t{6} << 20);
    {
        Tensor x({1 << 20}, DType::Float32, device);
        x.data<float>()[0] = 1;
        InFlight::bring(x, 0);
    }
    // There is room for one.
    const Tensor y({1 << 20}, DType::Float32, device);
    std::printf("%zu bytes in use\n", memory_counters(device).live);
    use_the_cpu();
}

/// A child of fork() of a process whose launches are in flight.
TEST(FailingCallsProbe, DISABLED_Forks) {
    const Device device("vulkan:0");
    const Kernel doubled =
        Kernel("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] * 2.0\n}").on(device);
    const Tensor x = Tensor::from<float>({1000}, std::vector<float>(1000, 1)).to(device);
    const Tensor before = doubled(x);
    EXPECT_EQ(before.values()[999], 2);
    MemoryPool pool(device, 4096);
    Tensor y = x;
    for (int i = 0; i < 40; ++i) y = doubled(y);
    const pid_t child = fork();
    if (child == 0) {
        // Whatever waits for threads that are not here.
        ::alarm(30);
        const auto attempt = [](const auto& work) {
            try {
                work();
                std::printf("child: nothing thrown\n");
            } catch (const DeviceLost& error) {
                std::printf("child: DeviceLost %s\n", error.what());
            }
        };
        attempt([&] { doubled(x); });
        attempt([&] { y.values(); });
        attempt([&] { Tensor({8}, DType::Float32, device); });
        const Kernel other("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i] - 2.0\n}");
        attempt([&] { other.on(device)(x); });
        const cpu_test::Case alone(example_text("01"), {uniform({100}, 1)});
        attempt([&] { say_groups(alone, vulkan::PointsAre::Chosen); });
        attempt([&] { pool.allocate({4}); });
        y = other.on(Device("cpu"))(Tensor::from<float>({2}, {3, 4}));
        std::printf("child: %s\n", y.values()[1] == 2 ? "right" : "wrong");
        std::exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    std::printf("child: ended with %d\n", status);
    EXPECT_EQ(y.values()[999], std::ldexp(1.0, 40));
    if (!HasFailure()) use_the_cpu();
}

}  // namespace
}  // namespace quern
#endif

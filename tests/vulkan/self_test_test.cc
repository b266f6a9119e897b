// The small kernels by which faults of drivers are found.

#include "quern/frontend/self_test.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "quern/backend/vulkan/targets.h"
#include "quern/kernel.h"
#include "quern/schedule/plan.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"
#include "tests/cpu/vulkan_devices.h"

namespace quern::frontend {
namespace {

using cpu_test::Case;

/// A kernel whose operand and result have a dtype.
Case copies(DType dtype) {
    return Case("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i]\n}",
                {Tensor({3}, DType::Float32, Device("interpreter")).to(dtype)});
}

Tensor right(const Probe& probe) {
    return Kernel(probe.text)
        .on(Device("interpreter"))
        .with(probe.numerics)
        .run(probe.operands(), {});
}

constexpr DType kAll[] = {DType::Bool,   DType::Int8,    DType::Int16,    DType::Int32,
                          DType::Int64,  DType::UInt8,   DType::UInt16,   DType::UInt32,
                          DType::UInt64, DType::Float16, DType::BFloat16, DType::Float32,
                          DType::Float64};

bool has(const std::vector<Probe>& probes, const std::string& what) {
    return std::ranges::any_of(probes, [&](const Probe& p) { return p.what == what; });
}

/// All that code of a dtype may need.
std::vector<Probe> all_probes(DType dtype, Numerics numerics) {
    const Case c = copies(dtype);
    std::vector<Probe> all = probes_for(c.kernel(), numerics, true);
    for (const auto& more : {probes_for(c.kernel(), numerics, false), probes_of_packets(c.kernel()),
                             probes_of_lanes(128)}) {
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

TEST(SelfTest, HasProbesOfEveryDTypeAndOfLanes) {
    for (const DType dtype : kAll) {
        const std::string name(to_string(dtype));
        const Case c = copies(dtype);
        EXPECT_TRUE(has(probes_for(c.kernel(), Numerics::Strict, true), "elements of " + name));
        EXPECT_EQ(has(probes_of_packets(c.kernel()), "packets of " + name), size_of(dtype) <= 4);
    }
    const Case narrow = copies(DType::Int8);
    EXPECT_TRUE(
        has(probes_for(narrow.kernel(), Numerics::Reproducible, false), "arithmetic of int8"));
    EXPECT_EQ(probes_of_lanes(0).size(), 0u);
    EXPECT_EQ(probes_of_lanes(16).size(), 1u);
    EXPECT_EQ(probes_of_lanes(128).size(), 2u);
}

/// Vulkan promises the bits of sums and products, of which most functions are made.
TEST(SelfTest, AsksForQuotientsOnlyWhereCodeTakesSome) {
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        const auto has_quotients = [&](const std::string& value) {
            const Case c("compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = " + value + "\n}",
                         {uniform({6}, 1)});
            VulkanKernels kernels;
            return kernels.find(vulkan.device, c.kernel(), c.facts(), Numerics::Reproducible, {})
                ->has_quotients;
        };
        for (const char* value : {"abs(x[i])", "exp(x[i])", "sin(x[i])", "x[i] * f32(i / 2)"}) {
            EXPECT_FALSE(has_quotients(value)) << value;
        }
        for (const char* value : {"x[i] / 3.0", "sqrt(x[i])", "tanh(x[i])", "rsqrt(x[i])"}) {
            EXPECT_TRUE(has_quotients(value)) << value;
        }
    }
    const Case c = copies(DType::Float32);
    EXPECT_TRUE(has(probes_for(c.kernel(), Numerics::Reproducible, true),
                    "reproducible quotients and roots of float32"));
    EXPECT_TRUE(has(probes_for(c.kernel(), Numerics::Reproducible, false),
                    "reproducible sums and products of float32"));
}

TEST(SelfTest, TriesPacketsByCodeThatHasThem) {
    for (const DType dtype : kAll) {
        for (const Probe& probe : probes_of_packets(copies(dtype).kernel())) {
            const Case c(probe.text, probe.operands());
            const schedule::Plan plan =
                schedule::plan(c.kernel(), c.facts(), probe.numerics, vulkan::kGroups);
            EXPECT_TRUE(std::ranges::any_of(plan.stages[0].function.insts, [](const lir::Inst& i) {
                return i.op == lir::Op::Store && i.type.packet > 1;
            })) << probe.what;
        }
    }
}

TEST(SelfTest, FindsEveryWrongElementAndNoRightOne) {
    for (const DType dtype : kAll) {
        for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
            std::vector<Probe> probes = all_probes(dtype, numerics);
            probes.push_back(probe_of_subgroups(16));
            probes.push_back(probe_of_subgroups(128));
            probes.push_back(probe_of_matrices({16, 16, 16}));
            probes.push_back(probe_of_folding());
            probes.push_back(probe_of_fused());
            for (const Probe& probe : probes) {
                SCOPED_TRACE(probe.what);
                EXPECT_EQ(fault_of(probe, right), "");
                const std::int64_t count = right(probe).element_count();
                for (const std::int64_t at : {std::int64_t(0), count / 2, count - 1}) {
                    // A sign or an upper bit, and the lowest where bits count.
                    const auto wrong = [&](const Probe& each, bool is_lowest) {
                        Tensor result = right(each).clone();
                        const std::size_t size = size_of(result.dtype());
                        auto* const bytes = static_cast<unsigned char*>(result.data());
                        unsigned char* const element = bytes + std::size_t(at) * size;
                        element[is_lowest ? 0 : size - 1] ^=
                            is_lowest || result.dtype() == DType::Bool ? 1 : 0x80;
                        return result;
                    };
                    EXPECT_NE(fault_of(probe, [&](const Probe& p) { return wrong(p, false); }), "");
                    if (probe.tolerance > 0) continue;
                    EXPECT_NE(fault_of(probe, [&](const Probe& p) { return wrong(p, true); }), "");
                }
            }
        }
    }
}

/// As one driver does that has int32 become 64 bits.
TEST(SelfTest, FindsADriverThatTakesIntegersForLargeOnes) {
    for (const DType dtype : {DType::Int32, DType::Int64}) {
        const auto probes = probes_for(copies(dtype).kernel(), Numerics::Strict, false);
        const auto is_found = [](const Probe& probe) {
            return !fault_of(probe, [](Probe each) {
                        const std::string compared = "i64(x[i]) < 1";
                        const std::size_t at = each.text.find(compared);
                        if (at != std::string::npos) {
                            each.text.replace(at, compared.size(), "i64(x[i]) != i64(x[i])");
                        }
                        return right(each);
                    }).empty();
        };
        EXPECT_TRUE(std::ranges::any_of(probes, is_found)) << to_string(dtype);
    }
}

/// As drivers may for whom a reciprocal is zero or no number is none.
TEST(SelfTest, FindsDriversThatDivideByLargeNumbersOrCompareOtherwise) {
    const struct {
        const char *expression, *instead;
    } kOthers[] = {{"x[i] / y[i]", "x[i] * select(abs(y[i]) < 8e37, 1.0 / y[i], 0.0)"},
                   {"x[i] != x[i]", "x[i] < x[i]"},
                   {"x[i] < y[i]", "not (x[i] >= y[i])"},
                   {"max(x[i], y[i])", "select(x[i] > y[i], x[i], y[i])"},
                   {"max(x[i], y[i])", "select(x[i] < y[i], y[i], x[i])"},
                   {"best == best", "best >= best or x[i] != x[i]"}};
    for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
        for (const auto& other : kOthers) {
            const auto probes = probes_for(copies(DType::Float32).kernel(), numerics, true);
            const auto is_found = [&](const Probe& probe) {
                return !fault_of(probe, [&](Probe each) {
                            const std::string expression = other.expression;
                            const std::size_t at = each.text.find(expression);
                            if (at != std::string::npos) {
                                each.text.replace(at, expression.size(), other.instead);
                            }
                            return right(each);
                        }).empty();
            };
            EXPECT_TRUE(std::ranges::any_of(probes, is_found)) << other.instead;
        }
    }
}

/// As one does that has no other matrices.
TEST(SelfTest, FindsSumsOfFloat16WhereTheyAreFloat32) {
    const std::string fault = fault_of(probe_of_matrices({16, 16, 16}), [](Probe each) {
        const std::string sum = "f32(sum)";
        each.text.replace(each.text.find(sum), sum.size(), "f32(f16(sum))");
        return right(each);
    });
    EXPECT_NE(fault, "");
}

TEST(SelfTest, TriesLanesInRowsWhereCodeHasThem) {
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        for (const std::uint32_t lanes : {16u, 128u}) {
            const Probe probe = probe_of_subgroups(lanes);
            EXPECT_EQ(fault_of(probe, vulkan.device), "");
            const Case c(probe.text, probe.operands());
            VulkanKernels kernels;
            const auto code = kernels.find(vulkan.device, c.kernel(), c.facts(), Numerics::Strict,
                                           {.points = vulkan::PointsAre::Groups});
            const vulkan::Groups& groups = code->groups.at(0);
            EXPECT_GT(groups.subgroup, 1u) << "both drivers of CI exchange values";
            EXPECT_EQ(groups.invocations / groups.points, lanes);
        }
    }
}

TEST(SelfTest, PassesOnTheDriversHere) {
    for (const cpu_test::VulkanDevice& vulkan : cpu_test::vulkan_devices()) {
        for (const DType dtype : kAll) {
            if (dtype == DType::Float64 && vulkan.is_swiftshader) continue;
            for (const Numerics numerics : {Numerics::Strict, Numerics::Reproducible}) {
                for (const Probe& probe : all_probes(dtype, numerics)) {
                    SCOPED_TRACE(vulkan.device.id() + ", " + probe.what);
                    EXPECT_EQ(fault_of(probe, vulkan.device), "");
                }
            }
        }
    }
}

}  // namespace
}  // namespace quern::frontend

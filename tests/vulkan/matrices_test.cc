// Products of matrices by the subgroups of devices that have them. Mesa's llvmpipe has from version
// 24 on; CI has one.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>

#include "quern/frontend/bound.h"
#include "quern/frontend/self_test.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/compiled_run.h"
#include "tests/cpu/vulkan_devices.h"

namespace quern {
namespace {

using cpu_test::Case;
using vulkan::PointsAre;

/// Their sums are exact in any order.
Tensor integers(const Shape& shape, std::uint64_t seed) {
    return uniform(shape, seed, -4, 4).to(DType::Int32).to(DType::Float16);
}

Case product(std::int64_t m, std::int64_t k, std::int64_t n) {
    return Case(example_text("09"), {integers({m, k}, 1), integers({k, n}, 2)});
}

class VulkanMatrices : public testing::TestWithParam<std::size_t> {
protected:
    void SetUp() override {
        if (GetParam() >= cpu_test::vulkan_devices().size()) {
            GTEST_SKIP() << "no device vulkan:" << GetParam();
        }
        if (groups_of(product(128, 128, 128)).atom.rows == 0) {
            GTEST_SKIP() << device().id() << " has no VK_KHR_cooperative_matrix of float16";
        }
    }

    static const Device& device() { return cpu_test::vulkan_devices()[GetParam()].device; }

    static vulkan::Groups groups_of(const Case& c, Numerics numerics = Numerics::Strict) {
        frontend::VulkanKernels kernels;
        return kernels.find(device(), c.kernel(), c.facts(), numerics, {PointsAre::Groups})
            ->groups.at(0);
    }

    static void expect_right(const Case& c) {
        const auto got = c.on_vulkan(device(), Numerics::Strict, PointsAre::Groups);
        const auto expected = c.interpreted();
        ASSERT_TRUE(got && expected);
        EXPECT_TRUE(cpu_test::same_numbers(*got, *expected));
    }
};

INSTANTIATE_TEST_SUITE_P(Drivers, VulkanMatrices, testing::Values(std::size_t{0}, std::size_t{1}));

TEST_P(VulkanMatrices, HaveTheInterpretersSums) {
    for (const auto& [m, k, n] : {std::tuple{32, 16, 64},
                                  {128, 64, 128},
                                  {33, 17, 65},
                                  {70, 33, 130},
                                  {5, 64, 3},
                                  {64, 0, 64}}) {
        SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(k) + " x " + std::to_string(n));
        expect_right(product(m, k, n));
    }
}

TEST_P(VulkanMatrices, KeepNaNAndInfinities) {
    Tensor a = integers({64, 32}, 1).to(DType::Float32);
    a.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
    a.data<float>()[70] = std::numeric_limits<float>::infinity();
    expect_right(Case(example_text("09"), {a.to(DType::Float16), integers({32, 64}, 2)}));
}

TEST_P(VulkanMatrices, ReadOperandsOfAnyLayout) {
    const Tensor a = integers({37, 21}, 1), b = integers({21, 67}, 2);
    for (const Tensor& x : {a, transposed_in_memory(a), sliced_from_larger(a)}) {
        for (const Tensor& y : {b, transposed_in_memory(b), sliced_from_larger(b)}) {
            expect_right(Case(example_text("09"), {x, y}));
        }
    }
}

TEST_P(VulkanMatrices, AreOfTilesToo) {
    const Shape shape{1, 2, 70, 48};
    const auto some = [&](std::uint64_t seed) {
        return uniform(shape, seed, -1, 1, DType::Float16);
    };
    const Case c(example_text("14"), {some(1), some(2), some(3)});
    EXPECT_GT(groups_of(c).atom.rows, 0);
    const auto got = c.on_vulkan(device(), Numerics::Strict, PointsAre::Groups);
    ASSERT_TRUE(got.has_value());
    // What is added up in another order may round to the next float16, of which one is 2^-11.
    cpu_test::expect_near(*got, *c.interpreted(), 0x1p-11, 1);
}

TEST_P(VulkanMatrices, AreSaidAndTried) {
    const std::string text = to_string(groups_of(product(128, 128, 128)));
    EXPECT_NE(text.find("; products of "), std::string::npos) << text;
    EXPECT_NE(text.find("(float16, float32)"), std::string::npos) << text;
    const lir::Atom atom = groups_of(product(128, 128, 128)).atom;
    EXPECT_EQ(frontend::fault_of(frontend::probe_of_matrices(atom), device()), "");
    EXPECT_EQ(groups_of(product(128, 128, 128), Numerics::Reproducible).atom.rows, 0)
        << "the order of its sums is the device's";
}

}  // namespace
}  // namespace quern

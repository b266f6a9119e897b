#include "tests/generator/random_kernel.h"

#include <gtest/gtest.h>

#include "quern/kernel.h"

namespace quern::generator {
namespace {

TEST(RandomKernel, IsTheSameForTheSameSeed) {
    const RandomKernel a = random_kernel(7), b = random_kernel(7);
    EXPECT_EQ(a.text, b.text);
    EXPECT_EQ(a.shape, b.shape);
    ASSERT_EQ(a.operands.size(), b.operands.size());
    for (std::size_t i = 0; i < a.operands.size(); ++i) {
        EXPECT_EQ(a.operands[i].values(), b.operands[i].values());
    }
}

class RandomKernels : public testing::TestWithParam<RandomKernel (*)(std::uint64_t)> {};

INSTANTIATE_TEST_SUITE_P(Each, RandomKernels, testing::Values(random_kernel, random_row_kernel));

TEST_P(RandomKernels, GiveWhatTheirOwnTreesGive) {
    set_warning_handler([](const Diagnostic&) {});
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        const RandomKernel kernel = GetParam()(seed);
        SCOPED_TRACE(kernel.text);
        const Tensor result = Kernel(kernel.text).run(kernel.operands);
        ASSERT_EQ(kernel.wrong_element(result), "") << "seed " << seed;
    }
    set_warning_handler({});
}

}  // namespace
}  // namespace quern::generator

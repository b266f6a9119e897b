#include "quern/ir/facts.h"

#include <gtest/gtest.h>

#include "quern/ir/builder.h"

namespace quern::ir {
namespace {

using Ints = std::vector<std::int64_t>;

struct FactsOfALaunch : testing::Test {
    FactsOfALaunch() {
        Builder b("k");
        const ExprId m = b.dim("M"), n = b.dim("N");
        b.operand("A", DType::Float32, 2);
        b.output("out", DType::Float16, {m, n});
        kernel = b.take();
    }

    Facts facts(Ints dims, std::uintptr_t address, const Ints& shape, const Ints& strides) {
        const Ints out_shape{2, 3}, out_strides{3, 1};
        const std::vector<OperandView> views{
            {reinterpret_cast<const void*>(address), DType::Float32, shape, strides},
            {reinterpret_cast<const void*>(std::uintptr_t{256}), DType::Float16, out_shape,
             out_strides}};
        return facts_of(kernel, dims, views);
    }

    Kernel kernel;
};

TEST_F(FactsOfALaunch, DimsAreDescribedByDivisorSizeAndBucket) {
    const Facts f = facts({48, std::int64_t{1} << 31}, 64, {2, 3}, {3, 1});
    EXPECT_EQ(f.dims[0], (DimFacts{false, 4, Bucket::Tiny}));
    EXPECT_EQ(f.dims[1], (DimFacts{false, 7, Bucket::Large}));
    EXPECT_EQ(facts({1, 65}, 64, {}, {}).dims[0].is_one, true);
    EXPECT_EQ(facts({0, 65}, 64, {}, {}).dims[0].divisible_log2, 7);
    EXPECT_EQ(facts({1, 65}, 64, {}, {}).dims[1].bucket, Bucket::Small);
    EXPECT_EQ(facts({1, 4097}, 64, {}, {}).dims[1].bucket, Bucket::Large);
}

TEST_F(FactsOfALaunch, OperandsAreDescribedByTheirRunAndAlignment) {
    EXPECT_EQ(facts({1, 1}, 64, {2, 3}, {3, 1}).operands[0],
              (OperandFacts{DType::Float32, 2, 2, 6}));
    EXPECT_EQ(facts({1, 1}, 12, {2, 3}, {4, 1}).operands[0],
              (OperandFacts{DType::Float32, 2, 1, 2}));
    EXPECT_EQ(facts({1, 1}, 12, {3, 2}, {1, 3}).operands[0].contiguous_axes, 0);
    EXPECT_EQ(facts({1, 1}, 12, {3, 1, 2}, {2, 99, 1}).operands[0].contiguous_axes, 3);
}

TEST_F(FactsOfALaunch, CodeForFewerAssumptionsServesMore) {
    const Facts plain = facts({3, 5}, 4, {2, 3}, {4, 1});
    const Facts good = facts({16, 32}, 64, {2, 3}, {3, 1});
    EXPECT_TRUE(holds(plain, good));
    EXPECT_FALSE(holds(good, plain));
    EXPECT_TRUE(holds(good, good));
    const Facts small = facts({16, 80}, 64, {2, 3}, {3, 1});
    const Facts large = facts({16, 8192}, 64, {2, 3}, {3, 1});
    EXPECT_TRUE(holds(large, facts({16, 128}, 64, {2, 3}, {3, 1})))
        << "a bucket is a largest value";
    EXPECT_FALSE(holds(small, large));
    EXPECT_FALSE(holds(facts({1, 32}, 64, {2, 3}, {3, 1}), good));
    Facts other = good;
    other.operands[0].dtype = DType::Int32;
    EXPECT_FALSE(holds(other, good));
    other = good;
    other.operands[0].rank = 1;
    EXPECT_FALSE(holds(other, good));
    other = good;
    other.dims.pop_back();
    EXPECT_FALSE(holds(other, good));
    EXPECT_FALSE(
        holds(facts({16, 32}, 64, {}, {}), facts({16, std::int64_t{1} << 40}, 64, {}, {})));
}

TEST_F(FactsOfALaunch, CodeServesLaunchesThatItsScheduleWouldBeChosenFor) {
    const Facts good = facts({16, 32}, 64, {2, 3}, {3, 1});
    EXPECT_TRUE(serves(facts({3, 5}, 4, {2, 3}, {3, 1}), good)) << "divisors and addresses";
    EXPECT_FALSE(serves(good, facts({3, 5}, 4, {2, 3}, {3, 1})));
    EXPECT_FALSE(serves(facts({16, 32}, 64, {2, 3}, {4, 1}), good)) << "gaps";
    EXPECT_FALSE(serves(facts({16, 4096}, 64, {2, 3}, {3, 1}), good)) << "buckets";
    EXPECT_FALSE(serves(good, facts({16, 1}, 64, {2, 3}, {3, 1}))) << "an axis of one element";
}

TEST_F(FactsOfALaunch, ThatLookAlikeAreEqual) {
    const Facts a = facts({16, 32}, 64, {2, 3}, {3, 1}), b = facts({48, 32}, 192, {2, 3}, {3, 1});
    EXPECT_EQ(a, b);
    EXPECT_FALSE(a == facts({8, 32}, 64, {2, 3}, {3, 1}));
}

TEST_F(FactsOfALaunch, TheyPrintWithTheNamesOfTheKernel) {
    EXPECT_EQ(to_string(kernel, facts({48, 1}, 64, {2, 3}, {3, 1})),
              "M: x16 tiny, N: 1; A: float32[2] contiguous 2 align 64; "
              "out: float16[2] contiguous 2 align 128");
}

}  // namespace
}  // namespace quern::ir

// Kernels with arrays of a work-group and barriers have vectors as others do: no thread per lane.

#include <gtest/gtest.h>

#include "quern/schedule/plan.h"
#include "tests/cpu/case.h"
#include "tests/tensor_test.h"

namespace quern::schedule {
namespace {

constexpr const char* kText = R"(
compute(x) {
    @kernel custom
    @workgroup(64)
    for i in 0..rows:
        shared var kept[256]
        for j in 0..columns:
            kept[j] = exp(x[i, j])
        barrier()
        for j in 0..columns:
            out[i, j] = kept[j] + kept[columns - 1 - j]
})";

TEST(SharedVariables, AreWrittenAndReadByVectors) {
    const cpu_test::Case c(kText, {Tensor({9, 200})});
    const std::vector<Stage> stages = plan(c.kernel(), c.facts(), Numerics::Strict, {}).stages;
    ASSERT_EQ(stages.size(), 1u);
    const lir::Function& f = stages[0].function;
    int vector_loads = 0, vector_stores = 0, vector_steps = 0, scalar_steps = 0;
    for (const lir::Inst& inst : f.insts) {
        const auto lanes_of = [&](lir::ValueId value) { return f[value].type.lanes; };
        const bool is_kept = f.buffers[inst.buffer].name == "kept";
        if (inst.op == lir::Op::Load && is_kept && inst.type.lanes == 16) ++vector_loads;
        if (inst.op == lir::Op::Gather && is_kept && inst.type.lanes == 16) ++vector_loads;
        if (inst.op == lir::Op::Store && is_kept && lanes_of(inst.b) == 16) ++vector_stores;
        // Of exp.
        if (inst.op == lir::Op::Fma) ++(inst.type.lanes == 16 ? vector_steps : scalar_steps);
    }
    // The row and its mirror image; the tail under a mask may be apart.
    EXPECT_GE(vector_loads, 2);
    EXPECT_GE(vector_stores, 1);
    EXPECT_GE(vector_steps, 5);
    EXPECT_EQ(scalar_steps, 0);
}

}  // namespace
}  // namespace quern::schedule

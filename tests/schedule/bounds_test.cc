// Which bounds of indices are seen to hold before a kernel runs, and which are checked while it
// does.

#include <gtest/gtest.h>

#include <string>

#include "quern/backend/cpu/target.h"
#include "quern/error.h"
#include "quern/kernel.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/lanes_run.h"

namespace quern::schedule {
namespace bounds_test {

using cpu_test::Case;

/// How many bounds the code for work-groups and for a CPU's vectors checks.
int checks(const Case& c) {
    int count = 0;
    for (const Target& target : {vulkan::kGroups, cpu::target_of(cpu::Simd::Avx2)}) {
        const Plan plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target);
        for (const Stage& stage : plan.stages) {
            for (const lir::Inst& i : stage.function.insts) count += i.op == lir::Op::Assert;
        }
    }
    return count;
}

/// n is the extent of what is read.
std::string sums(const std::string& body) {
    return "compute(x) {\n@kernel custom\nfor p in 0..batch:\n  var s = 0.0\n"
           "  for j in 0..n: s += x[p, j]\n" +
           body + "  out[p] = s\n}";
}

const Tensor kRows = uniform({3, 70}, 1);

Case attention(std::int64_t length, std::int64_t width) {
    const Shape shape{1, 2, length, width};
    return Case(example_text("14"), {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)});
}

/// Their extents are vars: each tile may be another's.
TEST(Bounds, OfTilesAreSeenWhetherTheyAreCutOffOrNot) {
    EXPECT_EQ(checks(attention(128, 64)), 0);
    EXPECT_EQ(checks(attention(130, 50)), 0);
    EXPECT_EQ(checks(attention(5, 3)), 0);
}

TEST(Bounds, BelowTheLeastOfSeveralAreSeen) {
    for (const char* body : {
             "  for i in 0..min(n - 1, 50): s += x[p, i + 1]\n",
             "  let most = min(50, n)\n  let least = min(most, n - 1)\n"
             "  for i in 0..least: s += x[p, i + 1]\n",
             "  for c in 0..n step 16:\n    let width = min(16, n - c)\n"
             "    for i in 0..width: s += x[p, c + i]\n",
         }) {
        SCOPED_TRACE(body);
        const Case c(sums(body), {kRows});
        EXPECT_EQ(checks(c), 0);
        EXPECT_TRUE(c.interpreted().has_value());
    }
}

TEST(Bounds, ThatDoNotHoldAreCheckedAndSayWhere) {
    for (const char* body : {
             // One further.
             "  let most = min(80, n)\n  for i in 0..most: s += x[p, i + 1]\n",
             // The least of two, both too large.
             "  for i in 0..min(n, 80): s += x[p, i + 1]\n",
             // A var that grows, by what it is and by what is read.
             "  var most = 69\n  for k in 0..3: most = most + 1\n  for i in 0..most: s += x[p, "
             "i]\n",
             "  var most = 69\n  for k in 0..3: most += 1\n  for i in 0..most: s += x[p, i]\n",
             "  var most = 9\n  most = int64(x[p, 0]) + 71\n  for i in 0..most: s += x[p, i]\n",
             // A name for what a var was before it grew is no bound of what it is.
             "  var least = 69\n  let was = least\n  least = 72\n"
             "  for i in was..least: s += x[p, i]\n",
         }) {
        SCOPED_TRACE(body);
        EXPECT_GT(checks(Case(sums(body), {kRows})), 0);
        try {
            Kernel(sums(body))(kRows);
            ADD_FAILURE() << "it read outside of x";
        } catch (const Error& error) {
            EXPECT_NE(std::string(error.what()).find("x"), std::string::npos) << error.what();
        }
    }
}

}  // namespace bounds_test
}  // namespace quern::schedule

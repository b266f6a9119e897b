// Which kernels are seen to be right before they run, and which need checks while they do.

#include <gtest/gtest.h>

#include <algorithm>

#include "quern/schedule/plan.h"
#include "tests/cpu/case.h"

namespace quern::schedule {
namespace {

/// The arrays that hold what is checked, by name.
std::vector<std::string> watched(const std::string& text, std::vector<Tensor> operands) {
    const cpu_test::Case c(text, std::move(operands));
    const ir::Kernel made = prepare(c.kernel(), c.facts(), Numerics::Strict);
    std::vector<std::string> names;
    for (const ir::Buffer& buffer : made.buffers) {
        if (buffer.name.find('.') != std::string::npos) names.push_back(buffer.name);
    }
    return names;
}

using Names = std::vector<std::string>;

std::string with_shared(const std::string& body) {
    return "compute(x) {\n@kernel fused\nfor b in 0..n:\n  shared var s[size]\n  " + body +
           "\n  barrier()\n  for i in 0..size: out[b, i] = s[size - 1 - i]\n}";
}

TEST(Watch, SeesASharedVariableThatOneNestFills) {
    const std::vector<Tensor> x = {Tensor({3, 5})};
    EXPECT_EQ(watched(with_shared("for i in 0..size: s[i] = x[b, i]"), x), Names{});
    EXPECT_EQ(watched(with_shared("let y = x[b, 0]\n  for i in 0..size:\n    let z = x[b, i]\n    "
                                  "s[i] = y * z"),
                      x),
              Names{});
}

TEST(Watch, DoesNotSeeOneThatAConditionOrAnotherRangeFills) {
    const std::vector<Tensor> x = {Tensor({3, 5})};
    const Names checked = {"s.written"};
    EXPECT_EQ(watched(with_shared("for i in 0..size:\n    if x[b, i] > 0.0: s[i] = x[b, i]"), x),
              checked);
    EXPECT_EQ(watched(with_shared("for i in 0..size - 1: s[i] = x[b, i]\n  barrier()\n  "
                                  "s[size - 1] = 0.0"),
                      x),
              checked);
    EXPECT_EQ(watched(with_shared("for i in 0..size: s[size - 1 - i] = x[b, i]"), x), checked);
    EXPECT_EQ(watched(with_shared("for k in 0..1:\n    for i in 0..size: s[i] = x[b, i]"), x),
              checked);
}

TEST(Watch, SeesPointsWhoseElementsTellThemApart) {
    const std::vector<Tensor> x = {Tensor({24})};
    const auto stores = [](const std::string& index) {
        return "compute(x) {\n@kernel custom\nfor i in 0..24: out[" + index + "] = x[i]\n}";
    };
    EXPECT_EQ(watched(stores("i"), x), Names{});
    EXPECT_EQ(watched(stores("2 * i + 1"), x), Names{});
    EXPECT_EQ(watched(stores("23 - i"), x), Names{});
    EXPECT_EQ(watched(stores("i / 6, i % 6"), x), Names{"out.owner"});
}

TEST(Watch, MarksTheOutputOnlyIfItIsRead) {
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  out[i] = x[i]\n  "
        "out[i] = out[i] + 1.0\n}";
    EXPECT_EQ(watched(text, {Tensor({24})}), Names{"out.written"});
}

}  // namespace
}  // namespace quern::schedule

#include "tests/cpu/compiled_run.h"

// Results are not cleared where the kernel writes every element: Case fills them with bits of 1.

namespace quern::cpu_test {
namespace outputs_test {

class Outputs : public Compiled {};

Tensor numbers(const Shape& shape) {
    std::vector<float> values(std::size_t(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i) + 0.5f;
    return Tensor::from(shape, values);
}

void expect_written(bool whole, const char* text, std::vector<Tensor> operands,
                    Arguments arguments = {}) {
    SCOPED_TRACE(text);
    const Case c(text, std::move(operands), std::move(arguments));
    EXPECT_EQ(c.is_written_whole(), whole);
    expect_agreement(c);
}

TEST_F(Outputs, AreWrittenWholeByAStoreAtTheLoopsAroundIt) {
    expect_written(true, R"(
compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] + 1.0
})",
                   {numbers({3, 7})});
    expect_written(true, R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        for j in 0..m: out[j, i] = x[i, j]
})",
                   {numbers({3, 7})});
    expect_written(true, R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        var s = 0.0
        for j in 0..m: s += x[i, j]
        out[i] = s
})",
                   {numbers({3, 7})});
}

TEST_F(Outputs, AreClearedWhereAConditionDecides) {
    expect_written(false, R"(
compute(x) {
    @kernel custom
    for i in 0..n:
        if x[i] > 3.0: out[i] = x[i]
})",
                   {numbers({9})});
}

TEST_F(Outputs, AreClearedWhereAnIndexIsMoreThanItsLoop) {
    expect_written(false, R"(
compute(x) {
    @kernel custom
    for i in 0..n: out[2 * i] = x[i]
})",
                   {numbers({9})});
    expect_written(false, R"(
compute(x) {
    @kernel custom
    for i in 0..n: out[i, i] = x[i]
})",
                   {numbers({9})});
}

TEST_F(Outputs, AreClearedWhereALoopThatIsNoIndexMayBeEmpty) {
    const char* text = R"(
compute(x, y) {
    @kernel custom
    for i in 0..n:
        var s = 0.0
        for k in 0..m:
            s += x[i] * y[k]
            out[i] = s
})";
    expect_written(false, text, {numbers({9}), numbers({0})});
    expect_written(true, text, {numbers({9}), numbers({3})});
}

}  // namespace outputs_test
}  // namespace quern::cpu_test

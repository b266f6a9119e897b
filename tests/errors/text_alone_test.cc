// What `quern check` sees in a text without operands.

#include <gtest/gtest.h>

#include <string>

#include "tests/errors/example.h"

namespace quern::errors {
namespace {

/// "E0312 4:13; ..." of the text alone.
std::string found(const std::string& text) {
    std::string list;
    for (const Diagnostic& d : diagnostics_of(read_example(text))) {
        if (!list.empty()) list += "; ";
        list += d.code + " " + std::to_string(d.line) + ":" + std::to_string(d.column);
    }
    return list;
}

std::string shared(const std::string& bytes, const std::string& extent) {
    return "compute(x) {\n    @kernel fused\n    @workgroup(64)\n    @shared(" + bytes +
           ")\n    for i in 0..rows:\n        shared var row[" + extent +
           "]: float32\n        for j in 0..64:\n            row[j] = x[i, j]\n        barrier()\n"
           "        out[i] = row[0] + row[63]\n}\n";
}

TEST(TextAlone, ShowsWhatSharedVariablesOfKnownSizeTake) {
    EXPECT_EQ(found(shared("256", "64")), "");
    EXPECT_EQ(found(shared("64", "64")), "E0312 4:13");
    EXPECT_EQ(found(shared("512", "64")), "W0706 4:13");
    EXPECT_EQ(found(shared("256", "1000000")), "E0610 6:20");
    // A size that comes with the operands waits for them.
    EXPECT_EQ(found(shared("1", "cols")), "");
}

TEST(TextAlone, IsToldOnceWithOperandsToo) {
    EXPECT_EQ(found("// operands: x: float32[2, 64]\n" + shared("512", "64")), "W0706 5:13");
    EXPECT_EQ(found("// operands: x: float32[2, 64]\n" + shared("4 * cols", "64")), "");
}

TEST(TextAlone, ShowsWhereADecoratorIsWrong) {
    const auto text = [](const std::string& broadcast) {
        return "compute(m, v) {\n    @kernel elementwise\n    @broadcast(" + broadcast +
               ")\n    for i in 0..r, j in 0..c:\n        out[i, j] = m[i, j] * v[j]\n}\n";
    };
    EXPECT_EQ(found(text("v, axis=1")), "");
    EXPECT_EQ(found(text("v, 1")), "E0313 3:19");
    EXPECT_EQ(found(text("v, axes=1")), "E0313 3:19");
    EXPECT_EQ(found(text("v, axis=1, 2")), "E0313 3:27");
    EXPECT_EQ(found(text("1, axis=1")), "E0313 3:16");
    EXPECT_EQ(found(text("v")), "E0313 3:16");
}

}  // namespace
}  // namespace quern::errors

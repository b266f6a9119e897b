#include "quern/runtime/machine_code.h"

#include <gtest/gtest.h>

#include "quern/error.h"
#include "quern/runtime/cpu_plugin.h"
#include "tests/cpu/compiled_run.h"
#include "tests/tensor_test.h"

namespace quern::cpu_test {
namespace {

using MachineCodes = Compiled;

/// The object of a kernel with a loop, a constant in memory and a mask.
std::vector<std::byte> object() {
    const Case c(R"(
compute(x) {
    @kernel elementwise
    for i in 0..len:
        out[i] = x[i] * 1.5 + 2.25
})",
                 {uniform({19}, 1)});
    const ir::Facts facts = c.facts();
    cpu::CompileResult result;
    cpu::compiler()({c.kernel(), facts, Numerics::Strict, cpu::chosen_simd()}, result);
    EXPECT_EQ(result.error, "");
    return image_from(result.image).object;
}

TEST_F(MachineCodes, HaveAFunctionForEachStageAndNoOther) {
    const auto code = MachineCode::load(object());
    EXPECT_NE(code->find("stage0"), nullptr);
    EXPECT_EQ(code->find("stage1"), nullptr);
}

TEST_F(MachineCodes, AnObjectCutAnywhereIsRefusedOrWhole) {
    const std::vector<std::byte> whole = object();
    for (std::size_t size = 0; size < whole.size(); ++size) {
        try {
            MachineCode::load(std::span(whole).first(size));
        } catch (const DeviceError& error) {
            EXPECT_NE(std::string(error.what()).find("[machine_code]"), std::string::npos);
        }
    }
}

TEST_F(MachineCodes, NoByteOfAnObjectMakesTheLoaderReadOrWriteOutside) {
    std::vector<std::byte> bytes = object();
    Random random(11);
    for (int i = 0; i < 20000; ++i) {
        const std::size_t at = random.bits() % bytes.size();
        const std::byte before = bytes[at];
        bytes[at] = std::byte(random.bits());
        try {
            MachineCode::load(bytes);
        } catch (const Error&) {
        }
        bytes[at] = before;
    }
}

}  // namespace
}  // namespace quern::cpu_test

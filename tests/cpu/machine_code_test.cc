#include "quern/runtime/machine_code.h"

#include <gtest/gtest.h>

#include "quern/error.h"
#include "quern/ir/lir_builder.h"
#include "quern/runtime/cpu_plugin.h"
#include "tests/cpu/compiled_run.h"
#include "tests/tensor_test.h"

namespace quern::cpu_test {
namespace {

using MachineCodes = Compiled;

/// The object of a function with a loop, a constant in memory and a mask.
std::vector<std::byte> object() {
    lir::Builder b("f");
    const lir::BufferId x = b.buffer("x", DType::Float32, lir::Space::Global, true);
    const lir::ValueId end = b.parameter({lir::ParameterKind::GridEnd, 0, 0});
    const lir::ValueId i = b.begin_for(b.integer(0), end, 16);
    const lir::ValueId mask = b.compare(lir::Op::Less, b.iota(16), b.sub(end, i));
    const lir::ValueId value = b.load(x, i, 16, mask);
    b.store(x, i, b.add(value, b.constant(DType::Float32, 0x3fc00000)), mask);
    b.end_for();
    const lir::Function f = b.take();
    cpu::CompileResult result;
    cpu::compiler()({&f}, cpu::chosen_simd(), result);
    EXPECT_EQ(result.error, "");
    return result.object;
}

TEST_F(MachineCodes, ALoadedFunctionRuns) {
    const auto code = MachineCode::load(object());
    EXPECT_EQ(code->find("g"), nullptr);
    using Entry = int(const std::uint64_t*, void* const*, std::int64_t, std::int64_t, std::byte*);
    const auto entry = reinterpret_cast<Entry*>(const_cast<void*>(code->find("f")));
    ASSERT_NE(entry, nullptr);
    std::vector<float> x(21, 1.0f);
    void* buffers[] = {x.data()};
    const std::uint64_t words[] = {0};
    EXPECT_EQ(entry(words, buffers, 0, 19, nullptr), 0);
    for (int i = 0; i < 21; ++i) EXPECT_EQ(x[std::size_t(i)], i < 19 ? 2.5f : 1.0f);
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

#include "quern/runtime/machine_code.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

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

TEST_F(MachineCodes, ADistanceThatDoesNotFitIsRefused) {
    const std::vector<std::byte> whole = object();
    Elf64_Ehdr header;
    std::memcpy(&header, whole.data(), sizeof(header));
    int relocations = 0;
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
        Elf64_Shdr section;
        std::memcpy(&section, &whole[header.e_shoff + i * sizeof(section)], sizeof(section));
        if (section.sh_type != SHT_RELA) continue;
        const std::size_t at = section.sh_offset + offsetof(Elf64_Rela, r_addend);
        for (const std::int64_t addend :
             {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(),
              std::int64_t(1) << 31, -(std::int64_t(1) << 40)}) {
            std::vector<std::byte> bytes = whole;
            std::memcpy(&bytes[at], &addend, sizeof(addend));
            try {
                MachineCode::load(bytes);
                // Tables of sections that are not loaded are not applied.
                continue;
            } catch (const DeviceError& error) {
                EXPECT_NE(std::string(error.what()).find("distance"), std::string::npos);
            }
            ++relocations;
        }
    }
    EXPECT_EQ(relocations, 4);
}

}  // namespace
}  // namespace quern::cpu_test

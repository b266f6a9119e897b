// The CIR of four kernels, held against files in golden/: a change of what texts mean shows as a
// change of these. QUERN_UPDATE_GOLDEN=1 writes them anew.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "quern/frontend/check.h"
#include "quern/ir/print.h"
#include "quern/lang/parse.h"

namespace quern {
namespace {

std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, Check111_CirIsThatOfTheFile) {
    const std::string name = GetParam();
    std::string text = read(QUERN_SOURCE_DIR "/examples/kernels/" + name + ".quern");
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {}, diagnostics);
    diagnostics.raise();
    lang::NodeId compute = 0;
    while (source->nodes.at(std::size_t(compute)).kind != lang::Kind::Compute) ++compute;
    const auto lowered = frontend::lower_text(*source, compute, {}, diagnostics);
    diagnostics.raise();
    const std::string cir = ir::print(lowered->kernel);
    const std::string path = QUERN_SOURCE_DIR "/tests/semantics/golden/" + name + ".cir";
    if (std::getenv("QUERN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << cir;
    EXPECT_EQ(cir, read(path));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Golden,
                         testing::Values("01_relu", "04_sum", "09_matmul", "14_flash_attention"),
                         [](const auto& info) {
                             return "Kernel" + std::string(info.param).substr(0, 2);
                         });

}  // namespace
}  // namespace quern

#include "tests/semantics/findings.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace quern::semantics {

std::string example_text(std::string_view number) {
    const std::filesystem::path folder =
        std::filesystem::path(QUERN_SOURCE_DIR) / "examples/kernels";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().filename().string().rfind(std::string(number) + "_", 0) != 0) continue;
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        return text.str();
    }
    ADD_FAILURE() << "no example " << number;
    return {};
}

}  // namespace quern::semantics

#include "quern/backend/vulkan/validate.h"

#ifdef QUERN_VALIDATE_SPIRV
#include <spirv-tools/libspirv.hpp>
#endif

namespace quern::vulkan {

#ifdef QUERN_VALIDATE_SPIRV
namespace {

bool knows_matrices(const spvtools::SpirvTools& tools) {
    std::vector<std::uint32_t> module;
    return tools.Assemble("OpCapability CooperativeMatrixKHR", &module);
}

}  // namespace

bool validates() noexcept { return true; }

std::string invalid(const std::vector<std::uint32_t>& module, bool has_matrices) {
    std::string message;
    spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
    tools.SetMessageConsumer(
        [&](spv_message_level_t, const char*, const spv_position_t& where, const char* text) {
            message += "word " + std::to_string(where.index) + ": " + text;
        });
    static const bool knows_all = knows_matrices(spvtools::SpirvTools(SPV_ENV_VULKAN_1_2));
    if (has_matrices && !knows_all) return {};
    if (tools.Validate(module)) return {};
    return "spirv-val: " + message + "; please report";
}
#else
bool validates() noexcept { return false; }
std::string invalid(const std::vector<std::uint32_t>&, bool) { return {}; }
#endif

}  // namespace quern::vulkan

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::vulkan {

/// Whether modules are validated: in builds that are no releases, if SPIRV-Tools was there.
bool validates() noexcept;

/// What spirv-val says against a module for Vulkan 1.2, or empty. One with matrices of subgroups is
/// taken as it is where the library does not know them, as Debian 12's.
std::string invalid(const std::vector<std::uint32_t>& module, bool has_matrices);

}  // namespace quern::vulkan

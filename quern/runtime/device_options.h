#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace quern {

/// True if there is a device of that id.
bool has_device(std::string_view id);

/// What a device that is absent lacks; empty if there is no such kind of device.
std::string why_absent(std::string_view id);

/// Whether a device of that id has the memory of the process, as all have but "vulkan:N".
bool has_host_memory(std::string_view id) noexcept;

/// Whether what is in the memory of one device is in that of the other.
bool share_memory(std::string_view a, std::string_view b) noexcept;

/// The number of a device "vulkan:N"; none if the id is another's.
std::optional<std::size_t> vulkan_number(std::string_view id) noexcept;

/// Warns once if some device was chosen and the interpreter it became, for want of a compiler.
void warn_if_chosen_for_want_of_compiler();

}  // namespace quern

#pragma once

#include <optional>
#include <string>
#include <string_view>

// What a script may ask for that no device here can do.

namespace quern::script {

enum class Refused { Async, Memory, SeveralDevices };

/// The message of E0600 for something written as `what`: "@async", "memory_pool".
std::string refusal(Refused refused, std::string_view what);

/// The message of E0601 if there is no device of that id.
std::optional<std::string> absent_device(std::string_view id);

/// "the devices here are ..."
std::string device_list();

}  // namespace quern::script

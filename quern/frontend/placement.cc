#include "quern/script/refusal.h"

#include <fmt/format.h>

#include "quern/device.h"

namespace quern::script {

std::string refusal(Refused refused, std::string_view what) {
    switch (refused) {
        case Refused::Async:
            return fmt::format(
                "'{}' is asynchronous work, which the interpreter does not do: it needs the CPU or "
                "a GPU backend",
                what);
        case Refused::Memory:
            return fmt::format(
                "'{}' manages device memory, which the interpreter does not have: it needs the CPU "
                "or a GPU backend",
                what);
        default:
            return fmt::format(
                "'{}' spreads work over several devices, and the interpreter is one: it needs the "
                "CPU or a GPU backend",
                what);
    }
}

std::string device_list() {
    std::string list = "the devices here are \"auto\"";
    for (const DeviceInfo& device : devices()) list += fmt::format(", \"{}\"", device.id);
    return list;
}

std::optional<std::string> absent_device(std::string_view id) {
    if (id == "auto") return std::nullopt;
    for (const DeviceInfo& device : devices()) {
        if (device.id == id) return std::nullopt;
    }
    return fmt::format("expected a device that is here, got \"{}\"", id);
}

}  // namespace quern::script

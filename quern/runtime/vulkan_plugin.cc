#include "quern/runtime/vulkan_plugin.h"

#include <fmt/format.h>

#include "quern/runtime/plugin.h"

namespace quern::vulkan {
namespace {

struct Loaded {
    Driver* driver = nullptr;
    std::string why;
};

Loaded load() {
    Loaded loaded;
    const std::string path = find_plugin(kPluginName);
    if (path.empty()) {
        loaded.why = std::string(kPluginName) +
                     " is neither beside the library nor where QUERN_PLUGINS says";
        return loaded;
    }
    void* const function = load_plugin(path, kDriverSymbol, kVersionSymbol, loaded.why);
    if (function) loaded.driver = reinterpret_cast<DriverFunction*>(function)(loaded.why);
    return loaded;
}

}  // namespace

std::string to_string(const Groups& groups) {
    if (!groups.are_lanes) return fmt::format("{} invocations, a point each", groups.invocations);
    if (groups.points > 1) {
        return fmt::format("{} invocations, {} lanes of each of {} points", groups.invocations,
                           groups.invocations / groups.points, groups.points);
    }
    const std::string together =
        groups.subgroup > 1 ? fmt::format(" in subgroups of {}", groups.subgroup) : std::string();
    return fmt::format("{} lanes{}, one point; {} bytes shared, {} barrier{}", groups.invocations,
                       together, groups.shared_bytes, groups.barriers,
                       groups.barriers == 1 ? "" : "s");
}

Driver* driver(std::string& why) {
    // Made by the first who asks, and never destroyed: work goes on while a program ends.
    static const Loaded& loaded = *new Loaded(load());
    why = loaded.why;
    return loaded.driver;
}

}  // namespace quern::vulkan

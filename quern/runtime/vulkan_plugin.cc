#include "quern/runtime/vulkan_plugin.h"

#include "quern/runtime/plugin.h"
#include "quern/support/threads.h"

namespace quern::vulkan {

Driver* driver(std::string& why) {
    static Mutex mutex;
    static bool is_loaded = false;
    static Driver* found = nullptr;
    static std::string& reason = *new std::string;
    const Lock lock(mutex);
    if (!is_loaded) {
        is_loaded = true;
        const std::string path = find_plugin(kPluginName);
        if (path.empty()) {
            reason = std::string(kPluginName) +
                     " is neither beside the library nor where QUERN_PLUGINS says";
        } else if (void* function = load_plugin(path, kDriverSymbol, kVersionSymbol, reason)) {
            found = reinterpret_cast<DriverFunction*>(function)(reason);
        }
    }
    why = reason;
    return found;
}

}  // namespace quern::vulkan

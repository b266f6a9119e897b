#include "quern/runtime/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "quern/runtime/cpu_plugin.h"

namespace quern {

std::string find_plugin(const char* name) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (const char* folder = std::getenv("QUERN_PLUGINS"); folder && *folder) {
        const fs::path path = fs::path(folder) / name;
        return fs::exists(path, ignored) ? path.string() : std::string();
    }
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&find_plugin), &info) == 0 || !info.dli_fname) {
        return {};
    }
    const fs::path folder = fs::absolute(info.dli_fname, ignored).parent_path();
    for (const fs::path& path : {folder / name, folder / "../lib" / name}) {
        if (fs::exists(path, ignored)) return path.string();
    }
    return {};
}

void* load_plugin(const std::string& path, const char* symbol, const char* version,
                  std::string& why) {
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* function = handle ? ::dlsym(handle, symbol) : nullptr;
    void* says = function ? ::dlsym(handle, version) : nullptr;
    if (!says) {
        const char* error = ::dlerror();
        why = path + ": " + (error ? error : "not a plug-in");
        return nullptr;
    }
    const std::string_view got = reinterpret_cast<cpu::CodeVersionFunction*>(says)();
    if (got != cpu::code_version()) {
        why = path + ": expected version " + cpu::code_version() + ", got " + std::string(got);
        return nullptr;
    }
    return function;
}

}  // namespace quern

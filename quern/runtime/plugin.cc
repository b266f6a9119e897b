#include "quern/runtime/plugin.h"

#include <dlfcn.h>
#ifdef __GLIBC__
#include <link.h>
#endif

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "quern/runtime/cpu_plugin.h"

namespace quern {
namespace {

namespace fs = std::filesystem;

/// Where the system looks for the libraries of this program: what the program says, then what the
/// user and the system say.
std::vector<fs::path> library_folders() {
    std::vector<fs::path> folders;
#ifdef __GLIBC__
    void* const program = ::dlopen(nullptr, RTLD_NOW);
    Dl_serinfo size{};
    if (!program || ::dlinfo(program, RTLD_DI_SERINFOSIZE, &size) != 0) return folders;
    // Of operator new, which is aligned for it.
    const std::unique_ptr<char[]> bytes(new char[size.dls_size]);
    auto* const list = reinterpret_cast<Dl_serinfo*>(bytes.get());
    *list = size;
    if (::dlinfo(program, RTLD_DI_SERINFO, list) != 0) return folders;
    for (unsigned i = 0; i < list->dls_cnt; ++i) {
        folders.emplace_back(list->dls_serpath[i].dls_name);
    }
#endif
    return folders;
}

}  // namespace

std::string find_plugin(const char* name) {
    std::error_code ignored;
    if (const char* folder = std::getenv("QUERN_PLUGINS"); folder && *folder) {
        const fs::path path = fs::path(folder) / name;
        return fs::exists(path, ignored) ? path.string() : std::string();
    }
    std::vector<fs::path> folders;
    Dl_info info{};
    if (::dladdr(reinterpret_cast<const void*>(&find_plugin), &info) != 0 && info.dli_fname) {
        const fs::path own = fs::absolute(info.dli_fname, ignored).parent_path();
        folders = {own, own / "../lib"};
    }
    for (fs::path& folder : library_folders()) folders.push_back(std::move(folder));
    for (const fs::path& folder : folders) {
        // A relative one is that of whoever wrote the folder that the program runs in.
        if (folder.is_absolute() && fs::exists(folder / name, ignored)) {
            return (folder / name).string();
        }
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

#include "quern/runtime/cpu_plugin.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string_view>

#include "quern/error.h"
#include "quern/runtime/plugin.h"
#include "quern/runtime/room.h"
#include "quern/support/check.h"
#include "quern/support/threads.h"

namespace quern::cpu {
namespace {

constexpr const char* kNames[] = {"scalar", "sse4.1", "avx2", "avx512", "neon"};

#if defined(__x86_64__)
/// What code for AVX2 has besides: x86-64-v3. Compilers' own question names not all of it.
bool asked_for_the_rest_of_v3() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned kMovbe = 1U << 22, kF16c = 1U << 29, kLzcnt = 1U << 5;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kMovbe) || !(c & kF16c)) return false;
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & kLzcnt)) return false;
    return __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

/// Asked once: a virtual machine leaves to its host for each answer.
bool has_the_rest_of_v3() {
    static const bool has = asked_for_the_rest_of_v3();
    return has;
}
#endif

}  // namespace

const char* to_string(Simd simd) { return kNames[static_cast<int>(simd)]; }

int register_bits(Simd simd) {
    switch (simd) {
        case Simd::Scalar:
            return 64;
        case Simd::Avx2:
            return 256;
        case Simd::Avx512:
            return 512;
        case Simd::Sse41:
        case Simd::Neon:
            break;
    }
    return 128;
}

bool has(Simd simd) {
#if defined(__aarch64__)
    return simd == Simd::Neon;
#elif defined(__x86_64__)
    switch (simd) {
        case Simd::Scalar:
        case Simd::Sse41:
            return __builtin_cpu_supports("sse4.1");
        case Simd::Avx2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   has_the_rest_of_v3();
        case Simd::Avx512:
            return has(Simd::Avx2) && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
        case Simd::Neon:
            return false;
    }
    return false;
#else
    static_cast<void>(simd);
    return false;
#endif
}

Simd chosen_simd() {
    const char* name = std::getenv("QUERN_CPU");
    Simd highest = kSimdLevels[0];
    for (const Simd simd : kSimdLevels) {
        if (has(simd)) highest = simd;
        if (!name || std::string_view(name) != to_string(simd)) continue;
        if (has(simd)) return simd;
        raise(ValueError(std::string("[cpu] QUERN_CPU: this processor does not have ") + name));
    }
    if (name && *name) {
        std::string names;
        for (const Simd simd : kSimdLevels) {
            names += (names.empty() ? "" : ", ") + std::string(to_string(simd));
        }
        raise(ValueError("[cpu] QUERN_CPU: expected one of " + names + ", got '" + name + "'"));
    }
    return highest;
}

const std::string& plugin_path() {
    // Never destroyed: destructors of the program's own objects may launch.
    static const std::string& path = *new std::string(find_plugin(kPluginName));
    return path;
}

CompileFunction* compiler() {
    static Mutex mutex;
    static CompileFunction* function = nullptr;
    const Lock lock(mutex);
    if (function) return function;
    const std::string& path = plugin_path();
    if (path.empty()) {
        raise(DeviceError(std::string("[device] E0601: no device 'cpu': ") + kPluginName +
                          " is neither beside the library nor where QUERN_PLUGINS says"));
    }
    // LLVM takes 130 MiB of addresses.
    const WorkRoom room("compiler", std::size_t{160} << 20);
    std::string why;
    void* symbol = load_plugin(path, kCompileSymbol, kVersionSymbol, why);
    if (!symbol) raise(DeviceError("[device] E0601: " + why));
    function = reinterpret_cast<CompileFunction*>(symbol);
    return function;
}

}  // namespace quern::cpu

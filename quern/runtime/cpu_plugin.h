#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quern/schedule/plan.h"

// The boundary between the core library and the plug-in that holds LLVM. Both come from one build;
// the number in the symbol's name refuses a mixture.

namespace quern::cpu {

/// The instructions that code may use. All need SSE4.2; `Scalar` does one element at a time.
enum class Simd : std::uint8_t { Scalar, Sse41, Avx2, Avx512 };

inline constexpr Simd kSimdLevels[] = {Simd::Scalar, Simd::Sse41, Simd::Avx2, Simd::Avx512};

/// "scalar", "sse4.1", "avx2", "avx512": what QUERN_CPU may say.
const char* to_string(Simd simd);

/// True if this processor has the instructions.
bool has(Simd simd);

/// The level that QUERN_CPU names, else the highest that this processor has. Throws ValueError if
/// QUERN_CPU names none, or one that the processor lacks.
Simd chosen_simd();

struct CompileRequest {
    const ir::Kernel& kernel;

    /// What the code may assume of a launch.
    const ir::Facts& facts;
    schedule::Numerics numerics = schedule::Numerics::Strict;
    Simd simd = Simd::Scalar;
};

struct CompileResult {
    schedule::Plan plan;

    /// An ELF object without undefined symbols: position-independent code with its constants, a
    /// function for each stage of the plan.
    std::vector<std::byte> object;

    /// Why the device does not run the kernel, or empty.
    std::string refusal;

    /// What LLVM did not take. Empty if it worked.
    std::string error;
};

/// Compiles a kernel to machine code. Thread-safe.
using CompileFunction = void(const CompileRequest& request, CompileResult& result);

inline constexpr const char* kCompileSymbol = "quern_cpu_compile_2";
inline constexpr const char* kPluginName = "libquern_cpu.so";

/// Where the plug-in is: in the folder that QUERN_PLUGINS names, else beside the library or program
/// that holds Quern, or in ../lib of it. Empty if it is nowhere.
const std::string& plugin_path();

/// The compiler. Loads the plug-in at the first call. Throws DeviceError with E0601 if it is not
/// there or does not fit.
CompileFunction* compiler();

}  // namespace quern::cpu

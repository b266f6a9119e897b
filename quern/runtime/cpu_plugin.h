#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quern/ir/cir.h"
#include "quern/ir/facts.h"
#include "quern/schedule/observer.h"
#include "quern/schedule/tiling.h"

// The boundary between the core library and the plug-in that holds LLVM. Both come from the same
// sources: what does not say the same code_version() is refused.

namespace quern::schedule {
struct Plan;
}

namespace quern::cpu {

/// The instructions that code may use. Those of x86-64 need SSE4.1; `Scalar` does one element at a
/// time. `Neon` is that of every aarch64.
enum class Simd : std::uint8_t { Scalar, Sse41, Avx2, Avx512, Neon };

/// Those of this architecture, the least first.
#if defined(__aarch64__)
inline constexpr Simd kSimdLevels[] = {Simd::Neon};
#else
inline constexpr Simd kSimdLevels[] = {Simd::Scalar, Simd::Sse41, Simd::Avx2, Simd::Avx512};
#endif

/// "scalar", "sse4.1", "avx2", "avx512", "neon": what QUERN_CPU may say.
const char* to_string(Simd simd);

/// Bits of a vector of theirs; of a scalar level those of the largest number.
int register_bits(Simd simd);

/// True if this processor has the instructions.
bool has(Simd simd);

/// The level that QUERN_CPU names, else the highest that this processor has. Throws ValueError if
/// QUERN_CPU names none, or one that the processor lacks.
Simd chosen_simd();

struct CompileRequest {
    const ir::Kernel& kernel;

    /// What the code may assume of a launch.
    const ir::Facts& facts;
    Numerics numerics = Numerics::Strict;
    Simd simd = Simd::Scalar;

    /// Of the loops of schedule::prepare's kernel. None: the default schedule.
    const schedule::Tiling* tiling = nullptr;

    /// False: as for a device without numbers of 64 bits, whose code so runs without one.
    bool has_int64 = true;

    /// What code is made of in place of a plan of its own. Its functions may be those of the lanes
    /// of work-groups, which become vectors (lir/vectors.h): so code for devices runs without one,
    /// and fails where lanes race, if that is watched.
    const schedule::Plan* plan = nullptr;
    bool watches_races = false;

    /// Of the passes on CIR; none: nobody looks.
    schedule::Observer* observer = nullptr;
};

struct CompileResult {
    /// KernelImage as bytes.
    std::vector<std::byte> image;

    /// Why the device does not run the kernel, or empty.
    std::string refusal;

    /// What LLVM did not take. Empty if it worked.
    std::string error;

    /// Of the time, what was spent before LLVM's passes.
    double seconds_before_llvm = 0;
};

/// Compiles a kernel to machine code. Thread-safe.
using CompileFunction = void(const CompileRequest& request, CompileResult& result);

/// Names the sources that make code from kernels, and the LLVM they are built for: equal versions
/// make equal code.
const char* code_version();
using CodeVersionFunction = const char*();

inline constexpr const char* kCompileSymbol = "quern_cpu_compile";
inline constexpr const char* kVersionSymbol = "quern_cpu_code_version";
inline constexpr const char* kPluginName = "libquern_cpu.so";

/// Where the plug-in is, or empty.
const std::string& plugin_path();

/// The compiler. Loads the plug-in at the first call. Throws DeviceError with E0601 if it is not
/// there or is of another version.
CompileFunction* compiler();

}  // namespace quern::cpu

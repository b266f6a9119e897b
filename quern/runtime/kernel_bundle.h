#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quern/ir/facts.h"
#include "quern/numerics.h"
#include "quern/runtime/compiled.h"
#include "quern/runtime/cpu_plugin.h"

namespace quern {

/// Compiled kernels in one file, which a program ships in place of the compiler.
struct KernelBundle {
    struct Code {
        cpu::Simd simd = cpu::Simd::Scalar;
        Numerics numerics = Numerics::Strict;
        ir::Facts facts;

        /// KernelImage as bytes.
        std::vector<std::byte> image;
    };

    struct Kernel {
        /// ir::identity of it.
        std::string text;

        /// Of those that fit a launch, the first is the best.
        std::vector<Code> codes;
    };

    /// That of the sources that made it.
    std::string version;
    std::vector<Kernel> kernels;
};

/// Of a file: no program has as much code.
inline constexpr std::uint64_t kMostOfBundle = std::uint64_t{1} << 30;

/// cpu::code_version() without the compiler: whoever says the same can run the code.
std::string bundle_version();

/// Puts the best first: the latest instructions, and among them what assumes most of a launch.
void put_best_first(std::vector<KernelBundle::Code>& codes);

/// The bundle as bytes, with a checksum.
std::vector<std::byte> to_bytes(const KernelBundle& bundle);

/// Reads what `to_bytes` wrote. Throws FileError that says what is wrong, in the file `name`, if
/// any number in it does not fit the others; images are not looked into.
KernelBundle bundle_from(std::span<const std::byte> bytes, const std::string& name);

/// Adds a bundle to those of the process. Throws FileError if it is of another version, or has
/// nothing for this processor. Thread-safe.
void add_loaded(KernelBundle bundle, const std::string& name);

/// True if there is one. Thread-safe.
bool has_loaded_kernels() noexcept;

class LoadedKernel;

/// What the bundles of the process have for one kernel.
class LoadedCode {
public:
    LoadedCode();
    ~LoadedCode();

    /// Code for launches of which `facts` hold, or null. Always called with the same kernel. Throws
    /// DeviceError if the code is not of this kernel.
    std::shared_ptr<const CompiledKernel> find(const ir::Kernel& kernel, const ir::Facts& facts,
                                               Numerics numerics);

private:
    /// How many bundles had been loaded when `codes_` was made.
    std::size_t bundles_ = 0;
    std::vector<std::shared_ptr<LoadedKernel>> codes_;
};

}  // namespace quern

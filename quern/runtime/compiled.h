#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/error.h"
#include "quern/interpret/interpret.h"
#include "quern/ir/facts.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/image.h"

namespace quern {

class MachineCode;

/// The device does not run the kernel.
class Refusal : public DeviceError {
public:
    explicit Refusal(std::string reason, std::string device = "cpu")
        : DeviceError("[" + device + "] E0600: expected a kernel that the device " + device +
                      " runs, got " + reason),
          reason_(std::move(reason)),
          device_(std::move(device)) {}
    const std::string& reason() const noexcept { return reason_; }
    const std::string& device() const noexcept { return device_; }

private:
    std::string reason_;
    std::string device_;
};

/// The machine code of a kernel as KernelImage's bytes. Throws Refusal, and InternalError if the
/// request's observer found a fault.
std::vector<std::byte> compile(const cpu::CompileRequest& request);

/// Called with the part of some work that is done.
using Progress = std::function<void(double)>;

/// A launch of which everything is worked out but where its memory is.
struct ReadyLaunch {
    struct Stage {
        const void* entry = nullptr;
        std::vector<std::uint64_t> words;
        std::int64_t points = 1;
        int threads = 1;
    };
    std::vector<Stage> stages;

    /// Bytes of each array that stages share, and of all arrays of a thread.
    std::vector<std::size_t> shared;
    std::size_t local = 0;
};

/// For `threads`: those of a device that has many.
inline constexpr int kManyThreads = -1;

/// Works out a launch of an image's code on up to `threads` threads (0: num_threads()): all but
/// the addresses of its functions. `scalars` are of the dtypes given; addresses in the views do not
/// matter.
ReadyLaunch ready_launch(const KernelImage& image, std::span<const DType> dtypes,
                         std::span<const std::int64_t> dims,
                         std::span<const interpret::ScalarValue> scalars,
                         std::span<const interpret::View> operands, const interpret::View& output,
                         int threads);

/// Whether dims, extents, and the iterations of each grid are below 2^30, strides fit in 32 bits,
/// and arrays have less than 2^31 bytes; operands must too.
bool has_small_numbers(const KernelImage& image, const ReadyLaunch& launch);

/// A kernel as machine code for launches of which `facts` hold. Immutable; thread-safe.
class CompiledKernel {
public:
    /// Throws DeviceError if `image` is damaged or that of another kernel.
    CompiledKernel(const ir::Kernel& kernel, const ir::Facts& facts,
                   std::span<const std::byte> image);
    CompiledKernel(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics,
                   cpu::Simd simd)
        : CompiledKernel(kernel, facts, compile({kernel, facts, numerics, simd})) {}
    ~CompiledKernel();
    CompiledKernel(const CompiledKernel&) = delete;
    CompiledKernel& operator=(const CompiledKernel&) = delete;

    const ir::Facts& facts() const { return facts_; }

    /// True if its output passes the caches by.
    bool is_streamed() const { return facts_.operands.back().is_streamed; }

    /// How the loops are run: schedule::to_string.
    const std::string& schedule() const { return image_.schedule; }

    /// As ready_launch.
    ReadyLaunch ready(std::span<const std::int64_t> dims,
                      std::span<const interpret::ScalarValue> scalars,
                      std::span<const interpret::View> operands, const interpret::View& output,
                      int threads) const;

    /// Runs what `ready` of this kernel gave; `addresses` are those of the operands and of the
    /// output, which need not be cleared if every element is written. False if an assertion did not
    /// hold: then the output is unspecified, and the interpreter says where and why. Allocates
    /// nothing but large arrays that stages share. `progress`, if it is there, is called now and
    /// then from the thread that called.
    bool run(const ReadyLaunch& launch, std::span<void* const> addresses,
             const Progress& progress = {}) const;

    /// Both, as interpret::Program::run.
    bool run(std::span<const std::int64_t> dims, std::span<const interpret::ScalarValue> scalars,
             std::span<const interpret::View> operands, const interpret::View& output,
             int threads) const;

private:
    void check_fits(const ir::Kernel& kernel) const;

    ir::Facts facts_;
    KernelImage image_;
    std::vector<DType> scalars_;
    std::shared_ptr<const MachineCode> code_;

    /// One for each stage.
    std::vector<const void*> entries_;
};

}  // namespace quern

#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "quern/interpret/interpret.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/schedule/plan.h"

namespace quern {

class MachineCode;

/// A kernel as machine code for launches of which `facts` hold. Immutable; thread-safe.
class CompiledKernel {
public:
    /// Throws DeviceError with E0600 and the reason if the device does not run the kernel.
    CompiledKernel(const ir::Kernel& kernel, const ir::Facts& facts, schedule::Numerics numerics,
                   cpu::Simd simd);
    ~CompiledKernel();
    CompiledKernel(const CompiledKernel&) = delete;
    CompiledKernel& operator=(const CompiledKernel&) = delete;

    const ir::Facts& facts() const { return facts_; }
    const schedule::Plan& plan() const { return plan_; }

    /// Runs it, as interpret::Program::run; `output` need not be cleared if every element is
    /// written. False if an assertion did not hold: then the output is unspecified, and the
    /// interpreter says where and why.
    bool run(std::span<const std::int64_t> dims, std::span<const interpret::ScalarValue> scalars,
             std::span<const interpret::View> operands, const interpret::View& output,
             int threads) const;

private:
    class Launch;

    ir::Facts facts_;
    schedule::Plan plan_;
    std::shared_ptr<const MachineCode> code_;
};

}  // namespace quern

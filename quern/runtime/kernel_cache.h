#pragma once

#include <memory>
#include <string>

#include "quern/runtime/compiled.h"

namespace quern {

class DiskCache;

/// Everything that decides the code of a kernel: what is kept under it is that code.
std::string cache_key(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics,
                      cpu::Simd simd);

/// The kernel for launches of which `facts` hold: from `cache`, or compiled now and kept there; no
/// cache if it is null. `observer`, if it is there, sees the passes of what is compiled. Throws
/// DeviceError, and InternalError if the observer found a fault. Thread-safe.
std::shared_ptr<const CompiledKernel> load_or_compile(const ir::Kernel& kernel,
                                                      const ir::Facts& facts, Numerics numerics,
                                                      cpu::Simd simd, const DiskCache* cache,
                                                      schedule::Observer* observer = nullptr);

}  // namespace quern

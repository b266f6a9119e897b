#include "quern/frontend/compiled_kernels.h"

#include "quern/frontend/kernel_recorder.h"
#include "quern/runtime/disk_cache.h"
#include "quern/runtime/kernel_cache.h"
#include "quern/runtime/later_warnings.h"

namespace quern::frontend {

CompiledKernels::CompiledKernels() = default;
CompiledKernels::~CompiledKernels() = default;

std::shared_ptr<const CompiledKernel> CompiledKernels::find(const ir::Kernel& kernel,
                                                            const ir::Facts& facts,
                                                            Numerics numerics,
                                                            schedule::Observer* observer) {
    auto code = find_or_make(kernel, facts, numerics, observer);
    note_for_recorders(kernel, facts, numerics);
    return code;
}

std::shared_ptr<const CompiledKernel> CompiledKernels::find_or_make(const ir::Kernel& kernel,
                                                                    const ir::Facts& facts,
                                                                    Numerics numerics,
                                                                    schedule::Observer* observer) {
    const LaterWarnings later;
    const Lock lock(mutex_);
    if (auto loaded = loaded_.find(kernel, facts, numerics)) return loaded;
    auto& kernels = kernels_[std::size_t(numerics)];
    for (const auto& compiled : kernels) {
        if (ir::serves(compiled->facts(), facts)) return compiled;
    }
    kernels.push_back(load_or_compile(kernel, facts, numerics, cpu::chosen_simd(),
                                      DiskCache::of_process(), observer));
    return kernels.back();
}

void CompiledKernels::discard(const std::shared_ptr<const CompiledKernel>& code,
                              const ir::Kernel& kernel, Numerics numerics) {
    const Lock lock(mutex_);
    std::erase(kernels_[std::size_t(numerics)], code);
    if (const DiskCache* const cache = DiskCache::of_process()) {
        cache->remove(cache_key(kernel, code->facts(), numerics, cpu::chosen_simd()));
    }
}

}  // namespace quern::frontend

#include "quern/runtime/compiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>

#include "quern/error.h"
#include "quern/ir/index.h"
#include "quern/runtime/machine_code.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"
#include "quern/support/threads.h"

namespace quern {
namespace {

using Entry = int(const std::uint64_t* words, void* const* buffers, std::int64_t begin,
                  std::int64_t end, std::byte* scratch);

/// Grid points that one thread does are worth a second one above this many iterations, an inner
/// loop counted as kInner of them.
constexpr double kWorthThreads = 65536;
constexpr double kInner = 256;

/// Compiled code has no type before it, which Clang's sanitizer of indirect calls would look for.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
bool call(Entry* entry, const std::uint64_t* words, void* const* buffers, std::int64_t begin,
          std::int64_t end, std::byte* scratch) {
    return entry(words, buffers, begin, end, scratch) == 0;
}

/// Memory of a thread for the arrays of its lanes. Kept, since a launch should not allocate.
std::byte* thread_scratch(std::size_t bytes) {
    thread_local std::shared_ptr<Storage> kept;
    thread_local std::size_t size = 0;
    if (!kept || size < bytes) {
        kept = Storage::allocate(bytes, Storage::Fill::None);
        size = bytes;
    }
    return kept->data();
}

std::uint64_t word_of(const interpret::ScalarValue& value, DType dtype) {
    std::uint64_t word = 0;
    if (dtype == DType::Float64) {
        std::memcpy(&word, &value.floating, sizeof(word));
    } else if (dtype == DType::Float32) {
        const auto narrow = static_cast<float>(value.floating);
        std::memcpy(&word, &narrow, sizeof(narrow));
    } else {
        word = static_cast<std::uint64_t>(value.integer);
    }
    return word;
}

}  // namespace

/// One run.
class CompiledKernel::Launch {
public:
    Launch(const CompiledKernel& kernel, std::span<const std::int64_t> dims,
           std::span<const interpret::ScalarValue> scalars,
           std::span<const interpret::View> operands, const interpret::View& output, int threads)
        : plan_(kernel.plan_),
          code_(*kernel.code_),
          dims_(dims),
          scalars_(scalars),
          operands_(operands),
          output_(output),
          threads_(threads > 0 ? threads : hardware_threads()) {
        for (const interpret::View& view : operands) shapes_.push_back(view.shape);
        environment_.dims = dims;
        environment_.shapes = shapes_;
        buffers_.resize(plan_.kernel.buffers.size() + plan_.shared.size(), nullptr);
        for (std::size_t i = 0; i < operands.size(); ++i) buffers_[i] = operands[i].data;
        buffers_[plan_.kernel.output()] = output.data;
        for (const schedule::Scratch& s : plan_.shared) {
            shared_.push_back(Storage::allocate(bytes_of(s), Storage::Fill::None));
            buffers_[s.buffer] = shared_.back()->data();
        }
        for (const schedule::Scratch& s : plan_.local) local_ += bytes_of(s);
    }

    bool run() {
        for (const schedule::Stage& stage : plan_.stages) {
            if (!run(stage)) return false;
        }
        return true;
    }

private:
    /// Rounded up to the alignment of arrays.
    std::size_t bytes_of(const schedule::Scratch& scratch) const {
        std::size_t bytes = size_of(scratch.dtype);
        for (const ir::ExprId extent : scratch.shape) {
            const auto value = ir::evaluate(plan_.kernel, extent, environment_);
            if (!value) {
                raise(
                    DeviceError("[cpu] E0600: an array whose size is known only inside of a "
                                "loop"));
            }
            if (__builtin_mul_overflow(bytes, std::size_t(std::max<std::int64_t>(*value, 0)),
                                       &bytes)) {
                raise(OutOfMemory("[cpu] an array of a kernel does not fit the address space"));
            }
        }
        return (bytes + Storage::kAlignment - 1) / Storage::kAlignment * Storage::kAlignment;
    }

    struct Grid {
        std::vector<std::int64_t> blocks;
        std::int64_t points = 1;
        bool is_worth_threads = false;
    };

    Grid grid_of(const schedule::Stage& stage) const {
        Grid grid;
        std::vector<std::int64_t> trips;
        double iterations = 1;
        for (const schedule::GridAxis& axis : stage.grid) {
            const auto count = ir::evaluate(plan_.kernel, axis.trips, environment_);
            QUERN_CHECK(count, "trips that dims and extents decide");
            trips.push_back(std::max<std::int64_t>(*count, 0));
            grid.blocks.push_back(axis.multiple);
            iterations *= double(trips.back());
        }
        grid.is_worth_threads = iterations * (stage.has_loops ? kInner : 1) >= kWorthThreads;
        const auto points = [&] {
            std::int64_t product = 1;
            for (std::size_t p = 0; p < trips.size(); ++p) {
                product *= (trips[p] + grid.blocks[p] - 1) / grid.blocks[p];
            }
            return product;
        };
        // Blocks grow, the innermost axis first, as long as every thread has several.
        const std::int64_t enough = grid.is_worth_threads ? std::int64_t(threads_) * 8 : 1;
        for (std::size_t p = trips.size(); p-- > 0;) {
            const bool is_contraction = stage.has_loops && stage.grid[p].multiple > 1;
            const std::int64_t most = is_contraction ? 128 : stage.has_loops ? 16 : 32768;
            while (grid.blocks[p] < trips[p] && grid.blocks[p] < most) {
                grid.blocks[p] *= 2;
                if (points() < enough) {
                    grid.blocks[p] /= 2;
                    break;
                }
            }
        }
        grid.points = points();
        return grid;
    }

    std::uint64_t word(const lir::Parameter& p, const Grid& grid) const {
        switch (p.kind) {
            case lir::ParameterKind::Dim:
                return std::uint64_t(dims_[p.a]);
            case lir::ParameterKind::Extent:
                return std::uint64_t(shapes_[p.a][p.b]);
            case lir::ParameterKind::Stride: {
                const bool is_operand = p.a < operands_.size();
                return std::uint64_t((is_operand ? operands_[p.a] : output_).strides[p.b]);
            }
            case lir::ParameterKind::Scalar:
                return word_of(scalars_[p.a], plan_.kernel.scalars[p.a].dtype);
            case lir::ParameterKind::Block:
                return std::uint64_t(grid.blocks[p.a]);
            default:
                return 0;
        }
    }

    bool run(const schedule::Stage& stage) {
        const Grid grid = grid_of(stage);
        std::vector<std::uint64_t> words;
        for (const lir::Parameter& p : stage.function.parameters) words.push_back(word(p, grid));
        const auto entry =
            reinterpret_cast<Entry*>(const_cast<void*>(code_.find(stage.function.name)));
        QUERN_CHECK(entry, "a function for each stage");
        return parallel_for(grid.points, grid.is_worth_threads ? threads_ : 1,
                            [&](std::int64_t begin, std::int64_t end) {
                                return call(entry, words.data(), buffers_.data(), begin, end,
                                            thread_scratch(local_ + Storage::kAlignment));
                            });
    }

    const schedule::Plan& plan_;
    const MachineCode& code_;
    std::span<const std::int64_t> dims_;
    std::span<const interpret::ScalarValue> scalars_;
    std::span<const interpret::View> operands_;
    const interpret::View& output_;
    int threads_;
    std::vector<std::vector<std::int64_t>> shapes_;
    ir::Environment environment_;
    std::vector<void*> buffers_;
    std::vector<std::shared_ptr<Storage>> shared_;
    std::size_t local_ = 0;
};

CompiledKernel::CompiledKernel(const ir::Kernel& kernel, const ir::Facts& facts,
                               schedule::Numerics numerics, cpu::Simd simd)
    : facts_(facts) {
    cpu::CompileResult result;
    cpu::compiler()({kernel, facts, numerics, simd}, result);
    if (!result.refusal.empty()) {
        raise(DeviceError("[cpu] E0600: expected a kernel that the cpu device runs, got " +
                          result.refusal + "; the interpreter runs it"));
    }
    if (!result.error.empty()) {
        raise(DeviceError("[cpu] LLVM: " + result.error + "; please report"));
    }
    plan_ = std::move(result.plan);
    code_ = MachineCode::load(result.object);
}

CompiledKernel::~CompiledKernel() = default;

bool CompiledKernel::run(std::span<const std::int64_t> dims,
                         std::span<const interpret::ScalarValue> scalars,
                         std::span<const interpret::View> operands, const interpret::View& output,
                         int threads) const {
    return Launch(*this, dims, scalars, operands, output, threads).run();
}

}  // namespace quern

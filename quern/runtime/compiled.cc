#include "quern/runtime/compiled.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <utility>

#include "quern/error.h"
#include "quern/ir/index.h"
#include "quern/runtime/machine_code.h"
#include "quern/runtime/pool.h"
#include "quern/runtime/room.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"
#include "quern/support/threads.h"

namespace quern {
namespace {

using EntryPoint = int(const std::uint64_t* words, void* const* buffers, std::int64_t begin,
                       std::int64_t end, std::byte* scratch);

/// Grids are worth a second thread from this many iterations on, those of the loops inside counted.
constexpr double kWorthThreads = 65536;

/// What a device with many threads is busy with.
constexpr std::int64_t kManyPoints = 4096;

/// Arrays that stages share are kept by the launching thread up to this size.
constexpr std::size_t kKept = 64 << 10;

/// How often a watched launch says how far it is, and into how many pieces a grid is cut for that.
constexpr auto kProgressInterval = std::chrono::milliseconds(100);
constexpr std::int64_t kPieces = 64;
using Clock = std::chrono::steady_clock;

/// Compiled code has no type before it, which Clang's sanitizer of indirect calls would look for.
#if defined(__clang__)
__attribute__((no_sanitize("function")))
#endif
bool call(const void* address, const std::uint64_t* words, void* const* buffers,
          std::int64_t begin, std::int64_t end, std::byte* scratch) {
    auto* entry = reinterpret_cast<EntryPoint*>(const_cast<void*>(address));
    return entry(words, buffers, begin, end, scratch) == 0;
}

/// Memory that a thread keeps from launch to launch, since a launch should not allocate.
class Kept {
public:
    std::byte* at_least(std::size_t bytes) {
        if (!storage_ || size_ < bytes) {
            storage_ = Storage::allocate(bytes, Storage::Fill::None);
            size_ = bytes;
        }
        return storage_->data();
    }

private:
    std::shared_ptr<Storage> storage_;
    std::size_t size_ = 0;
};

/// What a thread keeps for launches of one kind, or null where it ends: destructors of its objects
/// and of the program's may launch.
template <class Kind>
Kept* kept_by_thread() {
    constinit static thread_local bool is_gone = false;
    struct Guard {
        Kept kept;
        ~Guard() { is_gone = true; }
    };
    if (is_gone) return nullptr;
    thread_local Guard guard;
    return &guard.kept;
}

/// For the arrays of a thread's lanes. What is large is there for one range of points.
class ThreadScratch {
public:
    explicit ThreadScratch(std::size_t bytes) {
        constexpr std::size_t kMost = std::size_t{1} << 20;
        Kept* const kept = bytes <= kMost ? kept_by_thread<ThreadScratch>() : nullptr;
        data_ = (kept ? *kept : own_).at_least(bytes);
    }
    std::byte* data() const { return data_; }

private:
    Kept own_;
    std::byte* data_ = nullptr;
};

/// For the small arrays that stages of a launch share. Taken from what the thread keeps while the
/// launch lasts: another may run on the thread where this one waits for its parts.
class LaunchScratch {
public:
    explicit LaunchScratch(std::size_t bytes) {
        if (bytes == 0) return;
        if (Kept* const kept = kept_by_thread<LaunchScratch>()) kept_ = std::exchange(*kept, {});
        data_ = kept_.at_least(bytes);
    }
    ~LaunchScratch() {
        Kept* const kept = data_ ? kept_by_thread<LaunchScratch>() : nullptr;
        if (kept) *kept = std::move(kept_);
    }
    LaunchScratch(const LaunchScratch&) = delete;
    LaunchScratch& operator=(const LaunchScratch&) = delete;

    std::byte* data() const { return data_; }

private:
    Kept kept_;
    std::byte* data_ = nullptr;
};

std::uint64_t word_of(const interpret::ScalarValue& value, DType dtype) {
    std::uint64_t word = 0;
    if (dtype == DType::Float64) {
        std::memcpy(&word, &value.floating, sizeof(word));
    } else if (dtype == DType::Float32) {
        const auto narrow = static_cast<float>(value.floating);
        std::memcpy(&word, &narrow, sizeof(narrow));
    } else if (dtype == DType::Float16) {
        word = float16_from_double(value.floating);
    } else if (dtype == DType::BFloat16) {
        word = bfloat16_from_double(value.floating);
    } else {
        word = static_cast<std::uint64_t>(value.integer);
    }
    return word;
}

/// Works out one launch.
class Preparation {
public:
    Preparation(const KernelImage& image, std::span<const DType> scalar_dtypes,
                std::span<const std::int64_t> dims, std::span<const interpret::ScalarValue> scalars,
                std::span<const interpret::View> operands, const interpret::View& output,
                int threads)
        : image_(image),
          scalar_dtypes_(scalar_dtypes),
          scalars_(scalars),
          operands_(operands),
          output_(output),
          threads_(threads == 0 ? num_threads() : threads) {
        for (const interpret::View& view : operands) shapes_.push_back(view.shape);
        environment_.dims = dims;
        environment_.shapes = shapes_;
        for (const interpret::ScalarValue& value : scalars) integers_.push_back(value.integer);
        environment_.scalars = integers_;
    }

    ReadyLaunch run() const {
        ReadyLaunch launch;
        for (const KernelImage::Stage& stage : image_.stages) {
            const Grid grid = grid_of(stage);
            ReadyLaunch::Stage& ready = launch.stages.emplace_back();
            for (const lir::Parameter& p : stage.parameters) ready.words.push_back(word(p, grid));
            ready.points = grid.points;
            ready.threads = grid.is_worth_threads ? threads_ : 1;
        }
        for (const KernelImage::Shared& s : image_.shared) {
            launch.shared.push_back(bytes_of(s.array));
        }
        for (const KernelImage::Array& a : image_.local) {
            launch.local = in_address_space(launch.local + bytes_of(a));
        }
        return launch;
    }

private:
    static std::size_t in_address_space(std::size_t bytes) {
        constexpr std::size_t kMost = std::size_t{1} << 47;
        if (bytes > kMost) raise_out_of_memory("launch", bytes, host_room());
        return bytes;
    }

    /// Rounded up to the alignment of arrays.
    std::size_t bytes_of(const KernelImage::Array& array) const {
        std::size_t bytes = size_of(array.dtype);
        for (const ir::ExprId extent : array.shape) {
            const auto value = ir::evaluate(image_.numbers, extent, environment_);
            if (!value) {
                raise(Refusal("an array whose size is known only inside of a loop"));
            }
            const std::size_t count = std::size_t(std::max<std::int64_t>(*value, 0));
            if (__builtin_mul_overflow(bytes, count, &bytes)) {
                bytes = std::numeric_limits<std::size_t>::max();
            }
        }
        in_address_space(bytes);
        return (bytes + Storage::kAlignment - 1) / Storage::kAlignment * Storage::kAlignment;
    }

    struct Grid {
        std::vector<std::int64_t> blocks;
        std::int64_t points = 1;
        bool is_worth_threads = false;
    };

    Grid grid_of(const KernelImage::Stage& stage) const {
        Grid grid;
        std::vector<std::int64_t> trips;
        double iterations = 1;
        for (const KernelImage::Axis& axis : stage.grid) {
            const auto count = ir::evaluate(image_.numbers, axis.trips, environment_);
            QUERN_CHECK(count, "trips that the launch decides");
            trips.push_back(std::max<std::int64_t>(*count, 0));
            grid.blocks.push_back(axis.multiple);
            iterations *= double(trips.back());
        }
        // None if they are more than an integer holds.
        const auto of_point = ir::evaluate(image_.numbers, stage.iterations, environment_);
        iterations *= of_point ? double(std::max<std::int64_t>(*of_point, 1)) : kWorthThreads;
        const bool has_loops = of_point != 1;
        grid.is_worth_threads = iterations >= kWorthThreads;
        const auto points = [&] {
            std::int64_t product = 1;
            for (std::size_t p = 0; p < trips.size(); ++p) {
                product *= (trips[p] + grid.blocks[p] - 1) / grid.blocks[p];
            }
            return product;
        };
        // Blocks grow, the innermost axis first, as long as every thread has several.
        const std::int64_t enough = threads_ == kManyThreads ? kManyPoints
                                    : grid.is_worth_threads  ? std::int64_t(threads_) * 8
                                                             : 1;
        for (std::size_t p = trips.size(); p-- > 0;) {
            const bool is_contraction = has_loops && stage.grid[p].multiple > 1;
            const std::int64_t most = is_contraction ? 128 : has_loops ? 16 : 32768;
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
                return std::uint64_t(environment_.dims[p.a]);
            case lir::ParameterKind::Extent:
                return std::uint64_t(shapes_[p.a][p.b]);
            case lir::ParameterKind::Stride: {
                const bool is_operand = p.a < operands_.size();
                return std::uint64_t((is_operand ? operands_[p.a] : output_).strides[p.b]);
            }
            case lir::ParameterKind::Scalar:
                return word_of(scalars_[p.a], scalar_dtypes_[p.a]);
            case lir::ParameterKind::ScalarAs:
                return word_of(scalars_[p.a], DType(p.b));
            case lir::ParameterKind::Block:
                return std::uint64_t(grid.blocks[p.a]);
            default:
                return 0;
        }
    }

    const KernelImage& image_;
    std::span<const DType> scalar_dtypes_;
    std::span<const interpret::ScalarValue> scalars_;
    std::span<const interpret::View> operands_;
    const interpret::View& output_;
    int threads_;
    std::vector<std::vector<std::int64_t>> shapes_;
    std::vector<std::int64_t> integers_;
    ir::Environment environment_;
};

/// The lengths of everything that a parameter may name.
struct Lengths {
    std::size_t dims;
    std::size_t scalars;
    std::size_t operands;
    std::span<const ir::OperandFacts> facts;

    bool has(const lir::Parameter& p, const KernelImage::Stage& stage) const {
        switch (p.kind) {
            case lir::ParameterKind::Dim:
                return p.a < dims;
            case lir::ParameterKind::Extent:
                return p.a < operands && p.b < facts[p.a].rank;
            case lir::ParameterKind::Stride:
                return p.a <= operands && p.b < facts[p.a].rank;
            case lir::ParameterKind::Scalar:
            case lir::ParameterKind::ScalarAs:
                return p.a < scalars;
            case lir::ParameterKind::Block:
                return p.a < stage.grid.size();
            default:
                return true;
        }
    }
};

/// The nodes of a kernel, where a function counts as those that it is expanded into, about.
std::size_t expanded_size(const ir::Kernel& kernel) {
    constexpr std::size_t kFunction = 40;
    std::size_t size = 0;
    for (const ir::Expr& e : kernel.exprs) {
        size += ir::is_function(e) ? kFunction : 1;
    }
    return size;
}

}  // namespace

std::vector<std::byte> compile(const cpu::CompileRequest& request) {
    // Attention's code takes 10 MiB to make, a sum of 12 powers and 12 sines 11, a chain of 450 of
    // them 300.
    constexpr std::size_t kLeast = std::size_t{32} << 20, kEach = std::size_t{32} << 10;
    cpu::CompileFunction* const compiler = cpu::compiler();
    const WorkRoom room("compiler", kLeast + kEach * expanded_size(request.kernel));
    cpu::CompileResult result;
    compiler(request, result);
    if (!result.refusal.empty()) {
        raise(Refusal(result.refusal));
    }
    if (request.observer && !request.observer->fault().empty()) {
        raise(InternalError("[passes] " + request.observer->fault() + "; please report"));
    }
    if (!result.error.empty()) {
        raise(DeviceError("[cpu] LLVM: " + result.error + "; please report"));
    }
    return std::move(result.image);
}

bool has_small_numbers(const KernelImage& image, const ReadyLaunch& launch) {
    constexpr std::uint64_t kNumber = std::uint64_t{1} << 30, kBytes = std::uint64_t{1} << 31;
    for (std::size_t i = 0; i < launch.stages.size(); ++i) {
        const ReadyLaunch::Stage& stage = launch.stages[i];
        std::uint64_t iterations = std::uint64_t(stage.points);
        for (std::size_t p = 0; p < stage.words.size(); ++p) {
            const std::uint64_t word = stage.words[p];
            switch (image.stages[i].parameters[p].kind) {
                case lir::ParameterKind::Stride:
                    if (std::int64_t(word) != std::int32_t(word)) return false;
                    break;
                case lir::ParameterKind::Block:
                    if (__builtin_mul_overflow(iterations, word, &iterations)) return false;
                    break;
                case lir::ParameterKind::Dim:
                case lir::ParameterKind::Extent:
                    if (word >= kNumber) return false;
                    break;
                default:
                    break;
            }
        }
        if (iterations >= kNumber) return false;
    }
    return launch.local < kBytes &&
           std::ranges::all_of(launch.shared, [](std::size_t bytes) { return bytes < kBytes; });
}

ReadyLaunch ready_launch(const KernelImage& image, std::span<const DType> dtypes,
                         std::span<const std::int64_t> dims,
                         std::span<const interpret::ScalarValue> scalars,
                         std::span<const interpret::View> operands, const interpret::View& output,
                         int threads) {
    return Preparation(image, dtypes, dims, scalars, operands, output, threads).run();
}

CompiledKernel::CompiledKernel(const ir::Kernel& kernel, const ir::Facts& facts,
                               std::span<const std::byte> image)
    : facts_(facts), image_(image_from(image)) {
    for (const ir::Scalar& scalar : kernel.scalars) scalars_.push_back(scalar.dtype);
    check_fits(kernel);
    code_ = MachineCode::load(image_.object);
    image_.object = {};
    for (const KernelImage::Stage& stage : image_.stages) {
        entries_.push_back(code_->find(stage.function));
        if (!entries_.back()) {
            raise(DeviceError("[cpu] expected code with a function '" + stage.function +
                              "', got none"));
        }
    }
}

CompiledKernel::~CompiledKernel() = default;

void CompiledKernel::check_fits(const ir::Kernel& kernel) const {
    const Lengths lengths{kernel.dims.size(), kernel.scalars.size(), kernel.operand_count,
                          facts_.operands};
    bool fits = image_.operand_count == kernel.operand_count &&
                facts_.operands.size() == kernel.operand_count + std::size_t{1};
    for (const KernelImage::Stage& stage : image_.stages) {
        for (const lir::Parameter& p : stage.parameters) fits = fits && lengths.has(p, stage);
    }
    for (const KernelImage::Shared& shared : image_.shared) {
        fits = fits && shared.buffer > image_.operand_count;
    }
    if (!fits) raise(DeviceError("[cpu] expected code of this kernel, got that of another"));
}

ReadyLaunch CompiledKernel::ready(std::span<const std::int64_t> dims,
                                  std::span<const interpret::ScalarValue> scalars,
                                  std::span<const interpret::View> operands,
                                  const interpret::View& output, int threads) const {
    ReadyLaunch launch = ready_launch(image_, scalars_, dims, scalars, operands, output, threads);
    for (std::size_t i = 0; i < entries_.size(); ++i) launch.stages[i].entry = entries_[i];
    return launch;
}

bool CompiledKernel::run(const ReadyLaunch& launch, std::span<void* const> addresses,
                         const Progress& progress) const {
    fmt::basic_memory_buffer<void*, 32> buffers;
    buffers.resize(image_.buffer_count);
    std::copy(addresses.begin(), addresses.end(), buffers.begin());
    std::fill(buffers.begin() + addresses.size(), buffers.end(), nullptr);

    std::size_t small = 0;
    for (const std::size_t bytes : launch.shared) small += bytes <= kKept ? bytes : 0;
    const LaunchScratch scratch(small);
    std::byte* free = scratch.data();
    std::vector<std::shared_ptr<Storage>> large;
    for (std::size_t i = 0; i < launch.shared.size(); ++i) {
        const std::size_t bytes = launch.shared[i];
        if (bytes > kKept) {
            large.push_back(Storage::allocate(bytes, Storage::Fill::None));
            buffers[image_.shared[i].buffer] = large.back()->data();
        } else {
            buffers[image_.shared[i].buffer] = free;
            free += bytes;
        }
    }
    // Grids are cut only where somebody watches.
    const std::int64_t most_pieces = progress ? kPieces : 1;
    const double stages = double(launch.stages.size());
    Clock::time_point told = progress ? Clock::now() : Clock::time_point();
    for (std::size_t i = 0; i < launch.stages.size(); ++i) {
        const ReadyLaunch::Stage& stage = launch.stages[i];
        const std::int64_t pieces = std::clamp<std::int64_t>(stage.points, 1, most_pieces);
        for (std::int64_t piece = 0; piece < pieces; ++piece) {
            const std::int64_t from =
                stage.points / pieces * piece + std::min(piece, stage.points % pieces);
            const std::int64_t count = stage.points / pieces + (piece < stage.points % pieces);
            const bool has_run =
                parallel_for(count, stage.threads, [&](std::int64_t begin, std::int64_t end) {
                    const ThreadScratch local(launch.local + Storage::kAlignment);
                    return call(stage.entry, stage.words.data(), buffers.data(), from + begin,
                                from + end, local.data());
                });
            if (!has_run) return false;
            if (!progress || Clock::now() - told < kProgressInterval) continue;
            told = Clock::now();
            progress((double(i) + double(piece + 1) / double(pieces)) / stages);
        }
    }
    return true;
}

bool CompiledKernel::run(std::span<const std::int64_t> dims,
                         std::span<const interpret::ScalarValue> scalars,
                         std::span<const interpret::View> operands, const interpret::View& output,
                         int threads) const {
    std::vector<void*> addresses;
    for (const interpret::View& view : operands) addresses.push_back(view.data);
    addresses.push_back(output.data);
    return run(ready(dims, scalars, operands, output, threads), addresses);
}

}  // namespace quern

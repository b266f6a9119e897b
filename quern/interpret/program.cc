#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <list>
#include <new>
#include <thread>

#include "quern/interpret/failure.h"
#include "quern/interpret/interpret.h"
#include "quern/interpret/machine.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"
#include "quern/support/threads.h"

namespace quern::interpret {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

/// Points without loops are not worth a second thread below this number.
constexpr std::int64_t kPointsWorthThreads = 8192;

thread_local std::uint64_t steps_done = 0;

/// Calls the user's function at most ten times a second, never with less than before.
class Progress {
public:
    explicit Progress(const std::function<void(double)>& report) : report_(report) {}

    bool is_wanted() const { return bool(report_); }

    bool is_due() {
        if (!report_) return false;
        const auto now = std::chrono::steady_clock::now();
        if (now - last_ < std::chrono::milliseconds(100)) return false;
        last_ = now;
        return true;
    }

    void at(double fraction) {
        highest_ = std::max(highest_, std::min(fraction, 1.0));
        report_(highest_);
    }

private:
    const std::function<void(double)>& report_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
    double highest_ = 0;
};

/// One launch.
class Runner final : public Machine::Host {
public:
    Runner(const ir::Kernel& kernel, const Code& code, const View& output, const Options& options)
        : kernel_(kernel),
          code_(code),
          output_(output),
          options_(options),
          progress_(options.progress),
          caller_(std::this_thread::get_id()) {}

    std::optional<Failure> run(int threads) {
        threads_ = threads > 0 ? threads : num_threads();
        Machine machine(code_, *this, options_.local_limit);
        adopt_output(machine);
        const bool succeeded = machine.run();
        steps_done = machine.steps;
        for (const Machine& worker : machines_) steps_done += worker.steps;
        if (succeeded) return std::nullopt;
        if (machine.has_trapped) return describe(kernel_, code_, machine);
        return failure_;
    }

    /// Whether the failure may be another one in another order of the points.
    bool depends_on_order() const { return depends_on_order_; }

private:
    void adopt_output(Machine& machine) {
        std::int64_t elements = 1;
        for (const std::int64_t extent : output_.shape) elements *= extent;
        if (code_.arrays[0].is_read) {
            const auto count = std::size_t(elements);
            or_out_of_memory("kernel", count, [&] { marks_.assign(count, 0); });
        }
        machine.adopt(0, output_.data, output_.shape, marks_.data());
    }

    bool run_region(Machine& machine, const Region& region) override {
        std::int64_t points = 1;
        for (const PointLoop& loop : region.loops) {
            if (machine[loop.count].i == 0) return true;
        }
        for (const PointLoop& loop : region.loops) {
            if (__builtin_mul_overflow(points, machine[loop.count].i, &points)) points = kMost;
        }
        machine.steps += std::uint64_t(points);
        prepare_claims(machine, region, points);

        std::atomic<std::int64_t> done{0};
        running_ = {&machine, region.tracked, points, &done};
        ++runs_;
        lowest_failure_ = kMost;
        const bool is_small = !region.has_loops && points < kPointsWorthThreads;
        // Pieces are small enough for progress, and for a failure to stop what comes after it.
        const std::int64_t piece = std::max<std::int64_t>(1, points / 256);
        parallel_for(points, is_small ? 1 : threads_, [&](std::int64_t begin, std::int64_t end) {
            Machine& worker = acquire(machine);
            while (begin < end && begin < lowest_failure_.load(std::memory_order_relaxed)) {
                const std::int64_t next = std::min(end, begin + std::min(piece, end - begin));
                if (!worker.run_points(region, begin, next)) keep_failure(worker);
                done.fetch_add(next - begin, std::memory_order_relaxed);
                begin = next;
                if (progress_.is_wanted() && std::this_thread::get_id() == caller_ &&
                    progress_.is_due()) {
                    progress_.at(part_done(0));
                }
            }
            release(worker);
        });
        running_ = {};
        if (lowest_failure_ == kMost) return true;
        depends_on_order_ = !region.claimed.empty();
        return false;
    }

    void report(const Machine& machine, std::uint32_t tracked) override {
        if (std::this_thread::get_id() != caller_ || !progress_.is_due()) return;
        const std::uint32_t outer = running_.main == nullptr ? 0 : running_.tracked;
        const double inside = part_of(machine, tracked, iterations_done(machine, tracked), outer);
        progress_.at(running_.main == nullptr ? inside : part_done(inside));
    }

    double iterations_done(const Machine& machine, std::uint32_t tracked) const {
        const Tracked& loop = code_.tracked[tracked];
        return double(machine[loop.iteration].i) / double(machine[loop.count].i);
    }

    /// What `part` of one part of the work is of the present iteration of `outer` around it.
    double part_of(const Machine& machine, std::uint32_t tracked, double part,
                   std::uint32_t outer) const {
        for (;;) {
            const Tracked& inner = code_.tracked[tracked];
            const Tracked& parent = code_.tracked[inner.parent];
            part = (inner.place + part) / double(parent.parts);
            tracked = inner.parent;
            if (tracked == outer) return part;
            part = iterations_done(machine, tracked) + part / double(machine[parent.count].i);
        }
    }

    /// How much of the whole is done while a region runs; `inside` is of the caller's point.
    double part_done(double inside) const {
        const double points = double(running_.done->load()) + inside;
        return part_of(*running_.main, running_.tracked, points / double(running_.points), 0);
    }

    /// Numbers the points of this run of a region, above all numbers before.
    void prepare_claims(Machine& machine, const Region& region, std::int64_t points) {
        if (region.claimed.empty()) return;
        machine.claim_base = machine.claim_many;
        machine.claim_many += std::uint64_t(points) * std::uint64_t(region.ids_per_point) + 1;
        for (const std::uint32_t index : region.claimed) {
            Array& array = machine.array(index);
            if (claims_.size() < code_.arrays.size()) claims_.resize(code_.arrays.size());
            Claims& claims = claims_[index];
            if (claims.count < array.elements || !claims.writer) {
                const auto count = std::size_t(std::max<std::int64_t>(array.elements, 1));
                or_out_of_memory("kernel", 2 * count * sizeof(std::atomic<std::uint64_t>), [&] {
                    claims.writer.reset(new std::atomic<std::uint64_t>[count]());
                    claims.reader.reset(new std::atomic<std::uint64_t>[count]());
                });
                claims.count = array.elements;
            }
            array.claims = &claims;
        }
    }

    /// A machine that nobody uses, in the state of the main one.
    Machine& acquire(const Machine& main) {
        Slot* slot = nullptr;
        {
            const Lock lock(mutex_);
            if (!free_.empty()) {
                slot = free_.back();
                free_.pop_back();
            } else {
                machines_.emplace_back(code_, *this, options_.local_limit);
                slots_.push_back({&machines_.back(), 0});
                slot = &slots_.back();
            }
        }
        if (slot->run != runs_) slot->machine->copy_state(main);
        slot->run = runs_;
        return *slot->machine;
    }

    void release(Machine& machine) {
        const Lock lock(mutex_);
        for (Slot& slot : slots_) {
            if (slot.machine == &machine) free_.push_back(&slot);
        }
    }

    /// Keeps the failure of the lowest point: points are handed out in order, and all below the
    /// lowest failure are run to their end, so that it is the same on every run.
    void keep_failure(Machine& worker) {
        const Lock lock(mutex_);
        if (worker.failed_point >= lowest_failure_) return;
        lowest_failure_ = worker.failed_point;
        failure_ = describe(kernel_, code_, worker);
    }

    struct Slot {
        Machine* machine = nullptr;
        std::uint64_t run = 0;
    };

    /// The region that runs, and the machine that met it.
    struct Running {
        const Machine* main = nullptr;
        std::uint32_t tracked = 0;
        std::int64_t points = 0;
        const std::atomic<std::int64_t>* done = nullptr;
    };

    const ir::Kernel& kernel_;
    const Code& code_;
    const View& output_;
    const Options& options_;
    Running running_;
    Progress progress_;
    std::thread::id caller_;
    int threads_ = 1;

    std::vector<std::uint8_t> marks_;
    std::vector<Claims> claims_;

    Mutex mutex_;
    std::list<Machine> machines_;
    std::list<Slot> slots_;
    std::vector<Slot*> free_;
    std::uint64_t runs_ = 0;
    std::atomic<std::int64_t> lowest_failure_{kMost};
    std::optional<Failure> failure_;
    bool depends_on_order_ = false;
};

void check_bindings(const ir::Kernel& kernel, const Launch& launch) {
    QUERN_CHECK(launch.dims.size() == kernel.dims.size(), "a value for each dim");
    QUERN_CHECK(launch.scalars.size() == kernel.scalars.size(), "a value for each scalar");
    QUERN_CHECK(launch.operands.size() == kernel.operand_count, "a view for each operand");
    const auto fits = [](const View& view, const ir::Buffer& buffer) {
        return view.dtype == buffer.dtype && view.shape.size() == buffer.shape.size() &&
               view.strides.size() == view.shape.size();
    };
    for (std::uint32_t i = 0; i < kernel.operand_count; ++i) {
        QUERN_CHECK(fits(launch.operands[i], kernel.buffers[i]),
                    "an operand of the dtype and rank that the kernel uses");
    }
    const View& output = *launch.output;
    QUERN_CHECK(fits(output, kernel.buffers[kernel.output()]),
                "an output of the dtype and rank that the kernel writes");
    std::int64_t stride = 1;
    for (std::size_t axis = output.shape.size(); axis-- > 0; stride *= output.shape[axis]) {
        QUERN_CHECK(output.shape[axis] <= 1 || output.strides[axis] == stride || stride == 0,
                    "a contiguous output");
    }
}

}  // namespace

struct Program::Kept {
    ir::Kernel kernel;
};

Program::Program(const ir::Kernel& kernel) : kept_(new Kept{kernel}) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

std::optional<Failure> Program::run(std::span<const std::int64_t> dims,
                                    std::span<const ScalarValue> scalars,
                                    std::span<const View> operands, const View& output,
                                    const Options& options) const {
    const Launch launch{dims, scalars, operands, &output, bool(options.progress)};
    check_bindings(kept_->kernel, launch);
    const Code code = compile(kept_->kernel, launch);
    Runner runner(kept_->kernel, code, output, options);
    std::optional<Failure> failure = runner.run(options.threads);
    if (!failure || !runner.depends_on_order() || options.threads == 1) return failure;

    // Which of two points that use one element is noticed depends on who comes first. One thread
    // has one order.
    std::size_t bytes = size_of(output.dtype);
    for (const std::int64_t extent : output.shape) bytes *= std::size_t(extent);
    std::memset(output.data, 0, bytes);
    Runner again(kept_->kernel, code, output, options);
    std::optional<Failure> first = again.run(1);
    return first ? first : failure;
}

std::uint64_t Program::steps_of_last_run() { return steps_done; }

}  // namespace quern::interpret

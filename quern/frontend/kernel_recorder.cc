#include "quern/frontend/kernel_recorder.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <utility>

#include "quern/frontend/launch_record.h"
#include "quern/ir/print.h"
#include "quern/kernel_bundle.h"
#include "quern/runtime/kernel_bundle.h"
#include "quern/support/check.h"
#include "quern/support/file.h"
#include "quern/support/threads.h"

namespace quern {

namespace {

using NotedLaunch = std::pair<ir::Facts, Numerics>;

void add_once(std::vector<NotedLaunch>& launches, const NotedLaunch& launch) {
    if (std::ranges::find(launches, launch) == launches.end()) launches.push_back(launch);
}

/// The launches themselves, and such as fit launches that are like none of them.
std::vector<NotedLaunch> with_general(const std::vector<NotedLaunch>& launches) {
    std::vector<NotedLaunch> all;
    for (const auto& [facts, numerics] : launches) {
        for (ir::Facts wanted : {facts, ir::without_numbers(facts)}) {
            add_once(all, {wanted, numerics});
            // Another machine's caches may hold the output.
            wanted.operands.back().is_streamed = false;
            add_once(all, {wanted, numerics});
        }
        ir::Facts strided = facts;
        for (ir::OperandFacts& operand : strided.operands) {
            operand.is_streamed = false;
            operand.contiguous_axes = 0;
        }
        add_once(all, {ir::without_numbers(strided), numerics});
    }
    return all;
}

std::vector<cpu::Simd> levels_named(const std::vector<std::string>& names) {
    if (names.empty()) {
        const auto& levels = cpu::kSimdLevels;
        // Scalar code is for comparison: it needs what the next level needs.
        return {std::begin(levels) + (std::size(levels) > 1 ? 1 : 0), std::end(levels)};
    }
    std::vector<cpu::Simd> levels;
    for (const std::string& name : names) {
        std::string known;
        std::optional<cpu::Simd> level;
        for (int i = 0; i <= int(cpu::Simd::Neon); ++i) {
            const auto simd = cpu::Simd(i);
            if (name == cpu::to_string(simd)) level = simd;
            known += (i > 0 ? ", " : "") + std::string(cpu::to_string(simd));
        }
        if (!level) {
            raise(ValueError("[bake] expected instructions to be some of " + known + ", got '" +
                             name + "'"));
        }
        if (std::ranges::find(levels, *level) == levels.end()) levels.push_back(*level);
    }
    return levels;
}

}  // namespace

namespace frontend {

/// What one recorder knows.
class NotedKernels {
public:
    struct Noted {
        ir::Kernel kernel;
        std::vector<NotedLaunch> launches;
    };

    void add(const std::string& text, const ir::Kernel& kernel, const NotedLaunch& launch) {
        const Lock lock(mutex_);
        Noted& noted = kernels_.try_emplace(text, Noted{kernel, {}}).first->second;
        add_once(noted.launches, launch);
    }

    std::map<std::string, Noted> all() const {
        const Lock lock(mutex_);
        return kernels_;
    }

private:
    mutable Mutex mutex_;

    /// By the texts that bundles have.
    std::map<std::string, Noted> kernels_;
};

namespace {

/// The recorders that there are.
struct Recorders {
    Mutex mutex;
    std::vector<std::shared_ptr<NotedKernels>> list;
    std::atomic<std::size_t> count{0};
};

/// Never destroyed: destructors of the program's static objects may still launch.
Recorders& recorders() {
    static Recorders& instance = *new Recorders;
    return instance;
}

}  // namespace

void note_for_recorders(const ir::Kernel& kernel, const ir::Facts& facts, Numerics numerics) {
    Recorders& all = recorders();
    if (all.count.load() == 0) return;
    const std::string text = ir::identity(kernel);
    const Lock lock(all.mutex);
    for (const auto& noted : all.list) noted->add(text, kernel, {facts, numerics});
}

}  // namespace frontend

KernelRecorder::KernelRecorder() : noted_(std::make_shared<frontend::NotedKernels>()) {
    frontend::Recorders& all = frontend::recorders();
    {
        const Lock lock(all.mutex);
        all.list.push_back(noted_);
        all.count.store(all.list.size());
    }
    // A launch that is remembered asks for no code.
    frontend::forget_launches();
}

KernelRecorder::~KernelRecorder() {
    frontend::Recorders& all = frontend::recorders();
    const Lock lock(all.mutex);
    std::erase(all.list, noted_);
    all.count.store(all.list.size());
}

std::size_t KernelRecorder::count() const { return noted_->all().size(); }

void KernelRecorder::write(const std::string& path, const Options& options) const {
    const auto noted = noted_->all();
    if (noted.empty()) raise(ValueError("[bake] expected a launch on the device cpu, got none"));
    const std::vector<cpu::Simd> levels = levels_named(options.instructions);
    // What cannot be written is said before the work. The file itself comes last: a process that is
    // stopped meanwhile leaves nothing behind.
    static_cast<void>(AtomicFile(path));

    KernelBundle bundle;
    bundle.version = bundle_version();
    struct Task {
        const ir::Kernel* kernel;
        KernelBundle::Code* code;
    };
    std::vector<Task> tasks;
    bundle.kernels.reserve(noted.size());
    for (const auto& [text, each] : noted) {
        KernelBundle::Kernel& kernel = bundle.kernels.emplace_back();
        kernel.text = text;
        for (const auto& [facts, numerics] : with_general(each.launches)) {
            for (const cpu::Simd simd : levels) {
                kernel.codes.push_back({simd, numerics, facts, {}});
            }
        }
        put_best_first(kernel.codes);
        for (KernelBundle::Code& code : kernel.codes) tasks.push_back({&each.kernel, &code});
    }
    const std::size_t together = 4 * std::size_t(hardware_threads());
    for (std::size_t done = 0; done < tasks.size();) {
        const std::size_t count = std::min(together, tasks.size() - done);
        parallel_for(std::int64_t(count), 0, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
                const auto& [kernel, code] = tasks[done + std::size_t(i)];
                code->image = compile({*kernel, code->facts, code->numerics, code->simd});
            }
        });
        done += count;
        if (options.progress) options.progress(double(done) / double(tasks.size()));
    }
    const std::vector<std::byte> bytes = to_bytes(bundle);
    if (bytes.size() > kMostOfBundle) {
        raise(ValueError("[bake] expected at most " + std::to_string(kMostOfBundle) +
                         " bytes of code, got " + std::to_string(bytes.size())));
    }
    AtomicFile file(path);
    file.write(bytes);
    file.commit();
}

}  // namespace quern

#include "quern/frontend/vulkan_launch.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/error.h"
#include "quern/frontend/bound.h"
#include "quern/frontend/self_test.h"
#include "quern/runtime/compiled.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/disk_cache.h"
#include "quern/runtime/ending.h"
#include "quern/runtime/launched.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern::frontend {
namespace {

vulkan::Driver& driver() {
    std::string why;
    vulkan::Driver* const found = vulkan::driver(why);
    if (!found) raise(DeviceError("[vulkan] E0601: " + why));
    return *found;
}

/// In the cache of the process.
class DriverCodeOnDisk final : public vulkan::DriverCode {
public:
    explicit DriverCodeOnDisk(const DiskCache& cache) : cache_(cache) {}

    std::optional<std::vector<std::byte>> read(const std::string& key) const override {
        return cache_.read(key);
    }
    void write(const std::string& key, std::span<const std::byte> code) const override {
        cache_.write(key, code);
    }

private:
    const DiskCache& cache_;
};

/// The bytes that a view reaches.
vulkan::Range range_of(const interpret::View& view) {
    const auto size = std::int64_t(size_of(view.dtype));
    std::int64_t low = 0, high = 0;
    for (std::size_t p = 0; p < view.shape.size(); ++p) {
        if (view.shape[p] == 0) return {};
        const std::int64_t reach = (view.shape[p] - 1) * view.strides[p];
        (reach < 0 ? low : high) += reach;
    }
    return {static_cast<std::byte*>(view.data) + low * size, std::size_t((high - low + 1) * size),
            std::size_t(-low * size)};
}

/// What facts of a launch say of where an element is on a device, `offset` bytes behind a place
/// that is aligned to all there is.
const void* alignment_of(std::uintptr_t offset) {
    return offset % std::uintptr_t(kPacket) == 0 ? kPacket : kAnywhere;
}

bool are_small(std::span<const vulkan::Range> operands, const vulkan::Range& output) {
    constexpr std::size_t kBytes = std::size_t{1} << 31;
    return output.bytes < kBytes &&
           std::ranges::all_of(operands, [](const auto& range) { return range.bytes < kBytes; });
}

ReadyLaunch ready_for(const Device& device, const BoundLaunch& launch, const KernelImage& image) {
    std::vector<DType> scalars;
    for (const ir::Scalar& scalar : launch.prepared->lowered.kernel.scalars) {
        scalars.push_back(scalar.dtype);
    }
    const auto make = [&] {
        return ready_launch(image, scalars, launch.binding.dims, launch.scalars, launch.views,
                            launch.output, kManyThreads);
    };
#if QUERN_EXCEPTIONS
    try {
        return make();
    } catch (const Refusal& refusal) {
        raise(Refusal(refusal.reason(), device.id()));
    }
#else
    static_cast<void>(device);
#endif
    return make();
}

}  // namespace

std::shared_ptr<const vulkan::Compiled> VulkanKernels::compiled(const Device& device,
                                                                const ir::Kernel& kernel,
                                                                const ir::Facts& facts,
                                                                Numerics numerics,
                                                                const vulkan::Variant& variant) {
    std::optional<DriverCodeOnDisk> kept;
    if (const DiskCache* const cache = DiskCache::of_process()) kept.emplace(*cache);
    auto code = std::make_shared<const vulkan::Compiled>(driver().compile(
        *vulkan_number(device.id()), kernel, facts, numerics, variant, kept ? &*kept : nullptr));
    return code;
}

std::shared_ptr<const vulkan::Compiled> VulkanKernels::find(const Device& device,
                                                            const ir::Kernel& kernel,
                                                            const ir::Facts& facts,
                                                            Numerics numerics,
                                                            const vulkan::Variant& variant) {
    const auto found = [&]() -> std::shared_ptr<const vulkan::Compiled> {
        for (const Entry& entry : entries_) {
            const bool fits = entry.device == device.id() && entry.numerics == numerics &&
                              entry.variant == variant;
            // What is right wherever elements lie would do, but without packets.
            const bool lies_so = std::ranges::equal(entry.facts.operands, facts.operands, {},
                                                    &ir::OperandFacts::aligned_log2,
                                                    &ir::OperandFacts::aligned_log2);
            if (fits && lies_so && ir::serves(entry.facts, facts)) return entry.code;
        }
        return nullptr;
    };
    {
        const Lock lock(mutex_);
        if (auto code = found()) return code;
    }
    vulkan::Variant chosen = variant;
    const auto make = [&](vulkan::PointsAre points) {
        chosen.points = points;
        return compiled(device, kernel, facts, numerics, chosen);
    };
    auto code = make(variant.points);
    // Code without something is made where the driver fails the test of it, and where it does not
    // take the code that has it: which need not be for that.
    const auto goes_without = [&](const Probe& probe) {
        if (code->failure && !code->is_of_code) return false;
        return !fault_of(probe, device).empty() || (code->is_of_code && !is_probing());
    };
    if (code->has_float16 && goes_without(probe_of_float16())) {
        chosen.may_have_float16 = false;
        code = make(variant.points);
    }
    if (code->is_fused && goes_without(probe_of_fused())) {
        chosen.may_fuse = false;
        code = make(variant.points);
    }
    const bool has_floats =
        std::ranges::any_of(kernel.exprs, [](const ir::Expr& e) { return is_floating(e.dtype); });
    const bool may_fold = has_floats && !code->failure && !code->hides_floats;
    if (may_fold && !fault_of(probe_of_folding(), device).empty()) {
        chosen.hides_floats = true;
        code = make(variant.points);
    }
    const auto has = [&](const auto& what) { return std::ranges::any_of(code->groups, what); };
    // Drivers have said that they had matrices, and not compiled them.
    const bool has_wrong_atoms = has([&](const vulkan::Groups& g) {
        return g.atom.rows > 0 && goes_without(probe_of_matrices(g.atom));
    });
    if (has_wrong_atoms) code = make(vulkan::PointsAre::GroupsByLanes);
    const bool has_wrong_subgroups = has([&](const vulkan::Groups& g) {
        return g.subgroup > 1 && goes_without(probe_of_subgroups(g.invocations / g.points));
    });
    if (has_wrong_subgroups) code = make(vulkan::PointsAre::GroupsByMemory);
    if (code->has_packets && std::ranges::any_of(probes_of_packets(kernel), goes_without)) {
        chosen.may_have_packets = false;
        code = make(chosen.points);
    }
    std::uint32_t lanes = 0;
    for (const vulkan::Groups& g : code->groups) {
        if (g.are_lanes) lanes = std::max(lanes, g.invocations / g.points);
    }
    // Code without something may be refused where the other was not.
    const bool is_refused = chosen != variant && !code->refusal.empty();
    if (is_refused || std::ranges::any_of(probes_of_lanes(lanes), goes_without)) {
        code = make(vulkan::PointsAre::Invocations);
    }
    if (!code->refusal.empty()) raise(Refusal(code->refusal, device.id()));
    if (code->is_of_code) raise(UncompiledCode(device, code->failure.what));
    vulkan::raise_if_failed(*vulkan_number(device.id()), code->failure);
    for (const Probe& probe : probes_for(kernel, numerics, code->has_quotients)) {
        if (fault_of(probe, device).empty()) continue;
        raise(Refusal(probe.what + ", whose test its driver fails", device.id()));
    }
    // Not before: probes run kernels, and warn a handler that may run this one. Another thread may
    // have made the same meanwhile.
    const Lock lock(mutex_);
    if (auto other = found()) return other;
    entries_.push_back({device.id(), numerics, variant, facts, code});
    return code;
}

PlacedLaunch place_on_vulkan(const BoundLaunch& launch, const Device& device,
                             const Tensor& result) {
    const std::size_t number = *vulkan_number(device.id());
    PlacedLaunch placed;
    std::vector<ir::OperandView> views;
    for (std::size_t i = 0; i < launch.views.size(); ++i) {
        const interpret::View& v = launch.views[i];
        vulkan::Range& range = placed.operands.emplace_back(range_of(v));
        range.is_on_device = InFlight::is_on(launch.operands[i], number);
        // Of one elsewhere the device has a copy, from its first byte on.
        const auto offset = range.is_on_device ? std::uintptr_t(v.data) : range.offset;
        views.push_back({alignment_of(offset), v.dtype, v.shape, v.strides});
    }
    placed.output = {static_cast<std::byte*>(InFlight::address(result, number)), result.bytes(), 0,
                     InFlight::is_on(result, number)};
    const auto offset = placed.output.is_on_device ? std::uintptr_t(placed.output.data) : 0;
    views.push_back(
        {alignment_of(offset), launch.dtype, launch.output.shape, launch.output.strides});
    placed.facts = ir::facts_of(launch.prepared->lowered.kernel, launch.binding.dims, views);
    return placed;
}

bool run_on_vulkan(const BoundLaunch& launch, const Device& device, Tensor& result,
                   bool keeps_result, const vulkan::Variant& wanted) {
    const ir::Kernel& kernel = launch.prepared->lowered.kernel;
    const std::size_t number = *vulkan_number(device.id());
    const auto [operands, output, facts] = place_on_vulkan(launch, device, result);
    const auto find = [&, &facts = facts](const vulkan::Variant& variant) {
        return launch.prepared->on_vulkan->find(device, kernel, facts, launch.numerics, variant);
    };
    vulkan::Variant variant = wanted;
    variant.may_be_small &= are_small(operands, output);
    const auto add_windows = [&](std::size_t buffer, std::size_t bytes) {
        const std::uint32_t windows = driver().windows_for(number, bytes);
        if (windows == 1) return false;
        if (variant.windows.size() <= buffer) variant.windows.resize(buffer + 1, 1);
        variant.windows[buffer] = windows;
        return true;
    };
    for (std::size_t i = 0; i < operands.size(); ++i) add_windows(i, operands[i].bytes);
    add_windows(operands.size(), output.bytes);
    auto code = find(variant);
    ReadyLaunch ready = ready_for(device, launch, code->image);
    bool is_other = code->is_small && !has_small_numbers(code->image, ready);
    if (is_other) variant.may_be_small = false;
    // Its arrays have sizes only now.
    for (std::size_t i = 0; i < ready.shared.size(); ++i) {
        is_other |= add_windows(code->image.shared[i].buffer, ready.shared[i]);
    }
    if (is_other) {
        code = find(variant);
        ready = ready_for(device, launch, code->image);
    }
    for (const Tensor& operand : launch.operands) InFlight::bring(operand, number);
    if (keeps_result) InFlight::bring(result, number);
    detail::wait_at_end(detail::Begun::Launches, [] { driver().wait_for_all(); });
    const vulkan::Outcome outcome =
        driver().run(code->pipelines, code->image, ready, operands, output, keeps_result);
    if (!is_probing()) count_copied(outcome.copied);
    vulkan::raise_if_failed(number, outcome);
    Launched::note(number, outcome.ticket);
    for (const Tensor& operand : launch.operands) {
        InFlight::note_read(operand, number, outcome.ticket);
    }
    InFlight::note_written(result, number, outcome.ticket);
    if (outcome.is_cut) {
        // The loops of a lane have fewer iterations than those of a point. What was written is
        // written again; behind a stage that was cut off it may be what never should have been.
        const bool may_write_again =
            !kernel.reads_output() && (ready.stages.size() == 1 || !keeps_result);
        if (wanted.points == vulkan::PointsAre::Chosen && may_write_again) {
            vulkan::Variant groups = wanted;
            groups.points = vulkan::PointsAre::Groups;
            return run_on_vulkan(launch, device, result, keeps_result, groups);
        }
        raise(Refusal("points of more than " + std::to_string(vulkan::kMostIterations) +
                          " iterations, all that its driver runs",
                      device.id()));
    }
    return !outcome.has_failed;
}

}  // namespace quern::frontend

// Devices vulkan that are this processor: the functions that a driver gets words of, run lane by
// lane by the executor of LIR, which reports what no device may do as an error of the driver. With
// QUERN_PLUGINS naming its folder any program of tests runs so.
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quern/backend/common/image_of.h"
#include "quern/backend/vulkan/targets.h"
#include "quern/lir/executor.h"
#include "quern/runtime/compiled.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/pool.h"

namespace quern::vulkan {
namespace {

constexpr std::size_t kMemory = std::size_t{8} << 30;

/// A kind of device.
struct Kind {
    const char* name;
    PointsAre points;
    Features device;
};

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all = {
        {"lanes in subgroups of 16, with matrices",
         PointsAre::Groups,
         {.has_float64 = true,
          .has_float16 = true,
          .subgroup = 16,
          .group_bytes = 48 << 10,
          .atoms = {{16, 16, 16, DType::Float16, DType::Float32}}}},
        {"lanes that share memory alone, 32 bits",
         PointsAre::GroupsByMemory,
         {.integers = {.has_8 = false, .has_16 = false, .has_64 = false}}},
        {"invocations", PointsAre::Invocations, {.has_float64 = true, .has_float16 = true}},
    };
    return all;
}

class Functions final : public Pipelines {
public:
    explicit Functions(std::vector<lir::Function> all) : functions(std::move(all)) {}

    const std::vector<lir::Function> functions;
};

/// Bytes where a device would have them: at a multiple of what its memory begins at.
class Copy {
public:
    explicit Copy(std::size_t bytes)
        : data_(
              static_cast<std::byte*>(::operator new (bytes, std::align_val_t{Pool::kAlignment}))) {
    }
    std::byte* get() const { return data_.get(); }

private:
    struct Delete {
        void operator()(std::byte* data) const {
            ::operator delete (data, std::align_val_t{Pool::kAlignment});
        }
    };
    std::unique_ptr<std::byte, Delete> data_;
};

class LaneDriver final : public Driver {
public:
    LaneDriver() {
        for (const Kind& kind : kinds()) {
            descriptions_.push_back({.name = std::string("LIR, ") + kind.name,
                                     .memory = std::int64_t(kMemory),
                                     .largest_allocation = kMemory,
                                     .driver = kind.name,
                                     .missing = {}});
            pools_.push_back(std::make_unique<Pool>(host_heap(), kMemory));
        }
    }

    const std::vector<DeviceDescription>& devices() const override { return descriptions_; }
    std::uint32_t windows_for(std::size_t, std::uint64_t) const override { return 1; }

    Compiled compile(std::size_t device, const ir::Kernel& kernel, const ir::Facts& facts,
                     Numerics numerics, const Variant& variant, const DriverCode*) override {
        const Kind& kind = kinds()[device];
        Variant chosen = variant;
        if (variant.points == PointsAre::Chosen) chosen.points = kind.points;
        const auto [target, integers, has_float16] = code_for(chosen, kind.device);
        Compiled result;
        result.refusal = schedule::legal(kernel);
        if (!result.refusal.empty()) return result;
        auto [plan, functions] = lowered(kernel, facts, numerics, target);
        result.is_small = plan.is_small;
        result.image = image_of(plan, {});
        for (std::size_t i = 0; i < functions.size(); ++i) {
            const std::vector<std::string> broken = lir::verify(functions[i]);
            if (!broken.empty()) {
                result.failure = {Failure::Kind::Error, "legalised: " + broken.front()};
            }
            result.groups.push_back(groups_of(functions[i], integers));
            result.groups.back().has_soft_float64 = plan.stages[i].has_soft_float64;
            result.has_float16 |= has_float16 && has_halves(functions[i]);
            result.has_packets |= has_packets(functions[i]);
            result.has_quotients |= has_quotients(functions[i]);
            result.is_fused |= is_fused(functions[i]);
        }
        result.pipelines = std::make_shared<Functions>(std::move(functions));
        return result;
    }

    Memory allocate(std::size_t device, std::size_t bytes) override {
        Pool::Block* const block = pools_[device]->allocate(bytes);
        if (!block) return {};
        Memory memory;
        memory.data = block->data();
        memory.bytes = bytes;
        memory.block = block;
        return memory;
    }

    void free(std::size_t device, const Memory& memory, std::uint64_t) noexcept override {
        pools_[device]->free(static_cast<Pool::Block*>(memory.block));
    }

    Failure wait(std::size_t, std::uint64_t) override { return {}; }
    Pool* pool(std::size_t device, Failure&) override { return pools_[device].get(); }
    Outcome upload(std::size_t, const Memory&) override { return {}; }
    Outcome fetch(std::size_t, const Memory&) override { return {}; }
    void wait_for_all() noexcept override {}

    Outcome run(const std::shared_ptr<const Pipelines>& pipelines, const KernelImage& image,
                const ReadyLaunch& launch, std::span<const Range> operands, Range output,
                bool keeps_output) override {
        const auto& code = static_cast<const Functions&>(*pipelines);
        std::vector<Copy> copies;
        const auto placed = [&](const Range& range, bool is_read) {
            std::byte* data = range.data;
            if (!range.is_on_device) {
                data = copies.emplace_back(range.bytes).get();
                if (is_read && range.bytes > 0) std::memcpy(data, range.data, range.bytes);
            }
            const auto before = std::int64_t(range.offset);
            return lir::Memory{data + before, -before, std::int64_t(range.bytes) - before};
        };
        std::vector<lir::Memory> memory(image.buffer_count);
        for (std::size_t i = 0; i < operands.size(); ++i) memory[i] = placed(operands[i], true);
        lir::Memory& written = memory[operands.size()];
        written = placed(output, keeps_output);
        for (std::size_t i = 0; i < image.shared.size(); ++i) {
            const std::size_t bytes = launch.shared[i];
            std::byte* const data = copies.emplace_back(bytes).get();
            std::memset(data, 0xFF, bytes);
            memory[image.shared[i].buffer] = {data, 0, std::int64_t(bytes)};
        }
        Outcome outcome;
        for (std::size_t s = 0; s < code.functions.size(); ++s) {
            const lir::Execution done =
                lir::execute(code.functions[s], {.words = launch.stages[s].words,
                                                 .memory = memory,
                                                 .local_bytes = launch.local,
                                                 .points = launch.stages[s].points});
            outcome.has_failed = done.has_failed;
            if (!done.mistake.empty()) outcome.failure = {Failure::Kind::Error, done.mistake};
            if (outcome.has_failed || outcome.failure) return outcome;
        }
        if (!output.is_on_device && output.bytes > 0) {
            std::memcpy(output.data, written.data, output.bytes);
        }
        return outcome;
    }

private:
    std::vector<DeviceDescription> descriptions_;
    std::vector<std::unique_ptr<Pool>> pools_;
};

}  // namespace
}  // namespace quern::vulkan

extern "C" __attribute__((visibility("default"))) quern::vulkan::Driver* quern_vulkan_driver(
    std::string&) {
    static auto& driver = *new quern::vulkan::LaneDriver;
    return &driver;
}

extern "C" __attribute__((visibility("default"))) const char* quern_vulkan_code_version() {
    return quern::cpu::code_version();
}

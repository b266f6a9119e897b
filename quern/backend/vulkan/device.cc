#include "quern/backend/vulkan/device.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "quern/runtime/compiled.h"

namespace quern::vulkan {
namespace {

/// What arrays of lanes may take together.
constexpr std::size_t kMostScratch = std::size_t{64} << 20;

/// What the pool keeps that no launch uses.
constexpr std::size_t kIdle = std::size_t{256} << 20;

/// Instructions that one submission executes. Systems end what takes a second or two; slow devices
/// execute 10^10 or more in one. A driver on a processor executes 10^9, which nobody ends, but
/// whoever waits for another launch waits for this one too.
constexpr std::uint64_t kMostWork = std::uint64_t{1} << 33;
constexpr std::uint64_t kMostWorkOfProcessor = std::uint64_t{1} << 30;

/// What one transfer between host and device copies at a time, so that tensors of any size take no
/// more memory between the two than a few of them; and less where there is not so much.
constexpr std::size_t kMostCopied = std::size_t{64} << 20;
constexpr std::size_t kLeastCopied = std::size_t{64} << 10;

/// Of a point whose loops are not seen to end, in each invocation.
constexpr std::uint64_t kUnknownWork = 65536;

}  // namespace

/// Memory for one launch or transfer.
class GpuDevice::Blocks {
public:
    struct Piece {
        /// Of memory that the host does not see, what stands for it.
        std::byte* host = nullptr;
        DeviceHeap::Place place;
    };

    explicit Blocks(GpuDevice& device) : device_(device) {}
    ~Blocks() { free(); }
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;

    Piece take(std::size_t bytes) { return take(*device_.own_, bytes); }
    Piece take_seen(std::size_t bytes) { return take(device_.seen(), bytes); }

    /// The same of half as many, or of half of those, where there are no more.
    Piece take_seen_up_to(std::size_t& bytes) {
        for (; bytes > kLeastCopied; bytes /= 2) {
            if (const auto piece = find(device_.seen(), bytes)) return *piece;
        }
        return take_seen(bytes);
    }

    /// Those bytes where they are, if they are the device's; or else a copy in memory of the
    /// launch.
    Piece operand(const Range& range) {
        for (const auto& [before, piece] : read_) {
            if (before.data == range.data && before.bytes == range.bytes) return piece;
        }
        const Piece piece =
            range.is_on_device && range.bytes > 0 ? on_device(range) : brought(range, true).piece;
        return read_.emplace_back(range, piece).second;
    }

    /// The same, copied only if it `is_kept`. The host finds it in `seen`.
    Piece result(const Range& range, bool is_kept, const std::byte*& seen) {
        if (range.is_on_device && range.bytes > 0) {
            seen = range.data;
            return on_device(range);
        }
        const Brought result = brought(range, is_kept);
        if (device_.staging_ && range.bytes > 0) {
            after_.push_back({result.piece.place, result.seen.place, range.bytes});
        }
        seen = result.seen.host;
        return result.piece;
    }

    /// Before the launch, and after it.
    std::span<const Copy> before() const { return before_; }
    std::span<const Copy> after() const { return after_; }

    std::size_t copied() const { return copied_; }
    std::size_t missing() const { return missing_; }
    bool is_of_staging() const { return is_of_staging_; }
    std::span<const Taken> all() const { return all_; }

    void free() noexcept {
        for (const Taken& taken : all_) taken.free();
        leave();
    }

    /// They are another's, or the device may use them for ever.
    void leave() noexcept { all_.clear(); }

private:
    /// Memory of the launch, and where the host sees it.
    struct Brought {
        Piece piece, seen;
    };

    std::optional<Piece> find(Area& area, std::size_t bytes) {
        all_.reserve(all_.size() + 1);
        const Taken taken = device_.take(area, bytes);
        if (!taken.block) return std::nullopt;
        all_.push_back(taken);
        return Piece{taken.block->data(), area.heap.find(taken.block->data())};
    }

    Piece take(Area& area, std::size_t bytes) {
        if (const auto piece = find(area, bytes)) return *piece;
        missing_ = bytes;
        is_of_staging_ = device_.staging_ && &area == device_.staging_.get();
        throw VulkanError("vkAllocateMemory", VK_ERROR_OUT_OF_DEVICE_MEMORY);
    }

    Piece on_device(const Range& range) const {
        return {range.data, device_.own_->heap.find(range.data)};
    }

    Brought brought(const Range& range, bool is_filled) {
        Brought made;
        made.piece = take(range.bytes);
        made.seen = device_.staging_ && range.bytes > 0 ? take_seen(range.bytes) : made.piece;
        if (!is_filled || range.bytes == 0) return made;
        std::memcpy(made.seen.host, range.data, range.bytes);
        copied_ += range.bytes;
        if (device_.staging_) {
            before_.push_back({made.seen.place, made.piece.place, range.bytes});
        }
        return made;
    }

    GpuDevice& device_;
    std::vector<Taken> all_;
    std::vector<Copy> before_, after_;

    /// Operands, each once.
    std::vector<std::pair<Range, Piece>> read_;
    std::size_t copied_ = 0;
    std::size_t missing_ = 0;
    bool is_of_staging_ = false;
};

/// Memory of a tensor.
struct GpuDevice::Lent {
    Pool::Block* block = nullptr;

    /// Once it is returned, the last launch that uses it.
    std::uint64_t ticket = 0;

    /// The last transfer to it, which no launch follows where that failed: by the queue of
    /// transfers, or by that of launches.
    std::uint64_t moved = 0;
    std::uint64_t brought = 0;

    /// What was returned before it.
    Lent* next = nullptr;
};

/// How kernels find some bytes: by their address, or as a binding and the bytes before them in it.
struct GpuDevice::Found {
    std::uint64_t at = 0;
    VkDescriptorBufferInfo binding{};
};

/// All of a launch but commands.
struct GpuDevice::Recipe {
    Push push;
    std::uint64_t most = 0;

    /// Where the words of each stage lie.
    std::vector<std::uint64_t> words;

    /// What is bound for each stage; none where buffers have addresses.
    std::vector<VkDescriptorSet> sets;

    /// What the device uses until the launch has ended.
    std::shared_ptr<const void> used;
    const std::byte* result = nullptr;

    /// Where invocations say why they ended early.
    const std::byte* table = nullptr;
};

GpuDevice::GpuDevice(VkPhysicalDevice physical, const Abilities& abilities)
    : abilities_(abilities) {
    try {
        open(physical);
    } catch (...) {
        close();
        throw;
    }
}

void GpuDevice::open(VkPhysicalDevice physical) {
    VkPhysicalDeviceVulkan12Features v12 = abilities_.v12;
    v12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    v12.pNext = nullptr;
    VkPhysicalDeviceVulkan11Features v11 = abilities_.v11;
    v11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
    v11.pNext = &v12;
    const float priority = 1;
    std::vector<std::uint32_t> families{abilities_.queue_family};
    const bool has_transfers = abilities_.transfer_family != Abilities::kNoQueue;
    if (has_transfers) families.push_back(abilities_.transfer_family);
    std::vector<VkDeviceQueueCreateInfo> queues;
    for (const std::uint32_t family : families) {
        queues.push_back({.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                          .queueFamilyIndex = family,
                          .queueCount = 1,
                          .pQueuePriorities = &priority});
    }
    VkPhysicalDeviceSubgroupSizeControlFeaturesEXT sizes{
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES_EXT,
        .subgroupSizeControl = VK_TRUE,
        .computeFullSubgroups = abilities_.has_full_subgroups};
    CooperativeMatrixFeatures matrices = abilities_.matrices;
    std::vector<const char*> extensions;
    const auto add = [&](bool has, const char* extension, auto& feature) {
        if (!has) return;
        extensions.push_back(extension);
        feature.pNext = std::exchange(v12.pNext, &feature);
    };
    add(abilities_.sets_subgroup, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, sizes);
    add(!abilities_.atoms.empty(), kCooperativeMatrix, matrices);
    if (abilities_.is_subset) extensions.push_back(kPortabilitySubset);
    const VkDeviceCreateInfo about{.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                   .pNext = &v11,
                                   .queueCreateInfoCount = std::uint32_t(queues.size()),
                                   .pQueueCreateInfos = queues.data(),
                                   .enabledExtensionCount = std::uint32_t(extensions.size()),
                                   .ppEnabledExtensionNames = extensions.data(),
                                   .pEnabledFeatures = &abilities_.core};
    check(vkCreateDevice(physical, &about, nullptr, &device_), "vkCreateDevice");
    volkLoadDeviceTable(&vk_, device_);
    sets_ = std::make_unique<DescriptorSets>(device_, vk_, sizeof(Push));
    using Kind = DeviceHeap::Kind;
    const bool is_seen = abilities_.is_memory_seen;
    const auto area = [&](Kind kind) {
        return std::make_unique<Area>(physical, device_, vk_, kind, abilities_.largest_allocation,
                                      abilities_.buffers == BuffersAre::Addressed, families, kIdle);
    };
    own_ = area(is_seen ? Kind::Shared : Kind::Own);
    if (!is_seen) staging_ = area(Kind::Staging);
    const bool is_processor = abilities_.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    most_work_ = is_processor ? kMostWorkOfProcessor : kMostWork;
    queue_ = std::make_unique<Queue>(device_, vk_, abilities_.queue_family, Queue::Does::Everything,
                                     most_work_);
    if (!has_transfers) return;
    transfers_ = std::make_unique<Queue>(device_, vk_, abilities_.transfer_family,
                                         Queue::Does::Copies, most_work_);
}

GpuDevice::~GpuDevice() { close(); }

void GpuDevice::close() noexcept {
    if (!device_) return;
    vk_.vkDeviceWaitIdle(device_);
    queue_.reset();
    transfers_.reset();
    own_.reset();
    staging_.reset();
    sets_.reset();
    vk_.vkDestroyDevice(device_, nullptr);
}

Taken GpuDevice::take(Area& area, std::size_t bytes) {
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    if (Pool::Block* const block = area.pool.allocate(size)) return {&area.pool, block};
    submit(*queue_);
    wait_for_submitted();
    reclaim();
    return {&area.pool, area.pool.allocate(size)};
}

void GpuDevice::wait_for_submitted() const {
    queue_->wait(queue_->submitted());
    if (transfers_) transfers_->wait(transfers_->submitted());
}

GpuDevice::Lent* GpuDevice::lent_at(const std::byte* data) const {
    return std::prev(lent_.upper_bound(data))->second;
}

/// What a launch reads is there before it begins.
void GpuDevice::begin_after_moves(const Work& work) {
    if (!transfers_) return;
    std::uint64_t last = 0;
    const auto look = [&](const Range& range) {
        const bool is_lent = range.is_on_device && range.bytes > 0;
        if (is_lent) last = std::max(last, lent_at(range.data)->moved);
    };
    for (const Range& operand : work.operands) look(operand);
    look(work.output);
    // Also behind what has ended: the queue sees what another wrote where it waits for it.
    if (last <= seen_moves_) return;
    queue_->begin_after(*transfers_, last);
    seen_moves_ = last;
}

/// Whoever asks for a transfer has waited for the launches that use the memory; what they wrote its
/// queue sees once it has waited too, which it does at once.
void GpuDevice::see_launches() {
    if (transfers_ && ended_ > kBeforeAll) transfers_->begin_after(*queue_, ended_);
}

void GpuDevice::submit(Queue& queue) {
    try {
        queue.submit();
    } catch (const VulkanError& error) {
        // What was recorded before is not known to be done.
        lose(error);
        throw;
    }
}

Memory GpuDevice::allocate(std::size_t bytes) {
    auto lent = std::make_unique<Lent>();
    const std::lock_guard lock(mutex_);
    Memory memory;
    try {
        if (is_there() && returned_) reclaim();
        if (is_there()) lent->block = take(*own_, bytes).block;
    } catch (const VulkanError& error) {
        lose(error);
    }
    memory.failure = lost();
    if (!lent->block) return memory;
    memory.data = lent->block->data();
    memory.bytes = bytes;
    memory.is_seen = !staging_;
    memory.is_zero = lent->block->is_zero();
    try {
        if (transfers_) lent_.emplace(memory.data, lent.get());
    } catch (const std::bad_alloc&) {
        own_->pool.free(lent->block);
        throw;
    }
    memory.block = lent.release();
    return memory;
}

void GpuDevice::free(const Memory& memory, std::uint64_t ticket) noexcept {
    auto* const lent = static_cast<Lent*>(memory.block);
    if (is_parents_) {
        delete lent;
        return;
    }
    const std::lock_guard lock(mutex_);
    if (is_ending_) return;
    lent_.erase(memory.data);
    ticket = std::max(ticket, lent->brought);
    if (ticket <= ended_ && lent->moved <= moved_) {
        own_->pool.free(lent->block);
        delete lent;
        return;
    }
    lent->ticket = ticket;
    lent->next = std::exchange(returned_, lent);
    queue_->count(lent->block->size());
}

Pool* GpuDevice::pool(Failure& failure) {
    const std::lock_guard lock(mutex_);
    try {
        if (is_there()) reclaim();
    } catch (const VulkanError& error) {
        lose(error);
    }
    failure = lost();
    return is_there() ? &own_->pool : nullptr;
}

void GpuDevice::reclaim() {
    ended_ = queue_->reclaim();
    if (transfers_) moved_ = transfers_->reclaim();
    for (Lent** at = &returned_; *at;) {
        Lent* const lent = *at;
        if (lent->ticket > ended_ || lent->moved > moved_) {
            at = &lent->next;
            continue;
        }
        *at = lent->next;
        own_->pool.free(lent->block);
        delete lent;
    }
}

void GpuDevice::lose(const VulkanError& error) {
    if (lost_.empty()) lost_ = error.what();
}

Failure GpuDevice::lost() const {
    if (is_there()) return {};
    // Not made when it forks: another thread's allocation may have been cut short.
    return {Failure::Kind::Lost,
            is_parents_ ? "the device was opened before fork(), by this process's parent" : lost_};
}

Failure GpuDevice::wait(std::uint64_t ticket) {
    if (is_parents_) return lost();
    // Whoever only asks does not wait for another's launch.
    if (ticket <= kBeforeAll) return {};
    std::unique_lock lock(mutex_);
    if (ticket <= waited_) return {};
    if (!is_there()) return lost();
    try {
        if (ticket > queue_->submitted()) submit(*queue_);
        wait_for(*queue_, std::min(ticket, queue_->submitted()), lock);
    } catch (const VulkanError& error) {
        if (!lock.owns_lock()) lock.lock();
        lose(error);
    }
    return lost();
}

void GpuDevice::wait_for_all() noexcept {
    const std::lock_guard lock(mutex_);
    if (is_parents_) return;
    if (!lost_.empty()) {
        // What it was not seen to end may run on.
        static_cast<void>(vk_.vkDeviceWaitIdle(device_));
        return;
    }
    try {
        wait_for_submitted();
    } catch (const VulkanError&) {
        // Whoever wants a result is told.
    }
}

void GpuDevice::end() noexcept {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    wait_for_all();
}

void GpuDevice::leave_to_parent() noexcept {
    // A thread that this process does not have may have held it.
    new (&mutex_) std::mutex;
    is_ending_ = is_parents_ = true;
}

/// The points of a stage, as many at a time as a dispatch may have, as there is scratch for, and as
/// one submission may do, where a point takes `each` instructions.
void GpuDevice::dispatch(const Stage& stage, VkDescriptorSet set, const Push& push,
                         std::uint64_t most, std::uint64_t each) {
    const std::uint64_t groups_at_once = abilities_.properties.limits.maxComputeWorkGroupCount[0];
    // Invocations have numbers of 32 bits.
    const std::uint64_t most_invocations = (std::uint64_t{1} << 32) - abilities_.group;
    const std::uint64_t group = stage.points_of_group;
    most = std::min(
        {most, groups_at_once * group, most_invocations, points_at_once(most_work_, each, group)});
    const std::uint64_t end = push.end;
    Push part = push;
    for (std::uint64_t begin = 0; begin < end; begin += most) {
        part.begin = begin;
        part.end = std::min(end, begin + most);
        queue_->add_work((part.end - part.begin) * std::min(each, most_work_ / group));
        const VkCommandBuffer commands = queue_->commands();
        vk_.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, stage.pipeline);
        if (set) {
            vk_.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, stage.layout, 0,
                                        1, &set, 0, nullptr);
        }
        vk_.vkCmdPushConstants(commands, stage.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof part,
                               &part);
        const std::uint64_t groups =
            (part.end - part.begin + stage.points_of_group - 1) / stage.points_of_group;
        vk_.vkCmdDispatch(commands, std::uint32_t(groups), 1, 1);
        // The next part takes the same scratch, if the launch has any, the next stage and the next
        // launch what this one wrote.
        if (part.end < end && part.scratch_bytes == 0) continue;
        const VkMemoryBarrier barrier{
            .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
            .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
            .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
        vk_.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                 VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr,
                                 0, nullptr);
    }
}

namespace {

/// Gives the numbers of the buffers of a launch, and their bytes.
template <class Each>
void for_each_buffer(const GpuDevice::Work& work, const Each& each) {
    const std::size_t count = work.operands.size();
    for (std::size_t i = 0; i < count; ++i) each(i, work.operands[i].bytes);
    each(count, work.output.bytes);
    for (std::size_t i = 0; i < work.image.shared.size(); ++i) {
        each(work.image.shared[i].buffer, work.launch.shared[i]);
    }
}

}  // namespace

GpuDevice::Found GpuDevice::found(const DeviceHeap::Place& place, std::uint64_t bytes) const {
    if (abilities_.buffers == BuffersAre::Addressed) return {place.address};
    // Whatever a device allows, elements of 8 bytes and packets of 16 lie at such multiples in the
    // binding. Elements of less than a word may be read with all of it.
    constexpr std::uint64_t kLargest = 16;
    const std::uint64_t alignment = std::max<std::uint64_t>(
        abilities_.properties.limits.minStorageBufferOffsetAlignment, kLargest);
    const std::uint64_t before = place.offset % alignment;
    const std::uint64_t range = std::max<std::uint64_t>((before + bytes + 3) / 4 * 4, 4);
    return {before, {place.buffer, place.offset - before, range}};
}

GpuDevice::Recipe GpuDevice::prepare(const Work& work, Blocks& blocks) const {
    const ReadyLaunch& launch = work.launch;
    const std::size_t count = work.operands.size();
    Recipe recipe;
    std::vector<Found> buffers(work.image.buffer_count);
    for (std::size_t i = 0; i < count; ++i) {
        const Range& operand = work.operands[i];
        buffers[i] = found(blocks.operand(operand).place, operand.bytes);
        buffers[i].at += operand.offset;
    }
    buffers[count] = found(blocks.result(work.output, work.keeps_output, recipe.result).place,
                           work.output.bytes);
    for (std::size_t i = 0; i < work.image.shared.size(); ++i) {
        const std::size_t bytes = launch.shared[i];
        buffers[work.image.shared[i].buffer] = found(blocks.take(bytes).place, bytes);
    }
    recipe.most = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t points = 0;
    for (const auto& stage : launch.stages) points = std::max(points, std::uint64_t(stage.points));
    const bool has_arrays =
        std::ranges::any_of(work.stages, [](const Stage& s) { return s.bindings.has_arrays; });
    const std::uint64_t of_point = has_arrays ? launch.local : 0;
    if (of_point > 0) {
        recipe.most = std::max<std::uint64_t>(kMostScratch / of_point, 1);
        const std::uint32_t group = abilities_.group;
        if (recipe.most > group) recipe.most = recipe.most / group * group;
    }
    const std::uint64_t at_once = std::min(points, recipe.most);

    // One block: whether an assertion failed, where buffers lie, and the words of each stage.
    std::vector<std::uint64_t> content{0};
    for (const Found& buffer : buffers) content.push_back(buffer.at);
    std::vector<std::size_t> starts;
    for (const auto& stage : launch.stages) {
        starts.push_back(content.size());
        content.insert(content.end(), stage.words.begin(), stage.words.end());
    }
    const std::size_t bytes = content.size() * sizeof(std::uint64_t);
    const Blocks::Piece piece = blocks.take_seen(bytes);
    std::memcpy(piece.host, content.data(), bytes);
    recipe.table = piece.host;
    const Found table = found(piece.place, bytes);
    recipe.push.failed = table.at;
    recipe.push.buffers = table.at + sizeof(std::uint64_t);
    for (const std::size_t start : starts) {
        recipe.words.push_back(table.at + start * sizeof(std::uint64_t));
    }
    // Arrays without elements need a binding all the same.
    Found scratch = table;
    if (of_point > 0) {
        scratch = found(blocks.take(of_point * at_once).place, of_point * at_once);
        recipe.push.scratch = scratch.at;
        recipe.push.scratch_bytes = of_point;
    }
    recipe.used = work.code;
    if (abilities_.buffers == BuffersAre::Bound) bind(work, buffers, table, scratch, recipe);
    return recipe;
}

/// A set for each stage, as Bindings has them.
void GpuDevice::bind(const Work& work, std::span<const Found> buffers, const Found& table,
                     const Found& scratch, Recipe& recipe) const {
    struct Used {
        std::shared_ptr<const void> code;
        std::vector<DescriptorSets::Set> sets;
    };
    const auto used = std::make_shared<Used>(Used{work.code, {}});
    recipe.used = used;
    for (const Stage& stage : work.stages) {
        const Bindings& bindings = stage.bindings;
        std::vector<VkDescriptorBufferInfo> bound{table.binding};
        for (const std::uint32_t b : bindings.buffers) {
            const VkDescriptorBufferInfo& all = buffers[b].binding;
            const std::uint32_t windows = bindings.windows.of(b);
            if (windows == 1) {
                bound.push_back(all);
                continue;
            }
            const std::uint64_t size = std::uint64_t{1} << bindings.windows.bits;
            for (std::uint64_t w = 0; w < windows; ++w) {
                // Those behind the end are not used, but bound.
                const std::uint64_t begin = w * size < all.range ? w * size : 0;
                bound.push_back(
                    {all.buffer, all.offset + begin, std::min(size, all.range - begin)});
            }
        }
        if (bindings.has_arrays) bound.push_back(scratch.binding);
        recipe.sets.push_back(used->sets.emplace_back(sets_->bind(bound)).get());
    }
}

void GpuDevice::record(const Work& work, const Recipe& recipe) {
    Push push = recipe.push;
    for (std::size_t i = 0; i < work.stages.size(); ++i) {
        push.words = recipe.words[i];
        push.end = std::uint64_t(work.launch.stages[i].points);
        const Stage& stage = work.stages[i];
        const std::uint64_t bound = work.bounds[i].instructions;
        const std::uint64_t each =
            bound == lir::kUnbounded ? kUnknownWork : std::min(bound, most_work_);
        const VkDescriptorSet set = recipe.sets.empty() ? VK_NULL_HANDLE : recipe.sets[i];
        dispatch(stage, set, push, recipe.most, each * stage.invocations);
    }
}

template <class Body>
Outcome GpuDevice::attempt(const Body& body) {
    std::unique_lock lock(mutex_);
    Outcome outcome;
    outcome.failure = lost();
    if (outcome.failure) return outcome;
    Blocks blocks(*this);
    bool is_recorded = false;
    try {
        reclaim();
        body(lock, blocks, is_recorded, outcome);
    } catch (const VulkanError& error) {
        if (!lock.owns_lock()) lock.lock();
        if (is_recorded || error.kind() == Failure::Kind::Lost) lose(error);
        if (is_there()) {
            outcome.failure = error.failure();
            outcome.out_of_memory = blocks.missing();
            outcome.is_of_staging = blocks.is_of_staging();
        } else {
            outcome.failure = lost();
            blocks.leave();
        }
    } catch (...) {
        // What is recorded uses the memory, and there is none to say more.
        if (is_recorded) {
            if (!lock.owns_lock()) lock.lock();
            blocks.leave();
            lost_ = "out of memory";
        }
        throw;
    }
    return outcome;
}

void GpuDevice::submit_and_wait(Queue& queue, std::unique_lock<std::mutex>& lock) {
    const std::uint64_t ticket = queue.ticket();
    submit(queue);
    wait_for(queue, ticket, lock);
}

void GpuDevice::wait_for(Queue& queue, std::uint64_t ticket, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    queue.wait(ticket);
    lock.lock();
    reclaim();
    // A wait ends for a device that is lost too, with or without an error.
    const bool is_of_launches = &queue == queue_.get();
    if ((is_of_launches ? ended_ : moved_) < ticket) {
        throw VulkanError("vkWaitSemaphores", VK_ERROR_DEVICE_LOST);
    }
    if (is_of_launches) waited_ = std::max(waited_, ticket);
}

Outcome GpuDevice::run(const Work& work) {
    return attempt([&](auto& lock, Blocks& blocks, bool& is_recorded, Outcome& outcome) {
        std::uint64_t largest = work.launch.local;
        const auto check_size = [&](const char* what, std::uint64_t bytes, std::uint32_t windows) {
            largest = std::max(largest, bytes);
            const std::uint64_t most = abilities_.largest_buffer(windows);
            if (abilities_.buffers == BuffersAre::Addressed || bytes <= most) return;
            outcome.failure = {Failure::Kind::Error, "expected at most " + std::to_string(most) +
                                                         " bytes (maxStorageBufferRange) in " +
                                                         what + ", got " + std::to_string(bytes)};
        };
        for_each_buffer(work, [&](std::size_t buffer, std::uint64_t bytes) {
            const std::uint32_t windows = work.stages[0].bindings.windows.of(buffer);
            check_size("one buffer of a kernel", bytes, windows);
        });
        check_size("the arrays of a point", work.launch.local, 1);
        if (outcome.failure) return;
        // As lir::without_int64 and emit want it; what is larger, the interpreter runs.
        if (!abilities_.integers.has_64 && largest >= std::uint64_t{1} << 31) {
            outcome.has_failed = true;
            return;
        }
        const Recipe recipe = prepare(work, blocks);
        outcome.copied = blocks.copied();
        const bool is_of_host = recipe.result != work.output.data && work.output.bytes > 0;
        queue_->commands();
        queue_->reserve(blocks.all().size());
        is_recorded = true;
        begin_after_moves(work);
        queue_->copy(blocks.before());
        record(work, recipe);
        queue_->copy(blocks.after());
        if (!work.may_fail && !is_of_host && !is_ending_) {
            outcome.ticket = queue_->ticket();
            queue_->keep(blocks.all(), recipe.used);
            blocks.leave();
            queue_->submit_if_due();
            return;
        }
        // The wait may fail while the device goes on.
        queue_->keep({}, recipe.used);
        submit_and_wait(*queue_, lock);
        const auto says = [&](std::size_t why) {
            std::uint32_t word = 0;
            std::memcpy(&word, recipe.table + why, sizeof word);
            return word != 0;
        };
        outcome.has_failed = says(kAssertionFailed);
        outcome.is_cut = says(kLoopCut) && !outcome.has_failed;
        if (is_of_host) {
            std::memcpy(work.output.data, recipe.result, work.output.bytes);
            outcome.copied += work.output.bytes;
        }
    });
}

Outcome GpuDevice::upload(const Memory& memory) {
    return attempt([&](auto&, Blocks& blocks, bool& is_recorded, Outcome&) {
        Lent& lent = *static_cast<Lent*>(memory.block);
        std::size_t bytes = kMostCopied;
        for (std::size_t at = 0; at < memory.bytes; at += bytes) {
            bytes = std::min(bytes, memory.bytes - at);
            const Blocks::Piece staging = blocks.take_seen_up_to(bytes);
            std::memcpy(staging.host, memory.data + at, bytes);
            Queue& queue = mover();
            queue.commands();
            queue.reserve(blocks.all().size());
            is_recorded = true;
            see_launches();
            const Copy copy{staging.place, own_->heap.find(memory.data + at), bytes};
            queue.copy({&copy, 1});
            queue.keep(blocks.all(), nullptr);
            blocks.leave();
            // A launch may begin after it only once it is submitted.
            if (transfers_) {
                lent.moved = transfers_->ticket();
                submit(*transfers_);
            } else {
                lent.brought = queue_->ticket();
                queue_->submit_if_due();
            }
            is_recorded = false;
        }
    });
}

Outcome GpuDevice::fetch(const Memory& memory) {
    return attempt([&](auto& lock, Blocks& blocks, bool& is_recorded, Outcome&) {
        std::size_t bytes = kMostCopied;
        for (std::size_t at = 0; at < memory.bytes; at += bytes) {
            bytes = std::min(bytes, memory.bytes - at);
            const Blocks::Piece staging = blocks.take_seen_up_to(bytes);
            Queue& queue = mover();
            queue.commands();
            is_recorded = true;
            see_launches();
            const Copy copy{own_->heap.find(memory.data + at), staging.place, bytes};
            queue.copy({&copy, 1});
            submit_and_wait(queue, lock);
            is_recorded = false;
            std::memcpy(memory.data + at, staging.host, bytes);
            blocks.free();
        }
    });
}

}  // namespace quern::vulkan

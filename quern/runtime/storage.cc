#include "quern/runtime/storage.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "quern/runtime/pinned.h"
#include "quern/runtime/vulkan_plugin.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"
#include "quern/support/threads.h"

#if defined(__SANITIZE_ADDRESS__)
#define QUERN_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QUERN_ASAN
#endif
#endif
#ifdef QUERN_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace quern {
namespace {

/// No process addresses more; asking an allocator for it can end the program under sanitizers.
constexpr std::uint64_t kAddressable = std::uint64_t{1} << 47;

#ifdef QUERN_ASAN
/// Memory of the pool that belongs to no tensor is as forbidden as freed memory.
void forbid(const std::byte* data, std::size_t bytes) { __asan_poison_memory_region(data, bytes); }
void permit(const std::byte* data, std::size_t bytes) {
    __asan_unpoison_memory_region(data, bytes);
}
#else
void forbid(const std::byte*, std::size_t) {}
void permit(const std::byte*, std::size_t) {}
#endif

/// The device has the elements, and no launch uses them.
constexpr std::uint64_t kBrought = vulkan::kBeforeAll;

bool fills_with_nan() {
    static const bool value = [] {
        const char* const text = std::getenv("QUERN_FILL");
#ifdef NDEBUG
        return text && std::string_view(text) == "nan";
#else
        return !text || std::string_view(text) != "none";
#endif
    }();
    return value;
}

[[noreturn]] void raise_no_pinned(std::size_t bytes) {
    const auto limit = pinned_limit();
    const std::uint64_t held = pinned_bytes();
    const std::uint64_t allowed = limit ? *limit - std::min(held, *limit) : bytes;
    // It is not the limit that refused.
    if (bytes <= allowed) raise_out_of_memory("pinned", bytes, host_room());
    const std::string free = std::to_string(allowed);
    raise(OutOfMemory(
        "[pinned] expected room for " + std::to_string(bytes) +
            " bytes that stay where they are, got none from the system; the process may "
            "hold " +
            std::to_string(*limit) + " (RLIMIT_MEMLOCK) and holds " + std::to_string(held) + "; " +
            free + " bytes are free, " + free + " in one block",
        bytes, allowed, allowed));
}

}  // namespace

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Fill fill) {
    if (bytes >= kPooled) return from_pool(bytes, fill);
    // calloc takes untouched zero pages from the system where aligned_alloc would have to be
    // cleared, so the alignment is made by hand.
    void* owned = nullptr;
    if (static_cast<std::uint64_t>(bytes) < kAddressable && bytes <= SIZE_MAX - kAlignment) {
        const std::size_t padded = bytes + kAlignment;
        owned = take_or_trim(
            [&] { return fill == Fill::Zero ? std::calloc(padded, 1) : std::malloc(padded); });
    }
    if (owned == nullptr) raise_out_of_memory("tensor", bytes, host_room());
    std::unique_ptr<void, void (*)(void*)> block(owned, std::free);
    std::size_t space = bytes + kAlignment;
    void* data = owned;
    std::align(kAlignment, bytes, data, space);
    std::shared_ptr<Storage> storage(new Storage(data));
    if (fill == Fill::None) storage->mark_unset(bytes);
    storage->owned_ = block.release();
    return storage;
}

std::shared_ptr<Storage> Storage::from_pool(std::size_t bytes, Fill fill) {
    const auto give_back = [](Pool::Block* block) { host_pool().free(block); };
    std::unique_ptr<Pool::Block, decltype(give_back)> block(
        bytes < kAddressable ? host_pool().allocate(bytes) : nullptr, give_back);
    if (!block) raise_out_of_memory("tensor", bytes, host_pool().room(bytes));
    std::shared_ptr<Storage> storage(new Storage(block->data()));
    permit(block->data(), bytes);
    if (fill == Fill::Zero && !block->is_zero()) std::memset(block->data(), 0, bytes);
    if (fill == Fill::None) storage->mark_unset(bytes);
    storage->block_ = block.release();
    return storage;
}

std::shared_ptr<Storage> Storage::allocate_pinned(std::size_t bytes, Fill fill) {
    // First what may fail and is not the memory.
    std::shared_ptr<Storage> storage(new Storage(nullptr));
    const std::size_t taken = std::max<std::size_t>(bytes, 1);
    storage->on_release([s = storage.get(), taken] {
        if (s->data_) give_back_pinned(s->data_, taken);
    });
    if (taken < kAddressable) storage->data_ = take_or_trim([&] { return take_pinned(taken); });
    if (!storage->data_) raise_no_pinned(bytes);
    storage->is_pinned_ = true;
    if (fill == Fill::None) storage->mark_unset(bytes);
    return storage;
}

std::shared_ptr<Storage> Storage::allocate_on_vulkan(std::size_t device, std::size_t bytes,
                                                     Fill fill) {
    vulkan::Driver* const driver = &vulkan::driver_of(device);
    // First what may fail and is the host's.
    std::shared_ptr<Storage> storage(new Storage(nullptr));
    auto memory = std::make_shared<vulkan::Memory>();
    storage->on_release([=, s = storage.get()] {
        if (memory->data) driver->free(device, *memory, s->ticket_.load());
    });
    if (bytes < kAddressable) *memory = driver->allocate(device, bytes);
    vulkan::raise_if_failed(device, memory->failure);
    if (!memory->data) vulkan::raise_no_room(device, bytes);
    storage->data_ = memory->data;
    storage->device_ = device;
    if (!memory->is_seen) storage->unseen_ = memory;
    if (fill == Fill::Zero && !memory->is_zero) std::memset(memory->data, 0, bytes);
    if (fill == Fill::None) storage->mark_unset(bytes);
    return storage;
}

std::shared_ptr<Storage> Storage::part_on_vulkan(std::size_t device, const vulkan::Memory& part,
                                                 std::uint64_t ticket) {
    std::shared_ptr<Storage> storage(new Storage(part.data));
    storage->device_ = device;
    if (!part.is_seen) storage->unseen_ = std::make_shared<vulkan::Memory>(part);
    storage->ticket_.store(ticket);
    return storage;
}

void Storage::wait(Use use) const {
    const std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    vulkan::wait_for(device_, ticket);
    if (unseen_) {
        fetch();
        if (use == Use::Read) return;
    }
    // A launch that came meanwhile stays.
    std::uint64_t expected = ticket;
    ticket_.compare_exchange_strong(expected, 0);
}

void Storage::fetch() const {
    // Nobody reads what another has begun to fetch.
    static Mutex mutex;
    const Lock lock(mutex);
    if (!is_newer_there_.load()) return;
    std::string why;
    vulkan::raise_if_failed(device_, vulkan::driver(why)->fetch(device_, *unseen_));
    is_newer_there_.store(false);
}

void InFlight::bring(const Tensor& tensor, std::size_t device) {
    const Storage& storage = *tensor.storage_;
    if (!is_on(tensor, device) || !storage.unseen_ || storage.ticket_.load() != 0) return;
    // Two launches of one tensor: the other's may be reading it where this one comes.
    static Mutex mutex;
    const Lock lock(mutex);
    if (storage.ticket_.load() != 0) return;
    std::string why;
    vulkan::raise_if_failed(device, vulkan::driver(why)->upload(device, *storage.unseen_));
    std::uint64_t none = 0;
    storage.ticket_.compare_exchange_strong(none, kBrought);
}

void* InFlight::address(const Tensor& tensor, std::optional<std::size_t> device) {
    const Storage& storage = *tensor.storage_;
    std::byte* const data = device && storage.device_ == *device ? storage.data_ : storage.data();
    return data + tensor.offset_ * std::int64_t(size_of(tensor.dtype_));
}

void* InFlight::address_to_read(const Tensor& tensor, std::optional<std::size_t> device) {
    const Storage& storage = *tensor.storage_;
    if (!device || storage.device_ != *device) static_cast<void>(storage.read());
    return storage.data_ + tensor.offset_ * std::int64_t(size_of(tensor.dtype_));
}

void InFlight::note_read(const Tensor& tensor, std::size_t device, std::uint64_t ticket) noexcept {
    if (!is_on(tensor, device)) return;
    const Storage& storage = *tensor.storage_;
    if (storage.unseen_) ticket = std::max(ticket, kBrought);
    std::uint64_t last = storage.ticket_.load();
    while (last < ticket && !storage.ticket_.compare_exchange_weak(last, ticket)) {
    }
}

void InFlight::note_written(const Tensor& tensor, std::size_t device,
                            std::uint64_t ticket) noexcept {
    const bool is_unseen = is_on(tensor, device) && tensor.storage_->unseen_;
    if (is_unseen) tensor.storage_->is_newer_there_.store(true);
    note_read(tensor, device, ticket);
}

void Storage::mark_unset(std::size_t bytes) const {
    if (fills_with_nan()) std::memset(data(), 0xFF, bytes);
}

std::shared_ptr<Storage> Storage::adopt(void* data) {
    return std::shared_ptr<Storage>(new Storage(data));
}

Storage::~Storage() {
    std::free(owned_);
    if (block_) {
        forbid(block_->data(), block_->size());
        host_pool().free(block_);
    }
    if (release_ && !is_taken_back()) release_();
}

bool Storage::take_back() noexcept {
    const std::uint32_t before = uses_.fetch_or(kTakenBack);
    if ((before & kTakenBack) != 0) return false;
    if (before == 0 && release_) release_();
    return true;
}

bool Storage::begin_use(bool may_be_one_more) noexcept {
    std::uint32_t uses = uses_.load();
    do {
        const bool is_one_more = may_be_one_more && uses != kTakenBack;
        if ((uses & kTakenBack) != 0 && !is_one_more) return false;
    } while (!uses_.compare_exchange_weak(uses, uses + 1));
    return true;
}

void Storage::end_use() noexcept {
    if (uses_.fetch_sub(1) == (kTakenBack | 1) && release_) release_();
}

}  // namespace quern

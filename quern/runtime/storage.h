#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "quern/runtime/pool.h"
#include "quern/tensor.h"

namespace quern {
namespace vulkan {
struct Memory;
}

/// A block of memory, its own or adopted. Thread safety: that of the memory.
class Storage : public std::enable_shared_from_this<Storage> {
public:
    static constexpr std::size_t kAlignment = 64;
    static constexpr std::size_t kPooled = 64 << 10;

    static constexpr std::size_t kNone = ~std::size_t{0};

    enum class Fill : std::uint8_t { Zero, None };

    /// Allocates at least `bytes` bytes at an address that is a multiple of kAlignment; the address
    /// is not null even for no bytes. From kPooled bytes on the memory is of host_pool(). What
    /// Fill::None leaves is of bits 1, NaN in every float, if QUERN_FILL is "nan". Throws
    /// OutOfMemory naming `bytes`.
    static std::shared_ptr<Storage> allocate(std::size_t bytes, Fill fill);

    /// The same of memory that the system keeps where it is, counted in MemoryCounters::pinned.
    /// Throws OutOfMemory also where the process may not hold so much.
    static std::shared_ptr<Storage> allocate_pinned(std::size_t bytes, Fill fill);
    bool is_pinned() const noexcept { return is_pinned_; }

    /// The same of the memory of the device "vulkan:N". Where the host does not see that, it has
    /// memory of its own beside it. Throws DeviceError where the device cannot be used.
    static std::shared_ptr<Storage> allocate_on_vulkan(std::size_t device, std::size_t bytes,
                                                       Fill fill);

    /// Part of what such a device gave, which whoever calls takes back. Launches up to `ticket` may
    /// still use it.
    static std::shared_ptr<Storage> part_on_vulkan(std::size_t device, const vulkan::Memory& part,
                                                   std::uint64_t ticket);

    /// Of the last launch of its device that may still use the memory, or 0.
    std::uint64_t ticket() const noexcept { return ticket_.load(); }

    /// Keeps `data`, which belongs to the program.
    static std::shared_ptr<Storage> adopt(void* data);

    /// Sets bits of memory that nobody has set to 1 if QUERN_FILL is "nan".
    void mark_unset(std::size_t bytes) const;

    /// The memory may be taken back before the storage is destroyed: then `release` is called at
    /// once, or by the end of the last use that began before. False if it was taken back before.
    bool take_back() noexcept;
    bool is_taken_back() const noexcept {
        return (uses_.load(std::memory_order_relaxed) & kTakenBack) != 0;
    }

    /// Of work that goes on beside its caller. No use begins of what is taken back: false, but for
    /// one more use of what is in use, if that is allowed.
    bool begin_use(bool may_be_one_more) noexcept;
    void end_use() noexcept;

    /// What the memory is of, where it matters: a MemoryPool's state.
    const void* origin() const noexcept { return origin_; }
    void set_origin(const void* origin) noexcept { origin_ = origin; }

    /// Calls `release`, which must not throw, when the storage is destroyed or its memory is taken
    /// back; once.
    void on_release(std::function<void()> release) noexcept { release_ = std::move(release); }

    ~Storage();
    Storage(const Storage&) = delete;
    Storage& operator=(const Storage&) = delete;

    /// Waits for what a device does with the memory, and has its elements where the host sees
    /// them. Throws DeviceLost; OutOfMemory where they have to be copied and the host has not 64
    /// KiB that the device sees. What `data` gives the caller may write too.
    std::byte* data() const {
        if (ticket_.load(std::memory_order_acquire) != 0) wait(Use::Write);
        return data_;
    }
    const std::byte* read() const {
        if (ticket_.load(std::memory_order_acquire) != 0) wait(Use::Read);
        return data_;
    }

private:
    friend class InFlight;

    enum class Use : std::uint8_t { Read, Write };
    void wait(Use use) const;
    void fetch() const;

    static std::shared_ptr<Storage> from_pool(std::size_t bytes, Fill fill);

    explicit Storage(void* data) : data_(static_cast<std::byte*>(data)) {}

    std::byte* data_;
    bool is_pinned_ = false;
    std::function<void()> release_;
    const void* origin_ = nullptr;

    /// The number of uses, and a bit.
    static constexpr std::uint32_t kTakenBack = std::uint32_t{1} << 31;
    std::atomic<std::uint32_t> uses_{0};

    /// Of a device "vulkan:N": which, and its last launch that may still use the memory.
    std::size_t device_ = kNone;
    mutable std::atomic<std::uint64_t> ticket_{0};

    /// Where the host does not see the device's memory: that, for which `data_` stands. Without a
    /// ticket the host's is as it should be, with one the device's, and the host's too but where
    /// the device has written since.
    std::shared_ptr<const vulkan::Memory> unseen_;
    mutable std::atomic<bool> is_newer_there_{false};

    /// One of them at most: what std::free and what host_pool() gets back.
    void* owned_ = nullptr;
    Pool::Block* block_ = nullptr;
};

/// Adds to MemoryCounters::copied.
void count_copied(std::size_t bytes) noexcept;

/// What launches on a device "vulkan:N" know of tensors.
class InFlight {
public:
    /// The address of the first element, without waiting if the memory is the device's own.
    static void* address(const Tensor& tensor, std::optional<std::size_t> device);

    /// The same of what is only read, which a device's copy survives.
    static void* address_to_read(const Tensor& tensor, std::optional<std::size_t> device);

    /// Whether the memory is the device's own.
    static bool is_on(const Tensor& tensor, std::size_t device) noexcept {
        return tensor.storage_->device_ == device;
    }
    static bool is_on_host(const Tensor& tensor) noexcept { return is_on(tensor, Storage::kNone); }

    /// Before a launch that reads memory of its device: brings there what the host has written.
    /// Throws DeviceError, OutOfMemory.
    static void bring(const Tensor& tensor, std::size_t device);

    /// The launch of that ticket, 0 if it has ended, reads or writes the memory, if it is the
    /// device's own.
    static void note_read(const Tensor& tensor, std::size_t device, std::uint64_t ticket) noexcept;
    static void note_written(const Tensor& tensor, std::size_t device,
                             std::uint64_t ticket) noexcept;
};

}  // namespace quern

#include "quern/memory_pool.h"

#include <algorithm>
#include <vector>

#include "quern/runtime/device_options.h"
#include "quern/runtime/pool.h"
#include "quern/runtime/storage.h"
#include "quern/runtime/vulkan_heap.h"
#include "quern/support/check.h"
#include "quern/support/memory.h"

namespace quern {

struct MemoryPool::State {
    struct Live {
        Storage* storage;
        Pool::Block* block;
    };

    State(const Device& at, std::size_t bytes)
        : device(at),
          size(bytes),
          of_device(device_memory(at)),
          pool(of_device ? *of_device : host_heap(), bytes) {}

    static std::unique_ptr<vulkan::PoolHeap> device_memory(const Device& device) {
        const auto number = vulkan_number(device.id());
        return number ? std::make_unique<vulkan::PoolHeap>(*number) : nullptr;
    }

    [[noreturn]] void raise_none(std::size_t bytes) const {
        if (of_device) of_device->raise_none(bytes);
        raise_out_of_memory("memory_pool", bytes, host_room());
    }

    std::shared_ptr<Storage> storage(const Pool::Block& block, std::size_t bytes) const {
        return of_device ? of_device->storage(block.data(), bytes) : Storage::adopt(block.data());
    }

    /// Makes the memory of a storage free again.
    void retire(Storage* storage) {
        if (of_device) of_device->retire(storage->ticket());
        const Lock lock(mutex);
        const auto at = std::find_if(live.begin(), live.end(),
                                     [&](const Live& l) { return l.storage == storage; });
        pool.free(at->block);
        live.erase(at);
    }

    Device device;
    std::size_t size;

    /// Null if that is the memory of this process.
    std::unique_ptr<vulkan::PoolHeap> of_device;
    Pool pool;
    Mutex mutex;
    std::vector<Live> live;
};

MemoryPool::MemoryPool(const Device& device, std::size_t bytes) {
    if (bytes == 0) raise(ValueError("[memory_pool] expected a size of a byte or more, got 0"));
    state_ = or_out_of_memory("memory_pool", [&] {
        constexpr std::size_t kUnit = Pool::kAlignment;
        const std::size_t size = bytes > SIZE_MAX / 4 ? bytes : (bytes + kUnit - 1) / kUnit * kUnit;
        auto state = std::make_shared<State>(device, size);
        // One block of all, which later ones are cut from.
        Pool::Block* const all = take_or_trim([&] { return state->pool.allocate(size); });
        if (!all) state->raise_none(bytes);
        state->pool.free(all);
        return state;
    });
}

Tensor MemoryPool::allocate(Shape shape, DType dtype) {
    return or_out_of_memory("memory_pool", [&] {
        const std::size_t bytes = std::size_t(element_count(shape)) * size_of(dtype);
        const auto give_back = [&](Pool::Block* block) { state_->pool.free(block); };
        std::unique_ptr<Pool::Block, decltype(give_back)> block(state_->pool.allocate(bytes),
                                                                give_back);
        if (!block) {
            const Counters now = counters();
            raise(OutOfMemory("[memory_pool] E0613: expected room for " + std::to_string(bytes) +
                                  " bytes, got " + std::to_string(now.free) +
                                  " free, the largest block " + std::to_string(now.largest),
                              bytes, now.free, now.largest));
        }
        auto storage = state_->storage(*block, bytes);
        storage->mark_unset(bytes);
        Storage* const address = storage.get();
        // From here on nothing fails before the storage knows what it must give back.
        std::function<void()> release = [state = state_, address] { state->retire(address); };
        {
            // Whole before reset() on another thread may find it.
            const Lock lock(state_->mutex);
            state_->live.push_back({address, block.get()});
            block.release();
            storage->set_origin(state_.get());
            storage->on_release(std::move(release));
        }
        return Tensor(std::move(shape), dtype, state_->device, std::move(storage));
    });
}

void MemoryPool::free(const Tensor& tensor) {
    if (!owns(tensor)) {
        raise(
            ValueError("[memory_pool] E0616: expected a tensor of this pool, got one that is not"));
    }
    if (!tensor.storage_->take_back()) {
        raise(
            ValueError("[memory_pool] E0615: expected a tensor that has memory, got one whose "
                       "memory was taken back before"));
    }
}

bool MemoryPool::owns(const Tensor& tensor) const noexcept {
    return tensor.storage_->origin() == state_.get();
}

void MemoryPool::reset() {
    // Outside of the lock, which the storages take themselves. What is on the way out of its last
    // tensor meanwhile is left alone.
    std::vector<std::shared_ptr<Storage>> all;
    or_out_of_memory("memory_pool", [&] {
        const Lock lock(state_->mutex);
        for (const State::Live& live : state_->live) {
            if (auto storage = live.storage->weak_from_this().lock()) {
                all.push_back(std::move(storage));
            }
        }
    });
    for (const auto& storage : all) storage->take_back();
}

const Device& MemoryPool::device() const noexcept { return state_->device; }

MemoryPool::Counters MemoryPool::counters() const {
    const Pool::Counters pool = state_->pool.counters();
    return {state_->size, pool.live, state_->size - pool.live, pool.largest};
}

}  // namespace quern

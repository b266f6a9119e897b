#include "quern/runtime/storage.h"

#include <cstdlib>

#include "quern/support/memory.h"

namespace quern {
namespace {

/// No process addresses more; asking an allocator for it can end the program under sanitizers.
constexpr std::uint64_t kAddressable = std::uint64_t{1} << 47;

}  // namespace

std::shared_ptr<Storage> Storage::allocate(std::size_t bytes, Fill fill) {
    // calloc takes untouched zero pages from the system where aligned_alloc would have to be
    // cleared, so the alignment is made by hand.
    void* owned = nullptr;
    if (static_cast<std::uint64_t>(bytes) < kAddressable && bytes <= SIZE_MAX - kAlignment) {
        const std::size_t padded = bytes + kAlignment;
        owned = fill == Fill::Zero ? std::calloc(padded, 1) : std::malloc(padded);
    }
    if (owned == nullptr) {
        raise_out_of_memory("tensor", bytes);
    }
    std::unique_ptr<void, void (*)(void*)> block(owned, std::free);
    std::size_t space = bytes + kAlignment;
    void* data = owned;
    std::align(kAlignment, bytes, data, space);
    std::shared_ptr<Storage> storage(new Storage(data));
    storage->owned_ = block.release();
    return storage;
}

std::shared_ptr<Storage> Storage::adopt(void* data) {
    return std::shared_ptr<Storage>(new Storage(data));
}

Storage::~Storage() {
    std::free(owned_);
    if (release_) release_();
}

}  // namespace quern

#include "quern/runtime/storage.h"

#include <cstdlib>
#include <string>

#include "quern/support/check.h"

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
        raise(OutOfMemory("[tensor] expected room for " + std::to_string(bytes) +
                          " bytes, got none from the system"));
    }
    std::size_t space = bytes + kAlignment;
    void* data = owned;
    std::align(kAlignment, bytes, data, space);
    return std::shared_ptr<Storage>(new Storage(data, {}, owned));
}

std::shared_ptr<Storage> Storage::adopt(void* data, std::function<void()> release) {
    return std::shared_ptr<Storage>(new Storage(data, std::move(release), nullptr));
}

Storage::~Storage() {
    std::free(owned_);
    if (release_) release_();
}

}  // namespace quern

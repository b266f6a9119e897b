#include "quern/runtime/held.h"

#include <algorithm>
#include <iterator>

#include "quern/runtime/storage.h"
#include "quern/support/check.h"

namespace quern {
namespace {

[[noreturn]] void refuse_dead() {
    raise(
        ValueError("[kernel] E0614: expected operands that have memory, got a tensor whose memory "
                   "pool has taken it back"));
}

}  // namespace

std::vector<Tensor> that_may_end(std::span<const Tensor> tensors) {
    std::vector<Tensor> result;
    std::ranges::copy_if(tensors, std::back_inserter(result), Held::may_end);
    return result;
}

Held::Held(std::vector<Tensor> tensors, bool are_held) : tensors_(std::move(tensors)) {
    for (const Tensor& tensor : tensors_) {
        if (!tensor.storage_->begin_use(are_held)) {
            end();
            refuse_dead();
        }
        ++begun_;
    }
}

bool Held::may_end(const Tensor& tensor) noexcept { return tensor.storage_->origin() != nullptr; }

void Held::end() noexcept {
    for (std::size_t i = 0; i < begun_; ++i) tensors_[i].storage_->end_use();
    begun_ = 0;
    tensors_.clear();
}

}  // namespace quern

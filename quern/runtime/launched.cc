#include "quern/runtime/launched.h"

#include <algorithm>
#include <string>

#include "quern/runtime/vulkan_plugin.h"

namespace quern {
namespace {

thread_local Launched* innermost = nullptr;

}  // namespace

Launched::Launched() noexcept : outer_(innermost) { innermost = this; }

Launched::~Launched() { innermost = outer_; }

void Launched::note(std::size_t device, std::uint64_t ticket) noexcept {
    if (!innermost || ticket == 0) return;
    auto& tickets = innermost->tickets_;
    const std::size_t last = tickets.size() - 1;
    tickets[std::min(device, last)] = device < last ? ticket : vulkan::kEverything;
}

void Launched::wait() const {
    const std::size_t last = tickets_.size() - 1;
    for (std::size_t i = 0; i < last; ++i) {
        if (tickets_[i] != 0) vulkan::wait_for(i, tickets_[i]);
    }
    if (tickets_[last] == 0) return;
    std::string why;
    const std::size_t count = vulkan::driver(why)->devices().size();
    for (std::size_t i = last; i < count; ++i) vulkan::wait_for(i, vulkan::kEverything);
}

}  // namespace quern

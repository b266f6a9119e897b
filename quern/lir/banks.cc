#include "quern/lir/banks.h"

#include <algorithm>

namespace quern::lir {

void Banks::meet() {
    for (const auto& [access, banks] : asked_) {
        for (const auto& [bank, words] : banks) {
            most_ = std::max(most_, std::uint32_t(words.size()));
        }
    }
    asked_.clear();
    for (auto& times : times_) std::fill(times.begin(), times.end(), 0);
}

}  // namespace quern::lir

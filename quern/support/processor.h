#pragma once

#include <cstddef>

namespace quern {

/// Bytes of the processor's largest cache; 32 MiB where the system does not say.
std::size_t largest_cache() noexcept;

}  // namespace quern

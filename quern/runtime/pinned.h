#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace quern {

/// Zeros that the system keeps where they are while they are held, at the beginning of a page; null
/// if it refuses them. `bytes` is at least 1.
std::byte* take_pinned(std::size_t bytes) noexcept;

/// `memory` and `bytes` are those of a call of take_pinned.
void give_back_pinned(std::byte* memory, std::size_t bytes) noexcept;

/// What is held now.
std::size_t pinned_bytes() noexcept;

/// The most that the process may hold, where the system has a limit.
std::optional<std::uint64_t> pinned_limit() noexcept;

}  // namespace quern

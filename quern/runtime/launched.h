#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace quern {

/// What the calling thread launches on devices "vulkan:N" while this lives, so that work on a
/// thread of the library ends when its launches have.
class Launched {
public:
    Launched() noexcept;
    ~Launched();
    Launched(const Launched&) = delete;
    Launched& operator=(const Launched&) = delete;

    /// A launch that goes on. The innermost of the thread knows of it, if there is one.
    static void note(std::size_t device, std::uint64_t ticket) noexcept;

    bool is_empty() const noexcept { return tickets_ == decltype(tickets_){}; }

    /// Throws DeviceLost.
    void wait() const;

private:
    /// The last ticket of each device; those from the last number on are one.
    std::array<std::uint64_t, 8> tickets_{};
    Launched* const outer_;
};

}  // namespace quern

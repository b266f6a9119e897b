#pragma once

#include <span>
#include <utility>
#include <vector>

#include "quern/tensor.h"

namespace quern {

/// Operands of work that goes on beside its caller: until the work is done, no memory of them is
/// handed out again, also where it is taken back meanwhile.
class Held {
public:
    /// Throws ValueError with E0614 if memory was taken back before. `are_held`: the caller is work
    /// that may hold them, and memory that is in use is there.
    explicit Held(std::vector<Tensor> tensors, bool are_held = false);
    ~Held() { end(); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

    std::span<const Tensor> tensors() const { return tensors_; }

    /// Whether the program may take the tensor's memory back.
    static bool may_end(const Tensor& tensor) noexcept;

    /// Ends with the result of `work`, or with what it throws.
    template <class Work>
    auto during(Work work) {
        struct Ending {
            Held& held;
            ~Ending() { held.end(); }
        };
        const Ending ending{*this};
        return work();
    }

private:
    void end() noexcept;

    std::vector<Tensor> tensors_;

    /// How many of them are in use.
    std::size_t begun_ = 0;
};

/// Those of them whose memory the program may take back, as a rule none: what has to be held while
/// others may free it.
std::vector<Tensor> that_may_end(std::span<const Tensor> tensors);

}  // namespace quern

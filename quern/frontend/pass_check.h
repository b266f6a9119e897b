#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/frontend/bound.h"
#include "quern/schedule/observer.h"

namespace quern::frontend {

/// Interprets a launch before and after each pass that its kernel goes through: a pass keeps every
/// bit of what a kernel means. What comes behind the passes (LIR and machine code) is held against
/// the same by its result. Nothing runs before the first pass is seen.
class PassCheck final : public schedule::Observer {
public:
    /// Of a launch that does more than `most_work` operations, or moves more bytes, it checks
    /// nothing. The launch outlives it.
    PassCheck(const BoundLaunch& launch, double most_work);

    void see(std::string_view pass, const ir::Kernel& kernel) override;

    /// Compares what the compiled code gave where that has to have the interpreter's bits: in
    /// reproducible mode, and in strict mode where nothing adds up floats or calls functions of
    /// them. Of code that was not made for this launch it compares nothing.
    void see_result(const Tensor& result);

    /// "the pass 'x' changes element 2 from 1 to 3" of the first pass that does so, or that makes a
    /// kernel which is not valid.
    const std::string& fault() const override { return fault_; }

    /// How often a kernel was interpreted after a pass, in this process.
    static std::size_t count() noexcept;

private:
    bool is_small() const;
    void check(std::string_view pass, const ir::Kernel& kernel);

    /// Nothing more is checked where there is no memory for it.
    template <class Work>
    void unless_out_of_memory(const Work& work);

    /// The elements, or none if the launch fails.
    std::optional<std::vector<std::byte>> interpreted(const interpret::Program& program) const;
    std::string difference(const std::optional<std::vector<std::byte>>& result) const;
    bool has_one_result() const;

    const BoundLaunch& launch_;
    double most_work_;
    bool is_off_ = false;

    /// Of the kernel before the last pass: ir::identity.
    std::string kernel_;
    std::optional<std::vector<std::byte>> expected_;
    std::string fault_;
};

/// What looks at the passes of a launch that may be compiled: of those of up to a million
/// operations in builds without NDEBUG, of all if QUERN_CHECK_PASSES is "all", of none if it is
/// "none".
std::unique_ptr<PassCheck> pass_check(const BoundLaunch& launch);

}  // namespace quern::frontend

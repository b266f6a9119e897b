#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "quern/frontend/launch.h"
#include "quern/runtime/compiled.h"
#include "quern/support/short_vector.h"

// Launches of compiled code are remembered: one that is like an earlier one in all but elements
// and addresses needs no names, no binding and no allocation but that of its result.

namespace quern::frontend {

/// Of operands, and of words of a key: more than launches have as a rule.
template <class T>
using LaunchList = ShortVector<T, 96>;

/// All that decides a launch but elements and addresses, as words; and its operands, which outlive
/// the key.
class LaunchKey {
public:
    LaunchKey(const lang::Source& source, lang::NodeId compute, const Device& device, bool pedantic,
              Numerics numerics);

    void add(const Tensor& operand);
    void add(std::string_view name, const Number& argument);
    void add(const semantics::Piped& function) { add(function.name); }
    void add(const FusedOperand& operand);

    std::span<const std::uint64_t> words() const { return words_; }
    std::span<const Tensor* const> operands() const { return operands_; }
    std::uint64_t hash() const;

private:
    void add(std::uint64_t word) { words_.push_back(word); }
    void add(std::string_view text);

    LaunchList<std::uint64_t> words_;
    LaunchList<const Tensor*> operands_;
};

struct LaunchRecord {
    std::shared_ptr<const CompiledKernel> kernel;
    ReadyLaunch launch;

    /// Of the result.
    Shape shape;
    DType dtype = DType::Float32;
    Device device;
    bool is_cleared = true;
};

/// Memory for its result.
Tensor new_result(const LaunchRecord& record);

/// Runs the launch that was remembered for this key. None if there was none, or if it failed: then
/// `launch` says why. `progress` is called as LaunchOptions says.
std::optional<Tensor> launch_again(const LaunchKey& key, const Progress& progress = {});

/// The same with a result that is there. False if nothing was remembered for the key, if the result
/// does not fit it, or if it failed: then the result is poisoned.
bool launch_again_into(const LaunchKey& key, Tensor& result);

/// Sets the result of a launch that failed: every bit is 1, which is NaN in a float; a bool is
/// true.
void poison(Tensor& result);

/// How often forget_launches() was called.
std::uint64_t memory_generation();

/// Keeps a launch, in the place of an older one if there are many; not if launches were forgotten
/// since `generation`, which was taken before its code was found.
void remember(const LaunchKey& key, LaunchRecord record, std::uint64_t generation);

/// Nothing is remembered any more: every launch finds its code again.
void forget_launches();

}  // namespace quern::frontend

#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "quern/error.h"
#include "quern/numerics.h"
#include "quern/tensor.h"

namespace quern {

/// A number bound by name to a kernel: a scalar such as `eps`, or a dimension.
struct Argument {
    std::string name;
    std::variant<std::int64_t, double, bool> value;
};

namespace detail {

void require_int64(const std::string& name, std::uint64_t value);

}  // namespace detail

/// Binds a number by name. T is bool, an integer or a floating type. Throws ValueError if an
/// integer is above the largest of int64, which integers are bound as.
template <class T>
Argument arg(std::string name, T value) {
    static_assert(std::is_arithmetic_v<T>, "arg() binds a number or a bool");
    if constexpr (std::is_same_v<T, bool>) {
        return {std::move(name), value};
    } else if constexpr (std::is_integral_v<T>) {
        if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t)) {
            detail::require_int64(name, value);
        }
        return {std::move(name), static_cast<std::int64_t>(value)};
    } else {
        return {std::move(name), static_cast<double>(value)};
    }
}

/// How a text is read.
struct KernelOptions {
    /// The name of the text in diagnostics; "<kernel>" if empty.
    std::string file;

    /// Refuse what is else accepted with a note or a warning (E0303, E0412) or by a copy (E0602).
    bool pedantic = false;

    /// The line of `file` on which the text begins.
    int first_line = 1;
};

class AsyncKernel;
class Stream;

namespace detail {

/// A tensor or an argument, as the caller gave it.
struct Input {
    Input() = default;
    explicit Input(const Tensor& given) : tensor(&given) {}
    explicit Input(const Argument& given) : argument(&given) {}
    const Tensor* tensor = nullptr;
    const Argument* argument = nullptr;
};

}  // namespace detail

/// A kernel of the language of docs/language.md: one `compute(...) { ... }`, perhaps behind
/// `let name =` and before pipes of unary functions.
///
/// The text is parsed and checked once. For each combination of operand dtypes and ranks the kernel
/// is made once and kept; extents are free. Copies share all of it. Thread-safe.
class Kernel {
public:
    /// Throws KernelError with every error of the text, ValueError if it is not one compute.
    explicit Kernel(std::string text, const KernelOptions& options = {});

    // What was moved from is a copy, too.
    Kernel(const Kernel&) = default;
    Kernel& operator=(const Kernel&) = default;

    /// Runs it: tensors by position, arg() by name, in any order.
    ///
    /// Throws KernelError before any work if operands and text do not fit, and with the kernel's
    /// line if it fails while it runs; ValueError if arg() names what the kernel does not leave
    /// free, or one name twice, or if an operand's memory was taken back (E0614); OutOfMemory;
    /// DeviceError if the device cannot be used, DeviceLost.
    template <class... Inputs>
    Tensor operator()(const Inputs&... inputs) const {
        const std::initializer_list<detail::Input> list = {detail::Input(inputs)...};
        return call(list);
    }

    /// Runs it and writes what it gives to `result`, which has the shape and dtype of that, its
    /// device, and no gaps. On the device cpu a launch like an earlier one allocates nothing; where
    /// the interpreter or several devices run it, operands with gaps are taken by their row-major
    /// positions, or `result` is larger than the caches and at no multiple of 64 bytes, the result
    /// is made apart and copied.
    ///
    /// Throws ShapeError, DTypeError or DeviceError before any work if `result` does not fit, and
    /// ValueError if it has memory in common with an operand, or lies between elements of one whose
    /// rows lie between each other; else as a call does. If the kernel fails while it runs,
    /// `result` is poisoned: every bit is 1, NaN in a float; a bool is true.
    template <class... Inputs>
    void into(Tensor& result, const Inputs&... inputs) const {
        const std::initializer_list<detail::Input> list = {detail::Input(inputs)...};
        call_into(result, list);
    }

    /// The same for operands and arguments that are counted at run time.
    Tensor run(std::span<const Tensor> operands, std::span<const Argument> arguments = {}) const;

    /// The same kernel on a device, unless its text has @device, which comes first; else it runs on
    /// the one that is the default when it is called.
    Kernel on(const Device& device) const;

    /// The same kernel, rounding so wherever it is compiled.
    Kernel with(Numerics numerics) const;

    /// The same kernel, whose calls return at once: `auto f = kernel.async()(x); ... f.get()`.
    /// AsyncKernel is in quern/async.h.
    AsyncKernel async() const;

    /// The same for calls that run one after the other, behind what the stream has been given.
    AsyncKernel async(const Stream& stream) const;

    /// Says what the text means: where each dimension gets its value, which loops run in parallel.
    std::string explain() const;

    /// The same with numbers for operands like these: bytes moved and operations done too.
    std::string explain(std::span<const Tensor> operands,
                        std::span<const Argument> arguments = {}) const;

    /// The names by which the body sees its operands, in order.
    const std::vector<std::string>& operand_names() const noexcept;
    const std::string& text() const noexcept;

private:
    friend class AsyncKernel;
    Tensor call(std::span<const detail::Input> inputs) const;
    void call_into(Tensor& result, std::span<const detail::Input> inputs) const;

    /// run() for operands that somebody holds.
    Tensor run_held(std::span<const Tensor> operands, std::span<const Argument> arguments) const;

    struct Body;
    struct Where;
    Where where() const;
    static std::shared_ptr<const Body> parse(std::string text, const KernelOptions& options);
    std::shared_ptr<const Body> body_;

    /// None: the default device, and default_numerics(), at the time of the call.
    std::optional<Device> device_;
    std::optional<Numerics> numerics_;
};

/// Runs a kernel text once: `compute(R"(compute(A, B) { ... })", a, b, arg("eps", 1e-5))`.
/// Texts that were used lately stay parsed. Throws as Kernel does.
template <class... Inputs>
Tensor compute(std::string_view text, const Inputs&... inputs);

namespace detail {
/// The kernel of a text, parsed now or lately.
Kernel kernel_of(std::string_view text);
}  // namespace detail

template <class... Inputs>
Tensor compute(std::string_view text, const Inputs&... inputs) {
    return detail::kernel_of(text)(inputs...);
}

}  // namespace quern

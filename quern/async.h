#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include "quern/future.h"
#include "quern/kernel.h"
#include "quern/stream.h"

namespace quern {

namespace detail {

/// A tensor, the future of one, or an argument, as the caller gave it.
struct AsyncInput : Input {
    explicit AsyncInput(const Tensor& given) : Input(given) {}
    explicit AsyncInput(const Argument& given) : Input(given) {}
    explicit AsyncInput(const Future<Tensor>& given) : Input(), future(&given) {}
    const Future<Tensor>* future = nullptr;
};

}  // namespace detail

/// A kernel whose calls return before it has run. Made by Kernel::async. Thread-safe.
class AsyncKernel {
public:
    /// As Kernel's: throws KernelError now if operands and text do not fit. What goes wrong while
    /// it runs is thrown by Future::get. Operands stay alive until then; writing to their elements
    /// before is a race.
    ///
    /// An operand may be a Future<Tensor>: the kernel runs when it is there, and no thread waits
    /// for it meanwhile. If its work failed, get() throws that error; what does not fit is then
    /// thrown by get() too.
    template <class... Inputs>
    Future<Tensor> operator()(const Inputs&... inputs) const {
        const std::initializer_list<detail::AsyncInput> list = {detail::AsyncInput(inputs)...};
        return call(list);
    }

    /// The same for operands and arguments that are counted at run time.
    Future<Tensor> run(std::span<const Tensor> operands,
                       std::span<const Argument> arguments = {}) const;

private:
    friend class Kernel;
    explicit AsyncKernel(Kernel kernel, std::optional<Stream> stream = {})
        : kernel_(std::move(kernel)), stream_(std::move(stream)) {}
    Future<Tensor> call(std::span<const detail::AsyncInput> inputs) const;
    Kernel kernel_;
    std::optional<Stream> stream_;
};

}  // namespace quern

#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <utility>

#include "quern/future.h"
#include "quern/kernel.h"
#include "quern/stream.h"

namespace quern {

/// A kernel whose calls return before it has run. Made by Kernel::async. Thread-safe.
class AsyncKernel {
public:
    /// As Kernel's: throws KernelError now if operands and text do not fit. What goes wrong while
    /// it runs is thrown by Future::get. Operands stay alive until then; writing to their elements
    /// before is a race.
    template <class... Inputs>
    Future<Tensor> operator()(const Inputs&... inputs) const {
        const std::initializer_list<detail::Input> list = {detail::Input(inputs)...};
        return call(list);
    }

    /// The same for operands and arguments that are counted at run time.
    Future<Tensor> run(std::span<const Tensor> operands,
                       std::span<const Argument> arguments = {}) const;

private:
    friend class Kernel;
    explicit AsyncKernel(Kernel kernel, std::optional<Stream> stream = {})
        : kernel_(std::move(kernel)), stream_(std::move(stream)) {}
    Future<Tensor> call(std::span<const detail::Input> inputs) const;
    Kernel kernel_;
    std::optional<Stream> stream_;
};

}  // namespace quern

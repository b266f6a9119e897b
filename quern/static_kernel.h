#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "quern/kernel.h"
#include "quern/lang/static_shapes.h"

// Kernels whose text the C++ compiler checks:
//
//     inline const auto layer_norm = QUERN_KERNEL(R"(compute(x, gamma, beta) { ... })");
//     Tensor y = layer_norm(x, g, b, arg("eps", 1e-5f));
//
// A text with an error stops the build with the error's name, line and column in the compiler's
// message: error_in_kernel_text<kernel_error::expected_an_expression, 3, 15>.

namespace quern {

namespace detail {
/// Throws ShapeError if they differ.
void check_static_shape(const Shape& shape, const Shape& expected);
}  // namespace detail

/// A tensor whose type carries its shape, so that dimensions that cannot agree stop the build.
template <std::int64_t... Extents>
class StaticTensor : public Tensor {
public:
    /// Zero-filled.
    explicit StaticTensor(DType dtype = DType::Float32) : Tensor(Shape{Extents...}, dtype) {}

    /// Takes a tensor of that shape. Throws ShapeError for another one.
    explicit StaticTensor(Tensor tensor) : Tensor(checked(std::move(tensor))) {}

private:
    static Tensor checked(Tensor tensor) {
        detail::check_static_shape(tensor.shape(), Shape{Extents...});
        return tensor;
    }
};

namespace detail {

template <class T>
struct StaticShapeOf {
    using Type = AnyShape;
};
template <std::int64_t... Extents>
struct StaticShapeOf<StaticTensor<Extents...>> {
    using Type = StaticShape<Extents...>;
};

template <class T>
inline constexpr bool is_operand = std::is_base_of_v<Tensor, std::decay_t<T>>;

/// A type list of the shapes of those inputs that are tensors.
template <class Text, class Shapes, class... Inputs>
struct StaticCheckOf;
template <class Text, class... Shapes>
struct StaticCheckOf<Text, void(Shapes...)> {
    static constexpr bool run() {
        lang::require_operands<Text, sizeof...(Shapes)>();
        lang::require_shapes<Text, Shapes...>();
        return true;
    }
};
template <class Text, class... Shapes, class First, class... Rest>
struct StaticCheckOf<Text, void(Shapes...), First, Rest...> {
    static constexpr bool run() {
        if constexpr (is_operand<First>) {
            return StaticCheckOf<Text, void(Shapes..., typename StaticShapeOf<First>::Type),
                                 Rest...>::run();
        } else {
            return StaticCheckOf<Text, void(Shapes...), Rest...>::run();
        }
    }
};

}  // namespace detail

/// What QUERN_KERNEL makes: a Kernel that also checks the number of its operands, and the shapes of
/// those that are StaticTensors, while C++ compiles. Thread-safe, as Kernel is.
template <class Text>
class StaticKernel {
    static_assert(Text::kOperands != lang::Verdict::kNoCompute,
                  "expected one compute(...) { ... }, got a script; scripts run with the command "
                  "quern");

public:
    /// The text was checked by the compiler; this parses it again, once. Diagnostics name `file`
    /// and count lines from that of the macro.
    explicit StaticKernel(const char* file)
        : kernel_(std::string(Text::data(), Text::size()),
                  KernelOptions{file, false, Text::get().line}) {}

    /// Tensors by position, arg() by name, as Kernel takes them.
    template <class... Inputs>
    Tensor operator()(const Inputs&... inputs) const {
        static_assert(detail::StaticCheckOf<Text, void(), Inputs...>::run());
        return kernel_(inputs...);
    }

    /// Writes to a tensor that is there, as Kernel does.
    template <class... Inputs>
    void into(Tensor& result, const Inputs&... inputs) const {
        static_assert(detail::StaticCheckOf<Text, void(), Inputs...>::run());
        kernel_.into(result, inputs...);
    }

    Kernel on(const Device& device) const { return kernel_.on(device); }
    Kernel with(Numerics numerics) const { return kernel_.with(numerics); }

    /// As Kernel's without a stream, with quern/async.h.
    template <class K = Kernel>
    auto async() const {
        return static_cast<const K&>(kernel_).async();
    }
    std::string explain() const { return kernel_.explain(); }
    operator const Kernel&() const noexcept { return kernel_; }

private:
    Kernel kernel_;
};

}  // namespace quern

/// A kernel object from a text that the C++ compiler checks.
#define QUERN_KERNEL(...)                                                \
    ([] {                                                                \
        const auto quern_checked = QUERN_KERNEL_TEXT(__VA_ARGS__);       \
        return ::quern::StaticKernel<decltype(quern_checked)>(__FILE__); \
    }())

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "quern/dtype.h"
#include "quern/kernel.h"

// Kernels written as C++ functions instead of text:
//
//     KernelBuilder k("matmul");
//     const Operand a = k.operand("a"), b = k.operand("b");
//     const Expr m = k.dim("m"), n = k.dim("n"), depth = k.dim("depth");
//     k.loops({m, n}, [&](Expr i, Expr j) {
//         k.out(i, j) = k.sum(depth, [&](Expr q) { return a(i, q) * b(q, j); });
//     });
//     Tensor c = k.build()(x, y);
//
// A builder writes the kernel language, so names, dtypes, dimensions, races and the CIR are those
// of the same text; `text()` shows it, and diagnostics point into it.

namespace quern {

/// A C++ integer that stands for a literal of the language; the language's bools are no numbers.
template <class T>
concept IntegerLiteral = std::integral<T> && !std::same_as<T, bool>;

namespace detail {

template <IntegerLiteral T>
std::int64_t literal_of(T value) {
    if constexpr (std::is_unsigned_v<T>) require_int64("literal", value);
    return static_cast<std::int64_t>(value);
}

}  // namespace detail

/// A scalar or tile of a kernel under construction: a literal, a name, or an operation on these.
/// Integer and floating literals are weak, as in the language.
class Expr {
public:
    /// A literal. Numbers convert, so that `x + 1` and `x * 0.5` can be written.
    /// Throws ValueError if an integer is above the largest of int64, as literals are.
    template <IntegerLiteral T>
    Expr(T value) : Expr(integer(detail::literal_of(value))) {}
    Expr(double value);
    template <std::same_as<bool> T>
    Expr(T) = delete;

    /// As the kernel's text has it.
    const std::string& text() const noexcept { return text_; }

    /// An operation by its text and by how tightly it binds: 0 or, 1 and, 2 not, 3 comparison, 4
    /// sum, 5 product, 6 sign, 7 postfix.
    static Expr made(std::string text, int precedence);
    static Expr binary(const Expr& a, std::string_view op, const Expr& b, int precedence);
    static Expr call(std::string_view function, std::initializer_list<Expr> arguments);

private:
    Expr() = default;
    static Expr integer(std::int64_t value);
    std::string at_least(int precedence) const;

    std::string text_;
    int precedence_ = 7;
};

inline Expr operator+(const Expr& a, const Expr& b) { return Expr::binary(a, "+", b, 4); }
inline Expr operator-(const Expr& a, const Expr& b) { return Expr::binary(a, "-", b, 4); }
inline Expr operator*(const Expr& a, const Expr& b) { return Expr::binary(a, "*", b, 5); }
/// Integers truncate toward zero.
inline Expr operator/(const Expr& a, const Expr& b) { return Expr::binary(a, "/", b, 5); }
inline Expr operator%(const Expr& a, const Expr& b) { return Expr::binary(a, "%", b, 5); }
Expr operator-(const Expr& a);
Expr operator!(const Expr& a);
inline Expr operator<(const Expr& a, const Expr& b) { return Expr::binary(a, "<", b, 3); }
inline Expr operator<=(const Expr& a, const Expr& b) { return Expr::binary(a, "<=", b, 3); }
inline Expr operator>(const Expr& a, const Expr& b) { return Expr::binary(a, ">", b, 3); }
inline Expr operator>=(const Expr& a, const Expr& b) { return Expr::binary(a, ">=", b, 3); }
inline Expr operator==(const Expr& a, const Expr& b) { return Expr::binary(a, "==", b, 3); }
inline Expr operator!=(const Expr& a, const Expr& b) { return Expr::binary(a, "!=", b, 3); }
/// The right side is evaluated only where the left one does not decide.
inline Expr operator&&(const Expr& a, const Expr& b) { return Expr::binary(a, "and", b, 1); }
inline Expr operator||(const Expr& a, const Expr& b) { return Expr::binary(a, "or", b, 0); }

/// The product of two tiles of rank 2.
inline Expr matmul(const Expr& a, const Expr& b) { return Expr::binary(a, "@", b, 5); }

// The functions of the kernel language by their own names.
#define UNARY(name, op, operand, value) \
    inline Expr name(const Expr& x) { return Expr::call(#name, {x}); }
#define BINARY(name, op, value) \
    inline Expr name(const Expr& x, const Expr& y) { return Expr::call(#name, {x, y}); }
#include "quern/lang/functions.def"
/// max(x, 0); NaN stays NaN.
inline Expr relu(const Expr& x) { return Expr::call("relu", {x}); }
/// 1 / (1 + exp(-x)).
inline Expr sigmoid(const Expr& x) { return Expr::call("sigmoid", {x}); }
/// A bool.
inline Expr isnan(const Expr& x) { return Expr::call("isnan", {x}); }
/// min(max(x, low), high).
inline Expr clamp(const Expr& x, const Expr& low, const Expr& high) {
    return Expr::call("clamp", {x, low, high});
}
/// Only the chosen side is evaluated.
inline Expr select(const Expr& condition, const Expr& a, const Expr& b) {
    return Expr::call("select", {condition, a, b});
}
inline Expr dot(const Expr& a, const Expr& b) { return Expr::call("dot", {a, b}); }
inline Expr transpose(const Expr& tile) { return Expr::call("transpose", {tile}); }
inline Expr row_max(const Expr& tile) { return Expr::call("row_max", {tile}); }
inline Expr row_sum(const Expr& tile) { return Expr::call("row_sum", {tile}); }
Expr cast(const Expr& x, DType dtype);

/// `length` neighbours from `begin`, as a subscript: a tile's axis.
Expr slice(const Expr& begin, const Expr& length);

class KernelBuilder;

/// A tensor that the kernel reads.
class Operand {
public:
    /// An element, or with fewer indices a row, or with slices a tile: x[i, j], x[i], x[i:i+4, j].
    template <class... Indices>
    Expr operator()(const Indices&... indices) const {
        return at({Expr(indices)...});
    }
    Expr at(std::vector<Expr> indices) const;

    /// The whole tensor, for kernels without loops.
    operator Expr() const { return Expr::made(name_, 7); }

private:
    friend class KernelBuilder;
    explicit Operand(std::string name) : name_(std::move(name)) {}
    std::string name_;
};

/// Something that can be assigned: a var, an element of the output or of a shared variable.
class Place {
public:
    operator Expr() const { return Expr::made(text_, 7); }
    const Place& operator=(const Expr& value) const { return assign("=", value); }
    const Place& operator=(const Place& other) const { return assign("=", other); }
    const Place& operator+=(const Expr& value) const { return assign("+=", value); }
    const Place& operator-=(const Expr& value) const { return assign("-=", value); }
    const Place& operator*=(const Expr& value) const { return assign("*=", value); }
    const Place& operator/=(const Expr& value) const { return assign("/=", value); }
    Place(const Place&) = default;

    /// An element of a shared variable or of a tile var.
    template <class... Indices>
    Place operator()(const Indices&... indices) const {
        return at({Expr(indices)...});
    }

private:
    friend class KernelBuilder;
    Place(KernelBuilder& builder, std::string text) : builder_(&builder), text_(std::move(text)) {}
    Place at(std::vector<Expr> indices) const;
    const Place& assign(std::string_view op, const Expr& value) const;

    KernelBuilder* builder_;
    std::string text_;
};

/// Writes one kernel, statement by statement. Not thread-safe; outlives what it hands out.
class KernelBuilder {
public:
    /// `kind` as behind @kernel: "elementwise", "matmul", "reduce(+, axis=1)", "fused".
    explicit KernelBuilder(std::string kind = "custom");

    // What stands for a name throws ValueError if that is not a name of the language, or is used.
    // All else is checked by build(), with the text's own diagnostics.

    /// Operands in the order in which they are passed; with `shape` the names of its dimensions.
    Operand operand(std::string name);
    Operand operand(std::string name, const std::vector<Expr>& shape);

    /// A named dimension: the rules of the language give it its value.
    Expr dim(std::string name);

    /// A number that the caller binds by arg().
    Expr scalar(std::string name) { return dim(std::move(name)); }

    /// The whole output, or an element or slice of it.
    Place out() { return Place(*this, "out"); }
    template <class... Indices>
    Place out(const Indices&... indices) {
        return out().at({Expr(indices)...});
    }

    /// Loops from 0 over the extents, the last one innermost: the outermost nest runs in parallel.
    /// `body` is a function object that takes one Expr for each extent, of types that are written
    /// out. Throws ValueError if their numbers differ.
    template <class Body>
    void loops(const std::vector<Expr>& extents, Body body) {
        call_with(extents, body, std::make_index_sequence<arity(&Body::operator())>{});
    }

    /// A loop from `begin` to `end` by `step`.
    void loop(const Expr& begin, const Expr& end, const Expr& step,
              const std::function<void(Expr)>& body);

    /// if condition: then, else: otherwise. Branches that add no line are left out, and so are
    /// loops.
    void when(const Expr& condition, const std::function<void()>& then,
              const std::function<void()>& otherwise = {});

    /// A name for a value, which never changes.
    Expr let(const Expr& value, std::string_view name = "t");

    /// A variable; its dtype is the join of what is assigned to it.
    Place var(const Expr& value, std::string_view name = "v");

    /// A variable of a work-group.
    Place shared(std::string_view name, const std::vector<Expr>& shape);
    void barrier();

    /// What a reduce kernel reduces; the pair for argmin and argmax.
    void yield(const Expr& value);
    void yield(const Expr& value, const Expr& index);

    /// Reductions over 0..extent by the fixed tree. The result is a name. Extremes begin with -inf
    /// and inf, so they are floats: those of integers are float32, as in the language, and rounded.
    /// A reduce kernel keeps the dtype.
    Expr sum(const Expr& extent, const std::function<Expr(Expr)>& element);
    Expr product(const Expr& extent, const std::function<Expr(Expr)>& element);
    Expr maximum(const Expr& extent, const std::function<Expr(Expr)>& element);
    Expr minimum(const Expr& extent, const std::function<Expr(Expr)>& element);

    /// A tile of zeros, and reductions of a whole tile ('+', '*', "min", "max", "and", "or").
    Expr zeros(const std::vector<Expr>& shape);
    Expr reduce(std::string_view op, const Expr& tile);
    Expr reduce(std::string_view op, const Expr& tile, int axis);

    /// The kernel's text as written so far.
    std::string text() const;

    /// Throws KernelError as Kernel's constructor does.
    Kernel build(const KernelOptions& options = {}) const;

private:
    friend class Place;
    template <class Result, class Builder, class... Parameters>
    static constexpr std::size_t arity(Result (Builder::*)(Parameters...) const) {
        return sizeof...(Parameters);
    }
    template <class Result, class Builder, class... Parameters>
    static constexpr std::size_t arity(Result (Builder::*)(Parameters...)) {
        return sizeof...(Parameters);
    }
    template <class Body, std::size_t... Index>
    void call_with(const std::vector<Expr>& extents, Body& body, std::index_sequence<Index...>) {
        const auto [names, head] = loops_over(extents, sizeof...(Index));
        Block loops(*this);
        loops.open(head);
        body(names[Index]...);
        loops.close();
    }

    /// What is written from its beginning to `close`. Without that, as where somebody's function
    /// throws, it is taken back.
    class Block {
    public:
        explicit Block(KernelBuilder& builder);
        ~Block();
        Block(const Block&) = delete;
        Block& operator=(const Block&) = delete;

        /// What follows stands under a line.
        void open(std::string_view head);

        /// False if nothing stands under the line, which the block then goes without.
        bool close() noexcept;

    private:
        KernelBuilder& builder_;
        int depth_;
        std::size_t size_, begin_;
        bool is_closed_ = false;
    };

    /// The names of variables, and "for i0 in 0..n, i1 in 0..m".
    std::pair<std::vector<Expr>, std::string> loops_over(const std::vector<Expr>& extents,
                                                         std::size_t expected);
    Expr accumulate(const Expr& extent, const Expr& start, std::string_view op,
                    const std::function<Expr(Expr)>& element);
    void line(std::string_view statement);
    std::string fresh(std::string_view stem);
    void declare(const std::string& name);

    std::string kind_;
    std::vector<std::string> operands_;
    std::vector<std::string> names_;
    std::string body_;
    int depth_ = 1;
    int next_ = 0;
};

}  // namespace quern

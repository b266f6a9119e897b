#include "quern/semantics/bind.h"

#include <fmt/format.h>

#include <algorithm>

#include "quern/ir/index.h"

namespace quern::semantics {

using ir::ExprId;
using ir::ExprKind;
using lang::Code;

std::string_view to_string(ir::Rule rule) {
    switch (rule) {
        case ir::Rule::Declared:
            return "declared";
        case ir::Rule::BareIndex:
            return "bare index";
        case ir::Rule::Slice:
            return "slice";
        case ir::Rule::Guard:
            return "guard";
        case ir::Rule::Tile:
            return "tile shape";
        case ir::Rule::Range:
            return "largest range in bounds";
        case ir::Rule::Schema:
            return "convolution schema";
        case ir::Rule::Strided:
            return "strided accesses";
        case ir::Rule::SameShape:
            return "same shape";
    }
    return "?";
}

std::string describe(const ir::Kernel& kernel, ExprId id) {
    const ir::Expr& e = kernel[id];
    switch (e.kind) {
        case ExprKind::Dim:
            return kernel.dims[e.a].name;
        case ExprKind::Extent:
            if (kernel.buffers[e.a].flat) {
                return fmt::format("the elements of '{}'", kernel.buffers[e.a].name);
            }
            return fmt::format("axis {} of '{}'", e.b, kernel.buffers[e.a].name);
        case ExprKind::Symbol:
            return kernel.symbols[e.a].name;
        case ExprKind::Const:
            return fmt::format("{}", kernel.integer_value(id));
        case ExprKind::Binary: {
            static constexpr std::pair<ir::BinaryOp, const char*> kSigns[] = {
                {ir::BinaryOp::Add, "+"},      {ir::BinaryOp::Sub, "-"}, {ir::BinaryOp::Mul, "*"},
                {ir::BinaryOp::FloorDiv, "/"}, {ir::BinaryOp::Div, "/"}, {ir::BinaryOp::Rem, "%"}};
            const auto op = static_cast<ir::BinaryOp>(e.op);
            const std::string a = describe(kernel, ExprId{e.a}), b = describe(kernel, ExprId{e.b});
            for (const auto& [sign, text] : kSigns) {
                if (sign == op) return fmt::format("({} {} {})", a, text, b);
            }
            return fmt::format("{}({}, {})", to_string(op), a, b);
        }
        case ExprKind::Select:
            return fmt::format("select({}, {}, {})", describe(kernel, ExprId{e.a}),
                               describe(kernel, ExprId{e.b}), describe(kernel, ExprId{e.c}));
        case ExprKind::Unary:
            return fmt::format("{}({})", to_string(static_cast<ir::UnaryOp>(e.op)),
                               describe(kernel, ExprId{e.a}));
        case ExprKind::Cast:
            return describe(kernel, ExprId{e.a});
        default:
            return "an expression";
    }
}

namespace {

class Solver {
public:
    Solver(const Lowered& lowered, std::span<const Shape> shapes, lang::Diagnostics& diagnostics)
        : kernel_(lowered.kernel), shapes_(shapes), diagnostics_(diagnostics) {
        binding_.dims.assign(kernel_.dims.size(), ir::kUnknown);
        binding_.origins.resize(kernel_.dims.size());
        binding_.sources.assign(kernel_.dims.size(), -1);
    }

    bool solve() {
        // Rules in their order; each round may make another constraint solvable.
        bool progress = true;
        while (progress) {
            progress = false;
            for (int rule = 0; rule <= static_cast<int>(ir::Rule::SameShape) && !progress; ++rule) {
                for (std::size_t c = 0; c < kernel_.constraints.size() && !progress; ++c) {
                    if (static_cast<int>(kernel_.constraints[c].rule) == rule)
                        progress = solve_one(c);
                }
            }
        }
        for (std::size_t c = 0; c < kernel_.constraints.size(); ++c) check(c);
        for (std::size_t d = 0; d < binding_.dims.size(); ++d) {
            if (binding_.dims[d] != ir::kUnknown && binding_.dims[d] < 0) {
                diagnostics_.add(Code::E0506, kernel_.dims[d].span,
                                 fmt::format("dimension '{}' is {}, from {}", kernel_.dims[d].name,
                                             binding_.dims[d], binding_.origins[d]));
            }
        }
        return !diagnostics_.has_errors();
    }

    ir::Environment environment() const { return {binding_.dims, shapes_, {}, {}}; }
    std::optional<std::int64_t> value(ExprId id) const {
        return ir::evaluate(kernel_, id, environment());
    }
    Binding& binding() { return binding_; }

private:
    /// constant + coefficient * dim, the rest known; none if that is not its form.
    struct Linear {
        std::int64_t known = 0;
        std::int64_t coefficient = 0;
        std::uint32_t dim = 0;
        bool solvable = true;

        /// `known` has no place in int64.
        bool overflows = false;
    };

    Linear linear(ExprId id) const {
        Linear result;
        const ir::Affine form = ir::linear(kernel_, id);
        result.known = form.constant;
        for (const ir::Term& term : form.terms) {
            if (const auto v = value(term.atom)) {
                std::int64_t product = 0;
                result.overflows |= __builtin_mul_overflow(term.coefficient, *v, &product) ||
                                    __builtin_add_overflow(result.known, product, &result.known);
                continue;
            }
            const auto [dim, factor] = multiple(term.atom);
            if (factor == 0 || result.coefficient != 0 ||
                __builtin_mul_overflow(term.coefficient, factor, &result.coefficient)) {
                result.solvable = false;
                return result;
            }
            result.dim = dim;
        }
        return result;
    }

    /// A dim without a value, and by what known factors it is multiplied; 0 for anything else.
    std::pair<std::uint32_t, std::int64_t> multiple(ExprId id) const {
        const ir::Expr& e = kernel_[id];
        if (e.kind == ExprKind::Dim) return {e.a, 1};
        if (e.kind != ExprKind::Binary || static_cast<ir::BinaryOp>(e.op) != ir::BinaryOp::Mul) {
            return {0, 0};
        }
        const auto a = value(ExprId{e.a}), b = value(ExprId{e.b});
        if (!a && !b) return {0, 0};
        auto [dim, factor] = multiple(ExprId{a ? e.b : e.a});
        if (__builtin_mul_overflow(factor, a ? *a : *b, &factor)) factor = 0;
        return {dim, factor};
    }

    bool solve_one(std::size_t c) {
        const ir::Constraint& constraint = kernel_.constraints[c];
        if (std::find(failed_.begin(), failed_.end(), c) != failed_.end()) return false;
        const Linear left = linear(constraint.left), right = linear(constraint.right);
        if (!left.solvable || !right.solvable) return false;
        if ((left.coefficient != 0) == (right.coefficient != 0)) return false;
        const Linear& unknown = left.coefficient != 0 ? left : right;
        const Linear& known = left.coefficient != 0 ? right : left;
        const ExprId from = left.coefficient != 0 ? constraint.right : constraint.left;
        const ExprId of = left.coefficient != 0 ? constraint.left : constraint.right;
        std::int64_t rest = 0;
        bool overflows = left.overflows || right.overflows ||
                         __builtin_sub_overflow(known.known, unknown.known, &rest);
        // Its quotient by -1 has no place in int64, and as a dim it is none.
        overflows |= rest == INT64_MIN;
        if (overflows) {
            failed_.push_back(c);
            too_large(constraint);
            return false;
        }
        if (rest % unknown.coefficient != 0) {
            failed_.push_back(c);
            diagnostics_.add(
                constraint.code, constraint.span,
                fmt::format("{} is {}, so {} = {} has no whole solution for '{}'",
                            describe(kernel_, from), known.known, describe(kernel_, of),
                            known.known, kernel_.dims[unknown.dim].name));
            return false;
        }
        binding_.dims[unknown.dim] = rest / unknown.coefficient;
        binding_.origins[unknown.dim] =
            kernel_.is_constant(from)
                ? std::string(constraint.rule == ir::Rule::Declared ? "the caller" : "the text")
                : fmt::format("{} ({})", describe(kernel_, from), to_string(constraint.rule));
        binding_.sources[unknown.dim] = static_cast<int>(c);
        return true;
    }

    void check(std::size_t c) {
        const ir::Constraint& constraint = kernel_.constraints[c];
        const bool has_failed = std::ranges::find(failed_, c) != failed_.end();
        for (const ExprId side : {constraint.left, constraint.right}) {
            const auto fault = fault_of(side);
            if (!has_failed && fault == ir::Fault::Overflow) return too_large(constraint);
            if (fault == ir::Fault::DivisionByZero) {
                diagnostics_.add(Code::E0621, constraint.span,
                                 fmt::format("{} divides by zero", describe(kernel_, side)));
                return;
            }
        }
        const auto left = value(constraint.left), right = value(constraint.right);
        if (!left || !right || *left == *right) return;
        for (const auto& [side, other, there] :
             {std::tuple{constraint.left, constraint.right, *right},
              {constraint.right, constraint.left, *left}}) {
            if (kernel_[side].kind != ExprKind::Dim) continue;
            const std::uint32_t dim = kernel_[side].a;
            const int source = binding_.sources[dim];
            const ir::Constraint& first = kernel_.constraints[std::size_t(std::max(source, 0))];
            auto entry = diagnostics_.add(
                constraint.code, constraint.span,
                fmt::format("dimension '{}' is {} from {} and {} from {}", kernel_.dims[dim].name,
                            binding_.dims[dim],
                            in_place(first.left == side ? first.right : first.left, first), there,
                            in_place(other, constraint)));
            if (source >= 0) entry.note_at(first.span, "it has its value from here");
            return;
        }
        diagnostics_.add(
            constraint.code, constraint.span,
            fmt::format("expected {} and {} to be equal ({}), got {} and {}",
                        describe(kernel_, constraint.left), describe(kernel_, constraint.right),
                        to_string(constraint.rule), *left, *right));
    }

    ir::Fault fault_of(ExprId id) const {
        ir::Fault why = ir::Fault::Unknown;
        return ir::evaluate(kernel_, id, environment(), &why) ? ir::Fault::Unknown : why;
    }

    void too_large(const ir::Constraint& constraint) {
        diagnostics_.add(
            Code::E0506, constraint.span,
            fmt::format(
                "expected {} and {} to be equal ({}), got a number that int64 does not hold",
                describe(kernel_, constraint.left), describe(kernel_, constraint.right),
                to_string(constraint.rule)));
    }

    /// "axis 1 of 'A' (line 8, column 25)"; a number that the host bound has no place.
    std::string in_place(ExprId id, const ir::Constraint& of) const {
        const bool is_number = kernel_.is_constant(id);
        if (is_number && of.rule == ir::Rule::Declared) return "the caller";
        const auto [line, column] = diagnostics_.place(of.span.begin);
        return fmt::format("{} (line {}, column {})",
                           is_number ? "the text" : describe(kernel_, id), line, column);
    }

    const ir::Kernel& kernel_;
    std::span<const Shape> shapes_;
    lang::Diagnostics& diagnostics_;
    Binding binding_;
    std::vector<std::size_t> failed_;
};

void collect_dims(const ir::Kernel& kernel, ExprId id, std::vector<bool>& used) {
    if (!exists(id)) return;
    for (const ExprId each : ir::reachable(kernel, id)) {
        if (kernel[each].kind == ExprKind::Dim) used[kernel[each].a] = true;
    }
}

void collect_dims(const ir::Kernel& kernel, const std::vector<ir::Stmt>& body,
                  std::vector<bool>& used) {
    for (const ir::Stmt& s : body) {
        ir::for_each_expr(s, [&](ExprId e) { collect_dims(kernel, e, used); });
        collect_dims(kernel, s.body, used);
        collect_dims(kernel, s.otherwise, used);
    }
}

/// Every dim that the CIR uses must have its value.
void check_used(const ir::Kernel& kernel, const Binding& binding, lang::Diagnostics& diagnostics) {
    std::vector<bool> used(kernel.dims.size());
    collect_dims(kernel, kernel.body, used);
    for (const ir::Buffer& buffer : kernel.buffers) {
        for (const ExprId e : buffer.shape) collect_dims(kernel, e, used);
    }
    for (std::size_t d = 0; d < used.size(); ++d) {
        if (binding.dims[d] != ir::kUnknown || !used[d]) continue;
        diagnostics
            .add(Code::E0503, kernel.dims[d].span,
                 fmt::format("dimension '{}' has no value", kernel.dims[d].name))
            .help(fmt::format("declare it with an operand's shape, or bind it: arg(\"{}\", value)",
                              kernel.dims[d].name));
    }
}

void shape_output(const ir::Kernel& kernel, const Solver& solver, Binding& binding,
                  lang::Diagnostics& diagnostics) {
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    const lang::Span place = kernel.body.empty() ? out.span : kernel.body.front().span;
    for (const ExprId extent : out.shape) {
        const auto value = solver.value(extent);
        if (!value || *value < 0) {
            diagnostics.add(Code::E0506, place,
                            value ? fmt::format("an extent of 'out' is {}", *value)
                                  : std::string("an extent of 'out' is too large"));
            return;
        }
        binding.output.push_back(*value);
    }
    // At 8 bytes an element, as the storage of tensors counts.
    double elements = 8;
    for (const std::int64_t extent : binding.output) elements *= static_cast<double>(extent);
    if (elements > 4e18) {
        diagnostics.add(
            Code::E0506, place,
            fmt::format("'out' of shape {} is too large", quern::to_string(binding.output)));
    }
}

/// A slice that begins where nothing is has no lane at any point.
void check_slices(const Lowered& lowered, const Solver& solver, std::span<const Shape> shapes,
                  lang::Diagnostics& diagnostics) {
    for (const SliceStart& slice : lowered.slices) {
        const auto start = solver.value(slice.start);
        const std::int64_t extent = shapes[slice.operand][std::size_t(slice.axis)];
        if (!start || (*start >= 0 && *start < extent + !slice.has_stop)) continue;
        if (*start == 0) continue;
        diagnostics.add(Code::E0507, slice.span,
                        fmt::format("expected a slice that begins within axis {} of '{}', which "
                                    "has {} element{}, got {}",
                                    slice.axis, lowered.kernel.buffers[slice.operand].name, extent,
                                    extent == 1 ? "" : "s", *start));
    }
}

}  // namespace

std::optional<Binding> bind(const Lowered& lowered, std::span<const Shape> shapes,
                            const Limits& limits, lang::Diagnostics& diagnostics) {
    const ir::Kernel& kernel = lowered.kernel;
    Solver solver(lowered, shapes, diagnostics);
    if (!solver.solve()) return std::nullopt;
    Binding& binding = solver.binding();
    check_used(kernel, binding, diagnostics);
    if (diagnostics.has_errors()) return std::nullopt;
    check_slices(lowered, solver, shapes, diagnostics);
    shape_output(kernel, solver, binding, diagnostics);
    if (diagnostics.has_errors()) return std::nullopt;
    const ir::Environment environment = solver.environment();
    check_shared(lowered, &environment, limits, diagnostics);
    if (diagnostics.has_errors()) return std::nullopt;
    for (std::int64_t& d : binding.dims) {
        if (d == ir::kUnknown) d = 0;
    }
    return std::move(binding);
}

}  // namespace quern::semantics

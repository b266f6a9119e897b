#include "quern/ir/index.h"
#include "quern/ir/violations.h"

namespace quern::ir {
namespace {

enum class OperandClass : std::uint8_t { Float, Number };

/// What a unary function takes.
OperandClass class_of(UnaryOp op) {
    switch (op) {
#define UNARY(name, each, operand, value) \
    case UnaryOp::each:                   \
        return OperandClass::operand;
#include "quern/lang/functions.def"
        default:
            return OperandClass::Number;
    }
}

bool is_float8(DType d) { return d == DType::Float8E4M3 || d == DType::Float8E5M2; }
bool is_number(DType d) { return d != DType::Bool && !is_float8(d); }

std::string expected(std::string_view what, DType got) {
    return "expected " + std::string(what) + ", got " + std::string(to_string(got));
}

class NodeVerifier {
public:
    NodeVerifier(const Kernel& kernel, Violations& violations) : k_(kernel), out_(violations) {}

    void run() {
        for (std::uint32_t i = 0; i < k_.exprs.size(); ++i) {
            id_ = i;
            node(k_.exprs[i]);
        }
    }

private:
    void fail(std::string_view what, const std::string& problem) {
        out_.add("node " + std::to_string(id_) + " (" + std::string(what) + ")", k_.exprs[id_].span,
                 problem);
    }

    bool in_range(std::string_view what, std::uint32_t index, std::size_t size) {
        if (index < size) return true;
        fail(what,
             "expected an index below " + std::to_string(size) + ", got " + std::to_string(index));
        return false;
    }

    /// An operand, which is there before its user.
    bool operand(std::string_view what, std::uint32_t child) {
        if (child < id_) return true;
        fail(what, "expected operands with smaller ids, got " + std::to_string(child));
        return false;
    }

    DType dtype_of(std::uint32_t child) const { return k_.exprs[child].dtype; }

    void same(std::string_view what, DType wanted, DType got) {
        if (wanted != got) fail(what, expected(to_string(wanted), got));
    }

    void node(const Expr& e) {
        if (static_cast<int>(e.dtype) >= kDTypeCount) return fail("node", "unknown dtype");
        switch (e.kind) {
            case ExprKind::Const:
                return;
            case ExprKind::Dim:
                if (in_range("dim", e.a, k_.dims.size())) same("dim", DType::Int64, e.dtype);
                return;
            case ExprKind::Extent:
                if (in_range("extent", e.a,
                             std::min<std::size_t>(k_.operand_count, k_.buffers.size())) &&
                    in_range("extent", e.b, k_.buffers[e.a].shape.size())) {
                    same("extent", DType::Int64, e.dtype);
                }
                return;
            case ExprKind::Scalar:
                if (in_range("scalar", e.a, k_.scalars.size())) {
                    same("scalar", k_.scalars[e.a].dtype, e.dtype);
                }
                return;
            case ExprKind::Symbol:
                if (in_range("symbol", e.a, k_.symbols.size())) {
                    same("symbol", k_.symbols[e.a].dtype, e.dtype);
                }
                return;
            case ExprKind::Load:
                return load(e);
            case ExprKind::Unary:
                return unary(e);
            case ExprKind::Binary:
                return binary(e);
            case ExprKind::Select:
                if (!operand("select", e.a) || !operand("select", e.b) || !operand("select", e.c)) {
                    return;
                }
                same("select", DType::Bool, dtype_of(e.a));
                same("select", e.dtype, dtype_of(e.b));
                same("select", e.dtype, dtype_of(e.c));
                return;
            case ExprKind::Cast:
                if (operand("cast", e.a) && dtype_of(e.a) == e.dtype) {
                    fail("cast", "expected another dtype than " + std::string(to_string(e.dtype)));
                }
                return;
        }
        fail("node", "unknown kind");
    }

    void load(const Expr& e) {
        if (!in_range("load", e.a, k_.buffers.size())) return;
        const Buffer& b = k_.buffers[e.a];
        const std::string what = "load of '" + b.name + "'";
        same(what, b.dtype, e.dtype);
        if (std::uint64_t{e.b} + e.count > k_.index_pool.size()) {
            return fail(what, "indices outside the pool");
        }
        if (e.count != b.shape.size()) {
            fail(what, "expected " + std::to_string(b.shape.size()) + " indices, got " +
                           std::to_string(e.count));
        }
        for (int i = 0; i < e.count; ++i) {
            const auto index = static_cast<std::uint32_t>(k_.index_of(e, i));
            if (operand(what, index)) same(what, DType::Int64, dtype_of(index));
        }
    }

    void unary(const Expr& e) {
        const auto op = static_cast<UnaryOp>(e.op);
        const std::string_view what = to_string(op);
        if (what == "?") return fail("unary", "unknown operator");
        if (!operand(what, e.a)) return;
        const DType x = dtype_of(e.a);
        switch (op) {
            case UnaryOp::Not:
                if (x != DType::Bool) fail(what, expected("bool", x));
                return same(what, DType::Bool, e.dtype);
            case UnaryOp::IsNan:
                if (!is_floating(x) || is_float8(x)) fail(what, expected("a floating dtype", x));
                return same(what, DType::Bool, e.dtype);
            default:
                break;
        }
        if (!is_number(x)) {
            fail(what, expected("a number", x));
        } else if (class_of(op) == OperandClass::Float && !is_floating(x)) {
            fail(what, expected("a floating dtype", x));
        }
        same(what, x, e.dtype);
    }

    void binary(const Expr& e) {
        const auto op = static_cast<BinaryOp>(e.op);
        const std::string_view what = to_string(op);
        if (what == "?") return fail("binary", "unknown operator");
        if (!operand(what, e.a) || !operand(what, e.b)) return;
        const DType x = dtype_of(e.a);
        same(what, x, dtype_of(e.b));
        if (is_float8(x)) fail(what, expected("a dtype of arithmetic", x));
        switch (op) {
            case BinaryOp::Less:
            case BinaryOp::LessEqual:
            case BinaryOp::Equal:
            case BinaryOp::NotEqual:
                return same(what, DType::Bool, e.dtype);
            case BinaryOp::And:
            case BinaryOp::Or:
                if (x != DType::Bool) fail(what, expected("bool", x));
                break;
            case BinaryOp::Min:
            case BinaryOp::Max:
                break;
            case BinaryOp::FloorDiv:
                if (!is_integer(x)) fail(what, expected("an integer dtype", x));
                break;
            default:
                if (x == DType::Bool) fail(what, expected("a number", x));
        }
        same(what, x, e.dtype);
    }

    const Kernel& k_;
    Violations& out_;
    std::uint32_t id_ = 0;
};

}  // namespace

void verify_nodes(const Kernel& kernel, Violations& violations) {
    NodeVerifier(kernel, violations).run();
}

}  // namespace quern::ir

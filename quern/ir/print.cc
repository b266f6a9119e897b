#include "quern/ir/print.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "quern/ir/token.h"

namespace quern::ir {
namespace {

/// How tightly an expression binds.
enum Level : int { kOr, kAnd, kNot, kCompare, kSum, kTerm, kUnary, kPrimary };

/// Deeper expressions are cut: no program that people write comes near.
constexpr int kMostPrinted = 1000;

struct Infix {
    std::string_view text;
    Level level;
};

/// An empty text is a function.
Infix infix(BinaryOp op) {
    switch (op) {
        case BinaryOp::Or:
            return {"or", kOr};
        case BinaryOp::And:
            return {"and", kAnd};
        case BinaryOp::Less:
            return {"<", kCompare};
        case BinaryOp::LessEqual:
            return {"<=", kCompare};
        case BinaryOp::Equal:
            return {"==", kCompare};
        case BinaryOp::NotEqual:
            return {"!=", kCompare};
        case BinaryOp::Add:
            return {"+", kSum};
        case BinaryOp::Sub:
            return {"-", kSum};
        case BinaryOp::Mul:
            return {"*", kTerm};
        case BinaryOp::Div:
            return {"/", kTerm};
        case BinaryOp::Rem:
            return {"%", kTerm};
        case BinaryOp::FloorDiv:
            return {"//", kTerm};
        default:
            return {"", kPrimary};
    }
}

/// Letters and digits, with single dots between them.
bool is_word(std::string_view name) {
    if (name.empty() || !is_letter(name[0]) || name.back() == '.') return false;
    char before = 0;
    for (const char c : name) {
        if (c == '.' ? before == '.' : !is_letter(c) && !is_digit(c)) return false;
        before = c;
    }
    return true;
}

std::string quoted(std::string_view name) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string text = "`";
    for (const char c : name) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '`' || c == '\\' || byte < 0x20 || byte == 0x7f) {
            text += "\\x";
            text += digits[byte >> 4];
            text += digits[byte & 15];
        } else {
            text += c;
        }
    }
    return text + '`';
}

template <class Number>
std::string decimal(Number value) {
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    return std::string(buffer, end);
}

std::string floating_text(double value) {
    const std::string sign = std::signbit(value) ? "-" : "";
    if (std::isinf(value)) return sign + "inf";
    if (std::isnan(value)) {
        const auto bits = std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63);
        const auto usual = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::quiet_NaN());
        return sign + (bits == usual ? "nan" : "nan(" + decimal(bits) + ")");
    }
    std::string text = decimal(value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

class Printer {
public:
    Printer(const Kernel& kernel, const PrintOptions& options) : k_(kernel), options_(options) {
        for (const Buffer& b : k_.buffers) {
            buffers_.push_back(unique(b.name));
            if (buffers_.size() <= k_.operand_count) operands_.insert(buffers_.back());
        }
        for (const Dim& d : k_.dims) dims_.push_back(unique(d.name));
        for (const Scalar& s : k_.scalars) scalars_.push_back(unique(s.name));
        for (const Symbol& s : k_.symbols) symbols_.push_back(unique(s.name));
    }

    std::string kernel() {
        text_ = "kernel " + spelled(k_.name);
        if (!k_.kind.empty()) text_ += " : " + spelled(k_.kind);
        if (k_.cooperative) text_ += " cooperative";
        header();
        for (std::size_t i = 0; i < k_.buffers.size() && i <= k_.operand_count; ++i) {
            text_ += i < k_.operand_count ? "    operand " : "    output ";
            declare(static_cast<BufferId>(i));
            text_ += '\n';
        }
        for (const Constraint& c : k_.constraints) {
            text_ += "    require ";
            expression(c.left, kSum, 0);
            text_ += " == ";
            expression(c.right, kSum, 0);
            text_ += ' ';
            text_ += to_string(c.rule);
            text_ += ' ';
            text_ += lang::to_string(c.code);
            span(c.span, " @@");
            text_ += '\n';
        }
        block(k_.body, 1);
        text_ += "}\n";
        return std::move(text_);
    }

    std::string one(ExprId id) {
        expression(id, kOr, 0);
        return std::move(text_);
    }

private:
    std::string unique(const std::string& name) {
        std::string candidate = name;
        for (int n = 1; !used_.insert(candidate).second; ++n) {
            candidate = name + '.' + decimal(n);
        }
        return candidate;
    }

    std::string spelled(const std::string& name) const {
        const std::size_t dot = name.rfind('.');
        const bool is_extent =
            dot != std::string::npos && operands_.contains(name.substr(0, dot)) &&
            std::all_of(name.begin() + std::ptrdiff_t(dot) + 1, name.end(), is_digit);
        return is_word(name) && !is_reserved(name) && !is_extent ? name : quoted(name);
    }

    std::string name_of(const std::vector<std::string>& names, std::uint32_t index) const {
        return index < names.size() ? spelled(names[index]) : "?" + decimal(index);
    }

    void span(Span s, std::string_view mark = "@") {
        if (!options_.spans || s == Span{}) return;
        text_ += mark;
        text_ += decimal(s.begin) + '+' + decimal(s.length);
    }

    void header() {
        int sizes = 3;
        while (sizes > 0 && k_.workgroup[sizes - 1] == 0) --sizes;
        for (int i = 0; i < sizes; ++i) {
            text_ += i ? ", " : " workgroup(";
            text_ += decimal(k_.workgroup[i]);
        }
        text_ += sizes ? ") {\n" : " {\n";
        for (std::size_t i = 0; i < k_.dims.size(); ++i) {
            text_ += i ? ", " : "    dim ";
            text_ += spelled(dims_[i]);
            span(k_.dims[i].span);
        }
        if (!k_.dims.empty()) text_ += '\n';
        for (std::size_t i = 0; i < k_.scalars.size(); ++i) {
            text_ += i ? ", " : "    scalar ";
            text_ += spelled(scalars_[i]);
            span(k_.scalars[i].span);
            text_ += ": ";
            text_ += quern::to_string(k_.scalars[i].dtype);
        }
        if (!k_.scalars.empty()) text_ += '\n';
    }

    void declare(BufferId id) {
        const Buffer& b = k_.buffers[id];
        text_ += name_of(buffers_, id);
        span(b.span);
        text_ += ": ";
        text_ += quern::to_string(b.dtype);
        list('[', b.shape, ']', 0);
        if (b.flat) text_ += " flat";
    }

    void list(char open, const std::vector<ExprId>& ids, char close, int depth) {
        text_ += open;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (i) text_ += ", ";
            expression(ids[i], kOr, depth + 1);
        }
        text_ += close;
    }

    static Level level_of(const Kernel& k, const Expr& e, ExprId id) {
        if (e.kind == ExprKind::Binary) return infix(static_cast<BinaryOp>(e.op)).level;
        if (e.kind == ExprKind::Unary) {
            if (e.op == static_cast<std::uint8_t>(UnaryOp::Not)) return kNot;
            return e.op == static_cast<std::uint8_t>(UnaryOp::Neg) ? kUnary : kPrimary;
        }
        if (e.kind != ExprKind::Const) return kPrimary;
        const bool negative =
            is_floating(e.dtype) ? std::signbit(k.floating_value(id)) : k.integer_value(id) < 0;
        return negative ? kUnary : kPrimary;
    }

    void expression(ExprId id, Level least, int depth) {
        if (static_cast<std::uint32_t>(id) >= k_.exprs.size() || depth > kMostPrinted) {
            text_ += exists(id) && depth > kMostPrinted ? "..." : "?";
            return;
        }
        const Expr& e = k_[id];
        const bool parentheses = level_of(k_, e, id) < least;
        if (parentheses) text_ += '(';
        node(e, id, depth);
        if (parentheses) text_ += ')';
    }

    void node(const Expr& e, ExprId id, int depth) {
        switch (e.kind) {
            case ExprKind::Const:
                constant(e, id);
                break;
            case ExprKind::Dim:
                text_ += name_of(dims_, e.a);
                break;
            case ExprKind::Extent:
                text_ += name_of(buffers_, e.a) + '.' + decimal(e.b);
                break;
            case ExprKind::Scalar:
                text_ += name_of(scalars_, e.a);
                break;
            case ExprKind::Symbol:
                text_ += name_of(symbols_, e.a);
                break;
            case ExprKind::Load: {
                text_ += name_of(buffers_, e.a);
                std::vector<ExprId> indices;
                for (std::uint32_t i = 0; i < e.count && e.b + i < k_.index_pool.size(); ++i) {
                    indices.push_back(k_.index_pool[e.b + i]);
                }
                list('[', indices, ']', depth);
                break;
            }
            case ExprKind::Unary:
                unary(e, depth);
                return;
            case ExprKind::Binary:
                if (infix(static_cast<BinaryOp>(e.op)).text.empty()) {
                    text_ += to_string(static_cast<BinaryOp>(e.op));
                    list('(', {ExprId{e.a}, ExprId{e.b}}, ')', depth);
                    break;
                }
                chain(id, depth);
                return;
            case ExprKind::Select:
                text_ += "select";
                list('(', {ExprId{e.a}, ExprId{e.b}, ExprId{e.c}}, ')', depth);
                break;
            case ExprKind::Cast:
                text_ += quern::to_string(e.dtype);
                list('(', {ExprId{e.a}}, ')', depth);
                break;
        }
        span(e.span);
    }

    void constant(const Expr& e, ExprId id) {
        if (e.dtype == DType::Bool) {
            text_ += k_.integer_value(id) ? "true" : "false";
            return;
        }
        const bool floats = is_floating(e.dtype);
        text_ += floats ? floating_text(k_.floating_value(id)) : decimal(k_.integer_value(id));
        if (e.dtype == DType::Float32 || e.dtype == DType::Int64) return;
        text_ += ':';
        text_ += quern::to_string(e.dtype);
    }

    void unary(const Expr& e, int depth) {
        const auto op = static_cast<UnaryOp>(e.op);
        if (op == UnaryOp::Not || op == UnaryOp::Neg) {
            text_ += op == UnaryOp::Not ? "not" : "-";
            span(e.span);
            if (op == UnaryOp::Not) text_ += ' ';
            // -2.0 is a literal, -(2.0) the negative of one.
            const bool literal = op == UnaryOp::Neg && e.a < k_.exprs.size() &&
                                 k_[ExprId{e.a}].kind == ExprKind::Const &&
                                 level_of(k_, k_[ExprId{e.a}], ExprId{e.a}) == kPrimary;
            if (literal) {
                list('(', {ExprId{e.a}}, ')', depth);
            } else {
                expression(ExprId{e.a}, op == UnaryOp::Not ? kNot : kUnary, depth + 1);
            }
            return;
        }
        text_ += to_string(op);
        list('(', {ExprId{e.a}}, ')', depth);
        span(e.span);
    }

    /// A run of operators of one level, left to right; long sums must not cost stack.
    void chain(ExprId id, int depth) {
        const Level level = infix(static_cast<BinaryOp>(k_[id].op)).level;
        std::vector<ExprId> links{id};
        while (level != kCompare) {
            const std::uint32_t left = k_[links.back()].a;
            if (left >= static_cast<std::uint32_t>(links.back())) break;
            const Expr& e = k_[ExprId{left}];
            const bool goes_on = e.kind == ExprKind::Binary &&
                                 infix(static_cast<BinaryOp>(e.op)).level == level &&
                                 !infix(static_cast<BinaryOp>(e.op)).text.empty();
            if (!goes_on) break;
            links.push_back(ExprId{left});
        }
        const auto tighter = static_cast<Level>(level + 1);
        expression(ExprId{k_[links.back()].a}, level == kCompare ? tighter : level, depth + 1);
        for (auto link = links.rbegin(); link != links.rend(); ++link) {
            const Expr& e = k_[*link];
            text_ += ' ';
            text_ += infix(static_cast<BinaryOp>(e.op)).text;
            span(e.span);
            text_ += ' ';
            expression(ExprId{e.b}, tighter, depth + 1);
        }
    }

    void block(const std::vector<Stmt>& statements, int indent) {
        for (const Stmt& s : statements) {
            text_.append(std::size_t(indent) * 4, ' ');
            statement(s, indent);
            text_ += '\n';
        }
    }

    void braces(const std::vector<Stmt>& statements, int indent) {
        text_ += "{\n";
        block(statements, indent + 1);
        text_.append(std::size_t(indent) * 4, ' ');
        text_ += '}';
    }

    void declare_symbol(SymbolId id) {
        text_ += name_of(symbols_, id);
        if (id < k_.symbols.size()) span(k_.symbols[id].span);
    }

    void statement(const Stmt& s, int indent) {
        switch (s.kind) {
            case StmtKind::Let:
            case StmtKind::Var:
                text_ += s.kind == StmtKind::Let ? "let " : "var ";
                declare_symbol(s.symbol);
                text_ += ": ";
                if (s.symbol < k_.symbols.size())
                    text_ += quern::to_string(k_.symbols[s.symbol].dtype);
                text_ += " = ";
                expression(s.value, kOr, 0);
                break;
            case StmtKind::Assign:
                text_ += name_of(symbols_, s.symbol) + " = ";
                expression(s.value, kOr, 0);
                break;
            case StmtKind::Accumulate:
                text_ += name_of(symbols_, s.symbol) + ' ';
                if (s.op == BinaryOp::Add || s.op == BinaryOp::Mul) {
                    text_ += s.op == BinaryOp::Add ? '+' : '*';
                } else {
                    text_ += to_string(s.op);
                }
                text_ += "= ";
                expression(s.value, kOr, 0);
                break;
            case StmtKind::ArgReduce:
                text_ += s.op == BinaryOp::Less ? "argmin " : "argmax ";
                text_ +=
                    name_of(symbols_, s.symbol) + ", " + name_of(symbols_, s.index_symbol) + " = ";
                expression(s.value, kOr, 0);
                text_ += ", ";
                expression(s.index, kOr, 0);
                break;
            case StmtKind::For:
                loop(s, indent);
                return;
            case StmtKind::If:
                branch(s, indent);
                return;
            case StmtKind::Alloc: {
                const bool known = s.buffer < k_.buffers.size();
                const BufferKind kind = known ? k_.buffers[s.buffer].kind : BufferKind::Operand;
                if (kind == BufferKind::Local || kind == BufferKind::Shared) {
                    text_ += kind == BufferKind::Local ? "local " : "shared ";
                    declare(s.buffer);
                } else {
                    text_ += "alloc " + name_of(buffers_, s.buffer);
                }
                break;
            }
            case StmtKind::Store:
                text_ += name_of(buffers_, s.buffer);
                list('[', s.indices, ']', 0);
                text_ += " = ";
                expression(s.value, kOr, 0);
                break;
            case StmtKind::Barrier:
                text_ += "barrier";
                break;
            case StmtKind::Check:
                text_ += "check ";
                expression(s.value, kOr, 0);
                text_ += ' ';
                text_ += lang::to_string(s.code);
                break;
        }
        span(s.span, " @@");
    }

    void loop(const Stmt& s, int indent) {
        text_ += s.parallel ? "parallel for " : "for ";
        declare_symbol(s.symbol);
        text_ += " in ";
        expression(s.value, kSum, 0);
        text_ += "..";
        expression(s.end, kSum, 0);
        if (!(static_cast<std::uint32_t>(s.step) < k_.exprs.size() && k_.is_constant(s.step, 1))) {
            text_ += " step ";
            expression(s.step, kSum, 0);
        }
        for (std::size_t i = 0; i < s.reduces.size(); ++i) {
            text_ += i ? ", " : " reduces ";
            text_ += name_of(symbols_, s.reduces[i]);
        }
        span(s.span, " @@");
        text_ += ' ';
        braces(s.body, indent);
    }

    void branch(const Stmt& s, int indent) {
        text_ += "if ";
        expression(s.value, kOr, 0);
        span(s.span, " @@");
        text_ += ' ';
        braces(s.body, indent);
        if (s.otherwise.empty()) return;
        text_ += " else ";
        if (s.otherwise.size() == 1 && s.otherwise[0].kind == StmtKind::If) {
            branch(s.otherwise[0], indent);
        } else {
            braces(s.otherwise, indent);
        }
    }

    const Kernel& k_;
    PrintOptions options_;
    std::string text_;
    std::unordered_set<std::string> used_, operands_;
    std::vector<std::string> buffers_, dims_, scalars_, symbols_;
};

}  // namespace

bool is_reserved(std::string_view word) {
    constexpr std::string_view words[] = {
        "and",    "or",       "not",  "true",   "false",   "inf",    "nan",     "let",   "var",
        "for",    "if",       "else", "local",  "shared",  "alloc",  "barrier", "check", "argmin",
        "argmax", "parallel", "dim",  "scalar", "operand", "output", "require"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::string_view to_string(Rule rule) {
    switch (rule) {
        case Rule::Declared:
            return "declared";
        case Rule::BareIndex:
            return "bare_index";
        case Rule::Slice:
            return "slice";
        case Rule::Guard:
            return "guard";
        case Rule::Tile:
            return "tile";
        case Rule::Range:
            return "range";
        case Rule::Schema:
            return "schema";
        case Rule::Strided:
            return "strided";
        case Rule::SameShape:
            return "same_shape";
    }
    return "?";
}

std::string print(const Kernel& kernel, const PrintOptions& options) {
    return Printer(kernel, options).kernel();
}

std::string print(const Kernel& kernel, ExprId id) { return Printer(kernel, {}).one(id); }

namespace {

/// A number that tells kernels apart by their expressions and where these are used.
class Digest {
public:
    explicit Digest(const Kernel& kernel) {
        for (const Expr& e : kernel.exprs) {
            mix(std::uint64_t(e.kind) | std::uint64_t(e.op) << 8 | std::uint64_t(e.dtype) << 16 |
                std::uint64_t(e.count) << 24 | std::uint64_t(e.a) << 32);
            mix(std::uint64_t(e.b) | std::uint64_t(e.c) << 32);
        }
        mix(kernel.index_pool);
        for (const Buffer& buffer : kernel.buffers) mix(buffer.shape);
        for (const Constraint& c : kernel.constraints) mix(std::vector{c.left, c.right});
        mix(kernel.body);
    }

    std::uint64_t value() const { return value_; }

private:
    void mix(std::uint64_t value) {
        value_ = (value_ ^ value) * 0x9e3779b97f4a7c15ull;
        value_ ^= value_ >> 29;
    }

    void mix(const std::vector<ExprId>& ids) {
        mix(ids.size());
        for (const ExprId id : ids) mix(std::uint64_t(id));
    }

    void mix(const std::vector<Stmt>& block) {
        mix(block.size());
        for (const Stmt& s : block) {
            mix(std::vector{s.value, s.end, s.step, s.index});
            mix(s.indices);
            mix(s.body);
            mix(s.otherwise);
        }
    }

    std::uint64_t value_ = 0xcbf29ce484222325ull;
};

}  // namespace

std::string identity(const Kernel& kernel) {
    return print(kernel) + "# " + std::to_string(Digest(kernel).value()) + '\n';
}

}  // namespace quern::ir

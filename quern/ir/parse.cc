#include "quern/ir/parse.h"

#include <bit>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "quern/ir/print.h"
#include "quern/ir/token.h"

namespace quern::ir {
namespace {

/// Parentheses, signs and blocks inside each other.
constexpr int kMostDepth = 200;
constexpr std::size_t kMostIndices = 255;

enum class NameKind : std::uint8_t { Dim, Scalar, Buffer, Symbol };

struct Name {
    NameKind kind = NameKind::Dim;
    std::uint32_t index = 0;
};

std::optional<Code> code_from_string(std::string_view text) {
    constexpr Code all[] = {
#define CODE(code, enumerator, title) Code::code,
#include "quern/lang/codes.def"
#undef CODE
    };
    for (const Code each : all) {
        if (lang::to_string(each) == text) return each;
    }
    return std::nullopt;
}

std::optional<Rule> rule_from_string(std::string_view text) {
    for (int i = 0; i <= static_cast<int>(Rule::SameShape); ++i) {
        if (to_string(static_cast<Rule>(i)) == text) return static_cast<Rule>(i);
    }
    return std::nullopt;
}

std::optional<UnaryOp> unary_function(std::string_view name) {
    if (name == "isnan") return UnaryOp::IsNan;
#define UNARY(text, op, operand, value) \
    if (name == #text) return UnaryOp::op;
#include "quern/lang/functions.def"
    return std::nullopt;
}

std::optional<BinaryOp> binary_function(std::string_view name) {
#define BINARY(text, op, value) \
    if (name == #text) return BinaryOp::op;
#include "quern/lang/functions.def"
    return std::nullopt;
}

/// The operator that `op=` accumulates with, by the name that to_string gives.
std::optional<BinaryOp> accumulation(std::string_view name) {
    for (int i = 0; i <= static_cast<int>(BinaryOp::Pow); ++i) {
        if (to_string(static_cast<BinaryOp>(i)) == name) return static_cast<BinaryOp>(i);
    }
    return std::nullopt;
}

/// A recursive descent. After the first error every step returns at once: `failed_` is asked
/// wherever something is read, and kNoExpr never reaches the kernel.
class Parser {
public:
    explicit Parser(std::string_view text) : tokens_(text) { token_ = tokens_.next(); }

    std::optional<Kernel> kernel(std::string& error) {
        head();
        if (expect("{")) {
            declarations();
            block(k_.body);
            if (!failed_ && token_.kind != Token::Kind::End) fail("the end of the text");
        }
        if (failed_) {
            error = error_;
            return std::nullopt;
        }
        return std::move(k_);
    }

private:
    // Tokens.

    void advance() {
        last_line_ = token_.line;
        token_ = tokens_.next();
    }

    void fail_at(int line, const std::string& message) {
        if (failed_) return;
        failed_ = true;
        error_ = "line " + std::to_string(line) + ": " + message;
    }

    /// About what has been read, not about the present token.
    void fail_with(const std::string& message) { fail_at(last_line_, message); }

    void fail(std::string_view expected) {
        const bool plain = token_.kind == Token::Kind::End || token_.kind == Token::Kind::Bad;
        fail_at(token_.line, "expected " + std::string(expected) + ", got " +
                                 (plain ? token_.text : "'" + token_.text + "'"));
    }

    bool accept(std::string_view op) {
        if (failed_ || !token_.is_op(op)) return false;
        advance();
        return true;
    }

    bool expect(std::string_view op) {
        if (accept(op)) return true;
        fail("'" + std::string(op) + "'");
        return false;
    }

    bool accept_word(std::string_view word) {
        if (failed_ || !token_.is_word(word)) return false;
        advance();
        return true;
    }

    std::string name() {
        const bool is_name = token_.kind == Token::Kind::Quoted ||
                             (token_.kind == Token::Kind::Word && !is_reserved(token_.text));
        if (failed_ || !is_name) {
            fail("a name");
            return {};
        }
        std::string result = std::move(token_.text);
        advance();
        return result;
    }

    std::uint64_t integer(std::uint64_t most) {
        std::uint64_t value = 0;
        const char* end = token_.text.data() + token_.text.size();
        if (failed_ || token_.kind != Token::Kind::Int) {
            fail("a whole number");
            return 0;
        }
        const auto [stop, problem] = std::from_chars(token_.text.data(), end, value);
        if (problem != std::errc() || stop != end || value > most) {
            fail("a whole number up to " + std::to_string(most));
            return 0;
        }
        advance();
        return value;
    }

    /// `@` for an operand or operator, `@@` for a statement, which may end with one.
    Span span(std::string_view mark = "@") {
        if (!accept(mark)) return {};
        constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
        const auto begin = static_cast<std::uint32_t>(integer(most));
        expect("+");
        return {begin, static_cast<std::uint32_t>(integer(most))};
    }

    DType dtype() {
        const auto result =
            token_.kind == Token::Kind::Word ? dtype_from_string(token_.text) : std::nullopt;
        if (failed_ || !result) {
            fail("a dtype");
            return DType::Int64;
        }
        advance();
        return *result;
    }

    void declare(const std::string& text, NameKind kind, std::size_t index) {
        if (failed_) return;
        if (!names_.emplace(text, Name{kind, static_cast<std::uint32_t>(index)}).second) {
            fail_with("expected a new name, got '" + text + "' again");
        }
    }

    /// A declared thing of one kind, for the left side of statements.
    std::uint32_t declared(NameKind kind, std::string_view what) {
        if (failed_) return kNone;
        const auto found = names_.find(token_.text);
        const bool is_name = token_.kind == Token::Kind::Quoted || token_.kind == Token::Kind::Word;
        if (!is_name || found == names_.end() || found->second.kind != kind) {
            fail(what);
            return kNone;
        }
        advance();
        return found->second.index;
    }

    // Declarations.

    void head() {
        if (!accept_word("kernel")) return fail("'kernel'");
        k_.name = name();
        if (accept(":")) k_.kind = name();
        k_.cooperative = accept_word("cooperative");
        if (!accept_word("workgroup")) return;
        expect("(");
        int n = 0;
        do {
            if (n == 3) return fail("')' after three sizes");
            const bool negative = accept("-");
            const auto size = static_cast<std::int64_t>(integer(INT64_MAX));
            k_.workgroup[n++] = negative ? -size : size;
        } while (accept(","));
        expect(")");
    }

    void declarations() {
        while (!failed_) {
            if (accept_word("dim")) {
                do {
                    std::string text = name();
                    declare(text, NameKind::Dim, k_.dims.size());
                    k_.dims.push_back({std::move(text), span()});
                } while (accept(","));
            } else if (accept_word("scalar")) {
                do {
                    std::string text = name();
                    declare(text, NameKind::Scalar, k_.scalars.size());
                    const Span where = span();
                    expect(":");
                    k_.scalars.push_back({std::move(text), dtype(), where});
                } while (accept(","));
            } else if (token_.is_word("operand") || token_.is_word("output")) {
                const bool operand = token_.is_word("operand");
                if (k_.buffers.size() > k_.operand_count) {
                    return fail("no buffer after the output");
                }
                advance();
                if (operand) ++k_.operand_count;
                buffer(operand ? BufferKind::Operand : BufferKind::Output);
            } else if (accept_word("require")) {
                Constraint c;
                c.left = expression(kSum);
                expect("==");
                c.right = expression(kSum);
                const auto rule = rule_from_string(token_.text);
                if (!failed_ && !rule) return fail("a rule such as 'bare_index'");
                advance();
                c.rule = rule.value_or(c.rule);
                c.code = code();
                c.span = span("@@");
                k_.constraints.push_back(c);
            } else {
                break;
            }
        }
        if (!failed_ && k_.buffers.size() == k_.operand_count) fail("'output'");
    }

    Code code() {
        const auto result = code_from_string(token_.text);
        if (failed_ || !result) {
            fail("a code such as 'E0501'");
            return Code::E0501;
        }
        advance();
        return *result;
    }

    BufferId buffer(BufferKind kind) {
        const auto id = static_cast<BufferId>(k_.buffers.size());
        Buffer b;
        b.kind = kind;
        b.name = name();
        declare(b.name, NameKind::Buffer, id);
        b.span = span();
        expect(":");
        b.dtype = dtype();
        k_.buffers.push_back(b);
        std::vector<ExprId> shape = list("[", "]");
        k_.buffers[id].shape = std::move(shape);
        k_.buffers[id].flat = accept_word("flat");
        return id;
    }

    SymbolId symbol(SymbolKind kind, DType dtype, const std::string& text, Span where) {
        declare(text, NameKind::Symbol, k_.symbols.size());
        return k_.add_symbol(kind, dtype, text, where);
    }

    // Statements.

    void block(std::vector<Stmt>& statements) {
        if (!enter()) return;
        while (!failed_ && !token_.is_op("}")) {
            Stmt s;
            statement(s);
            statements.push_back(std::move(s));
        }
        expect("}");
        --depth_;
    }

    void statement(Stmt& s) {
        if (token_.is_word("let") || token_.is_word("var")) return declaration(s);
        if (token_.is_word("for") || token_.is_word("parallel")) return loop(s);
        if (accept_word("if")) return branch(s);
        if (accept_word("barrier")) {
            s.kind = StmtKind::Barrier;
        } else if (accept_word("check")) {
            s.kind = StmtKind::Check;
            s.value = expression(kOr);
            s.code = code();
        } else if (token_.is_word("local") || token_.is_word("shared")) {
            s.kind = StmtKind::Alloc;
            const bool local = token_.is_word("local");
            advance();
            s.buffer = buffer(local ? BufferKind::Local : BufferKind::Shared);
        } else if (accept_word("alloc")) {
            s.kind = StmtKind::Alloc;
            s.buffer = declared(NameKind::Buffer, "a buffer");
        } else if (token_.is_word("argmin") || token_.is_word("argmax")) {
            s.kind = StmtKind::ArgReduce;
            s.op = token_.is_word("argmin") ? BinaryOp::Less : BinaryOp::Max;
            advance();
            s.symbol = declared(NameKind::Symbol, "a var");
            expect(",");
            s.index_symbol = declared(NameKind::Symbol, "a var");
            expect("=");
            s.value = expression(kOr);
            expect(",");
            s.index = expression(kOr);
        } else {
            assignment(s);
        }
        s.span = span("@@");
    }

    void declaration(Stmt& s) {
        const bool let = token_.is_word("let");
        advance();
        s.kind = let ? StmtKind::Let : StmtKind::Var;
        const std::string text = name();
        const Span where = span();
        expect(":");
        const DType type = dtype();
        expect("=");
        s.value = expression(kOr);
        s.symbol = symbol(let ? SymbolKind::Let : SymbolKind::Var, type, text, where);
        s.span = span("@@");
    }

    void loop(Stmt& s) {
        s.kind = StmtKind::For;
        s.parallel = accept_word("parallel");
        if (!accept_word("for")) return fail("'for'");
        const std::string text = name();
        const Span where = span();
        if (!accept_word("in")) return fail("'in'");
        s.value = expression(kSum);
        expect("..");
        s.end = expression(kSum);
        s.step = accept_word("step") ? expression(kSum) : k_.integer(1);
        s.symbol = symbol(SymbolKind::Loop, DType::Int64, text, where);
        if (accept_word("reduces")) {
            do {
                s.reduces.push_back(declared(NameKind::Symbol, "a var"));
            } while (accept(","));
        }
        s.span = span("@@");
        if (expect("{")) block(s.body);
    }

    void branch(Stmt& s) {
        s.kind = StmtKind::If;
        s.value = expression(kOr);
        s.span = span("@@");
        if (expect("{")) block(s.body);
        if (!accept_word("else")) return;
        if (accept("{")) {
            block(s.otherwise);
        } else if (accept_word("if")) {
            if (!enter()) return;
            Stmt inner;
            branch(inner);
            s.otherwise.push_back(std::move(inner));
            --depth_;
        } else {
            fail("'{' or 'if'");
        }
    }

    void assignment(Stmt& s) {
        const auto found = names_.find(token_.text);
        if (token_.kind == Token::Kind::Word && is_reserved(token_.text))
            return fail("a statement");
        if (found != names_.end() && found->second.kind == NameKind::Buffer) {
            s.kind = StmtKind::Store;
            s.buffer = declared(NameKind::Buffer, "a buffer");
            s.indices = list("[", "]");
            expect("=");
            s.value = expression(kOr);
            return;
        }
        s.symbol = declared(NameKind::Symbol, "a statement");
        s.kind = StmtKind::Assign;
        if (!accept("=")) {
            s.kind = StmtKind::Accumulate;
            std::optional<BinaryOp> op;
            if (accept("+=")) {
                op = BinaryOp::Add;
            } else if (accept("*=")) {
                op = BinaryOp::Mul;
            } else if (token_.kind == Token::Kind::Word && (op = accumulation(token_.text))) {
                advance();
                expect("=");
            }
            if (!op) return fail("'=' or an operator such as '+='");
            s.op = *op;
        }
        s.value = expression(kOr);
    }

    // Expressions.

    enum Level : int { kOr, kAnd, kNot, kCompare, kSum, kTerm, kUnary };

    std::vector<ExprId> list(std::string_view open, std::string_view close) {
        std::vector<ExprId> result;
        if (!expect(open) || accept(close)) return result;
        do {
            if (result.size() == kMostIndices) {
                fail("at most 255 elements");
                break;
            }
            result.push_back(expression(kOr));
        } while (accept(","));
        expect(close);
        return result;
    }

    std::optional<BinaryOp> infix(int level) const {
        const auto one_of = [&](std::initializer_list<std::pair<std::string_view, BinaryOp>> rows)
            -> std::optional<BinaryOp> {
            for (const auto& [text, op] : rows) {
                const bool word = text == "or" || text == "and";
                if (word ? token_.is_word(text) : token_.is_op(text)) return op;
            }
            return std::nullopt;
        };
        switch (level) {
            case kOr:
                return one_of({{"or", BinaryOp::Or}});
            case kAnd:
                return one_of({{"and", BinaryOp::And}});
            case kCompare:
                return one_of({{"<", BinaryOp::Less},
                               {"<=", BinaryOp::LessEqual},
                               {"==", BinaryOp::Equal},
                               {"!=", BinaryOp::NotEqual}});
            case kSum:
                return one_of({{"+", BinaryOp::Add}, {"-", BinaryOp::Sub}});
            case kTerm:
                return one_of({{"*", BinaryOp::Mul},
                               {"/", BinaryOp::Div},
                               {"%", BinaryOp::Rem},
                               {"//", BinaryOp::FloorDiv}});
            default:
                return std::nullopt;
        }
    }

    bool same_dtype(ExprId a, ExprId b) {
        if (failed_) return false;
        if (k_[a].dtype == k_[b].dtype) return true;
        fail_with("expected operands of one dtype, got " +
                  std::string(quern::to_string(k_[a].dtype)) + " and " +
                  std::string(quern::to_string(k_[b].dtype)));
        return false;
    }

    ExprId combine(BinaryOp op, ExprId a, ExprId b, Span where) {
        return same_dtype(a, b) ? k_.binary(op, a, b, where) : kNoExpr;
    }

    /// Everything that binds at least as tightly as `level`.
    ExprId expression(int level) {
        if (failed_) return kNoExpr;
        if (level == kUnary) return unary();
        if (level == kNot) {
            if (!accept_word("not")) return expression(kCompare);
            const Span where = span();
            if (!enter()) return kNoExpr;
            const ExprId operand = expression(kNot);
            --depth_;
            return failed_ ? kNoExpr : k_.unary(UnaryOp::Not, operand, where);
        }
        ExprId left = expression(level + 1);
        while (!failed_) {
            const std::optional<BinaryOp> op = infix(level);
            if (!op) break;
            advance();
            const Span where = span();
            left = combine(*op, left, expression(level + 1), where);
            if (level == kCompare && infix(level)) fail("no second comparison");
        }
        return left;
    }

    bool enter() {
        if (++depth_ <= kMostDepth) return !failed_;
        fail_with("expected at most 200 levels of nesting");
        return false;
    }

    ExprId unary() {
        if (!accept("-")) return primary();
        const bool number = token_.kind == Token::Kind::Int || token_.kind == Token::Kind::Float ||
                            token_.is_word("inf") || token_.is_word("nan");
        if (number) return literal(true);
        const Span where = span();
        if (!enter()) return kNoExpr;
        const ExprId operand = unary();
        --depth_;
        return failed_ ? kNoExpr : k_.unary(UnaryOp::Neg, operand, where);
    }

    ExprId literal(bool negative) {
        if (token_.kind == Token::Kind::Int) {
            const std::uint64_t most = std::uint64_t{INT64_MAX} + negative;
            const std::uint64_t size = integer(most);
            const auto value = static_cast<std::int64_t>(negative ? -size : size);
            const DType type = accept(":") ? dtype() : DType::Int64;
            if (!failed_ && !is_integer(type)) fail("an integer dtype before this");
            const Span where = span();
            if (failed_) return kNoExpr;
            if (type == DType::Int64) return k_.integer(value, where);
            const auto bits = static_cast<std::uint64_t>(value);
            k_.exprs.push_back({ExprKind::Const, 0, type, 0, static_cast<std::uint32_t>(bits),
                                static_cast<std::uint32_t>(bits >> 32), 0, where});
            return ExprId{static_cast<std::uint32_t>(k_.exprs.size() - 1)};
        }
        double value = std::numeric_limits<double>::infinity();
        if (token_.kind == Token::Kind::Float) {
            const char* end = token_.text.data() + token_.text.size();
            const auto [stop, problem] = std::from_chars(token_.text.data(), end, value);
            if (problem != std::errc() || stop != end) fail("a number that a double holds");
            advance();
        } else if (accept_word("nan")) {
            value = not_a_number();
        } else {
            advance();
        }
        const DType type = accept(":") ? dtype() : DType::Float32;
        if (!failed_ && !is_floating(type)) fail("a floating dtype before this");
        const Span where = span();
        return failed_ ? kNoExpr : k_.floating(negative ? -value : value, type, where);
    }

    double not_a_number() {
        if (!accept("(")) return std::numeric_limits<double>::quiet_NaN();
        constexpr std::uint64_t infinite = std::uint64_t{0x7ff} << 52;
        constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max() >> 1;
        const std::uint64_t bits = integer(most);
        if (bits <= infinite) fail("the bits of a NaN");
        expect(")");
        return std::bit_cast<double>(bits);
    }

    ExprId primary() {
        if (failed_) return kNoExpr;
        const bool is_literal = token_.kind == Token::Kind::Int ||
                                token_.kind == Token::Kind::Float || token_.is_word("inf") ||
                                token_.is_word("nan");
        if (is_literal) return literal(false);
        if (accept_word("true")) return k_.boolean(true, span());
        if (accept_word("false")) return k_.boolean(false, span());
        if (!enter()) return kNoExpr;
        ExprId result = kNoExpr;
        if (accept("(")) {
            result = expression(kOr);
            expect(")");
        } else if (token_.kind == Token::Kind::Word || token_.kind == Token::Kind::Quoted) {
            result = named();
        } else {
            fail("an expression");
        }
        --depth_;
        return failed_ ? kNoExpr : result;
    }

    ExprId named() {
        const bool is_quoted = token_.kind == Token::Kind::Quoted;
        const Token first = std::move(token_);
        advance();
        if (!is_quoted && token_.is_op("(")) return call(first);
        if (is_quoted && accept(".")) {
            return extent(first, first.text, integer(kMostIndices));
        }
        if (!is_quoted) {
            // An extent reads as one word: A.0.
            const std::size_t dot = first.text.rfind('.');
            if (dot != std::string::npos) {
                const std::string axis = first.text.substr(dot + 1);
                std::uint64_t value = 0;
                const char* end = axis.data() + axis.size();
                const auto [stop, problem] = std::from_chars(axis.data(), end, value);
                const std::string operand = first.text.substr(0, dot);
                if (problem == std::errc() && stop == end && is_operand(operand)) {
                    return extent(first, operand, value);
                }
            }
        }
        const auto found = names_.find(first.text);
        if (found == names_.end() || (!is_quoted && is_reserved(first.text))) {
            token_ = first;
            fail("a name that is declared before");
            return kNoExpr;
        }
        const std::uint32_t index = found->second.index;
        switch (found->second.kind) {
            case NameKind::Dim:
                return k_.dim(index, span());
            case NameKind::Scalar:
                return k_.scalar(index, span());
            case NameKind::Symbol:
                return k_.symbol(index, span());
            case NameKind::Buffer:
                break;
        }
        const std::vector<ExprId> indices = list("[", "]");
        const Span where = span();
        return failed_ ? kNoExpr : k_.load(index, indices, where);
    }

    bool is_operand(const std::string& text) const {
        const auto found = names_.find(text);
        return found != names_.end() && found->second.kind == NameKind::Buffer &&
               found->second.index < k_.operand_count;
    }

    ExprId extent(const Token& first, const std::string& operand, std::uint64_t axis) {
        if (!failed_ && (!is_operand(operand) || axis > kMostIndices)) {
            token_ = first;
            fail("the extent of an operand");
        }
        if (failed_) return kNoExpr;
        const std::uint32_t index = names_.find(operand)->second.index;
        return k_.extent(index, static_cast<std::uint32_t>(axis), span());
    }

    ExprId call(const Token& function) {
        const auto unary_op = unary_function(function.text);
        const auto binary_op = binary_function(function.text);
        const auto target = dtype_from_string(function.text);
        const bool selects = function.text == "select";
        if (!unary_op && !binary_op && !target && !selects) {
            token_ = function;
            fail("a function");
            return kNoExpr;
        }
        const std::vector<ExprId> arguments = list("(", ")");
        const Span where = span();
        const std::size_t count = selects ? 3 : binary_op ? 2 : 1;
        if (!failed_ && arguments.size() != count) {
            fail_with("expected " + std::to_string(count) + " arguments of '" + function.text +
                      "', got " + std::to_string(arguments.size()));
        }
        if (failed_) return kNoExpr;
        if (unary_op) return k_.unary(*unary_op, arguments[0], where);
        if (target) return k_.cast(arguments[0], *target, where);
        if (binary_op) return combine(*binary_op, arguments[0], arguments[1], where);
        if (!same_dtype(arguments[1], arguments[2])) return kNoExpr;
        return k_.select(arguments[0], arguments[1], arguments[2], where);
    }

    Tokens tokens_;
    Token token_;
    Kernel k_;
    std::unordered_map<std::string, Name> names_;
    std::string error_;
    int depth_ = 0;
    int last_line_ = 1;
    bool failed_ = false;
};

}  // namespace

std::optional<Kernel> parse_ir(std::string_view text, std::string& error) {
    return Parser(text).kernel(error);
}

}  // namespace quern::ir

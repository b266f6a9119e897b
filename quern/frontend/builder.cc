#include "quern/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "quern/lang/words.h"
#include "quern/support/check.h"

namespace quern {

namespace {

std::string joined(const std::vector<Expr>& list) {
    std::string text;
    for (const Expr& e : list) {
        if (!text.empty()) text += ", ";
        text += e.text();
    }
    return text;
}

bool is_name(std::string_view text) {
    const auto letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
        return letter(c) || (c >= '0' && c <= '9');
    });
}

void require_name(std::string_view text) {
    if (is_name(text)) return;
    raise(ValueError(
        fmt::format("[builder] expected a name of letters, digits and '_', got '{}'", text)));
}

}  // namespace

Expr::Expr(double value) {
    if (std::isnan(value)) {
        *this = made("(inf - inf)", 7);
    } else if (std::isinf(value)) {
        *this = made(value > 0 ? "inf" : "-inf", value > 0 ? 7 : 6);
    } else {
        std::string text = fmt::format("{}", std::abs(value));
        const std::size_t e = text.find('e');
        if (e == std::string::npos && text.find('.') == std::string::npos) text += ".0";
        *this = std::signbit(value) ? made("-" + text, 6) : made(text, 7);
    }
}

Expr Expr::integer(std::int64_t value) {
    // The language has no literal for the smallest integer.
    if (value == INT64_MIN) return made("(-9223372036854775807 - 1)", 7);
    return made(fmt::format("{}", value), value < 0 ? 6 : 7);
}

Expr Expr::made(std::string text, int precedence) {
    Expr e;
    e.text_ = std::move(text);
    e.precedence_ = precedence;
    return e;
}

std::string Expr::at_least(int precedence) const {
    return precedence_ >= precedence ? text_ : "(" + text_ + ")";
}

Expr Expr::binary(const Expr& a, std::string_view op, const Expr& b, int precedence) {
    // Left to right; comparisons do not chain.
    const int left = precedence == 3 ? 4 : precedence;
    return made(fmt::format("{} {} {}", a.at_least(left), op, b.at_least(precedence + 1)),
                precedence);
}

Expr Expr::call(std::string_view function, std::initializer_list<Expr> arguments) {
    return made(fmt::format("{}({})", function, joined(arguments)), 7);
}

Expr operator-(const Expr& a) { return Expr::made(Expr::binary(0, "-", a, 5).text().substr(2), 6); }

Expr operator!(const Expr& a) { return Expr::made("not (" + a.text() + ")", 2); }

Expr cast(const Expr& x, DType dtype) { return Expr::call(to_string(dtype), {x}); }

Expr slice(const Expr& begin, const Expr& length) {
    return Expr::made(begin.text() + ":" + (begin + length).text(), 7);
}

Expr Operand::at(std::vector<Expr> indices) const {
    return Expr::made(fmt::format("{}[{}]", name_, joined(indices)), 7);
}

Place Place::at(std::vector<Expr> indices) const {
    return Place(*builder_, fmt::format("{}[{}]", text_, joined(indices)));
}

const Place& Place::assign(std::string_view op, const Expr& value) const {
    builder_->line(fmt::format("{} {} {}", text_, op, value.text()));
    return *this;
}

KernelBuilder::KernelBuilder(std::string kind) : kind_(std::move(kind)) {}

void KernelBuilder::declare(const std::string& name) {
    require_name(name);
    if (lang::is_taken(name)) {
        raise(ValueError(
            fmt::format("[builder] expected a name, got '{}', a word of the language", name)));
    }
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) {
        raise(ValueError(fmt::format("[builder] the name '{}' is used twice", name)));
    }
    names_.push_back(name);
}

Operand KernelBuilder::operand(std::string name) {
    declare(name);
    operands_.push_back(name);
    return Operand(std::move(name));
}

Operand KernelBuilder::operand(std::string name, const std::vector<Expr>& shape) {
    declare(name);
    operands_.push_back(fmt::format("{}: [{}]", name, joined(shape)));
    return Operand(std::move(name));
}

Expr KernelBuilder::dim(std::string name) {
    declare(name);
    return Expr::made(std::move(name), 7);
}

void KernelBuilder::line(std::string_view statement) {
    body_.append(std::size_t(depth_) * 4, ' ');
    body_ += statement;
    body_ += '\n';
}

KernelBuilder::Block::Block(KernelBuilder& builder)
    : builder_(builder), depth_(builder.depth_), size_(builder.body_.size()), begin_(size_) {}

KernelBuilder::Block::~Block() {
    builder_.depth_ = depth_;
    if (!is_closed_) builder_.body_.resize(size_);
}

void KernelBuilder::Block::open(std::string_view head) {
    builder_.line(fmt::format("{}:", head));
    builder_.depth_ += 1;
    begin_ = builder_.body_.size();
}

bool KernelBuilder::Block::close() noexcept {
    builder_.depth_ = depth_;
    is_closed_ = begin_ == size_ || builder_.body_.size() > begin_;
    return is_closed_;
}

std::string KernelBuilder::fresh(std::string_view stem) {
    require_name(stem);
    std::string name;
    do {
        name = fmt::format("{}{}", stem, next_++);
    } while (std::find(names_.begin(), names_.end(), name) != names_.end());
    names_.push_back(name);
    return name;
}

std::pair<std::vector<Expr>, std::string> KernelBuilder::loops_over(
    const std::vector<Expr>& extents, std::size_t expected) {
    if (expected == 0) raise(ValueError("[builder] expected a loop, got a body of no argument"));
    if (extents.size() != expected) {
        raise(ValueError(
            fmt::format("[builder] expected {} extents, one for each argument of the body, got {}",
                        expected, extents.size())));
    }
    std::vector<Expr> names;
    std::string head;
    for (const Expr& extent : extents) {
        names.push_back(Expr::made(fresh("i"), 7));
        head += fmt::format("{}{} in 0..{}", head.empty() ? "for " : ", ", names.back().text(),
                            extent.text());
    }
    return {std::move(names), std::move(head)};
}

void KernelBuilder::loop(const Expr& begin, const Expr& end, const Expr& step,
                         const std::function<void(Expr)>& body) {
    const Expr name = Expr::made(fresh("i"), 7);
    Block block(*this);
    block.open(fmt::format("for {} in {}..{} step {}", name.text(), begin.text(), end.text(),
                           step.text()));
    body(name);
    block.close();
}

void KernelBuilder::when(const Expr& condition, const std::function<void()>& then,
                         const std::function<void()>& otherwise) {
    Block both(*this);
    const auto branch = [&](const std::string& head, const std::function<void()>& body) {
        Block block(*this);
        block.open(head);
        body();
        return block.close();
    };
    const bool has_first = branch("if " + condition.text(), then);
    if (otherwise) branch(has_first ? "else" : "if " + (!condition).text(), otherwise);
    both.close();
}

Expr KernelBuilder::let(const Expr& value, std::string_view name) {
    const std::string unique = fresh(name);
    line(fmt::format("let {} = {}", unique, value.text()));
    return Expr::made(unique, 7);
}

Place KernelBuilder::var(const Expr& value, std::string_view name) {
    const std::string unique = fresh(name);
    line(fmt::format("var {} = {}", unique, value.text()));
    return Place(*this, unique);
}

Place KernelBuilder::shared(std::string_view name, const std::vector<Expr>& shape) {
    const std::string unique = fresh(name);
    line(fmt::format("shared var {}[{}]", unique, joined(shape)));
    return Place(*this, unique);
}

void KernelBuilder::barrier() { line("barrier()"); }

void KernelBuilder::yield(const Expr& value) { line("yield " + value.text()); }

void KernelBuilder::yield(const Expr& value, const Expr& index) {
    line(fmt::format("yield ({}, {})", value.text(), index.text()));
}

Expr KernelBuilder::accumulate(const Expr& extent, const Expr& start, std::string_view op,
                               const std::function<Expr(Expr)>& element) {
    Block block(*this);
    const Place result = var(start, "r");
    const Expr name = Expr::made(fresh("k"), 7);
    block.open(fmt::format("for {} in 0..{}", name.text(), extent.text()));
    const Expr value = element(name);
    if (op == "+") {
        result += value;
    } else if (op == "*") {
        result *= value;
    } else {
        result = Expr::call(op, {Expr(result), value});
    }
    block.close();
    return result;
}

Expr KernelBuilder::sum(const Expr& extent, const std::function<Expr(Expr)>& element) {
    return accumulate(extent, 0, "+", element);
}
Expr KernelBuilder::product(const Expr& extent, const std::function<Expr(Expr)>& element) {
    return accumulate(extent, 1, "*", element);
}
Expr KernelBuilder::maximum(const Expr& extent, const std::function<Expr(Expr)>& element) {
    return accumulate(extent, -std::numeric_limits<double>::infinity(), "max", element);
}
Expr KernelBuilder::minimum(const Expr& extent, const std::function<Expr(Expr)>& element) {
    return accumulate(extent, std::numeric_limits<double>::infinity(), "min", element);
}

Expr KernelBuilder::zeros(const std::vector<Expr>& shape) {
    return Expr::made(fmt::format("zeros({})", joined(shape)), 7);
}

Expr KernelBuilder::reduce(std::string_view op, const Expr& tile) {
    return Expr::made(fmt::format("reduce({}, {})", op, tile.text()), 7);
}

Expr KernelBuilder::reduce(std::string_view op, const Expr& tile, int axis) {
    return Expr::made(fmt::format("reduce({}, {}, axis={})", op, tile.text(), axis), 7);
}

std::string KernelBuilder::text() const {
    return fmt::format("compute({}) {{\n    @kernel {}\n{}}}\n", fmt::join(operands_, ", "), kind_,
                       body_);
}

Kernel KernelBuilder::build(const KernelOptions& options) const { return Kernel(text(), options); }

}  // namespace quern

#include "quern/interpret/ranges.h"

#include <algorithm>

#include "quern/ir/index.h"

namespace quern::interpret {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;
using ir::UnaryOp;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

template <class T>
Range all() {
    return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

/// Everything that a dtype holds. uint64 has values beyond a Range: nothing is concluded of it.
Range all_of(DType dtype) {
    switch (dtype) {
        case DType::Bool:
            return {0, 1};
        case DType::Int8:
            return all<std::int8_t>();
        case DType::Int16:
            return all<std::int16_t>();
        case DType::Int32:
            return all<std::int32_t>();
        case DType::UInt8:
            return all<std::uint8_t>();
        case DType::UInt16:
            return all<std::uint16_t>();
        case DType::UInt32:
            return all<std::uint32_t>();
        default:
            return {};
    }
}

bool add(Range x, Range y, Range& result) {
    return !__builtin_add_overflow(x.low, y.low, &result.low) &&
           !__builtin_add_overflow(x.high, y.high, &result.high);
}

bool subtract(Range x, Range y, Range& result) {
    return !__builtin_sub_overflow(x.low, y.high, &result.low) &&
           !__builtin_sub_overflow(x.high, y.low, &result.high);
}

bool multiply(Range x, Range y, Range& result) {
    std::int64_t corners[4];
    if (__builtin_mul_overflow(x.low, y.low, &corners[0]) ||
        __builtin_mul_overflow(x.low, y.high, &corners[1]) ||
        __builtin_mul_overflow(x.high, y.low, &corners[2]) ||
        __builtin_mul_overflow(x.high, y.high, &corners[3])) {
        return false;
    }
    const auto [least, most] = std::minmax_element(corners, corners + 4);
    result = {*least, *most};
    return true;
}

}  // namespace

Ranges::Ranges(const ir::Kernel& kernel, const Launch& launch)
    : kernel_(kernel),
      launch_(launch),
      facts_(kernel.exprs.size()),
      symbols_(kernel.symbols.size()),
      defined_(kernel.symbols.size(), false),
      lets_(kernel.symbols.size(), ir::kNoExpr) {
    for (std::size_t i = 0; i < symbols_.size(); ++i) symbols_[i] = all_of(kernel.symbols[i].dtype);
    walk(kernel.body);
}

void Ranges::walk(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) {
        if (s.kind == StmtKind::Let) {
            lets_[s.symbol] = defined_[s.symbol] ? ir::kNoExpr : s.value;
            define(s.symbol, of(s.value));
        } else if (s.kind == StmtKind::For) {
            const std::int64_t low = of(s.value).low, end = of(s.end).high;
            define(s.symbol, {low, end == kLeast ? low : std::max(low, end - 1)});
        }
        walk(s.body);
        walk(s.otherwise);
    }
}

void Ranges::define(ir::SymbolId symbol, Range range) {
    if (is_floating(kernel_.symbols[symbol].dtype)) return;
    if (defined_[symbol]) {
        // One symbol in two places: what was concluded from the first place alone may be wrong.
        range = {std::min(range.low, symbols_[symbol].low),
                 std::max(range.high, symbols_[symbol].high)};
        std::fill(facts_.begin(), facts_.end(), Facts{});
    }
    defined_[symbol] = true;
    symbols_[symbol] = range;
}

Range Ranges::of(ExprId id) { return facts(id).range; }
bool Ranges::is_safe(ExprId id) { return facts(id).safe; }
bool Ranges::is_fixed(ExprId id) { return facts(id).fixed; }

const Ranges::Facts& Ranges::facts(ExprId id) {
    Facts& known = facts_[static_cast<std::uint32_t>(id)];
    if (known.known) return known;
    // Operands first, without recursion: expressions may be long chains.
    std::vector<ExprId> waiting{id};
    while (!waiting.empty()) {
        const ExprId top = waiting.back();
        const std::size_t size = waiting.size();
        if (!facts_[static_cast<std::uint32_t>(top)].known) {
            ir::for_each_child(kernel_, top, [&](ExprId child) {
                if (!facts_[static_cast<std::uint32_t>(child)].known) waiting.push_back(child);
            });
        }
        if (waiting.size() > size) continue;
        waiting.pop_back();
        Facts& facts = facts_[static_cast<std::uint32_t>(top)];
        if (!facts.known) facts = infer(top);
    }
    return known;
}

Ranges::Facts Ranges::infer(ExprId id) {
    const Expr& e = kernel_[id];
    Facts result{true, true, true, all_of(e.dtype)};
    ir::for_each_child(kernel_, id, [&](ExprId child) {
        const Facts& below = facts_[static_cast<std::uint32_t>(child)];
        result.safe = result.safe && below.safe;
        result.fixed = result.fixed && below.fixed;
    });
    const auto one = [](std::int64_t value) { return Range{value, value}; };
    const bool is_exact = e.dtype != DType::UInt64 && !is_floating(e.dtype);
    switch (e.kind) {
        case ExprKind::Const:
            if (is_exact) result.range = one(kernel_.integer_value(id));
            break;
        case ExprKind::Dim:
            result.range = one(launch_.dims[e.a]);
            break;
        case ExprKind::Extent:
            result.range = one(launch_.operands[e.a].shape[e.b]);
            break;
        case ExprKind::Scalar:
            if (is_exact) result.range = one(launch_.scalars[e.a].integer);
            break;
        case ExprKind::Symbol:
            result.range = symbols_[e.a];
            result.fixed = kernel_.symbols[e.a].kind != ir::SymbolKind::Var;
            break;
        case ExprKind::Load:
            result.fixed = result.fixed && kernel_.buffers[e.a].kind == ir::BufferKind::Operand;
            result.safe = result.safe && kernel_.buffers[e.a].kind == ir::BufferKind::Operand &&
                          is_in_bounds(id);
            break;
        case ExprKind::Unary:
            if (e.op == std::uint8_t(UnaryOp::Neg) && is_exact) {
                Range range;
                if (subtract(one(0), of(ExprId{e.a}), range)) result.range = range;
            }
            break;
        case ExprKind::Binary: {
            const auto op = static_cast<BinaryOp>(e.op);
            const bool is_integral = !is_floating(kernel_[ExprId{e.b}].dtype);
            if (is_integral &&
                (op == BinaryOp::Div || op == BinaryOp::Rem || op == BinaryOp::FloorDiv)) {
                const Range divisor = of(ExprId{e.b});
                const bool is_wide = e.dtype == DType::UInt64;
                if (is_wide || (divisor.low <= 0 && divisor.high >= 0)) {
                    result.safe = result.safe && is_wide &&
                                  kernel_[ExprId{e.b}].kind == ExprKind::Const &&
                                  kernel_.integer_value(ExprId{e.b}) != 0;
                }
            }
            if (is_integral && op == BinaryOp::Pow && e.dtype != DType::UInt64 &&
                of(ExprId{e.b}).low < 0) {
                result.safe = false;
            }
            if (is_exact && e.dtype != DType::Bool) result.range = binary(e);
            break;
        }
        case ExprKind::Select:
            if (is_exact) {
                const Range x = of(ExprId{e.b}), y = of(ExprId{e.c});
                result.range = {std::min(x.low, y.low), std::max(x.high, y.high)};
            }
            break;
        case ExprKind::Cast: {
            const DType from = kernel_[ExprId{e.a}].dtype;
            if (is_exact && e.dtype != DType::Bool && !is_floating(from) && from != DType::UInt64) {
                result.range = of(ExprId{e.a});
            }
            break;
        }
    }
    const Range whole = all_of(e.dtype);
    if (!result.range.within(whole.low, whole.high)) result.range = whole;
    return result;
}

Range Ranges::binary(const Expr& e) {
    const Range x = of(ExprId{e.a}), y = of(ExprId{e.b});
    const Range unknown = all_of(e.dtype);
    Range result;
    switch (static_cast<BinaryOp>(e.op)) {
        case BinaryOp::Add:
            return add(x, y, result) ? result : unknown;
        case BinaryOp::Sub:
            return subtract(x, y, result) ? result : unknown;
        case BinaryOp::Mul:
            return multiply(x, y, result) ? result : unknown;
        case BinaryOp::Max:
            return {std::max(x.low, y.low), std::max(x.high, y.high)};
        case BinaryOp::Min:
            return {std::min(x.low, y.low), std::min(x.high, y.high)};
        case BinaryOp::Div:
            if (!y.is_one() || y.low <= 0) return unknown;
            return {x.low / y.low, x.high / y.low};
        case BinaryOp::FloorDiv:
            if (!y.is_one() || y.low <= 0) return unknown;
            return {floor_divide(x.low, y.low), floor_divide(x.high, y.low)};
        case BinaryOp::Rem:
            if (y.low <= 0) return unknown;
            if (x.low >= 0) return {0, std::min(x.high, y.high - 1)};
            return {-(y.high - 1), std::max<std::int64_t>(0, std::min(x.high, y.high - 1))};
        default:
            return unknown;
    }
}

const std::vector<std::int64_t>& Ranges::shape(ir::BufferId buffer) const {
    return buffer < kernel_.operand_count ? launch_.operands[buffer].shape : launch_.output->shape;
}

bool Ranges::is_in_bounds(ir::BufferId buffer, int axis, ExprId index) {
    Range extent;
    if (buffer <= kernel_.output()) {
        const std::int64_t value = shape(buffer)[std::size_t(axis)];
        extent = {value, value};
    } else {
        extent = of(kernel_.buffers[buffer].shape[std::size_t(axis)]);
    }
    return of(index).low >= 0 && of(index).high < extent.low;
}

bool Ranges::is_in_bounds(ExprId load) {
    const Expr& e = kernel_[load];
    for (int axis = 0; axis < e.count; ++axis) {
        if (!is_in_bounds(e.a, axis, kernel_.index_of(e, axis))) return false;
    }
    return true;
}

Linear Ranges::linear(ExprId id, bool through_lets) {
    struct Part {
        ExprId id;
        std::int64_t factor;
    };
    Linear sum;
    std::vector<Part> waiting{{id, 1}};
    // Sums of one value again and again have more parts than anybody counts: those stay as they
    // are.
    constexpr int kMostParts = 256;
    for (int parts = 0; !waiting.empty(); ++parts) {
        const Part part = waiting.back();
        waiting.pop_back();
        const Expr& e = kernel_[part.id];
        const auto op = static_cast<BinaryOp>(e.op);
        const auto times = [&](std::int64_t c) {
            return std::int64_t(std::uint64_t(part.factor) * std::uint64_t(c));
        };
        if (is_safe(part.id) && of(part.id).is_one()) {
            sum.constant =
                std::int64_t(std::uint64_t(sum.constant) + std::uint64_t(times(of(part.id).low)));
            continue;
        }
        const bool is_taken_apart = parts < kMostParts && e.kind == ExprKind::Binary;
        if (is_taken_apart && (op == BinaryOp::Add || op == BinaryOp::Sub)) {
            waiting.push_back({ExprId{e.b}, op == BinaryOp::Add ? part.factor : times(-1)});
            waiting.push_back({ExprId{e.a}, part.factor});
            continue;
        }
        if (is_taken_apart && op == BinaryOp::Mul) {
            const ExprId a{e.a}, b{e.b};
            if (is_safe(b) && of(b).is_one()) {
                waiting.push_back({a, times(of(b).low)});
                continue;
            }
            if (is_safe(a) && of(a).is_one()) {
                waiting.push_back({b, times(of(a).low)});
                continue;
            }
        }
        if (parts < kMostParts && through_lets && e.kind == ExprKind::Symbol &&
            ir::exists(lets_[e.a])) {
            waiting.push_back({lets_[e.a], part.factor});
            continue;
        }
        const auto same = std::find_if(sum.terms.begin(), sum.terms.end(),
                                       [&](const Linear::Term& t) { return t.expr == part.id; });
        if (same == sum.terms.end()) {
            sum.terms.push_back({part.id, part.factor});
        } else {
            same->coefficient =
                std::int64_t(std::uint64_t(same->coefficient) + std::uint64_t(part.factor));
        }
    }
    return sum;
}

}  // namespace quern::interpret

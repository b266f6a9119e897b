#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "quern/semantics/lowering.h"
#include "quern/support/short_vector.h"

// Reduce kernels, reductions of tiles, products of tiles, and which loops reduce which vars.

namespace quern::semantics {

using ir::BinaryOp;
using ir::StmtKind;

ExprId Lowering::identity(BinaryOp op, DType dtype) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    const auto number = [&](double real, std::int64_t integer) {
        return is_floating(dtype) ? kernel_.floating(real, dtype)
                                  : kernel_.cast(kernel_.integer(integer), dtype);
    };
    const int bits = static_cast<int>(size_of(dtype)) * 8;
    const std::int64_t top = is_unsigned_integer(dtype)
                                 ? (bits == 64 ? -1 : (std::int64_t(1) << bits) - 1)
                                 : std::int64_t((std::uint64_t(1) << (bits - 1)) - 1);
    const std::int64_t bottom = is_unsigned_integer(dtype) ? 0 : -top - 1;
    switch (op) {
        case BinaryOp::And:
            return kernel_.boolean(true);
        case BinaryOp::Or:
            return kernel_.boolean(false);
        case BinaryOp::Mul:
            return number(1, 1);
        case BinaryOp::Max:
            return number(-inf, bottom);
        case BinaryOp::Min:
            return number(inf, top);
        default:
            return number(0, 0);
    }
}

namespace {

BinaryOp operator_of(std::string_view name, DType dtype) {
    const bool truth = dtype == DType::Bool;
    if (name == "+") return BinaryOp::Add;
    if (name == "*") return BinaryOp::Mul;
    if (name == "and") return BinaryOp::And;
    if (name == "or") return BinaryOp::Or;
    // Over truth values the largest is "or", the smallest "and".
    if (name == "max") return truth ? BinaryOp::Or : BinaryOp::Max;
    return truth ? BinaryOp::And : BinaryOp::Min;
}

}  // namespace

void Lowering::check_some(ExprId condition, Span span, std::string_view op,
                          const std::string& reason) {
    ir::Stmt& check = push(StmtKind::Check, span);
    check.code = Code::E0620;
    check.value = condition;
    result_.reasons.emplace_back(span,
                                 fmt::format("'{}' over nothing has no value: {}", op, reason));
}

std::optional<ReduceNest> Lowering::read_nest(NodeId body) {
    std::vector<NodeId> loops;
    ReduceNest nest;
    nest.innermost = body;
    for (NodeId only = tree_[body].first;
         only >= 0 && tree_[only].next < 0 && tree_[only].kind == Kind::For;) {
        NodeId c = tree_[only].first;
        for (; tree_[c].kind == Kind::Loop; c = tree_[c].next) loops.push_back(c);
        nest.innermost = c;
        only = tree_[c].first;
    }
    if (reduce_axis_ < 0) {
        nest.reduced = loops;
        return nest;
    }
    const int count = static_cast<int>(loops.size());
    std::int64_t axis = constant_of(reduce_axis_, "axis", 0);
    if (axis < -count || axis >= count) {
        report(Code::E0432, span_of(reduce_axis_),
               fmt::format("expected an axis from {} to {} (the nest has {} loops), got {}", -count,
                           count - 1, count, axis));
        return std::nullopt;
    }
    if (axis < 0) axis += count;
    nest.reduced = {loops[std::size_t(axis)]};
    nest.kept = loops;
    nest.kept.erase(nest.kept.begin() + std::ptrdiff_t(axis));
    return are_outside(nest) ? std::optional(nest) : std::nullopt;
}

/// The first node at or below this one that is the name.
NodeId Lowering::mention_of(std::string_view name, NodeId node) const {
    if (tree_[node].kind == Kind::Name && tree_.text_of(node) == name) return node;
    for (NodeId c = tree_[node].first; c >= 0; c = tree_[c].next) {
        if (const NodeId found = mention_of(name, c); found >= 0) return found;
    }
    return -1;
}

/// Where the bounds or the step of a loop name another loop's variable, or -1.
NodeId Lowering::dependence_of(NodeId loop, NodeId other) const {
    const NodeId name = tree_[loop].first;
    for (NodeId bound = tree_[name].next; bound >= 0; bound = tree_[bound].next) {
        const NodeId found = mention_of(tree_.text_of(tree_[other].first), bound);
        if (found >= 0) return found;
    }
    return -1;
}

bool Lowering::are_outside(const ReduceNest& nest) {
    const bool is_zero_empty = reduce_op_ == "+" || reduce_op_ == "or";
    // What no yield reaches stays 0, which must be what the function makes of 0.
    const auto moves_zero = std::ranges::find_if(
        request_.then, [](const Piped& piped) { return !is_zero_of_zero(piped.name); });
    const bool is_kept_zero = is_zero_empty && moves_zero == request_.then.end();
    for (const NodeId kept : nest.kept) {
        for (const NodeId outer : nest.kept) {
            const bool is_before = span_of(outer).begin < span_of(kept).begin;
            const NodeId found = is_before ? dependence_of(kept, outer) : -1;
            if (found < 0 || is_kept_zero) continue;
            const std::string why = is_zero_empty
                                        ? fmt::format("of which '{}' makes no 0", moves_zero->name)
                                        : fmt::format("which '{}' has no 0 for", reduce_op_);
            report(Code::E0432, span_of(found),
                   fmt::format("the loops over '{}' and '{}' are kept, and one depends on the "
                               "other: no yield reaches the rest of the result, {}",
                               tree_.text_of(tree_[outer].first), tree_.text_of(tree_[kept].first),
                               why))
                .help("write the loops as @kernel custom");
            return false;
        }
    }
    for (const NodeId kept : nest.kept) {
        for (const NodeId reduced : nest.reduced) {
            const NodeId found =
                span_of(reduced).begin < span_of(kept).begin ? dependence_of(kept, reduced) : -1;
            if (found < 0) continue;
            report(Code::E0432, span_of(found),
                   fmt::format("the loop over '{}' is kept, so it is outside of the one over '{}', "
                               "which is reduced, and can not depend on it",
                               tree_.text_of(tree_[kept].first), tree_.text_of(found)))
                .help("write the loops as @kernel custom");
            return false;
        }
    }
    return true;
}

void Lowering::reduce_kernel(NodeId body) {
    auto nest = read_nest(body);
    if (!nest) return;
    if (!var_types_.count(body)) {
        const bool truth = reduce_op_ == "and" || reduce_op_ == "or";
        VarType& type = var_types_[body];
        type.dtype = type.nominal = truth ? DType::Bool : DType::Int64;
        type.weak = !truth;
    }
    over_kept(*nest, 0);
}

void Lowering::over_kept(ReduceNest& nest, std::size_t k) {
    if (k == nest.kept.size()) return reduce_point(nest);
    open_loop(nest.kept[k], true, [&] {
        const ir::LoopRange range = loops_.back().range;
        const ExprId offset =
            kernel_.binary(BinaryOp::Sub, kernel_.symbol(range.symbol), range.begin);
        nest.place.push_back(simplify(kernel_.binary(BinaryOp::FloorDiv, offset, range.step)));
        const ExprId length = most_iterations(range);
        if (!exists(length)) {
            report(Code::E0503, span_of(nest.kept[k]),
                   fmt::format("the extent of the result has no value: nothing says before it runs "
                               "how many iterations the loop over '{}' has at most",
                               tree_.text_of(tree_[nest.kept[k]].first)));
            return;
        }
        const ExprId rounded = kernel_.binary(
            BinaryOp::FloorDiv,
            kernel_.binary(BinaryOp::Add, length, kernel_.binary(BinaryOp::Sub, range.step, one())),
            range.step);
        nest.shape.push_back(simplify(kernel_.binary(BinaryOp::Max, zero(), rounded)));
        over_kept(nest, k + 1);
    });
}

void Lowering::over_reduced(const ReduceNest& nest, std::size_t k) {
    if (k == nest.reduced.size()) {
        if (yield_reached_ != ir::kNone) {
            ir::Stmt& statement = push(StmtKind::Accumulate, span_of(nest.innermost));
            statement.symbol = yield_reached_;
            statement.op = BinaryOp::Or;
            statement.value = kernel_.boolean(true);
        }
        return block(nest.innermost);
    }
    open_loop(nest.reduced[k], false, [&] { over_reduced(nest, k + 1); });
}

/// Whether no loop that is reduced depends on another.
bool Lowering::is_rectangular(const ReduceNest& nest) const {
    for (const NodeId loop : nest.reduced) {
        for (const NodeId outer : nest.reduced) {
            const bool is_before = span_of(outer).begin < span_of(loop).begin;
            if (is_before && dependence_of(loop, outer) >= 0) return false;
        }
    }
    return true;
}

SymbolId Lowering::point_var(const char* name, ExprId value) {
    const Span span = span_of(body_);
    ir::Stmt& var = push(StmtKind::Var, span);
    var.symbol = kernel_.add_symbol(ir::SymbolKind::Var, kernel_[value].dtype, name, span);
    var.value = value;
    return var.symbol;
}

void Lowering::reduce_point(const ReduceNest& nest) {
    const VarType type = var_types_[body_];
    const BinaryOp op = operator_of(
        is_arg_reduce_ ? std::string_view(reduce_op_).substr(3) : reduce_op_, type.dtype);
    const bool needs_some = is_arg_reduce_ || reduce_op_ == "min" || reduce_op_ == "max";
    const bool is_rectangle = is_rectangular(nest);
    for (const NodeId loop : nest.reduced) {
        if (!needs_some || !is_rectangle) break;
        const NodeId name = tree_[loop].first, begin = tree_[name].next, end = tree_[begin].next;
        const ExprId some = kernel_.binary(BinaryOp::Less, extent_expression(begin, false),
                                           extent_expression(end, true));
        check_some(some, span_of(loop), reduce_op_,
                   fmt::format("the loop over '{}' is empty", tree_.text_of(name)));
    }
    yield_reached_ = ir::kNone;
    if (needs_some && !is_rectangle && !is_arg_reduce_) {
        yield_reached_ = point_var("reached", kernel_.boolean(false));
    }
    yield_var_ = point_var(is_arg_reduce_ ? "best" : "result", identity(op, type.dtype));
    if (is_arg_reduce_) {
        yield_index_ = point_var("best_index", zero());
        yield_found_ = point_var("found", kernel_.boolean(false));
    }
    over_reduced(nest, 0);
    if (is_arg_reduce_) {
        check_some(kernel_.symbol(yield_found_), first_yield_, reduce_op_, "no yield was reached");
    }
    if (yield_reached_ != ir::kNone) {
        check_some(kernel_.symbol(yield_reached_), span_of(nest.reduced.back()), reduce_op_,
                   fmt::format("the loop over '{}' is empty each time",
                               tree_.text_of(tree_[nest.reduced.back()].first)));
    }
    const Span span = span_of(body_);
    Value result =
        make_scalar(kernel_.symbol(is_arg_reduce_ ? yield_index_ : yield_var_, span), span);
    if (!is_arg_reduce_) result.nominal = type.nominal;
    finish_out(result, nest.place, nest.shape, span);
}

void Lowering::yield(NodeId id) {
    if (yield_var_ == ir::kNone) {
        report(Code::E0430, span_of(id), "'yield' outside a reduce kernel");
        return;
    }
    const NodeId node = tree_[id].first;
    if (first_yield_.length == 0) first_yield_ = span_of(id);
    Local var;
    var.kind = Local::Kind::Var;
    var.name = "yield";
    var.symbol = yield_var_;
    var.declaration = body_;
    if (!is_arg_reduce_) {
        const DType dtype = var_types_[body_].dtype;
        contribute(var, operator_of(reduce_op_, dtype), node, span_of(id));
        return;
    }
    if (tree_[node].kind != Kind::Tuple) return;
    Value value = scalar(tree_.child(node, 0), "a yield");
    Value index = scalar(tree_.child(node, 1), "a yield");
    if (value.poisoned || index.poisoned) return;
    if (is_floating(index.dtype)) {
        report(Code::E0412, span_of(tree_.child(node, 1)),
               fmt::format("expected an integer as index, got {}", to_string(index.dtype)));
        return;
    }
    if (value.dtype == DType::Bool) value = convert(value, DType::UInt8);
    VarType& type = var_types_[body_];
    if (!join(type, value, span_of(id))) return;
    value = convert(value, type.dtype);
    const ExprId element = kernel_.cast(value.expr, kernel_.symbols[yield_var_].dtype);
    const ExprId place = kernel_.cast(index.expr, DType::Int64);
    // The first one counts even if nothing is worse: -inf under argmax.
    ir::Stmt choice;
    choice.kind = StmtKind::If;
    choice.span = span_of(id);
    choice.value = kernel_.symbol(yield_found_);
    {
        const BlockScope scope(*this, choice.body);
        ir::Stmt& statement = push(StmtKind::ArgReduce, span_of(id));
        statement.op = reduce_op_ == "argmin" ? BinaryOp::Less : BinaryOp::Max;
        statement.symbol = yield_var_;
        statement.index_symbol = yield_index_;
        statement.value = element;
        statement.index = place;
    }
    {
        const BlockScope scope(*this, choice.otherwise);
        for (const auto& [symbol, first] : {std::pair{yield_var_, element},
                                            {yield_index_, place},
                                            {yield_found_, kernel_.boolean(true)}}) {
            ir::Stmt& statement = push(StmtKind::Assign, span_of(id));
            statement.symbol = symbol;
            statement.value = first;
        }
    }
    block_->push_back(std::move(choice));
}

bool Lowering::reduced_dtype(BinaryOp& op, Value& value, Span span) {
    if (op == BinaryOp::And || op == BinaryOp::Or) {
        if (is_floating(value.dtype)) {
            report(Code::E0405, span,
                   fmt::format("expected bools or integers, got {}", to_string(value.dtype)));
            return false;
        }
        value = convert(value, DType::Bool);
        value.nominal = DType::Bool;
    } else if (op == BinaryOp::Add || op == BinaryOp::Mul) {
        const DType wide = widened(value.dtype);
        if (value.weak) {
            value = convert(value, wide);
        } else if (wide != value.dtype) {
            const bool is_cast = value.is_cast;
            value = elementwise(value, wide, value.nominal, false, [this, wide, is_cast](ExprId x) {
                return widen(x, wide, is_cast);
            });
        }
        if (!is_floating(wide)) value.nominal = wide;
    } else if (value.dtype == DType::Bool) {
        op = op == BinaryOp::Max ? BinaryOp::Or : BinaryOp::And;
    }
    value.weak = false;
    return true;
}

SymbolId Lowering::reduce_at(BinaryOp op, const Value& value, const std::vector<Axis>& inner,
                             const std::vector<int>& axes, const std::vector<ExprId>& at,
                             Span span) {
    ir::Stmt& var = push(StmtKind::Var, span);
    const SymbolId symbol = kernel_.add_symbol(ir::SymbolKind::Var, value.dtype,
                                               fmt::format("acc{}", kernel_.symbols.size()), span);
    var.symbol = symbol;
    var.value = identity(op, value.dtype);
    for_each(inner, [&](const std::vector<ExprId>& index) {
        std::vector<ExprId> own = at;
        for (const int a : axes) own[std::size_t(a)] = index[std::size_t(a)];
        const ExprId element = value.tile->at(own);
        ir::Stmt& statement = push(StmtKind::Accumulate, span);
        statement.symbol = symbol;
        statement.op = op;
        statement.value = element;
    });
    return symbol;
}

void Lowering::check_axes(BinaryOp op, const Tile& tile, const std::vector<int>& axes, Span span) {
    // Where lanes may be absent, the extreme of none is the operator's identity.
    std::vector<std::string> names;
    ExprId some = ir::kNoExpr;
    for (const int a : axes) {
        const Axis& axis = tile.axes[std::size_t(a)];
        if (axis.capacity != axis.extent || kernel_.is_constant(axis.extent)) continue;
        const ExprId here = kernel_.binary(BinaryOp::Less, zero(), axis.extent);
        some = exists(some) ? kernel_.binary(BinaryOp::And, some, here) : here;
        names.push_back(fmt::format("axis {}", a));
    }
    if (!exists(some)) return;
    check_some(some, span, op == BinaryOp::Max ? "max" : "min",
               fmt::format("{} has no elements", fmt::join(names, " or ")));
}

Value Lowering::reduce_tile(BinaryOp op, const Value& source, std::vector<int> axes, bool keep,
                            bool may_be_empty, Span span) {
    Value value = source;
    if (!reduced_dtype(op, value, span)) return poison(span);
    if (!value.tile) return value;
    has_tiles_ = true;
    std::vector<Axis> outer = value.tile->axes, inner(outer.size(), Axis{one(), one()});
    for (const int a : axes) std::swap(inner[std::size_t(a)], outer[std::size_t(a)]);
    const bool extreme = op == BinaryOp::Max || op == BinaryOp::Min;
    if (extreme && !may_be_empty) check_axes(op, *value.tile, axes, span);
    Value result = value;
    result.is_row = false;
    result.span = span;
    const bool scalar = std::all_of(outer.begin(), outer.end(), [&](const Axis& axis) {
        return kernel_.is_constant(axis.capacity, 1) && !is_ragged(axis);
    });
    auto kept = std::make_shared<Tile>();
    if (scalar) {
        const std::vector<ExprId> at(outer.size(), zero());
        const SymbolId symbol = reduce_at(op, value, inner, axes, at, span);
        ir::Stmt& let = push(StmtKind::Let, span);
        let.symbol = kernel_.add_symbol(ir::SymbolKind::Let, value.dtype,
                                        fmt::format("red{}", kernel_.symbols.size()), span);
        let.value = kernel_.symbol(symbol, span);
        const ExprId got = kernel_.symbol(let.symbol, span);
        if (!keep) {
            result.tile = nullptr;
            result.expr = got;
            return result;
        }
        kept->at = [got](const std::vector<ExprId>&) { return got; };
    } else {
        const BufferId id = reduced_buffer(value.dtype, outer, span);
        for_each(outer, [&](const std::vector<ExprId>& at) {
            const SymbolId symbol = reduce_at(op, value, inner, axes, at, span);
            ir::Stmt& store = push(StmtKind::Store, span);
            store.buffer = id;
            store.indices = at;
            store.value = kernel_.symbol(symbol, span);
        });
        kept->direct = {id};
        kept->at = [this, id, span](const std::vector<ExprId>& index) {
            return kernel_.load(id, index, span);
        };
    }
    kept->axes = outer;
    result.tile = kept;
    return result;
}

BufferId Lowering::reduced_buffer(DType dtype, std::vector<Axis>& axes, Span span) {
    const auto id = static_cast<BufferId>(kernel_.buffers.size());
    ir::Buffer buffer{ir::BufferKind::Local, dtype, fmt::format("reduced{}", id), {}, false, span};
    for (const Axis& axis : axes) buffer.shape.push_back(axis.capacity);
    kernel_.buffers.push_back(std::move(buffer));
    push(StmtKind::Alloc, span).buffer = id;
    for (Axis& axis : axes) {
        if (!changes(axis.extent)) continue;
        ir::Stmt& let = push(StmtKind::Let, span);
        let.symbol = kernel_.add_symbol(ir::SymbolKind::Let, DType::Int64, "extent", span);
        let.value = axis.extent;
        tile_extents_[let.symbol] = axis.extent;
        axis.extent = kernel_.symbol(let.symbol);
    }
    return id;
}

bool Lowering::factors(Value& a, Value& b, Value& products, Span span) {
    DType nominal = a.nominal;
    bool weak = false;
    if (!unify(a, b, span, nominal, weak)) return false;
    const DType dtype = weak ? DType::Float32 : widened(a.dtype);
    a = convert(a, dtype);
    b = convert(b, dtype);
    products.dtype = dtype;
    products.nominal = is_floating(dtype) ? nominal : dtype;
    products.span = span;
    return true;
}

Value Lowering::contract(const Value& left, const Value& right, Span span) {
    if (left.poisoned || right.poisoned) return poison(span);
    axes_are_separable_ = false;
    const std::size_t ra = left.tile ? left.tile->axes.size() : 0;
    const std::size_t rb = right.tile ? right.tile->axes.size() : 0;
    if (ra != 2 || rb != 2) {
        report(Code::E0415, span,
               fmt::format("expected two tiles of rank 2 around '@', got ranks {} and {}", ra, rb));
        return poison(span);
    }
    Value a = left, b = right, products;
    if (!factors(a, b, products, span)) return poison(span);
    const Axis rows = a.tile->axes[0], columns = b.tile->axes[1];
    const Axis ka = a.tile->axes[1], kb = b.tile->axes[0];
    require(ka.capacity, kb.capacity, ir::Rule::Tile, Code::E0501, span);
    contracted_ = ka.capacity;
    auto joined = std::make_shared<Tile>();
    joined->axes = {rows, columns, meet(ka, kb)};
    joined->direct = a.tile->direct;
    joined->shuffled = b.tile->direct;
    joined->at = [this, x = a.tile, y = b.tile, span](const std::vector<ExprId>& i) {
        return kernel_.binary(BinaryOp::Mul, x->at({i[0], i[2]}), y->at({i[2], i[1]}), span);
    };
    products.tile = joined;
    const Value sums = reduce_tile(BinaryOp::Add, products, {2}, true, true, span);
    Value result = sums;
    auto tile = std::make_shared<Tile>(*sums.tile);
    tile->axes.pop_back();
    tile->at = [this, at = sums.tile->at](const std::vector<ExprId>& i) {
        return at({i[0], i[1], zero()});
    };
    result.tile = tile;
    return result;
}

Value Lowering::dot(const Value& left, const Value& right, Span span) {
    if (left.poisoned || right.poisoned) return poison(span);
    axes_are_separable_ = false;
    const std::size_t ra = left.tile ? left.tile->axes.size() : 0;
    const std::size_t rb = right.tile ? right.tile->axes.size() : 0;
    if (ra != 1 || rb != 1) {
        report(Code::E0415, span,
               fmt::format("[dot] expected two rows, got ranks {} and {}", ra, rb));
        return poison(span);
    }
    Value a = left, b = right, products;
    if (!factors(a, b, products, span)) return poison(span);
    require(a.tile->axes[0].capacity, b.tile->axes[0].capacity, ir::Rule::Tile, Code::E0501, span);
    contracted_ = a.tile->axes[0].capacity;
    auto joined = std::make_shared<Tile>();
    joined->axes = {meet(a.tile->axes[0], b.tile->axes[0])};
    joined->at = [this, x = a.tile, y = b.tile, span](const std::vector<ExprId>& i) {
        return kernel_.binary(BinaryOp::Mul, x->at(i), y->at(i), span);
    };
    products.tile = joined;
    const bool had_tiles = has_tiles_;
    Value result = reduce_tile(BinaryOp::Add, products, {0}, false, true, span);
    has_tiles_ = had_tiles;
    return result;
}

namespace {

using Loops = ShortVector<ir::Stmt*, 6>;

struct Use {
    Loops loops;
    ir::Stmt* statement = nullptr;
    bool declares = false;
    bool accumulates = false;
};

/// Every use of every var, with the loops around it.
class Uses {
public:
    explicit Uses(const ir::Kernel& kernel) : kernel_(kernel) {}

    void block(std::vector<ir::Stmt>& body) {
        for (ir::Stmt& s : body) {
            ir::for_each_expr(s, [&](ExprId e) { read(e); });
            if (s.kind == StmtKind::Var || s.kind == StmtKind::Assign ||
                s.kind == StmtKind::Accumulate || s.kind == StmtKind::ArgReduce) {
                of[s.symbol].push_back(
                    {loops_, &s, s.kind == StmtKind::Var, s.kind == StmtKind::Accumulate});
            }
            const bool loop = s.kind == StmtKind::For;
            if (loop) loops_.push_back(&s);
            block(s.body);
            block(s.otherwise);
            if (loop) loops_.pop_back();
        }
    }

    std::map<SymbolId, std::vector<Use>> of;

private:
    void read(ExprId id) {
        for (const ExprId each : ir::reachable(kernel_, id)) {
            const ir::Expr& e = kernel_[each];
            const bool is_var =
                e.kind == ir::ExprKind::Symbol && kernel_.symbols[e.a].kind == ir::SymbolKind::Var;
            if (is_var) of[e.a].push_back({loops_, nullptr, false, false});
        }
    }

    const ir::Kernel& kernel_;
    Loops loops_;
};

}  // namespace

bool Lowering::bounds_read(const ir::Stmt& loop, SymbolId symbol) const {
    return std::ranges::any_of(std::array{loop.value, loop.end, loop.step}, [&](ExprId bound) {
        return exists(bound) && ir::depends_on(kernel_, bound, symbol);
    });
}

void Lowering::mark_reductions() {
    Uses uses(kernel_);
    uses.block(kernel_.body);
    std::vector<ir::Stmt*> sequential;
    for (const auto& [symbol, list] : uses.of) {
        std::size_t outside = 0;
        for (const Use& use : list) {
            if (use.declares) outside = use.loops.size();
        }
        for (const Use& use : list) {
            if (!use.accumulates) continue;
            bool any = false;
            for (std::size_t depth = use.loops.size(); depth > outside; --depth) {
                ir::Stmt* loop = use.loops[depth - 1];
                const auto inside = std::count_if(list.begin(), list.end(), [&](const Use& other) {
                    return other.loops.size() >= depth && other.loops[depth - 1] == loop;
                });
                if (inside != 1 || bounds_read(*loop, symbol)) break;
                loop->reduces.push_back(symbol);
                any = true;
            }
            if (!any) sequential.push_back(use.statement);
        }
    }
    for (ir::Stmt* s : sequential) {
        s->kind = StmtKind::Assign;
        s->value = kernel_.binary(s->op, kernel_.symbol(s->symbol, s->span), s->value, s->span);
    }
}

}  // namespace quern::semantics

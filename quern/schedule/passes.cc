#include "quern/schedule/passes.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "quern/schedule/loops.h"
#include "quern/schedule/reduction.h"

namespace quern::schedule {

using ir::BinaryOp;
using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

namespace {

using Block = std::vector<Stmt>;

void replace_symbol(ir::Kernel& kernel, Stmt& s, ir::SymbolId symbol, ExprId value) {
    ir::for_each_expr(s, [&](ExprId& id) { id = ir::substitute(kernel, id, symbol, value); });
    for (Block* block : {&s.body, &s.otherwise}) {
        for (Stmt& inner : *block) replace_symbol(kernel, inner, symbol, value);
    }
}

void inline_lets(ir::Kernel& kernel, Block& block) {
    for (std::size_t i = 0; i < block.size(); ++i) {
        if (block[i].kind == StmtKind::Let) {
            const ir::SymbolId symbol = block[i].symbol;
            const ExprId value = block[i].value;
            const bool is_index = kernel.symbols[symbol].dtype == DType::Int64;
            if (is_index && !ir::reads_var(kernel, value) && !has_effects(kernel, value) &&
                !ir::is_long(kernel, value)) {
                for (std::size_t j = i + 1; j < block.size(); ++j) {
                    replace_symbol(kernel, block[j], symbol, value);
                }
                block.erase(block.begin() + std::ptrdiff_t(i--));
                continue;
            }
        }
        inline_lets(kernel, block[i].body);
        inline_lets(kernel, block[i].otherwise);
    }
}

/// A var of its own for each var that a loop reduces, and an array with an element for each of
/// `count` partial results.
class Partials {
public:
    Partials(ir::Kernel& kernel, const Stmt& loop, ExprId count) : kernel_(kernel), loop_(loop) {
        for (const ir::SymbolId s : loop.reduces) {
            const ir::Symbol symbol = kernel.symbols[s];
            ir::Buffer array;
            array.kind = ir::BufferKind::Local;
            array.dtype = symbol.dtype;
            array.name = symbol.name + ".partials";
            array.shape = {count};
            array.span = symbol.span;
            kernel.buffers.push_back(array);
            arrays_.push_back(ir::BufferId(kernel.buffers.size() - 1));
            vars_.push_back(
                kernel.add_symbol(ir::SymbolKind::Var, symbol.dtype, symbol.name + ".part"));
        }
    }

    Block allocs() const {
        Block block;
        for (const ir::BufferId array : arrays_) {
            Stmt s;
            s.kind = StmtKind::Alloc;
            s.buffer = array;
            block.push_back(s);
        }
        return block;
    }

    Block begin() const {
        Block block;
        for (std::size_t i = 0; i < vars_.size(); ++i) {
            Stmt s;
            s.kind = StmtKind::Var;
            s.symbol = vars_[i];
            s.value =
                identity(kernel_, op_of(loop_.reduces[i]), kernel_.symbols[loop_.reduces[i]].dtype);
            block.push_back(s);
        }
        return block;
    }

    /// The loop's body, or an inner loop, contributing to the new vars.
    void redirect(Stmt& s) const {
        for (ir::SymbolId& r : s.reduces) r = part_of(r);
        if (s.kind == StmtKind::Accumulate) s.symbol = part_of(s.symbol);
        for (Block* block : {&s.body, &s.otherwise}) {
            for (Stmt& inner : *block) redirect(inner);
        }
    }

    Block store(ExprId at) const {
        Block block;
        for (std::size_t i = 0; i < vars_.size(); ++i) {
            Stmt s;
            s.kind = StmtKind::Store;
            s.buffer = arrays_[i];
            s.indices = {at};
            s.value = kernel_.symbol(vars_[i]);
            block.push_back(s);
        }
        return block;
    }

    /// for c in 0..count reduces s { s op= x[c] }
    Stmt combine(ExprId count) const {
        Stmt loop;
        loop.kind = StmtKind::For;
        loop.span = loop_.span;
        loop.symbol = kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, "part");
        loop.value = kernel_.integer(0);
        loop.end = count;
        loop.step = kernel_.integer(1);
        loop.reduces = loop_.reduces;
        for (std::size_t i = 0; i < vars_.size(); ++i) {
            Stmt s;
            s.kind = StmtKind::Accumulate;
            s.op = op_of(loop_.reduces[i]);
            s.symbol = loop_.reduces[i];
            s.value = kernel_.load(arrays_[i], {kernel_.symbol(loop.symbol)});
            loop.body.push_back(s);
        }
        return loop;
    }

    BinaryOp op_of(ir::SymbolId symbol) const { return operator_of(loop_.body, symbol); }

private:
    ir::SymbolId part_of(ir::SymbolId symbol) const {
        for (std::size_t i = 0; i < vars_.size(); ++i) {
            if (loop_.reduces[i] == symbol) return vars_[i];
        }
        return symbol;
    }

    ir::Kernel& kernel_;
    const Stmt& loop_;
    std::vector<ir::BufferId> arrays_;
    std::vector<ir::SymbolId> vars_;
};

void append(Block& block, Block more) {
    for (Stmt& s : more) block.push_back(std::move(s));
}

bool reads_reduced(const ir::Kernel& kernel, const Stmt& loop) {
    const std::function<bool(const Block&)> any = [&](const Block& block) {
        for (const Stmt& s : block) {
            for (const ExprId id : {s.value, s.end, s.step, s.index}) {
                for (const ir::SymbolId r : loop.reduces) {
                    if (exists(id) && ir::depends_on(kernel, id, r)) return true;
                }
            }
            if (any(s.body) || any(s.otherwise)) return true;
        }
        return false;
    };
    return any(loop.body);
}

/// The largest value that an expression takes in the loops around, or itself if that is not known.
ExprId largest(ir::Kernel& kernel, ExprId id, std::span<const ir::LoopRange> around) {
    const ExprId bound = ir::upper_bound(kernel, id, around);
    return exists(bound) ? bound : id;
}

class Splitter {
public:
    Splitter(ir::Kernel& kernel, const ir::Facts& facts, bool inside)
        : kernel_(kernel), ranges_(ranges_of(kernel, facts)), inside_(inside) {}

    Block rewrite(Block block, bool is_outside) {
        Block result;
        for (Stmt& s : block) {
            const bool inside = !is_outside || s.parallel;
            const bool may_be_parallel = is_outside && around_.empty();
            if (s.kind == StmtKind::For) around_.push_back({s.symbol, s.value, s.end, s.step});
            s.body = rewrite(std::move(s.body), !inside);
            if (s.kind == StmtKind::For) around_.pop_back();
            s.otherwise = rewrite(std::move(s.otherwise), is_outside);
            if (s.kind == StmtKind::For && (is_outside || inside_) && is_long(s) &&
                !reads_reduced(kernel_, s)) {
                append(result, has_known_chunks(s) ? split(s, may_be_parallel, 0) : nested(s));
            } else {
                result.push_back(std::move(s));
            }
        }
        return result;
    }

private:
    std::int64_t longest(const Stmt& loop) { return most_trips(kernel_, loop, around_, ranges_); }

    bool is_long(const Stmt& loop) { return !loop.reduces.empty() && longest(loop) > kChunk; }

    bool has_known_chunks(const Stmt& loop) {
        return is_of_launch(kernel_, most_of(ir::simplify(kernel_, trips_of(kernel_, loop))));
    }

    ExprId most_of(ExprId id) { return largest(kernel_, id, around_); }

    /// A loop over the chunks of a loop, and that of one chunk.
    std::pair<Stmt, Stmt> chunks_of(const Stmt& loop) {
        const ExprId trips = ir::simplify(kernel_, trips_of(kernel_, loop));
        Stmt chunks;
        chunks.kind = StmtKind::For;
        chunks.span = loop.span;
        chunks.symbol = kernel_.add_symbol(ir::SymbolKind::Loop, DType::Int64, "chunk");
        chunks.value = kernel_.integer(0);
        chunks.end = kernel_.binary(
            BinaryOp::FloorDiv, kernel_.binary(BinaryOp::Add, trips, kernel_.integer(kChunk - 1)),
            kernel_.integer(kChunk));
        chunks.step = kernel_.integer(1);
        Stmt chunk = loop;
        const ExprId step = exists(loop.step) ? loop.step : kernel_.integer(1);
        const ExprId width = kernel_.binary(BinaryOp::Mul, kernel_.integer(kChunk), step);
        const ExprId at = kernel_.symbol(chunks.symbol);
        chunk.value =
            kernel_.binary(BinaryOp::Add, loop.value, kernel_.binary(BinaryOp::Mul, at, width));
        chunk.end = kernel_.binary(BinaryOp::Min, loop.end,
                                   kernel_.binary(BinaryOp::Add, chunk.value, width));
        return {std::move(chunks), std::move(chunk)};
    }

    /// Where nobody knows how many chunks there are before the loop begins: each is a contribution
    /// to the loop around it, which is what their array would be.
    Block nested(const Stmt& loop) {
        std::int64_t longest_left = longest(loop);
        Stmt outermost = loop;
        while (longest_left > kChunk) {
            auto [chunks, chunk] = chunks_of(outermost);
            chunks.reduces = loop.reduces;
            chunks.body.push_back(std::move(chunk));
            outermost = std::move(chunks);
            longest_left = (longest_left - 1) / kChunk + 1;
        }
        Block result;
        result.push_back(std::move(outermost));
        return result;
    }

    Block split(const Stmt& loop, bool may_be_parallel, int level) {
        auto [chunks, chunk] = chunks_of(loop);
        const ExprId count = chunks.end;
        const Partials partials(kernel_, loop, most_of(count));
        chunks.parallel = may_be_parallel;
        partials.redirect(chunk);
        chunks.body = partials.begin();
        chunks.body.push_back(std::move(chunk));
        append(chunks.body, partials.store(kernel_.symbol(chunks.symbol)));

        Block result = partials.allocs();
        result.push_back(std::move(chunks));
        const Stmt combine = partials.combine(count);
        // Three levels hold 2^48 iterations.
        if (level < 2) {
            append(result, split(combine, may_be_parallel, level + 1));
        } else {
            result.push_back(combine);
        }
        return result;
    }

    ir::Kernel& kernel_;
    ir::RangeOf ranges_;
    bool inside_;
    std::vector<ir::LoopRange> around_;
};

/// The body is one inner loop that reduces the same, perhaps after lets.
bool is_nested_reduction(const Stmt& loop) {
    if (loop.kind != StmtKind::For || loop.reduces.empty()) return false;
    int inner = 0;
    for (const Stmt& s : loop.body) {
        if (s.kind == StmtKind::Let) continue;
        if (s.kind != StmtKind::For || s.reduces != loop.reduces) return false;
        ++inner;
    }
    return inner == 1;
}

void mark(ir::Kernel& kernel, Stmt& s) {
    if (s.kind != StmtKind::For || !s.reduces.empty()) return;
    if (!s.parallel) s.parallel = why_not_independent(kernel, s).empty();
    if (s.parallel && s.body.size() == 1) mark(kernel, s.body[0]);
}

}  // namespace

namespace {

bool is_data(const ir::Kernel& kernel, ExprId bound) {
    const ir::ExprIds nodes = ir::reachable(kernel, bound);
    return std::ranges::any_of(nodes, [&](ExprId node) {
        const ir::Expr& e = kernel[node];
        const bool is_loop =
            e.kind == ExprKind::Symbol && kernel.symbols[e.a].kind == ir::SymbolKind::Loop;
        return e.kind == ExprKind::Load || e.kind == ExprKind::Scalar ||
               (e.kind == ExprKind::Symbol && !is_loop);
    });
}

}  // namespace

bool is_span_small(const ir::Kernel& kernel, const Stmt& loop) {
    return !is_data(kernel, loop.value) && !is_data(kernel, loop.end);
}

bool is_span_exact(const ir::Kernel& kernel, const Stmt& loop) {
    return kernel.is_constant(loop.value, 0) || is_span_small(kernel, loop);
}

ExprId trips_of(ir::Kernel& kernel, const Stmt& loop) {
    const ExprId one = kernel.integer(1), endless = kernel.integer(kEndless);
    const bool is_exact = is_span_exact(kernel, loop);
    const ExprId end = is_exact ? loop.end : kernel.binary(BinaryOp::Max, loop.end, loop.value);
    ExprId span = kernel.binary(BinaryOp::Sub, end, loop.value);
    if (!is_exact) {
        const ExprId is_wrapped = kernel.binary(BinaryOp::Less, span, kernel.integer(0));
        span = kernel.select(is_wrapped, endless, span);
    }
    if (!is_span_small(kernel, loop)) span = kernel.binary(BinaryOp::Min, span, endless);
    if (!exists(loop.step) || kernel.is_constant(loop.step, 1)) return span;
    if (!kernel.is_constant(loop.step)) {
        const ExprId last = kernel.binary(BinaryOp::Sub, span, one);
        return kernel.binary(BinaryOp::Add, kernel.binary(BinaryOp::FloorDiv, last, loop.step),
                             one);
    }
    const ExprId step = kernel.integer(std::min(kernel.integer_value(loop.step), kLargeStep));
    const ExprId last = kernel.binary(BinaryOp::Sub, step, one);
    return kernel.binary(BinaryOp::FloorDiv, kernel.binary(BinaryOp::Add, span, last), step);
}

std::int64_t most_trips(ir::Kernel& kernel, const Stmt& loop, std::span<const ir::LoopRange> around,
                        const ir::RangeOf& ranges) {
    const ExprId most = largest(kernel, trips_of(kernel, loop), around);
    return ir::range_of(kernel, ir::simplify(kernel, most, ranges), ranges).high;
}

bool is_of_launch(const ir::Kernel& kernel, ExprId id) {
    const ir::ExprIds nodes = ir::reachable(kernel, id);
    return std::none_of(nodes.begin(), nodes.end(), [&](ExprId node) {
        return kernel[node].kind == ExprKind::Symbol || kernel[node].kind == ExprKind::Load;
    });
}

ExprId extent_of(ir::Kernel& kernel, std::uint32_t operand, std::uint32_t axis) {
    std::vector<ExprId> equal{kernel.extent(operand, axis)};
    for (std::size_t i = 0; i < equal.size(); ++i) {
        for (const ir::Constraint& c : kernel.constraints) {
            if (c.left != equal[i] && c.right != equal[i]) continue;
            const ExprId other = c.left == equal[i] ? c.right : c.left;
            if (kernel[other].kind != ExprKind::Extent) return other;
            if (std::ranges::find(equal, other) == equal.end()) equal.push_back(other);
        }
    }
    return equal[0];
}

ExprId extent_of_axis(ir::Kernel& kernel, ir::BufferId buffer, std::size_t axis) {
    const ExprId shape = kernel.buffers[buffer].shape[axis];
    if (kernel[shape].kind != ExprKind::Extent) return shape;
    const ir::Expr e = kernel[shape];
    return extent_of(kernel, e.a, e.b);
}

ir::RangeOf ranges_of(const ir::Kernel& kernel, const ir::Facts& facts) {
    const auto range = [](const ir::DimFacts& dim) {
        if (dim.is_one) return ir::Range{1, 1};
        return ir::Range{0, most_of(dim.bucket)};
    };
    std::unordered_map<std::uint64_t, ir::Range> extents;
    const auto key = [](const ir::Expr& e) { return std::uint64_t(e.a) << 32 | e.b; };
    for (const ir::Constraint& c : kernel.constraints) {
        const ir::Expr& left = kernel[c.left];
        const ir::Expr& right = kernel[c.right];
        if (left.kind == ExprKind::Dim && right.kind == ExprKind::Extent) {
            extents[key(right)] = range(facts.dims[left.a]);
        }
    }
    return [dims = facts.dims, range, key,
            extents = std::move(extents)](const ir::Expr& leaf) -> std::optional<ir::Range> {
        if (leaf.kind == ExprKind::Dim) return range(dims[leaf.a]);
        if (leaf.kind == ExprKind::Extent) {
            const auto found = extents.find(key(leaf));
            if (found != extents.end()) return found->second;
            return ir::Range{0, std::int64_t(1) << 47};
        }
        return std::nullopt;
    };
}

void inline_index_lets(ir::Kernel& kernel) { inline_lets(kernel, kernel.body); }

void split_long_reductions(ir::Kernel& kernel, const ir::Facts& facts, bool inside) {
    kernel.body = Splitter(kernel, facts, inside).rewrite(std::move(kernel.body), true);
}

void spread_nested_reductions(ir::Kernel& kernel) {
    Block result;
    for (Stmt& s : kernel.body) {
        if (!is_nested_reduction(s) || reads_reduced(kernel, s)) {
            result.push_back(std::move(s));
            continue;
        }
        const Stmt loop = s;
        ExprId count = ir::simplify(kernel, trips_of(kernel, loop));
        if (!is_of_launch(kernel, count)) {
            result.push_back(std::move(s));
            continue;
        }
        // An array has no fewer elements than none.
        const ExprId none = kernel.integer(0);
        if (!ir::proves_at_least(kernel, count, none)) {
            count = kernel.binary(BinaryOp::Max, count, none);
        }
        const Partials partials(kernel, loop, count);
        const ExprId step = exists(loop.step) ? loop.step : kernel.integer(1);
        s.reduces.clear();
        s.parallel = true;
        for (Stmt& inner : s.body) partials.redirect(inner);
        Block body = partials.begin();
        append(body, std::move(s.body));
        const ExprId from = kernel.binary(BinaryOp::Sub, kernel.symbol(s.symbol), loop.value);
        append(body, partials.store(kernel.binary(BinaryOp::FloorDiv, from, step)));
        s.body = std::move(body);
        append(result, partials.allocs());
        result.push_back(std::move(s));
        result.push_back(partials.combine(count));
    }
    kernel.body = std::move(result);
}

void mark_parallel(ir::Kernel& kernel) {
    for (Stmt& s : kernel.body) {
        mark(kernel, s);
        // The launch decides on the points.
        const bool is_grid = s.kind == StmtKind::For && s.parallel;
        if (is_grid && !is_of_launch(kernel, ir::simplify(kernel, trips_of(kernel, s)))) {
            s.parallel = false;
        }
    }
}

}  // namespace quern::schedule

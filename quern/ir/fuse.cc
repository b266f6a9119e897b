#include "quern/ir/fuse.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "quern/ir/index.h"
#include "quern/support/check.h"

namespace quern::ir {
namespace {

/// The loops of an element-wise kernel, outermost first, and the statements of a point: names, and
/// the store at the end. Without loops if it is none.
struct Nest {
    std::vector<const Stmt*> loops;
    const std::vector<Stmt>* body = nullptr;

    const Stmt& store() const { return body->back(); }
    explicit operator bool() const { return body != nullptr; }
};

bool is_symbol(const Kernel& kernel, ExprId id, SymbolId symbol) {
    return kernel[id].kind == ExprKind::Symbol && kernel[id].a == symbol;
}

Nest nest_of(const Kernel& kernel) {
    Nest nest;
    const std::vector<Stmt>* block = &kernel.body;
    while (block->size() == 1 && block->front().kind == StmtKind::For) {
        const Stmt& loop = block->front();
        const bool is_plain = loop.parallel && loop.reduces.empty() &&
                              kernel.is_constant(loop.value, 0) && kernel.is_constant(loop.step, 1);
        if (!is_plain) return {};
        nest.loops.push_back(&loop);
        block = &loop.body;
    }
    if (block->empty() || nest.loops.empty() || kernel.cooperative) return {};
    const Stmt& store = block->back();
    const Buffer& out = kernel.buffers[kernel.output()];
    if (store.kind != StmtKind::Store || store.buffer != kernel.output()) return {};
    if (!std::all_of(block->begin(), block->end() - 1,
                     [](const Stmt& s) { return s.kind == StmtKind::Let; })) {
        return {};
    }
    if (store.indices.size() != nest.loops.size()) return {};
    for (std::size_t p = 0; p < nest.loops.size(); ++p) {
        if (!is_symbol(kernel, store.indices[p], nest.loops[p]->symbol)) return {};
        if (nest.loops[p]->end != out.shape[p]) return {};
    }
    if (kernel.buffers.size() != kernel.operand_count + 1) return {};
    nest.body = block;
    return nest;
}

/// Whether a load of an operand is at the position of the point: at loop variables and constants.
bool is_at_point(const Kernel& kernel, const Nest& nest, const Expr& load) {
    for (int p = 0; p < load.count; ++p) {
        const ExprId index = kernel.index_of(load, p);
        const bool is_own =
            std::any_of(nest.loops.begin(), nest.loops.end(),
                        [&](const Stmt* loop) { return is_symbol(kernel, index, loop->symbol); });
        if (!is_own && !kernel.is_constant(index)) return false;
    }
    return load.a < kernel.operand_count;
}

bool reads_own_elements(const Kernel& kernel, const Nest& nest, std::uint32_t operand) {
    return std::all_of(kernel.exprs.begin(), kernel.exprs.end(), [&](const Expr& e) {
        if (e.kind != ExprKind::Load || e.a != operand) return true;
        if (e.count != nest.loops.size()) return false;
        for (int p = 0; p < e.count; ++p) {
            const SymbolId own = nest.loops[std::size_t(p)]->symbol;
            if (!is_symbol(kernel, kernel.index_of(e, p), own)) return false;
        }
        return true;
    });
}

/// Copies the nodes of one kernel into another, behind those that are there.
class Copy {
public:
    /// `place`: where all of it stands, if not where it says.
    Copy(const Kernel& from, Kernel& to, std::vector<BufferId> buffers,
         std::optional<Span> place = {})
        : from_(from),
          to_(to),
          buffers_(std::move(buffers)),
          place_(place),
          dims_(std::uint32_t(to.dims.size())),
          scalars_(std::uint32_t(to.scalars.size())) {
        to.dims.insert(to.dims.end(), from.dims.begin(), from.dims.end());
        to.scalars.insert(to.scalars.end(), from.scalars.begin(), from.scalars.end());
        for (std::size_t d = dims_; d < to.dims.size(); ++d) put(to.dims[d].span);
        for (std::size_t s = scalars_; s < to.scalars.size(); ++s) put(to.scalars[s].span);
    }

    void symbols(std::vector<SymbolId> symbols) { symbols_ = std::move(symbols); }

    /// `replacement(node)` may give a node of the other kernel for one of this, or kNoExpr.
    template <class Replacement>
    void nodes(const Replacement& replacement) {
        moved_.clear();
        for (const Expr& e : from_.exprs) {
            const ExprId other = replacement(e);
            moved_.push_back(exists(other) ? other : add(e));
        }
    }

    ExprId operator()(ExprId id) const {
        return exists(id) ? moved_[static_cast<std::uint32_t>(id)] : id;
    }

    void constraints() {
        for (Constraint c : from_.constraints) {
            c.left = (*this)(c.left);
            c.right = (*this)(c.right);
            put(c.span);
            to_.constraints.push_back(c);
        }
    }

    Buffer buffer(Buffer buffer) const {
        for (ExprId& extent : buffer.shape) extent = (*this)(extent);
        put(buffer.span);
        return buffer;
    }

    Stmt statement(const Stmt& from) const {
        Stmt s = from;
        for_each_expr(s, [&](ExprId& e) { e = (*this)(e); });
        if (s.symbol != kNone) s.symbol = symbols_[s.symbol];
        if (s.buffer != kNone) s.buffer = buffers_[s.buffer];
        s.body.clear();
        put(s.span);
        return s;
    }

private:
    void put(Span& span) const {
        if (place_) span = *place_;
    }

    ExprId add(Expr e) {
        const auto moved = [&](std::uint32_t& id) { id = static_cast<std::uint32_t>(moved_[id]); };
        switch (e.kind) {
            case ExprKind::Const:
                break;
            case ExprKind::Dim:
                e.a += dims_;
                break;
            case ExprKind::Extent:
                e.a = buffers_[e.a];
                break;
            case ExprKind::Scalar:
                e.a += scalars_;
                break;
            case ExprKind::Symbol:
                e.a = symbols_[e.a];
                break;
            case ExprKind::Load: {
                const auto first = std::uint32_t(to_.index_pool.size());
                for (int p = 0; p < e.count; ++p) {
                    to_.index_pool.push_back((*this)(from_.index_of(e, p)));
                }
                e.a = buffers_[e.a];
                e.b = first;
                break;
            }
            case ExprKind::Select:
                moved(e.c);
                [[fallthrough]];
            case ExprKind::Binary:
                moved(e.b);
                [[fallthrough]];
            case ExprKind::Unary:
            case ExprKind::Cast:
                moved(e.a);
                break;
        }
        put(e.span);
        to_.exprs.push_back(e);
        return ExprId{std::uint32_t(to_.exprs.size() - 1)};
    }

    const Kernel& from_;
    Kernel& to_;
    std::vector<BufferId> buffers_;
    std::vector<SymbolId> symbols_;
    std::vector<ExprId> moved_;
    std::optional<Span> place_;
    std::uint32_t dims_;
    std::uint32_t scalars_;
};

}  // namespace

bool is_elementwise(const Kernel& kernel) {
    const Nest nest = nest_of(kernel);
    return nest && std::all_of(kernel.exprs.begin(), kernel.exprs.end(), [&](const Expr& e) {
               if (e.kind == ExprKind::Load) return is_at_point(kernel, nest, e);
               return !can_fail(kernel, e);
           });
}

std::optional<Kernel> fuse(const Kernel& producer, const Kernel& consumer, std::uint32_t operand,
                           bool is_one_text) {
    const Nest from = nest_of(producer), to = nest_of(consumer);
    if (!from || !to || !is_elementwise(producer)) return std::nullopt;
    if (from.loops.size() != to.loops.size()) return std::nullopt;
    if (!reads_own_elements(consumer, to, operand)) return std::nullopt;
    const Buffer& made = producer.buffers[producer.output()];
    const auto is_as_flat = [&](const Buffer& b) { return b.flat == made.flat; };
    if (!std::all_of(producer.buffers.begin(), producer.buffers.end(), is_as_flat) ||
        !std::all_of(consumer.buffers.begin(), consumer.buffers.end(), is_as_flat)) {
        return std::nullopt;
    }
    QUERN_CHECK(made.dtype == consumer.buffers[operand].dtype, "the operand is what was made");

    Kernel fused;
    fused.name = consumer.name;
    fused.kind = consumer.kind;
    std::copy_n(consumer.workgroup, 3, fused.workgroup);
    const std::uint32_t more = producer.operand_count;
    fused.operand_count = consumer.operand_count - 1 + more;
    std::vector<BufferId> producer_buffers, consumer_buffers;
    for (std::uint32_t i = 0; i < more; ++i) producer_buffers.push_back(operand + i);
    producer_buffers.push_back(kNone);
    for (std::uint32_t i = 0; i < consumer.buffers.size(); ++i) {
        consumer_buffers.push_back(i < operand ? i : i == operand ? kNone : i + more - 1);
    }

    const Span here = consumer.buffers[operand].span;
    // Loop variables are the consumer's.
    fused.symbols = consumer.symbols;
    std::vector<SymbolId> own(consumer.symbols.size()), others(producer.symbols.size(), kNone);
    for (SymbolId s = 0; s < own.size(); ++s) own[s] = s;
    for (std::size_t p = 0; p < from.loops.size(); ++p) {
        others[from.loops[p]->symbol] = to.loops[p]->symbol;
    }
    for (SymbolId s = 0; s < others.size(); ++s) {
        if (others[s] != kNone) continue;
        others[s] = SymbolId(fused.symbols.size());
        fused.symbols.push_back(producer.symbols[s]);
        if (!is_one_text) fused.symbols.back().span = here;
    }
    const SymbolId element =
        fused.add_symbol(SymbolKind::Let, made.dtype, consumer.buffers[operand].name, here);

    Copy make(producer, fused, producer_buffers,
              is_one_text ? std::nullopt : std::optional<Span>(here));
    for (Scalar& s : fused.scalars) s.name = std::to_string(operand) + "." + s.name;
    make.symbols(others);
    make.nodes([](const Expr&) { return kNoExpr; });
    std::vector<ExprId> shape;
    for (const ExprId extent : made.shape) shape.push_back(make(extent));
    const ExprId value = fused.cast(make(from.store().value), made.dtype);
    const ExprId read = fused.symbol(element);

    Copy use(consumer, fused, consumer_buffers);
    use.symbols(own);
    use.nodes([&](const Expr& e) {
        if (e.kind == ExprKind::Load && e.a == operand) return read;
        return e.kind == ExprKind::Extent && e.a == operand ? shape[e.b] : kNoExpr;
    });
    for (std::uint32_t i = 0; i < consumer.buffers.size(); ++i) {
        if (i != operand) {
            fused.buffers.push_back(use.buffer(consumer.buffers[i]));
            continue;
        }
        for (std::uint32_t j = 0; j < more; ++j) {
            fused.buffers.push_back(make.buffer(producer.buffers[j]));
        }
    }
    make.constraints();
    use.constraints();

    std::vector<Stmt> point;
    for (const Stmt& s : *from.body) {
        if (&s != &from.store()) point.push_back(make.statement(s));
    }
    Stmt let;
    let.kind = StmtKind::Let;
    let.symbol = element;
    let.value = value;
    let.span = here;
    point.push_back(std::move(let));
    for (const Stmt& s : *to.body) point.push_back(use.statement(s));
    for (std::size_t p = to.loops.size(); p-- > 0;) {
        Stmt loop = use.statement(*to.loops[p]);
        loop.body = std::exchange(point, {});
        point.push_back(std::move(loop));
    }
    fused.body = std::move(point);
    fused.compact();
    return fused;
}

}  // namespace quern::ir

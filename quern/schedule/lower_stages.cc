#include <fmt/format.h>

#include <algorithm>

#include "quern/schedule/loops.h"
#include "quern/schedule/lowerer.h"
#include "quern/schedule/passes.h"
#include "quern/support/check.h"

namespace quern::schedule {

using ir::Stmt;
using ir::StmtKind;
using lir::Op;

namespace {

/// What a loop counts for if its length depends on other loops or on what is in memory.
constexpr std::int64_t kUnknownTrips = 64;

/// How many iterations the loops of a block do, about; kNoExpr if it has none.
ExprId iterations_of(ir::Kernel& k, const std::vector<Stmt>& block) {
    ExprId sum = ir::kNoExpr;
    const auto add = [&](ExprId more) {
        if (exists(more)) sum = exists(sum) ? k.binary(ir::BinaryOp::Add, sum, more) : more;
    };
    for (const Stmt& s : block) {
        const ExprId inside = iterations_of(k, s.body);
        if (s.kind == StmtKind::For) {
            const ExprId known = trips_of(k, s);
            const ExprId trips = is_of_launch(k, known) ? known : k.integer(kUnknownTrips);
            add(exists(inside) ? k.binary(ir::BinaryOp::Mul, trips, inside) : trips);
        } else {
            add(inside);
        }
        add(iterations_of(k, s.otherwise));
    }
    return sum;
}

}  // namespace

lir::BufferId Lowerer::slot(ir::SymbolId symbol) {
    const auto found = slots_.find(symbol);
    QUERN_CHECK(found != slots_.end(), "a name that stages share");
    return lir::BufferId(k_.buffers.size() + found->second);
}

void Lowerer::open(const std::string& name) {
    b_ = lir::Builder(name);
    b_.set_relaxed(plan_.tiling.numerics == Numerics::Fast);
    names_.clear();
    rest_ = lir::kNone;
    stage_arrays_.clear();
    matrix_arrays_.clear();
    memo_.clear();
    memo_.emplace_back();
    for (std::size_t i = 0; i < k_.buffers.size(); ++i) {
        const ir::Buffer& buffer = k_.buffers[i];
        const bool is_global = i <= k_.output() || shared_arrays_.count(ir::BufferId(i)) != 0;
        b_.buffer(buffer.name, buffer.dtype, is_global ? lir::Space::Global : lir::Space::Lane,
                  i >= k_.output());
    }
    std::vector<ir::SymbolId> symbols(slots_.size());
    for (const auto& [symbol, number] : slots_) symbols[number] = symbol;
    for (const ir::SymbolId symbol : symbols) {
        b_.buffer(k_.symbols[symbol].name, k_.symbols[symbol].dtype, lir::Space::Global, true);
    }
}

void Lowerer::close(std::vector<GridAxis> grid, ExprId iterations) {
    lir::Function function = b_.take();
    for (std::size_t i = k_.buffers.size() + slots_.size(); i < function.buffers.size(); ++i) {
        // The partials of a tree: its size is a constant of the function.
        for (const lir::Inst& inst : function.insts) {
            if (inst.op != Op::Alloc || inst.buffer != i) continue;
            const auto count = std::int64_t(function[inst.a].bits);
            plan_.local.push_back(
                {lir::BufferId(i), function.buffers[i].dtype, {k_.integer(count)}});
        }
    }
    if (!exists(iterations)) iterations = k_.integer(1);
    plan_.stages.push_back({std::move(function), std::move(grid), iterations});
}

void Lowerer::serial_stage(const std::vector<const Stmt*>& statements) {
    open(fmt::format("stage{}", plan_.stages.size()));
    for (const ir::SymbolId symbol : shared_vars_) {
        const ValueId before = b_.load(slot(symbol), b_.integer(0), 1);
        names_[symbol] = {Name::Kind::Register, Bundle(b_.reg(before)), 1};
    }
    for (const Stmt* s : statements) {
        if (s->kind == StmtKind::Alloc) continue;
        statement(*s);
        if (s->kind == StmtKind::Var) shared_vars_.insert(s->symbol);
        if (s->kind == StmtKind::Let) {
            b_.store(slot(s->symbol), b_.integer(0), at(names_.at(s->symbol).bundle, {}));
        }
    }
    for (const ir::SymbolId symbol : shared_vars_) {
        b_.store(slot(symbol), b_.integer(0), b_.get(names_.at(symbol).bundle.copies[0]));
    }
    close({}, ir::kNoExpr);
}

void Lowerer::grid_stage(const Stmt& outermost) {
    open(fmt::format("stage{}", plan_.stages.size()));
    stage_rows_ = rows_of(plan_.tiling, std::span(&outermost, 1));
    std::vector<const Stmt*> nest;
    for (const Stmt* loop : grid_nest(k_, outermost)) {
        if (!plan_.tiling.has(loop->symbol, Level::Grid)) break;
        nest.push_back(loop);
    }
    std::vector<GridAxis> grid;
    std::vector<ValueId> counts, blocks, blocks_of_axis;
    for (std::size_t p = 0; p < nest.size(); ++p) {
        const Stmt& s = *nest[p];
        const Axis axis = axis_of(s);
        const ExprId count = trips_of(k_, s);
        grid.push_back({count, std::int64_t(axis.unroll) * axis.width()});
        counts.push_back(trips(s, axis));
        blocks.push_back(b_.parameter({lir::ParameterKind::Block, std::uint32_t(p), 0}));
        const ValueId rounded = b_.sub(b_.add(counts.back(), blocks.back()), b_.integer(1));
        blocks_of_axis.push_back(b_.binary(Op::Div, rounded, blocks.back()));
    }
    const ValueId point = b_.begin_for(b_.parameter({lir::ParameterKind::GridBegin, 0, 0}),
                                       b_.parameter({lir::ParameterKind::GridEnd, 0, 0}), 1);
    std::vector<ValueId> from(nest.size()), to(nest.size());
    ValueId rest = point;
    for (std::size_t p = nest.size(); p-- > 0;) {
        ValueId number = rest;
        if (p > 0) {
            number = b_.binary(Op::Rem, rest, blocks_of_axis[p]);
            rest = b_.binary(Op::Div, rest, blocks_of_axis[p]);
        }
        from[p] = b_.mul(number, blocks[p]);
        to[p] = b_.binary(Op::Min, b_.add(from[p], blocks[p]), counts[p]);
    }
    // What fits the caches stays there.
    prefetched_.clear();
    if (facts_.operands[k_.output()].is_streamed) {
        prefetched_ = loads_to_prefetch(k_, plan_.tiling, nest);
    }
    {
        const Scope scope(*this);
        grid_axis(nest, 0, from, to);
    }
    b_.end_for();
    stage_rows_ = 1;
    close(std::move(grid), iterations_of(k_, nest.back()->body));
}

void Lowerer::grid_axis(const std::vector<const Stmt*>& nest, std::size_t p,
                        const std::vector<ValueId>& from, const std::vector<ValueId>& to) {
    const Stmt& s = *nest[p];
    const Axis axis = axis_of(s);
    begin_loop(s);
    passes(axis, from[p], to[p], [&] {
        if (p + 1 < nest.size()) {
            grid_axis(nest, p + 1, from, to);
        } else {
            block(s.body);
        }
    });
    end_loop();
}

void Lowerer::run() {
    reads_output_ = k_.reads_output();
    std::uint32_t number = 0;
    for (const Stmt& s : k_.body) {
        if (s.kind == StmtKind::Let || s.kind == StmtKind::Var) slots_[s.symbol] = number++;
        if (s.kind == StmtKind::Alloc) shared_arrays_.insert(s.buffer);
    }
    const std::vector<Stmt> body = k_.body;
    std::vector<const Stmt*> serial;
    const auto flush = [&] {
        const bool has_work = std::any_of(serial.begin(), serial.end(),
                                          [](const Stmt* s) { return s->kind != StmtKind::Alloc; });
        if (has_work) serial_stage(serial);
        serial.clear();
    };
    for (const Stmt& s : body) {
        if (s.kind == StmtKind::For && plan_.tiling.has(s.symbol, Level::Grid)) {
            flush();
            grid_stage(s);
        } else {
            serial.push_back(&s);
        }
    }
    flush();
}

}  // namespace quern::schedule

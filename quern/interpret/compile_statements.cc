#include <algorithm>

#include "quern/interpret/compiler.h"
#include "quern/interpret/points.h"
#include "quern/ir/index.h"
#include "quern/support/check.h"

namespace quern::interpret {

using ir::BinaryOp;
using ir::ExprId;
using ir::Stmt;
using ir::StmtKind;
using ir::SymbolId;

namespace {

/// What a loop assigns, and by which operator each var is accumulated.
struct Effects {
    std::vector<bool> assigned;
    std::vector<std::pair<SymbolId, BinaryOp>> accumulated;

    explicit Effects(std::size_t symbols) : assigned(symbols, false) {}

    void visit(const std::vector<Stmt>& body) {
        for (const Stmt& s : body) {
            switch (s.kind) {
                case StmtKind::ArgReduce:
                    assigned[s.index_symbol] = true;
                    [[fallthrough]];
                case StmtKind::Var:
                case StmtKind::Assign:
                    assigned[s.symbol] = true;
                    break;
                case StmtKind::Accumulate:
                    assigned[s.symbol] = true;
                    accumulated.emplace_back(s.symbol, s.op);
                    break;
                default:
                    break;
            }
            visit(s.body);
            visit(s.otherwise);
        }
    }

    const BinaryOp* operator_of(SymbolId symbol) const {
        const BinaryOp* found = nullptr;
        for (const auto& [var, op] : accumulated) {
            if (var != symbol) continue;
            QUERN_CHECK(!found || *found == op, "one operator for each var that a loop reduces");
            found = &op;
        }
        return found;
    }
};

bool is_point_loop(const Stmt& s) {
    return s.kind == StmtKind::For && s.parallel && s.reduces.empty();
}

/// Loops further inside are too short to be worth a report.
constexpr int kTrackedDepth = 3;

/// Puts a member back at the end of the scope.
template <class T>
class Kept {
public:
    explicit Kept(T& member) : member_(member), value_(member) {}
    ~Kept() { member_ = value_; }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;

private:
    T& member_;
    T value_;
};

}  // namespace

Compiler::Compiler(const ir::Kernel& kernel, const Launch& launch)
    : kernel_(kernel),
      launch_(launch),
      ranges_(kernel, launch),
      known_(kernel.exprs.size()),
      symbols_(kernel.symbols.size()),
      is_defined_(kernel.symbols.size(), false),
      array_of_(kernel.buffers.size(), ir::kNone),
      address_(kernel.buffers.size()) {
    frames_.emplace_back();
    frames_[0].assigned.resize(kernel.symbols.size());
    open_scope();
    registers();  // kZero
}

Code compile(const ir::Kernel& kernel, const Launch& launch) {
    return Compiler(kernel, launch).run();
}

Code Compiler::run() {
    for (ir::BufferId b = 0; b < kernel_.buffers.size(); ++b) {
        if (b < kernel_.operand_count) {
            address_[b] = integer(reinterpret_cast<std::intptr_t>(launch_.operands[b].data));
            continue;
        }
        array_of_[b] = std::uint32_t(code_.arrays.size());
        code_.arrays.push_back({b, std::uint32_t(size_of(kernel_.buffers[b].dtype)), false, {}, 0});
    }
    for (const ir::Expr& e : kernel_.exprs) {
        if (e.kind == ir::ExprKind::Load && e.a >= kernel_.operand_count) {
            code_.arrays[array_of_[e.a]].is_read = true;
        }
    }
    address_[kernel_.output()] = integer(reinterpret_cast<std::intptr_t>(launch_.output->data));
    track(kZero, kZero);
    tracked_depth_ = 0;
    block(kernel_.body);

    Frame& main = frames_[0];
    Instructions& all = code_.instructions;
    all = std::move(main.before);
    all.insert(all.end(), main.body.begin(), main.body.end());
    all.push_back({});
    for (std::size_t r = 0; r < code_.regions.size(); ++r) {
        const auto start = std::uint32_t(all.size());
        code_.regions[r].entry = start;
        for (PointLoop& loop : code_.regions[r].loops) loop.label += start;
        all.insert(all.end(), region_code_[r].begin(), region_code_[r].end());
    }
    return std::move(code_);
}

void Compiler::block(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) statement(s);
}

void Compiler::statement(const Stmt& s) {
    switch (s.kind) {
        case StmtKind::Let: {
            if (is_defined_[s.symbol]) known_.assign(known_.size(), {});
            is_defined_[s.symbol] = true;
            symbols_[s.symbol] = settled(expr(s.value));
            break;
        }
        case StmtKind::Var: {
            const Value value = expr(s.value);
            if (!is_defined_[s.symbol]) {
                symbols_[s.symbol] = {registers(), depth()};
                is_var_.resize(code_.registers.size(), false);
                is_var_[symbols_[s.symbol].reg] = true;
                is_defined_[s.symbol] = true;
            }
            symbols_[s.symbol].level = depth();
            assign(symbols_[s.symbol].reg, value);
            break;
        }
        case StmtKind::Assign:
            assign(symbols_[s.symbol].reg, expr(s.value));
            break;
        case StmtKind::Accumulate:
            accumulate(s);
            break;
        case StmtKind::ArgReduce:
            better(s);
            break;
        case StmtKind::For:
            if (region_ == ir::kNone && is_point_loop(s)) {
                region(s);
            } else {
                loop(s);
            }
            break;
        case StmtKind::If:
            conditional(s);
            break;
        case StmtKind::Alloc:
            allocate(s);
            break;
        case StmtKind::Store:
            store(s);
            break;
        case StmtKind::Barrier:
            break;
        case StmtKind::Check: {
            if (ranges_.is_safe(s.value) && ranges_.of(s.value).low == 1) break;
            const Value value = expr(s.value);
            emit(Op::CheckTrue, site({s.code, s.span, ir::kNone, ir::kNone}), value.reg);
            break;
        }
    }
}

void Compiler::conditional(const Stmt& s) {
    const std::size_t over = jump(Op::JumpIfNot, expr(s.value).reg);
    open_scope();
    block(s.body);
    close_scope();
    if (s.otherwise.empty()) {
        land(over);
        return;
    }
    const std::size_t out = jump(Op::Jump);
    land(over);
    open_scope();
    block(s.otherwise);
    close_scope();
    land(out);
}

Compiler::Value Compiler::settled(Value value) {
    if (value.reg >= is_var_.size() || !is_var_[value.reg]) return value;
    return result(depth(), Op::Move, value);
}

Compiler::Bounds Compiler::bounds_of(const Stmt& s) {
    Bounds b;
    b.begin = settled(expr(s.value));
    const Value end = expr(s.end);
    b.step = ir::exists(s.step) ? settled(expr(s.step)) : integer(1);
    const bool is_safe = !ir::exists(s.step) || ranges_.of(s.step).low > 0;
    std::uint32_t level = std::max({b.begin.level, end.level, b.step.level});
    if (!is_safe) level = depth();
    b.count = {registers(), level};
    emit_at(level, Op::Count, b.count.reg, b.begin.reg, end.reg).to = {
        std::int32_t(site({ir::Code::E0506, s.span, ir::kNone, s.symbol})), b.step.reg};
    return b;
}

/// Opens the frame of a loop: from here on code goes into its body.
void Compiler::enter(const Stmt& s) {
    Effects effects(kernel_.symbols.size());
    effects.visit(s.body);
    Frame frame;
    frame.variable = registers(2);
    frame.assigned = std::move(effects.assigned);
    frame.first_reduction = std::uint32_t(code_.reductions.size());
    for (const SymbolId var : s.reduces) {
        const BinaryOp* op = effects.operator_of(var);
        if (!op) continue;
        frame.reduced.push_back(var);
        code_.reductions.push_back({registers(std::uint32_t(kPartials * kLevels)),
                                    tree_of(*op, kernel_.symbols[var].dtype), *op});
    }
    if (is_defined_[s.symbol]) known_.assign(known_.size(), {});
    is_defined_[s.symbol] = true;
    symbols_[s.symbol] = {frame.variable, depth() + 1};
    frames_.push_back(std::move(frame));
    open_scope();
}

/// Closes the innermost frame; its code is for the caller to place.
Compiler::Frame Compiler::leave() {
    close_scope();
    forget(frames_.back().remembered);
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    return frame;
}

/// Begins a part of the work inside the present one; kNone if nobody wants to know, or it is nested
/// too deeply.
std::uint32_t Compiler::track(std::uint32_t iteration, std::uint32_t count) {
    if (!launch_.is_tracked || tracked_depth_ == kTrackedDepth) return ir::kNone;
    const auto index = std::uint32_t(code_.tracked.size());
    Tracked tracked{tracked_, 0, 0, iteration, count};
    if (tracked_ != ir::kNone) tracked.place = code_.tracked[tracked_].parts++;
    code_.tracked.push_back(tracked);
    tracked_ = index;
    ++tracked_depth_;
    return index;
}

void Compiler::loop(const Stmt& s) {
    const Kept part(tracked_);
    const Kept tracked_depth(tracked_depth_);
    const Bounds b = bounds_of(s);
    enter(s);
    const std::uint32_t tracked = track(frames_.back().variable + 1, b.count.reg);
    block(s.body);
    const bool has_parts = tracked != ir::kNone && code_.tracked[tracked].parts > 0;
    if (has_parts) emit(Op::Report, 0, tracked);
    const Frame frame = leave();
    const bool in_chunks = tracked != ir::kNone && !has_parts;

    const auto first = frame.first_reduction;
    const auto last = first + std::uint32_t(frame.reduced.size());
    Instructions& around = code();
    around.insert(around.end(), frame.before.begin(), frame.before.end());
    for (std::uint32_t r = first; r < last; ++r) emit(Op::ReduceBegin, 0, r, b.count.reg);
    const auto length = std::int32_t(frame.body.size());
    emit(Op::LoopBegin, frame.variable, b.begin.reg, b.count.reg).to = {length + 2, 0};
    around.insert(around.end(), frame.body.begin(), frame.body.end());
    if (first == last && !in_chunks) {
        emit(Op::LoopNext, frame.variable, b.step.reg, b.count.reg).to = {-length, 0};
    } else {
        emit(Op::LoopNextReduce, frame.variable, b.step.reg, b.count.reg).to = {
            -length, std::uint32_t(code_.loops.size())};
        code_.loops.push_back({first, last, in_chunks ? tracked : ir::kNone});
    }
    for (std::uint32_t r = first; r < last; ++r) {
        const Value result{registers(), depth()};
        emit(Op::ReduceEnd, result.reg, r, b.count.reg);
        accumulate(frame.reduced[r - first], code_.reductions[r].op, result);
    }
}

/// A nest of parallel loops. Those whose bounds are known outside are numbered as one.
void Compiler::region(const Stmt& s) {
    const Kept part(tracked_);
    const Kept tracked_depth(tracked_depth_);
    std::vector<const Stmt*> loops{&s};
    while (loops.back()->body.size() == 1 && is_point_loop(loops.back()->body[0])) {
        loops.push_back(&loops.back()->body[0]);
    }
    const auto is_outside = [&](ExprId id, std::size_t count) {
        if (!ir::exists(id)) return true;
        for (std::size_t l = 0; l < count; ++l) {
            if (ir::depends_on(kernel_, id, loops[l]->symbol)) return false;
        }
        return ranges_.is_safe(id);
    };
    std::size_t numbered = 1;
    std::vector<Bounds> bounds{bounds_of(s)};
    while (numbered < loops.size()) {
        const Stmt& next = *loops[numbered];
        const bool has_step = !ir::exists(next.step) || ranges_.of(next.step).low > 0;
        if (!has_step || !is_outside(next.value, numbered) || !is_outside(next.end, numbered) ||
            !is_outside(next.step, numbered)) {
            break;
        }
        bounds.push_back(bounds_of(next));
        ++numbered;
    }

    region_ = std::uint32_t(code_.regions.size());
    Region region;
    region.point = registers(3);
    region.end = region.point + 1;
    region.id = region.point;
    for (const ir::BufferId b : buffers_shared_by_points(kernel_, ranges_, loops)) {
        region.claimed.push_back(array_of_[b]);
    }
    if (!region.claimed.empty() && numbered < loops.size()) region.id = region.point + 2;
    region.tracked = track(kZero, kZero);
    tracked_depth_ = 0;
    code_.regions.push_back(region);
    region_code_.emplace_back();

    const std::uint32_t outside = depth();
    for (std::size_t l = 0; l < numbered; ++l) enter(*loops[l]);
    points(loops, numbered, {region.point, depth()});
    emit(Op::NextPoint, 0, region_);

    Instructions body;
    for (std::size_t l = 0; l < numbered; ++l) {
        const Frame& frame = frames_[outside + l];
        if (l > 0) body.insert(body.end(), frame.before.begin(), frame.before.end());
        code_.regions[region_].loops.push_back({frame.variable, bounds[l].begin.reg,
                                                bounds[l].step.reg, bounds[l].count.reg,
                                                std::uint32_t(body.size())});
    }
    // What a loop's variable changes begins with the code before the next loop.
    for (std::size_t l = 0; l + 1 < numbered; ++l) {
        const std::size_t before = frames_[outside + l + 1].before.size();
        code_.regions[region_].loops[l].label =
            code_.regions[region_].loops[l + 1].label - std::uint32_t(before);
    }
    const Instructions& inner = frames_.back().body;
    body.insert(body.end(), inner.begin(), inner.end());
    const Instructions before = std::move(frames_[outside].before);
    for (std::size_t l = 0; l < numbered; ++l) leave();
    code().insert(code().end(), before.begin(), before.end());
    emit(Op::Parallel, 0, region_);
    code_.regions[region_].has_loops = std::any_of(
        body.begin(), body.end(), [](const Instruction& i) { return i.op == Op::LoopBegin; });
    region_code_[region_] = std::move(body);
    region_ = ir::kNone;
}

/// What a point does: the loops of the nest that are not numbered, and their body. `id` numbers the
/// points so far.
void Compiler::points(const std::vector<const Stmt*>& loops, std::size_t next, Value id) {
    const bool is_claiming = !code_.regions[region_].claimed.empty();
    if (next == loops.size()) {
        const Region& region = code_.regions[region_];
        if (region.id != region.point) emit(Op::Move, region.id, id.reg);
        block(loops.back()->body);
        return;
    }
    const Kept part(tracked_);
    const Kept tracked_depth(tracked_depth_);
    const Stmt& s = *loops[next];
    const Bounds b = bounds_of(s);
    enter(s);
    const std::uint32_t tracked = track(frames_.back().variable + 1, b.count.reg);
    if (is_claiming) {
        const Range range = ranges_.of_symbol(s.symbol);
        const std::int64_t most = range.high - range.low + 1;
        const std::uint32_t numbered = registers();
        emit(Op::Address, numbered, frames_.back().variable + 1, id.reg).immediate = most;
        id = {numbered, depth()};
        code_.regions[region_].ids_per_point *= most;
    }
    points(loops, next + 1, id);
    if (tracked != ir::kNone) emit(Op::Report, 0, tracked);
    const Frame frame = leave();
    Instructions& around = code();
    around.insert(around.end(), frame.before.begin(), frame.before.end());
    const auto length = std::int32_t(frame.body.size());
    emit(Op::LoopBegin, frame.variable, b.begin.reg, b.count.reg).to = {length + 2, 0};
    around.insert(around.end(), frame.body.begin(), frame.body.end());
    emit(Op::LoopNext, frame.variable, b.step.reg, b.count.reg).to = {-length, 0};
}

void Compiler::accumulate(const Stmt& s) {
    const ir::Expr& e = kernel_[s.value];
    // A product that is only summed: one instruction, with both roundings.
    if (e.kind == ir::ExprKind::Binary && BinaryOp(e.op) == BinaryOp::Mul &&
        s.op == BinaryOp::Add && e.dtype == DType::Float32) {
        for (std::size_t f = frames_.size(); f-- > 1;) {
            const Frame& frame = frames_[f];
            const auto found = std::find(frame.reduced.begin(), frame.reduced.end(), s.symbol);
            if (found == frame.reduced.end()) continue;
            const auto r = frame.first_reduction + std::uint32_t(found - frame.reduced.begin());
            const std::uint32_t slots = code_.reductions[r].partials, k = frame.variable + 1;
            const Value x = expr(ExprId{e.a}), y = expr(ExprId{e.b});
            emit(Op::AddProductSlotF, slots, x.reg, y.reg).to = {0, k};
            return;
        }
    }
    accumulate(s.symbol, s.op, expr(s.value));
}

void Compiler::accumulate(SymbolId symbol, BinaryOp op, Value value) {
    const DType dtype = kernel_.symbols[symbol].dtype;
    for (std::size_t f = frames_.size(); f-- > 1;) {
        const Frame& frame = frames_[f];
        const auto found = std::find(frame.reduced.begin(), frame.reduced.end(), symbol);
        if (found == frame.reduced.end()) continue;
        const auto r = frame.first_reduction + std::uint32_t(found - frame.reduced.begin());
        const Reduction& reduction = code_.reductions[r];
        const std::uint32_t slots = reduction.partials, k = frame.variable + 1;
        if (op == BinaryOp::Add && dtype == DType::Float32) {
            emit(Op::AddSlotF, slots, value.reg, k);
        } else if (op == BinaryOp::Add && dtype == DType::Float64) {
            emit(Op::AddSlotD, slots, value.reg, k);
        } else if (op == BinaryOp::Add && (dtype == DType::Int64 || dtype == DType::UInt64)) {
            emit(Op::AddSlotI, slots, value.reg, k);
        } else {
            emit(Op::ApplySlot, slots, value.reg, k).apply = reduction.tree.apply;
        }
        return;
    }
    const std::uint32_t var = symbols_[symbol].reg;
    emit(Op::Apply, var, var, value.reg).apply = tree_of(op, dtype).apply;
}

void Compiler::better(const Stmt& s) {
    const DType dtype = kernel_.symbols[s.symbol].dtype;
    const Op minimum = dtype == DType::Float64  ? Op::BetterMinD
                       : is_floating(dtype)     ? Op::BetterMinF
                       : dtype == DType::UInt64 ? Op::BetterMinU
                                                : Op::BetterMinI;
    const int to_maximum = int(Op::BetterMaxI) - int(Op::BetterMinI);
    const Op op = s.op == BinaryOp::Less ? minimum : Op(int(minimum) + to_maximum);
    const Value value = expr(s.value);
    const std::uint32_t is_better = registers();
    emit(op, is_better, value.reg, symbols_[s.symbol].reg);
    const std::size_t over = jump(Op::JumpIfNot, is_better);
    open_scope();
    assign(symbols_[s.symbol].reg, value);
    assign(symbols_[s.index_symbol].reg, expr(s.index));
    close_scope();
    land(over);
}

void Compiler::allocate(const Stmt& s) {
    ArrayInfo& array = code_.arrays[array_of_[s.buffer]];
    array.extents.clear();
    for (const ExprId extent : kernel_.buffers[s.buffer].shape) {
        const Value value = settled(expr(extent));
        code_.arrays[array_of_[s.buffer]].extents.push_back(value.reg);
    }
    address_[s.buffer] = {registers(), depth()};
    code_.arrays[array_of_[s.buffer]].site = site({ir::Code::E0610, s.span, s.buffer, 0});
    emit(Op::Allocate, address_[s.buffer].reg, array_of_[s.buffer]);
}

}  // namespace quern::interpret

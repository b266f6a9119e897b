#include "quern/lir/hazards.h"

#include <algorithm>

#include "quern/lir/lanes.h"

namespace quern::lir {
namespace {

bool is_load(Op op) { return op == Op::Load || op == Op::Gather || op == Op::MatrixLoad; }

}  // namespace

bool is_store(Op op) { return op == Op::Store || op == Op::Scatter || op == Op::MatrixStore; }

std::optional<DType> exchanged_as(const Function& function, const Inst& inst) {
    const auto lanes = [&](ValueId id) { return exists(id) ? function[id].type.lanes : 1; };
    if (inst.op == Op::Assert && (lanes(inst.a) > 1 || lanes(inst.c) > 1)) return DType::UInt32;
    if (class_of(inst.op) != OpClass::Lanes || inst.op == Op::Splat) return std::nullopt;
    const DType dtype = function[inst.a].type.dtype;
    // A bool as 32 bits, which memory has.
    return dtype == DType::Bool ? DType::UInt32 : dtype;
}

Hazards::Hazards(const Function& function, std::uint32_t subgroup)
    : f_(function),
      lanes_(lanes_of(function)),
      subgroup_(subgroup),
      written_(function.buffers.size(), false) {
    for (const Inst& i : f_.insts) {
        if (is_store(i.op)) written_[i.buffer] = true;
    }
}

std::optional<DType> Hazards::shown_as(const Inst& inst) const {
    const std::optional<DType> dtype = exchanged_as(f_, inst);
    const bool is_of_row = inst.op == Op::Fold && inst.bits != 0;
    const std::uint64_t together = is_of_row ? inst.bits : lanes_;
    return together <= subgroup_ ? std::nullopt : dtype;
}

void Hazards::State::add(const Use& use) {
    const auto place = std::ranges::lower_bound(uses, use);
    if (place == uses.end() || *place != use) uses.insert(place, use);
}

void Hazards::State::add(const State& other) {
    for (const Use& use : other.uses) add(use);
}

/// Behind the function's own buffers.
BufferId Hazards::array_of(DType dtype) const {
    return BufferId(f_.buffers.size()) + BufferId(dtype);
}

/// Lanes show each other values in the group's memory.
Spaces Hazards::memory_of(BufferId buffer) const {
    const bool is_group = buffer >= f_.buffers.size() || kept_.count(buffer) != 0;
    return is_group ? Spaces::Group : Spaces::Device;
}

/// Whether it is seen that an offset is a multiple of the lanes.
bool Hazards::is_multiple(ValueId id, int depth) const {
    const Inst& i = f_[id];
    const auto is = [&](ValueId part) { return depth > 0 && is_multiple(part, depth - 1); };
    switch (i.op) {
        case Op::Constant:
            return i.bits % lanes_ == 0;
        case Op::Add:
        case Op::Sub:
            return is(i.a) && is(i.b);
        case Op::Mul:
            return is(i.a) || is(i.b);
        case Op::For:
            return i.bits % lanes_ == 0 && is(i.a);
        default:
            return false;
    }
}

Hazards::Form Hazards::form(ValueId id, ValueId loop, int depth) const {
    if (id == loop) return Form::Variable;
    if (depth == 0) return Form::Other;
    const Inst& i = f_[id];
    const auto of = [&](ValueId part) {
        return exists(part) ? form(part, loop, depth - 1) : Form::Same;
    };
    const Form a = of(i.a), b = of(i.b);
    const bool is_same = a == Form::Same && b == Form::Same && of(i.c) == Form::Same;
    switch (class_of(i.op)) {
        case OpClass::Leaf:
            return i.op == Op::Iota ? Form::Lane : Form::Same;
        case OpClass::Memory:
        case OpClass::Register:
            return Form::Other;
        case OpClass::Control:
            // The variable of another loop.
            return is_same ? Form::Same : Form::Other;
        default:
            break;
    }
    if (is_same) return Form::Same;
    if (i.op == Op::Splat) return a;
    if (i.op == Op::Add || (i.op == Op::Sub && b == Form::Same)) {
        if (a == Form::Same || b == Form::Same) return a == Form::Same ? b : a;
        const bool are_both =
            (a == Form::Variable && b == Form::Lane) || (a == Form::Lane && b == Form::Variable);
        return are_both ? Form::Lanes : Form::Other;
    }
    if (i.op == Op::Mul && (a == Form::Same || b == Form::Same)) {
        return a == Form::Lanes || b == Form::Lanes ? Form::Lanes : Form::Other;
    }
    return Form::Other;
}

/// Whether lanes write an element in one iteration of a loop only, or the same lane in each.
bool Hazards::writes_apart(ValueId store, ValueId loop) const {
    constexpr int kDepth = 16;
    const Inst& i = f_[store];
    const Form offset = form(i.a, loop, kDepth);
    const bool is_row = i.op == Op::Store;
    if (offset == Form::Same || offset == Form::Lane) return true;
    const std::uint64_t width = std::uint64_t{lanes_} * i.type.packet;
    return f_[loop].bits % width == 0 && offset == (is_row ? Form::Variable : Form::Lanes);
}

Hazards::Who Hazards::who(const Inst& i, ValueId id) const {
    const bool is_array = f_.buffers[i.buffer].space == Space::Lane;
    const bool is_row = i.op == Op::Load || i.op == Op::Store;
    constexpr int kDepth = 8;
    if (is_array && is_row && i.type.lanes > 1 && is_multiple(i.a, kDepth)) return kOwn;
    if (is_load(i.op)) return kAny;
    if (i.op == Op::MatrixStore) return kMatrices;
    return i.type.lanes == 1 ? kFirst : Who(id);
}

void Hazards::touch(ValueId id, State& state) const {
    const Inst& i = f_[id];
    if (const auto dtype = shown_as(i)) state.add({array_of(*dtype), false, kAny, 0});
    const bool writes = is_store(i.op);
    if (!writes && !(is_load(i.op) && written_[i.buffer])) return;
    const bool has_number = class_of(i.op) == OpClass::Memory;
    state.add({i.buffer, writes, who(i, id), has_number ? Who(i.bits) : 0});
}

void Hazards::collect(BlockId block, State& all, std::vector<BufferId>& made) const {
    for (const ValueId id : f_.blocks[block]) {
        const Inst& i = f_[id];
        touch(id, all);
        if (i.op == Op::Alloc) made.push_back(i.buffer);
        if (i.body != kNoBlock) collect(i.body, all, made);
        if (i.otherwise != kNoBlock) collect(i.otherwise, all, made);
    }
}

Spaces Hazards::meets(const State& before, const State& next) const {
    // What one writes another may touch, but for the same lane's elements, those of one instruction
    // in lanes, and those of one number.
    const auto meet = [](const Use& x, const Use& y) {
        if (!x.is_write && !y.is_write) return false;
        if (x.number != 0 && x.number == y.number) return false;
        const bool are_same = x.who == y.who && x.who != kEarlier;
        return !are_same || (x.is_write != y.is_write && x.who != kOwn);
    };
    Spaces spaces = Spaces::None;
    for (const Use& y : next.uses) {
        auto x = std::ranges::lower_bound(before.uses, y.buffer, {}, &Use::buffer);
        for (; x != before.uses.end() && x->buffer == y.buffer; ++x) {
            if (meet(*x, y)) spaces = spaces | memory_of(y.buffer);
        }
    }
    return spaces;
}

/// The lanes have met for some memory.
void Hazards::forget(Spaces spaces) {
    std::erase_if(now_.uses, [&](const Use& use) { return has(spaces, memory_of(use.buffer)); });
}

Spaces Hazards::follow(const State& next) {
    const Spaces spaces = meets(now_, next);
    forget(spaces);
    now_.add(next);
    return spaces;
}

Spaces Hazards::before_access(ValueId id) {
    if (f_[id].op == Op::Alloc) {
        if (kept_.count(f_[id].buffer) != 0) return Spaces::None;
        // Its memory may have been another array's.
        const bool is_touched = std::ranges::any_of(now_.uses, [&](const Use& use) {
            return use.buffer < f_.buffers.size() && f_.buffers[use.buffer].space == Space::Lane &&
                   kept_.count(use.buffer) == 0;
        });
        if (!is_touched) return Spaces::None;
        forget(Spaces::Device);
        return Spaces::Device;
    }
    State access;
    touch(id, access);
    return follow(access);
}

bool Hazards::before_exchange(DType dtype) {
    const BufferId array = array_of(dtype);
    const bool is_read = std::ranges::binary_search(now_.uses, array, {}, &Use::buffer);
    forget(Spaces::Group);
    now_.add({array, false, kAny, 0});
    return is_read;
}

/// The same in an earlier iteration of a loop that is not apart.
Hazards::Use Hazards::earlier(Use use, ValueId loop) const {
    const bool is_store = use.who < kMatrices;
    if (is_store && !writes_apart(ValueId(use.who), loop)) use.who = kEarlier;
    use.number = 0;
    return use;
}

Spaces Hazards::before_loop(ValueId loop) {
    const Inst& i = f_[loop];
    State inside;
    std::vector<BufferId> made;
    collect(i.body, inside, made);
    const Spaces spaces = meets(now_, inside);
    forget(spaces);
    // A group does one point.
    const bool is_once =
        f_[i.a].op == Op::Parameter && f_.parameters[f_[i.a].bits].kind == ParameterKind::GridBegin;
    if (is_once) return spaces;
    for (const Use& use : inside.uses) {
        const bool is_apart = i.is_apart && std::ranges::count(made, use.buffer) == 0;
        now_.add(is_apart ? use : earlier(use, loop));
    }
    return spaces;
}

}  // namespace quern::lir

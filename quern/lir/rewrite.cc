#include "quern/lir/rewrite.h"

#include <utility>

namespace quern::lir {

Function outline_of(const Function& function) {
    Function outline;
    outline.name = function.name;
    outline.lanes = function.lanes;
    outline.subgroup = function.subgroup;
    outline.atom = function.atom;
    outline.parameters = function.parameters;
    outline.buffers = function.buffers;
    outline.patterns = function.patterns;
    return outline;
}

Rewrite::Rewrite(const Function& from, Function outline, DType (*stored)(DType))
    : from_(from), b_(std::move(outline)), stored_(stored), values_(from.insts.size(), kNone) {}

Function Rewrite::run() {
    block(0);
    return b_.take();
}

void Rewrite::block(BlockId number) {
    for (const ValueId id : from_.blocks[number]) {
        const Inst& i = from_[id];
        if (i.op == Op::For || i.op == Op::If) {
            control(i, id);
            continue;
        }
        b_.set_relaxed(i.is_relaxed);
        Inst copied = i;
        if (stored_) copied.type.dtype = stored_(i.type.dtype);
        copied.a = value(i.a);
        copied.b = value(i.b);
        copied.c = value(i.c);
        values_[std::uint32_t(id)] = written(i, copied);
    }
}

void Rewrite::control(const Inst& i, ValueId id) {
    if (i.op == Op::For) {
        values_[std::uint32_t(id)] = b_.begin_for(value(i.a), value(i.b), i.bits, i.is_apart);
        block(i.body);
        b_.end_for();
        return;
    }
    b_.begin_if(value(i.a));
    block(i.body);
    if (i.otherwise != kNoBlock) {
        b_.begin_else();
        block(i.otherwise);
    }
    b_.end_if();
}

}  // namespace quern::lir

#include "quern/backend/vulkan/hazards.h"

#include <algorithm>

namespace quern::vulkan {
namespace {

using lir::BlockId;
using lir::BufferId;
using lir::Inst;
using lir::Op;
using lir::ValueId;

bool is_load(Op op) { return op == Op::Load || op == Op::Gather; }
bool is_store(Op op) { return op == Op::Store || op == Op::Scatter; }

}  // namespace

Hazards::Hazards(const lir::Function& function)
    : f_(function), written_(function.buffers.size(), false) {
    for (const Inst& i : f_.insts) {
        if (is_store(i.op)) written_[i.buffer] = true;
    }
}

void Hazards::State::add(const State& other) {
    read.insert(other.read.begin(), other.read.end());
    for (const auto& [buffer, list] : other.writers) {
        writers[buffer].insert(list.begin(), list.end());
    }
}

/// One lane does all stores of one element, in order.
ValueId Hazards::writer(ValueId id) const { return f_[id].type.lanes == 1 ? lir::kNone : id; }

void Hazards::touch(ValueId id, State& state) const {
    const Inst& i = f_[id];
    if (is_load(i.op) && written_[i.buffer]) state.read.insert(i.buffer);
    if (is_store(i.op)) state.writers[i.buffer].insert(writer(id));
}

void Hazards::collect(BlockId block, State& all) const {
    for (const ValueId id : f_.blocks[block]) {
        const Inst& i = f_[id];
        touch(id, all);
        if (i.body != lir::kNoBlock) collect(i.body, all);
        if (i.otherwise != lir::kNoBlock) collect(i.otherwise, all);
    }
}

bool Hazards::before_access(ValueId id) {
    const Inst& i = f_[id];
    bool meets = false;
    if (i.op == Op::Alloc) {
        // Its memory may have been another array's.
        meets = !now_.is_empty();
    } else {
        const auto found = now_.writers.find(i.buffer);
        const bool is_written = found != now_.writers.end();
        if (is_load(i.op)) meets = is_written;
        if (is_store(i.op)) {
            // Iterations of a loop in lanes write elements of their own.
            const bool is_alone =
                is_written && found->second.size() == 1 && found->second.count(writer(id)) == 1;
            meets = now_.read.count(i.buffer) != 0 || (is_written && !is_alone);
        }
    }
    if (meets) met();
    touch(id, now_);
    return meets;
}

bool Hazards::before_loop(BlockId body) {
    State inside;
    collect(body, inside);
    const auto was_written = [&](BufferId buffer) { return now_.writers.count(buffer) != 0; };
    bool meets = std::any_of(inside.read.begin(), inside.read.end(), was_written);
    for (const auto& [buffer, writers] : inside.writers) {
        meets = meets || was_written(buffer) || now_.read.count(buffer) != 0;
    }
    if (meets) met();
    now_.add(inside);
    return meets;
}

}  // namespace quern::vulkan

#include "quern/interpret/machine.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "quern/support/memory.h"

namespace quern::interpret {
namespace {

bool is_other(std::uint64_t holder, std::uint64_t base, std::uint64_t id) {
    return holder > base && holder != id;
}

/// Writes down that point `id` writes the element. False if another point writes or reads it.
/// A reader writes itself down before it looks for a writer, so that of two points at least one
/// sees the other, and no element is touched by both.
bool claim(Claims& claims, std::int64_t element, std::uint64_t base, std::uint64_t id) {
    std::atomic<std::uint64_t>& writer = claims.writer[element];
    std::uint64_t holder = writer.load();
    while (holder != id) {
        if (is_other(holder, base, id)) return false;
        if (writer.compare_exchange_weak(holder, id)) break;
    }
    return !is_other(claims.reader[element].load(), base, id);
}

bool observe(Claims& claims, std::int64_t element, std::uint64_t base, std::uint64_t many,
             std::uint64_t id) {
    std::atomic<std::uint64_t>& reader = claims.reader[element];
    std::uint64_t holder = reader.load();
    while (holder != id && holder != many) {
        const std::uint64_t next = is_other(holder, base, id) ? many : id;
        if (reader.compare_exchange_weak(holder, next)) break;
    }
    return !is_other(claims.writer[element].load(), base, id);
}

template <class T>
T element_at(Reg base, Reg index, std::int64_t scale) {
    T value;
    std::memcpy(&value, reinterpret_cast<const void*>(base.u + index.u * std::uint64_t(scale)),
                sizeof value);
    return value;
}

template <class T>
void put_element(Reg base, Reg index, std::int64_t scale, T value) {
    std::memcpy(reinterpret_cast<void*>(base.u + index.u * std::uint64_t(scale)), &value,
                sizeof value);
}

/// Iterations of a loop; the step is positive.
std::int64_t iterations(std::int64_t begin, std::int64_t end, std::int64_t step) {
    if (begin >= end) return 0;
    const std::uint64_t span = std::uint64_t(end) - std::uint64_t(begin);
    const std::uint64_t count = (span - 1) / std::uint64_t(step) + 1;
    return std::int64_t(std::min<std::uint64_t>(count, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

Machine::Machine(const Code& code, Host& host, std::int64_t local_limit)
    : code_(code),
      host_(host),
      local_limit_(local_limit),
      registers_(code.registers),
      arrays_(code.arrays.size()) {}

void Machine::copy_state(const Machine& main) {
    registers_ = main.registers_;
    claim_base = main.claim_base;
    claim_many = main.claim_many;
    has_trapped = false;
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
        const Array& from = main.arrays_[i];
        Array& to = arrays_[i];
        to.data = from.data;
        to.elements = from.elements;
        to.shape = from.shape;
        to.marks = from.marks;
        to.claims = from.claims;
        // What is allocated here keeps its own count of marks.
        if (from.data) to.mark = from.mark;
    }
}

void Machine::adopt(std::uint32_t array, void* data, const std::vector<std::int64_t>& shape,
                    std::uint8_t* marks) {
    Array& a = arrays_[array];
    a.data = static_cast<std::byte*>(data);
    a.shape = shape;
    a.elements = 1;
    for (const std::int64_t extent : shape) a.elements *= extent;
    a.marks = marks;
}

bool Machine::trapped(std::int64_t site, std::int64_t value, std::int64_t limit) {
    trap = {std::uint32_t(site), value, limit};
    has_trapped = true;
    return false;
}

/// Gives an array its memory; elements are not written yet. The memory of the point before is used
/// again if it is large enough.
bool Machine::allocate(const Instruction& at) {
    const ArrayInfo& info = code_.arrays[at.a];
    Array& array = arrays_[at.a];
    array.shape.resize(info.extents.size());
    std::int64_t elements = 1, bytes = 0;
    bool fits = true;
    for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
        array.shape[axis] = registers_[info.extents[axis]].i;
        if (array.shape[axis] < 0) return trapped(info.site, array.shape[axis], -1);
    }
    for (const std::int64_t extent : array.shape) {
        fits = fits && !__builtin_mul_overflow(elements, extent, &elements);
    }
    if (std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end()) {
        elements = 0;
        fits = true;
    }
    fits = fits && !__builtin_mul_overflow(elements, std::int64_t(info.element_bytes), &bytes);
    array.elements = 0;  // the array takes its own place
    std::int64_t total = bytes;
    for (std::size_t i = 1; fits && i < arrays_.size(); ++i) {
        fits = !__builtin_add_overflow(
            total, arrays_[i].elements * std::int64_t(code_.arrays[i].element_bytes), &total);
    }
    if (!fits) total = std::numeric_limits<std::int64_t>::max();
    if (total > local_limit_) return trapped(info.site, total, local_limit_);

    if (!array.owned || bytes > array.capacity) {
        array.owned.reset(new (std::nothrow)
                              std::byte[std::size_t(std::max<std::int64_t>(bytes, 1))]);
        array.owned_marks.reset(
            info.is_read ? new (std::nothrow)
                               std::uint8_t[std::size_t(std::max<std::int64_t>(elements, 1))]()
                         : nullptr);
        array.capacity = bytes;
        if (!array.owned || (info.is_read && !array.owned_marks)) {
            array.owned.reset();
            raise_out_of_memory("kernel", std::uint64_t(total));
        }
    }
    if (++array.mark == 0) {
        if (info.is_read) {
            std::memset(array.owned_marks.get(), 0,
                        std::size_t(array.capacity / info.element_bytes));
        }
        array.mark = 1;
    }
    array.elements = elements;
    array.data = array.owned.get();
    array.marks = array.owned_marks.get();
    registers_[at.dst].i = reinterpret_cast<std::intptr_t>(array.data);
    return true;
}

bool Machine::run() { return execute(0); }

bool Machine::run_points(const Region& region, std::int64_t begin, std::int64_t end) {
    std::int64_t rest = begin;
    for (std::size_t l = region.loops.size(); l-- > 0;) {
        const PointLoop& loop = region.loops[l];
        const std::int64_t count = registers_[loop.count].i, k = rest % count;
        rest /= count;
        registers_[loop.variable].i = registers_[loop.begin].i + k * registers_[loop.step].i;
        registers_[loop.variable + 1].i = k;
    }
    registers_[region.point].i = begin;
    registers_[region.end].i = end;
    id_register_ = region.id;
    if (execute(region.entry)) return true;
    failed_point = registers_[region.point].i;
    return false;
}

bool Machine::execute(std::uint32_t start) {
    Reg* const r = registers_.data();
    const Instruction* pc = code_.instructions.data() + start;
    for (;; ++pc) {
        const Instruction& in = *pc;
        switch (in.op) {
#define UNARY_OP(name, to, from, value) \
    case Op::name: {                    \
        const auto x = r[in.a].from;    \
        r[in.dst].to = value;           \
        break;                          \
    }
#define BINARY_OP(name, to, from, value)               \
    case Op::name: {                                   \
        const auto x = r[in.a].from, y = r[in.b].from; \
        r[in.dst].to = value;                          \
        break;                                         \
    }
#define DIVIDE_OP(name, field, value)                    \
    case Op::name: {                                     \
        const auto x = r[in.a].field, y = r[in.b].field; \
        if (y == 0) return trapped(in.immediate);        \
        r[in.dst].field = value;                         \
        break;                                           \
    }
#define LOAD_OP(name, type, to, value)                                   \
    case Op::name: {                                                     \
        const auto x = element_at<type>(r[in.a], r[in.b], in.immediate); \
        r[in.dst].to = value;                                            \
        break;                                                           \
    }
#define STORE_OP(name, type, value)                               \
    case Op::name: {                                              \
        const Reg x = r[in.dst];                                  \
        put_element<type>(r[in.a], r[in.b], in.immediate, value); \
        break;                                                    \
    }
#include "quern/interpret/opcodes.def"
            case Op::PowI: {
                const std::int64_t x = r[in.a].i, n = r[in.b].i;
                if (n < 0) return trapped(in.immediate, n);
                r[in.dst].i = std::int64_t(wrapped_power(std::uint64_t(x), std::uint64_t(n)));
                break;
            }
            case Op::FunctionF:
                r[in.dst].f = in.float_function(r[in.a].f);
                break;
            case Op::FunctionH:
                r[in.dst].f = round_float16(in.float_function(r[in.a].f));
                break;
            case Op::FunctionB:
                r[in.dst].f = round_bfloat16(in.float_function(r[in.a].f));
                break;
            case Op::FunctionD:
                r[in.dst].d = in.double_function(r[in.a].d);
                break;
            case Op::Apply:
                r[in.dst] = in.apply(r[in.a], r[in.b]);
                break;
            case Op::Select:
                r[in.dst] = r[r[in.a].i != 0 ? in.b : in.to.c];
                break;
            case Op::AddImmediate:
                r[in.dst].u = r[in.a].u + std::uint64_t(in.immediate);
                break;
            case Op::Address:
                r[in.dst].u = r[in.a].u + r[in.b].u * std::uint64_t(in.immediate);
                break;
            case Op::Jump:
                pc += in.to.offset - 1;
                break;
            case Op::JumpIf:
                if (r[in.a].i != 0) pc += in.to.offset - 1;
                break;
            case Op::JumpIfNot:
                if (r[in.a].i == 0) pc += in.to.offset - 1;
                break;
            case Op::Count: {
                const std::int64_t step = r[in.to.c].i;
                if (step < 1) return trapped(in.to.offset, step);
                r[in.dst].i = iterations(r[in.a].i, r[in.b].i, step);
                break;
            }
            case Op::LoopBegin:
                r[in.dst].i = r[in.a].i;
                r[in.dst + 1].i = 0;
                steps += r[in.b].u;
                if (r[in.b].i == 0) pc += in.to.offset - 1;
                break;
            case Op::LoopNext:
                if (++r[in.dst + 1].i < r[in.b].i) {
                    r[in.dst].u += r[in.a].u;
                    pc += in.to.offset - 1;
                }
                break;
            case Op::LoopNextReduce: {
                const std::int64_t done = ++r[in.dst + 1].i;
                if (done < r[in.b].i) {
                    if (done % kChunk == 0) {
                        const ReducingLoop& loop = code_.loops[in.to.c];
                        for (std::uint32_t k = loop.first; k < loop.last; ++k) {
                            const Reduction& reduction = code_.reductions[k];
                            end_chunk(reduction.tree, r + reduction.partials, done);
                        }
                        if (loop.tracked != ir::kNone) host_.report(*this, loop.tracked);
                    }
                    r[in.dst].u += r[in.a].u;
                    pc += in.to.offset - 1;
                }
                break;
            }
            case Op::ReduceBegin: {
                const Reduction& reduction = code_.reductions[in.a];
                begin_reduction(reduction.tree, r + reduction.partials, r[in.b].i);
                break;
            }
            case Op::ReduceEnd: {
                const Reduction& reduction = code_.reductions[in.a];
                r[in.dst] = end_reduction(reduction.tree, r + reduction.partials, r[in.b].i);
                break;
            }
            case Op::AddSlotF:
                r[in.dst + (r[in.b].u & 15)].f += r[in.a].f;
                break;
            case Op::AddSlotD:
                r[in.dst + (r[in.b].u & 15)].d += r[in.a].d;
                break;
            case Op::AddSlotI:
                r[in.dst + (r[in.b].u & 15)].u += r[in.a].u;
                break;
            case Op::AddProductSlotF: {
                const float product = r[in.a].f * r[in.b].f;
                r[in.dst + (r[in.to.c].u & 15)].f += product;
                break;
            }
            case Op::ApplySlot: {
                Reg& slot = r[in.dst + (r[in.b].u & 15)];
                slot = in.apply(slot, r[in.a]);
                break;
            }
            case Op::Bound:
                if (r[in.a].u >= std::uint64_t(in.immediate)) {
                    return trapped(in.dst, r[in.a].i, in.immediate);
                }
                break;
            case Op::BoundBy:
                if (r[in.a].u >= r[in.b].u) return trapped(in.dst, r[in.a].i, r[in.b].i);
                break;
            case Op::CheckTrue:
                if (r[in.a].i == 0) return trapped(in.dst);
                break;
            case Op::Allocate:
                if (!allocate(in)) return false;
                break;
            case Op::CheckWritten: {
                const Array& array = arrays_[in.a];
                if (array.marks[r[in.b].i] != array.mark) return trapped(in.dst, r[in.b].i);
                break;
            }
            case Op::MarkWritten: {
                const Array& array = arrays_[in.a];
                array.marks[r[in.b].i] = array.mark;
                break;
            }
            case Op::Claim:
                if (!claim(*arrays_[in.a].claims, r[in.b].i, claim_base,
                           claim_base + 1 + r[id_register_].u)) {
                    return trapped(in.dst, r[in.b].i);
                }
                break;
            case Op::Observe:
                if (!observe(*arrays_[in.a].claims, r[in.b].i, claim_base, claim_many,
                             claim_base + 1 + r[id_register_].u)) {
                    return trapped(in.dst, r[in.b].i);
                }
                break;
            case Op::Parallel:
                if (!host_.run_region(*this, code_.regions[in.a])) return false;
                break;
            case Op::NextPoint: {
                const Region& region = code_.regions[in.a];
                if (++r[region.point].i == r[region.end].i) return true;
                for (std::size_t l = region.loops.size(); l-- > 0;) {
                    const PointLoop& loop = region.loops[l];
                    if (++r[loop.variable + 1].i < r[loop.count].i) {
                        r[loop.variable].u += r[loop.step].u;
                        pc = code_.instructions.data() + loop.label - 1;
                        break;
                    }
                    r[loop.variable + 1].i = 0;
                    r[loop.variable].i = r[loop.begin].i;
                }
                break;
            }
            case Op::Report:
                host_.report(*this, in.a);
                break;
            case Op::Halt:
                return true;
        }
    }
}

}  // namespace quern::interpret

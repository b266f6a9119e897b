#include "quern/lir/group_arrays.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace quern::lir {
namespace {

/// Instructions in the order of the code, both ends included.
struct Interval {
    std::uint32_t first = 0;
    std::uint32_t last = 0;

    bool meets(const Interval& other) const { return first <= other.last && other.first <= last; }
};

/// When arrays of a thread hold something: from the first instruction of the block where one is
/// made that touches it to the last, whole loops among them. What an earlier iteration of a loop
/// around that block left is not read.
class Lifetimes {
public:
    explicit Lifetimes(const Function& function) : f_(function), intervals_(f_.buffers.size()) {
        block(0);
    }

    const std::vector<Interval>& of(BufferId array) const { return intervals_[array]; }

private:
    /// Which buffers a block touches.
    using Touched = std::vector<bool>;

    Touched block(BlockId number) {
        Touched all(f_.buffers.size(), false);
        // Made in this block: the place of each one's interval, or -1.
        std::vector<std::ptrdiff_t> made(f_.buffers.size(), -1);
        for (const ValueId id : f_.blocks[number]) {
            const Inst& i = f_[id];
            const std::uint32_t first = next_++;
            Touched touched(f_.buffers.size(), false);
            for (const BlockId inside : {i.body, i.otherwise}) {
                if (inside != kNoBlock) merge(touched, block(inside));
            }
            const OpClass kind = class_of(i.op);
            if (i.op == Op::Alloc) {
                if (made[i.buffer] < 0) {
                    made[i.buffer] = std::ptrdiff_t(intervals_[i.buffer].size());
                    intervals_[i.buffer].push_back({next_, 0});
                }
            } else if (kind == OpClass::Memory || kind == OpClass::Matrix) {
                touched[i.buffer] = true;
            }
            for (BufferId b = 0; b < touched.size(); ++b) {
                if (!touched[b] || made[b] < 0) continue;
                Interval& interval = intervals_[b][std::size_t(made[b])];
                if (interval.last == 0) interval.first = first;
                interval.last = next_;
            }
            merge(all, touched);
        }
        return all;
    }

    static void merge(Touched& into, const Touched& from) {
        for (std::size_t i = 0; i < into.size(); ++i) into[i] = into[i] || from[i];
    }

    const Function& f_;
    std::vector<std::vector<Interval>> intervals_;

    /// The number of the next instruction.
    std::uint32_t next_ = 1;
};

/// Of what each array takes: then all begin at multiples of it in whichever order a driver places
/// them, as matrices have to (VUID-RuntimeSpirv-OpCooperativeMatrixLoadKHR-08986), and none leaves
/// a gap that counts for the limit (VUID-RuntimeSpirv-Workgroup-06530).
constexpr std::uint64_t kWholeBytes = 16;

/// Memory of a group, and the arrays that have it.
struct Slot {
    std::vector<BufferId> arrays;
    bool is_of_matrices = false;
    std::uint64_t elements = 0;
};

class Packing {
public:
    Packing(const Function& function, std::uint64_t room)
        : f_(function), lifetimes_(function), room_(room), sizes_(function.buffers.size(), 0) {
        constexpr std::uint64_t kUnknown = ~std::uint64_t{0};
        is_of_matrices_.resize(f_.buffers.size(), false);
        for (const Inst& i : f_.insts) {
            if (touches_matrix(i.op)) is_of_matrices_[i.buffer] = true;
            if (i.op != Op::Alloc) continue;
            const Inst& count = f_[i.a];
            const bool is_known = count.op == Op::Constant && count.bits <= room;
            sizes_[i.buffer] = std::max(sizes_[i.buffer], is_known ? count.bits : kUnknown);
        }
        for (BufferId b = 0; b < sizes_.size(); ++b) {
            if (sizes_[b] == kUnknown || f_.buffers[b].dtype == DType::Bool) sizes_[b] = 0;
            const std::uint64_t whole = kWholeBytes / bytes_each(b);
            sizes_[b] = (sizes_[b] + whole - 1) / whole * whole;
        }
    }

    GroupArrays run() {
        std::vector<BufferId> order(sizes_.size());
        std::iota(order.begin(), order.end(), BufferId{0});
        std::ranges::stable_sort(order, [&](BufferId a, BufferId b) {
            if (is_of_matrices_[a] != is_of_matrices_[b]) return bool(is_of_matrices_[a]);
            return sizes_[a] * bytes_each(a) < sizes_[b] * bytes_each(b);
        });
        for (const BufferId b : order) {
            if (sizes_[b] > 0 && !place(b)) share(b);
        }
        GroupArrays result{f_, std::vector<std::uint32_t>(sizes_.size(), 0)};
        for (const Slot& slot : slots_) {
            result.elements[slot.arrays[0]] = std::uint32_t(slot.elements);
            for (Inst& i : result.function.insts) {
                const OpClass kind = class_of(i.op);
                const bool touches = kind == OpClass::Memory || kind == OpClass::Matrix;
                if (touches && std::ranges::count(slot.arrays, i.buffer) > 0) {
                    i.buffer = slot.arrays[0];
                }
            }
        }
        return result;
    }

private:
    std::uint64_t bytes_each(BufferId b) const {
        const std::size_t size = size_of(f_.buffers[b].dtype);
        return is_of_matrices_[b] ? size : std::max<std::size_t>(size, 4);
    }

    bool place(BufferId b) {
        const std::uint64_t bytes = sizes_[b] * bytes_each(b);
        if (used_ + bytes > room_) return false;
        used_ += bytes;
        slots_.push_back({{b}, is_of_matrices_[b], sizes_[b]});
        return true;
    }

    /// The slot that grows least.
    void share(BufferId b) {
        Slot* best = nullptr;
        for (Slot& slot : slots_) {
            const std::uint64_t elements = std::max(slot.elements, sizes_[b]);
            const std::uint64_t more = (elements - slot.elements) * bytes_each(b);
            if (slot.is_of_matrices != is_of_matrices_[b] || used_ + more > room_ ||
                f_.buffers[slot.arrays[0]].dtype != f_.buffers[b].dtype) {
                continue;
            }
            if (std::ranges::any_of(slot.arrays, [&](BufferId a) { return meet(a, b); })) continue;
            if (!best || slot.elements > best->elements) best = &slot;
        }
        if (!best) return;
        const std::uint64_t elements = std::max(best->elements, sizes_[b]);
        used_ += (elements - best->elements) * bytes_each(b);
        best->elements = elements;
        best->arrays.push_back(b);
    }

    bool meet(BufferId a, BufferId b) const {
        return std::ranges::any_of(lifetimes_.of(a), [&](const Interval& x) {
            return std::ranges::any_of(lifetimes_.of(b),
                                       [&](const Interval& y) { return x.meets(y); });
        });
    }

    const Function& f_;
    const Lifetimes lifetimes_;
    const std::uint64_t room_;
    std::uint64_t used_ = 0;

    /// Elements of each array, where that is a number in the code; else 0.
    std::vector<std::uint64_t> sizes_;
    std::vector<bool> is_of_matrices_;
    std::vector<Slot> slots_;
};

}  // namespace

bool touches_matrix(Op op) { return op == Op::MatrixLoad || op == Op::MatrixStore; }

GroupArrays group_arrays(const Function& function, std::uint64_t room) {
    return Packing(function, room).run();
}

}  // namespace quern::lir

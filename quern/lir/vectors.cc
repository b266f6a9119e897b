#include "quern/lir/vectors.h"

#include <algorithm>
#include <map>
#include <utility>

#include "quern/lir/lanes.h"
#include "quern/lir/rewrite.h"
#include "quern/lir/word.h"
#include "quern/support/check.h"

namespace quern::lir {
namespace {

constexpr std::uint16_t kWidth = 16;

/// Who touched an element: the barriers before that, and the lane, or that they are several.
constexpr int kLaneBits = 8;
constexpr std::uint64_t kManyLanes = (1u << kLaneBits) - 1;

/// Not of one part: what lanes do together.
constexpr std::uint32_t kTogether = ~std::uint32_t{0};

/// In which part of a function each instruction is, and which values differ between lanes.
class Parts {
public:
    explicit Parts(const Function& function)
        : f_(function),
          parts_(f_.insts.size(), kTogether),
          varies_(f_.insts.size()),
          leaves_(f_.insts.size()) {
        number(0);
        while (find()) {
        }
        for (std::size_t n = 0; n < f_.insts.size(); ++n) {
            const Inst& i = f_.insts[n];
            for (const ValueId operand : {i.a, i.b, i.c}) {
                if (exists(operand) && part(operand) != parts_[n]) {
                    leaves_[std::uint32_t(operand)] = true;
                }
            }
        }
    }

    std::uint32_t part(ValueId id) const { return parts_[std::uint32_t(id)]; }
    bool varies(ValueId id) const { return exists(id) && varies_[std::uint32_t(id)]; }

    /// Whether another part uses it.
    bool leaves(ValueId id) const { return leaves_[std::uint32_t(id)]; }

    /// A loop over points, which are groups of their own.
    bool is_of_points(const Inst& i) const {
        if (i.op != Op::For || f_[i.a].op != Op::Parameter) return false;
        return f_.parameters[f_[i.a].bits].kind == ParameterKind::GridBegin;
    }

private:
    bool meets(BlockId block) const {
        return block != kNoBlock && std::ranges::any_of(f_.blocks[block], [&](ValueId id) {
                   const Inst& i = f_[id];
                   return i.op == Op::Barrier || i.op == Op::FromLane || is_split(i);
               });
    }
    bool is_split(const Inst& i) const {
        const bool has_blocks = i.op == Op::For || i.op == Op::If;
        return has_blocks && (is_of_points(i) || meets(i.body) || meets(i.otherwise));
    }

    void number(BlockId block) {
        if (block == kNoBlock) return;
        ++part_;
        for (const ValueId id : f_.blocks[block]) {
            const Inst& i = f_[id];
            if (i.op == Op::Barrier || i.op == Op::FromLane) ++part_;
            if (i.op == Op::Barrier) continue;
            if (is_split(i)) {
                number(i.body);
                number(i.otherwise);
                ++part_;
            } else {
                number_all(id);
            }
        }
    }

    void number_all(ValueId id) {
        parts_[std::uint32_t(id)] = part_;
        for (const BlockId block : {f_[id].body, f_[id].otherwise}) {
            if (block == kNoBlock) continue;
            for (const ValueId inner : f_.blocks[block]) number_all(inner);
        }
    }

    /// Whether more values were found that vary. Registers are each lane's own.
    bool find() {
        const std::vector<bool> before = varies_;
        for (std::size_t n = 0; n < f_.insts.size(); ++n) {
            const Inst& i = f_.insts[n];
            if (i.op == Op::For) continue;
            const bool does = varies(i.a) || varies(i.b) || varies(i.c);
            if (does || i.op == Op::Lane || class_of(i.op) == OpClass::Register) varies_[n] = true;
        }
        return varies_ != before;
    }

    const Function& f_;
    std::uint32_t part_ = 0;
    std::vector<std::uint32_t> parts_;
    std::vector<bool> varies_, leaves_;
};

class VectorsPass {
public:
    VectorsPass(const Function& from, bool watches)
        : f_(from),
          parts_(from),
          b_(outline(from)),
          lanes_(from.lanes),
          width_(std::uint16_t(std::min<std::uint32_t>(lanes_, kWidth))),
          watches_(watches),
          values_(from.insts.size()),
          homes_(from.insts.size()),
          fetched_(from.insts.size(), kTogether) {
        QUERN_CHECK(lanes_ < kManyLanes && lanes_ % width_ == 0, "whole vectors of lanes");
        for (BufferId n = 0; n < from.buffers.size(); ++n) {
            const Buffer& buffer = from.buffers[n];
            if (buffer.elements == 0) continue;
            alloc(n, buffer.dtype, buffer.elements);
            if (watches) {
                watched_[n] = {words("written", buffer.elements), words("read", buffer.elements)};
            }
        }
        for (std::size_t n = 0; n < from.insts.size(); ++n) make_homes(ValueId(n));
        if (!watched_.empty()) barriers_ = b_.reg(b_.constant(kIndex, 1));
    }

    Vectors run() {
        block(0);
        return {b_.take(), std::move(arrays_)};
    }

private:
    static Function outline(const Function& from) {
        Function to = outline_of(from);
        to.lanes = to.subgroup = 1;
        for (Buffer& buffer : to.buffers) {
            buffer.elements = 0;
            if (buffer.space == Space::Group) buffer.space = Space::Lane;
        }
        return to;
    }

    // Arrays

    void alloc(BufferId buffer, DType dtype, std::uint32_t elements) {
        b_.alloc(buffer, b_.integer(elements));
        arrays_.push_back({dtype, elements});
    }
    BufferId array(const char* name, DType dtype, std::uint32_t elements) {
        const BufferId buffer = b_.buffer(name, dtype, Space::Lane, true);
        alloc(buffer, dtype, elements);
        return buffer;
    }

    /// Zeros.
    BufferId words(const char* name, std::uint32_t elements) {
        const BufferId buffer = array(name, kIndex, (elements + width_ - 1) / width_ * width_);
        const ValueId end = b_.integer((elements + width_ - 1) / width_ * width_);
        const ValueId at = b_.begin_for(b_.integer(0), end, width_);
        b_.store(buffer, at, b_.splat(b_.constant(kIndex, 0), width_));
        b_.end_for();
        return buffer;
    }

    /// Where a value is between parts: an array for each number of a packet.
    void make_homes(ValueId id) {
        const Inst& i = f_[id];
        const bool is_value = class_of(i.op) != OpClass::Control && i.op != Op::Set;
        if (!is_value || !parts_.varies(id) || !parts_.leaves(id)) return;
        for (int n = 0; n < i.type.packet; ++n) {
            homes_[std::uint32_t(id)].push_back(array("kept", i.type.dtype, lanes_));
        }
    }

    // Values: of the open part, one for each number of a packet

    std::vector<ValueId>& numbers(ValueId id) { return values_[std::uint32_t(id)]; }
    const std::vector<BufferId>& homes(ValueId id) const { return homes_[std::uint32_t(id)]; }
    ValueId value(ValueId id) { return exists(id) ? numbers(id).at(0) : kNone; }
    ValueId in_lanes(ValueId id) { return exists(id) ? b_.splat(id, width_) : kNone; }

    /// What is the same in all lanes, as far as is known.
    ValueId of_first_lane(ValueId id) {
        const ValueId all = value(id);
        if (b_.type(all).lanes == 1) return all;
        const ValueId first = b_.extract(all, 0);
        if (watches_) b_.assert_that(b_.compare(Op::Equal, all, first), kNone, f_[id].span);
        return first;
    }

    /// The same between parts.
    ValueId met(ValueId id) {
        if (!parts_.varies(id)) return value(id);
        const ValueId first = b_.load(homes(id).at(0), b_.integer(0), 1);
        if (watches_) {
            const ValueId row = b_.begin_for(b_.integer(0), b_.integer(lanes_), width_);
            const ValueId all = b_.load(homes(id).at(0), row, width_);
            b_.assert_that(b_.compare(Op::Equal, all, first), kNone, f_[id].span);
            b_.end_for();
        }
        return first;
    }

    // Parts

    void block(BlockId number) {
        std::vector<ValueId> part;
        const auto flush = [&] {
            if (!part.empty()) one_part(part);
            part.clear();
        };
        for (const ValueId id : f_.blocks[number]) {
            const Inst& i = f_[id];
            if (!part.empty() && parts_.part(part.back()) != parts_.part(id)) flush();
            if (parts_.part(id) != kTogether) {
                part.push_back(id);
            } else if (i.op == Op::Barrier) {
                if (has(i.spaces, Spaces::Group)) count_barrier();
            } else {
                split(i, id);
            }
        }
        flush();
    }

    void split(const Inst& i, ValueId id) {
        if (i.op == Op::If) {
            b_.begin_if(met(i.a));
            block(i.body);
            if (i.otherwise != kNoBlock) {
                b_.begin_else();
                block(i.otherwise);
            }
            b_.end_if();
            return;
        }
        numbers(id) = {b_.begin_for(met(i.a), met(i.b), i.bits)};
        // Other points have the arrays for themselves.
        if (parts_.is_of_points(i)) count_barrier();
        block(i.body);
        b_.end_for();
    }

    void count_barrier() {
        if (!exists(barriers_)) return;
        b_.set(barriers_, b_.add(b_.get(barriers_), b_.constant(kIndex, 1)));
    }

    /// What is the same in all lanes first, then the rest for 16 lanes after the others.
    void one_part(const std::vector<ValueId>& part) {
        std::vector<ValueId> rest;
        for (const ValueId id : part) {
            const bool is_once = !parts_.varies(id) && f_[id].op != Op::For &&
                                 f_[id].op != Op::If && f_[id].op != Op::Store;
            is_once ? one(id) : rest.push_back(id);
        }
        if (rest.empty()) return;
        row_ = b_.begin_for(b_.constant(kIndex, 0), b_.constant(kIndex, lanes_), width_);
        lane_ = b_.add(b_.iota(width_, kIndex), row_);
        for (const ValueId id : rest) fetch(id, parts_.part(id));
        for (const ValueId id : rest) one(id);
        b_.end_for();
    }

    /// Loads what an instruction needs of other parts.
    void fetch(ValueId id, std::uint32_t part) {
        const Inst& i = f_[id];
        for (const ValueId operand : {i.a, i.b, i.c}) {
            if (!parts_.varies(operand) || parts_.part(operand) == part) continue;
            if (f_[operand].op == Op::Register) continue;
            if (std::exchange(fetched_[std::uint32_t(operand)], part) == part) continue;
            numbers(operand).clear();
            for (const BufferId home : homes(operand)) {
                numbers(operand).push_back(b_.load(home, row_, width_));
            }
        }
        for (const BlockId inner : {i.body, i.otherwise}) {
            if (inner == kNoBlock) continue;
            for (const ValueId each : f_.blocks[inner]) fetch(each, part);
        }
    }

    void one(ValueId id) {
        const Inst& i = f_[id];
        numbers(id) = written(i, id);
        if (i.op == Op::Register) return;
        for (std::size_t n = 0; n < homes(id).size(); ++n) {
            b_.store(homes(id)[n], row_, in_lanes(numbers(id)[n]));
        }
    }

    void all(BlockId number) {
        for (const ValueId id : f_.blocks[number]) one(id);
    }

    // Instructions

    std::vector<ValueId> written(const Inst& i, ValueId id) {
        switch (class_of(i.op)) {
            case OpClass::Leaf:
                if (i.op == Op::Lane) return {b_.cast(lane_, i.type.dtype)};
                return {b_.copy(i)};
            case OpClass::Packet:
                return packet(i);
            case OpClass::Lanes:
                return {i.op == Op::FromLane ? from_lane(i) : value(i.a)};
            case OpClass::Memory:
                return memory(i);
            case OpClass::Register:
                return reg(i, id);
            case OpClass::Control:
                control(i, id);
                return {};
            case OpClass::Matrix:
                QUERN_CHECK(false, "matrices are of devices");
                return {};
            default:
                return {number(i)};
        }
    }

    /// Of operands of which some are one number and others of each lane.
    ValueId number(Inst i) {
        std::uint16_t most = 1;
        for (ValueId* const operand : {&i.a, &i.b, &i.c}) {
            *operand = value(*operand);
            if (exists(*operand)) most = std::max(most, b_.type(*operand).lanes);
        }
        i.type.lanes = most;
        for (ValueId* const operand : {&i.a, &i.b, &i.c}) {
            if (exists(*operand)) *operand = b_.splat(*operand, most);
        }
        b_.set_relaxed(i.is_relaxed);
        return b_.copy(i);
    }

    void control(const Inst& i, ValueId id) {
        if (i.op == Op::Assert) {
            number(i);
        } else if (i.op == Op::If) {
            b_.begin_if(of_first_lane(i.a));
            all(i.body);
            if (i.otherwise != kNoBlock) {
                b_.begin_else();
                all(i.otherwise);
            }
            b_.end_if();
        } else {
            const ValueId begin = of_first_lane(i.a), end = of_first_lane(i.b);
            numbers(id) = {b_.begin_for(begin, end, i.bits)};
            all(i.body);
            b_.end_for();
        }
    }

    /// From where the other lane keeps it.
    ValueId from_lane(const Inst& i) {
        if (!parts_.varies(i.a)) return value(i.a);
        const std::uint64_t inside = f_.subgroup - 1;
        const Word lane{&b_, lane_}, asked{&b_, b_.cast(value(i.b), kIndex)};
        const Word from = (lane & ~inside) | (asked & inside);
        return b_.gather(homes(i.a).at(0), from.id);
    }

    std::vector<ValueId> packet(const Inst& i) {
        if (i.op == Op::Element) return {numbers(i.a).at(i.bits)};
        std::vector<ValueId> both = numbers(i.a);
        both.insert(both.end(), numbers(i.b).begin(), numbers(i.b).end());
        return both;
    }

    /// One of a part alone is a register, others are where they are kept.
    std::vector<ValueId> reg(const Inst& i, ValueId id) {
        const ValueId place = i.op == Op::Register ? id : i.a;
        const std::vector<BufferId>& kept = homes(place);
        if (i.op == Op::Get) {
            return {kept.empty() ? b_.get(value(place)) : b_.load(kept[0], row_, width_)};
        }
        const ValueId stored = in_lanes(value(i.op == Op::Set ? i.b : i.a));
        if (!kept.empty()) {
            b_.store(kept[0], row_, stored);
            return {};
        }
        if (i.op == Op::Register) return {b_.reg(stored)};
        b_.set(value(place), stored);
        return {};
    }

    std::vector<ValueId> memory(const Inst& i) {
        if (i.op == Op::Prefetch) return {};
        if (i.op == Op::Alloc) {
            Inst copied = i;
            copied.a = value(i.a);
            b_.copy(copied);
            return {};
        }
        const ValueId mask = value(i.c);
        std::vector<ValueId> loaded;
        for (std::uint64_t n = 0; n < i.type.packet; ++n) {
            const ValueId place = b_.add(value(i.a), b_.constant(b_.type(value(i.a)).dtype, n));
            const bool is_row = i.type.packet == 1 && is_row_of_lanes(i.a);
            watch(i, in_lanes(place), in_lanes(mask));
            if (i.op == Op::Store) {
                const ValueId stored = in_lanes(numbers(i.b).at(n));
                is_row ? b_.store(i.buffer, first_of_row(i.a), stored, in_lanes(mask))
                       : b_.scatter(i.buffer, in_lanes(place), stored, in_lanes(mask));
            } else if (is_row) {
                loaded.push_back(b_.load(i.buffer, first_of_row(i.a), width_, in_lanes(mask)));
            } else if (parts_.varies(i.a) || parts_.varies(i.c)) {
                loaded.push_back(b_.gather(i.buffer, in_lanes(place), in_lanes(mask)));
            } else {
                loaded.push_back(b_.load(i.buffer, place, 1, mask));
            }
        }
        return loaded;
    }

    /// Whether an offset is a number and the lane.
    bool is_row_of_lanes(ValueId offset) const {
        const Inst& sum = f_[offset];
        return sum.op == Op::Add && !parts_.varies(sum.a) && f_[sum.b].op == Op::Lane;
    }
    ValueId first_of_row(ValueId offset) {
        const ValueId begin = value(f_[offset].a);
        return b_.add(begin, b_.cast(row_, b_.type(begin).dtype));
    }

    /// Fails where another lane has touched an element since the last barrier that orders the
    /// group's memory, in which watched arrays lie. What all lanes read at one place nobody may
    /// write either.
    void watch(const Inst& i, ValueId offsets, ValueId mask) {
        const auto found = watched_.find(i.buffer);
        if (found == watched_.end()) return;
        const bool is_once = !parts_.varies(i.a) && !parts_.varies(i.c) && i.op == Op::Load;
        const Touched touched = found->second;
        const auto word = [&](ValueId id) { return Word{&b_, id}; };
        const Word now = word(in_lanes(b_.get(barriers_))) << kLaneBits;
        const Word several = now | kManyLanes, me = is_once ? several : now | word(lane_);
        const auto is_others = [&](Word who) {
            return ((who >> kLaneBits) == (now >> kLaneBits)) & (who != me);
        };
        const auto in = [&](BufferId buffer) { return word(b_.gather(buffer, offsets, mask)); };
        const auto fail_if = [&](Word broken) { b_.assert_that((!broken).id, mask, i.span); };
        fail_if(is_others(in(touched.written)));
        if (i.op == Op::Store) {
            fail_if(is_others(in(touched.read)));
            b_.scatter(touched.written, offsets, me.id, mask);
            // Of several lanes one is left.
            fail_if(in(touched.written) != me);
            return;
        }
        const Word mine = select(is_others(in(touched.read)), several, me);
        b_.scatter(touched.read, offsets, mine.id, mask);
        // Those that are not left say so; had the one that is written too, it would be left again.
        const Word is_gone = in(touched.read) != mine;
        b_.scatter(touched.read, offsets, several.id,
                   exists(mask) ? (is_gone & word(mask)).id : is_gone.id);
    }

    struct Touched {
        BufferId written = 0, read = 0;
    };

    const Function& f_;
    Parts parts_;
    Builder b_;
    std::uint32_t lanes_;
    std::uint16_t width_;
    bool watches_;
    std::vector<Vectors::Array> arrays_;
    std::vector<std::vector<ValueId>> values_;
    std::vector<std::vector<BufferId>> homes_;

    /// For which part each value was loaded last.
    std::vector<std::uint32_t> fetched_;
    std::map<BufferId, Touched> watched_;

    /// How many there were.
    ValueId barriers_ = kNone;

    /// The first lane of the vectors of the open part, and each.
    ValueId row_ = kNone, lane_ = kNone;
};

}  // namespace

Vectors in_vectors(const Function& function, bool watches) {
    return VectorsPass(function, watches).run();
}

}  // namespace quern::lir

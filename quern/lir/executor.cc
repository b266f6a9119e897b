#include "quern/lir/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "quern/lir/banks.h"
#include "quern/lir/hazards.h"
#include "quern/lir/scalars.h"
#include "quern/support/check.h"

namespace quern::lir {
namespace {

/// Arrays that Alloc makes begin at multiples of it, as launches count their bytes.
constexpr std::size_t kAlignment = 64;

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

/// More than one lane, or point.
constexpr std::uint32_t kSeveral = kNobody - 1;

/// Who touched a byte, or several: in which point, after how many barriers that order its memory.
struct Touch {
    std::uint32_t point = kNobody;
    std::uint32_t barriers = 0;
    std::uint32_t lane = kNobody;
};

/// The last who wrote a byte, and who read it.
struct Cell {
    Touch write;
    Touch read;

    /// It was written since the array that it is of began.
    bool is_set = false;
};

/// Bytes that lanes touch, and who did.
struct Region {
    Memory memory;

    /// Where it lies.
    Spaces space = Spaces::Device;

    /// Each point has its own.
    bool is_of_point = false;

    /// Of each `unit` bytes, which are touched together; none if nobody writes here.
    std::vector<Cell> cells;
    std::size_t unit = 1;

    void watch(std::size_t bytes) {
        unit = bytes;
        cells.resize(std::size_t(memory.end - memory.begin) / unit);
    }

    bool has(std::int64_t begin, std::int64_t bytes) const {
        return memory.begin <= begin && begin <= memory.end - bytes;
    }
};

/// A block that a lane is in.
struct Frame {
    BlockId block = 0;
    std::size_t next = 0;

    /// The loop or condition that it belongs to, and how much of the point's memory was used
    /// before.
    ValueId owner = kNone;
    std::size_t used = 0;

    bool operator==(const Frame&) const = default;
};

struct Lane {
    std::vector<Frame> frames;

    /// Of memory for arrays, and where each array is.
    struct Array {
        std::int64_t begin = 0;
        std::int64_t bytes = 0;
    };
    std::size_t used = 0;
    std::vector<Array> arrays;

    /// Where it is but while it runs: a barrier, an exchange, an assertion; none at the end.
    enum class State : std::uint8_t { Runs, Waits, Ended, Failed } state = State::Runs;
    ValueId stop = kNone;
};

class Executor {
public:
    Executor(const Function& function, const Launch& launch)
        : f_(function), launch_(launch), scratch_(launch.local_bytes), lanes_(function.lanes) {
        if (launch.counts_banks) banks_.emplace(lanes_.size(), f_.insts.size());
        std::size_t count = f_.insts.size();
        for (const Inst& i : f_.insts) {
            beyond_.push_back(count);
            count += i.type.packet - std::size_t{1};
        }
        values_.resize(count * lanes_.size());
        for (std::size_t n = 0; n < f_.insts.size(); ++n) {
            const Inst& i = f_.insts[n];
            if (i.op == Op::Constant) std::fill_n(all(ValueId(n)), lanes_.size(), leaf(i));
        }
        std::vector<bool> is_written(f_.buffers.size(), false);
        for (const Inst& i : f_.insts) {
            if (is_store(i.op)) is_written[i.buffer] = true;
        }
        shown_.resize(f_.buffers.size());
        for (std::size_t b = 0; b < f_.buffers.size(); ++b) {
            const Buffer& buffer = f_.buffers[b];
            Region region;
            if (buffer.space == Space::Global) {
                region.memory = launch.memory[b];
            } else {
                shown_[b].assign(buffer.elements * size_of(buffer.dtype), std::byte{0xFF});
                region.memory = {shown_[b].data(), 0, std::int64_t(shown_[b].size())};
                region.is_of_point = true;
            }
            region.space = buffer.memory();
            if (is_written[b]) region.watch(size_of(buffer.dtype));
            regions_.push_back(std::move(region));
        }
        arrays_.memory = {scratch_.data(), 0, std::int64_t(scratch_.size())};
        arrays_.is_of_point = true;
        // Each begins at a multiple of more than an element.
        std::size_t least = kAlignment;
        for (const Buffer& buffer : f_.buffers) least = std::min(least, size_of(buffer.dtype));
        arrays_.watch(least);
    }

    Execution run() {
        for (std::int64_t p = 0; p < launch_.points && result_.mistake.empty(); ++p) point(p);
        if (banks_) result_.bank_steps = banks_->most();
        return std::move(result_);
    }

private:
    void point(std::int64_t number) {
        point_ = number;
        barriers_ = {};
        matrices_.clear();
        matrix_lane_ = lanes_.size();
        std::fill(scratch_.begin(), scratch_.end(), std::byte{0xFF});
        for (auto& array : shown_) std::fill(array.begin(), array.end(), std::byte{0xFF});
        for (Lane& lane : lanes_) {
            lane.frames.assign(1, Frame{});
            lane.used = 0;
            lane.arrays.assign(f_.buffers.size(), {});
            lane.state = Lane::State::Runs;
            lane.stop = kNone;
        }
        are_together_ = can_be_together();
        while (result_.mistake.empty()) {
            if (are_together_) {
                go_on_together();
                if (are_together_) return;
            }
            for (lane_ = 0; lane_ < lanes_.size() && result_.mistake.empty(); ++lane_) {
                go_on(lanes_[lane_]);
            }
            if (banks_) banks_->meet();
            if (result_.mistake.empty() && !meet()) return;
            are_together_ = can_be_together();
        }
    }

    /// Whether several lanes are at one place.
    bool can_be_together() const {
        return lanes_.size() > 1 && std::ranges::all_of(lanes_, [&](const Lane& lane) {
                   return lane.frames == lanes_[0].frames;
               });
    }

    // All lanes together: an instruction of each before the next

    /// Until lanes go different ways, or all have ended. The first lane's frames are those of all.
    void go_on_together() {
        Lane& first = lanes_[0];
        while (are_together_ && first.state == Lane::State::Runs && result_.mistake.empty()) {
            Frame& frame = first.frames.back();
            const auto& block = f_.blocks[frame.block];
            bool is_plain = true;
            while (is_plain && frame.next < block.size()) {
                const ValueId id = block[frame.next++];
                is_plain = only_computes(class_of(f_[id].op));
                is_plain ? compute(f_[id], id) : step_together(f_[id], id);
            }
            if (is_plain) leave_together();
        }
    }

    void compute(const Inst& i, ValueId id) {
        const std::span<std::uint64_t> result(all(id), lanes_.size());
        const std::uint64_t *a = all(i.a), *b = all(i.b);
        switch (class_of(i.op)) {
            case OpClass::Leaf:
                if (i.op == Op::Constant) return;
                std::ranges::fill(result, leaf(i));
                for (std::size_t n = 0; i.op == Op::Lane && n < result.size(); ++n) result[n] = n;
                return;
            case OpClass::Binary:
                if (i.op == Op::Div && i.bits == kInRange) return in_turn(i, id);
                return binary_of(i.op, i.type.dtype, result, a, b);
            case OpClass::Compare:
                return compare_of(i.op, f_[i.a].type.dtype, result, a, b);
            case OpClass::Select:
                for (std::size_t n = 0; n < result.size(); ++n) {
                    result[n] = a[n] != 0 ? b[n] : all(i.c)[n];
                }
                return;
            case OpClass::Convert:
                if (i.op == Op::Cast && i.bits != kInRange) {
                    return cast_of(f_[i.a].type.dtype, i.type.dtype, result, a);
                }
                return in_turn(i, id);
            default:
                return in_turn(i, id);
        }
    }

    /// The instruction for each lane.
    void in_turn(const Inst& i, ValueId id) {
        for (lane_ = 0; lane_ < lanes_.size() && result_.mistake.empty(); ++lane_) {
            step(lanes_[lane_], i, id);
        }
    }

    void step_together(const Inst& i, ValueId id) {
        if (meets(i.op)) {
            if (banks_) banks_->meet();
            pass(id);
        } else if (class_of(i.op) == OpClass::Register || i.op == Op::Splat) {
            const bool is_set = i.op == Op::Set;
            std::copy_n(all(is_set ? i.b : i.a), lanes_.size(), all(is_set ? i.a : id));
        } else if (class_of(i.op) != OpClass::Control) {
            in_turn(i, id);
        } else if (i.op == Op::For) {
            std::copy_n(all(i.a), lanes_.size(), all(id));
            const auto inside = alike([&](const Lane& lane) { return is_inside(lane, id); });
            const auto begins =
                alike([&](const Lane& lane) { return get(lane, id) == get(lanes_[0], id); });
            if (!inside || begins != true) return part();
            if (*inside) lanes_[0].frames.push_back({i.body, 0, id, lanes_[0].used});
        } else if (i.op == Op::If) {
            const auto holds = alike([&](const Lane& lane) { return get(lane, i.a) != 0; });
            if (!holds) return part();
            const BlockId block = *holds ? i.body : i.otherwise;
            if (block != kNoBlock) lanes_[0].frames.push_back({block, 0, id, lanes_[0].used});
        } else if (alike([&](const Lane& lane) { return fails(lane, i); }) != false) {
            part();
        }
    }

    void leave_together() {
        Lane& first = lanes_[0];
        const Frame frame = first.frames.back();
        if (!exists(frame.owner)) {
            for (Lane& lane : lanes_) lane.state = Lane::State::Ended;
            if (banks_) banks_->meet();
            return;
        }
        if (f_[frame.owner].op == Op::For) {
            for (Lane& lane : lanes_) {
                lane.used = frame.used;
                count_up(lane, frame.owner);
            }
            const auto inside =
                alike([&](const Lane& lane) { return is_inside(lane, frame.owner); });
            if (!inside) return leave_apart();
            if (*inside) {
                first.frames.back().next = 0;
                return;
            }
        }
        first.frames.pop_back();
    }

    /// What holds for each lane, or none if that differs.
    template <class Holds>
    std::optional<bool> alike(const Holds& holds) const {
        const bool first = holds(lanes_[0]);
        for (const Lane& lane : lanes_) {
            if (holds(lane) != first) return std::nullopt;
        }
        return first;
    }

    /// Lanes go on alone, with this instruction.
    void part() {
        --lanes_[0].frames.back().next;
        for (Lane& lane : lanes_) lane.frames = lanes_[0].frames;
        are_together_ = false;
    }

    /// Some begin another iteration, others leave the loop.
    void leave_apart() {
        for (Lane& lane : lanes_) lane.frames = lanes_[0].frames;
        for (Lane& lane : lanes_) begin_again_or_leave(lane);
        are_together_ = false;
    }

    // Lanes alone

    /// Whether all lanes wait at one barrier or exchange; then they go on. None may wait alone, or
    /// for one that has failed.
    bool meet() {
        const auto is = [&](Lane::State state) {
            return std::ranges::any_of(lanes_, [&](const Lane& l) { return l.state == state; });
        };
        if (is(Lane::State::Failed) && !is(Lane::State::Waits)) {
            result_.has_failed = true;
            return false;
        }
        const Lane& first = lanes_[0];
        for (std::size_t n = 1; n < lanes_.size(); ++n) {
            const Lane& lane = lanes_[n];
            const bool is_together =
                lane.state == first.state && (lane.state != Lane::State::Waits || is_there(lane));
            if (is_together) continue;
            // One that ended is elsewhere.
            const bool is_first = exists(first.stop) && (first.state == Lane::State::Waits ||
                                                         lane.state != Lane::State::Waits);
            const ValueId stop = is_first ? first.stop : lane.stop;
            mistake(stop,
                    fmt::format("lane {} {}, lane {} is elsewhere", is_first ? 0 : n,
                                f_[stop].op == Op::Assert ? "fails" : "waits", is_first ? n : 0));
            return false;
        }
        if (first.state != Lane::State::Waits) return false;
        if (!pass(first.stop)) return false;
        for (Lane& lane : lanes_) lane.state = Lane::State::Runs;
        return true;
    }

    /// What lanes do where they have met. Whether they may.
    bool pass(ValueId id) {
        const Op op = f_[id].op;
        if (op != Op::Barrier) {
            return class_of(op) == OpClass::Matrix ? take_matrices(id) : exchange(id);
        }
        for (const Spaces space : {Spaces::Group, Spaces::Device}) {
            if (has(f_[id].spaces, space)) ++barriers_[std::size_t(space)];
        }
        return true;
    }

    /// Whether each lane gets a value of its own subgroup.
    bool exchange(ValueId id) {
        std::vector<std::uint64_t> values;
        for (std::size_t n = 0; n < lanes_.size(); ++n) {
            const auto from = std::uint32_t(get(lanes_[n], f_[id].b));
            if (from / f_.subgroup != n / f_.subgroup) {
                mistake(id, fmt::format("lane {} asks lane {} of another subgroup", n, from));
                return false;
            }
            values.push_back(get(lanes_[from], f_[id].a));
        }
        for (std::size_t n = 0; n < lanes_.size(); ++n) set(lanes_[n], id, values[n]);
        return true;
    }

    /// Does a matrix instruction in each subgroup. Whether its lanes had the same operands.
    bool take_matrices(ValueId id) {
        for (std::size_t begin = 0; begin < lanes_.size(); begin += f_.subgroup) {
            const Inst& i = f_[id];
            const Lane& first = lanes_[begin];
            for (std::size_t n = begin; n < begin + f_.subgroup; ++n) {
                for (const ValueId operand : {i.a, i.b, i.c}) {
                    if (!exists(operand) || get(lanes_[n], operand) == get(first, operand))
                        continue;
                    mistake(id, fmt::format("lanes {} and {} have other operands", begin, n));
                    return false;
                }
            }
            // Nobody knows which lane touches which element.
            lane_ = ++matrix_lane_;
            matrices_.push_back(matrix(i, id, first));
            if (!result_.mistake.empty()) return false;
            for (std::size_t n = begin; n < begin + f_.subgroup; ++n) {
                set(lanes_[n], id, matrices_.size() - 1);
            }
        }
        return true;
    }

    /// The elements of a result, row by row.
    std::vector<std::uint64_t> matrix(const Inst& i, ValueId id, const Lane& lane) {
        const Atom& atom = f_.atom;
        const std::size_t rows = i.type.part == Part::Right ? atom.depth : atom.rows;
        const std::size_t columns = i.type.part == Part::Left ? atom.depth : atom.columns;
        if (i.op == Op::MatrixFill) return std::vector(rows * columns, get(lane, i.a));
        if (i.op == Op::MatrixMultiply) {
            return product(matrices_[get(lane, i.a)], matrices_[get(lane, i.b)],
                           matrices_[get(lane, i.c)]);
        }
        const auto offset = std::int64_t(cast_of(get(lane, i.a), f_[i.a].type.dtype, DType::Int64));
        std::vector<std::uint64_t> elements(rows * columns);
        if (is_store(i.op)) elements = matrices_[get(lane, i.b)];
        for (std::size_t n = 0; n < elements.size() && result_.mistake.empty(); ++n) {
            const std::size_t row = n / columns, column = n % columns;
            const std::size_t at = i.is_turned ? column * i.bits + row : row * i.bits + column;
            access(lane, i, id, offset + std::int64_t(at), elements[n]);
        }
        return elements;
    }

    /// sum + left * right
    std::vector<std::uint64_t> product(const std::vector<std::uint64_t>& left,
                                       const std::vector<std::uint64_t>& right,
                                       std::vector<std::uint64_t> sum) const {
        const Atom& atom = f_.atom;
        const auto wide = [&](std::uint64_t bits) { return cast_of(bits, atom.operand, atom.sum); };
        for (std::size_t n = 0; n < sum.size(); ++n) {
            const std::size_t row = n / atom.columns, column = n % atom.columns;
            for (std::size_t k = 0; k < atom.depth; ++k) {
                const std::uint64_t a = wide(left[row * atom.depth + k]);
                const std::uint64_t b = wide(right[k * atom.columns + column]);
                sum[n] = binary_of(Op::Add, atom.sum, sum[n], binary_of(Op::Mul, atom.sum, a, b));
            }
        }
        return sum;
    }

    /// Whether a lane waits where the first does, in the same iterations.
    bool is_there(const Lane& lane) const {
        const Lane& first = lanes_[0];
        if (lane.stop != first.stop || lane.frames.size() != first.frames.size()) return false;
        for (std::size_t n = 1; n < lane.frames.size(); ++n) {
            const ValueId owner = lane.frames[n].owner;
            if (owner != first.frames[n].owner) return false;
            if (get(lane, owner) != get(first, owner)) return false;
        }
        return true;
    }

    /// Until the lane waits or ends.
    void go_on(Lane& lane) {
        while (lane.state == Lane::State::Runs && result_.mistake.empty()) {
            Frame& frame = lane.frames.back();
            const auto& block = f_.blocks[frame.block];
            // Behind other instructions there may be no such frame.
            bool is_plain = true;
            while (is_plain && frame.next < block.size()) {
                const ValueId id = block[frame.next++];
                is_plain = only_computes(class_of(f_[id].op));
                step(lane, f_[id], id);
            }
            if (is_plain) leave(lane);
        }
    }

    /// At the end of a block.
    void leave(Lane& lane) {
        const Frame frame = lane.frames.back();
        if (!exists(frame.owner)) {
            lane.state = Lane::State::Ended;
            return;
        }
        if (f_[frame.owner].op != Op::For) {
            lane.frames.pop_back();
            return;
        }
        lane.used = frame.used;
        count_up(lane, frame.owner);
        begin_again_or_leave(lane);
    }

    void count_up(const Lane& lane, ValueId loop) {
        const Inst& i = f_[loop];
        set(lane, loop, binary_of(Op::Add, i.type.dtype, get(lane, loop), i.bits));
    }

    void begin_again_or_leave(Lane& lane) {
        if (is_inside(lane, lane.frames.back().owner)) {
            lane.frames.back().next = 0;
        } else {
            lane.frames.pop_back();
        }
    }

    bool is_inside(const Lane& lane, ValueId loop) const {
        const Inst& i = f_[loop];
        return compare_of(Op::Less, i.type.dtype, get(lane, loop), get(lane, i.b));
    }

    /// What each lane has.
    std::uint64_t* all(ValueId id) {
        return exists(id) ? &values_[std::uint32_t(id) * lanes_.size()] : nullptr;
    }
    std::size_t place(const Lane& lane, std::size_t value) const {
        return value * lanes_.size() + std::size_t(&lane - lanes_.data());
    }
    std::uint64_t get(const Lane& lane, ValueId id) const {
        return values_[place(lane, std::uint32_t(id))];
    }
    void set(const Lane& lane, ValueId id, std::uint64_t bits) {
        values_[place(lane, std::uint32_t(id))] = bits;
    }

    /// A number of a packet.
    std::uint64_t& element(const Lane& lane, ValueId id, std::size_t n) {
        const std::size_t first = std::uint32_t(id);
        return values_[place(lane, n == 0 ? first : beyond_[first] + n - 1)];
    }

    void packet(Lane& lane, const Inst& i, ValueId id) {
        if (i.op == Op::Element) return set(lane, id, element(lane, i.a, i.bits));
        const std::size_t half = i.type.packet / 2;
        for (std::size_t n = 0; n < half; ++n) {
            element(lane, id, n) = element(lane, i.a, n);
            element(lane, id, half + n) = element(lane, i.b, n);
        }
    }

    void step(Lane& lane, const Inst& i, ValueId id) {
        const auto a = [&] { return get(lane, i.a); };
        const auto b = [&] { return get(lane, i.b); };
        const auto c = [&] { return get(lane, i.c); };
        const DType d = i.type.dtype;
        switch (class_of(i.op)) {
            case OpClass::Leaf:
                if (i.op != Op::Constant) set(lane, id, leaf(i));
                return;
            case OpClass::Unary:
                return set(lane, id, unary_of(i.op, d, a()));
            case OpClass::Binary:
                if (i.op == Op::Div) check_range(i, id, b(), d);
                return set(lane, id, binary_of(i.op, d, a(), b()));
            case OpClass::Compare:
                return set(lane, id, compare_of(i.op, f_[i.a].type.dtype, a(), b()));
            case OpClass::Ternary:
                return set(lane, id, fma_of(d, a(), b(), c()));
            case OpClass::Select:
                return set(lane, id, a() != 0 ? b() : c());
            case OpClass::Convert:
                return set(lane, id, i.op == Op::Cast ? cast(i, id, a()) : a());
            case OpClass::Packet:
                return packet(lane, i, id);
            case OpClass::Lanes:
                if (i.op == Op::FromLane) {
                    lane.state = Lane::State::Waits;
                    lane.stop = id;
                    return;
                }
                QUERN_CHECK(i.op == Op::Splat, "one lane: see lir/lanes.h");
                return set(lane, id, a());
            case OpClass::Memory:
                return memory(lane, i, id);
            case OpClass::Matrix:
                lane.state = Lane::State::Waits;
                lane.stop = id;
                return;
            case OpClass::Register:
                if (i.op == Op::Set) return set(lane, i.a, b());
                return set(lane, id, a());
            case OpClass::Control:
                return control(lane, i, id);
        }
    }

    std::uint64_t cast(const Inst& i, ValueId id, std::uint64_t a) {
        const DType from = f_[i.a].type.dtype;
        check_range(i, id, a, from);
        return cast_of(a, from, i.type.dtype);
    }

    void check_range(const Inst& i, ValueId id, std::uint64_t a, DType from) {
        if (i.bits != kInRange || is_in_range(a, from, i.type.dtype)) return;
        mistake(id, fmt::format("lane {} of point {} has a float that is out of the range of {}",
                                lane_, point_, quern::to_string(i.type.dtype)));
    }

    std::uint64_t leaf(const Inst& i) const {
        const auto cut = [&](std::uint64_t bits) {
            return cast_of(bits, DType::UInt64, i.type.dtype);
        };
        if (i.op == Op::Lane) return cut(lane_);
        if (i.op == Op::Iota) return 0;
        if (i.op == Op::Constant) {
            return is_floating(i.type.dtype) ? i.bits : cut(i.bits);
        }
        const ParameterKind kind = f_.parameters[i.bits].kind;
        std::uint64_t word = launch_.words[i.bits];
        if (kind == ParameterKind::GridBegin) word = std::uint64_t(point_);
        if (kind == ParameterKind::GridEnd) word = std::uint64_t(point_) + 1;
        if (i.op == Op::ParameterHigh) return word >> 32;
        const std::size_t bytes = size_of(i.type.dtype);
        return bytes == 8 ? word : word & ((std::uint64_t{1} << bytes * 8) - 1);
    }

    void control(Lane& lane, const Inst& i, ValueId id) {
        switch (i.op) {
            case Op::For:
                set(lane, id, get(lane, i.a));
                if (is_inside(lane, id)) lane.frames.push_back({i.body, 0, id, lane.used});
                return;
            case Op::If: {
                const BlockId block = get(lane, i.a) != 0 ? i.body : i.otherwise;
                if (block != kNoBlock) lane.frames.push_back({block, 0, id, lane.used});
                return;
            }
            case Op::Barrier:
                lane.state = Lane::State::Waits;
                lane.stop = id;
                return;
            default:
                if (!fails(lane, i)) return;
                lane.state = Lane::State::Failed;
                lane.stop = id;
        }
    }

    /// Of an assertion.
    bool fails(const Lane& lane, const Inst& i) const {
        return get(lane, i.a) == 0 && (!exists(i.c) || get(lane, i.c) != 0);
    }

    void memory(Lane& lane, const Inst& i, ValueId id) {
        if (i.op == Op::Prefetch) return;
        const Buffer& buffer = f_.buffers[i.buffer];
        const auto offset = std::int64_t(cast_of(get(lane, i.a), f_[i.a].type.dtype, DType::Int64));
        const auto bytes = std::int64_t(size_of(buffer.dtype));
        std::int64_t at = 0;
        const bool is_far = __builtin_mul_overflow(offset, bytes, &at);
        if (i.op == Op::Alloc) {
            const std::size_t room = scratch_.size() - lane.used;
            if (is_far || at < 0 || std::size_t(at) > room) {
                return mistake(id, "there is no room for the array");
            }
            lane.arrays[i.buffer] = {std::int64_t(lane.used), at};
            // The first lane comes first, and all have met if the memory was another array's.
            const auto unit = std::int64_t(arrays_.unit);
            const auto first = arrays_.cells.begin() + std::int64_t(lane.used) / unit;
            const auto end = first + at / unit;
            if (lane_ == 0) std::for_each(first, end, [](Cell& c) { c.is_set = false; });
            const std::size_t whole = (std::size_t(at) + kAlignment - 1) / kAlignment * kAlignment;
            lane.used += std::min(whole, room);
            return;
        }
        const bool is_writing = is_store(i.op);
        const bool is_asked = !exists(i.c) || get(lane, i.c) != 0;
        for (std::size_t n = 0; n < i.type.packet; ++n) {
            std::uint64_t bits = is_writing ? element(lane, i.b, n) : 0;
            const std::byte* place = nullptr;
            if (is_asked) place = access(lane, i, id, offset + std::int64_t(n), bits);
            if (!is_writing) element(lane, id, n) = bits;
            const auto whole = std::size_t(bytes) * i.type.packet;
            if (n > 0 || i.type.packet == 1 || std::uintptr_t(place) % whole == 0) continue;
            return mistake(id, fmt::format("lane {} of point {} has a packet of {} bytes that is "
                                           "at no multiple of them, at {}",
                                           lane_, point_, whole, offset));
        }
    }

    /// Reads or writes an element. Where it is, or null after a mistake.
    const std::byte* access(const Lane& lane, const Inst& i, ValueId id, std::int64_t offset,
                            std::uint64_t& bits) {
        const Buffer& buffer = f_.buffers[i.buffer];
        const auto bytes = std::int64_t(size_of(buffer.dtype));
        std::int64_t at = 0;
        const bool is_far = __builtin_mul_overflow(offset, bytes, &at);
        const bool is_writing = is_store(i.op);
        const bool is_made = buffer.space != Space::Global && buffer.elements == 0;
        Region& region = is_made ? arrays_ : regions_[i.buffer];
        const Lane::Array& array = lane.arrays[i.buffer];
        const bool is_inside =
            is_made ? 0 <= at && at <= array.bytes - bytes : region.has(at, bytes);
        if (is_far || !is_inside) {
            mistake(id, fmt::format("lane {} of point {} is out of bounds with {}", lane_, point_,
                                    offset));
            return nullptr;
        }
        if (is_made) at += array.begin;
        touch(region, at, bytes, is_writing, id);
        const bool is_of_lane = class_of(i.op) == OpClass::Memory;
        if (banks_ && is_of_lane && buffer.elements > 0) {
            banks_->note(lane_, id, std::uint64_t(at) / Banks::kWordBytes);
        }
        std::byte* const place = region.memory.data + at;
        if (is_writing) {
            std::memcpy(place, &bits, std::size_t(bytes));
            return place;
        }
        bits = 0;
        std::memcpy(&bits, place, std::size_t(bytes));
        if (buffer.dtype == DType::Bool) bits = bits != 0;
        return place;
    }

    void touch(Region& region, std::int64_t at, std::int64_t bytes, bool is_writing, ValueId id) {
        if (region.cells.empty()) return;
        const auto point = std::uint32_t(point_), lane = std::uint32_t(lane_);
        const std::uint32_t barriers = barriers_[std::size_t(region.space)];
        // Whether another may have been there at the same time.
        const auto meets = [&](const Touch& other) {
            if (other.point == kNobody) return false;
            if (other.point != point) return !region.is_of_point;
            return other.barriers == barriers && other.lane != lane;
        };
        const auto unit = std::int64_t(region.unit);
        const std::int64_t begin = (at - region.memory.begin) / unit;
        for (std::int64_t n = begin; n < begin + bytes / unit; ++n) {
            Cell& cell = region.cells[std::size_t(n)];
            if (region.is_of_point && !is_writing && (!cell.is_set || cell.write.point != point)) {
                return mistake(
                    id, fmt::format("lane {} of point {} reads what nobody wrote", lane_, point_));
            }
            const bool is_written = meets(cell.write), is_read = is_writing && meets(cell.read);
            if (is_written || is_read) {
                const Touch& other = is_written ? cell.write : cell.read;
                return mistake(id, fmt::format("lane {} of point {} {} what {} {}", lane_, point_,
                                               is_writing ? "writes" : "reads", who(other),
                                               is_written ? "wrote" : "read"));
            }
            if (is_writing) {
                cell.write = {point, barriers, lane};
                cell.is_set = true;
            } else {
                note(cell.read, {point, barriers, lane}, region.is_of_point);
            }
        }
    }

    static void note(Touch& last, const Touch& now, bool is_of_point) {
        const bool is_other_point = last.point != kNobody && last.point != now.point;
        if (is_other_point && !is_of_point) {
            last.point = kSeveral;
        } else if (!is_other_point && last.barriers == now.barriers && last.lane != kNobody &&
                   last.lane != now.lane) {
            last.lane = kSeveral;
        } else {
            last = now;
        }
    }

    static std::string who(const Touch& touch) {
        if (touch.point == kSeveral) return "other points";
        if (touch.lane == kSeveral) return "other lanes";
        return fmt::format("lane {} of point {}", touch.lane, touch.point);
    }

    void mistake(ValueId id, const std::string& what) {
        result_.mistake =
            fmt::format("%{} ({}): {}", std::uint32_t(id), to_string(f_[id].op), what);
    }

    const Function& f_;
    const Launch& launch_;
    std::vector<Region> regions_;

    /// Of the arrays of a group that are there from the beginning, by buffer, and of those that
    /// Alloc makes.
    std::vector<std::vector<std::byte>> shown_;
    std::vector<std::byte> scratch_;
    Region arrays_;
    std::vector<Lane> lanes_;
    Execution result_;
    std::int64_t point_ = 0;

    /// How many have ordered each space.
    std::array<std::uint32_t, std::size_t(Spaces::All)> barriers_{};
    std::size_t lane_ = 0;

    std::optional<Banks> banks_;

    /// What each value is in each lane, one behind the other; those of packets behind their first
    /// number from the values that `beyond_` says. Constants are there from the beginning.
    std::vector<std::uint64_t> values_;
    std::vector<std::size_t> beyond_;

    /// Lanes go the same way.
    bool are_together_ = true;

    /// What matrices in lanes are, by the number that the lanes have.
    std::vector<std::vector<std::uint64_t>> matrices_;

    /// A lane of its own for each access to one.
    std::size_t matrix_lane_ = 0;
};

}  // namespace

Execution execute(const Function& function, const Launch& launch) {
    return Executor(function, launch).run();
}

}  // namespace quern::lir

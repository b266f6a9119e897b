#include "quern/lir/iterations.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace quern::lir {
namespace {

/// A bound that is there or beyond stands for none. Products of two others fit in 64 bits.
constexpr std::int64_t kFar = std::int64_t{1} << 31;

/// What code of 32 bits takes for granted of points (without_int64.h).
constexpr std::int64_t kMostSmall = std::int64_t{1} << 30;

/// An integer between two bounds.
struct Range {
    std::int64_t least = -kFar;
    std::int64_t most = kFar;

    /// It is that many times an integer; 0 is that of no number but itself.
    std::int64_t multiple = 1;

    bool is_bounded() const { return -kFar < least && most < kFar; }
};

std::int64_t near(std::int64_t value) { return std::clamp(value, -kFar, kFar); }

Range add(const Range& a, const Range& b) {
    Range sum;
    sum.multiple = std::gcd(a.multiple, b.multiple);
    if (a.least > -kFar && b.least > -kFar) sum.least = near(a.least + b.least);
    if (a.most < kFar && b.most < kFar) sum.most = near(a.most + b.most);
    return sum;
}

Range negated(const Range& a) { return {-a.most, -a.least, a.multiple}; }

/// One of the two.
Range either(std::int64_t least, std::int64_t most, const Range& a, const Range& b) {
    return {least, most, std::gcd(a.multiple, b.multiple)};
}

/// Of a function that has its extremes where its operands have theirs.
template <class Number>
Range at_ends(const Range& a, const Range& b, const Number& number) {
    const std::array<std::int64_t, 4> ends = {number(a.least, b.least), number(a.least, b.most),
                                              number(a.most, b.least), number(a.most, b.most)};
    const auto [least, most] = std::ranges::minmax_element(ends);
    return {near(*least), near(*most)};
}

class Count {
public:
    Count(const Function& function, std::span<const std::uint64_t> words)
        : f_(function), words_(words), ranges_(function.insts.size()) {}

    Bounds block(BlockId number) {
        Bounds count;
        for (const ValueId id : f_.blocks[number]) {
            const Inst& i = f_[id];
            count.instructions = sum(count.instructions, 1);
            if (i.op == Op::For) {
                add_to(count, loop(i, id));
            } else if (i.op == Op::If) {
                add_to(count, block(i.body));
                if (i.otherwise != kNoBlock) add_to(count, block(i.otherwise));
            } else {
                of(id) = kept(range(i), i.type.dtype);
            }
        }
        return count;
    }

private:
    Range& of(ValueId id) { return ranges_[std::uint32_t(id)]; }

    static std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
        return a > kUnbounded - b ? kUnbounded : a + b;
    }
    static std::uint64_t product(std::uint64_t a, std::uint64_t b) {
        return b != 0 && a > kUnbounded / b ? kUnbounded : a * b;
    }

    static void add_to(Bounds& all, const Bounds& more) {
        all.iterations = sum(all.iterations, more.iterations);
        all.instructions = sum(all.instructions, more.instructions);
    }

    Bounds loop(const Inst& i, ValueId id) {
        // The loop over the points of the grid has one.
        const bool is_grid = f_[i.a].op == Op::Parameter &&
                             f_.parameters[f_[i.a].bits].kind == ParameterKind::GridBegin;
        const std::int64_t trips = is_grid ? 1 : trips_of(i);
        of(id) = {of(i.a).least, of(i.b).most < kFar ? of(i.b).most - 1 : kFar};
        const Bounds inside = block(i.body);
        if (trips >= kFar) return {kUnbounded, kUnbounded};
        // Where a loop ends for all points, those inside it still go round once, for none.
        const std::uint64_t rounds = std::uint64_t(trips) + 1;
        return {product(rounds, sum(inside.iterations, 1)),
                product(std::uint64_t(trips), inside.instructions)};
    }

    /// The most that `end` is behind `begin`, wherever that is. What minima of minima say is left
    /// out beyond `depth`: there may be as many ways to them as two to the power of their depth.
    std::int64_t most_behind(ValueId begin, ValueId end, int depth = 4) {
        if (begin == end) return 0;
        std::int64_t most =
            std::min(add(of(end), negated(of(begin))).most, left_by_whole_steps(begin, end));
        const Inst& e = f_[end];
        if (e.op == Op::Add) {
            if (e.a == begin) most = std::min(most, of(e.b).most);
            if (e.b == begin) most = std::min(most, of(e.a).most);
        } else if (e.op == Op::Min && depth > 0) {
            most = std::min(
                {most, most_behind(begin, e.a, depth - 1), most_behind(begin, e.b, depth - 1)});
        }
        return most;
    }

    /// Of `end` where `begin` is x + (end - x) / w * w: a remainder, unless it wraps.
    std::int64_t left_by_whole_steps(ValueId begin, ValueId end) {
        const Inst& sum = f_[begin];
        if (sum.op != Op::Add || f_[sum.b].op != Op::Mul || sum.type.dtype != DType::Int64) {
            return kFar;
        }
        const Inst& steps = f_[sum.b];
        const Inst& number = f_[steps.a];
        if (number.op != Op::Div || number.b != steps.b) return kFar;
        const Inst& all = f_[number.a];
        const Range& width = of(steps.b);
        if (all.op != Op::Sub || all.a != end || all.b != sum.a || width.least <= 0) return kFar;
        const bool is_whole = width.least == width.most && of(number.a).multiple % width.most == 0;
        return is_whole ? 0 : width.most - 1;
    }

    std::int64_t trips_of(const Inst& i) {
        const std::int64_t most = most_behind(i.a, i.b);
        if (most >= kFar) return kFar;
        const auto step = std::int64_t(std::clamp<std::uint64_t>(i.bits, 1, kFar));
        return std::max<std::int64_t>(0, (most + step - 1) / step);
    }

    Range range(const Inst& i) {
        if (!is_integer(i.type.dtype) || i.type.lanes > 1) return {};
        const auto one = [](std::int64_t value) {
            const std::int64_t n = near(value);
            return Range{n, n, n == value ? std::abs(n) : 1};
        };
        switch (i.op) {
            case Op::Constant:
                return one(std::int64_t(i.bits));
            case Op::Parameter: {
                const ParameterKind kind = f_.parameters[i.bits].kind;
                if (kind == ParameterKind::GridBegin || kind == ParameterKind::GridEnd) {
                    return i.type.dtype == DType::Int32 ? Range{0, kMostSmall} : Range{0, kFar};
                }
                return one(std::int64_t(words_[i.bits]));
            }
            case Op::Add:
                return add(of(i.a), of(i.b));
            case Op::Sub:
                return either(-most_behind(i.a, i.b), most_behind(i.b, i.a), of(i.a), of(i.b));
            case Op::Min:
                return either(std::min(of(i.a).least, of(i.b).least),
                              std::min(of(i.a).most, of(i.b).most), of(i.a), of(i.b));
            case Op::Max:
                return either(std::max(of(i.a).least, of(i.b).least),
                              std::max(of(i.a).most, of(i.b).most), of(i.a), of(i.b));
            case Op::Select:
                return either(std::min(of(i.b).least, of(i.c).least),
                              std::max(of(i.b).most, of(i.c).most), of(i.b), of(i.c));
            case Op::Cast:
                return is_integer(f_[i.a].type.dtype) && is_signed_integer(i.type.dtype) &&
                               size_of(i.type.dtype) >= 4 && of(i.a).is_bounded()
                           ? of(i.a)
                           : Range{};
            case Op::Mul:
            case Op::Div:
            case Op::ShiftRight:
                return scaled(i.op, of(i.a), of(i.b));
            default:
                return {};
        }
    }

    /// What is not a range of the dtype has wrapped, or may have.
    static Range kept(const Range& r, DType dtype) {
        constexpr std::int64_t kInt32 = std::int64_t{1} << 31;
        const bool is_far = r.least >= kFar || r.most <= -kFar;
        const bool has_sign = dtype == DType::Int64 || dtype == DType::Int32;
        const bool fits = dtype == DType::Int64 || (r.least >= -kInt32 && r.most < kInt32);
        return is_far || !has_sign || !fits ? Range{} : r;
    }

    static Range scaled(Op op, const Range& a, const Range& b) {
        Range r = bounds_of_scaled(op, a, b);
        // A product of two multiples is one of either.
        if (op == Op::Mul) {
            const std::int64_t both = a.multiple * b.multiple;
            r.multiple = both <= kFar ? both : std::max(a.multiple, b.multiple);
        }
        return r;
    }

    static Range bounds_of_scaled(Op op, const Range& a, const Range& b) {
        // By a number above zero what has one bound keeps it.
        if (b.least == b.most && b.least > 0 && op != Op::ShiftRight) {
            const auto by = [&](std::int64_t end) {
                return end == kFar || end == -kFar ? end
                       : op == Op::Mul             ? near(end * b.least)
                                                   : end / b.least;
            };
            return {by(a.least), by(a.most)};
        }
        if (!a.is_bounded() || !b.is_bounded()) return {};
        if (op == Op::Mul) return at_ends(a, b, [](auto x, auto y) { return x * y; });
        if (op == Op::Div && b.least > 0) {
            return at_ends(a, b, [](auto x, auto y) { return x / y; });
        }
        if (op == Op::ShiftRight && b.least >= 0 && b.most < 63) {
            return at_ends(a, b, [](auto x, auto y) { return x >> y; });
        }
        return {};
    }

    const Function& f_;
    std::span<const std::uint64_t> words_;
    std::vector<Range> ranges_;
};

}  // namespace

Bounds bounds_of(const Function& function, std::span<const std::uint64_t> words) {
    return Count(function, words).block(0);
}

}  // namespace quern::lir

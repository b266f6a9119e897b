#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <string>

#include "quern/ir/index.h"
#include "tests/sanitized.h"

// Random index expressions against their values: each is evaluated before and after by a definition
// of its own, below. QUERN_INDEX_EXPRESSIONS sets how many.

namespace quern::ir {
namespace {

using Int = std::int64_t;

int total_expressions() {
    const char* text = std::getenv("QUERN_INDEX_EXPRESSIONS");
    return text ? std::atoi(text) : kSanitized ? 100'000 : 1'000'000;
}

/// The share of one test in the total.
int part(int of_a_million) { return static_cast<int>(total_expressions() * 1e-6 * of_a_million); }

constexpr int kSymbols = 3;
constexpr std::array<Range, kSymbols> kDomains{{{0, 4}, {-3, 3}, {-6, -1}}};

struct Point {
    std::array<Int, kSymbols> symbols;
    std::array<Int, 2> dims;
    Int extent = 0;
    Int scalar = 0;
};

/// Operators on int64 by their definition; none where a divisor is zero.
std::optional<Int> apply(BinaryOp op, Int x, Int y) {
    switch (op) {
        case BinaryOp::Add:
            return x + y;
        case BinaryOp::Sub:
            return x - y;
        case BinaryOp::Mul:
            return x * y;
        case BinaryOp::Min:
            return x < y ? x : y;
        case BinaryOp::Max:
            return x > y ? x : y;
        case BinaryOp::Less:
            return x < y;
        case BinaryOp::LessEqual:
            return x <= y;
        case BinaryOp::Equal:
            return x == y;
        case BinaryOp::NotEqual:
            return x != y;
        default:
            break;
    }
    if (y == 0) return std::nullopt;
    if (op == BinaryOp::Div) return x / y;
    if (op == BinaryOp::Rem) return x % y;
    Int down = x / y;
    while (down * y > x ? y > 0 : down * y < x && y < 0) --down;
    return down;
}

std::optional<Int> value(const Kernel& k, ExprId id, const Point& p) {
    const Expr& e = k[id];
    const auto at = [&](std::uint32_t child) { return value(k, ExprId{child}, p); };
    switch (e.kind) {
        case ExprKind::Const:
            return k.integer_value(id);
        case ExprKind::Dim:
            return p.dims[e.a];
        case ExprKind::Extent:
            return p.extent;
        case ExprKind::Scalar:
            return p.scalar;
        case ExprKind::Symbol:
            return p.symbols[e.a];
        case ExprKind::Unary: {
            const auto x = at(e.a);
            if (!x) return x;
            if (e.op == static_cast<int>(UnaryOp::Not)) return !*x;
            if (e.op == static_cast<int>(UnaryOp::Neg)) return -*x;
            return *x < 0 ? -*x : *x;
        }
        case ExprKind::Binary: {
            const auto op = static_cast<BinaryOp>(e.op);
            const auto x = at(e.a);
            if (!x) return x;
            if (op == BinaryOp::And) return *x ? at(e.b) : x;
            if (op == BinaryOp::Or) return *x ? x : at(e.b);
            const auto y = at(e.b);
            return y ? apply(op, *x, *y) : y;
        }
        case ExprKind::Select: {
            const auto condition = at(e.a);
            return condition ? at(*condition ? e.b : e.c) : condition;
        }
        default:
            return std::nullopt;
    }
}

class Generator {
public:
    explicit Generator(std::uint64_t seed) : random_(seed) {}

    Int between(Int low, Int high) {
        return low + static_cast<Int>(random_() % static_cast<std::uint64_t>(high - low + 1));
    }

    Kernel kernel() {
        Kernel k;
        k.dims = {{"M", {}}, {"N", {}}};
        k.operand_count = 1;
        k.buffers.push_back(
            {BufferKind::Operand, DType::Float32, "A", {k.extent(0, 0)}, false, {}});
        k.scalars = {{"s", DType::Int64, {}}};
        for (int i = 0; i < kSymbols; ++i) {
            k.add_symbol(SymbolKind::Loop, DType::Int64, std::string(1, char('i' + i)));
        }
        return k;
    }

    ExprId leaf(Kernel& k) {
        switch (between(0, 9)) {
            case 0:
                return k.dim(0);
            case 1:
                return k.dim(1);
            case 2:
                return k.extent(0, 0);
            case 3:
                return k.scalar(0);
            case 4:
            case 5:
            case 6:
                return k.symbol(static_cast<SymbolId>(between(0, kSymbols - 1)));
            default:
                return k.integer(between(-8, 8));
        }
    }

    ExprId affine(Kernel& k, int depth) {
        if (depth == 0) return leaf(k);
        const ExprId a = affine(k, depth - 1);
        switch (between(0, 4)) {
            case 0:
                return k.binary(BinaryOp::Mul, a, k.integer(between(-5, 5)));
            case 1:
                return k.unary(UnaryOp::Neg, a);
            case 2:
                return k.binary(BinaryOp::Sub, a, affine(k, depth - 1));
            default:
                return k.binary(BinaryOp::Add, a, affine(k, depth - 1));
        }
    }

    ExprId condition(Kernel& k, int depth) {
        constexpr BinaryOp ops[] = {BinaryOp::Less, BinaryOp::LessEqual, BinaryOp::Equal,
                                    BinaryOp::NotEqual};
        switch (between(0, 7)) {
            case 0:
                return k.unary(UnaryOp::Not, condition(k, depth));
            case 1: {
                const ExprId left = condition(k, depth);
                const BinaryOp op = between(0, 1) ? BinaryOp::And : BinaryOp::Or;
                return k.binary(op, left, condition(k, depth));
            }
            default: {
                const ExprId left = any(k, depth);
                return k.binary(ops[between(0, 3)], left, any(k, depth));
            }
        }
    }

    ExprId any(Kernel& k, int depth) {
        if (depth == 0 || between(0, 9) == 0) return leaf(k);
        constexpr BinaryOp ops[] = {BinaryOp::Add, BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul,
                                    BinaryOp::Div, BinaryOp::Rem, BinaryOp::Rem, BinaryOp::FloorDiv,
                                    BinaryOp::Min, BinaryOp::Max};
        const Int pick = between(0, 12);
        const ExprId a = any(k, depth - 1);
        if (pick == 10) return k.unary(between(0, 1) ? UnaryOp::Neg : UnaryOp::Abs, a);
        if (pick == 11) {
            const ExprId c = condition(k, 0);
            return k.select(c, a, any(k, depth - 1));
        }
        if (pick == 12) return k.binary(BinaryOp::Mul, a, k.integer(between(-6, 6)));
        const bool divides = pick >= 4 && pick <= 7;
        const ExprId b = divides && between(0, 3) ? k.integer(between(-9, 9)) : any(k, depth - 1);
        return k.binary(ops[pick], a, b);
    }

    Point point() {
        Point p;
        for (int i = 0; i < kSymbols; ++i)
            p.symbols[i] = between(kDomains[i].low, kDomains[i].high);
        p.dims = {between(0, 6), between(0, 9)};
        p.extent = between(0, 7);
        p.scalar = between(-9, 9);
        return p;
    }

private:
    std::mt19937_64 random_;
};

std::optional<Range> domain(const Expr& leaf) {
    if (leaf.kind == ExprKind::Symbol) return kDomains[leaf.a];
    return std::nullopt;
}

TEST(IndexRandom, SimplifiedExpressionsKeepTheirValueAndTheirRange) {
    Generator make(1);
    const RangeOf ranges = domain;
    const int count = total_expressions();
    for (int done = 0; done < count;) {
        Kernel k = make.kernel();
        for (int i = 0; i < 400 && done < count; ++i, ++done) {
            const bool is_condition = done % 16 == 0;
            const ExprId original = is_condition ? make.condition(k, 2) : make.any(k, 3);
            const ExprId simple = simplify(k, original, ranges);
            ASSERT_EQ(simplify(k, simple, ranges), simple) << "expression " << done;
            const Range range = range_of(k, simple, ranges);
            const Range wide = range_of(k, original, ranges);
            for (int n = 0; n < 6; ++n) {
                const Point p = make.point();
                const std::optional<Int> expected = value(k, original, p);
                if (!expected) continue;
                ASSERT_EQ(value(k, simple, p), expected) << "expression " << done;
                ASSERT_TRUE(range.contains(*expected)) << "expression " << done;
                ASSERT_TRUE(wide.contains(*expected)) << "expression " << done;
            }
        }
    }
}

TEST(IndexRandom, SimplifyAndEvaluateAgreeWithTheDefinition) {
    Generator make(2);
    Kernel k = make.kernel();
    for (int i = 0; i < part(20'000); ++i) {
        if (i % 500 == 0) k = make.kernel();
        const ExprId id = make.any(k, 3);
        const Point p = make.point();
        Environment environment;
        environment.dims = p.dims;
        const std::vector<std::vector<Int>> shapes{{p.extent}};
        environment.shapes = shapes;
        environment.scalars = {&p.scalar, 1};
        for (int s = 0; s < kSymbols; ++s) environment.symbols[SymbolId(s)] = p.symbols[s];
        Fault why = Fault::Unknown;
        const std::optional<Int> result = evaluate(k, id, environment, &why);
        ASSERT_EQ(result, value(k, id, p)) << i;
        if (!result) {
            ASSERT_EQ(why, Fault::DivisionByZero) << i;
        }
    }
}

TEST(IndexRandom, EqualAffineFunctionsGetOneId) {
    Generator make(3);
    Kernel k = make.kernel();
    for (int i = 0; i < part(50'000); ++i) {
        if (i % 500 == 0) k = make.kernel();
        const ExprId a = make.any(k, 2), b = make.any(k, 2), c = make.affine(k, 2);
        const auto add = [&](ExprId x, ExprId y) { return k.binary(BinaryOp::Add, x, y); };
        const auto sub = [&](ExprId x, ExprId y) { return k.binary(BinaryOp::Sub, x, y); };
        const auto mul = [&](ExprId x, ExprId y) { return k.binary(BinaryOp::Mul, x, y); };
        ASSERT_EQ(simplify(k, sub(add(a, b), b)), simplify(k, a));
        ASSERT_EQ(simplify(k, add(a, add(b, c))), simplify(k, add(add(c, a), b)));
        const ExprId factor = k.integer(make.between(-7, 7));
        ASSERT_EQ(simplify(k, mul(add(a, b), factor)),
                  simplify(k, add(mul(factor, b), mul(a, factor))));
        ASSERT_EQ(simplify(k, sub(k.unary(UnaryOp::Neg, a), b)),
                  simplify(k, k.unary(UnaryOp::Neg, add(b, a))));
        ASSERT_EQ(simplify(k, mul(k.dim(0), k.symbol(0))), simplify(k, mul(k.symbol(0), k.dim(0))));
    }
}

TEST(IndexRandom, ProofsAreNeverWrong) {
    Generator make(4);
    const RangeOf ranges = domain;
    Kernel k = make.kernel();
    int proven = 0;
    for (int i = 0; i < part(60'000); ++i) {
        if (i % 500 == 0) k = make.kernel();
        const ExprId a = make.any(k, 2), b = make.any(k, 2);
        const bool at_least = proves_at_least(k, a, b, ranges);
        const bool less = proves_less(k, a, b, ranges);
        proven += at_least + less;
        if (!at_least && !less) continue;
        for (int n = 0; n < 30; ++n) {
            const Point p = make.point();
            const auto x = value(k, a, p), y = value(k, b, p);
            if (!x || !y) continue;
            ASSERT_TRUE(!at_least || *x >= *y) << i;
            ASSERT_TRUE(!less || *x < *y) << i;
        }
    }
    EXPECT_GE(proven, part(5'000));
}

/// The largest and the smallest value over the whole domain, with step 2 on the first symbol.
struct Extremes {
    std::optional<Int> least, most;
};

Extremes extremes(const Kernel& k, ExprId id, Point p) {
    Extremes result;
    for (Int i = kDomains[0].low; i <= kDomains[0].high; i += 2) {
        for (Int j = kDomains[1].low; j <= kDomains[1].high; ++j) {
            for (Int l = kDomains[2].low; l <= kDomains[2].high; ++l) {
                p.symbols = {i, j, l};
                const auto v = value(k, id, p);
                if (!v) continue;
                if (!result.most || *v > *result.most) result.most = v;
                if (!result.least || *v < *result.least) result.least = v;
            }
        }
    }
    return result;
}

TEST(IndexRandom, BoundsAreTheExtremesOverTheLoops) {
    Generator make(5);
    Kernel k = make.kernel();
    int known = 0;
    const int count = part(6'000);
    for (int i = 0; i < count; ++i) {
        if (i % 500 == 0) k = make.kernel();
        const bool affine = i % 2;
        const ExprId id = affine ? make.affine(k, 3) : make.any(k, 2);
        std::vector<LoopRange> loops;
        for (int s = 0; s < kSymbols; ++s) {
            loops.push_back({SymbolId(s), k.integer(kDomains[s].low),
                             k.integer(kDomains[s].high + 1), s == 0 ? k.integer(2) : kNoExpr});
        }
        const ExprId upper = upper_bound(k, id, loops), lower = lower_bound(k, id, loops);
        if (affine) {
            ASSERT_TRUE(exists(upper) && exists(lower)) << i;
        }
        const Point p = make.point();
        const Extremes expected = extremes(k, id, p);
        known += exists(upper) && !affine;
        if (exists(upper)) {
            ASSERT_FALSE(depends_on(k, upper, 0) || depends_on(k, upper, 1));
            if (expected.most) {
                ASSERT_EQ(value(k, upper, p), expected.most) << i;
            }
        }
        if (exists(lower) && expected.least) {
            ASSERT_EQ(value(k, lower, p), expected.least) << i;
        }
    }
    EXPECT_GE(known, count / 8);
}

}  // namespace
}  // namespace quern::ir

#include "quern/lir/soft_float64.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "quern/lir/executor.h"
#include "quern/lir/lanes.h"
#include "quern/lir/lir.h"
#include "quern/lir/without_float64.h"
#include "quern/lir/without_int64.h"
#include "tests/sanitized.h"

// The executor computes float64 as this processor does, which is the reference.

namespace quern::lir {
namespace soft_float64_test {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

/// Every kind of number, whose pairs are tried too.
std::vector<std::uint64_t> special_numbers() {
    std::vector<std::uint64_t> all;
    for (const double x : {0.0,
                           0.25,
                           0.5,
                           0x1.fffffffffffffp-2,
                           0x1.0000000000001p-1,
                           0x1.fffffffffffffp-1,
                           1.0,
                           0x1.0000000000001p0,
                           1.5,
                           2.0,
                           2.5,
                           3.0,
                           3.5,
                           0x1p-1074,
                           0x1p-1073,
                           0x1.8p-1073,
                           0x1p-1022,
                           0x0.fffffffffffffp-1022,
                           0x1.0000000000001p-1022,
                           0x1p-969,
                           0x1p-511,
                           0x1.6a09e667f3bcdp-512,
                           0x1p51,
                           0x1.0000000000001p51,
                           0x1.0000000000003p51,
                           0x1p52,
                           0x1.0000000000001p52,
                           0x1p53,
                           0x1p62,
                           0x1p63,
                           0x1.fffffffffffffp62,
                           0x1p64,
                           0x1.fffffffffffffp63,
                           0x1p31,
                           0x1.fffffffcp30,
                           0x1.fffffffffffffp1023,
                           0x1p1023,
                           0x1p970,
                           65504.0,
                           65519.99,
                           65520.0,
                           0x1p-24,
                           0x1p-25,
                           0x1.0000000000001p-25,
                           0x1p-149,
                           0x1p-150,
                           0x1.0000000000001p-150,
                           0x1p-126,
                           0x1.fffffefffffffp127,
                           0x1.fffffffp127,
                           0x1.fffffe8p127,
                           0x1.ffp127,
                           0x1.ff00000000001p127,
                           127.0,
                           128.0,
                           255.0,
                           256.0,
                           32767.5,
                           1000.0,
                           -2000.0,
                           0x1.002p0,
                           0x1.006p0,
                           0x1.00200000001p0,
                           0x1.010p0,
                           0x1.01000000001p0,
                           0x1.0000010000000p0,
                           0x1.0000030000000p0,
                           0x1.0000010000001p0,
                           double(INFINITY)}) {
        all.push_back(std::bit_cast<std::uint64_t>(x));
        all.push_back(all.back() ^ kSign);
    }
    for (const std::uint64_t nan : {0x7ff8000000000000u, 0x7ff0000000000001u}) {
        all.insert(all.end(), {nan, nan | kSign});
    }
    return all;
}

/// Two operands for each element: all pairs of special numbers, then bits of any kind, numbers of
/// nearly one size, and denormal ones.
struct Operands {
    std::vector<std::uint64_t> x, y;

    Operands() {
        const std::vector<std::uint64_t> special = special_numbers();
        for (std::size_t i = 0; i < special.size(); ++i) {
            for (std::size_t j = kSanitized ? i % 9 : 0; j < special.size();
                 j += kSanitized ? 9 : 1) {
                add(special[i], special[j]);
            }
        }
        std::mt19937_64 engine(1);
        for (int n = 0; n < (kSanitized ? 300 : 6000); ++n) {
            const std::uint64_t a = engine(), b = engine(), fraction = kSign >> 11;
            add(a, b);
            const std::uint64_t near = (a >> 52 & 0x7ff) + engine() % 64 - engine() % 64;
            add(a, (near & 0x7ff) * fraction | b % fraction | (b & kSign));
            // Sums of few bits, which are often half way between two numbers.
            const std::uint64_t few = ~std::uint64_t{0} << engine() % 52;
            add(a & few, ((a & few) ^ (b & kSign)) + (engine() % 5 - 2) * fraction);
            const std::uint64_t denormal = (a % fraction) >> engine() % 52;
            add(denormal | (a & kSign), b);
            add(b, denormal);
            add(denormal, (b % fraction) >> engine() % 52 | (b & kSign));
            // Products that are nearly denormal.
            const std::uint64_t left = engine() % 1100;
            add(a % fraction | left * fraction,
                b % fraction | ((1023 + engine() % 60 - left) & 0x7ff) * fraction);
        }
    }

    void add(std::uint64_t a, std::uint64_t b) {
        x.push_back(a);
        y.push_back(b);
    }
    std::size_t count() const { return x.size(); }
};

const Operands& operands() {
    static const Operands all;
    return all;
}

/// out[i] = what `write` makes of x[i] and y[i], in one lane or in four.
template <class Write>
Function each(DType from, DType to, const Write& write, std::uint16_t lanes = 1) {
    Builder b("each");
    const BufferId x = b.buffer("x", from, Space::Global, false);
    const BufferId y = b.buffer("y", from, Space::Global, false);
    const BufferId out = b.buffer("out", to, Space::Global, true);
    const ValueId n = b.parameter({ParameterKind::Dim, 0});
    const ValueId i = b.begin_for(b.integer(0), n, lanes);
    b.store(out, i, write(b, b.load(x, i, lanes), b.load(y, i, lanes)));
    b.end_for();
    return b.take();
}

template <class T>
Memory memory_of(std::vector<T>& elements) {
    auto* const begin = reinterpret_cast<std::byte*>(elements.data());
    return {begin, 0, std::int64_t(elements.size() * sizeof(T))};
}

/// Elements of `to` with the bits that each has, which lie in as many bytes as it needs.
std::vector<std::byte> run(const Function& vectors, std::vector<std::uint64_t> x,
                           std::vector<std::uint64_t> y, DType to) {
    EXPECT_EQ(verify(vectors), std::vector<std::string>());
    const Function function = for_lanes(vectors);
    std::vector<std::byte> out(x.size() * size_of(to));
    const std::vector<std::uint64_t> words = {x.size()};
    const Memory memory[] = {memory_of(x), memory_of(y), memory_of(out)};
    const Execution done =
        execute(function, {.words = words, .memory = memory, .local_bytes = 0, .points = 1});
    EXPECT_EQ(done.mistake, "");
    EXPECT_FALSE(done.has_failed);
    return out;
}

std::uint64_t element(const std::vector<std::byte>& all, DType dtype, std::size_t i) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, all.data() + i * size_of(dtype), size_of(dtype));
    return bits;
}

bool is_nan(std::uint64_t bits, DType dtype) {
    if (dtype == DType::Float64) return (bits & ~kSign) > std::uint64_t{0x7ff} << 52;
    if (dtype == DType::Float32) return (bits & 0x7fffffffu) > 0x7f800000u;
    if (dtype == DType::Float16) return (bits & 0x7fffu) > 0x7c00u;
    return dtype == DType::BFloat16 && (bits & 0x7fffu) > 0x7f80u;
}

void expect_same(const std::vector<std::byte>& got, const std::vector<std::byte>& expected,
                 DType dtype, const std::vector<std::uint64_t>& x,
                 const std::vector<std::uint64_t>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::uint64_t a = element(got, dtype, i), b = element(expected, dtype, i);
        if (is_nan(a, dtype) && is_nan(b, dtype)) continue;
        ASSERT_EQ(a, b) << std::hex << "of " << x[i] << " and " << y[i];
    }
}

/// Without float64, and without integers of 64 bits too.
void expect_as_here(const Function& function, DType to, std::vector<std::uint64_t> x,
                    std::vector<std::uint64_t> y) {
    const auto expected = run(function, x, y, to);
    const Function soft = without_float64(function).value();
    for (const Inst& i : soft.insts) ASSERT_NE(i.type.dtype, DType::Float64);
    expect_same(run(soft, x, y, to), expected, to, x, y);
    if (testing::Test::HasFatalFailure()) return;
    SCOPED_TRACE("without int64");
    // A part, since each number is two there.
    const std::size_t step = x.size() > 10000 ? 7 : 1;
    std::vector<std::uint64_t> some_x, some_y;
    for (std::size_t i = 0; i < x.size(); i += step) {
        some_x.push_back(x[i]);
        some_y.push_back(y[i]);
    }
    // Whole vectors.
    some_x.resize(some_x.size() / 4 * 4);
    some_y.resize(some_x.size());
    expect_same(run(without_int64(soft), some_x, some_y, to), run(function, some_x, some_y, to), to,
                some_x, some_y);
}

class SoftFloat64Of : public testing::TestWithParam<Op> {};

TEST_P(SoftFloat64Of, OneNumberIsThatOfThisProcessor) {
    const auto write = [](Builder& b, ValueId x, ValueId) { return b.unary(GetParam(), x); };
    expect_as_here(each(DType::Float64, DType::Float64, write), DType::Float64, operands().x,
                   operands().y);
}

INSTANTIATE_TEST_SUITE_P(Each, SoftFloat64Of,
                         testing::Values(Op::Neg, Op::Abs, Op::Sqrt, Op::Floor, Op::Ceil,
                                         Op::RoundEven),
                         [](const auto& info) { return std::string(to_string(info.param)); });

class SoftFloat64OfTwo : public testing::TestWithParam<Op> {};

TEST_P(SoftFloat64OfTwo, IsThatOfThisProcessor) {
    const auto write = [](Builder& b, ValueId x, ValueId y) { return b.binary(GetParam(), x, y); };
    expect_as_here(each(DType::Float64, DType::Float64, write), DType::Float64, operands().x,
                   operands().y);
}

INSTANTIATE_TEST_SUITE_P(Each, SoftFloat64OfTwo,
                         testing::Values(Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max),
                         [](const auto& info) { return std::string(to_string(info.param)); });

class SoftFloat64Compares : public testing::TestWithParam<Op> {};

TEST_P(SoftFloat64Compares, AsThisProcessorDoes) {
    const auto write = [](Builder& b, ValueId x, ValueId y) {
        return b.cast(b.compare(GetParam(), x, y), DType::UInt8);
    };
    expect_as_here(each(DType::Float64, DType::UInt8, write), DType::UInt8, operands().x,
                   operands().y);
}

INSTANTIATE_TEST_SUITE_P(Each, SoftFloat64Compares,
                         testing::Values(Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual),
                         [](const auto& info) { return std::string(to_string(info.param)); });

class SoftFloat64Converts : public testing::TestWithParam<DType> {};

TEST_P(SoftFloat64Converts, FromFloat64AsTensorsDo) {
    const DType to = GetParam();
    std::vector<std::uint64_t> x = operands().x;
    // As many as fit in each dtype, which numbers of any size rarely do.
    std::mt19937_64 engine(2);
    for (int n = 0; n < 20000; ++n) {
        const double size = std::ldexp(double(engine() >> 11), int(engine() % 200) - 160);
        x.push_back(std::bit_cast<std::uint64_t>(engine() % 2 ? size : -size));
    }
    const auto write = [&](Builder& b, ValueId a, ValueId) { return b.cast(a, to); };
    expect_as_here(each(DType::Float64, to, write), to, x, x);
}

TEST_P(SoftFloat64Converts, ToFloat64AsTensorsDo) {
    const DType from = GetParam();
    std::vector<std::uint64_t> x = operands().x;
    if (from == DType::Bool) {
        for (std::uint64_t& bits : x) bits = bits >> 3 & 0x0001000100010001u;
    }
    // Each element is so many of the narrow dtype.
    const auto write = [](Builder& b, ValueId a, ValueId) { return b.cast(a, DType::Float64); };
    const Function function = each(from, DType::Float64, write);
    std::vector<std::uint64_t> out(x.size()), expected(x.size());
    const std::vector<std::uint64_t> words = {x.size()};
    std::vector<std::uint64_t> y = x;
    for (auto& [f, result] :
         {std::pair(function, &expected), std::pair(without_float64(function).value(), &out)}) {
        ASSERT_EQ(verify(f), std::vector<std::string>());
        const Memory memory[] = {memory_of(x), memory_of(y), memory_of(*result)};
        const Execution done =
            execute(f, {.words = words, .memory = memory, .local_bytes = 0, .points = 1});
        ASSERT_EQ(done.mistake, "");
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (is_nan(out[i], DType::Float64) && is_nan(expected[i], DType::Float64)) continue;
        ASSERT_EQ(out[i], expected[i]) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Each, SoftFloat64Converts,
                         testing::Values(DType::Bool, DType::Int8, DType::Int16, DType::Int32,
                                         DType::Int64, DType::UInt8, DType::UInt16, DType::UInt32,
                                         DType::UInt64, DType::Float16, DType::BFloat16,
                                         DType::Float32),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(SoftFloat64, ScalesByAWholeNumberAndRoundsOnce) {
    std::vector<std::uint64_t> y;
    std::mt19937_64 engine(3);
    for (std::size_t i = 0; i < operands().count(); ++i) {
        const int n = int(engine() % 5000) - 2500;
        y.push_back(std::bit_cast<std::uint64_t>(double(i % 2 ? n : n / 20)));
    }
    const auto write = [](Builder& b, ValueId x, ValueId n) { return b.binary(Op::Scale, x, n); };
    expect_as_here(each(DType::Float64, DType::Float64, write), DType::Float64, operands().x, y);
}

TEST(SoftFloat64, IntegersOf64BitsRoundOnceToFloatsOf16) {
    for (const DType from : {DType::Int64, DType::UInt64}) {
        for (const DType to : {DType::Float16, DType::BFloat16}) {
            std::vector<std::uint64_t> x = operands().x;
            for (std::size_t i = 0; i < x.size(); i += 2) x[i] >>= i % 60;
            for (std::uint64_t n = 0; n < 70000; n += 3) x.push_back(n);
            // Half way between two floats of 8 bits, and beside it.
            for (int e = 8; e < 63; ++e) {
                for (const int more : {-1, 0, 1}) {
                    x.push_back((std::uint64_t{0x101} << e) / 2 + std::uint64_t(more));
                }
            }
            const auto write = [&](Builder& b, ValueId a, ValueId) { return b.cast(a, to); };
            expect_as_here(each(from, to, write), to, x, x);
        }
    }
}

TEST(SoftFloat64, VectorsFoldAndShuffleAsNumbersDo) {
    const auto write = [](Builder& b, ValueId x, ValueId y) {
        const ValueId all = b.splat(b.fold(Op::Add, b.mul(x, y)), 4);
        const ValueId turned = b.shuffle(x, y, {3, 4, 1, 6});
        return b.add(b.fold(Op::Max, turned, 2), b.binary(Op::Div, all, b.unary(Op::Sqrt, x)));
    };
    std::vector<std::uint64_t> x = operands().x, y = operands().y;
    x.resize(x.size() / 4 * 4);
    y.resize(x.size());
    expect_as_here(each(DType::Float64, DType::Float64, write, 4), DType::Float64, x, y);
}

TEST(SoftFloat64, RegistersMasksAndBranchesStay) {
    const auto write = [](Builder& b, ValueId x, ValueId y) {
        const ValueId kept = b.reg(b.constant(DType::Float64, 0));
        b.begin_if(b.compare(Op::Less, x, y));
        b.set(kept, b.sub(y, x));
        b.begin_else();
        b.set(kept, b.bitcast(b.bitcast(x, DType::Int64), DType::Float64));
        b.end_if();
        return b.select(b.compare(Op::Equal, x, x), b.get(kept), y);
    };
    expect_as_here(each(DType::Float64, DType::Float64, write), DType::Float64, operands().x,
                   operands().y);
}

TEST(SoftFloat64, IsNotWrittenWhereThereIsNoFloat64) {
    const auto write = [](Builder& b, ValueId x, ValueId y) { return b.add(x, y); };
    const Function function = each(DType::Float32, DType::Float32, write);
    EXPECT_FALSE(without_float64(function));
}

}  // namespace soft_float64_test
}  // namespace quern::lir

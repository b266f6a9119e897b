#include "quern/lir/legalise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "quern/lir/builder.h"
#include "quern/lir/executor.h"
#include "tests/sanitized.h"

// The executor does every operation on every dtype by itself, which is the reference.

namespace quern::lir {
namespace {

constexpr DType kDTypes[] = {DType::Bool,   DType::Int8,    DType::Int16,    DType::Int32,
                             DType::Int64,  DType::UInt8,   DType::UInt16,   DType::UInt32,
                             DType::UInt64, DType::Float16, DType::BFloat16, DType::Float32,
                             DType::Float64};

bool is_half(DType dtype) { return is_floating(dtype) && size_of(dtype) == 2; }

struct Lack {
    const char* name;
    Native native;
};

const Lack kLacks[] = {
    {"nothing", {}},
    {"int8", {.int8 = false}},
    {"int16", {.int16 = false}},
    {"half casts", {.half_casts = false}},
    {"wide integers to float32", {.wide_to_float32 = false}},
    {"saturating casts", {.saturating_casts = false}},
    {"extremes", {.extremes = false}},
    {"signed remainders", {.signed_remainders = false}},
    {"large divisors", {.large_divisors = false}},
    {"all",
     {.int8 = false,
      .int16 = false,
      .half_casts = false,
      .wide_to_float32 = false,
      .saturating_casts = false,
      .extremes = false,
      .signed_remainders = false,
      .large_divisors = false}},
};

/// Elements of a dtype as bits: every one of 16 bits or fewer, else extremes and any others.
std::vector<std::uint64_t> elements_of(DType dtype, std::uint64_t seed) {
    std::vector<std::uint64_t> all;
    std::mt19937_64 engine(seed);
    if (dtype == DType::Bool) return {0, 1, 1, 0, seed % 2, seed / 2 % 2, 0, 1};
    const int width = 8 * int(size_of(dtype));
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width);
    if (width <= 16) {
        for (std::uint64_t bits = 0; bits <= mask; ++bits) all.push_back(bits);
    } else {
        for (const int at : {0, 7, 8, 11, 12, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63}) {
            const std::uint64_t power = std::uint64_t{1} << at % width;
            for (const std::uint64_t n : {power - 1, power, power + 1}) {
                all.insert(all.end(), {n & mask, (0 - n) & mask});
            }
        }
        for (int n = 0; n < 4000; ++n) {
            all.insert(all.end(), {engine() & mask, (engine() & mask) >> engine() % width});
        }
    }
    if (is_floating(dtype) && width >= 32) {
        for (int exponent = -160; exponent < 130; ++exponent) {
            for (const double fraction :
                 {1.0, 1 + 0x1p-8, 1 + 0x1p-9, 1 + 0x1p-11, 1.5, 1.75, 2 - 0x1p-24,
                  1 + 0x1p-11 + 0x1p-22, 1 + 0x1p-11 + 0x1p-40}) {
                const double x = std::ldexp(exponent % 2 ? -fraction : fraction, exponent);
                all.push_back(width == 64 ? std::bit_cast<std::uint64_t>(x)
                                          : std::bit_cast<std::uint32_t>(float(x)));
            }
        }
        for (const double x : {double(INFINITY), -double(INFINITY), double(NAN), 0.0, -0.0}) {
            all.push_back(width == 64 ? std::bit_cast<std::uint64_t>(x)
                                      : std::bit_cast<std::uint32_t>(float(x)));
        }
    }
    std::shuffle(all.begin(), all.end(), engine);
    if (kSanitized && all.size() > 2000) all.resize(2000);
    return all;
}

struct Operands {
    std::vector<std::uint64_t> x, y;
};

Operands operands_of(Op op, DType dtype) {
    Operands all{elements_of(dtype, 1), elements_of(dtype, 2)};
    const std::uint64_t width = 8 * size_of(dtype);
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - width);
    for (std::uint64_t& y : all.y) {
        if (op == Op::ShiftLeft || op == Op::ShiftRight) y %= width;
        // No divisor is 0, and none -1: the least number has no quotient by it.
        if (!is_floating(dtype) && (op == Op::Div || op == Op::Rem)) {
            y |= 1;
            if (y == mask) y = 3;
        }
    }
    // Equal ones too.
    for (std::size_t i = 0; i < all.x.size() && i < all.y.size(); i += 9) {
        if (class_of(op) == OpClass::Compare || op == Op::Max) all.y[i] = all.x[i];
    }
    all.y.resize(all.x.size());
    return all;
}

std::vector<std::byte> in_memory(const std::vector<std::uint64_t>& all, DType dtype) {
    std::vector<std::byte> bytes(all.size() * size_of(dtype));
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::memcpy(&bytes[i * size_of(dtype)], &all[i], size_of(dtype));
    }
    return bytes;
}

/// out[i] = op(x[i], y[i]), or of x[i] alone.
Function each(Op op, DType from, DType to) {
    Builder b("each");
    const BufferId x = b.buffer("x", from, Space::Global, false);
    const BufferId y = b.buffer("y", from, Space::Global, false);
    const BufferId out = b.buffer("out", to, Space::Global, true);
    const ValueId n = b.parameter({ParameterKind::Dim, 0});
    const ValueId i = b.begin_for(b.integer(0), n, 1);
    const ValueId a = b.load(x, i, 1);
    const ValueId c = class_of(op) == OpClass::Binary || class_of(op) == OpClass::Compare
                          ? b.load(y, i, 1)
                          : kNone;
    b.store(out, i, b.copy({.op = op, .type = {to, 1}, .a = a, .b = c}));
    b.end_for();
    return b.take();
}

std::vector<std::byte> run(const Function& function, const Operands& of, DType from, DType to) {
    EXPECT_EQ(verify(function), std::vector<std::string>());
    std::vector<std::byte> x = in_memory(of.x, from), y = in_memory(of.y, from);
    std::vector<std::byte> out(of.x.size() * size_of(to));
    const std::vector<std::uint64_t> words = {of.x.size()};
    const auto memory_of = [](std::vector<std::byte>& all) {
        return Memory{all.data(), 0, std::int64_t(all.size())};
    };
    const Memory memory[] = {memory_of(x), memory_of(y), memory_of(out)};
    const Execution done =
        execute(function, {.words = words, .memory = memory, .local_bytes = 0, .points = 1});
    EXPECT_EQ(done.mistake, "");
    return out;
}

bool is_nan(std::uint64_t bits, DType dtype) {
    if (dtype == DType::Float64) return bits << 1 > std::uint64_t{0xffe} << 52;
    if (dtype == DType::Float32) return (bits & 0x7fffffffu) > 0x7f800000u;
    if (dtype == DType::Float16) return (bits & 0x7fffu) > 0x7c00u;
    return dtype == DType::BFloat16 && (bits & 0x7fffu) > 0x7f80u;
}

void expect_same(const std::vector<std::byte>& got, const std::vector<std::byte>& expected,
                 DType dtype, const Operands& of) {
    for (std::size_t i = 0; i < of.x.size(); ++i) {
        std::uint64_t a = 0, b = 0;
        std::memcpy(&a, &got[i * size_of(dtype)], size_of(dtype));
        std::memcpy(&b, &expected[i * size_of(dtype)], size_of(dtype));
        if (is_nan(a, dtype) && is_nan(b, dtype)) continue;
        ASSERT_EQ(a, b) << std::hex << "of " << of.x[i] << " and " << of.y[i];
    }
}

/// On a target that lacks each of what targets may lack, and all of it.
void expect_same_bits(Op op, DType from, DType to) {
    SCOPED_TRACE(std::string(to_string(op)) + " " + std::string(quern::to_string(from)) + " to " +
                 std::string(quern::to_string(to)));
    const Operands of = operands_of(op, from);
    const Function function = each(op, from, to);
    const std::vector<std::byte> expected = run(function, of, from, to);
    std::set<std::string> tried = {print(function)};
    for (const Lack& lack : kLacks) {
        SCOPED_TRACE(std::string("without ") + lack.name);
        const Function legal = legalise(function, lack.native);
        EXPECT_EQ(lacking(legal, lack.native), "");
        if (!tried.insert(print(legal)).second) continue;
        EXPECT_NE(lacking(function, lack.native), "");
        expect_same(run(legal, of, from, to), expected, to, of);
        if (testing::Test::HasFatalFailure()) return;
    }
}

class Legalised : public testing::TestWithParam<DType> {};

TEST_P(Legalised, ArithmeticHasTheSameBits) {
    const DType dtype = GetParam();
    if (dtype == DType::Bool) return;
    std::vector<Op> ops = {Op::Neg, Op::Min, Op::Max};
    if (is_floating(dtype)) {
        ops.push_back(Op::Abs);
        if (!is_half(dtype)) ops.push_back(Op::Div);
    } else {
        ops.insert(ops.end(), {Op::Not, Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Rem, Op::And,
                               Op::Or, Op::Xor, Op::ShiftLeft, Op::ShiftRight});
    }
    for (const Op op : ops) expect_same_bits(op, dtype, dtype);
}

TEST_P(Legalised, ComparisonsHaveTheSameBits) {
    for (const Op op : {Op::Less, Op::LessEqual, Op::Equal, Op::NotEqual}) {
        expect_same_bits(op, GetParam(), DType::Bool);
    }
}

TEST_P(Legalised, CastsHaveTheSameBits) {
    for (const DType to : kDTypes) {
        if (to != GetParam()) expect_same_bits(Op::Cast, GetParam(), to);
    }
}

INSTANTIATE_TEST_SUITE_P(DTypes, Legalised, testing::ValuesIn(kDTypes),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST(Legalise, LeavesWhatTheTargetDoesAsItIs) {
    for (const DType dtype : kDTypes) {
        if (dtype == DType::Bool || is_half(dtype)) continue;
        const Function function = each(Op::Max, dtype, dtype);
        EXPECT_EQ(print(legalise(function, {})), print(function));
    }
    const Function halves = each(Op::Cast, DType::Float16, DType::Float32);
    EXPECT_EQ(print(legalise(halves, {})), print(halves));
}

TEST(Legalise, MakesOnlyDivisorsSmallerThatMayBeLargeAndKeepsThatExact) {
    const auto count = [](const auto& divisor, Op op, bool is_relaxed) {
        Builder b("quotient");
        const BufferId x = b.buffer("x", DType::Float32, Space::Global, false);
        const BufferId out = b.buffer("out", DType::Float32, Space::Global, true);
        const ValueId a = b.load(x, b.integer(0), 1), by = divisor(b, x);
        b.set_relaxed(true);
        b.store(out, b.integer(0), b.binary(Op::Div, a, by));
        const Function function = legalise(b.take(), {.large_divisors = false});
        return std::ranges::count_if(function.insts, [&](const Inst& i) {
            return i.op == op && i.is_relaxed == is_relaxed;
        });
    };
    const auto any = [](Builder& b, BufferId x) { return b.load(x, b.integer(1), 1); };
    EXPECT_EQ(count(any, Op::Mul, false), 2);
    EXPECT_EQ(count(any, Op::Mul, true), 0);
    EXPECT_EQ(count(any, Op::Div, true), 1);
    const auto three = [](Builder& b, BufferId) {
        return b.constant(DType::Float32, std::bit_cast<std::uint32_t>(3.0f));
    };
    const auto whole = [](Builder& b, BufferId) {
        return b.cast(b.parameter({ParameterKind::Dim, 0}), DType::Float32);
    };
    EXPECT_EQ(count(three, Op::Mul, false), 0);
    EXPECT_EQ(count(whole, Op::Mul, false), 0);
    EXPECT_EQ(count(whole, Op::Div, true), 1);
}

TEST(Legalise, SaysWhatATargetLacks) {
    const Native native{.half_casts = false, .signed_remainders = false};
    EXPECT_EQ(lacking(each(Op::Cast, DType::Float16, DType::Float32), native),
              "cast float16 to float32");
    EXPECT_EQ(lacking(each(Op::Rem, DType::Int32, DType::Int32), native), "rem int32");
    EXPECT_EQ(lacking(each(Op::Rem, DType::UInt32, DType::UInt32), native), "");
}

TEST(Legalise, ACastThatIsKnownToBeInRangeAndIsNotIsAMistake) {
    Builder b("far");
    const BufferId out = b.buffer("out", DType::Int32, Space::Global, true);
    const ValueId x = b.constant(DType::Float32, std::bit_cast<std::uint32_t>(0x1p31f));
    const Type type = {DType::Int32, 1};
    b.store(out, b.integer(0), b.copy({.op = Op::Cast, .type = type, .a = x, .bits = kInRange}));
    std::int32_t result = 0;
    const Memory memory[] = {{reinterpret_cast<std::byte*>(&result), 0, 4}};
    const Execution done =
        execute(b.take(), {.words = {}, .memory = memory, .local_bytes = 0, .points = 1});
    EXPECT_NE(done.mistake.find("is out of the range of int32"), std::string::npos) << done.mistake;
}

}  // namespace
}  // namespace quern::lir

#include "quern/lir/without_int64.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "quern/backend/vulkan/targets.h"
#include "quern/lir/builder.h"
#include "quern/lir/executor.h"
#include "quern/lir/lanes.h"
#include "quern/schedule/plan.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/case.h"
#include "tests/sanitized.h"

// What the pass writes. That it means the same is what tests/cpu and tools/fuzz_kernels hold
// against the interpreter.

namespace quern::lir {
namespace {

std::string text_of(const Function& function) {
    const std::vector<std::string> broken = verify(function);
    return broken.empty() ? print(function) : broken.front();
}

/// for i in 0..n: y[i] = x[i] + constant
Function sums(DType dtype) {
    Builder b("sums");
    const BufferId x = b.buffer("x", dtype, Space::Global, false);
    const BufferId y = b.buffer("y", dtype, Space::Global, true);
    const ValueId n = b.parameter({ParameterKind::Dim, 0});
    const ValueId i = b.begin_for(b.integer(0), n, 1);
    const ValueId loaded = b.load(x, i, 1);
    b.store(y, i, b.add(loaded, b.constant(dtype, 5)));
    b.end_for();
    return b.take();
}

TEST(WithoutInt64, IndicesBecomeInt32AndOtherValuesStay) {
    EXPECT_EQ(text_of(without_int64(sums(DType::Int32))), R"(function sums {
    buffer @0 x: int32 global
    buffer @1 y: int32 global written
    %1 = parameter int32 dim 0 0
    %2 = parameter_high uint32 dim 0 0
    %7 = cast uint32 %1
    %8 = constant uint32 1073741824
    %9 = less bool %7 %8
    %10 = constant uint32 0
    %11 = equal bool %2 %10
    %12 = and bool %9 %11
    %13 = assert bool %12
    %14 = parameter int32 dim 0 0
    %15 = constant int32 0
    %16 = for int32 %15 %14 step 1 {
        %17 = load int32 @0 %16
        %18 = constant int32 5
        %19 = add int32 %17 %18
        %20 = store int32 @1 %16 %19
    }
}
)");
}

TEST(WithoutInt64, AnIntegerThatMayBeLargeBecomesTwo) {
    EXPECT_EQ(text_of(without_int64(sums(DType::Int64))), R"(function sums {
    buffer @0 x: uint32 global
    buffer @1 y: uint32 global written
    %1 = parameter int32 dim 0 0
    %2 = parameter_high uint32 dim 0 0
    %7 = cast uint32 %1
    %8 = constant uint32 1073741824
    %9 = less bool %7 %8
    %10 = constant uint32 0
    %11 = equal bool %2 %10
    %12 = and bool %9 %11
    %13 = assert bool %12
    %14 = parameter int32 dim 0 0
    %15 = constant int32 0
    %16 = for int32 %15 %14 step 1 {
        %17 = constant int32 1
        %18 = shl int32 %16 %17
        %19 = load uint32 @0 %18
        %20 = constant int32 1
        %21 = add int32 %18 %20
        %22 = load uint32 @0 %21
        %23 = constant int32 5
        %24 = constant uint32 0
        %25 = cast uint32 %23
        %26 = add uint32 %19 %25
        %27 = less bool %26 %19
        %28 = cast uint32 %27
        %29 = add uint32 %22 %24
        %30 = add uint32 %29 %28
        %31 = constant int32 1
        %32 = shl int32 %16 %31
        %33 = store uint32 @1 %32 %26
        %34 = constant int32 1
        %35 = add int32 %32 %34
        %36 = store uint32 @1 %35 %30
    }
}
)");
}

/// How many instructions of a kind a kernel's function has.
std::ptrdiff_t count(const Function& function, Op op) {
    std::ptrdiff_t all = 0;
    for (const auto& block : function.blocks) {
        all += std::ranges::count_if(block, [&](ValueId id) { return function[id].op == op; });
    }
    return all;
}

std::vector<Function> functions(const char* number, const std::vector<Tensor>& operands) {
    const cpu_test::Case c(example_text(number), operands);
    std::vector<Function> all;
    for (const schedule::Target& target : {vulkan::kInvocations, vulkan::kGroups}) {
        const auto plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target);
        for (const schedule::Stage& stage : plan.stages) all.push_back(stage.function);
    }
    return all;
}

TEST(WithoutInt64, OfSmallNumbersNeitherAssertsNorHasPairsOfThem) {
    const Tensor square = uniform({64, 64}, 1);
    for (const auto& [number, operands] : {std::pair("01", std::vector{uniform({100}, 1)}),
                                           {"04", {uniform({10000}, 1)}},
                                           {"07", {square}},
                                           {"09", {square, square}},
                                           {"03", {square, uniform({64}, 2)}}}) {
        SCOPED_TRACE(number);
        for (const Function& function : functions(number, operands)) {
            const std::optional<Function> narrow = narrowed(function);
            ASSERT_TRUE(narrow);
            EXPECT_EQ(verify(*narrow), std::vector<std::string>());
            EXPECT_EQ(count(*narrow, Op::Assert), 0);
            for (const Inst& i : narrow->insts) {
                EXPECT_TRUE(i.type.dtype != DType::Int64 || i.op == Op::Alloc);
                EXPECT_NE(i.op, Op::ParameterHigh);
            }
            const bool has_numbers = !function.parameters.empty();
            EXPECT_EQ(count(without_int64(function), Op::Assert) > 0, has_numbers);
        }
    }
}

/// Random arithmetic on what a launch is given, whose values go to an array of int64.
class Arithmetic {
public:
    explicit Arithmetic(std::uint64_t seed) : engine_(seed) {
        const BufferId out = b_.buffer("out", DType::Int64, Space::Global, true);
        const ValueId first = parameter(ParameterKind::GridBegin, 0);
        const ValueId last = parameter(ParameterKind::GridEnd, 0);
        for (std::uint32_t n = 0; n < 3; ++n) {
            values_.push_back(parameter(ParameterKind::Dim, some({0, 1, 2, kMost, any() % kMost})));
            values_.push_back(
                parameter(ParameterKind::Stride, std::uint64_t(std::int64_t(std::int32_t(
                                                     some({1, 0x7fffffff, 0x80000000, any()}))))));
            values_.push_back(b_.integer(std::int64_t(any()) >> any() % 64));
        }
        // Points 0 and 1, whose iterations are below 2^30.
        const ValueId block =
            parameter(ParameterKind::Block, some({1, 2, 16, kMost, 1 + any() % kMost}));
        const ValueId point = b_.begin_for(first, last, 1);
        values_.push_back(b_.mul(point, block));
        for (int n = 0; n < kSteps; ++n) values_.push_back(step(block));
        for (int n = 0; n < kSteps; ++n) {
            const ValueId at = b_.add(b_.mul(point, b_.integer(kSteps)), b_.integer(n));
            b_.store(out, at, values_[values_.size() - kSteps + std::size_t(n)]);
        }
        b_.end_for();
        function_ = b_.take();
    }

    const Function& function() const { return function_; }

    std::vector<std::int64_t> run(const Function& function) const {
        std::vector<std::int64_t> out(2 * kSteps, -1);
        const Memory memory{reinterpret_cast<std::byte*>(out.data()), 0,
                            std::int64_t(out.size() * sizeof out[0])};
        const Execution done = execute(
            function,
            {.words = words_, .memory = std::span(&memory, 1), .local_bytes = 0, .points = 2});
        EXPECT_EQ(done.mistake, "");
        EXPECT_FALSE(done.has_failed);
        return out;
    }

private:
    static constexpr std::uint64_t kMost = (std::uint64_t{1} << 30) - 1;
    static constexpr int kSteps = 12;

    std::uint64_t any() { return engine_(); }
    std::uint64_t some(std::initializer_list<std::uint64_t> choices) {
        return choices.begin()[any() % choices.size()];
    }
    ValueId value() { return values_[any() % values_.size()]; }

    ValueId parameter(ParameterKind kind, std::uint64_t word) {
        const auto number = std::uint32_t(words_.size());
        words_.push_back(word);
        return b_.parameter({kind, number});
    }

    ValueId step(ValueId block) {
        const ValueId a = value(), c = value();
        const auto amount = [&] { return b_.integer(std::int64_t(any() % 64)); };
        const ValueId width = any() % 2 ? block : b_.integer(std::int64_t(1 + any() % 100));
        switch (any() % 14) {
            case 0:
                return b_.add(a, c);
            case 1:
                return b_.sub(a, c);
            case 2:
                return b_.mul(a, c);
            case 3:
                return b_.binary(Op::Div, a, width);
            case 4:
                return b_.binary(Op::Rem, a, width);
            case 5:
                return b_.binary(Op::Min, a, c);
            case 6:
                return b_.binary(Op::Max, a, c);
            case 7:
                return b_.binary(some({0, 1}) ? Op::And : Op::Xor, a, c);
            case 8:
                return b_.binary(Op::And, a, b_.integer(std::int64_t(any() >> any() % 64)));
            case 9:
                return b_.binary(Op::ShiftLeft, a, amount());
            case 10:
                return b_.binary(Op::ShiftRight, a, amount());
            case 11:
                return b_.unary(some({0, 1}) ? Op::Neg : Op::Abs, a);
            case 12:
                return b_.select(b_.compare(Op::Less, a, c), b_.mul(a, a), c);
            default: {
                // As loops end whose bodies have several iterations.
                const ValueId whole = b_.binary(Op::Div, b_.sub(c, a), width);
                return b_.add(a, b_.mul(whole, width));
            }
        }
    }

    std::mt19937_64 engine_;
    Builder b_{"arithmetic"};
    std::vector<std::uint64_t> words_;
    std::vector<ValueId> values_;
    Function function_;
};

TEST(WithoutInt64, RandomArithmeticOnSmallAndOtherNumbersIsThatOf64Bits) {
    for (std::uint64_t seed = 0; seed < (kSanitized ? 300 : 3000); ++seed) {
        SCOPED_TRACE(seed);
        const Arithmetic some(seed);
        ASSERT_EQ(verify(some.function()), std::vector<std::string>());
        const auto expected = some.run(some.function());
        for (const bool are_small : {true, false}) {
            ASSERT_EQ(some.run(without_int64(some.function(), are_small)), expected) << are_small;
        }
    }
}

TEST(WithoutInt64, SumsOf64BitsStayOnADeviceThatHasThem) {
    for (const Function& function : functions("07", {uniform({64, 64}, 1, -9, 9, DType::Int64)})) {
        const bool has_lanes = lanes_of(function) > 1;
        EXPECT_TRUE(!has_lanes || !narrowed(function));
    }
}

TEST(WithoutInt64, AFunctionWithoutThemStays) {
    Builder b("scale");
    const BufferId x = b.buffer("x", DType::Float32, Space::Global, true);
    const ValueId first = b.constant(DType::Int32, 0);
    b.store(x, first, b.mul(b.load(x, first, 1), b.load(x, first, 1)));
    const Function function = b.take();
    EXPECT_EQ(text_of(without_int64(function)), text_of(function));
}

}  // namespace
}  // namespace quern::lir

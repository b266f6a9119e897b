// Functions for the lanes of a work-group, run lane by lane: what the executor reports, and that it
// finds what is planted in the code of cooperative kernels.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "quern/lir/banks.h"
#include "quern/lir/builder.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/lanes_run.h"
#include "tests/lir/mutants.h"

namespace quern::lir {
namespace lanes_test {

constexpr std::uint32_t kLanes = 4;

/// Code for four lanes over one array of ten float32.
class Code {
public:
    Builder b{"f"};
    BufferId array = b.buffer("t", DType::Float32, Space::Global, true);
    ValueId lane = b.copy({.op = Op::Lane, .type = {DType::Int64, 1}});
    ValueId one = b.constant(DType::Float32, 0x3f800000);

    void barrier(Spaces spaces = Spaces::Device) {
        b.copy({.op = Op::Barrier, .spaces = spaces, .type = {DType::Bool, 1}});
    }
    ValueId is_first() { return b.compare(Op::Equal, lane, b.integer(0)); }
    ValueId is_below(std::int64_t n) { return b.compare(Op::Less, lane, b.integer(n)); }

    ValueId from_lane(ValueId value, ValueId lane) {
        return b.copy(
            {.op = Op::FromLane, .type = {DType::Float32, 1}, .a = value, .b = number(lane)});
    }
    ValueId number(ValueId lane) { return b.cast(lane, DType::Int32); }

    Execution run(std::int64_t points = 1, std::uint32_t subgroup = 2) {
        Function function = b.take();
        function.lanes = kLanes;
        function.subgroup = subgroup;
        EXPECT_EQ(verify(function), std::vector<std::string>{});
        const std::vector<std::uint64_t> words(function.parameters.size(), 0);
        const Memory memory[] = {
            {reinterpret_cast<std::byte*>(elements.data()), 0, std::int64_t(elements.size()) * 4}};
        return execute(function,
                       {.words = words, .memory = memory, .local_bytes = 128, .points = points});
    }

    std::vector<float> elements = std::vector<float>(10, 0);
};

bool says(const Execution& execution, const std::string& what) {
    return execution.mistake.find(what) != std::string::npos;
}

TEST(Banks, AreAskedForEachWordInAStepOfItsOwn) {
    const auto steps = [](std::uint64_t stride, std::size_t lanes) {
        Banks banks(lanes, 2);
        for (std::size_t lane = 0; lane < lanes; ++lane)
            banks.note(lane, ValueId{1}, lane * stride);
        banks.meet();
        return banks.most();
    };
    EXPECT_EQ(steps(1, 32), 1u);
    EXPECT_EQ(steps(0, 32), 1u) << "one word for all";
    EXPECT_EQ(steps(2, 32), 2u);
    EXPECT_EQ(steps(17, 32), 1u);
    EXPECT_EQ(steps(32, 32), 32u);
    EXPECT_EQ(steps(16, 16), 8u);
    EXPECT_EQ(steps(1, 128), 1u) << "of 32 lanes each";
    Banks banks(2, 2);
    banks.note(0, ValueId{1}, 0);
    banks.note(0, ValueId{1}, 32);
    banks.note(1, ValueId{0}, 64);
    banks.meet();
    EXPECT_EQ(banks.most(), 1u) << "one after the other";
}

TEST(Executor, CountsStepsOfBanksWhereItIsAsked) {
    for (const std::int64_t stride : {1, 32}) {
        Builder b("f");
        const BufferId array = b.buffer("t", DType::Float32, Space::Group, true);
        const ValueId lane = b.copy({.op = Op::Lane, .type = {DType::Int64, 1}});
        b.store(array, b.mul(lane, b.integer(stride)), b.constant(DType::Float32, 0));
        Function function = b.take();
        function.lanes = kLanes;
        function.buffers[array].elements = 128;
        const std::vector<Memory> memory(1);
        EXPECT_EQ(
            execute(function, {.words = {}, .memory = memory, .counts_banks = true}).bank_steps,
            stride == 1 ? 1u : kLanes);
        EXPECT_EQ(execute(function, {.words = {}, .memory = memory}).bank_steps, 0u);
    }
}

TEST(Executor, LanesSeeWhatOthersWroteBehindABarrier) {
    for (const Spaces spaces : {Spaces::None, Spaces::Group, Spaces::Device, Spaces::All}) {
        Code code;
        code.b.store(code.array, code.lane, code.b.cast(code.lane, DType::Float32));
        if (spaces != Spaces::None) code.barrier(spaces);
        const ValueId other = code.b.sub(code.b.integer(3), code.lane);
        const ValueId seen = code.b.load(code.array, other, 1);
        code.b.store(code.array, code.b.add(code.lane, code.b.integer(4)), seen);
        const Execution done = code.run();
        if (has(spaces, Spaces::Device)) {
            EXPECT_EQ(done.mistake, "");
            EXPECT_EQ(code.elements, (std::vector<float>{0, 1, 2, 3, 3, 2, 1, 0, 0, 0}));
        } else {
            EXPECT_TRUE(says(done, "lane 0 of point 0 reads what lane 3 of point 0 wrote"))
                << done.mistake;
        }
    }
}

TEST(Executor, ReportsAWriteOfWhatOthersReadOrWrote) {
    Code read;
    read.b.load(read.array, read.b.integer(2), 1);
    read.b.store(read.array, read.b.integer(2), read.one, read.is_first());
    EXPECT_TRUE(says(read.run(), "lane 0 of point 0 writes what other lanes read"));
    Code later;
    later.b.load(later.array, later.b.integer(2), 1);
    const ValueId is_last = later.b.compare(Op::Equal, later.lane, later.b.integer(3));
    later.b.store(later.array, later.b.integer(2), later.one, is_last);
    EXPECT_TRUE(says(later.run(), "lane 3 of point 0 writes what other lanes read"));
    Code write;
    write.b.store(write.array, write.b.integer(2), write.one);
    EXPECT_TRUE(says(write.run(), "lane 1 of point 0 writes what lane 0 of point 0 wrote"));
}

TEST(Executor, ReportsPointsThatTouchWhatOthersWrite) {
    const auto mistake = [](std::int64_t step, bool is_read) {
        Code code;
        const ValueId point = code.b.parameter({ParameterKind::GridBegin, 0, 0});
        const ValueId place = code.b.mul(point, code.b.integer(step));
        code.b.store(code.array, place, code.one, code.is_first());
        if (is_read) code.b.load(code.array, code.b.integer(8), 1);
        return code.run(3).mistake;
    };
    EXPECT_EQ(mistake(1, false), "");
    EXPECT_NE(mistake(0, false).find("point 1 writes what lane 0 of point 0 wrote"),
              std::string::npos);
    EXPECT_EQ(mistake(1, true), "");
    EXPECT_NE(mistake(4, true).find("point 2 writes what other points read"), std::string::npos);
}

TEST(Executor, ReportsABarrierThatLanesDoNotReachTogether) {
    Code some;
    some.b.begin_if(some.is_first());
    some.barrier();
    some.b.end_if();
    EXPECT_TRUE(says(some.run(), "lane 0 waits, lane 1 is elsewhere"));
    Code others;
    others.b.begin_if(others.is_first());
    others.b.begin_else();
    others.barrier();
    others.b.end_if();
    EXPECT_TRUE(says(others.run(), "lane 1 waits, lane 0 is elsewhere"));
    Code two;
    two.b.begin_if(two.is_first());
    two.barrier();
    two.b.begin_else();
    two.barrier();
    two.b.end_if();
    EXPECT_TRUE(says(two.run(), "lane 0 waits, lane 1 is elsewhere"));
    Code rounds;
    const ValueId end = rounds.b.add(rounds.lane, rounds.b.integer(1));
    rounds.b.begin_for(rounds.b.integer(0), end, 1);
    rounds.barrier();
    rounds.b.end_for();
    EXPECT_TRUE(says(rounds.run(), "lane 1 waits, lane 0 is elsewhere"));
    Code iterations;
    iterations.b.begin_for(iterations.lane, iterations.b.integer(4), 4);
    iterations.barrier();
    iterations.b.end_for();
    EXPECT_TRUE(says(iterations.run(), "lane 0 waits, lane 1 is elsewhere"))
        << "once each, but in other iterations";
    Code all;
    all.b.begin_for(all.b.integer(0), all.b.integer(3), 1);
    all.barrier();
    all.b.end_for();
    EXPECT_EQ(all.run().mistake, "");
}

/// In memory that another array had too.
TEST(Executor, ReportsReadsOfWhatNobodyWrote) {
    for (const bool is_written : {true, false}) {
        Code code;
        const BufferId array = code.b.buffer("a", DType::Float32, Space::Group, true);
        const ValueId turn = code.b.begin_for(code.b.integer(0), code.b.integer(2), 1);
        code.barrier();
        code.b.alloc(array, code.b.integer(4));
        const ValueId is_due =
            is_written ? code.b.boolean(true) : code.b.compare(Op::Equal, turn, code.b.integer(0));
        code.b.store(array, code.lane, code.one, is_due);
        code.barrier();
        code.b.load(array, code.b.integer(2), 1);
        code.b.end_for();
        const Execution run = code.run();
        EXPECT_EQ(run.mistake.empty(), is_written) << run.mistake;
        EXPECT_EQ(says(run, "reads what nobody wrote"), !is_written);
    }
}

TEST(Executor, ReportsWhatIsOutOfBounds) {
    for (const std::int64_t place : {-1, 10}) {
        Code code;
        code.b.load(code.array, code.b.integer(place), 1);
        EXPECT_TRUE(says(code.run(), "out of bounds with " + std::to_string(place)));
        Code masked;
        masked.b.load(masked.array, masked.b.integer(place), 1, masked.is_below(0));
        EXPECT_EQ(masked.run().mistake, "");
    }
    Code large;
    const BufferId array = large.b.buffer("a", DType::Float32, Space::Group, true);
    large.b.alloc(array, large.b.integer(33));
    EXPECT_TRUE(says(large.run(), "no room"));
    Code negative;
    const BufferId none = negative.b.buffer("a", DType::Float32, Space::Group, true);
    negative.b.alloc(none, negative.b.integer(-1));
    EXPECT_TRUE(says(negative.run(), "no room"));
    // Of two arrays, one behind the other.
    for (const std::int64_t place : {-1, 3, 4, 16}) {
        Code two;
        const BufferId first = two.b.buffer("a", DType::Float32, Space::Group, true);
        const BufferId second = two.b.buffer("b", DType::Float32, Space::Group, true);
        two.b.alloc(first, two.b.integer(4));
        two.b.alloc(second, two.b.integer(4));
        for (const BufferId array : {first, second}) {
            const ValueId at = two.b.begin_for(two.b.integer(0), two.b.integer(4), 1);
            two.b.store(array, at, two.one, two.is_first());
            two.b.end_for();
        }
        two.barrier();
        two.b.load(place < 0 ? second : first, two.b.integer(place), 1);
        EXPECT_EQ(two.run().mistake.empty(), place == 3) << place;
    }
    Code far;
    far.b.load(far.array, far.b.integer(std::int64_t{1} << 62), 1);
    EXPECT_TRUE(says(far.run(), "out of bounds"));
}

TEST(Executor, ArraysOfEarlierIterationsLieInTheSameMemory) {
    for (const bool has_barrier : {true, false}) {
        Code code;
        const BufferId array = code.b.buffer("a", DType::Float32, Space::Group, true);
        code.b.begin_for(code.b.integer(0), code.b.integer(3), 1);
        if (has_barrier) code.barrier();
        code.b.alloc(array, code.b.integer(32));
        code.b.store(array, code.lane, code.one);
        code.barrier();
        code.b.load(array, code.b.sub(code.b.integer(3), code.lane), 1);
        code.b.end_for();
        EXPECT_EQ(code.run().mistake.empty(), has_barrier);
    }
}

TEST(Executor, AnAssertionEndsTheFunctionForALaneThatNoneWaitsFor) {
    Code all;
    all.b.assert_that(all.b.boolean(false), kNone, {});
    all.b.store(all.array, all.lane, all.one);
    const Execution done = all.run();
    EXPECT_TRUE(done.has_failed);
    EXPECT_EQ(done.mistake, "");
    EXPECT_EQ(all.elements, std::vector<float>(10, 0));
    for (const bool is_first : {true, false}) {
        Code alone;
        const ValueId first = alone.is_first();
        alone.b.assert_that(is_first ? alone.b.unary(Op::Not, first) : first, kNone, {});
        alone.b.store(alone.array, alone.lane, alone.one);
        const Execution some = alone.run();
        EXPECT_TRUE(some.has_failed);
        EXPECT_EQ(some.mistake, "");
        EXPECT_EQ(alone.elements[0], is_first ? 0 : 1);
        EXPECT_EQ(alone.elements[1], is_first ? 1 : 0);
        Code others;
        const ValueId zero = others.is_first();
        others.b.assert_that(is_first ? others.b.unary(Op::Not, zero) : zero, kNone, {});
        others.barrier();
        EXPECT_TRUE(says(others.run(), is_first ? "lane 1 waits, lane 0 is elsewhere"
                                                : "lane 0 waits, lane 1 is elsewhere"));
    }
}

/// Reads at places that data chooses are asserted to be in bounds.
TEST(Lanes, FailAloneWhereNoneWaitsForAnother) {
    const std::string each = "for i in 0..n: out[i] = x[at[i]]";
    const std::string sums =
        "for i in 0..n / 40:\n  var s = 0.0\n  for j in 0..40: s += x[at[j + 40 * i]]\n  out[i] = "
        "s";
    for (const auto& [body, has_sums] : {std::pair{each, false}, {sums, true}}) {
        for (const std::int64_t place : {3, 77, -1}) {
            SCOPED_TRACE(body + " " + std::to_string(place));
            Tensor at({80}, DType::Int32);
            at.data<std::int32_t>()[59] = std::int32_t(place);
            const Case c("compute(x, at) {\n@kernel custom\n" + body + "\n}",
                         {uniform({50}, 1), at});
            const schedule::Plan plan =
                schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
            const std::vector<Function> functions = cpu_test::functions_of(plan, 16);
            const auto exchanges = std::ranges::count(functions[0].insts, Op::FromLane, &Inst::op);
            EXPECT_EQ(exchanges > 0, has_sums);
            const LanesRun run = cpu_test::run_on_lanes(c, plan, functions);
            EXPECT_EQ(run.mistake, "");
            EXPECT_EQ(run.result.has_value(), place == 3);
        }
    }
}

TEST(Executor, LanesOfASubgroupKnowEachOthersValuesAndNothingElse) {
    Code code;
    const ValueId mine = code.b.cast(code.lane, DType::Float32);
    const ValueId other = code.b.binary(Op::Xor, code.lane, code.b.integer(1));
    code.b.store(code.array, code.lane, code.from_lane(mine, other));
    EXPECT_EQ(code.run().mistake, "");
    EXPECT_EQ(code.elements, (std::vector<float>{1, 0, 3, 2, 0, 0, 0, 0, 0, 0}));

    Code far;
    far.from_lane(far.one, far.b.sub(far.b.integer(3), far.lane));
    EXPECT_TRUE(says(far.run(), "lane 0 asks lane 3 of another subgroup"));
    Code outside;
    outside.from_lane(outside.one, outside.b.add(outside.lane, outside.b.integer(1)));
    EXPECT_TRUE(says(outside.run(1, 4), "lane 3 asks lane 4 of another subgroup"));
    Code some;
    some.b.begin_if(some.is_first());
    some.from_lane(some.one, some.lane);
    some.b.end_if();
    EXPECT_TRUE(says(some.run(), "lane 0 waits, lane 1 is elsewhere"));

    // An exchange is no barrier: what lanes of one subgroup wrote they must not read behind it.
    for (const bool has_barrier : {true, false}) {
        Code memory;
        memory.b.store(memory.array, memory.lane, memory.one);
        if (has_barrier) memory.barrier();
        memory.from_lane(memory.one, memory.lane);
        memory.b.load(memory.array, memory.b.binary(Op::Xor, memory.lane, memory.b.integer(1)), 1);
        EXPECT_EQ(memory.run().mistake.empty(), has_barrier);
    }
}

/// Of zeros that differ in sign a maximum is the one that the order says, in every lane.
TEST(Lanes, HaveTheSameZeroInAllSubgroups) {
    Tensor x({6, 48}, DType::Float32);
    for (int i = 0; i < 6 * 48; ++i) x.data<float>()[i] = i * i % 7 % 2 == 0 ? 0.0f : -0.0f;
    const Case c(
        "compute(x) {\n@kernel custom\nfor b in 0..rows:\n  var m = -1.0\n"
        "  for i in 0..n: m = max(m, x[b, i])\n  for i in 0..n: out[b, i] = 1.0 / m\n}",
        {x});
    const std::optional<Tensor> expected = c.interpreted();
    ASSERT_TRUE(expected.has_value());
    for (const std::uint32_t subgroup : {1u, 2u, 4u, 16u}) {
        const LanesRun run =
            cpu_test::run_on_lanes(c, Numerics::Reproducible, vulkan::kGroups, subgroup);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result.has_value());
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected)) << subgroup;
    }
}

TEST(Lanes, ShareArraysInMemoryOfTheGroupAsFarAsThatGoes) {
    const Case c(
        "compute(x) {\n@kernel fused\nfor b in 0..rows:\n"
        "  shared var small[40]: float32\n  shared var large[3000]: float32\n"
        "  shared var much[2000]: float32\n"
        "  shared var flags[40]: bool\n"
        "  for i in 0..40:\n    small[i] = x[b, i]\n    large[i + 2000] = x[b, i]\n"
        "    flags[i] = x[b, i] > 0.0\n"
        "  for i in 0..40: much[39 - i] = x[b, i]\n  barrier()\n"
        "  for i in 0..40:\n"
        "    out[b, i] = select(flags[39 - i], small[39 - i], large[2039 - i]) + much[i]\n}",
        {uniform({5, 40}, 1)});
    const schedule::Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
    const std::vector<Function> functions = cpu_test::functions_of(plan);
    ASSERT_EQ(functions.size(), 1u);
    std::map<std::string, std::uint32_t> elements;
    std::size_t bytes = 0;
    for (const Buffer& buffer : functions[0].buffers) {
        elements[buffer.name] = buffer.elements;
        bytes += buffer.elements * std::max<std::size_t>(size_of(buffer.dtype), 4);
    }
    EXPECT_EQ(elements["small"], 40u);
    EXPECT_EQ(elements["much"], 2000u);
    EXPECT_EQ(elements["large"], 0u) << "no room is left";
    EXPECT_EQ(elements["flags"], 0u);
    EXPECT_LE(bytes, kGroupBytes);
    for (const Inst& i : functions[0].insts) {
        if (i.op != Op::Alloc) continue;
        EXPECT_EQ(functions[0].buffers[i.buffer].elements, 0u);
    }
    const LanesRun run = cpu_test::run_on_lanes(c, plan, functions);
    EXPECT_EQ(run.mistake, "");
    ASSERT_TRUE(run.result);
    EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
}

/// What barriers of a function order, each once.
std::set<std::pair<Scope, Spaces>> ordered(const Function& function) {
    std::set<std::pair<Scope, Spaces>> all;
    for (const Inst& i : function.insts) {
        if (i.op == Op::Barrier) all.insert({i.scope, i.spaces});
    }
    return all;
}

TEST(Lanes, MeetForTheMemoryThatOneReadsAndAnotherWroteAndInASubgroupIfTheyAreOne) {
    using All = std::set<std::pair<Scope, Spaces>>;
    const Case c(kReversed, {uniform({5, 40}, 1)});
    const schedule::Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
    const auto of = [&](std::uint32_t subgroup, std::uint32_t bytes) {
        const std::vector<Function> functions = cpu_test::functions_of(plan, subgroup, bytes);
        EXPECT_EQ(functions.size(), 1u);
        return ordered(functions[0]);
    };
    constexpr std::uint32_t kNoRoom = 0;
    EXPECT_EQ(of(1, kGroupBytes), (All{{Scope::Group, Spaces::Group}}));
    EXPECT_EQ(of(8, kGroupBytes), (All{{Scope::Group, Spaces::Group}}));
    EXPECT_EQ(of(16, kGroupBytes), (All{{Scope::Subgroup, Spaces::Group}}));
    EXPECT_EQ(of(64, kGroupBytes), (All{{Scope::Subgroup, Spaces::Group}}));
    EXPECT_EQ(of(1, kNoRoom), (All{{Scope::Group, Spaces::Device}}));
    EXPECT_EQ(of(16, kNoRoom), (All{{Scope::Subgroup, Spaces::Device}}));
}

TEST(Lanes, MeetOnceForBothMemoriesWhereALoopTouchesBoth) {
    const Case c(
        "compute(x) {\n@kernel custom\nfor b in 0..rows:\n"
        "  shared var small[64]: float32\n  shared var large[5000]: float32\n"
        "  for i in 0..64:\n    small[i] = x[b, i]\n    large[i] = x[b, i]\n  barrier()\n"
        "  for i in 0..64: out[b, i] = small[63 - i] + large[63 - i]\n}",
        {uniform({3, 64}, 1)});
    const schedule::Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
    const std::vector<Function> functions = cpu_test::functions_of(plan);
    ASSERT_EQ(functions.size(), 1u);
    std::map<Spaces, int> barriers;
    for (const Inst& i : functions[0].insts) {
        if (i.op == Op::Barrier) ++barriers[i.spaces];
    }
    EXPECT_EQ(barriers[Spaces::All], 1);
    const LanesRun run = cpu_test::run_on_lanes(c, plan, functions);
    EXPECT_EQ(run.mistake, "");
    ASSERT_TRUE(run.result);
    EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
    // The assertion that elements were written has a barrier of the group's memory of its own.
    std::vector<Function> mutant = functions;
    for (Inst& i : mutant[0].insts) {
        if (i.op == Op::Barrier && i.spaces == Spaces::All) i.spaces = Spaces::Group;
    }
    EXPECT_NE(cpu_test::run_on_lanes(c, plan, mutant).mistake, "");
}

/// Words of 32 bits are what subgroups exchange, of whatever is reduced.
TEST(Lanes, OfASubgroupFoldValuesOfEveryDtypeWithoutMemory) {
    const std::string text =
        "compute(x) {\n@kernel custom\nfor i in 0..r:\n  var m = x[i, 0]\n"
        "  for j in 0..c: m = max(m, x[i, j])\n  out[i] = m\n}";
    for (const DType dtype : {DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32,
                              DType::UInt32, DType::Int64, DType::UInt64, DType::Float16,
                              DType::BFloat16, DType::Float32, DType::Float64}) {
        SCOPED_TRACE(to_string(dtype));
        Tensor x = random_tensor({3, 40}, dtype, 5);
        if (is_floating(dtype)) x = uniform({3, 40}, 5, -9, 9, dtype);
        const Case c(text, {x});
        for (const std::uint32_t subgroup : {8u, 16u}) {
            const schedule::Plan plan =
                schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
            const std::vector<Function> functions = cpu_test::functions_of(plan, subgroup);
            bool has_array = false;
            for (const Function& function : functions) {
                for (const Buffer& buffer : function.buffers) has_array |= buffer.elements > 0;
            }
            EXPECT_EQ(has_array, subgroup < 16);
            const LanesRun run = cpu_test::run_on_lanes(c, plan, functions);
            EXPECT_EQ(run.mistake, "");
            ASSERT_TRUE(run.result);
            EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Mutants,
                         testing::Combine(testing::ValuesIn(kKernels),
                                          testing::ValuesIn(kSubgroups)),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param).name) + "_by_" +
                                    std::to_string(std::get<1>(info.param));
                         });

TEST_P(Mutants, NoneIsRight) {
    for (const Function& function : functions_) {
        EXPECT_EQ(verify(function), std::vector<std::string>{});
    }
    const LanesRun whole = run(functions_);
    EXPECT_EQ(whole.mistake, "");
    EXPECT_TRUE(is_right(whole));
}

TEST_P(Mutants, ABarrierThatIsGoneIsARace) {
    const Count barriers = count(without_barrier);
    // Of one subgroup some stand only where rows of different points might overlap.
    if (kernel().has_lanes_apart) {
        EXPECT_EQ(barriers.races, 0);
    } else if (subgroup() < functions_[0].lanes) {
        EXPECT_GE(barriers.races, std::min(barriers.made, 1));
    }
    if (kernel().needs_all_barriers) {
        EXPECT_EQ(barriers.races, barriers.made);
    }
    EXPECT_EQ(barriers.races, barriers.caught) << "none is missed that changes the result";
    RecordProperty("barriers", barriers.made);
    RecordProperty("needed", barriers.races);
}

TEST_P(Mutants, ABarrierThatOrdersOtherMemoryIsARaceAsIfItWereGone) {
    const auto is_of_one = [](const Inst& i) {
        return i.op == Op::Barrier && i.spaces != Spaces::All;
    };
    const Count gone = count([&](Function& f, BlockId block, std::size_t n) {
        return is_of_one(at(f, block, n)) && without_barrier(f, block, n);
    });
    const Count other = count([&](Function& f, BlockId block, std::size_t n) {
        Inst& i = at(f, block, n);
        if (!is_of_one(i)) return false;
        i.spaces = i.spaces == Spaces::Group ? Spaces::Device : Spaces::Group;
        return true;
    });
    EXPECT_EQ(other.made, gone.made);
    EXPECT_EQ(other.races, gone.races);
}

TEST_P(Mutants, AWrongStrideASwappedIndexAndALostMaskAreCaught) {
    const auto is_access = [](const Inst& i) { return i.op == Op::Load || i.op == Op::Store; };
    // Lanes two elements apart.
    const Count strides = count([&](Function& f, BlockId block, std::size_t n) {
        if (!is_access(at(f, block, n))) return false;
        const ValueId offset = at(f, block, n).a;
        for (const ValueId part : {f[offset].a, f[offset].b}) {
            if (f[offset].op != Op::Add || f[part].op != Op::Lane) continue;
            f.insts.push_back({.op = Op::Add, .type = f[part].type, .a = offset, .b = part});
            auto& insts = f.blocks[block];
            insts.insert(insts.begin() + std::ptrdiff_t(n), ValueId(f.insts.size() - 1));
            at(f, block, n + 1).a = ValueId(f.insts.size() - 1);
            return true;
        }
        return false;
    });
    // The lane from the other end.
    const Count indices = count([&](Function& f, BlockId block, std::size_t n) {
        if (at(f, block, n).op != Op::Lane || n + 1 >= f.blocks[block].size()) return false;
        Inst& next = at(f, block, n + 1);
        if (next.op != Op::Add || next.b != f.blocks[block][n]) return false;
        const Type type = next.type;
        f.insts.push_back({.op = Op::Constant, .type = type, .bits = f.lanes - 1});
        const auto last = ValueId(f.insts.size() - 1);
        f.insts.push_back({.op = Op::Sub, .type = type, .a = last, .b = f.blocks[block][n]});
        const auto swapped = ValueId(f.insts.size() - 1);
        at(f, block, n + 1).b = swapped;
        auto& insts = f.blocks[block];
        insts.insert(insts.begin() + std::ptrdiff_t(n) + 1, {last, swapped});
        return true;
    });
    const Count masks = count([&](Function& f, BlockId block, std::size_t n) {
        Inst& i = at(f, block, n);
        if (!is_access(i) || !exists(i.c)) return false;
        i.c = kNone;
        return true;
    });
    // Each lane keeps the number that it has (of conditions all may be alike).
    const Count exchanges = count([&](Function& f, BlockId block, std::size_t n) {
        const Inst& i = at(f, block, n);
        if (i.op != Op::FromLane || i.type.dtype != DType::Float32) return false;
        f.insts.push_back({.op = Op::Lane, .type = {DType::Int32, 1}});
        auto& insts = f.blocks[block];
        insts.insert(insts.begin() + std::ptrdiff_t(n), ValueId(f.insts.size() - 1));
        at(f, block, n + 1).b = ValueId(f.insts.size() - 1);
        return true;
    });
    for (const auto& [what, kind] : {std::pair("stride", strides), std::pair("index", indices),
                                     std::pair("mask", masks), std::pair("exchange", exchanges)}) {
        EXPECT_GE(kind.caught, std::min(kind.made, 1)) << what;
    }
    EXPECT_GE(strides.caught + indices.caught + masks.caught + exchanges.caught, 4);
}

}  // namespace lanes_test
}  // namespace quern::lir

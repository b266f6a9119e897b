// Which arrays of a thread a work-group's memory has room for, and which of them share it.

#include "quern/lir/group_arrays.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "quern/lir/builder.h"
#include "tests/conformance/operands.h"
#include "tests/cpu/lanes_run.h"

namespace quern::lir {
namespace group_arrays_test {

struct Code {
    Builder b{"f"};
    ValueId one = b.constant(DType::Float32, 0x3f800000);

    BufferId array(const char* name, DType dtype = DType::Float32) {
        return b.buffer(name, dtype, Space::Lane, true);
    }
    void make(BufferId array, std::int64_t elements) { b.alloc(array, b.integer(elements)); }
    void write(BufferId array) { b.store(array, b.integer(0), one); }
    void read(BufferId array) { b.load(array, b.integer(0), 1); }
    void loop(const std::function<void()>& body) {
        b.begin_for(b.integer(0), b.integer(8), 1);
        body();
        b.end_for();
    }
};

using Elements = std::vector<std::uint32_t>;

/// The buffers of loads and stores, in order.
std::vector<BufferId> touched(const Function& function) {
    std::vector<BufferId> all;
    for (const Inst& i : function.insts) {
        if (i.op == Op::Load || i.op == Op::Store) all.push_back(i.buffer);
    }
    return all;
}

TEST(GroupArrays, HaveMemoryOfTheirOwnWhereThereIsRoom) {
    Code c;
    const BufferId s = c.array("s"), t = c.array("t");
    for (const BufferId array : {s, t}) {
        c.make(array, 100);
        c.write(array);
        c.read(array);
    }
    const GroupArrays arrays = group_arrays(c.b.take(), 800);
    EXPECT_EQ(arrays.elements, (Elements{100, 100}));
    EXPECT_EQ(touched(arrays.function), (std::vector<BufferId>{s, s, t, t}));
}

TEST(GroupArrays, ShareMemoryWhereOneIsReadNoMoreBeforeTheOtherIsWritten) {
    Code c;
    const BufferId s = c.array("s"), t = c.array("t");
    c.make(s, 60);
    c.make(t, 100);
    c.write(s);
    c.read(s);
    c.write(t);
    c.read(t);
    const GroupArrays arrays = group_arrays(c.b.take(), 400);
    EXPECT_EQ(arrays.elements, (Elements{100, 0}));
    EXPECT_EQ(touched(arrays.function), (std::vector<BufferId>{s, s, s, s}));
}

TEST(GroupArrays, AreApartWhereBothAreInUse) {
    Code c;
    const BufferId s = c.array("s"), t = c.array("t");
    c.make(s, 60);
    c.make(t, 100);
    c.write(s);
    c.write(t);
    c.read(s);
    c.read(t);
    const GroupArrays arrays = group_arrays(c.b.take(), 400);
    EXPECT_EQ(arrays.elements, (Elements{60, 0})) << "the smaller has the room";
    EXPECT_EQ(touched(arrays.function), (std::vector<BufferId>{s, t, s, t}));
}

TEST(GroupArrays, AreInUseInAllOfALoopThatTheyAreMadeBefore) {
    Code c;
    const BufferId s = c.array("s"), t = c.array("t");
    c.make(s, 60);
    c.write(s);
    c.loop([&] {
        c.read(s);
        c.write(s);
        c.make(t, 100);
        c.write(t);
        c.read(t);
    });
    EXPECT_EQ(group_arrays(c.b.take(), 400).elements, (Elements{60, 0}));
}

TEST(GroupArrays, AreNotInUseBetweenTheIterationsThatMakeThem) {
    Code c;
    const BufferId s = c.array("s"), t = c.array("t");
    c.loop([&] {
        c.make(s, 60);
        c.write(s);
        c.read(s);
        c.make(t, 100);
        c.write(t);
        c.read(t);
    });
    EXPECT_EQ(group_arrays(c.b.take(), 400).elements, (Elements{100, 0}));
}

TEST(GroupArrays, OfSeveralPlacesAreInUseInEach) {
    Code c;
    const BufferId s = c.array("s"), t = c.array("t");
    const auto use = [&](BufferId array, std::int64_t elements) {
        c.loop([&] {
            c.make(array, elements);
            c.write(array);
            c.read(array);
        });
    };
    use(s, 60);
    use(t, 90);
    use(s, 40);
    const Function apart = c.b.take();
    EXPECT_EQ(group_arrays(apart, 400).elements, (Elements{92, 0}));
    Code d;
    const BufferId u = d.array("u"), v = d.array("v");
    d.make(u, 60);
    d.write(u);
    d.loop([&] {
        d.make(v, 90);
        d.write(v);
        d.read(u);
    });
    d.loop([&] {
        d.make(v, 90);
        d.read(v);
    });
    EXPECT_EQ(group_arrays(d.b.take(), 400).elements, (Elements{60, 0}));
}

TEST(GroupArrays, TakeWhole16BytesSoThatEachBeginsAtAMultipleOfThem) {
    Code c;
    const BufferId s = c.array("s"), d = c.array("d", DType::Float64),
                   h = c.array("h", DType::Int16);
    c.make(s, 13);
    c.make(d, 5);
    c.make(h, 7);
    const Function function = c.b.take();
    EXPECT_EQ(group_arrays(function, 64 + 48 + 32).elements, (Elements{16, 6, 8}));
    EXPECT_EQ(group_arrays(function, 64 + 48 + 31).elements, (Elements{0, 6, 8}));
}

TEST(GroupArrays, OfOtherDTypesAndOfUnknownSizesShareNothing) {
    Code c;
    const BufferId s = c.array("s"), t = c.array("t", DType::Int32), u = c.array("u");
    c.make(s, 60);
    c.write(s);
    c.make(t, 100);
    c.b.store(t, c.b.integer(0), c.b.constant(DType::Int32, 1));
    c.b.alloc(u, c.b.parameter({ParameterKind::Dim, 0, 0}));
    c.write(u);
    EXPECT_EQ(group_arrays(c.b.take(), 400).elements, (Elements{60, 0, 0}));
}

/// Tiles of 2000 numbers, each of the one before it: a group has room for two.
const char* const kTiles =
    "compute(x) {\n@kernel custom\nfor b in 0..batch:\n"
    "  shared var first[2000]: f32\n  shared var second[2000]: f32\n"
    "  shared var third[2000]: f32\n"
    "  for i in 0..2000: first[i] = exp(x[b, i])\n  barrier()\n"
    "  for i in 0..2000: second[i] = exp(first[1999 - i])\n  barrier()\n"
    "  for i in 0..2000: third[i] = exp(-second[1999 - i])\n  barrier()\n"
    "  for i in 0..2000: out[b, i] = third[1999 - i]\n}";

TEST(GroupArrays, ThatShareMemoryGiveTheInterpretersBits) {
    const cpu_test::Case c(kTiles, {uniform({3, 2000}, 1)});
    const auto expected = c.interpreted();
    ASSERT_TRUE(expected);
    for (const std::uint32_t bytes : {16u << 10, 32u << 10}) {
        schedule::Target target = vulkan::kGroups;
        target.group_bytes = bytes;
        const auto run = cpu_test::run_on_lanes(c, Numerics::Reproducible, target, 16);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected));
        const schedule::Plan plan =
            schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, target);
        std::uint64_t held = 0;
        int left = 0;
        for (const Function& f : cpu_test::functions_of(plan, 16, bytes)) {
            for (const Buffer& buffer : f.buffers) held += 4 * std::uint64_t(buffer.elements);
            for (const Inst& i : f.insts) left += i.op == Op::Alloc ? 1 : 0;
        }
        EXPECT_LE(held, bytes);
        EXPECT_EQ(left, 0) << "each has a place in " << bytes;
    }
}

TEST(GroupArrays, ThatShareMemoryHaveABarrierBetweenThem) {
    const cpu_test::Case c(kTiles, {uniform({3, 2000}, 1)});
    const schedule::Plan plan =
        schedule::plan(c.kernel(), c.facts(), Numerics::Reproducible, vulkan::kGroups);
    std::vector<Function> functions = cpu_test::functions_of(plan, 16);
    int barriers = 0, caught = 0;
    const std::size_t count = functions[0].blocks.size();
    for (std::size_t block = 0; block < count; ++block) {
        for (std::size_t at = 0; at < functions[0].blocks[block].size(); ++at) {
            if (functions[0][functions[0].blocks[block][at]].op != Op::Barrier) continue;
            std::vector<Function> mutant = functions;
            auto& ids = mutant[0].blocks[block];
            ids.erase(ids.begin() + std::ptrdiff_t(at));
            ++barriers;
            caught += cpu_test::run_on_lanes(c, plan, mutant).mistake.empty() ? 0 : 1;
        }
    }
    EXPECT_GE(barriers, 3) << "between writes and reads";
    EXPECT_EQ(caught, barriers);
}

}  // namespace group_arrays_test
}  // namespace quern::lir

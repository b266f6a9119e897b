// Where the lanes of a work-group must meet.

#include "quern/lir/hazards.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quern/lir/builder.h"

namespace quern::lir {
namespace {

/// The memory instructions of a function, in order.
std::vector<ValueId> accesses(const Function& function) {
    std::vector<ValueId> all;
    for (std::uint32_t n = 0; n < function.insts.size(); ++n) {
        const auto id = ValueId(n);
        if (class_of(function[id].op) == OpClass::Memory) all.push_back(id);
    }
    return all;
}

bool meet(Spaces spaces) { return spaces != Spaces::None; }

/// Whether lanes meet before each access of a function without loops.
std::vector<bool> meetings(const Function& function) {
    Hazards hazards(function);
    std::vector<bool> all;
    for (const ValueId id : accesses(function)) all.push_back(meet(hazards.before_access(id)));
    return all;
}

/// What one array of a group gets: 's' and 'l' store and load 16 lanes, 'S' and 'L' one element,
/// 'w' and 'r' store and load a row in which each lane has its place, 'a' begins another array.
struct Uses {
    Builder& b;
    BufferId array = b.buffer("t", DType::Float32, Space::Lane, true);
    BufferId other = b.buffer("u", DType::Float32, Space::Lane, true);
    ValueId one = b.constant(DType::Float32, 0);
    ValueId vector = b.splat(one, 16);

    void add(const std::string& uses) const {
        for (const char use : uses) {
            if (use == 'l' || use == 'L') b.load(array, b.integer(3), use == 'l' ? 16 : 1);
            if (use == 's') b.store(array, b.integer(3), vector);
            if (use == 'S') b.store(array, b.integer(3), one);
            if (use == 'r') b.load(array, b.integer(32), 16);
            if (use == 'w') b.store(array, b.integer(32), vector);
            if (use == 'a') b.alloc(other, b.integer(16));
        }
    }
};

Function array_uses(const std::string& uses) {
    Builder b("f");
    Uses{b}.add(uses);
    return b.take();
}

TEST(Hazards, LanesMeetBetweenAWriteAndWhatFollowsIt) {
    using Meetings = std::vector<bool>;
    EXPECT_EQ(meetings(array_uses("slL")), (Meetings{false, true, false}));
    EXPECT_EQ(meetings(array_uses("sls")), (Meetings{false, true, true}));
    EXPECT_EQ(meetings(array_uses("ls")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("ss")), (Meetings{false, true})) << "other lanes, perhaps";
    EXPECT_EQ(meetings(array_uses("SS")), (Meetings{false, false})) << "one lane, in order";
    EXPECT_EQ(meetings(array_uses("Ss")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("sa")), (Meetings{false, true})) << "the same memory, perhaps";
    EXPECT_EQ(meetings(array_uses("ll")), (Meetings{false, false})) << "nobody writes it";
}

TEST(Hazards, ALaneDoesNotMeetOthersForItsPlaceInRows) {
    using Meetings = std::vector<bool>;
    EXPECT_EQ(meetings(array_uses("wrwr")), (Meetings{false, false, false, false}));
    EXPECT_EQ(meetings(array_uses("wl")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("wL")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("rs")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("rS")), (Meetings{false, true}));
    EXPECT_EQ(meetings(array_uses("wa")), (Meetings{false, true})) << "the same memory, perhaps";
}

TEST(Hazards, LanesDoNotMeetForStoresThatAreApart) {
    const auto meets = [](std::uint32_t first, std::uint32_t second, bool loads = false) -> bool {
        Builder b("f");
        const BufferId out = b.buffer("out", DType::Float32, Space::Global, true);
        const ValueId vector = b.splat(b.constant(DType::Float32, 0), 16);
        b.set_apart(first);
        b.store(out, b.integer(3), vector);
        b.set_apart(second);
        if (loads) b.load(out, b.integer(3), 16);
        if (!loads) b.store(out, b.integer(24), vector);
        return meetings(b.take())[1];
    };
    EXPECT_FALSE(meets(1, 1));
    EXPECT_TRUE(meets(1, 2)) << "the same element in another order, perhaps";
    EXPECT_TRUE(meets(0, 0));
    EXPECT_TRUE(meets(1, 0));
    EXPECT_TRUE(meets(1, 1, true)) << "another lane's, perhaps";
}

TEST(Hazards, RowsOfAnOperandBeginAnywhere) {
    Builder b("f");
    const auto out = b.buffer("out", DType::Float32, Space::Global, true);
    b.store(out, b.integer(32), b.splat(b.constant(DType::Float32, 0), 16));
    b.load(out, b.integer(32), 16);
    EXPECT_EQ(meetings(b.take()), (std::vector<bool>{false, true}));
}

TEST(Hazards, AnOffsetIsAPlaceInARowOnlyIfThatIsSeen) {
    const auto meets = [](const auto& offset) -> bool {
        Builder b("f");
        const auto array = b.buffer("t", DType::Float32, Space::Lane, true);
        const auto rows = b.parameter({ParameterKind::Dim, 0, 0});
        const auto row = b.begin_for(b.integer(0), rows, 1);
        const auto place = offset(b, row, rows);
        b.store(array, place, b.splat(b.constant(DType::Float32, 0), 16));
        b.load(array, place, 16);
        b.end_for();
        return meetings(b.take())[1];
    };
    EXPECT_FALSE(meets([](Builder& b, auto row, auto) { return b.mul(row, b.integer(48)); }));
    EXPECT_TRUE(meets([](Builder& b, auto row, auto) { return b.mul(row, b.integer(24)); }));
    EXPECT_TRUE(meets([](Builder& b, auto row, auto) { return b.add(row, b.integer(16)); }));
    EXPECT_TRUE(meets([](Builder& b, auto row, auto rows) { return b.mul(row, rows); }));
    EXPECT_FALSE(meets([](Builder& b, auto row, auto rows) {
        return b.sub(b.mul(b.mul(row, rows), b.integer(16)), b.integer(32));
    }));
}

TEST(Hazards, LanesMeetBeforeTheyShowWhereOthersMayStillLook) {
    Builder b("f");
    b.splat(b.constant(DType::Float32, 0), 16);
    const Function function = b.take();
    Hazards hazards(function);
    EXPECT_FALSE(hazards.before_exchange(DType::Float32));
    EXPECT_TRUE(hazards.before_exchange(DType::Float32));
    EXPECT_FALSE(hazards.before_exchange(DType::Int32)) << "another array";
    EXPECT_FALSE(hazards.before_exchange(DType::Float32)) << "they met before they looked there";
}

/// before, and for: inside.
Function in_a_loop(const std::string& before, const std::string& inside) {
    Builder b("f");
    const Uses uses{b};
    uses.add(before);
    b.begin_for(b.integer(0), b.integer(4), 1);
    uses.add(inside);
    b.end_for();
    return b.take();
}

TEST(Hazards, ALoopCountsWhatItsOtherIterationsTouch) {
    const auto meets = [](const Function& function, std::size_t before) {
        Hazards hazards(function);
        const auto all = accesses(function);
        std::vector<bool> result;
        for (std::size_t n = 0; n < before; ++n) hazards.before_access(all[n]);
        for (std::uint32_t n = 0; n < function.insts.size(); ++n) {
            if (function.insts[n].op != Op::For) continue;
            result.push_back(meet(hazards.before_loop(ValueId(n))));
        }
        for (std::size_t n = before; n < all.size(); ++n) {
            result.push_back(meet(hazards.before_access(all[n])));
        }
        return result;
    };
    using Meetings = std::vector<bool>;
    EXPECT_EQ(meets(in_a_loop("", "s"), 0), (Meetings{false, false})) << "elements of its own";
    EXPECT_EQ(meets(in_a_loop("s", "l"), 1), (Meetings{true, false})) << "once, before it";
    EXPECT_EQ(meets(in_a_loop("s", "s"), 1), (Meetings{true, false}));
    EXPECT_EQ(meets(in_a_loop("l", "s"), 1), (Meetings{true, false}));
    EXPECT_EQ(meets(in_a_loop("", "ls"), 0), (Meetings{false, true, true})) << "every iteration";
    EXPECT_EQ(meets(in_a_loop("w", "rw"), 1), (Meetings{false, false, false}));
    EXPECT_EQ(meets(in_a_loop("S", "S"), 1), (Meetings{false, false})) << "one lane, in order";
}

/// Whether lanes meet before the store of a loop whose step is given.
template <class Store>
bool meets_in_each_iteration(std::uint64_t step, const Store& store) {
    Builder b("f");
    const auto out = b.buffer("out", DType::Float32, Space::Global, true);
    const auto vector = b.splat(b.constant(DType::Float32, 0), 16);
    const auto rows = b.parameter({ParameterKind::Dim, 0, 0});
    const auto loop = b.begin_for(b.integer(0), rows, step);
    store(b, out, vector, loop);
    b.end_for();
    const Function function = b.take();
    Hazards hazards(function);
    hazards.before_loop(loop);
    return meet(hazards.before_access(accesses(function)[0]));
}

TEST(Hazards, AnElementThatOtherLanesWroteInAnEarlierIterationIsWrittenAfterTheyMeet) {
    const auto row = [](Builder& b, auto out, auto vector, auto i) {
        b.store(out, b.add(i, b.integer(3)), vector);
    };
    EXPECT_FALSE(meets_in_each_iteration(16, row)) << "the loop of the lanes";
    EXPECT_FALSE(meets_in_each_iteration(32, row));
    EXPECT_TRUE(meets_in_each_iteration(1, row));
    EXPECT_TRUE(meets_in_each_iteration(24, row));
    const auto scaled = [](Builder& b, auto out, auto vector, auto i) {
        b.store(out, b.mul(i, b.parameter({ParameterKind::Stride, 0, 0})), vector);
    };
    EXPECT_TRUE(meets_in_each_iteration(16, scaled));
    const auto same = [](Builder& b, auto out, auto vector, auto) {
        b.store(out, b.integer(3), vector);
    };
    EXPECT_FALSE(meets_in_each_iteration(1, same)) << "each lane its own element again";
    const auto one = [](Builder& b, auto out, auto, auto i) {
        b.store(out, i, b.constant(DType::Float32, 0));
    };
    EXPECT_FALSE(meets_in_each_iteration(1, one)) << "one lane, in order";
    // Every other element: of the loop of the lanes, and shifted in each iteration.
    const auto spread = [](Builder& b, auto out, auto vector, auto i) {
        b.scatter(out, b.mul(b.add(b.splat(i, 16), b.iota(16)), b.splat(b.integer(2), 16)), vector);
    };
    EXPECT_FALSE(meets_in_each_iteration(16, spread));
    EXPECT_TRUE(meets_in_each_iteration(1, spread));
    const auto shifted = [](Builder& b, auto out, auto vector, auto i) {
        const auto places = b.mul(b.iota(16), b.splat(b.integer(2), 16));
        b.scatter(out, b.add(places, b.splat(i, 16)), vector);
    };
    EXPECT_TRUE(meets_in_each_iteration(1, shifted));
    EXPECT_TRUE(meets_in_each_iteration(16, shifted));
}

/// A loop over an array that always is the same memory, and what it does with rows that start
/// anywhere: 's' and 'l' store and load with the number 1, 'o' stores with the number 2, 'n' loads
/// without one, 'a' begins the array. Whether lanes meet before each of these.
std::vector<bool> numbered(const std::string& uses, bool is_apart) {
    Builder b("f");
    const auto array = b.buffer("t", DType::Float32, Space::Lane, true);
    const auto vector = b.splat(b.constant(DType::Float32, 0), 16);
    const auto rows = b.parameter({ParameterKind::Dim, 0, 0});
    const auto loop = b.begin_for(b.integer(0), rows, 1, is_apart);
    const auto place = b.mul(loop, b.parameter({ParameterKind::Stride, 0, 0}));
    for (const char use : uses) {
        b.set_apart(use == 'o' ? 2 : 1);
        if (use == 'a') b.alloc(array, b.integer(64));
        if (use == 's' || use == 'o') b.store(array, place, vector);
        if (use == 'n') b.load(array, place, 16);
        if (use == 'l') b.number_load(b.load(array, place, 16), 1);
    }
    b.end_for();
    const Function function = b.take();
    Hazards hazards(function);
    hazards.keep(array);
    hazards.before_loop(loop);
    std::vector<bool> all;
    for (const ValueId id : accesses(function)) {
        const bool meets = meet(hazards.before_access(id));
        if (function[id].op != Op::Alloc) all.push_back(meets);
    }
    return all;
}

TEST(Hazards, LanesDoNotMeetInLoopsWhoseIterationsAreApart) {
    using Meetings = std::vector<bool>;
    EXPECT_EQ(numbered("s", true), (Meetings{false}));
    EXPECT_EQ(numbered("s", false), (Meetings{true})) << "another lane's, perhaps";
    EXPECT_EQ(numbered("ls", true), (Meetings{false, false})) << "an element's lane";
    EXPECT_EQ(numbered("ls", false), (Meetings{true, false})) << "of another iteration, perhaps";
    EXPECT_EQ(numbered("ns", true), (Meetings{true, true})) << "any lane's";
    EXPECT_EQ(numbered("so", true), (Meetings{true, true})) << "in another order, perhaps";
    EXPECT_EQ(numbered("as", true), (Meetings{true})) << "the same memory in each iteration";
}

/// In steps of all that the lanes have; in steps of one number each, others touch it again.
TEST(Hazards, PacketsAreApartInStepsOfAllOfThem) {
    for (const std::uint64_t step : {64, 16}) {
        Builder b("f");
        const BufferId x = b.buffer("x", DType::Float32, Space::Global, true);
        const ValueId i = b.begin_for(b.integer(0), b.integer(640), step);
        const ValueId one = b.splat(b.constant(DType::Float32, 0), 16), two = b.join(one, one);
        b.store(x, i, b.join(two, two));
        b.end_for();
        const Function function = b.take();
        Hazards hazards(function);
        const auto loop = std::ranges::find(function.insts, Op::For, &Inst::op);
        EXPECT_FALSE(meet(hazards.before_loop(ValueId(loop - function.insts.begin()))));
        EXPECT_EQ(meet(hazards.before_access(accesses(function)[0])), step == 16) << step;
    }
}

TEST(Hazards, LanesThatMeetForOneMemoryHaveNotMetForTheOther) {
    Builder b("f");
    const BufferId kept = b.buffer("kept", DType::Float32, Space::Lane, true);
    const BufferId large = b.buffer("large", DType::Float32, Space::Lane, true);
    const ValueId one = b.splat(b.constant(DType::Float32, 0), 16);
    for (const BufferId array : {kept, large}) b.store(array, b.integer(3), one);
    for (const BufferId array : {kept, large}) b.load(array, b.integer(3), 16);
    for (const BufferId array : {kept, large}) b.load(array, b.integer(3), 16);
    b.store(large, b.integer(3), one);
    b.store(kept, b.integer(3), one);
    const Function function = b.take();
    Hazards hazards(function);
    hazards.keep(kept);
    std::vector<Spaces> all;
    for (const ValueId id : accesses(function)) all.push_back(hazards.before_access(id));
    EXPECT_EQ(all,
              (std::vector<Spaces>{Spaces::None, Spaces::None, Spaces::Group, Spaces::Device,
                                   Spaces::None, Spaces::None, Spaces::Device, Spaces::Group}));
    EXPECT_FALSE(hazards.before_exchange(DType::Float32));
    EXPECT_EQ(hazards.before_access(accesses(function)[3]), Spaces::Device)
        << "an exchange is the group's memory";
}

TEST(Hazards, AGroupHasOnePointOfTheGrid) {
    const auto meets = [](bool is_grid) {
        Builder b("f");
        const auto array = b.buffer("t", DType::Float32, Space::Lane, true);
        const auto begin = b.parameter({ParameterKind::GridBegin, 0, 0});
        const auto end = b.parameter({ParameterKind::GridEnd, 0, 0});
        const auto loop = b.begin_for(is_grid ? begin : b.integer(0), end, 1);
        b.load(array, b.integer(3), 16);
        b.store(array, b.integer(3), b.splat(b.constant(DType::Float32, 0), 16));
        b.end_for();
        const Function function = b.take();
        Hazards hazards(function);
        hazards.before_loop(loop);
        return meet(hazards.before_access(accesses(function)[0]));
    };
    EXPECT_FALSE(meets(true));
    EXPECT_TRUE(meets(false));
}

}  // namespace
}  // namespace quern::lir

// Lanes that load and store several neighbours at once, run lane by lane and on drivers.

#include "quern/schedule/packets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/cpu/lanes_run.h"
#include "tests/cpu/random_tiling.h"

namespace quern::schedule {
namespace packets_test {

using cpu_test::Case;

/// Of each dtype, with what it has beyond numbers.
Tensor elements(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
    if (!is_floating(dtype)) return random_tensor(shape, dtype, seed);
    Tensor all = uniform(shape, seed, -9, 9, DType::Float64);
    const double odd[] = {INFINITY, -INFINITY, NAN, -0.0, 1e-40, 6e4};
    const std::int64_t count = element_count(shape);
    for (std::int64_t n = 0; n < std::min<std::int64_t>(6, count); ++n) {
        all.data<double>()[n * 31 % count] = odd[n];
    }
    return all.to(dtype);
}

std::string custom(const std::string& operands, const std::string& body) {
    return "compute(" + operands + ") {\n@kernel custom\n" + body + "\n}";
}

const std::string kCopy = custom("x", "for i in 0..n: out[i] = x[i]");

std::string chosen(const Case& c, Numerics numerics = Numerics::Strict) {
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), numerics);
    return to_string(prepared, choose(prepared, c.facts(), numerics, vulkan::kGroups));
}

/// The accesses of packets in the code that the default schedule gives.
int packets_in(const Case& c, Numerics numerics = Numerics::Strict) {
    int count = 0;
    const Plan made = plan(c.kernel(), c.facts(), numerics, vulkan::kGroups);
    for (const Stage& stage : made.stages) {
        count += int(std::ranges::count_if(stage.function.insts, [](const lir::Inst& i) {
            return lir::class_of(i.op) == lir::OpClass::Memory && i.type.packet > 1;
        }));
    }
    return count;
}

/// The interpreter's bits, with numbers of 64 bits and without; sums in any order are exact.
void expect_right(const Case& c, Numerics numerics = Numerics::Strict) {
    const std::optional<Tensor> expected = c.interpreted();
    ASSERT_TRUE(expected);
    for (const auto& [has_int64, is_small] :
         {std::pair{true, false}, {true, true}, {false, false}}) {
        Target target = vulkan::kGroups;
        target.native.int64 = has_int64;
        target.is_small = is_small;
        const cpu_test::LanesRun run = cpu_test::run_on_lanes(c, numerics, target);
        EXPECT_EQ(run.mistake, "");
        ASSERT_TRUE(run.result);
        EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected)) << to_string(*run.result);
    }
}

TEST(Packets, AreSixteenBytesOfALane) {
    for (const auto& [dtype, packet] : {std::pair{DType::Float32, "4"},
                                        {DType::Int32, "4"},
                                        {DType::UInt32, "4"},
                                        {DType::Float16, "8"},
                                        {DType::BFloat16, "8"},
                                        {DType::Int16, "8"},
                                        {DType::Int8, "8"},
                                        {DType::UInt8, "8"},
                                        {DType::Bool, "8"}}) {
        const Case c(kCopy, {elements({1000}, dtype)});
        EXPECT_EQ(chosen(c), std::string("i: vector 16, grid, packet ") + packet)
            << to_string(dtype);
        EXPECT_EQ(packets_in(c), 2);
    }
    for (const DType dtype : {DType::Float64, DType::Int64, DType::UInt64}) {
        EXPECT_EQ(packets_in(Case(kCopy, {elements({1000}, dtype)})), 0) << to_string(dtype);
    }
    const std::string widened = custom("x, y", "for i in 0..n: out[i] = x[i] + y[i]");
    EXPECT_EQ(
        chosen(Case(widened, {elements({1000}, DType::Float16), elements({1000}, DType::Float32)})),
        "i: vector 16, grid, packet 4")
        << "as many elements of each";
}

TEST(Packets, AreForLoopsThatFillThem) {
    EXPECT_EQ(packets_in(Case(kCopy, {elements({60}, DType::Float32)})), 0);
    EXPECT_EQ(chosen(Case(example_text("01"), {elements({1000}, DType::Float32)})),
              "i: vector 16, grid, packet 4");
    const Case sums(example_text("07"), {elements({8, 640}, DType::Float32)});
    EXPECT_NE(chosen(sums).find("packet 4"), std::string::npos) << chosen(sums);
    EXPECT_EQ(chosen(sums, Numerics::Reproducible).find("packet"), std::string::npos)
        << "the tree has a lane for each sixteenth element";
    const Case product(example_text("09"), {elements({128, 128}, DType::Float32),
                                            elements({128, 128}, DType::Float32)});
    EXPECT_EQ(chosen(product).find("packet"), std::string::npos) << "lanes of rows";
    const Case gathered(custom("x", "for i in 0..n / 2: out[i] = x[2 * i] + x[2 * i + 1]"),
                        {elements({1000}, DType::Float32)});
    EXPECT_EQ(packets_in(gathered), 0) << "copies of what is no packet";
    const Case guarded(custom("x", "for i in 0..n:\n  if i > 0: out[i] = x[i]"),
                       {elements({1000}, DType::Float32)});
    EXPECT_EQ(packets_in(guarded), 0) << "not all lanes load";
}

TEST(Packets, AreWhereRowsAndOperandsBeginAtMultiples) {
    const std::string add = custom("x, y", "for i in 0..r, j in 0..c: out[i, j] = x[i, j] + y[j]");
    const auto made = [&](std::int64_t columns, std::int64_t from) {
        const Tensor x =
            elements({5, columns + from}, DType::Float32).slice(1, from, columns + from);
        return Case(add, {x, elements({columns}, DType::Float32, 2)});
    };
    EXPECT_EQ(packets_in(made(128, 0)), 3);
    EXPECT_EQ(packets_in(made(131, 0)), 0) << "rows end between";
    EXPECT_NE(chosen(made(130, 0)).find("packet 2"), std::string::npos) << "rows of 8 bytes";
    EXPECT_EQ(packets_in(made(128, 4)), 0) << "gaps of any size are between rows";
    const Tensor behind = elements({1004}, DType::Float32);
    EXPECT_EQ(packets_in(Case(kCopy, {behind.slice(0, 4, 1004)})), 2);
    EXPECT_EQ(packets_in(Case(kCopy, {behind.slice(0, 1, 1001)})), 0) << "begins between";
    // Two of eight bytes.
    EXPECT_EQ(chosen(Case(kCopy, {behind.slice(0, 2, 1002)})), "i: vector 16, grid, packet 2");
    const Case turned(kCopy, {sliced_from_larger(behind)});
    EXPECT_EQ(packets_in(turned), 0);
    const std::string shifted = custom("x: [n]", "for i in 0..n - 4: out[i] = x[i + 4]");
    EXPECT_EQ(packets_in(Case(shifted, {behind})), 2);
    const std::string next = custom("x: [n]", "for i in 0..n - 4: out[i] = x[i + 1]");
    EXPECT_EQ(packets_in(Case(next, {behind})), 0);
    const std::string rows =
        custom("x: [n]", "for i in 0..5, j in 0..100: out[i, j] = x[i * 4 + j]");
    EXPECT_NE(chosen(Case(rows, {behind})).find("packet 4"), std::string::npos);
    const std::string odd =
        custom("x: [n]", "for i in 0..5, j in 0..100: out[i, j] = x[i * 3 + j]");
    EXPECT_EQ(packets_in(Case(odd, {behind})), 0);
    const std::string halves = custom("x: [2 * n]", "for i in 0..n: out[i] = x[n + i]");
    EXPECT_EQ(packets_in(Case(halves, {elements({1008}, DType::Float32)})), 2);
    EXPECT_EQ(packets_in(Case(halves, {elements({1006}, DType::Float32)})), 0);
    const Case diagonal(custom("x", "for i in 0..n: out[i] = x[i, i]"),
                        {elements({128, 128}, DType::Float32)});
    EXPECT_EQ(packets_in(diagonal), 0);
    expect_right(diagonal);
    const std::string seconds = custom("x", "for i in 0..n step 2: out[i] = x[i]");
    EXPECT_EQ(chosen(Case(seconds, {behind})).find("packet"), std::string::npos);
    const std::string late = custom("x", "for i in 1..n: out[i] = x[i]");
    EXPECT_EQ(chosen(Case(late, {behind})), "i: vector 16, grid") << "begins at no multiple";
}

TEST(Packets, GiveTheInterpretersBitsForEveryDtypeAndSize) {
    for (const DType dtype :
         {DType::Bool, DType::Int8, DType::UInt8, DType::Int16, DType::UInt16, DType::Int32,
          DType::UInt32, DType::Float16, DType::BFloat16, DType::Float32}) {
        for (const std::int64_t size : {128, 131, 255, 256, 300, 1024}) {
            SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::to_string(size));
            const Tensor x = elements({size}, dtype), y = elements({size}, dtype, 2);
            const Case copy(kCopy, {x});
            EXPECT_EQ(packets_in(copy), 2);
            expect_right(copy);
            expect_right(Case(
                custom("x, y", "for i in 0..n: out[i] = select(x[i] < y[i], x[i], y[i])"), {x, y}));
            expect_right(
                Case(custom("x, y", "for i in 0..n: out[i] = select(x[i] == y[i], 1, 2)"), {x, y}));
        }
        const Tensor rows = elements({6, 256}, dtype);
        expect_right(Case(custom("x", "for i in 0..r, j in 0..c: out[i, j] = x[i, j]"), {rows}));
        expect_right(Case(custom("x", "for j in 0..c, i in 0..r: out[j, i] = x[i, j]"), {rows}));
        expect_right(Case(custom("x", "for i in 0..r, j in 0..c: out[i, j] = x[i, j]"),
                          {sliced_from_larger(rows)}));
    }
}

TEST(Packets, AddUpAndRoundAsEachOfTheirNumbers) {
    for (const DType dtype : {DType::Float32, DType::Float16, DType::Int8, DType::Int32}) {
        for (const std::int64_t columns : {128, 640, 1000, 9000}) {
            SCOPED_TRACE(std::string(to_string(dtype)) + " " + std::to_string(columns));
            const Tensor x = uniform({5, columns}, 3, -4, 4).to(DType::Int32).to(dtype);
            const Case sums(custom("x",
                                   "for i in 0..r:\n  var s = 0.0\n  var m = x[i, 0]\n"
                                   "  for j in 0..c:\n    s += x[i, j]\n    m = max(m, x[i, j])\n"
                                   "  out[i] = s + m"),
                            {x});
            if (columns % 8 == 0) {
                EXPECT_GT(packets_in(sums), 0);
            }
            expect_right(sums);
        }
    }
    // Each step is rounded, in lanes as elsewhere.
    const Case gelu(example_text("17"), {elements({3, 500}, DType::Float32)});
    EXPECT_GT(packets_in(gelu, Numerics::Reproducible), 0);
    expect_right(gelu, Numerics::Reproducible);
}

/// By the default schedule without packets, and four copies of each loop in lanes.
Plan with_copies(const Case& c, Level level) {
    Target plain = vulkan::kGroups;
    plain.has_packets = false;
    ir::Kernel prepared = prepare(c.kernel(), c.facts(), Numerics::Strict);
    Tiling tiling = choose(prepared, c.facts(), Numerics::Strict, plain);
    const std::vector<Split> chosen = tiling.splits;
    for (const Split& split : chosen) {
        if (split.level == Level::Vector) tiling.splits.push_back({split.loop, level, 4});
    }
    EXPECT_EQ(legal(prepared, vulkan::kGroups, tiling), "");
    return lower(std::move(prepared), c.facts(), vulkan::kGroups, tiling);
}

std::ptrdiff_t barriers_in(const Plan& plan) {
    std::ptrdiff_t count = 0;
    for (const lir::Function& function : cpu_test::functions_of(plan)) {
        count += std::ranges::count(function.insts, lir::Op::Barrier, &lir::Inst::op);
    }
    return count;
}

/// A lane loads for its own store, which others need not wait for.
TEST(Packets, OfWhatPointsReadAndWriteAgainAreEachLanes) {
    const Case c(custom("x",
                        "for i in 0..r:\n  for j in 0..c: out[i, j] = x[i, j]\n"
                        "  for j in 0..c: out[i, j] = out[i, j] * 2\n"
                        "  for j in 0..c: out[i, j] = out[i, j] + out[i, c - 1 - j]"),
                 {elements({3, 256}, DType::Int32)});
    EXPECT_EQ(packets_in(c), 0) << "marks of what is written are beside it";
    expect_right(c);
    const Plan packets = with_copies(c, Level::Packet), copies = with_copies(c, Level::Unroll);
    EXPECT_EQ(barriers_in(packets), barriers_in(copies));
    const auto run = cpu_test::run_on_lanes(c, packets, cpu_test::functions_of(packets));
    EXPECT_EQ(run.mistake, "");
    ASSERT_TRUE(run.result);
    EXPECT_TRUE(cpu_test::same_numbers(*run.result, *c.interpreted()));
}

TEST(Packets, OfRandomLegalTilingsGiveTheInterpretersNumbers) {
    const auto integers = [](const Shape& shape, std::uint64_t seed, DType dtype) {
        return uniform(shape, seed, -4, 4).to(DType::Int32).to(dtype);
    };
    const Case cases[] = {
        Case(custom("x, y", "for i in 0..r, j in 0..c: out[i, j] = x[i, j] + y[j]"),
             {integers({7, 264}, 1, DType::Float16), integers({264}, 2, DType::Float32)}),
        Case(custom("x, y",
                    "for i in 0..r:\n  var s = 0.0\n"
                    "  for j in 0..c: s += x[i, j] * y[j]\n  out[i] = s"),
             {integers({7, 1000}, 1, DType::Float32), integers({1000}, 2, DType::Float32)}),
        Case(custom("x, y",
                    "for i in 0..r, j in 0..c:\n  var s = 0.0\n"
                    "  for k in 0..r: s += x[k, j] * y[k]\n  out[i, j] = s + y[i]"),
             {integers({7, 264}, 1, DType::Float32), integers({7}, 2, DType::Float32)}),
        Case(custom("x, y", "for i in 0..r, j in 0..c:\n  if y[j] > 0.0: out[i, j] = x[i, j]"),
             {integers({7, 264}, 1, DType::Float32), integers({264}, 2, DType::Float32)}),
    };
    std::mt19937 engine(3);
    int packets = 0;
    for (const Case& c : cases) {
        const std::optional<Tensor> expected = c.interpreted();
        ASSERT_TRUE(expected);
        const ir::Facts facts = c.facts();
        for (int n = 0; n < 100; ++n) {
            ir::Kernel prepared = prepare(c.kernel(), facts, Numerics::Strict);
            const Tiling tiling =
                cpu_test::random_tiling(prepared, vulkan::kGroups, Numerics::Strict, engine);
            SCOPED_TRACE(to_string(prepared, tiling));
            const Plan made = lower(std::move(prepared), facts, vulkan::kGroups, tiling);
            const auto is_packet = [](const lir::Inst& i) { return i.type.packet > 1; };
            packets += std::ranges::any_of(made.stages, [&](const Stage& stage) {
                return std::ranges::any_of(stage.function.insts, is_packet);
            });
            const auto run = cpu_test::run_on_lanes(c, made, cpu_test::functions_of(made));
            EXPECT_EQ(run.mistake, "");
            ASSERT_TRUE(run.result);
            EXPECT_TRUE(cpu_test::same_numbers(*run.result, *expected));
        }
    }
    EXPECT_GT(packets, 20);
}

/// Facts that do not hold are seen by who runs the code.
TEST(Packets, AtNoMultipleOfTheirBytesAreAMistake) {
    const Tensor all = elements({1004}, DType::Float32);
    const Case aligned(kCopy, {all.slice(0, 0, 1000)}), between(kCopy, {all.slice(0, 1, 1001)});
    const Plan made = plan(between.kernel(), aligned.facts(), Numerics::Strict, vulkan::kGroups);
    const auto run = cpu_test::run_on_lanes(between, made, cpu_test::functions_of(made));
    EXPECT_NE(run.mistake.find("a packet of 16 bytes that is at no multiple of them"),
              std::string::npos)
        << run.mistake;
}

TEST(Packets, ThatLanesDoNotHaveAreNotLegal) {
    const Case c(kCopy, {elements({1000}, DType::Float32)});
    const auto why = [&](const std::vector<std::pair<Level, int>>& splits,
                         Target target = vulkan::kGroups, Numerics numerics = Numerics::Strict,
                         const Case& of = Case(kCopy, {elements({1000}, DType::Float32)}),
                         const char* name = "i") {
        ir::Kernel prepared = prepare(of.kernel(), of.facts(), numerics);
        Tiling tiling;
        tiling.numerics = numerics;
        for (std::size_t s = 0; s < prepared.symbols.size(); ++s) {
            if (prepared.symbols[s].name != name) continue;
            for (const auto& [level, factor] : splits) {
                tiling.splits.push_back({ir::SymbolId(s), level, std::uint16_t(factor)});
            }
            break;
        }
        return legal(prepared, target, tiling);
    };
    EXPECT_EQ(why({{Level::Vector, 16}, {Level::Packet, 4}}), "");
    EXPECT_EQ(why({{Level::Vector, 16}, {Level::Packet, 3}}),
              "i: packets are a power of two, at most 8");
    EXPECT_EQ(why({{Level::Vector, 16}, {Level::Packet, 16}}),
              "i: packets are a power of two, at most 8");
    EXPECT_EQ(why({{Level::Packet, 4}}), "i: packets of what are no lanes");
    EXPECT_EQ(why({{Level::Vector, 16}, {Level::Packet, 4}, {Level::Unroll, 2}}),
              "i: packets are its copies");
    Target plain = vulkan::kGroups;
    plain.has_packets = false;
    EXPECT_EQ(why({{Level::Vector, 16}, {Level::Packet, 4}}, plain),
              "i: the processor has no packets");
    const Case sum(custom("x", "var s = 0.0\nfor i in 0..n: s += x[i]\nout = s"),
                   {elements({1000}, DType::Float32)});
    EXPECT_EQ(why({{Level::Vector, 16}, {Level::Packet, 4}}, vulkan::kGroups,
                  Numerics::Reproducible, sum),
              "i: copies add up in another order");
}

}  // namespace packets_test
}  // namespace quern::schedule

#include "quern/lir/lir.h"

#include <gtest/gtest.h>

#include "quern/lir/builder.h"

namespace quern::lir {
namespace {

/// for i from grid_begin to grid_end by 16: y[i] = x[i] + x[i]
Builder doubling() {
    Builder b("doubling");
    const BufferId x = b.buffer("x", DType::Float32, Space::Global, false);
    const BufferId y = b.buffer("y", DType::Float32, Space::Global, true);
    const ValueId begin = b.parameter({ParameterKind::GridBegin, 0, 0});
    const ValueId end = b.parameter({ParameterKind::GridEnd, 0, 0});
    const ValueId i = b.begin_for(begin, end, 16);
    const ValueId value = b.load(x, i, 16);
    b.store(y, i, b.add(value, value));
    b.end_for();
    return b;
}

TEST(Lir, PrintsOneInstructionALine) {
    EXPECT_EQ(print(doubling().take()), R"(function doubling {
    buffer @0 x: float32 global
    buffer @1 y: float32 global written
    %0 = parameter int64 grid_begin 0 0
    %1 = parameter int64 grid_end 0 0
    %2 = for int64 %0 %1 step 16 {
        %3 = load float32x16 @0 %2
        %4 = add float32x16 %3 %3
        %5 = store float32x16 @1 %2 %4
    }
}
)");
}

TEST(Lir, AValidFunctionHasNoViolations) {
    EXPECT_EQ(verify(doubling().take()), std::vector<std::string>());
}

TEST(Lir, SequencesAlikeTakeTurns) {
    Builder b("f");
    const ValueId x = b.parameter({ParameterKind::Dim, 0, 0});
    const std::size_t first = b.position();
    for (const int copy : {1, 2, 3}) b.mul(b.add(x, b.integer(copy)), x);
    b.interleave(first, 3);
    EXPECT_EQ(print(b.take()), R"(function f {
    %0 = parameter int64 dim 0 0
    %1 = constant int64 1
    %4 = constant int64 2
    %7 = constant int64 3
    %2 = add int64 %0 %1
    %5 = add int64 %0 %4
    %8 = add int64 %0 %7
    %3 = mul int64 %2 %0
    %6 = mul int64 %5 %0
    %9 = mul int64 %8 %0
}
)");
}

TEST(Lir, OnlyStoresOfAllLanesAreStreamed) {
    Function f = doubling().take();
    f.insts[5].is_streamed = true;
    EXPECT_TRUE(verify(f).empty());
    EXPECT_NE(print(f).find("%5 = store streamed float32x16 @1 %2 %4"), std::string::npos);
    f.insts[5].is_streamed = false;
    f.insts[3].is_streamed = true;
    ASSERT_EQ(verify(f).size(), 1u);
    EXPECT_NE(verify(f)[0].find("a store of all lanes"), std::string::npos);
}

TEST(Lir, AValueOfABlockIsNotSeenAfterIt) {
    Builder b("f");
    const ValueId i = b.begin_for(b.integer(0), b.integer(4), 1);
    const ValueId inside = b.add(i, b.parameter({ParameterKind::Dim, 0, 0}));
    b.end_for();
    b.reg(inside);
    const auto violations = verify(b.take());
    ASSERT_EQ(violations.size(), 1u);
    EXPECT_NE(violations[0].find("not defined here"), std::string::npos) << violations[0];
}

TEST(Lir, ABarrierOrdersSomeMemoryOfAGroupOrOfTheSubgroupThatItIs) {
    const auto of = [](Scope scope, Spaces spaces, std::uint32_t subgroup) {
        Builder b("f");
        b.copy({.op = Op::Barrier, .scope = scope, .spaces = spaces, .type = {DType::Bool, 1}});
        Function f = b.take();
        f.lanes = 16;
        f.subgroup = subgroup;
        return f;
    };
    EXPECT_TRUE(verify(of(Scope::Group, Spaces::Group, 4)).empty());
    EXPECT_TRUE(verify(of(Scope::Subgroup, Spaces::All, 16)).empty());
    ASSERT_EQ(verify(of(Scope::Group, Spaces::None, 4)).size(), 1u);
    EXPECT_NE(verify(of(Scope::Group, Spaces::None, 4))[0].find("memory that it orders"),
              std::string::npos);
    ASSERT_EQ(verify(of(Scope::Subgroup, Spaces::Group, 4)).size(), 1u);
    EXPECT_NE(verify(of(Scope::Subgroup, Spaces::Group, 4))[0].find("a group that is one subgroup"),
              std::string::npos);
    EXPECT_NE(print(of(Scope::Subgroup, Spaces::All, 16))
                  .find("barrier subgroup group memory device memory"),
              std::string::npos);
}

TEST(Lir, MixedTypesAndStoresToReadOnlyBuffersAreFound) {
    Function f = doubling().take();
    f.insts[4].type.dtype = DType::Int32;
    EXPECT_FALSE(verify(f).empty());
    f = doubling().take();
    f.buffers[1].is_written = false;
    ASSERT_EQ(verify(f).size(), 1u);
    EXPECT_NE(verify(f)[0].find("a buffer that is written"), std::string::npos);
    f = doubling().take();
    f.insts[5].buffer = 7;
    EXPECT_FALSE(verify(f).empty());
    f = doubling().take();
    f.insts[2].bits = 0;
    EXPECT_FALSE(verify(f).empty());
}

/// y[4 l ...] = x[4 l ...] reversed, for 16 lanes l.
Function reversed(Type type = {DType::Float32, 16, Part::None, 4}) {
    Builder b("reversed");
    const BufferId x = b.buffer("x", type.dtype, Space::Global, false);
    const BufferId y = b.buffer("y", type.dtype, Space::Global, true);
    const ValueId packet = b.load_packets(x, b.integer(0), type.lanes, type.packet);
    std::vector<ValueId> parts;
    for (int n = type.packet; n-- > 0;) parts.push_back(b.element(packet, std::uint64_t(n)));
    for (; parts.size() > 1; parts.resize(parts.size() / 2)) {
        for (std::size_t n = 0; n < parts.size(); n += 2) {
            parts[n / 2] = b.join(parts[n], parts[n + 1]);
        }
    }
    b.store(y, b.integer(0), parts[0]);
    return b.take();
}

TEST(Lir, PacketsAreNumbersOfALaneSideBySide) {
    EXPECT_EQ(verify(reversed()), std::vector<std::string>());
    EXPECT_EQ(print(reversed({DType::Float16, 16, Part::None, 2})), R"(function reversed {
    buffer @0 x: float16 global
    buffer @1 y: float16 global written
    %0 = constant int64 0
    %1 = load float16x16 packet 2 @0 %0
    %2 = element float16x16 %1 [1]
    %3 = element float16x16 %1 [0]
    %4 = join float16x16 packet 2 %2 %3
    %5 = constant int64 0
    %6 = store float16x16 packet 2 @1 %5 %4
}
)");
    for (const auto& [dtype, packet] : {std::pair{DType::Float32, std::uint8_t{8}},
                                        {DType::Int8, std::uint8_t{2}},
                                        {DType::Float64, std::uint8_t{2}}}) {
        EXPECT_FALSE(verify(reversed({dtype, 16, Part::None, packet})).empty())
            << to_string(dtype) << " " << int(packet);
    }
}

TEST(Lir, NothingComputesWithPacketsOrLeavesSomeOut) {
    constexpr Type kPacket{DType::Float32, 16, Part::None, 4};
    const auto broken = [&](const auto& change) {
        Builder b("f");
        const BufferId x = b.buffer("x", DType::Float32, Space::Global, true);
        const BufferId t = b.buffer("t", DType::Float32, Space::Lane, true);
        const ValueId packet = b.load_packets(x, b.integer(0), 16, 4);
        change(b, packet, x, t);
        return !verify(b.take()).empty();
    };
    EXPECT_FALSE(
        broken([](Builder& b, ValueId p, BufferId x, BufferId) { b.store(x, b.integer(64), p); }));
    EXPECT_TRUE(broken([](Builder& b, ValueId p, BufferId, BufferId) { b.add(p, p); }));
    EXPECT_TRUE(broken([](Builder& b, ValueId p, BufferId, BufferId) { b.reg(p); }));
    EXPECT_TRUE(broken([](Builder& b, ValueId p, BufferId, BufferId) { b.element(p, 4); }));
    EXPECT_TRUE(
        broken([](Builder& b, ValueId p, BufferId, BufferId) { b.join(p, b.element(p, 0)); }));
    EXPECT_TRUE(broken([](Builder& b, ValueId p, BufferId x, BufferId) {
        b.store(x, b.integer(64), p, b.splat(b.boolean(true), 16));
    }));
    EXPECT_TRUE(broken([&](Builder& b, ValueId, BufferId, BufferId t) {
        b.copy({.op = Op::Load, .type = kPacket, .buffer = t, .a = b.integer(0)});
    })) << "an array may begin anywhere";
}

TEST(Lir, BuilderFoldsSumsAndProductsOfConstants) {
    Builder b("f");
    EXPECT_EQ(b.constant_of(b.add(b.integer(3), b.integer(4))), 7);
    EXPECT_EQ(b.constant_of(b.mul(b.integer(3), b.integer(4))), 12);
    const ValueId n = b.parameter({ParameterKind::Dim, 0, 0});
    EXPECT_EQ(b.mul(n, b.integer(1)), n);
    EXPECT_EQ(b.add(b.integer(0), n), n);
    EXPECT_EQ(b.constant_of(n), std::nullopt);
}

}  // namespace
}  // namespace quern::lir

#include "quern/lir/without_int64.h"

#include <gtest/gtest.h>

#include "quern/lir/builder.h"

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

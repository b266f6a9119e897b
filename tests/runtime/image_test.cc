#include "quern/runtime/image.h"

#include <gtest/gtest.h>

#include "quern/error.h"

// An image is read from files: nothing in its bytes may be believed.

namespace quern {
namespace {

KernelImage example() {
    KernelImage image;
    image.schedule = "i: grid, vector 16";
    const ir::ExprId rows = image.numbers.dim(0);
    const ir::ExprId columns = image.numbers.extent(0, 1);
    const ir::ExprId area = image.numbers.binary(ir::BinaryOp::Mul, rows, columns);
    image.operand_count = 2;
    image.buffer_count = 5;
    image.stages.push_back({"stage0",
                            {{lir::ParameterKind::Dim, 0, 0}, {lir::ParameterKind::Stride, 1, 1}},
                            {{rows, 16}, {columns, 1}},
                            area});
    image.stages.push_back({"stage1", {}, {}, rows});
    image.shared.push_back({3, {DType::Float64, {area}}});
    image.local.push_back({DType::Int8, {columns, rows}});
    image.object = {std::byte{1}, std::byte{2}, std::byte{3}};
    return image;
}

TEST(Image, ComesBackFromItsBytes) {
    const KernelImage image = example();
    const auto bytes = to_bytes(image);
    const KernelImage read = image_from(bytes);
    EXPECT_EQ(read.schedule, image.schedule);
    EXPECT_EQ(read.numbers.exprs.size(), image.numbers.exprs.size());
    ASSERT_EQ(read.stages.size(), 2u);
    EXPECT_EQ(read.stages[0].function, "stage0");
    EXPECT_EQ(read.stages[0].parameters, image.stages[0].parameters);
    EXPECT_EQ(read.stages[0].grid[0].multiple, 16);
    EXPECT_EQ(read.stages[0].iterations, image.stages[0].iterations);
    EXPECT_EQ(read.stages[1].iterations, image.stages[1].iterations);
    ASSERT_EQ(read.shared.size(), 1u);
    EXPECT_EQ(read.shared[0].buffer, 3u);
    EXPECT_EQ(read.shared[0].array.shape, image.shared[0].array.shape);
    EXPECT_EQ(read.local[0].shape.size(), 2u);
    EXPECT_EQ(read.object, image.object);
    EXPECT_EQ(to_bytes(read), bytes);
}

TEST(Image, IsRefusedWhereItIsCutOff) {
    const auto bytes = to_bytes(example());
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_THROW(image_from(std::span(bytes).first(size)), DeviceError) << size;
    }
}

TEST(Image, IsRefusedWithMoreBehindIt) {
    auto bytes = to_bytes(example());
    bytes.push_back(std::byte{0});
    EXPECT_THROW(image_from(bytes), DeviceError);
}

TEST(Image, WithAnyByteChangedIsRefusedOrHoldsNumbersThatFitEachOther) {
    const auto bytes = to_bytes(example());
    int refused = 0;
    for (std::size_t at = 0; at < bytes.size(); ++at) {
        for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
            auto changed = bytes;
            changed[at] = std::byte(value);
            try {
                EXPECT_EQ(to_bytes(image_from(changed)), changed);
            } catch (const DeviceError&) {
                ++refused;
            }
        }
    }
    EXPECT_GT(refused, 100);
}

TEST(Image, IsRefusedIfAnExpressionComesBeforeItsOperands) {
    KernelImage image = example();
    image.numbers.exprs.back().a = std::uint32_t(image.numbers.exprs.size()) - 1;
    EXPECT_THROW(image_from(to_bytes(image)), DeviceError);
}

TEST(Image, IsRefusedIfAScalarIsRoundedToNoFloat) {
    KernelImage image = example();
    const auto with = [&](DType dtype) {
        image.stages[0].parameters = {
            {lir::ParameterKind::ScalarAs, 0, static_cast<std::uint32_t>(dtype)}};
        return to_bytes(image);
    };
    EXPECT_NO_THROW(image_from(with(DType::Float16)));
    for (const DType dtype : {DType::Int32, DType::Float64, DType(200)}) {
        EXPECT_THROW(image_from(with(dtype)), DeviceError) << int(dtype);
    }
}

TEST(Image, IsRefusedIfAnArrayIsABufferThatIsNotThere) {
    KernelImage image = example();
    image.shared[0].buffer = image.buffer_count;
    EXPECT_THROW(image_from(to_bytes(image)), DeviceError);
}

}  // namespace
}  // namespace quern

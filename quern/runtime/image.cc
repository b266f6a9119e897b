#include "quern/runtime/image.h"

#include "quern/error.h"
#include "quern/ir/doubles.h"
#include "quern/runtime/bytes.h"
#include "quern/support/check.h"

namespace quern {
namespace {

constexpr std::uint32_t kImageMagic = 0x6a4b5551;  // "QUKj"

using ir::ExprId;
using ir::ExprKind;

constexpr const char* kSubject = "[image] expected a compiled kernel, got ";

using Writer = ByteWriter;
using ImageReader = ByteReader<DeviceError>;

/// Which of a, b and c name operands.
int operands_of(const ir::Expr& e) {
    switch (e.kind) {
        case ExprKind::Select:
            return 3;
        case ExprKind::Binary:
            return 2;
        case ExprKind::Unary:
        case ExprKind::Cast:
            return 1;
        default:
            return 0;
    }
}

void write(Writer& out, const ir::Expr& e) {
    out.number(e.kind);
    out.number(e.op);
    out.number(e.dtype);
    out.number(e.a);
    out.number(e.b);
    out.number(e.c);
}

ir::Expr read_expr(ImageReader& in, std::size_t index) {
    ir::Expr e;
    e.kind = in.below<ExprKind>(std::uint64_t(ExprKind::Cast) + 1);
    e.op = in.number<std::uint8_t>();
    e.dtype = in.below<DType>(kDTypeCount);
    e.a = in.number<std::uint32_t>();
    e.b = in.number<std::uint32_t>();
    e.c = in.number<std::uint32_t>();
    if (e.kind == ExprKind::Load) in.refuse("a number that is read from memory");
    const int operands = operands_of(e);
    const std::uint32_t ids[] = {e.a, e.b, e.c};
    for (int i = 0; i < operands; ++i) {
        if (ids[i] >= index) in.refuse("an expression before its operands");
    }
    return e;
}

void write(Writer& out, const KernelImage::Array& array) {
    out.number(array.dtype);
    out.list(array.shape, [&](ExprId id) { out.number(id); });
}

KernelImage::Array read_array(ImageReader& in, const KernelImage& image) {
    KernelImage::Array array;
    array.dtype = in.below<DType>(kDTypeCount);
    in.list(4, [&] { array.shape.push_back(in.below<ExprId>(image.numbers.exprs.size())); });
    return array;
}

KernelImage::Stage read_stage(ImageReader& in, const KernelImage& image) {
    KernelImage::Stage stage;
    stage.function = in.text();
    in.list(9, [&] {
        lir::Parameter& p = stage.parameters.emplace_back();
        p.kind = in.below<lir::ParameterKind>(std::uint64_t(lir::ParameterKind::GridEnd) + 1);
        p.a = in.number<std::uint32_t>();
        p.b = in.number<std::uint32_t>();
        const bool is_rounded = p.kind == lir::ParameterKind::ScalarAs;
        if (is_rounded && !ir::is_rounded_to(DType(p.b))) in.refuse("a scalar of no float");
    });
    in.list(12, [&] {
        KernelImage::Axis& axis = stage.grid.emplace_back();
        axis.trips = in.below<ExprId>(image.numbers.exprs.size());
        axis.multiple = in.number<std::int64_t>();
        if (axis.multiple < 1 || axis.multiple > 65536) in.refuse("a block that no schedule has");
    });
    stage.iterations = in.below<ExprId>(image.numbers.exprs.size());
    return stage;
}

}  // namespace

std::vector<std::byte> to_bytes(const KernelImage& image) {
    Writer out;
    out.number(kImageMagic);
    out.bytes(image.schedule);
    out.list(image.numbers.exprs, [&](const ir::Expr& e) { write(out, e); });
    out.number(image.buffer_count);
    out.number(image.operand_count);
    out.list(image.stages, [&](const KernelImage::Stage& stage) {
        out.bytes(stage.function);
        out.list(stage.parameters, [&](const lir::Parameter& p) {
            out.number(p.kind);
            out.number(p.a);
            out.number(p.b);
        });
        out.list(stage.grid, [&](const KernelImage::Axis& axis) {
            out.number(axis.trips);
            out.number(axis.multiple);
        });
        out.number(stage.iterations);
    });
    out.list(image.shared, [&](const KernelImage::Shared& shared) {
        out.number(shared.buffer);
        write(out, shared.array);
    });
    out.list(image.local, [&](const KernelImage::Array& array) { write(out, array); });
    out.bytes(image.object);
    return out.take();
}

KernelImage image_from(std::span<const std::byte> bytes) {
    ImageReader in(bytes, kSubject);
    KernelImage image;
    if (in.number<std::uint32_t>() != kImageMagic) in.refuse("something else");
    image.schedule = in.text();
    in.list(15, [&] { image.numbers.exprs.push_back(read_expr(in, image.numbers.exprs.size())); });
    image.buffer_count = in.number<std::uint32_t>();
    image.operand_count = in.number<std::uint32_t>();
    // Each takes an address at a launch; no kernel has as many.
    constexpr std::uint32_t kMostBuffers = 1 << 16;
    if (image.buffer_count > kMostBuffers || image.operand_count >= image.buffer_count) {
        in.refuse("a number of buffers that no kernel has");
    }
    in.list(16, [&] { image.stages.push_back(read_stage(in, image)); });
    in.list(9, [&] {
        const auto buffer = in.below<lir::BufferId>(image.buffer_count);
        image.shared.push_back({buffer, read_array(in, image)});
    });
    in.list(5, [&] { image.local.push_back(read_array(in, image)); });
    const auto object = in.bytes();
    image.object.assign(object.begin(), object.end());
    if (!in.is_at_end()) in.refuse("one with more behind it");
    return image;
}

}  // namespace quern

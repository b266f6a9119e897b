#include "quern/runtime/image.h"

#include <cstring>
#include <type_traits>

#include "quern/error.h"
#include "quern/support/check.h"

namespace quern {
namespace {

constexpr std::uint32_t kMagic = 0x694b5551;  // "QUKi"

using ir::ExprId;
using ir::ExprKind;

class Writer {
public:
    template <class T>
    void number(T value) {
        static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
        auto bits = static_cast<std::uint64_t>(value);
        for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) {
            bytes_.push_back(std::byte(bits & 0xFF));
        }
    }

    template <class List>
    void bytes(const List& list) {
        number(std::uint32_t(list.size()));
        for (const auto& each : list) number(static_cast<std::uint8_t>(each));
    }

    template <class List, class F>
    void list(const List& list, F write) {
        number(std::uint32_t(list.size()));
        for (const auto& each : list) write(each);
    }

    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

[[noreturn]] void refuse(const char* what) {
    raise(DeviceError(std::string("[image] expected a compiled kernel, got ") + what));
}

/// Reads numbers of which each may be wrong.
class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T>
    T number() {
        if (rest_.size() < sizeof(T)) refuse("one that is cut off");
        std::uint64_t bits = 0;
        for (std::size_t i = sizeof(T); i-- > 0;) {
            bits = bits << 8 | std::to_integer<std::uint64_t>(rest_[i]);
        }
        rest_ = rest_.subspan(sizeof(T));
        return static_cast<T>(bits);
    }

    /// A number of an enumeration or a table with `count` entries.
    template <class T>
    T below(std::uint64_t count) {
        const auto value = number<T>();
        if (static_cast<std::uint64_t>(value) >= count) refuse("a number that is too large");
        return value;
    }

    std::span<const std::byte> bytes() {
        const auto size = number<std::uint32_t>();
        if (size > rest_.size()) refuse("one that is cut off");
        const auto taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }

    std::string text() {
        const auto taken = bytes();
        return {reinterpret_cast<const char*>(taken.data()), taken.size()};
    }

    /// Calls `read` for each entry of a list whose entries take at least `least` bytes.
    template <class F>
    void list(std::size_t least, F read) {
        const auto count = number<std::uint32_t>();
        if (count > rest_.size() / least) refuse("a list that leaves it");
        for (std::uint32_t i = 0; i < count; ++i) read();
    }

    bool is_at_end() const { return rest_.empty(); }

private:
    std::span<const std::byte> rest_;
};

constexpr std::uint64_t kDTypes = std::uint64_t(DType::Float8E5M2) + 1;

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

ir::Expr read_expr(Reader& in, std::size_t index) {
    ir::Expr e;
    e.kind = in.below<ExprKind>(std::uint64_t(ExprKind::Cast) + 1);
    e.op = in.number<std::uint8_t>();
    e.dtype = in.below<DType>(kDTypes);
    e.a = in.number<std::uint32_t>();
    e.b = in.number<std::uint32_t>();
    e.c = in.number<std::uint32_t>();
    if (e.kind == ExprKind::Load) refuse("a number that is read from memory");
    const int operands = operands_of(e);
    const std::uint32_t ids[] = {e.a, e.b, e.c};
    for (int i = 0; i < operands; ++i) {
        if (ids[i] >= index) refuse("an expression before its operands");
    }
    return e;
}

void write(Writer& out, const KernelImage::Array& array) {
    out.number(array.dtype);
    out.list(array.shape, [&](ExprId id) { out.number(id); });
}

KernelImage::Array read_array(Reader& in, const KernelImage& image) {
    KernelImage::Array array;
    array.dtype = in.below<DType>(kDTypes);
    in.list(4, [&] { array.shape.push_back(in.below<ExprId>(image.numbers.exprs.size())); });
    return array;
}

KernelImage::Stage read_stage(Reader& in, const KernelImage& image) {
    KernelImage::Stage stage;
    stage.function = in.text();
    in.list(9, [&] {
        lir::Parameter& p = stage.parameters.emplace_back();
        p.kind = in.below<lir::ParameterKind>(std::uint64_t(lir::ParameterKind::GridEnd) + 1);
        p.a = in.number<std::uint32_t>();
        p.b = in.number<std::uint32_t>();
    });
    in.list(12, [&] {
        KernelImage::Axis& axis = stage.grid.emplace_back();
        axis.trips = in.below<ExprId>(image.numbers.exprs.size());
        axis.multiple = in.number<std::int64_t>();
        if (axis.multiple < 1 || axis.multiple > 65536) refuse("a block that no schedule has");
    });
    stage.loop_depth = in.number<std::uint8_t>();
    return stage;
}

}  // namespace

std::vector<std::byte> to_bytes(const KernelImage& image) {
    Writer out;
    out.number(kMagic);
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
        out.number(stage.loop_depth);
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
    Reader in(bytes);
    KernelImage image;
    if (in.number<std::uint32_t>() != kMagic) refuse("something else");
    image.schedule = in.text();
    in.list(15, [&] { image.numbers.exprs.push_back(read_expr(in, image.numbers.exprs.size())); });
    image.buffer_count = in.number<std::uint32_t>();
    image.operand_count = in.number<std::uint32_t>();
    // Each takes an address at a launch; no kernel has as many.
    constexpr std::uint32_t kMostBuffers = 1 << 16;
    if (image.buffer_count > kMostBuffers || image.operand_count >= image.buffer_count) {
        refuse("a number of buffers that no kernel has");
    }
    in.list(13, [&] { image.stages.push_back(read_stage(in, image)); });
    in.list(9, [&] {
        const auto buffer = in.below<lir::BufferId>(image.buffer_count);
        image.shared.push_back({buffer, read_array(in, image)});
    });
    in.list(5, [&] { image.local.push_back(read_array(in, image)); });
    const auto object = in.bytes();
    image.object.assign(object.begin(), object.end());
    if (!in.is_at_end()) refuse("one with more behind it");
    return image;
}

}  // namespace quern

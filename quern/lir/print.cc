#include <fmt/format.h>

#include <bit>

#include "quern/lir/lir.h"

namespace quern::lir {
namespace {

constexpr std::string_view kTexts[] = {
#define OP(name, text, kind) text,
#include "quern/lir/ops.def"
};

std::string to_string(Type type) {
    constexpr std::string_view parts[] = {"", " left", " right", " sum"};
    std::string text(quern::to_string(type.dtype));
    if (type.lanes > 1) text += fmt::format("x{}", type.lanes);
    if (type.packet > 1) text += fmt::format(" packet {}", type.packet);
    return text.append(parts[static_cast<int>(type.part)]);
}

std::string_view to_string(Space space) {
    constexpr std::string_view names[] = {"global", "group", "lane"};
    return names[static_cast<int>(space)];
}

std::string to_string(Parameter p) {
    constexpr std::string_view names[] = {"dim",       "extent", "stride",     "scalar",
                                          "scalar_as", "block",  "grid_begin", "grid_end"};
    return fmt::format("{} {} {}", names[static_cast<int>(p.kind)], p.a, p.b);
}

class Printer {
public:
    explicit Printer(const Function& function) : f_(function) {}

    std::string text() {
        out_ = fmt::format("function {}", f_.name);
        if (f_.lanes > 1) out_ += fmt::format(" of {} lanes", f_.lanes);
        if (f_.atom.rows > 0) {
            out_ += fmt::format(", matrices of {} x {} x {}", f_.atom.rows, f_.atom.columns,
                                f_.atom.depth);
        }
        out_ += " {\n";
        for (std::size_t i = 0; i < f_.buffers.size(); ++i) {
            const Buffer& b = f_.buffers[i];
            out_ += fmt::format("    buffer @{} {}: {} {}{}", i, b.name, quern::to_string(b.dtype),
                                to_string(b.space), b.is_written ? " written" : "");
            out_ += b.elements > 0 ? fmt::format(" [{}]\n", b.elements) : "\n";
        }
        block(0, 1);
        return out_ + "}\n";
    }

private:
    void block(BlockId id, int depth) {
        for (const ValueId inst : f_.blocks[id]) line(inst, depth);
    }

    void line(ValueId id, int depth) {
        const Inst& inst = f_[id];
        const std::string indent(std::size_t(depth) * 4, ' ');
        out_ += fmt::format("{}%{} = {}", indent, std::uint32_t(id), to_string(inst.op));
        if (inst.is_relaxed) out_ += " relaxed";
        if (inst.is_streamed) out_ += " streamed";
        if (inst.is_turned) out_ += " turned";
        if (inst.op == Op::Fold) out_ += fmt::format(" {}", to_string(inst.fold));
        if (inst.op == Op::Fold && inst.bits != 0) out_ += fmt::format(" rows {}", inst.bits);
        if (inst.op == Op::Barrier) out_ += ordered(inst);
        out_ += ' ' + to_string(inst.type);
        const bool is_access = class_of(inst.op) == OpClass::Memory;
        const bool is_matrix = inst.op == Op::MatrixLoad || inst.op == Op::MatrixStore;
        if (is_matrix || is_access) {
            out_ += fmt::format(" @{}", inst.buffer);
        }
        for (const ValueId operand : {inst.a, inst.b, inst.c}) {
            if (exists(operand)) out_ += fmt::format(" %{}", std::uint32_t(operand));
        }
        if (inst.op == Op::Constant) out_ += ' ' + constant(inst);
        const bool is_parameter = inst.op == Op::Parameter || inst.op == Op::ParameterHigh;
        if (is_parameter) out_ += ' ' + to_string(f_.parameters[inst.bits]);
        if (inst.op == Op::Shuffle) {
            out_ += fmt::format(" [{}]", fmt::join(f_.patterns[inst.bits], " "));
        }
        const bool may_be_in_range = inst.op == Op::Cast || inst.op == Op::Div;
        if (may_be_in_range && inst.bits == kInRange) out_ += " in range";
        if (inst.op == Op::Element) out_ += fmt::format(" [{}]", inst.bits);
        if (is_access && inst.bits != 0) out_ += fmt::format(" apart {}", inst.bits);
        if (is_matrix) out_ += fmt::format(" rows {}", inst.bits);
        if (inst.op == Op::For) out_ += fmt::format(" step {}", inst.bits);
        if (inst.is_apart) out_ += " apart";
        if (inst.body != kNoBlock) {
            out_ += " {\n";
            block(inst.body, depth + 1);
            out_ += indent + "}";
            if (inst.otherwise != kNoBlock) {
                out_ += " else {\n";
                block(inst.otherwise, depth + 1);
                out_ += indent + "}";
            }
        }
        out_ += '\n';
    }

    static std::string ordered(const Inst& barrier) {
        std::string text = barrier.scope == Scope::Subgroup ? " subgroup" : " group";
        if (has(barrier.spaces, Spaces::Group)) text += " group memory";
        if (has(barrier.spaces, Spaces::Device)) text += " device memory";
        return text;
    }

    static std::string constant(const Inst& inst) {
        switch (inst.type.dtype) {
            case DType::Float32:
                return fmt::format("{}", std::bit_cast<float>(std::uint32_t(inst.bits)));
            case DType::Float64:
                return fmt::format("{}", std::bit_cast<double>(inst.bits));
            default:
                return fmt::format("{}", std::int64_t(inst.bits));
        }
    }

    const Function& f_;
    std::string out_;
};

}  // namespace

std::string_view to_string(Op op) { return kTexts[static_cast<int>(op)]; }

std::string print(const Function& function) { return Printer(function).text(); }

}  // namespace quern::lir

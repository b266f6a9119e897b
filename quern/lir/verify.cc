#include <fmt/format.h>

#include <bit>

#include "quern/lir/lir.h"

namespace quern::lir {
namespace {

class Verifier {
public:
    explicit Verifier(const Function& function) : f_(function), defined_(f_.insts.size(), false) {}

    std::vector<std::string> run() {
        if (f_.blocks.empty()) return {"a function has a block"};
        block(0);
        return std::move(violations_);
    }

private:
    void fail(ValueId id, std::string_view problem) {
        violations_.push_back(
            fmt::format("%{} ({}): {}", std::uint32_t(id), lir::to_string(f_[id].op), problem));
    }

    void check(ValueId id, bool holds, std::string_view problem) {
        if (!holds) fail(id, problem);
    }

    /// Loops of a text and of operands' axes, each of which may be several here.
    static constexpr int kMaxDepth = 256;

    void block(BlockId id) {
        if (id >= f_.blocks.size() || depth_ > kMaxDepth) {
            violations_.push_back("a block that exists, not too deep");
            return;
        }
        ++depth_;
        for (const ValueId inst : f_.blocks[id]) {
            if (std::uint32_t(inst) >= f_.insts.size()) {
                violations_.push_back("an instruction that exists");
                continue;
            }
            if (defined_[std::uint32_t(inst)]) fail(inst, "stands in one place");
            visit(inst);
        }
        for (const ValueId inst : f_.blocks[id]) {
            if (std::uint32_t(inst) < f_.insts.size()) defined_[std::uint32_t(inst)] = false;
        }
        --depth_;
    }

    bool uses(ValueId id, ValueId operand, bool is_needed) {
        if (!exists(operand)) {
            check(id, !is_needed, "an operand is missing");
            return false;
        }
        const bool is_there =
            std::uint32_t(operand) < f_.insts.size() && defined_[std::uint32_t(operand)];
        if (!is_there) fail(id, fmt::format("%{} is not defined here", std::uint32_t(operand)));
        return is_there;
    }

    Type type(ValueId id) const { return f_[id].type; }
    static bool is_index(Type type) {
        return type.dtype == DType::Int64 || type.dtype == DType::Int32;
    }

    void visit(ValueId id) {
        const Inst& i = f_[id];
        const OpClass kind = class_of(i.op);
        const bool has_a = uses(id, i.a, kind != OpClass::Leaf && i.op != Op::Barrier);
        const bool needs_b =
            kind == OpClass::Binary || kind == OpClass::Compare || kind == OpClass::Ternary ||
            kind == OpClass::Select || i.op == Op::Set || i.op == Op::For || i.op == Op::Store ||
            i.op == Op::Scatter || i.op == Op::Shuffle || i.op == Op::FromLane ||
            i.op == Op::Join || i.op == Op::MatrixStore || i.op == Op::MatrixMultiply;
        const bool has_b = uses(id, i.b, needs_b);
        const bool needs_c =
            kind == OpClass::Ternary || kind == OpClass::Select || i.op == Op::MatrixMultiply;
        const bool has_c = uses(id, i.c, needs_c);
        if (kind != OpClass::Matrix && kind != OpClass::Register) {
            for (const ValueId operand : {i.a, i.b, i.c}) {
                const bool is_one = !exists(operand) || type(operand).part == Part::None;
                check(id, is_one, "numbers, not matrices");
            }
        }
        packets(id, i);
        if (f_.lanes > 1) check(id, i.type.lanes == 1, "a value of one lane");
        if (kind == OpClass::Leaf || i.op == Op::Barrier || (has_a && has_b >= needs_b)) {
            types(id, i, kind, has_c);
        }
        defined_[std::uint32_t(id)] = true;
        if (i.body != kNoBlock) block(i.body);
        if (i.otherwise != kNoBlock) block(i.otherwise);
    }

    void types(ValueId id, const Inst& i, OpClass kind, bool has_c) {
        const Type bools{DType::Bool, i.type.lanes};
        switch (kind) {
            case OpClass::Leaf:
                if (i.op == Op::Parameter || i.op == Op::ParameterHigh) {
                    check(id, i.bits < f_.parameters.size(), "a parameter that exists");
                }
                break;
            case OpClass::Unary:
                check(id, type(i.a) == i.type, "the operand has the type of the result");
                break;
            case OpClass::Binary:
                check(id, type(i.a) == i.type && type(i.b) == i.type,
                      "operands have the type of the result");
                break;
            case OpClass::Compare:
                check(id, type(i.a) == type(i.b) && i.type == Type{DType::Bool, type(i.a).lanes},
                      "operands of one type, bool lanes");
                break;
            case OpClass::Ternary:
                check(id, type(i.a) == i.type && type(i.b) == i.type && type(i.c) == i.type,
                      "operands have the type of the result");
                break;
            case OpClass::Select:
                check(id, type(i.a) == bools && type(i.b) == i.type && type(i.c) == i.type,
                      "bool lanes, and two values of the type of the result");
                break;
            case OpClass::Convert:
                check(id, type(i.a).lanes == i.type.lanes, "as many lanes as the operand");
                if (i.op == Op::Bitcast) {
                    check(id, size_of(type(i.a).dtype) == size_of(i.type.dtype), "the same size");
                }
                break;
            case OpClass::Packet:
                packet(id, i);
                break;
            case OpClass::Lanes:
                lanes(id, i);
                break;
            case OpClass::Memory:
                memory(id, i, has_c);
                break;
            case OpClass::Matrix:
                matrix(id, i);
                break;
            case OpClass::Register:
                if (i.op != Op::Register) {
                    check(id, f_[i.a].op == Op::Register && f_[i.a].type == i.type, "a register");
                }
                if (i.op == Op::Set) check(id, type(i.b) == i.type, "a value of its type");
                break;
            case OpClass::Control:
                control(id, i);
                break;
        }
    }

    /// Nothing computes with packets.
    void packets(ValueId id, const Inst& i) {
        const bool is_access = i.op == Op::Load || i.op == Op::Store;
        const auto is_packet = [&](ValueId operand) {
            return exists(operand) && std::uint32_t(operand) < f_.insts.size() &&
                   type(operand).packet > 1;
        };
        check(id, i.type.packet == 1 || is_access || i.op == Op::Join, "one number in each lane");
        const bool takes = i.op == Op::Element || i.op == Op::Join;
        check(id, takes || !is_packet(i.a), "no packet of numbers");
        check(id, takes || i.op == Op::Store || !is_packet(i.b), "no packet of numbers");
        check(id, !is_packet(i.c), "no packet of numbers");
    }

    void packet(ValueId id, const Inst& i) {
        Type of = type(i.a);
        if (i.op == Op::Element) {
            check(id, i.bits < of.packet, "an element that exists");
            of.packet = 1;
            return check(id, i.type == of, "the dtype and the lanes of the packet");
        }
        check(id, type(i.b) == of, "two of one type");
        of.packet = std::uint8_t(of.packet * 2);
        check(id, i.type == of, "twice as many numbers");
    }

    void lanes(ValueId id, const Inst& i) {
        if (i.op == Op::Splat) check(id, type(i.a) == Type{i.type.dtype, 1}, "one lane to copy");
        if (i.op == Op::Extract) check(id, i.bits < type(i.a).lanes, "a lane that exists");
        if (i.op == Op::Shuffle) shuffle(id, i);
        if (i.op == Op::FromLane) {
            check(id, f_.subgroup > 1 && f_.lanes % f_.subgroup == 0, "subgroups of a work-group");
            check(id, type(i.a) == i.type && size_of(i.type.dtype) == 4, "a value of 32 bits");
            check(id, type(i.b) == Type{DType::Int32, 1}, "the number of a lane, an int32");
        }
        if (i.op == Op::Any) {
            check(id, type(i.a).dtype == DType::Bool && i.type == Type{DType::Bool, 1}, "bools");
        }
        if (i.op == Op::Fold) {
            const std::uint16_t lanes = type(i.a).lanes;
            const std::uint16_t left = i.bits == 0 ? std::uint16_t(1) : lanes;
            check(id, i.type == Type{type(i.a).dtype, left},
                  "one lane of the operand's dtype, or all of them");
            check(id, std::has_single_bit(lanes), "a power of two lanes");
            check(id, i.bits == 0 || (i.bits < lanes && std::has_single_bit(i.bits)),
                  "fewer neighbours than lanes, a power of two");
        }
    }

    void shuffle(ValueId id, const Inst& i) {
        check(id, type(i.a) == type(i.b) && type(i.a).dtype == i.type.dtype, "two of one type");
        if (i.bits >= f_.patterns.size()) return fail(id, "a pattern that exists");
        const auto& pattern = f_.patterns[i.bits];
        check(id, pattern.size() == i.type.lanes, "a pattern with an entry for each lane");
        for (const std::uint16_t lane : pattern) {
            check(id, lane < 2 * type(i.a).lanes, "lanes that exist");
        }
    }

    void memory(ValueId id, const Inst& i, bool has_mask) {
        if (i.buffer >= f_.buffers.size()) return fail(id, "a buffer that exists");
        const Buffer& buffer = f_.buffers[i.buffer];
        const bool is_store = i.op == Op::Store || i.op == Op::Scatter;
        const bool is_spread = i.op == Op::Gather || i.op == Op::Scatter;
        const std::uint16_t offsets = is_spread ? i.type.lanes : std::uint16_t(1);
        check(id, is_index(type(i.a)) && type(i.a).lanes == offsets, "offsets of int64 or int32");
        if (i.op == Op::Alloc) {
            return check(id, buffer.space != Space::Global && buffer.elements == 0,
                         "an array of its own");
        }
        check(id, i.type.dtype == buffer.dtype, "the dtype of the buffer");
        if (i.type.packet > 1) {
            const std::size_t bytes = size_of(i.type.dtype) * i.type.packet;
            check(id, bytes == 4 || bytes == 8 || bytes == 16, "packets of 4, 8 or 16 bytes");
            check(id, size_of(i.type.dtype) <= 4, "numbers of 32 bits at most");
            check(id, buffer.space == Space::Global && !has_mask && !i.is_streamed,
                  "of global memory, all of them");
        }
        if (is_store) {
            check(id, buffer.is_written, "a buffer that is written");
            check(id, type(i.b) == i.type, "a value of the type stored");
        }
        if (i.is_streamed) {
            check(id, i.op == Op::Store && i.type.lanes > 1 && !has_mask, "a store of all lanes");
        }
        if (has_mask) {
            check(id, type(i.c) == Type{DType::Bool, i.type.lanes}, "a bool for each lane");
        }
    }

    void matrix(ValueId id, const Inst& i) {
        const bool is_product = i.op == Op::MatrixMultiply, is_load = i.op == Op::MatrixLoad;
        const auto is = [&](Type type, Part part) {
            const DType dtype = part == Part::Sum ? f_.atom.sum : f_.atom.operand;
            return type == Type{dtype, i.type.lanes, part};
        };
        check(id, f_.atom.rows > 0 && f_.atom.columns > 0 && f_.atom.depth > 0, "an atom");
        check(id, f_.lanes == 1 || (f_.subgroup > 1 && f_.lanes % f_.subgroup == 0),
              "subgroups of a work-group");
        check(id,
              is_load ? is(i.type, Part::Left) || is(i.type, Part::Right) : is(i.type, Part::Sum),
              "a matrix of the atom");
        if (i.op == Op::MatrixFill) check(id, type(i.a) == Type{f_.atom.sum, 1}, "one number");
        if (is_product) {
            check(id,
                  is(type(i.a), Part::Left) && is(type(i.b), Part::Right) && type(i.c) == i.type,
                  "matrices of the atom, left, right and a sum");
        }
        if (!is_load && i.op != Op::MatrixStore) return;
        if (i.buffer >= f_.buffers.size()) return fail(id, "a buffer that exists");
        const Buffer& buffer = f_.buffers[i.buffer];
        check(id, buffer.dtype == i.type.dtype, "the dtype of the buffer");
        // Its elements lie as the language has them.
        check(id, f_.lanes == 1 || buffer.elements > 0, "an array of the work-group");
        check(id, is_index(type(i.a)) && type(i.a).lanes == i.type.lanes,
              "offsets of int64 or int32");
        check(id, i.bits > 0, "elements from row to row");
        if (i.op != Op::MatrixStore) return;
        check(id, type(i.b) == i.type, "a value of the type stored");
        check(id, buffer.is_written, "a buffer that is written");
    }

    void control(ValueId id, const Inst& i) {
        if (i.op == Op::For) {
            check(
                id,
                is_index(i.type) && i.type.lanes == 1 && type(i.a) == i.type && type(i.b) == i.type,
                "bounds of int64, or of int32");
            check(id, i.bits >= 1 && i.body != kNoBlock, "a step of at least 1, and a body");
        }
        if (i.op == Op::If) {
            check(id, type(i.a) == Type{DType::Bool, 1} && i.body != kNoBlock,
                  "one bool, and a body");
        }
        if (i.op == Op::Assert) check(id, type(i.a).dtype == DType::Bool, "bools");
        if (i.op != Op::Barrier) return;
        check(id, i.spaces != Spaces::None, "memory that it orders");
        check(id, i.scope == Scope::Group || f_.lanes == f_.subgroup,
              "a group that is one subgroup");
    }

    const Function& f_;
    std::vector<bool> defined_;
    std::vector<std::string> violations_;
    int depth_ = 0;
};

}  // namespace

std::vector<std::string> verify(const Function& function) { return Verifier(function).run(); }

}  // namespace quern::lir

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "quern/lir/lir.h"

namespace quern::lir {

/// Writes a function instruction by instruction into the open block. Operands that differ in lanes
/// are splat; sums and products of constants are folded.
class Builder {
public:
    explicit Builder(std::string name);

    /// Of a function that has all but instructions.
    explicit Builder(Function outline);

    /// Whether the arithmetic of floats that follows is relaxed.
    void set_relaxed(bool is_relaxed) { is_relaxed_ = is_relaxed; }

    /// The number of the stores that follow, or 0: see Inst.
    void set_apart(std::uint32_t number) { apart_ = number; }

    /// Gives a load of lanes the number of a store.
    void number_load(ValueId load, std::uint32_t number) {
        function_.insts[std::uint32_t(load)].bits = number;
    }

    /// Of the matrices that follow.
    void set_atom(const Atom& atom) { function_.atom = atom; }

    Function take() { return std::move(function_); }
    Type type(ValueId id) const { return function_[id].type; }
    const Inst& operator[](ValueId id) const { return function_[id]; }

    BufferId buffer(std::string name, DType dtype, Space space, bool is_written);
    ValueId parameter(Parameter parameter, DType dtype = DType::Int64);

    /// A constant from its bits: of an integer or bool its value, of a float its own format's.
    ValueId constant(DType dtype, std::uint64_t bits);
    ValueId integer(std::int64_t value) {
        return constant(DType::Int64, static_cast<std::uint64_t>(value));
    }
    ValueId boolean(bool value) { return constant(DType::Bool, value); }
    ValueId iota(std::uint16_t lanes, DType dtype = DType::Int64);
    ValueId parameter_high(Parameter parameter);

    /// An instruction as it is, of operands of this function.
    ValueId copy(const Inst& inst) { return append(inst); }

    ValueId unary(Op op, ValueId a);
    ValueId binary(Op op, ValueId a, ValueId b);
    ValueId compare(Op op, ValueId a, ValueId b);
    ValueId fma(ValueId a, ValueId b, ValueId c);
    ValueId select(ValueId condition, ValueId a, ValueId b);
    ValueId cast(ValueId a, DType dtype);
    ValueId bitcast(ValueId a, DType dtype);
    ValueId splat(ValueId a, std::uint16_t lanes);
    ValueId extract(ValueId a, std::uint16_t lane);
    ValueId shuffle(ValueId a, ValueId b, const std::vector<std::uint16_t>& pattern);

    /// Over all lanes, or in each lane over its `row` of neighbours.
    ValueId fold(Op op, ValueId a, std::uint16_t row = 0);
    ValueId any(ValueId a);

    ValueId add(ValueId a, ValueId b) { return binary(Op::Add, a, b); }
    ValueId sub(ValueId a, ValueId b) { return binary(Op::Sub, a, b); }
    ValueId mul(ValueId a, ValueId b) { return binary(Op::Mul, a, b); }

    ValueId load(BufferId buffer, ValueId offset, std::uint16_t lanes, ValueId mask = kNone);
    ValueId gather(BufferId buffer, ValueId offsets, ValueId mask = kNone);
    void store(BufferId buffer, ValueId offset, ValueId value, ValueId mask = kNone);

    /// The packets of lanes, of so many numbers each; of one of each lane; of what several have.
    ValueId load_packets(BufferId buffer, ValueId offset, std::uint16_t lanes, std::uint8_t packet);
    ValueId element(ValueId packet, std::uint64_t number);
    ValueId join(ValueId a, ValueId b);

    /// Of lanes, past the caches: see Inst::is_streamed.
    void stream(BufferId buffer, ValueId offset, ValueId value);
    void scatter(BufferId buffer, ValueId offsets, ValueId value, ValueId mask = kNone);
    void prefetch(BufferId buffer, ValueId offset);
    void alloc(BufferId buffer, ValueId elements);

    /// Matrices in so many lanes, whose offsets say how many they are: see Inst.
    ValueId matrix_fill(ValueId a, std::uint16_t lanes);
    ValueId matrix_load(Part part, BufferId buffer, ValueId offset, std::uint64_t row,
                        bool is_turned);
    void matrix_store(BufferId buffer, ValueId offset, ValueId value, std::uint64_t row);
    ValueId matrix_multiply(ValueId a, ValueId b, ValueId c);

    ValueId reg(ValueId initial);
    ValueId get(ValueId reg);
    void set(ValueId reg, ValueId value);

    /// Opens a loop and returns its variable. `is_apart`: see Inst.
    ValueId begin_for(ValueId begin, ValueId end, std::uint64_t step, bool is_apart = false);
    void end_for() { close(); }
    void begin_if(ValueId condition);
    void begin_else();
    void end_if() { close(); }
    void assert_that(ValueId condition, ValueId mask, lang::Span span);

    /// How many instructions the open block has.
    std::size_t position() const { return function_.blocks[open_.back()].size(); }

    /// Of the instructions of the open block from `first` on, which are `copies` sequences alike
    /// of which none uses another's values, takes one of each sequence in turn.
    void interleave(std::size_t first, std::size_t copies);

    /// The number, if it is an int64 constant.
    std::optional<std::int64_t> constant_of(ValueId id) const;

private:
    ValueId append(Inst inst);
    BlockId new_block();
    void close();
    void match(ValueId& a, ValueId& b);

    Function function_;
    bool is_relaxed_ = false;
    std::uint32_t apart_ = 0;
    std::vector<BlockId> open_;
    std::vector<ValueId> owners_;
};

}  // namespace quern::lir

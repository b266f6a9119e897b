#include "quern/lir/builder.h"

#include <algorithm>

#include "quern/support/check.h"

namespace quern::lir {

Builder::Builder(Function outline) : function_(std::move(outline)) { open_.push_back(new_block()); }

Builder::Builder(std::string name) : Builder(Function()) { function_.name = std::move(name); }

BlockId Builder::new_block() {
    function_.blocks.emplace_back();
    return BlockId(function_.blocks.size() - 1);
}

ValueId Builder::append(Inst inst) {
    const bool is_arithmetic = inst.op == Op::Add || inst.op == Op::Sub || inst.op == Op::Mul ||
                               inst.op == Op::Div || inst.op == Op::Fma;
    inst.is_relaxed = is_relaxed_ && is_arithmetic && is_floating(inst.type.dtype);
    const auto id = ValueId(function_.insts.size());
    function_.insts.push_back(inst);
    function_.blocks[open_.back()].push_back(id);
    return id;
}

BufferId Builder::buffer(std::string name, DType dtype, Space space, bool is_written) {
    function_.buffers.push_back({std::move(name), dtype, space, is_written});
    return BufferId(function_.buffers.size() - 1);
}

ValueId Builder::parameter(Parameter parameter, DType dtype) {
    const auto found =
        std::find(function_.parameters.begin(), function_.parameters.end(), parameter);
    const auto number = std::uint64_t(found - function_.parameters.begin());
    if (found == function_.parameters.end()) function_.parameters.push_back(parameter);
    return append({.op = Op::Parameter, .type = {dtype, 1}, .bits = number});
}

ValueId Builder::constant(DType dtype, std::uint64_t bits) {
    return append({.op = Op::Constant, .type = {dtype, 1}, .bits = bits});
}

ValueId Builder::iota(std::uint16_t lanes, DType dtype) {
    return append({.op = Op::Iota, .type = {dtype, lanes}});
}

ValueId Builder::parameter_high(Parameter parameter) {
    const auto found =
        std::find(function_.parameters.begin(), function_.parameters.end(), parameter);
    const auto number = std::uint64_t(found - function_.parameters.begin());
    QUERN_CHECK(found != function_.parameters.end(), "a parameter of which the low half is used");
    return append({.op = Op::ParameterHigh, .type = {DType::UInt32, 1}, .bits = number});
}

std::optional<std::int64_t> Builder::constant_of(ValueId id) const {
    const Inst& inst = function_[id];
    if (inst.op != Op::Constant || inst.type != Type{DType::Int64, 1}) return std::nullopt;
    return static_cast<std::int64_t>(inst.bits);
}

void Builder::interleave(std::size_t first, std::size_t copies) {
    QUERN_CHECK(copies > 0, "a copy");
    std::vector<ValueId>& block = function_.blocks[open_.back()];
    const std::size_t length = (block.size() - first) / copies;
    QUERN_CHECK(first + length * copies == block.size(), "sequences of one length");
    const std::vector<ValueId> before(block.begin() + std::ptrdiff_t(first), block.end());
    for (std::size_t i = 0; i < before.size(); ++i) {
        const ValueId next = before[i % copies * length + i / copies];
        QUERN_CHECK(function_[next].op == function_[before[i / copies]].op, "sequences alike");
        block[first + i] = next;
    }
}

void Builder::match(ValueId& a, ValueId& b) {
    const std::uint16_t lanes = std::max(type(a).lanes, type(b).lanes);
    a = splat(a, lanes);
    b = splat(b, lanes);
}

ValueId Builder::unary(Op op, ValueId a) { return append({.op = op, .type = type(a), .a = a}); }

ValueId Builder::binary(Op op, ValueId a, ValueId b) {
    const std::optional<std::int64_t> x = constant_of(a), y = constant_of(b);
    const auto wrapped = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits); };
    if (op == Op::Add) {
        if (x && y) return integer(wrapped(std::uint64_t(*x) + std::uint64_t(*y)));
        if (x == 0) return b;
        if (y == 0) return a;
    }
    if (op == Op::Sub && y == 0) return a;
    if (op == Op::Mul) {
        if (x && y) return integer(wrapped(std::uint64_t(*x) * std::uint64_t(*y)));
        if (x == 1) return b;
        if (y == 1) return a;
    }
    match(a, b);
    return append({.op = op, .type = type(a), .a = a, .b = b});
}

ValueId Builder::compare(Op op, ValueId a, ValueId b) {
    match(a, b);
    return append({.op = op, .type = {DType::Bool, type(a).lanes}, .a = a, .b = b});
}

ValueId Builder::fma(ValueId a, ValueId b, ValueId c) {
    match(a, b);
    match(a, c);
    match(b, c);
    return append({.op = Op::Fma, .type = type(a), .a = a, .b = b, .c = c});
}

ValueId Builder::select(ValueId condition, ValueId a, ValueId b) {
    match(a, b);
    match(condition, a);
    match(condition, b);
    return append({.op = Op::Select, .type = type(a), .a = condition, .b = a, .c = b});
}

ValueId Builder::cast(ValueId a, DType dtype) {
    if (type(a).dtype == dtype) return a;
    return append({.op = Op::Cast, .type = {dtype, type(a).lanes}, .a = a});
}

ValueId Builder::bitcast(ValueId a, DType dtype) {
    return append({.op = Op::Bitcast, .type = {dtype, type(a).lanes}, .a = a});
}

ValueId Builder::splat(ValueId a, std::uint16_t lanes) {
    if (type(a).lanes == lanes) return a;
    QUERN_CHECK(type(a).lanes == 1, "one lane, or as many as its neighbours");
    return append({.op = Op::Splat, .type = {type(a).dtype, lanes}, .a = a});
}

ValueId Builder::extract(ValueId a, std::uint16_t lane) {
    if (type(a).lanes == 1) return a;
    return append({.op = Op::Extract, .type = {type(a).dtype, 1}, .a = a, .bits = lane});
}

ValueId Builder::shuffle(ValueId a, ValueId b, const std::vector<std::uint16_t>& pattern) {
    auto& all = function_.patterns;
    const auto found = std::find(all.begin(), all.end(), pattern);
    const auto number = std::uint64_t(found - all.begin());
    if (found == all.end()) all.push_back(pattern);
    return append({.op = Op::Shuffle,
                   .type = {type(a).dtype, std::uint16_t(pattern.size())},
                   .a = a,
                   .b = b,
                   .bits = number});
}

ValueId Builder::fold(Op op, ValueId a, std::uint16_t row) {
    const std::uint16_t lanes = type(a).lanes;
    if (lanes == 1) return a;
    const std::uint16_t left = row == 0 ? std::uint16_t(1) : lanes;
    return append({.op = Op::Fold, .fold = op, .type = {type(a).dtype, left}, .a = a, .bits = row});
}

ValueId Builder::any(ValueId a) {
    if (type(a).lanes == 1) return a;
    return append({.op = Op::Any, .type = {DType::Bool, 1}, .a = a});
}

ValueId Builder::load(BufferId buffer, ValueId offset, std::uint16_t lanes, ValueId mask) {
    return append({.op = Op::Load,
                   .type = {function_.buffers[buffer].dtype, lanes},
                   .buffer = buffer,
                   .a = offset,
                   .c = mask});
}

ValueId Builder::load_packets(BufferId buffer, ValueId offset, std::uint16_t lanes,
                              std::uint8_t packet) {
    const DType dtype = function_.buffers[buffer].dtype;
    return append({.op = Op::Load,
                   .type = {dtype, lanes, Part::None, packet},
                   .buffer = buffer,
                   .a = offset});
}

ValueId Builder::element(ValueId packet, std::uint64_t number) {
    const Type of = type(packet);
    return append({.op = Op::Element, .type = {of.dtype, of.lanes}, .a = packet, .bits = number});
}

ValueId Builder::join(ValueId a, ValueId b) {
    Type type = this->type(a);
    type.packet = std::uint8_t(type.packet + this->type(b).packet);
    return append({.op = Op::Join, .type = type, .a = a, .b = b});
}

ValueId Builder::gather(BufferId buffer, ValueId offsets, ValueId mask) {
    return append({.op = Op::Gather,
                   .type = {function_.buffers[buffer].dtype, type(offsets).lanes},
                   .buffer = buffer,
                   .a = offsets,
                   .c = mask});
}

void Builder::prefetch(BufferId buffer, ValueId offset) {
    append({.op = Op::Prefetch,
            .type = {function_.buffers[buffer].dtype, 1},
            .buffer = buffer,
            .a = offset});
}

void Builder::store(BufferId buffer, ValueId offset, ValueId value, ValueId mask) {
    append({.op = Op::Store,
            .type = type(value),
            .buffer = buffer,
            .a = offset,
            .b = value,
            .c = mask,
            .bits = apart_});
}

void Builder::stream(BufferId buffer, ValueId offset, ValueId value) {
    append({.op = Op::Store,
            .is_streamed = true,
            .type = type(value),
            .buffer = buffer,
            .a = offset,
            .b = value,
            .bits = apart_});
}

void Builder::scatter(BufferId buffer, ValueId offsets, ValueId value, ValueId mask) {
    append({.op = Op::Scatter,
            .type = type(value),
            .buffer = buffer,
            .a = offsets,
            .b = value,
            .c = mask,
            .bits = apart_});
}

void Builder::alloc(BufferId buffer, ValueId elements) {
    append({.op = Op::Alloc, .type = {}, .buffer = buffer, .a = elements});
}

ValueId Builder::matrix_fill(ValueId a, std::uint16_t lanes) {
    return append({.op = Op::MatrixFill, .type = {type(a).dtype, lanes, Part::Sum}, .a = a});
}

ValueId Builder::matrix_load(Part part, BufferId buffer, ValueId offset, std::uint64_t row,
                             bool is_turned) {
    return append({.op = Op::MatrixLoad,
                   .is_turned = is_turned,
                   .type = {function_.buffers[buffer].dtype, type(offset).lanes, part},
                   .buffer = buffer,
                   .a = offset,
                   .bits = row});
}

void Builder::matrix_store(BufferId buffer, ValueId offset, ValueId value, std::uint64_t row) {
    append({.op = Op::MatrixStore,
            .type = type(value),
            .buffer = buffer,
            .a = offset,
            .b = value,
            .bits = row});
}

ValueId Builder::matrix_multiply(ValueId a, ValueId b, ValueId c) {
    return append({.op = Op::MatrixMultiply, .type = type(c), .a = a, .b = b, .c = c});
}

ValueId Builder::reg(ValueId initial) {
    return append({.op = Op::Register, .type = type(initial), .a = initial});
}

ValueId Builder::get(ValueId reg) { return append({.op = Op::Get, .type = type(reg), .a = reg}); }

void Builder::set(ValueId reg, ValueId value) {
    append({.op = Op::Set, .type = type(reg), .a = reg, .b = splat(value, type(reg).lanes)});
}

ValueId Builder::begin_for(ValueId begin, ValueId end, std::uint64_t step, bool is_apart) {
    const BlockId body = new_block();
    const ValueId loop = append({.op = Op::For,
                                 .is_apart = is_apart,
                                 .type = type(begin),
                                 .a = begin,
                                 .b = end,
                                 .bits = step,
                                 .body = body});
    open_.push_back(body);
    owners_.push_back(loop);
    return loop;
}

void Builder::begin_if(ValueId condition) {
    const BlockId body = new_block();
    const ValueId id =
        append({.op = Op::If, .type = {DType::Bool, 1}, .a = condition, .body = body});
    open_.push_back(body);
    owners_.push_back(id);
}

void Builder::begin_else() {
    const BlockId otherwise = new_block();
    function_.insts[std::uint32_t(owners_.back())].otherwise = otherwise;
    open_.back() = otherwise;
}

void Builder::close() {
    QUERN_CHECK(open_.size() > 1, "a block to close");
    open_.pop_back();
    owners_.pop_back();
}

void Builder::assert_that(ValueId condition, ValueId mask, lang::Span span) {
    append({.op = Op::Assert, .type = type(condition), .a = condition, .c = mask, .span = span});
}

}  // namespace quern::lir

#include <algorithm>

#include "quern/interpret/compiler.h"

namespace quern::interpret {

using ir::ExprId;

namespace {

Op store_of(DType dtype) {
    switch (dtype) {
        case DType::Float16:
            return Op::StoreH;
        case DType::BFloat16:
            return Op::StoreB;
        case DType::Float8E4M3:
            return Op::StoreE4;
        case DType::Float8E5M2:
            return Op::StoreE5;
        case DType::Float32:
            return Op::StoreF;
        case DType::Float64:
            return Op::StoreD;
        default:
            break;
    }
    switch (size_of(dtype)) {
        case 1:
            return Op::Store8;
        case 2:
            return Op::Store16;
        case 4:
            return Op::Store32;
        default:
            return Op::Store64;
    }
}

std::uint64_t product(std::int64_t x, std::int64_t y) {
    return std::uint64_t(x) * std::uint64_t(y);
}

}  // namespace

bool Compiler::is_claimed(ir::BufferId buffer) const {
    if (region_ == ir::kNone) return false;
    const std::vector<std::uint32_t>& claimed = code_.regions[region_].claimed;
    return std::find(claimed.begin(), claimed.end(), array_of_[buffer]) != claimed.end();
}

/// The value of an index, after the check that it is inside.
Compiler::Value Compiler::bounded(ir::BufferId buffer, int axis, ExprId index, ir::Span span) {
    const Value value = expr(index);
    const ir::Expr& e = kernel_[index];
    const bool is_unsigned =
        e.kind == ir::ExprKind::Cast && kernel_[ExprId{e.a}].dtype == DType::UInt64;
    // A shared node has the place of its first use, which may be elsewhere.
    const ir::Span own = kernel_[is_unsigned ? ExprId{e.a} : index].span;
    const bool is_here = own.length > 0 && own.begin >= span.begin && own.end() <= span.end();
    const std::uint32_t at =
        site({ir::Code::E0507, is_here ? own : span, buffer, std::uint32_t(axis), is_unsigned});
    if (buffer <= kernel_.output()) {
        emit(Op::Bound, at, value.reg).immediate = ranges_.shape(buffer)[std::size_t(axis)];
    } else {
        const std::uint32_t extent = code_.arrays[array_of_[buffer]].extents[std::size_t(axis)];
        emit(Op::BoundBy, at, value.reg, extent);
    }
    return value;
}

/// Checks the indices and finds the element: base + index * scale is its address at `level`. The
/// sum of what an index is made of is taken in the order of levels, so that a loop adds only what
/// it changes.
Compiler::Place Compiler::place(ir::BufferId buffer, const std::vector<ExprId>& indices,
                                ir::Span span) {
    struct Part {
        Value value;
        std::int64_t coefficient;
    };
    const bool is_operand = buffer < kernel_.operand_count;
    const bool is_noted =
        !is_operand && (code_.arrays[array_of_[buffer]].is_read || is_claimed(buffer));
    const auto bytes = std::int64_t(size_of(kernel_.buffers[buffer].dtype));
    const std::int64_t unit = is_noted ? 1 : bytes;

    // Strides: numbers from the right as long as the extents are, then registers.
    const std::size_t rank = indices.size();
    std::vector<std::int64_t> strides(rank, unit);
    std::vector<Value> stride_values(rank);
    std::vector<bool> is_number(rank, true);
    if (is_operand) {
        for (std::size_t p = 0; p < rank; ++p) {
            strides[p] = std::int64_t(product(launch_.operands[buffer].strides[p], unit));
        }
    } else {
        for (std::size_t p = rank; p-- > 1;) {
            const bool is_output = buffer == kernel_.output();
            const Range extent = is_output
                                     ? Range{ranges_.shape(buffer)[p], ranges_.shape(buffer)[p]}
                                     : ranges_.of(kernel_.buffers[buffer].shape[p]);
            is_number[p - 1] = is_number[p] && extent.is_one();
            if (is_number[p - 1]) {
                strides[p - 1] = std::int64_t(product(strides[p], extent.low));
                continue;
            }
            const std::uint32_t reg = code_.arrays[array_of_[buffer]].extents[p];
            const Value inner = is_number[p] ? integer(strides[p]) : stride_values[p];
            const std::uint32_t level = std::max(address_[buffer].level, inner.level);
            stride_values[p - 1] = result(level, Op::MulI, {reg, level}, inner);
        }
    }

    bool is_checked = false;
    std::uint64_t constant = 0;
    std::vector<Part> parts;
    const auto add = [&](Value value, std::int64_t coefficient) {
        if (coefficient == 0) return;
        for (Part& part : parts) {
            if (part.value.reg != value.reg) continue;
            part.coefficient =
                std::int64_t(std::uint64_t(part.coefficient) + std::uint64_t(coefficient));
            return;
        }
        parts.push_back({value, coefficient});
    };
    for (std::size_t p = 0; p < rank; ++p) {
        const int axis = int(p);
        if (!ranges_.is_in_bounds(buffer, axis, indices[p])) {
            const Value index = bounded(buffer, axis, indices[p], span);
            is_checked = true;
            if (is_number[p]) {
                add(index, strides[p]);
            } else {
                add(result(depth(), Op::MulI, index, stride_values[p]), 1);
            }
        } else if (is_number[p]) {
            const Linear linear = ranges_.linear(indices[p]);
            constant += product(linear.constant, strides[p]);
            for (const Linear::Term& term : linear.terms) {
                add(expr(term.expr), std::int64_t(product(term.coefficient, strides[p])));
            }
        } else {
            const Value index = expr(indices[p]);
            const std::uint32_t level = std::max(index.level, stride_values[p].level);
            add(result(level, Op::MulI, index, stride_values[p]), 1);
        }
    }
    std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) {
        return x.value.level != y.value.level ? x.value.level < y.value.level
                                              : x.value.reg < y.value.reg;
    });

    Value sum = is_noted ? integer(std::int64_t(constant)) : address_[buffer];
    if (!is_noted && constant != 0) {
        const Value start = result(sum.level, Op::AddImmediate, sum);
        (sum.level == depth() ? code() : frames_[sum.level].before).back().immediate =
            std::int64_t(constant);
        sum = start;
    }
    Place found;
    found.index = kZero;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        const Part& part = parts[k];
        if (k + 1 == parts.size() && !is_noted && part.value.level > sum.level) {
            found.index = part.value.reg;
            found.scale = part.coefficient;
            found.level = part.value.level;
            break;
        }
        const Value next{registers(), std::max(sum.level, part.value.level)};
        emit_at(next.level, Op::Address, next.reg, sum.reg, part.value.reg).immediate =
            part.coefficient;
        sum = next;
    }
    if (is_noted) {
        found.element = sum.reg;
        found.base = address_[buffer].reg;
        found.index = sum.reg;
        found.scale = bytes;
    } else {
        found.base = sum.reg;
    }
    // Only what cannot fail and never changes may be read before its turn.
    found.level = is_checked || !is_operand ? depth() : std::max(found.level, sum.level);
    return found;
}

void Compiler::store(const ir::Stmt& s) {
    const Value value = expr(s.value);
    const Place to = place(s.buffer, s.indices, s.span);
    const std::uint32_t array = array_of_[s.buffer];
    if (is_claimed(s.buffer)) {
        emit(Op::Claim, site({ir::Code::E0510, s.span, s.buffer, 0}), array, to.element);
    }
    emit(store_of(kernel_.buffers[s.buffer].dtype), value.reg, to.base, to.index).immediate =
        to.scale;
    if (code_.arrays[array].is_read) emit(Op::MarkWritten, 0, array, to.element);
}

}  // namespace quern::interpret

#include "quern/backend/vulkan/memory.h"

namespace quern::vulkan {
namespace {

using spv::Op;

std::uint32_t access_of(bool is_written) {
    const auto aligned = std::uint32_t(spv::MemoryAccessMask::Aligned);
    const auto seen = std::uint32_t(spv::MemoryAccessMask::NonPrivatePointer);
    return is_written ? aligned | seen : aligned;
}

}  // namespace

Id MemoryCode::word_type() {
    return integers_.has_64 ? code_.type(DType::UInt64) : m_.vector(code_.type(DType::UInt32), 2);
}

Id MemoryCode::low_of(Id word) {
    if (integers_.has_64) return code_.unary(Op::OpUConvert, DType::UInt32, word);
    return m_.op(Op::OpCompositeExtract, code_.type(DType::UInt32), {word, 0});
}

Id MemoryCode::high_of(Id word) {
    return m_.op(Op::OpCompositeExtract, code_.type(DType::UInt32), {word, 1});
}

Id MemoryCode::moved(Id word, Id by) {
    if (integers_.has_64) {
        const Id wide = code_.unary(Op::OpUConvert, DType::UInt64, by);
        return code_.binary(Op::OpIAdd, DType::UInt64, word, wide);
    }
    return moved(word, by, code_.u32(0));
}

Id MemoryCode::moved(Id word, Id low, Id high) {
    const auto add = [&](Id a, Id b) { return u32(Op::OpIAdd, a, b); };
    const Id sum = add(low_of(word), low);
    const Id carry = code_.cast(code_.test(Op::OpULessThan, sum, low), DType::Bool, DType::UInt32);
    return m_.op(Op::OpCompositeConstruct, word_type(),
                 {sum, add(add(high_of(word), high), carry)});
}

Id MemoryCode::is_at_least(Id a, Id b) {
    if (integers_.has_64) return code_.test(Op::OpUGreaterThanEqual, a, b);
    const Id x = high_of(a), y = high_of(b);
    const Id below = code_.test(Op::OpUGreaterThanEqual, low_of(a), low_of(b));
    return code_.either(code_.test(Op::OpUGreaterThan, x, y),
                        code_.both(code_.test(Op::OpIEqual, x, y), below));
}

Id MemoryCode::element(Id address, Id offset, DType index, std::size_t size) {
    if (integers_.has_64) {
        const Id wide = code_.resized(index, DType::Int64, offset);
        const Id bytes = code_.binary(Op::OpIMul, DType::UInt64, wide, code_.u64(size));
        return code_.binary(Op::OpIAdd, DType::UInt64, address, bytes);
    }
    const DType d = DType::Int32;
    const Id bytes = code_.binary(Op::OpIMul, d, offset, code_.constant(d, std::uint64_t(size)));
    return moved(address, bytes, code_.binary(Op::OpShiftRightArithmetic, d, bytes, code_.u32(31)));
}

Id MemoryCode::pointer(Id type, Id address) {
    const Id to = m_.pointer(spv::StorageClass::PhysicalStorageBuffer, type);
    return m_.op(integers_.has_64 ? Op::OpConvertUToPtr : Op::OpBitcast, to, {address});
}

Id MemoryCode::load(Id type, std::uint32_t size, Id address, bool is_written) {
    return m_.op(Op::OpLoad, type, {pointer(type, address), access_of(is_written), size});
}

Id MemoryCode::load(DType d, Id address, bool is_written) {
    if (d == DType::Bool) {
        const DType byte = DType::UInt8;
        return code_.test(Op::OpINotEqual, load(byte, address, is_written),
                          code_.constant(byte, 0));
    }
    if (code_.is_loaded(d)) {
        return load(code_.memory_type(d), std::uint32_t(size_of(d)), address, is_written);
    }
    const Part part = part_of(address);
    const Id whole = code_.type(DType::UInt32);
    const Id word = is_written ? m_.op(Op::OpAtomicLoad, whole,
                                       {pointer(whole, part.word), scope(), code_.u32(0)})
                               : load(whole, 4, part.word, false);
    return code_.resized(DType::UInt32, d,
                         code_.binary(Op::OpShiftRightLogical, DType::UInt32, word, part.shift));
}

MemoryCode::Part MemoryCode::part_of(Id address) {
    const Id low = low_of(address);
    const Id bytes = u32(Op::OpBitwiseAnd, low, code_.u32(3));
    const Id shift = u32(Op::OpShiftLeftLogical, bytes, code_.u32(3));
    if (!integers_.has_64) {
        return {m_.op(Op::OpCompositeConstruct, word_type(),
                      {u32(Op::OpISub, low, bytes), high_of(address)}),
                shift};
    }
    const Id wide = code_.unary(Op::OpUConvert, DType::UInt64, bytes);
    return {code_.binary(Op::OpISub, DType::UInt64, address, wide), shift};
}

void MemoryCode::store(DType d, Id address, Id stored) {
    if (d == DType::Bool) return store(DType::UInt8, address, code_.cast(stored, d, DType::UInt8));
    if (code_.is_loaded(d)) {
        const auto size = std::uint32_t(size_of(d));
        m_.statement(Op::OpStore,
                     {pointer(code_.memory_type(d), address), stored, access_of(true), size});
        return;
    }
    // Others write the rest of the word at the same time.
    const Part part = part_of(address);
    const Id all = code_.u32(size_of(d) == 2 ? 0xffff : 0xff);
    const Id bits = u32(Op::OpBitwiseAnd, code_.resized(d, DType::UInt32, stored), all);
    const Id others =
        code_.unary(Op::OpNot, DType::UInt32, u32(Op::OpShiftLeftLogical, all, part.shift));
    const Id type = code_.type(DType::UInt32), word = pointer(type, part.word);
    const Id relaxed = code_.u32(0), shifted = u32(Op::OpShiftLeftLogical, bits, part.shift);
    m_.op(Op::OpAtomicAnd, type, {word, scope(), relaxed, others});
    m_.op(Op::OpAtomicOr, type, {word, scope(), relaxed, shifted});
}

Id MemoryCode::scope() { return code_.u32(std::uint32_t(spv::Scope::QueueFamily)); }

Id MemoryCode::times(Id number, Id word) {
    if (!integers_.has_64) return u32(Op::OpIMul, number, low_of(word));
    const Id wide = code_.unary(Op::OpUConvert, DType::UInt64, number);
    return code_.binary(Op::OpIMul, DType::UInt64, wide, word);
}

}  // namespace quern::vulkan

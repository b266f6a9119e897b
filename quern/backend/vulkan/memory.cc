#include "quern/backend/vulkan/memory.h"

#include <bit>

namespace quern::vulkan {
namespace {

using spv::Op;

constexpr auto kAligned = std::uint32_t(spv::MemoryAccessMask::Aligned);

}  // namespace

void MemoryCode::begin() {
    m_.capability(spv::Capability::Shader);
    if (is_bound_) {
        m_.memory_model(spv::AddressingModel::Logical, spv::MemoryModel::GLSL450);
        return;
    }
    m_.capability(spv::Capability::PhysicalStorageBufferAddresses);
    m_.capability(spv::Capability::VulkanMemoryModel);
    m_.memory_model(spv::AddressingModel::PhysicalStorageBuffer64, spv::MemoryModel::Vulkan);
}

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

Id MemoryCode::sum(Id word, Id by) {
    if (integers_.has_64) {
        const Id wide = code_.unary(Op::OpUConvert, DType::UInt64, by);
        return code_.binary(Op::OpIAdd, DType::UInt64, word, wide);
    }
    return sum(word, by, code_.u32(0));
}

Id MemoryCode::sum(Id word, Id low, Id high) {
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

Id MemoryCode::place_type() { return is_bound_ ? code_.type(DType::UInt32) : word_type(); }

MemoryCode::Place MemoryCode::load_place_of_buffer(Place word, std::uint32_t binding,
                                                   std::uint32_t windows) {
    if (is_bound_) return {load(DType::UInt32, word), binding, windows};
    return {load(word_type(), 8, word, false)};
}

MemoryCode::Place MemoryCode::moved(Place place, Id by) {
    if (is_bound_) return {u32(Op::OpIAdd, place.at, by), place.binding, place.windows};
    return {sum(place.at, by)};
}

MemoryCode::Place MemoryCode::moved(Place place, Id number, Id word) {
    if (is_bound_ || !integers_.has_64) {
        return moved(place, u32(Op::OpIMul, number, low_of(word)));
    }
    const Id wide = code_.unary(Op::OpUConvert, DType::UInt64, number);
    const Id bytes = code_.binary(Op::OpIMul, DType::UInt64, wide, word);
    return {code_.binary(Op::OpIAdd, DType::UInt64, place.at, bytes)};
}

MemoryCode::Place MemoryCode::element(Place place, Id offset, DType index, std::size_t size) {
    if (is_bound_) {
        const Id narrow = code_.resized(index, DType::UInt32, offset);
        return moved(place, u32(Op::OpIMul, narrow, code_.u32(std::uint32_t(size))));
    }
    if (integers_.has_64) {
        const Id wide = code_.resized(index, DType::Int64, offset);
        const Id bytes = code_.binary(Op::OpIMul, DType::UInt64, wide, code_.u64(size));
        return {code_.binary(Op::OpIAdd, DType::UInt64, place.at, bytes)};
    }
    const DType d = DType::Int32;
    const Id bytes = code_.binary(Op::OpIMul, d, offset, code_.constant(d, std::uint64_t(size)));
    return {
        sum(place.at, bytes, code_.binary(Op::OpShiftRightArithmetic, d, bytes, code_.u32(31)))};
}

Id MemoryCode::pointer(Id type, std::uint32_t size, Place place, bool is_written) {
    if (is_bound_) {
        const auto shift = std::uint32_t(std::countr_zero(size));
        const Id index = u32(Op::OpShiftRightLogical, place.at, code_.u32(shift));
        const Id to = m_.pointer(spv::StorageClass::StorageBuffer, type);
        return m_.op(Op::OpAccessChain, to,
                     {view(type, size, place.binding, is_written), code_.u32(0), index});
    }
    const Id to = m_.pointer(spv::StorageClass::PhysicalStorageBuffer, type);
    return m_.op(integers_.has_64 ? Op::OpConvertUToPtr : Op::OpBitcast, to, {place.at});
}

Id MemoryCode::view(Id type, std::uint32_t size, std::uint32_t binding, bool is_written) {
    Id& view = views_[{type, binding, is_written}];
    if (view != 0) return view;
    using spv::Decoration;
    Id& block = blocks_[type];
    if (block == 0) {
        const Id elements = m_.array(type);
        m_.decorate(elements, Decoration::ArrayStride, {size});
        block = m_.structure({elements});
        m_.decorate(block, Decoration::Block);
        m_.decorate_member(block, 0, Decoration::Offset, 0);
    }
    view = m_.global(spv::StorageClass::StorageBuffer, block);
    m_.decorate(view, Decoration::DescriptorSet, {0});
    m_.decorate(view, Decoration::Binding, {binding});
    if (is_written) {
        // Other views have the same memory as elements of other types, and other lanes see it.
        m_.decorate(view, Decoration::Aliased);
        m_.decorate(view, Decoration::Coherent);
    } else {
        m_.decorate(view, Decoration::NonWritable);
    }
    bound_.push_back(view);
    return view;
}

template <class Access>
Id MemoryCode::in_window(Id type, Place place, const Access& access) {
    if (place.windows == 1) return access(place);
    const Id number = u32(Op::OpShiftRightLogical, place.at, code_.u32(window_bits_));
    const Id at = u32(Op::OpBitwiseAnd, place.at, code_.u32((1u << window_bits_) - 1));
    const Id after = m_.new_id();
    std::vector<Id> begins;
    for (std::uint32_t w = 0; w < place.windows; ++w) begins.push_back(m_.new_id());
    Module::Words cases{number, begins.back()};
    for (std::uint32_t w = 0; w + 1 < place.windows; ++w) {
        cases.insert(cases.end(), {w, begins[w]});
    }
    m_.statement(Op::OpSelectionMerge, {after, 0});
    m_.statement(Op::OpSwitch, cases);
    Module::Words given;
    for (std::uint32_t w = 0; w < place.windows; ++w) {
        m_.label(begins[w]);
        const Id value = access(Place{at, place.binding + w});
        given.insert(given.end(), {value, m_.block()});
        m_.statement(Op::OpBranch, {after});
    }
    m_.label(after);
    return type == 0 ? 0 : m_.op(Op::OpPhi, type, given);
}

Id MemoryCode::load(Id type, std::uint32_t size, Place place, bool is_written) {
    return in_window(type, place, [&](Place in) {
        const Id from = pointer(type, size, in, is_written);
        if (is_bound_) return m_.op(Op::OpLoad, type, {from});
        return m_.op(Op::OpLoad, type,
                     {from, is_written ? kAligned | kNonPrivate : kAligned, size});
    });
}

Id MemoryCode::load(DType d, Place place, bool is_written) {
    if (d == DType::Bool) {
        const DType byte = DType::UInt8;
        return code_.test(Op::OpINotEqual, load(byte, place, is_written), code_.constant(byte, 0));
    }
    if (code_.is_loaded(d)) {
        return load(code_.memory_type(d), std::uint32_t(size_of(d)), place, is_written);
    }
    const Part part = part_of(place);
    const Id whole = code_.type(DType::UInt32);
    const auto load_atomically = [&](Place in) {
        return m_.op(Op::OpAtomicLoad, whole, {pointer(whole, 4, in, true), scope(), code_.u32(0)});
    };
    const Id word = is_written ? in_window(whole, part.word, load_atomically)
                               : load(whole, 4, part.word, false);
    return code_.from_word(d, u32(Op::OpShiftRightLogical, word, part.shift));
}

MemoryCode::Part MemoryCode::part_of(Place place) {
    const Id low = is_bound_ ? place.at : low_of(place.at);
    const Id bytes = u32(Op::OpBitwiseAnd, low, code_.u32(3));
    const Id shift = u32(Op::OpShiftLeftLogical, bytes, code_.u32(3));
    if (is_bound_) {
        return {{u32(Op::OpISub, low, bytes), place.binding, place.windows}, shift};
    }
    if (!integers_.has_64) {
        return {{m_.op(Op::OpCompositeConstruct, word_type(),
                       {u32(Op::OpISub, low, bytes), high_of(place.at)})},
                shift};
    }
    const Id wide = code_.unary(Op::OpUConvert, DType::UInt64, bytes);
    return {{code_.binary(Op::OpISub, DType::UInt64, place.at, wide)}, shift};
}

void MemoryCode::store(Id type, std::uint32_t size, Place place, Id stored) {
    in_window(0, place, [&](Place in) {
        const Id to = pointer(type, size, in, true);
        if (is_bound_) {
            m_.statement(Op::OpStore, {to, stored});
        } else {
            m_.statement(Op::OpStore, {to, stored, kAligned | kNonPrivate, size});
        }
        return Id{0};
    });
}

void MemoryCode::mark(Place place) {
    in_window(0, place, [&](Place in) {
        const Id word = pointer(code_.type(DType::UInt32), 4, in, true);
        const Id relaxed = code_.u32(0);
        m_.statement(Op::OpAtomicStore, {word, scope(), relaxed, code_.u32(1)});
        return Id{0};
    });
}

void MemoryCode::store(DType d, Place place, Id stored) {
    if (d == DType::Bool) return store(DType::UInt8, place, code_.cast(stored, d, DType::UInt8));
    if (code_.is_loaded(d)) {
        return store(code_.memory_type(d), std::uint32_t(size_of(d)), place, stored);
    }
    // Others write the rest of the word at the same time.
    const Part part = part_of(place);
    const Id all = code_.u32(size_of(d) == 2 ? 0xffff : 0xff);
    const Id bits = code_.to_word(d, stored);
    const Id others =
        code_.unary(Op::OpNot, DType::UInt32, u32(Op::OpShiftLeftLogical, all, part.shift));
    const Id type = code_.type(DType::UInt32);
    const Id relaxed = code_.u32(0), shifted = u32(Op::OpShiftLeftLogical, bits, part.shift);
    in_window(0, part.word, [&](Place in) {
        const Id word = pointer(type, 4, in, true);
        m_.op(Op::OpAtomicAnd, type, {word, scope(), relaxed, others});
        return m_.op(Op::OpAtomicOr, type, {word, scope(), relaxed, shifted});
    });
}

Id MemoryCode::type_of_words(std::size_t words) {
    const Id word = code_.type(DType::UInt32);
    return words == 1 ? word : m_.vector(word, std::uint32_t(words));
}

std::vector<Id> MemoryCode::load_packet(DType d, Place place, std::size_t count, bool is_written) {
    const std::size_t size = size_of(d), words = count * size / 4;
    const Id whole = load(type_of_words(words), std::uint32_t(count * size), place, is_written);
    std::vector<Id> elements;
    Id word = whole;
    for (std::size_t n = 0; n < count; ++n) {
        const std::size_t byte = n * size;
        if (words > 1 && byte % 4 == 0) {
            word = m_.op(Op::OpCompositeExtract, code_.type(DType::UInt32),
                         {whole, std::uint32_t(byte / 4)});
        }
        const auto shift = std::uint32_t(byte % 4 * 8);
        elements.push_back(code_.from_word(
            d, shift == 0 ? word : u32(Op::OpShiftRightLogical, word, code_.u32(shift))));
    }
    return elements;
}

void MemoryCode::store_packet(DType d, Place place, const std::vector<Id>& stored) {
    const std::size_t size = size_of(d);
    Module::Words words;
    for (std::size_t n = 0; n < stored.size(); ++n) {
        const auto shift = std::uint32_t(n * size % 4 * 8);
        const Id bits = code_.to_word(d, stored[n]);
        if (shift == 0) {
            words.push_back(bits);
        } else {
            words.back() = u32(Op::OpBitwiseOr, words.back(),
                               u32(Op::OpShiftLeftLogical, bits, code_.u32(shift)));
        }
    }
    const Id type = type_of_words(words.size());
    const Id whole = words.size() == 1 ? words[0] : m_.op(Op::OpCompositeConstruct, type, words);
    store(type, std::uint32_t(stored.size() * size), place, whole);
}

Id MemoryCode::load_shared(Id type, Id pointer) {
    if (is_bound_) return m_.op(Op::OpLoad, type, {pointer});
    return m_.op(Op::OpLoad, type, {pointer, kNonPrivate});
}

void MemoryCode::store_shared(Id pointer, Id stored) {
    if (is_bound_) return m_.statement(Op::OpStore, {pointer, stored});
    m_.statement(Op::OpStore, {pointer, stored, kNonPrivate});
}

Id MemoryCode::scope() {
    return code_.u32(std::uint32_t(is_bound_ ? spv::Scope::Device : spv::Scope::QueueFamily));
}

/// In GLSL's memory model what a barrier orders is available and visible.
void MemoryCode::meet(const lir::Inst& barrier) {
    using Semantics = spv::MemorySemanticsMask;
    auto semantics = std::uint32_t(Semantics::AcquireRelease);
    if (has(barrier.spaces, lir::Spaces::Group)) {
        semantics |= std::uint32_t(Semantics::WorkgroupMemory);
    }
    if (has(barrier.spaces, lir::Spaces::Device)) {
        semantics |= std::uint32_t(Semantics::UniformMemory);
    }
    if (!is_bound_) {
        semantics |=
            std::uint32_t(Semantics::MakeAvailable) | std::uint32_t(Semantics::MakeVisible);
    }
    const bool is_subgroup = barrier.scope == lir::Scope::Subgroup;
    const Id scope =
        code_.u32(std::uint32_t(is_subgroup ? spv::Scope::Subgroup : spv::Scope::Workgroup));
    m_.statement(Op::OpControlBarrier, {scope, scope, code_.u32(semantics)});
}

}  // namespace quern::vulkan

#include "quern/backend/vulkan/module.h"

#include <algorithm>
#include <cstring>

#include "quern/backend/vulkan/newer_spirv.h"
#include "quern/support/check.h"

namespace quern::vulkan {
namespace {

constexpr std::uint32_t kMagic = 0x07230203, kVersion = 0x00010500;

std::vector<std::uint32_t> text(std::string_view characters) {
    std::vector<std::uint32_t> words(characters.size() / 4 + 1);
    std::memcpy(words.data(), characters.data(), characters.size());
    return words;
}

}  // namespace

void Module::append(Words& section, spv::Op op, std::initializer_list<std::uint32_t> operands,
                    std::span<const std::uint32_t> more) {
    const std::size_t count = 1 + operands.size() + more.size();
    section.push_back(std::uint32_t(count) << 16 | std::uint32_t(op));
    section.insert(section.end(), operands);
    section.insert(section.end(), more.begin(), more.end());
}

Module::Made::Made(std::uint32_t op, std::span<const std::uint32_t> operands)
    : count(std::uint32_t(operands.size() + 1)) {
    QUERN_CHECK(count <= words.size(), "a type of few parts");
    words[0] = op;
    std::ranges::copy(operands, words.begin() + 1);
}

std::size_t Module::HashOfMade::operator()(const Made& made) const noexcept {
    // FNV-1a, by words.
    std::uint64_t hash = 0xcbf29ce484222325;
    for (std::uint32_t i = 0; i < made.count; ++i) hash = (hash ^ made.words[i]) * 0x100000001b3;
    return std::size_t(hash ^ hash >> 32);
}

Id& Module::made(spv::Op op, std::span<const std::uint32_t> operands) {
    return made_[Made(std::uint32_t(op), operands)];
}

void Module::capability(spv::Capability capability) {
    if (std::ranges::find(has_, capability) != has_.end()) return;
    has_.push_back(capability);
    append(capabilities_, spv::Op::OpCapability, {std::uint32_t(capability)});
}

void Module::extension(std::string_view name) {
    const Words name_words = text(name);
    Id& is_there = made(spv::Op::OpExtension, name_words);
    if (is_there == 0) append(extensions_, spv::Op::OpExtension, {}, name_words);
    is_there = 1;
}

void Module::memory_model(spv::AddressingModel addressing, spv::MemoryModel memory) {
    append(model_, spv::Op::OpMemoryModel, {std::uint32_t(addressing), std::uint32_t(memory)});
}

void Module::decorate(Id target, spv::Decoration decoration,
                      std::initializer_list<std::uint32_t> literals) {
    append(decorations_, spv::Op::OpDecorate, {target, std::uint32_t(decoration)},
           {literals.begin(), literals.size()});
}

void Module::decorate_member(Id structure, std::uint32_t member, spv::Decoration decoration,
                             std::uint32_t literal) {
    append(decorations_, spv::Op::OpMemberDecorate,
           {structure, member, std::uint32_t(decoration), literal});
}

Id Module::type(spv::Op op, std::initializer_list<std::uint32_t> operands) {
    Id& id = made(op, {operands.begin(), operands.size()});
    if (id != 0) return id;
    id = new_id();
    append(globals_, op, {id}, {operands.begin(), operands.size()});
    return id;
}

Id Module::constant(Id type, std::uint32_t bits, std::uint64_t value) {
    if (bits < 32) value &= (std::uint64_t{1} << bits) - 1;
    const spv::Op op = bits > 1     ? spv::Op::OpConstant
                       : value != 0 ? spv::Op::OpConstantTrue
                                    : spv::Op::OpConstantFalse;
    const std::array<std::uint32_t, 3> all = {type, std::uint32_t(value),
                                              std::uint32_t(value >> 32)};
    const std::size_t literals = bits > 32 ? 2 : bits > 1 ? 1 : 0;
    Id& id = made(op, {all.data(), 1 + literals});
    if (id != 0) return id;
    id = new_id();
    append(globals_, op, {type, id}, {all.data() + 1, literals});
    return id;
}

Id Module::matrix(Id element, const std::array<Id, 4>& how) {
    return type(spirv::kTypeCooperativeMatrix, {element, how[0], how[1], how[2], how[3]});
}

Id Module::choice(std::uint32_t number, Id type, std::uint32_t otherwise) {
    const Id id = constant_of(spv::Op::OpSpecConstant, type, {otherwise});
    decorate(id, spv::Decoration::SpecId, {number});
    return id;
}

Id Module::constant_of(spv::Op op, Id type, std::initializer_list<std::uint32_t> operands) {
    const Id id = new_id();
    append(globals_, op, {type, id}, {operands.begin(), operands.size()});
    return id;
}

Id Module::global(spv::StorageClass storage, Id type) {
    const Id to = pointer(storage, type);
    const Id id = new_id();
    append(globals_, spv::Op::OpVariable, {to, id, std::uint32_t(storage)});
    return id;
}

Id Module::instructions(std::string_view set) {
    const Words name = text(set);
    Id& id = made(spv::Op::OpExtInstImport, name);
    if (id != 0) return id;
    id = new_id();
    append(imports_, spv::Op::OpExtInstImport, {id}, name);
    return id;
}

void Module::begin(Id function) {
    const Id result = void_type();
    append(head_, spv::Op::OpFunction,
           {result, function, std::uint32_t(spv::FunctionControlMask::MaskNone),
            function_type(result)});
    block_ = new_id();
    append(head_, spv::Op::OpLabel, {block_});
}

void Module::end() { statement(spv::Op::OpFunctionEnd, {}); }

Id Module::op(spv::Op op, Id type, std::initializer_list<std::uint32_t> operands) {
    const Id id = new_id();
    append(code_, op, {type, id}, {operands.begin(), operands.size()});
    return id;
}

Id Module::op(spv::Op op, Id type, const Words& operands) {
    const Id id = new_id();
    append(code_, op, {type, id}, operands);
    return id;
}

void Module::label(Id label) {
    statement(spv::Op::OpLabel, {label});
    block_ = label;
}

Id Module::variable(Id type) {
    const auto storage = spv::StorageClass::Function;
    const Id to = pointer(storage, type);
    const Id id = new_id();
    append(variables_, spv::Op::OpVariable, {to, id, std::uint32_t(storage)});
    return id;
}

void Module::entry_point(Id function, std::string_view name, const std::vector<Id>& interface) {
    Words operands{std::uint32_t(spv::ExecutionModel::GLCompute), function};
    const Words characters = text(name);
    operands.insert(operands.end(), characters.begin(), characters.end());
    operands.insert(operands.end(), interface.begin(), interface.end());
    append(entries_, spv::Op::OpEntryPoint, {}, operands);
}

void Module::execution_mode(Id function, spv::ExecutionMode mode,
                            std::initializer_list<std::uint32_t> literals) {
    append(modes_, spv::Op::OpExecutionMode, {function, std::uint32_t(mode)},
           {literals.begin(), literals.size()});
}

std::vector<std::uint32_t> Module::words() const {
    Words all{kMagic, kVersion, 0, next_, 0};
    for (const Words* section : {&capabilities_, &extensions_, &imports_, &model_, &entries_,
                                 &modes_, &decorations_, &globals_, &head_, &variables_, &code_}) {
        all.insert(all.end(), section->begin(), section->end());
    }
    return all;
}

}  // namespace quern::vulkan

#include "quern/backend/vulkan/module.h"

#include <cstring>
#include <utility>

#include "quern/backend/vulkan/newer_spirv.h"

namespace quern::vulkan {
namespace {

constexpr std::uint32_t kMagic = 0x07230203, kVersion = 0x00010500;

std::vector<std::uint32_t> text(std::string_view characters) {
    std::vector<std::uint32_t> words(characters.size() / 4 + 1);
    std::memcpy(words.data(), characters.data(), characters.size());
    return words;
}

}  // namespace

void Module::append(Words& section, spv::Op op, const Words& operands) {
    section.push_back(std::uint32_t(operands.size() + 1) << 16 | std::uint32_t(op));
    section.insert(section.end(), operands.begin(), operands.end());
}

void Module::append(Words& section, spv::Op op, std::initializer_list<std::uint32_t> operands) {
    section.push_back(std::uint32_t(operands.size() + 1) << 16 | std::uint32_t(op));
    section.insert(section.end(), operands.begin(), operands.end());
}

void Module::capability(spv::Capability capability) {
    bool& has = has_[capability];
    if (!has) append(capabilities_, spv::Op::OpCapability, {std::uint32_t(capability)});
    has = true;
}

void Module::extension(std::string_view name) {
    Words key{std::uint32_t(spv::Op::OpExtension)};
    const Words name_words = text(name);
    key.insert(key.end(), name_words.begin(), name_words.end());
    if (made_.emplace(std::move(key), 0).second) {
        append(extensions_, spv::Op::OpExtension, name_words);
    }
}

void Module::memory_model(spv::AddressingModel addressing, spv::MemoryModel memory) {
    append(model_, spv::Op::OpMemoryModel, {std::uint32_t(addressing), std::uint32_t(memory)});
}

void Module::decorate(Id target, spv::Decoration decoration,
                      std::initializer_list<std::uint32_t> literals) {
    Words operands{target, std::uint32_t(decoration)};
    operands.insert(operands.end(), literals);
    append(decorations_, spv::Op::OpDecorate, operands);
}

void Module::decorate_member(Id structure, std::uint32_t member, spv::Decoration decoration,
                             std::uint32_t literal) {
    append(decorations_, spv::Op::OpMemberDecorate,
           {structure, member, std::uint32_t(decoration), literal});
}

Id Module::type(spv::Op op, std::initializer_list<std::uint32_t> operands) {
    Words key{std::uint32_t(op)};
    key.insert(key.end(), operands);
    Id& id = made_[key];
    if (id != 0) return id;
    id = new_id();
    Words all{id};
    all.insert(all.end(), operands);
    append(globals_, op, all);
    return id;
}

Id Module::constant(Id type, std::uint32_t bits, std::uint64_t value) {
    if (bits < 32) value &= (std::uint64_t{1} << bits) - 1;
    const spv::Op op = bits > 1     ? spv::Op::OpConstant
                       : value != 0 ? spv::Op::OpConstantTrue
                                    : spv::Op::OpConstantFalse;
    Words literals;
    if (bits > 1) literals.push_back(std::uint32_t(value));
    if (bits > 32) literals.push_back(std::uint32_t(value >> 32));
    Words key{std::uint32_t(op), type};
    key.insert(key.end(), literals.begin(), literals.end());
    Id& id = made_[key];
    if (id != 0) return id;
    id = new_id();
    Words all{type, id};
    all.insert(all.end(), literals.begin(), literals.end());
    append(globals_, op, all);
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
    Words all{type, id};
    all.insert(all.end(), operands);
    append(globals_, op, all);
    return id;
}

Id Module::global(spv::StorageClass storage, Id type) {
    const Id to = pointer(storage, type);
    const Id id = new_id();
    append(globals_, spv::Op::OpVariable, {to, id, std::uint32_t(storage)});
    return id;
}

Id Module::instructions(std::string_view set) {
    Words key{std::uint32_t(spv::Op::OpExtInstImport)};
    const Words name = text(set);
    key.insert(key.end(), name.begin(), name.end());
    Id& id = made_[key];
    if (id != 0) return id;
    id = new_id();
    Words all{id};
    all.insert(all.end(), name.begin(), name.end());
    append(imports_, spv::Op::OpExtInstImport, all);
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
    code_.push_back(std::uint32_t(operands.size() + 3) << 16 | std::uint32_t(op));
    code_.push_back(type);
    code_.push_back(id);
    code_.insert(code_.end(), operands);
    return id;
}

Id Module::op(spv::Op op, Id type, const Words& operands) {
    const Id id = new_id();
    Words all{type, id};
    all.insert(all.end(), operands.begin(), operands.end());
    append(code_, op, all);
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
    append(entries_, spv::Op::OpEntryPoint, operands);
}

void Module::execution_mode(Id function, spv::ExecutionMode mode,
                            std::initializer_list<std::uint32_t> literals) {
    Words operands{function, std::uint32_t(mode)};
    operands.insert(operands.end(), literals);
    append(modes_, spv::Op::OpExecutionMode, operands);
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

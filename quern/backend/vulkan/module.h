#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <spirv/unified1/spirv.hpp11>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quern::vulkan {

using Id = std::uint32_t;

/// Before the first instruction of a module, and which of them is above every id.
inline constexpr std::size_t kHeaderWords = 5, kBoundWord = 3;

/// A SPIR-V module with one function, written word by word. Types and constants are made once; the
/// same calls give the same words.
class Module {
public:
    using Words = std::vector<std::uint32_t>;

    void capability(spv::Capability capability);
    void extension(std::string_view name);
    void memory_model(spv::AddressingModel addressing, spv::MemoryModel memory);
    void decorate(Id target, spv::Decoration decoration,
                  std::initializer_list<std::uint32_t> literals = {});
    void decorate_member(Id structure, std::uint32_t member, spv::Decoration decoration,
                         std::uint32_t literal);

    Id void_type() { return type(spv::Op::OpTypeVoid, {}); }
    Id boolean() { return type(spv::Op::OpTypeBool, {}); }
    /// Without a sign: operations say how they read it.
    Id integer(std::uint32_t bits) { return type(spv::Op::OpTypeInt, {bits, 0}); }
    Id real(std::uint32_t bits) { return type(spv::Op::OpTypeFloat, {bits}); }
    Id vector(Id element, std::uint32_t count) {
        return type(spv::Op::OpTypeVector, {element, count});
    }
    Id array(Id element, Id count) { return type(spv::Op::OpTypeArray, {element, count}); }
    /// Of as many elements as the memory behind it has.
    Id array(Id element) { return type(spv::Op::OpTypeRuntimeArray, {element}); }
    Id pointer(spv::StorageClass storage, Id to) {
        return type(spv::Op::OpTypePointer, {std::uint32_t(storage), to});
    }
    Id structure(std::initializer_list<Id> members) { return type(spv::Op::OpTypeStruct, members); }
    /// Of a scope, by so many rows and columns, for one use; all four are constants.
    Id matrix(Id element, const std::array<Id, 4>& how);
    Id function_type(Id result) { return type(spv::Op::OpTypeFunction, {result}); }

    /// A number of `bits` bits (1 is a bool) from its own bits.
    Id constant(Id type, std::uint32_t bits, std::uint64_t value);
    /// A number of 32 bits that whoever makes a pipeline may choose.
    Id choice(std::uint32_t number, Id type, std::uint32_t otherwise);
    /// Of constants and choices.
    Id constant_of(spv::Op op, Id type, std::initializer_list<std::uint32_t> operands);
    Id global(spv::StorageClass storage, Id type);
    Id instructions(std::string_view set);

    /// Opens the one function, and its first block.
    void begin(Id function);
    void end();

    Id new_id() { return next_++; }

    /// An instruction that gives a value.
    Id op(spv::Op op, Id type, std::initializer_list<std::uint32_t> operands);
    Id op(spv::Op op, Id type, const Words& operands);
    void statement(spv::Op op, std::initializer_list<std::uint32_t> operands) {
        append(code_, op, operands);
    }
    void statement(spv::Op op, const Words& operands) { append(code_, op, {}, operands); }
    void label(Id label);
    /// The block that is being written.
    Id block() const { return block_; }
    /// A variable of the function.
    Id variable(Id type);

    /// `interface`: the globals that the function uses.
    void entry_point(Id function, std::string_view name, const std::vector<Id>& interface);
    void execution_mode(Id function, spv::ExecutionMode mode,
                        std::initializer_list<std::uint32_t> literals);

    std::vector<std::uint32_t> words() const;

private:
    Id type(spv::Op op, std::initializer_list<std::uint32_t> operands);
    static void append(Words& section, spv::Op op, std::initializer_list<std::uint32_t> operands,
                       std::span<const std::uint32_t> more = {});

    /// What a type, a constant or an extension is made of: its instruction and operands.
    struct Made {
        std::array<std::uint32_t, 12> words{};
        std::uint32_t count = 0;

        Made(std::uint32_t op, std::span<const std::uint32_t> operands);
        bool operator==(const Made&) const = default;
    };
    struct HashOfMade {
        std::size_t operator()(const Made& made) const noexcept;
    };

    /// The id of what was made so before, or a new one's place, which holds 0.
    Id& made(spv::Op op, std::span<const std::uint32_t> operands);

    Words capabilities_, extensions_, imports_, model_, entries_, modes_, decorations_, globals_;
    Words head_, variables_, code_;
    std::unordered_map<Made, Id, HashOfMade> made_;
    std::vector<spv::Capability> has_;
    Id next_ = 1;
    Id block_ = 0;
};

}  // namespace quern::vulkan

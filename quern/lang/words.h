#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// The words that the language itself knows, and the one table in which an identifier is looked up
// while it is lexed. All of it is constexpr: the same table serves both doors.

namespace quern::lang {

/// Words by name. Functions and dtypes follow them in the table; see `kFirstFunction`.
enum class Word : std::uint16_t {
    None,
    // May not be declared.
    And,
    Or,
    Not,
    In,
    If,
    Else,
    For,
    Yield,
    // Contextual.
    Return,
    Let,
    Var,
    Shared,
    Step,
    Compute,
    Out,
    Config,
    Pipeline,
    Await,
    Timeout,
    // Decorators. `shared` is one, too.
    Kernel,
    Workgroup,
    Tile,
    Broadcast,
    Device,
    Async,
    Parallel,
    // What stands in their arguments, and `range`, which only other languages have.
    Data,
    Model,
    Axis,
    Range,
    Elementwise,
    Reduce,
    Matmul,
    BatchedMatmul,
    Conv2d,
    Conv2dDepthwise,
    Attention,
    FlashAttention,
    Fused,
    Custom,
    Min,
    Max,
    Argmin,
    Argmax,
};

struct WordInfo {
    std::string_view text;
    /// Arguments of a function, at least and at most; 0, 0 and not a function elsewhere.
    std::int8_t least = 0;
    std::int8_t most = 0;
    bool is_function = false;
    bool is_dtype = false;
};

/// In the order of `Word`; then functions, then dtypes. `min`, `max` and `reduce` are words with a
/// use of their own and functions, so a function is looked for in the whole table.
inline constexpr WordInfo kWords[] = {
    {""},
    {"and"},
    {"or"},
    {"not"},
    {"in"},
    {"if"},
    {"else"},
    {"for"},
    {"yield"},
    {"return"},
    {"let"},
    {"var"},
    {"shared"},
    {"step"},
    {"compute"},
    {"out"},
    {"config"},
    {"pipeline"},
    {"await"},
    {"timeout"},
    {"kernel"},
    {"workgroup"},
    {"tile"},
    {"broadcast"},
    {"device"},
    {"async"},
    {"parallel"},
    {"data"},
    {"model"},
    {"axis"},
    {"range"},
    {"elementwise"},
    {"reduce"},
    {"matmul"},
    {"batched_matmul"},
    {"conv2d"},
    {"conv2d_depthwise"},
    {"attention"},
    {"flash_attention"},
    {"fused"},
    {"custom"},
    {"min"},
    {"max"},
    {"argmin"},
    {"argmax"},
#define UNARY(name, op, operand, value) {#name, 1, 1, true},
#define BINARY(name, op, value) {#name, 2, 2, true},
#define SPECIAL(name, least, most) {#name, least, most, true},
#include "quern/lang/functions.def"
    {"bool", 1, 1, true, true},
    {"int8", 1, 1, true, true},
    {"int16", 1, 1, true, true},
    {"int32", 1, 1, true, true},
    {"int64", 1, 1, true, true},
    {"uint8", 1, 1, true, true},
    {"uint16", 1, 1, true, true},
    {"uint32", 1, 1, true, true},
    {"uint64", 1, 1, true, true},
    {"float16", 1, 1, true, true},
    {"bfloat16", 1, 1, true, true},
    {"float32", 1, 1, true, true},
    {"float64", 1, 1, true, true},
    {"float8_e4m3", 1, 1, true, true},
    {"float8_e5m2", 1, 1, true, true},
    {"i8", 1, 1, true, true},
    {"i16", 1, 1, true, true},
    {"i32", 1, 1, true, true},
    {"i64", 1, 1, true, true},
    {"u8", 1, 1, true, true},
    {"u16", 1, 1, true, true},
    {"u32", 1, 1, true, true},
    {"u64", 1, 1, true, true},
    {"f16", 1, 1, true, true},
    {"bf16", 1, 1, true, true},
    {"f32", 1, 1, true, true},
    {"f64", 1, 1, true, true},
    {"f8_e4m3", 1, 1, true, true},
    {"f8_e5m2", 1, 1, true, true},
};

inline constexpr std::uint16_t kWordCount = sizeof(kWords) / sizeof(kWords[0]);
inline constexpr std::uint16_t kLastReserved = static_cast<std::uint16_t>(Word::Yield);

/// FNV-1a, one step.
inline constexpr std::uint32_t kHashSeed = 2166136261u;
inline constexpr std::uint32_t kHashPrime = 16777619u;

constexpr std::uint32_t hash_of(std::string_view text) {
    std::uint32_t hash = kHashSeed;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kHashPrime;
    return hash;
}

/// Open addressing over the words' hashes. 0 is an empty slot.
struct WordTable {
    static constexpr std::uint32_t kSlots = 512;
    std::uint16_t slots[kSlots]{};
    std::uint32_t hashes[kWordCount]{};

    /// Properties by id, with what the rows of one word say taken together (`max` has two).
    bool is_function[kWordCount]{};
    std::int8_t least[kWordCount]{};
    std::int8_t most[kWordCount]{};

    constexpr WordTable() {
        for (std::uint16_t id = 1; id < kWordCount; ++id) {
            const WordInfo& word = kWords[id];
            const std::uint32_t hash = hash_of(word.text);
            std::uint32_t slot = hash % kSlots;
            while (slots[slot] != 0 && hashes[slots[slot]] != hash) slot = (slot + 1) % kSlots;
            if (slots[slot] == 0) {
                slots[slot] = id;
                hashes[id] = hash;
            }
            const std::uint16_t first = slots[slot];
            if (word.is_function) {
                is_function[first] = true;
                least[first] = word.least;
                most[first] = word.most;
            }
        }
    }
};

inline constexpr WordTable kWordTable;

/// The functions of one scalar or tile, which a kernel's result may be piped into.
inline constexpr std::string_view kUnaryFunctions[] = {
#define UNARY(name, op, operand, value) #name,
#include "quern/lang/functions.def"
    "relu", "sigmoid", "isnan"};

constexpr bool is_unary_function(std::string_view name) {
    for (const std::string_view each : kUnaryFunctions) {
        if (each == name) return true;
    }
    return false;
}

/// Two words of one hash would be taken for one.
constexpr bool words_are_distinct() {
    for (std::uint16_t id = 1; id < kWordCount; ++id) {
        std::uint32_t slot = hash_of(kWords[id].text) % WordTable::kSlots;
        while (kWordTable.hashes[kWordTable.slots[slot]] != hash_of(kWords[id].text)) {
            slot = (slot + 1) % WordTable::kSlots;
        }
        if (kWords[kWordTable.slots[slot]].text != kWords[id].text) return false;
    }
    return true;
}

constexpr bool is_reserved(std::uint32_t id) { return id - 1 < kLastReserved; }

/// Whether no operand and no argument can be called so: it is reserved, is a value in every kernel,
/// or waits in every script.
constexpr bool is_taken(std::string_view name) {
    for (std::uint32_t id = 1; is_reserved(id); ++id) {
        if (kWords[id].text == name) return true;
    }
    return name == "out" || name == "inf" || name == "await";
}

}  // namespace quern::lang

#pragma once

#include <cstdint>

#include "quern/lang/issue.h"
#include "quern/lang/token.h"

namespace quern::lang {

/// Brackets, indented blocks and loops that may be open at once; axes of an operand.
inline constexpr int kMaxDepth = 40;

/// Nodes from the root of an expression to its farthest leaf, so that what walks a tree by
/// recursion is safe with long chains like a + b + c + ..., too.
inline constexpr int kMaxHeight = 1000;

/// A name of the text, or a dotted path of names.
struct NameEntry {
    std::uint32_t hash;
    /// Where it stands first; of a path, the name of its front part.
    std::uint32_t begin;
    /// In bytes; of a path, the name of its last part plus kPath.
    std::uint32_t length;
    /// The next entry of its bucket, or 0.
    std::uint32_t next;

    static constexpr std::uint32_t kPath = 0x80000000u;
};

enum class BindingKind : std::uint8_t { None, Operand, Out, Loop, Let, Var, Shared };

/// What a name stands for from its declaration to the end of its block.
struct Binding {
    BindingKind kind;
    /// Hides another of the same kernel, and W0701 has to say so.
    bool shadows;
    std::uint32_t name;
    /// The binding of the same name around it, or 0.
    std::uint32_t outer;
    /// The number of its block.
    std::uint32_t block;
    Span span;
};

/// The memory of one parse, given by the caller; see Capacity.
struct Workspace {
    const char* text = nullptr;
    std::uint32_t size = 0;

    Token* tokens = nullptr;
    Node* nodes = nullptr;
    std::uint32_t node_capacity = 0;

    /// Of every Name node: its name; 0 elsewhere.
    std::uint32_t* node_names = nullptr;

    /// Entry 0 is unused. Names from kWordCount on are entries: name - kWordCount + 1.
    NameEntry* names = nullptr;

    /// Zero at first: the first entry of each bucket. Their number is a power of two.
    std::uint32_t* buckets = nullptr;
    std::uint32_t bucket_mask = 0;

    /// Entry 0 is unused.
    Binding* bindings = nullptr;

    /// Zero at first: of each name, its innermost binding.
    std::uint32_t* bound = nullptr;
};

/// How much of each a text of `size` bytes can need: at most one token a byte, but for dedents, of
/// which there is one to each line that begins with white space.
struct Capacity {
    std::uint32_t tokens;
    std::uint32_t nodes;
    std::uint32_t names;
    std::uint32_t buckets;
    std::uint32_t bindings;
    std::uint32_t bound;

    constexpr explicit Capacity(std::uint32_t size)
        : tokens(size + size / 4 + 16),
          nodes(2 * size + 64),
          names(size + 16),
          buckets(16),
          bindings(size + 16),
          bound(kWordCount + size + 16) {
        while (buckets < size / 8) buckets *= 2;
    }
};

/// The texts that are parsed have at most this many bytes.
inline constexpr std::uint32_t kMaxTextSize = 1u << 25;

}  // namespace quern::lang

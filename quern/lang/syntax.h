#pragma once

#include <cstdint>
#include <string_view>

namespace quern::lang {

/// A piece of the source text, in bytes.
struct Span {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;

    constexpr bool operator==(const Span&) const = default;
    constexpr std::uint32_t end() const { return begin + length; }
};

/// What a node is, with its children in order. `Empty` stands for an optional child that is absent,
/// so that a child's position says what it means.
enum class Kind : std::uint8_t {
    Empty,
    // Expressions.
    Int,
    Float,
    Quantity,
    String,
    Name,
    ReduceOp,  // '+', '*', 'and', 'or' as an argument; 'min' and 'max' are Names
    Unary,     // operand; op is Neg or Not
    Binary,    // left, right
    Pipe,      // value, Call
    Call,      // Name, argument..., Decorator...
    NamedArg,  // Name, value
    Member,    // object, Name
    Index,     // object, subscript...
    Slice,     // begin | Empty, end | Empty, step | Empty
    Tuple,     // element...
    List,      // element...
    Await,     // future, timeout | Empty, otherwise | Empty
    Compute,   // Operands, Decorators (header), Decorators (body), Block
    // Parts of compute.
    Operands,    // Operand...
    Operand,     // alias Name | Empty, expression, Dims | Empty
    Dims,        // expression...
    Decorators,  // Decorator...
    Decorator,   // Name, argument...
    // Statements.
    Block,     // statement...
    For,       // Loop..., Block
    Loop,      // Name, begin, end, step | Empty
    If,        // condition, Block, Block | If | Empty
    Yield,     // value (a Tuple for a pair)
    Shared,    // Name, Dims, type Name | Empty
    Decl,      // Name | Tuple of Names, type Name | Empty, value; op is Let or Var
    Assign,    // target, value; op is Set, AddSet, SubSet, MulSet or DivSet
    ExprStmt,  // expression
    Ellipsis,
    // Host level.
    Script,    // statement...
    Config,    // Setting...
    Setting,   // Name, value
    Pipeline,  // Name, Params, Type | Empty, Block
    Params,    // Param...
    Param,     // Name, Type
    Type,      // Name, (Name | Int | Unknown)...
    Unknown,   // '?'
    Return,    // value
};

enum class Op : std::uint8_t {
    None,
    Neg,
    Not,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    MatMul,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
    Let,
    Var,
    Set,
    AddSet,
    SubSet,
    MulSet,
    DivSet,
};

/// Index of a node in its tree; none is -1.
using NodeId = std::int32_t;

/// One node of the syntax tree. Nodes lie in one array; children are a linked list.
struct Node {
    Kind kind = Kind::Empty;
    Op op = Op::None;

    /// The text it was read from. For a Name, the name; for a String, with its quotes.
    Span span;
    NodeId first = -1;
    NodeId next = -1;
};

/// A syntax tree over a text that outlives it.
struct Tree {
    std::string_view text;
    const Node* nodes = nullptr;
    std::uint32_t count = 0;
    NodeId root = -1;

    constexpr const Node& operator[](NodeId id) const { return nodes[id]; }
    constexpr std::string_view text_of(NodeId id) const {
        return text.substr(nodes[id].span.begin, nodes[id].span.length);
    }

    /// The n-th child, or -1.
    constexpr NodeId child(NodeId id, int n) const {
        NodeId c = nodes[id].first;
        while (n-- > 0 && c >= 0) c = nodes[c].next;
        return c;
    }
    constexpr int child_count(NodeId id) const {
        int n = 0;
        for (NodeId c = nodes[id].first; c >= 0; c = nodes[c].next) ++n;
        return n;
    }
};

}  // namespace quern::lang

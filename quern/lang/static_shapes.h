#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "quern/lang/compile_time.h"

// Dimensions of a kernel against operands whose types carry their shapes, while C++ compiles:
// declared extents, and of axes that have none indices that are loop variables over 0..E and slices
// v:v+s with v in 0..E step s. What may be skipped, by an `if`, `select`, `and` or `or`, or has
// another form is left to the run time.

namespace quern {

/// The shape of an operand as far as its type tells it; -1 is an extent that it does not tell.
template <std::int64_t... Extents>
struct StaticShape {
    static constexpr int kRank = sizeof...(Extents);
    static constexpr std::int64_t kExtents[sizeof...(Extents) + 1] = {Extents..., -1};
};

/// The shape of an operand whose type does not tell it.
struct AnyShape {
    static constexpr int kRank = -1;
    static constexpr std::int64_t kExtents[1] = {-1};
};

/// A name, for a compiler's message.
template <char... Letters>
struct dimension {};

/// The operands give a dimension of the kernel two values. `Line` and `Column` are those of the
/// second one's source in the text.
template <class Dimension, std::int64_t First, std::int64_t Second, int Line, int Column>
struct dimension_has_two_values {
    static_assert(
        First == Second,
        "the operands' shapes disagree: see the dimension, its two values, line and column "
        "in dimension_has_two_values<...>");
    static constexpr bool ok = true;
};

namespace lang {

/// What check_shapes found: a dimension with two values, or First == Second.
struct StaticCheck {
    std::int64_t first = 0;
    std::int64_t second = 0;
    Span name;
    int line = 0;
    int column = 0;
};

struct KnownShape {
    int rank = -1;
    const std::int64_t* extents = nullptr;
};

/// Walks the tree of a kernel without errors.
class ShapeChecker {
public:
    constexpr ShapeChecker(const Tree& tree, const std::uint32_t* names, const KnownShape* shapes,
                           int count)
        : tree_(tree), names_(names), shapes_(shapes), count_(count) {}

    constexpr StaticCheck run(NodeId compute);

private:
    static constexpr int kScopes = 128;
    static constexpr int kDims = 64;
    static constexpr int kGuards = 64;

    /// A local name: a loop variable over 0..end, or anything else (end is -1).
    struct Scope {
        std::uint32_t name;
        NodeId end;
        NodeId step;
        std::uint32_t until;
    };
    struct Dim {
        NodeId name;
        std::int64_t value;
    };

    constexpr bool same_text(NodeId a, NodeId b) const {
        return tree_.text_of(a) == tree_.text_of(b);
    }
    constexpr void open(NodeId node);
    constexpr void leave(std::uint32_t begin);
    constexpr const Scope* find(NodeId name) const;
    constexpr void note_guard(NodeId node);
    constexpr bool is_guarded(std::uint32_t begin) const;
    constexpr NodeId operand_of(NodeId object, int& position) const;
    constexpr void index(NodeId node);
    constexpr NodeId extent_of(NodeId subscript) const;
    constexpr void bind(NodeId extent, std::int64_t value, NodeId place);
    constexpr bool is_zero(NodeId node) const { return tree_.text_of(node) == "0"; }

    const Tree& tree_;
    const std::uint32_t* names_;
    const KnownShape* shapes_;
    int count_;
    NodeId operands_ = -1;
    Scope scopes_[kScopes] = {};
    int scope_count_ = 0;
    std::uint32_t block_ends_[2 * kMaxDepth + 2] = {};
    int block_count_ = 0;
    Span guards_[kGuards] = {};
    int guard_count_ = 0;
    Dim dims_[kDims] = {};
    int dim_count_ = 0;
    StaticCheck result_;
};

constexpr StaticCheck ShapeChecker::run(NodeId compute) {
    operands_ = tree_.child(compute, 0);
    int position = 0;
    for (NodeId o = tree_[operands_].first; o >= 0; o = tree_[o].next, ++position) {
        const NodeId extents = tree_.child(o, 2);
        if (position >= count_ || tree_[extents].kind != Kind::Dims) continue;
        int axis = 0;
        for (NodeId e = tree_[extents].first; e >= 0; e = tree_[e].next, ++axis) {
            if (axis < shapes_[position].rank) bind(e, shapes_[position].extents[axis], e);
        }
    }
    // Ids rise through the text: what lies in a block has ids behind the block's.
    const NodeId body = tree_.child(compute, 3);
    const std::uint32_t end = tree_[body].span.end();
    for (NodeId id = body; id < static_cast<NodeId>(tree_.count); ++id) note_guard(id);
    for (NodeId id = body; id < static_cast<NodeId>(tree_.count); ++id) {
        const Span span = tree_[id].span;
        if (span.begin >= end || result_.first != result_.second) break;
        open(id);
    }
    return result_;
}

constexpr void ShapeChecker::leave(std::uint32_t begin) {
    while (scope_count_ > 0 && scopes_[scope_count_ - 1].until <= begin) --scope_count_;
    while (block_count_ > 0 && block_ends_[block_count_ - 1] <= begin) --block_count_;
}

constexpr void ShapeChecker::open(NodeId id) {
    const Node& node = tree_[id];
    switch (node.kind) {
        case Kind::Block:
            leave(node.span.begin);
            if (block_count_ <= 2 * kMaxDepth) block_ends_[block_count_++] = node.span.end();
            break;
        case Kind::For:
            leave(node.span.begin);
            for (NodeId l = node.first; tree_[l].kind == Kind::Loop; l = tree_[l].next) {
                const bool from_zero = is_zero(tree_.child(l, 1));
                const NodeId step = tree_.child(l, 3);
                if (scope_count_ == kScopes) return;
                scopes_[scope_count_++] =
                    Scope{names_[tree_[l].first], from_zero ? tree_.child(l, 2) : -1,
                          tree_[step].kind == Kind::Empty ? -1 : step, node.span.end()};
            }
            break;
        case Kind::Decl:
        case Kind::Shared:
            leave(node.span.begin);
            if (scope_count_ == kScopes || block_count_ == 0) return;
            scopes_[scope_count_++] =
                Scope{names_[node.first], -1, -1, block_ends_[block_count_ - 1]};
            break;
        case Kind::Index:
            leave(node.span.begin);
            if (!is_guarded(node.span.begin)) index(id);
            break;
        default:
            break;
    }
}

constexpr void ShapeChecker::note_guard(NodeId id) {
    const Node& node = tree_[id];
    const bool is_logical = node.kind == Kind::Binary && (node.op == Op::And || node.op == Op::Or);
    const bool is_select = node.kind == Kind::Call && tree_.text_of(node.first) == "select";
    if (node.kind != Kind::If && !is_logical && !is_select) return;
    if (guard_count_ < kGuards) {
        guards_[guard_count_++] = node.span;
    } else {
        guards_[0] = Span{0, ~std::uint32_t{0}};
    }
}

constexpr bool ShapeChecker::is_guarded(std::uint32_t begin) const {
    for (int i = 0; i < guard_count_; ++i) {
        if (guards_[i].begin <= begin && begin < guards_[i].end()) return true;
    }
    return false;
}

constexpr const ShapeChecker::Scope* ShapeChecker::find(NodeId name) const {
    for (int i = scope_count_ - 1; i >= 0; --i) {
        if (scopes_[i].name == names_[name]) return &scopes_[i];
    }
    return nullptr;
}

/// The operand with the name or path `object` and its position, or -1.
constexpr NodeId ShapeChecker::operand_of(NodeId object, int& position) const {
    const Kind kind = tree_[object].kind;
    if (kind != Kind::Name && kind != Kind::Member) return -1;
    if (kind == Kind::Name && find(object) != nullptr) return -1;
    position = 0;
    for (NodeId o = tree_[operands_].first; o >= 0; o = tree_[o].next, ++position) {
        const NodeId alias = tree_[o].first;
        const NodeId name = tree_[alias].kind == Kind::Name ? alias : tree_[alias].next;
        if (same_text(name, object)) return position < count_ ? o : -1;
    }
    return -1;
}

constexpr void ShapeChecker::index(NodeId node) {
    const NodeId object = tree_[node].first;
    int position = 0;
    const NodeId operand = operand_of(object, position);
    // An index over another dimension than the declared one reads a part of the axis.
    if (operand < 0 || tree_[tree_.child(operand, 2)].kind == Kind::Dims) return;
    const KnownShape& shape = shapes_[position];
    const int subscripts = tree_.child_count(node) - 1;
    if (subscripts > shape.rank) return;
    int axis = 0;
    for (NodeId s = tree_[object].next; s >= 0; s = tree_[s].next, ++axis) {
        const NodeId extent = extent_of(s);
        if (extent < 0) continue;
        // With one loop over len, indices of any rank are flat.
        if (tree_.text_of(extent) == "len" && shape.rank != 1) continue;
        bind(extent, shape.extents[axis], s);
    }
}

/// E, for a loop variable over 0..E, and for a slice v:v+s of one with the step s; else -1.
constexpr NodeId ShapeChecker::extent_of(NodeId subscript) const {
    const bool slice = tree_[subscript].kind == Kind::Slice;
    const NodeId variable = slice ? tree_[subscript].first : subscript;
    if (tree_[variable].kind != Kind::Name) return -1;
    const Scope* scope = find(variable);
    if (scope == nullptr || scope->end < 0) return -1;
    if (!slice) return scope->step < 0 ? scope->end : -1;
    if (scope->step < 0 || tree_[tree_.child(subscript, 2)].kind != Kind::Empty) return -1;
    const NodeId end = tree_.child(subscript, 1);
    if (tree_[end].kind != Kind::Binary || tree_[end].op != Op::Add) return -1;
    const NodeId left = tree_[end].first;
    const bool fits = tree_[left].kind == Kind::Name && same_text(left, variable) &&
                      same_text(tree_[left].next, scope->step);
    return fits ? scope->end : -1;
}

constexpr void ShapeChecker::bind(NodeId extent, std::int64_t value, NodeId place) {
    if (value < 0 || result_.first != result_.second) return;
    std::int64_t known = -1;
    if (tree_[extent].kind == Kind::Int) {
        known = 0;
        for (const char c : tree_.text_of(extent)) known = known * 10 + (c - '0');
    } else if (tree_[extent].kind == Kind::Name && find(extent) == nullptr) {
        for (int i = 0; i < dim_count_; ++i) {
            if (names_[dims_[i].name] == names_[extent]) known = dims_[i].value;
        }
        if (known < 0 && dim_count_ < kDims) dims_[dim_count_++] = Dim{extent, value};
    }
    if (known < 0 || known == value) return;
    result_ = StaticCheck{known, value, tree_[extent].span, 1, 1};
    for (std::uint32_t i = 0; i < tree_[place].span.begin; ++i) {
        ++result_.column;
        if (tree_.text[i] != '\n') continue;
        ++result_.line;
        result_.column = 1;
    }
}

/// Checks the one compute of a text without errors against the shapes of its operands.
template <std::uint32_t Size>
constexpr StaticCheck check_shapes(const char* text, const KnownShape* shapes, int count) {
    FixedBuffers<Size> buffers;
    const Workspace space = buffers.workspace(text, Size);
    Issues issues;
    const Parsed parsed = Parser(space, issues, false).run();
    const NodeId compute = only_compute(buffers.nodes, parsed.root);
    if (compute < 0 || issues.errors > 0) return {};
    const Tree tree{std::string_view(text, Size), buffers.nodes, parsed.node_count, parsed.root};
    return ShapeChecker(tree, buffers.node_names, shapes, count).run(compute);
}

template <class Text, class... Shapes>
constexpr StaticCheck check_shapes_of() {
    const KnownShape shapes[] = {{Shapes::kRank, Shapes::kExtents}..., {}};
    constexpr int kCount = sizeof...(Shapes);
    constexpr std::uint32_t kSize = static_cast<std::uint32_t>(Text::size());
    return check_shapes<kSize>(Text::data(), shapes, kCount);
}

template <class Text, std::uint32_t Begin, std::size_t... I>
constexpr dimension<Text::data()[Begin + I]...> dimension_at(std::index_sequence<I...>) {
    return {};
}

/// Stops the build if the shapes give a dimension two values. `Shapes` are StaticShape or AnyShape,
/// one for each operand.
template <class Text, class... Shapes>
constexpr void require_shapes() {
    if constexpr (((Shapes::kRank >= 0) || ...)) {
        constexpr StaticCheck kCheck = check_shapes_of<Text, Shapes...>();
        using Name = decltype(dimension_at<Text, kCheck.name.begin>(
            std::make_index_sequence<kCheck.name.length>()));
        static_assert(dimension_has_two_values<Name, kCheck.first, kCheck.second, kCheck.line,
                                               kCheck.column>::ok);
    }
}

}  // namespace lang
}  // namespace quern

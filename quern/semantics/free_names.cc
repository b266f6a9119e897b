#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "quern/semantics/request.h"

namespace quern::semantics {
namespace {

using lang::Kind;
using lang::NodeId;

/// The word behind @kernel, or -1.
NodeId kind_of(const lang::Tree& tree, NodeId compute) {
    for (NodeId d = tree[tree.child(compute, 2)].first; d >= 0; d = tree[d].next) {
        if (tree.text_of(tree[d].first) == "kernel") return tree[tree[d].first].next;
    }
    return -1;
}

/// The numbers that a kernel says itself, as conv2d(stride=2) does; the axis of a reduction is
/// none.
std::vector<std::string> given_by_kind(const lang::Tree& tree, NodeId compute) {
    std::vector<std::string> names;
    const NodeId kind = kind_of(tree, compute);
    if (kind < 0 || tree.text_of(kind) == "reduce") return names;
    for (NodeId a = tree[kind].next; a >= 0; a = tree[a].next) {
        if (tree[a].kind == Kind::NamedArg) names.emplace_back(tree.text_of(tree[a].first));
    }
    return names;
}

/// Reads a kernel from top to bottom, with what is declared where it stands.
class FreeNames {
public:
    explicit FreeNames(const lang::Tree& tree) : tree_(tree) {}

    std::set<std::string, std::less<>> of(NodeId compute) {
        bound_ = {"out", "inf"};
        const NodeId operands = tree_.child(compute, 0);
        for (NodeId o = tree_[operands].first; o >= 0; o = tree_[o].next) {
            bound_.push_back(operand_name(tree_, o));
        }
        for (NodeId o = tree_[operands].first; o >= 0; o = tree_[o].next) {
            each(tree_[tree_.child(o, 2)].first);
        }
        for (const int part : {1, 2}) {
            const NodeId decorators = tree_.child(compute, part);
            for (NodeId d = tree_[decorators].first; d >= 0; d = tree_[d].next) decorator(d);
        }
        // The value of one may still be the caller's, as in conv2d(stride=stride).
        for (std::string& name : given_by_kind(tree_, compute)) bound_.push_back(std::move(name));
        visit(tree_.child(compute, 3));
        return std::move(found_);
    }

private:
    void visit(NodeId id) {
        const lang::Node& node = tree_[id];
        switch (node.kind) {
            case Kind::Name: {
                std::string name(tree_.text_of(id));
                if (std::ranges::find(bound_, name) == bound_.end()) found_.insert(std::move(name));
                return;
            }
            case Kind::Call: {
                const NodeId first = tree_[node.first].next;
                // Behind it the operator.
                const bool reduces = first >= 0 && tree_.text_of(node.first) == "reduce";
                return each(reduces ? tree_[first].next : first);
            }
            case Kind::NamedArg:
                return each(tree_[node.first].next);
            case Kind::Member:
                // What it is a member of is no number.
                if (tree_[node.first].kind != Kind::Name) visit(node.first);
                return;
            case Kind::Decl:
                visit(tree_.child(id, 2));
                return bind(node.first);
            case Kind::Shared:
                visit(tree_.child(id, 1));
                return bind(node.first);
            case Kind::Loop:
                each(tree_[node.first].next);
                return bind(node.first);
            case Kind::Block:
            case Kind::For: {
                const std::size_t before = bound_.size();
                each(node.first);
                bound_.resize(before);
                return;
            }
            default:
                return each(node.first);
        }
    }

    void each(NodeId first) {
        for (NodeId id = first; id >= 0; id = tree_[id].next) visit(id);
    }

    void bind(NodeId name) {
        if (tree_[name].kind == Kind::Tuple) {
            for (NodeId id = tree_[name].first; id >= 0; id = tree_[id].next) bind(id);
        } else {
            bound_.emplace_back(tree_.text_of(name));
        }
    }

    /// Names that stand alone there are words, such as kinds and operators, but for numbers.
    void decorator(NodeId id) {
        const NodeId name = tree_[id].first;
        const std::string_view word = tree_.text_of(name);
        const bool has_numbers = word == "workgroup" || word == "shared";
        for (NodeId a = tree_[name].next; a >= 0; a = tree_[a].next) {
            if (tree_[a].kind != Kind::Name || has_numbers) visit(a);
        }
    }

    const lang::Tree& tree_;
    std::vector<std::string> bound_;
    std::set<std::string, std::less<>> found_;
};

}  // namespace

std::set<std::string, std::less<>> free_names(const lang::Tree& tree, NodeId compute) {
    return FreeNames(tree).of(compute);
}

std::set<std::string, std::less<>> names_of_kind(const lang::Tree& tree, NodeId compute) {
    const NodeId kind = kind_of(tree, compute);
    if (kind < 0 || tree.text_of(kind) != "conv2d") return {};
    std::set<std::string, std::less<>> names = {"stride", "padding"};
    for (const std::string& name : given_by_kind(tree, compute)) names.erase(name);
    return names;
}

}  // namespace quern::semantics

#include <utility>

#include "quern/lang/parse.h"

namespace quern::lang {
namespace {

/// How tightly an expression binds, loosest first.
enum Level { kPipe, kOr, kAnd, kNot, kCompare, kSum, kTerm, kUnary, kPostfix };

struct Spelling {
    std::string_view text;
    Level level;
};

Spelling spelling_of(Op op) {
    switch (op) {
        case Op::Add:
            return {" + ", kSum};
        case Op::Sub:
            return {" - ", kSum};
        case Op::Mul:
            return {" * ", kTerm};
        case Op::Div:
            return {" / ", kTerm};
        case Op::Rem:
            return {" % ", kTerm};
        case Op::MatMul:
            return {" @ ", kTerm};
        case Op::Less:
            return {" < ", kCompare};
        case Op::LessEqual:
            return {" <= ", kCompare};
        case Op::Greater:
            return {" > ", kCompare};
        case Op::GreaterEqual:
            return {" >= ", kCompare};
        case Op::Equal:
            return {" == ", kCompare};
        case Op::NotEqual:
            return {" != ", kCompare};
        case Op::And:
            return {" and ", kAnd};
        default:
            return {" or ", kOr};
    }
}

std::string_view assignment_text(Op op) {
    switch (op) {
        case Op::AddSet:
            return " += ";
        case Op::SubSet:
            return " -= ";
        case Op::MulSet:
            return " *= ";
        case Op::DivSet:
            return " /= ";
        default:
            return " = ";
    }
}

class Printer {
public:
    explicit Printer(const Tree& tree) : tree_(tree) {}

    std::string run() {
        if (tree_.root >= 0) statements(tree_.root);
        return std::move(text_);
    }

private:
    NodeId child(NodeId id, int n) const { return tree_.child(id, n); }
    Kind kind(NodeId id) const { return tree_[id].kind; }
    bool is_empty(NodeId id) const { return kind(id) == Kind::Empty; }

    void put(std::string_view text) { text_ += text; }
    void line_begin() { text_.append(indent_ * 4, ' '); }
    void leaf(NodeId id) { put(tree_.text_of(id)); }

    Level level_of(NodeId id) const {
        switch (kind(id)) {
            case Kind::Pipe:
                return kPipe;
            case Kind::Binary:
                return spelling_of(tree_[id].op).level;
            case Kind::Unary:
                return tree_[id].op == Op::Not ? kNot : kUnary;
            case Kind::Await:
                // With a time limit it reads on over the sums that follow.
                return is_empty(child(id, 1)) ? kUnary : kCompare;
            default:
                return kPostfix;
        }
    }

    void expression(NodeId id, Level least = kPipe) {
        const bool parentheses = level_of(id) < least;
        if (parentheses) put("(");
        bare(id);
        if (parentheses) put(")");
    }

    void bare(NodeId id);
    void target(NodeId id);
    void expression_statement(NodeId id);
    bool is_name(NodeId id, std::string_view text) const {
        return kind(id) == Kind::Name && tree_.text_of(id) == text;
    }
    void await(NodeId id);
    void slice(NodeId id);
    void list(NodeId first, Level level = kPipe);
    void leaves(NodeId first);
    void arguments(NodeId first);
    void decorator(NodeId id);
    void compute(NodeId id);
    void operand(NodeId id);
    void statements(NodeId block);
    void statement(NodeId id);
    void block(NodeId id);
    void for_statement(NodeId id);
    void if_statement(NodeId id);
    void declaration(NodeId id);
    void config(NodeId id);
    void pipeline(NodeId id);
    void type(NodeId id);

    const Tree& tree_;
    std::string text_;
    std::size_t indent_ = 0;
};

void Printer::bare(NodeId id) {
    const Node& node = tree_[id];
    switch (node.kind) {
        case Kind::Unary:
            put(node.op == Op::Not ? "not " : "-");
            expression(node.first, node.op == Op::Not ? kNot : kUnary);
            return;
        case Kind::Binary: {
            const Spelling op = spelling_of(node.op);
            // Comparisons do not chain; all other operators group to the left.
            const Level right = static_cast<Level>(op.level + 1);
            expression(node.first, op.level == kCompare ? right : op.level);
            put(op.text);
            expression(tree_[node.first].next, right);
            return;
        }
        case Kind::Pipe:
            expression(node.first, kPipe);
            put(" |> ");
            expression(tree_[node.first].next, kPostfix);
            return;
        case Kind::Name:
            // As a name, it was not written where it begins another expression.
            return put(is_name(id, "await") ? "(await)" : tree_.text_of(id));
        case Kind::Call:
            if (is_name(node.first, "compute")) {
                put("(compute)");
            } else {
                expression(node.first, kPostfix);
            }
            arguments(tree_[node.first].next);
            return;
        case Kind::NamedArg:
            leaf(node.first);
            put("=");
            expression(tree_[node.first].next);
            return;
        case Kind::Member:
            expression(node.first, kPostfix);
            put(".");
            leaf(tree_[node.first].next);
            return;
        case Kind::Index:
            expression(node.first, kPostfix);
            put("[");
            list(tree_[node.first].next);
            put("]");
            return;
        case Kind::Slice:
            return slice(id);
        case Kind::Tuple:
            put("(");
            list(node.first);
            put(")");
            return;
        case Kind::List:
            put("[");
            list(node.first);
            put("]");
            return;
        case Kind::Await:
            return await(id);
        case Kind::Compute:
            return compute(id);
        default:
            return leaf(id);
    }
}

void Printer::await(NodeId id) {
    put("await ");
    // The future is a postfix expression: not itself an await.
    expression(child(id, 0), kPostfix);
    const NodeId timeout = child(id, 1);
    const NodeId otherwise = child(id, 2);
    if (is_empty(timeout)) return;
    put(" timeout ");
    expression(timeout, kSum);
    if (is_empty(otherwise)) return;
    put(" else ");
    expression(otherwise, kSum);
}

void Printer::slice(NodeId id) {
    if (!is_empty(child(id, 0))) expression(child(id, 0));
    put(":");
    if (!is_empty(child(id, 1))) expression(child(id, 1));
    if (is_empty(child(id, 2))) return;
    put(":");
    expression(child(id, 2));
}

void Printer::list(NodeId first, Level level) {
    for (NodeId id = first; id >= 0; id = tree_[id].next) {
        if (id != first) put(", ");
        expression(id, level);
    }
}

void Printer::leaves(NodeId first) {
    for (NodeId id = first; id >= 0; id = tree_[id].next) {
        if (id != first) put(", ");
        leaf(id);
    }
}

/// In parentheses; then the decorators of a call.
void Printer::arguments(NodeId first) {
    put("(");
    NodeId id = first;
    for (; id >= 0 && kind(id) != Kind::Decorator; id = tree_[id].next) {
        if (id != first) put(", ");
        expression(id);
    }
    put(")");
    for (; id >= 0; id = tree_[id].next) {
        put(" ");
        decorator(id);
    }
}

void Printer::decorator(NodeId id) {
    const NodeId name = tree_[id].first;
    NodeId argument = tree_[name].next;
    put("@");
    leaf(name);
    if (tree_.text_of(name) == "kernel") {
        put(" ");
        leaf(argument);
        argument = tree_[argument].next;
    }
    if (argument >= 0) arguments(argument);
}

void Printer::operand(NodeId id) {
    const NodeId alias = child(id, 0);
    const NodeId extents = child(id, 2);
    if (!is_empty(alias)) {
        leaf(alias);
        put(" = ");
    }
    if (is_empty(alias) &&
        (kind(child(id, 1)) == Kind::Name || kind(child(id, 1)) == Kind::Member)) {
        target(child(id, 1));
    } else {
        expression(child(id, 1));
    }
    if (is_empty(extents)) return;
    put(": [");
    list(tree_[extents].first, kSum);
    put("]");
}

void Printer::compute(NodeId id) {
    const NodeId operands = child(id, 0);
    put("compute(");
    for (NodeId o = tree_[operands].first; o >= 0; o = tree_[o].next) {
        if (o != tree_[operands].first) put(", ");
        operand(o);
    }
    put(")");
    for (NodeId d = tree_[child(id, 1)].first; d >= 0; d = tree_[d].next) {
        put(" ");
        decorator(d);
    }
    put(" {\n");
    ++indent_;
    for (NodeId d = tree_[child(id, 2)].first; d >= 0; d = tree_[d].next) {
        line_begin();
        decorator(d);
        put("\n");
    }
    statements(child(id, 3));
    --indent_;
    line_begin();
    put("}");
}

void Printer::statements(NodeId block) {
    for (NodeId id = tree_[block].first; id >= 0; id = tree_[id].next) {
        line_begin();
        statement(id);
    }
}

void Printer::statement(NodeId id) {
    const Node& node = tree_[id];
    switch (node.kind) {
        case Kind::For:
            return for_statement(id);
        case Kind::If:
            return if_statement(id);
        case Kind::Pipeline:
            return pipeline(id);
        case Kind::Config:
            config(id);
            break;
        case Kind::Yield:
            put("yield ");
            expression(node.first);
            break;
        case Kind::Return:
            put("return ");
            expression(node.first);
            break;
        case Kind::Shared:
            put("shared var ");
            leaf(node.first);
            put("[");
            list(tree_[child(id, 1)].first, kSum);
            put("]");
            if (!is_empty(child(id, 2))) {
                put(": ");
                leaf(child(id, 2));
            }
            break;
        case Kind::Decl:
            declaration(id);
            break;
        case Kind::Assign:
            target(node.first);
            put(assignment_text(node.op));
            expression(child(id, 1));
            break;
        case Kind::Ellipsis:
            put("...");
            break;
        default:
            expression_statement(node.first);
            break;
    }
    put("\n");
}

/// ident { "." ident } [ index ].
void Printer::target(NodeId id) {
    const Node& node = tree_[id];
    if (node.kind == Kind::Name) return leaf(id);
    target(node.first);
    if (node.kind == Kind::Member) {
        put(".");
        return leaf(tree_[node.first].next);
    }
    put("[");
    list(tree_[node.first].next);
    put("]");
}

/// An expression that begins with a word that begins a statement is put in parentheses.
void Printer::expression_statement(NodeId id) {
    NodeId first = id;
    while (kind(first) != Kind::Name && kind(first) != Kind::Tuple && kind(first) != Kind::List &&
           kind(first) != Kind::Unary && kind(first) != Kind::Await &&
           kind(first) != Kind::Compute && tree_[first].first >= 0) {
        first = tree_[first].first;
    }
    const bool parentheses = is_name(first, "let") || is_name(first, "var") ||
                             is_name(first, "return") || is_name(first, "pipeline");
    if (parentheses) put("(");
    expression(id);
    if (parentheses) put(")");
}

/// From behind the header on: an empty block needs braces.
void Printer::block(NodeId id) {
    if (tree_[id].first < 0) return put(" { }\n");
    put(":\n");
    ++indent_;
    statements(id);
    --indent_;
}

void Printer::for_statement(NodeId id) {
    put("for ");
    NodeId loop = tree_[id].first;
    for (; kind(loop) == Kind::Loop; loop = tree_[loop].next) {
        if (loop != tree_[id].first) put(", ");
        leaf(child(loop, 0));
        put(" in ");
        expression(child(loop, 1), kSum);
        put("..");
        expression(child(loop, 2), kSum);
        if (is_empty(child(loop, 3))) continue;
        put(" step ");
        expression(child(loop, 3), kSum);
    }
    block(loop);
}

void Printer::if_statement(NodeId id) {
    while (true) {
        put("if ");
        expression(child(id, 0));
        block(child(id, 1));
        const NodeId otherwise = child(id, 2);
        if (is_empty(otherwise)) return;
        line_begin();
        put("else");
        if (kind(otherwise) == Kind::Block) return block(otherwise);
        put(" ");
        id = otherwise;
    }
}

void Printer::declaration(NodeId id) {
    put(tree_[id].op == Op::Let ? "let " : "var ");
    const NodeId names = child(id, 0);
    if (kind(names) == Kind::Name) {
        leaf(names);
    } else {
        put("(");
        leaves(tree_[names].first);
        put(")");
    }
    if (!is_empty(child(id, 1))) {
        put(": ");
        leaf(child(id, 1));
    }
    put(" = ");
    expression(child(id, 2));
}

void Printer::config(NodeId id) {
    put("config {\n");
    ++indent_;
    for (NodeId setting = tree_[id].first; setting >= 0; setting = tree_[setting].next) {
        line_begin();
        leaf(child(setting, 0));
        put(": ");
        expression(child(setting, 1));
        put("\n");
    }
    --indent_;
    line_begin();
    put("}");
}

void Printer::pipeline(NodeId id) {
    put("pipeline ");
    leaf(child(id, 0));
    put("(");
    const NodeId params = child(id, 1);
    for (NodeId param = tree_[params].first; param >= 0; param = tree_[param].next) {
        if (param != tree_[params].first) put(", ");
        leaf(child(param, 0));
        put(": ");
        type(child(param, 1));
    }
    put(")");
    if (!is_empty(child(id, 2))) {
        put(" -> ");
        type(child(id, 2));
    }
    block(child(id, 3));
}

void Printer::type(NodeId id) {
    const NodeId name = tree_[id].first;
    leaf(name);
    if (tree_[name].next < 0) return;
    put("[");
    leaves(tree_[name].next);
    put("]");
}

bool is_leaf_with_text(Kind kind) {
    return kind == Kind::Int || kind == Kind::Float || kind == Kind::Quantity ||
           kind == Kind::String || kind == Kind::Name || kind == Kind::ReduceOp;
}

}  // namespace

std::string print(const Tree& tree) { return Printer(tree).run(); }

bool same(const Tree& a, const Tree& b) {
    std::vector<std::pair<NodeId, NodeId>> rest = {{a.root, b.root}};
    while (!rest.empty()) {
        const auto [x, y] = rest.back();
        rest.pop_back();
        if ((x < 0) != (y < 0)) return false;
        if (x < 0) continue;
        const Node& left = a[x];
        const Node& right = b[y];
        if (left.kind != right.kind || left.op != right.op) return false;
        if (is_leaf_with_text(left.kind) && a.text_of(x) != b.text_of(y)) return false;
        rest.emplace_back(left.first, right.first);
        rest.emplace_back(left.next, right.next);
    }
    return true;
}

}  // namespace quern::lang

// What the text of a kernel says without operands: their ranks and dtypes are guessed from its
// uses, and where that makes an error others are tried that make fewer.

#include "quern/frontend/check.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quern::frontend {

namespace {

using lang::Kind;
using lang::NodeId;
using lang::Op;

/// What the body's uses of each operand suggest.
class Uses {
public:
    Uses(const lang::Tree& tree, const std::vector<std::string>& names)
        : tree_(tree), names_(names), types_(names.size()), ranks_(names.size(), -1) {}

    std::vector<semantics::OperandType> of(NodeId body) {
        walk(body, Place::Value);
        // An operand that is never indexed is a number beside loops, else a matrix.
        const int bare = has_loop_ ? 0 : 2;
        for (std::size_t i = 0; i < types_.size(); ++i) {
            types_[i].rank = ranks_[i] < 0 ? bare : ranks_[i];
        }
        return types_;
    }

private:
    enum class Place { Value, Row, Condition, Integer };

    void walk(NodeId id, Place place) {
        const lang::Node& node = tree_[id];
        if (node.kind == Kind::Index) return index(id, place);
        has_loop_ = has_loop_ || node.kind == Kind::For;
        if (node.kind == Kind::If) {
            walk(node.first, Place::Condition);
            for (NodeId c = tree_[node.first].next; c >= 0; c = tree_[c].next)
                walk(c, Place::Value);
            return;
        }
        const bool is_select = node.kind == Kind::Call && tree_.text_of(node.first) == "select";
        for (NodeId c = node.first; c >= 0; c = tree_[c].next) {
            const bool decides = is_select && tree_[node.first].next == c;
            walk(c, decides ? Place::Condition : inside(node, place));
        }
    }

    /// Where the parts of an expression stand, by where it does.
    Place inside(const lang::Node& node, Place place) const {
        if (node.kind == Kind::Call) {
            const std::string_view name = tree_.text_of(node.first);
            if (name == "dot") return Place::Row;
            constexpr std::array kKeep{"abs", "clamp", "max", "min", "select"};
            return std::ranges::find(kKeep, name) == kKeep.end() ? Place::Value : place;
        }
        if (node.kind == Kind::Loop || node.kind == Kind::Slice) return Place::Integer;
        if (node.kind != Kind::Binary && node.kind != Kind::Unary) return Place::Value;
        switch (node.op) {
            case Op::And:
            case Op::Or:
            case Op::Not:
                return Place::Condition;
            case Op::Rem:
                return Place::Integer;
            case Op::Add:
            case Op::Sub:
            case Op::Mul:
            case Op::Div:
            case Op::Neg:
                return place == Place::Integer ? place : Place::Value;
            default:
                return Place::Value;
        }
    }

    void index(NodeId id, Place place) {
        const std::string name = semantics::compact_text(tree_, tree_[id].first);
        int count = 0, slices = 0;
        for (NodeId s = tree_[tree_[id].first].next; s >= 0; s = tree_[s].next) {
            ++count;
            slices += tree_[s].kind == Kind::Slice;
            walk(s, Place::Integer);
        }
        // Slices make tiles, which have two axes.
        const int extra = slices > 0 ? std::max(0, 2 - slices) : place == Place::Row;
        for (std::size_t i = 0; i < names_.size(); ++i) {
            if (names_[i] != name) continue;
            ranks_[i] = std::max(ranks_[i], count + extra);
            if (place == Place::Condition) types_[i].dtype = DType::Bool;
            if (place == Place::Integer) types_[i].dtype = DType::Int64;
        }
    }

    const lang::Tree tree_;
    const std::vector<std::string>& names_;
    std::vector<semantics::OperandType> types_;
    std::vector<int> ranks_;
    bool has_loop_ = false;
};

/// What a text is checked with.
struct Guess {
    std::vector<semantics::OperandType> operands;
    std::set<std::string, std::less<>> integers;
};

/// Looks for operands with which a text has no errors: each of the first guess is changed by itself
/// as long as that makes fewer.
class Guesses {
public:
    /// `request` is the first guess, of which `errors` errors came.
    Guesses(semantics::Request& request, const std::vector<bool>& has_rank, int errors)
        : request_(request),
          has_rank_(has_rank),
          best_{request.operands, {}},
          fewest_(errors),
          tries_left_(int(kMostNodes / (request.source.nodes.size() + kMostNodes / kMostTries))) {}

    /// Leaves the best in the request.
    void find() {
        try_integers();
        for (int before = fewest_ + 1; fewest_ > 0 && fewest_ < before;) {
            before = fewest_;
            for (std::size_t i = 0; i < best_.operands.size(); ++i) try_operand(i);
            for (const std::string& name :
                 semantics::free_names(request_.source.tree(), request_.compute)) {
                Guess guess = best_;
                if (guess.integers.insert(name).second) consider(guess);
            }
        }
        set(best_);
    }

private:
    void set(const Guess& guess) {
        request_.operands = guess.operands;
        request_.assumed_integers = guess.integers;
    }

    int errors(const Guess& guess) {
        set(guess);
        lang::Diagnostics diagnostics(request_.source);
        semantics::lower(request_, {}, diagnostics);
        return diagnostics.error_count();
    }

    void consider(const Guess& guess) {
        if (fewest_ == 0 || tries_left_-- <= 0) return;
        const int count = errors(guess);
        if (count >= fewest_) return;
        fewest_ = count;
        best_ = guess;
    }

    /// Two that are added have to change together.
    void try_integers() {
        Guess guess = best_;
        for (semantics::OperandType& operand : guess.operands) {
            if (operand.dtype == DType::Float32) operand.dtype = DType::Int64;
        }
        consider(guess);
    }

    void try_operand(std::size_t i) {
        for (const DType dtype : {DType::Float32, DType::Int64, DType::Bool}) {
            for (int rank = 0; rank <= kMostRank; ++rank) {
                Guess guess = best_;
                guess.operands[i].dtype = dtype;
                if (!has_rank_[i]) guess.operands[i].rank = rank;
                consider(guess);
                if (has_rank_[i]) break;
            }
        }
    }

    /// Of matrices in a batch; operands of more are rare, and are indexed or declared.
    static constexpr int kMostRank = 3;

    /// What is tried takes no longer than some texts of a megabyte: few guesses of a long one.
    static constexpr std::size_t kMostNodes = 200'000, kMostTries = 400;

    semantics::Request& request_;
    const std::vector<bool>& has_rank_;
    Guess best_;
    int fewest_;
    int tries_left_;
};

}  // namespace

std::optional<semantics::Lowered> lower_text(const lang::Source& source, NodeId compute,
                                             std::vector<semantics::Piped> then,
                                             lang::Diagnostics& diagnostics) {
    static const semantics::Arguments none;
    const lang::Tree tree = source.tree();
    semantics::Request request{source, compute, {}, none, false, std::move(then), true};
    std::vector<std::string> names;
    std::vector<int> declared;
    for (NodeId o = tree[tree.child(compute, 0)].first; o >= 0; o = tree[o].next) {
        names.push_back(semantics::operand_name(tree, o));
        const NodeId dims = tree.child(o, 2);
        const bool has = dims >= 0 && tree[dims].kind == Kind::Dims;
        declared.push_back(has ? tree.child_count(dims) : -1);
    }
    request.operands = Uses(tree, names).of(tree.child(compute, 3));
    std::vector<bool> has_rank;
    for (std::size_t i = 0; i < names.size(); ++i) {
        has_rank.push_back(declared[i] >= 0);
        if (declared[i] >= 0) request.operands[i].rank = declared[i];
    }
    const std::size_t before = diagnostics.size();
    const int errors_before = diagnostics.error_count();
    auto lowered = semantics::lower(request, {}, diagnostics);
    const int errors = diagnostics.error_count() - errors_before;
    if (errors == 0) return lowered;
    diagnostics.truncate(before);
    Guesses(request, has_rank, errors).find();
    return semantics::lower(request, {}, diagnostics);
}

void check(const lang::Source& source, NodeId compute, lang::Diagnostics& diagnostics,
           std::vector<semantics::Piped> then) {
    lower_text(source, compute, std::move(then), diagnostics);
}

}  // namespace quern::frontend

#pragma once

#include <cstdint>

#include "quern/lang/workspace.h"

// What the names of a kernel stand for, told by the parser as it reads, and what is wrong with
// their use. Free names used as numbers are not judged here: they may be dimensions or values of
// the host.

namespace quern::lang {

/// How an expression uses a name.
enum class Use : std::uint8_t { Plain, Indexed, Member };

/// The kernel whose body is being read.
struct KernelState {
    /// Bindings up to this one belong to the kernels around it.
    std::uint32_t base = 0;
    Word kind = Word::Custom;
    Word reduce_op = Word::None;
    bool is_reduce = false;
    bool has_kind = false;
    bool yields = false;
    bool writes_out = false;
    bool reads_unwritten_out = false;

    /// How many ifs are open, and loops in others whose bounds have names of the body: what stands
    /// in one may run after what stands behind it in a loop.
    int conditions = 0;

    /// How many loops are open, the bindings before them, and whether one behind these was used.
    int loops = 0;
    std::uint32_t before_loops = 0;
    bool uses_locals = false;

    /// Its body is '...'.
    bool is_unwritten = false;

    /// A statement that may have declared something could not be read.
    bool lost_statement = false;

    /// A decorator could not be read, so that its kind is not known.
    bool lost_decorator = false;
    int first_issue = 0;
    Span keyword;
    Span kind_span;

    /// The value of `axis=` of its @kernel reduce, or -1.
    NodeId axis = -1;
};

class Names {
public:
    constexpr Names(const Workspace& space, Issues& issues) : space_(space), issues_(issues) {}

    constexpr void set_name_count(std::uint32_t count) { names_ = count; }

    /// The path `front.last`, made if it is new.
    constexpr std::uint32_t path(std::uint32_t front, std::uint32_t last);

    /// The same, or 0 if no operand has a path with it.
    constexpr std::uint32_t find_path(std::uint32_t front, std::uint32_t last) const;

    constexpr void open_scope(std::uint32_t& saved_block) {
        saved_block = block_;
        block_ = ++last_block_;
    }
    /// Ends the scope that began when there were `bindings` of them.
    constexpr void close_scope(std::uint32_t saved_block, std::uint32_t bindings);
    constexpr std::uint32_t size() const { return count_; }

    constexpr void declare(BindingKind kind, std::uint32_t name, Span span);

    /// `name` is that of a path where the expression is one, and 0 for a path that no operand has.
    constexpr void use(std::uint32_t name, std::uint32_t root, Span span, Use how);
    constexpr void use_as_index(std::uint32_t name);

    /// An assignment; `reads` for += and its like.
    constexpr void store(std::uint32_t name, Span span, Use how, bool reads);

    constexpr bool is_operand(std::uint32_t name) const {
        const std::uint32_t b = find(name);
        return b != 0 && space_.bindings[b].kind == BindingKind::Operand;
    }

    /// 0, or a binding of the kernel that is being read.
    constexpr std::uint32_t find(std::uint32_t name) const {
        const std::uint32_t b = space_.bound[name];
        return b > kernel.base ? b : 0;
    }

    KernelState kernel;

private:
    constexpr void read_out(Span span);

    const Workspace& space_;
    Issues& issues_;
    std::uint32_t names_ = 0;
    std::uint32_t count_ = 0;
    std::uint32_t block_ = 0;
    std::uint32_t last_block_ = 0;
};

constexpr std::uint32_t hash_of_path(std::uint32_t front, std::uint32_t last) {
    return (front * kHashPrime) ^ (last * 0x9e3779b9u);
}

constexpr std::uint32_t Names::find_path(std::uint32_t front, std::uint32_t last) const {
    const std::uint32_t hash = hash_of_path(front, last);
    for (std::uint32_t e = space_.buckets[hash & space_.bucket_mask]; e != 0;
         e = space_.names[e].next) {
        const NameEntry& entry = space_.names[e];
        if (entry.begin == front && entry.length == (last | NameEntry::kPath)) {
            return kWordCount + e - 1;
        }
    }
    return 0;
}

constexpr std::uint32_t Names::path(std::uint32_t front, std::uint32_t last) {
    const std::uint32_t found = find_path(front, last);
    if (found != 0) return found;
    const std::uint32_t hash = hash_of_path(front, last);
    std::uint32_t& bucket = space_.buckets[hash & space_.bucket_mask];
    ++names_;
    space_.names[names_] = NameEntry{hash, front, last | NameEntry::kPath, bucket};
    bucket = names_;
    return kWordCount + names_ - 1;
}

constexpr void Names::close_scope(std::uint32_t saved_block, std::uint32_t bindings) {
    while (count_ > bindings) {
        const Binding& binding = space_.bindings[count_];
        if (binding.shadows) {
            issues_.add(Code::W0701, binding.span, 0, space_.bindings[binding.outer].span);
        }
        space_.bound[binding.name] = binding.outer;
        --count_;
    }
    block_ = saved_block;
}

constexpr void Names::declare(BindingKind kind, std::uint32_t name, Span span) {
    const std::uint32_t outer = find(name);
    bool shadows = false;
    if (outer != 0) {
        const Binding& other = space_.bindings[outer];
        if (other.block == block_) {
            issues_.add(Code::E0410, span, kind == BindingKind::Operand ? 1 : 0, other.span);
        } else {
            shadows = true;
        }
    }
    ++count_;
    space_.bindings[count_] = Binding{kind, shadows, name, space_.bound[name], block_, span};
    space_.bound[name] = count_;
}

constexpr void Names::read_out(Span span) {
    if (kernel.writes_out || kernel.reads_unwritten_out || kernel.conditions > 0) return;
    kernel.reads_unwritten_out = true;
    issues_.add(Code::E0421, span);
}

constexpr void Names::use(std::uint32_t name, std::uint32_t root, Span span, Use how) {
    std::uint32_t b = find(name);
    if (b == 0 && root != name) b = find(root);
    if (b != 0) {
        if (space_.bindings[b].kind == BindingKind::Out) read_out(span);
        kernel.uses_locals |= b > kernel.before_loops;
    } else if (how != Use::Plain) {
        issues_.add(Code::E0411, span, how == Use::Member ? 1 : 0);
    }
}

/// As an index, a name skips what is no integer: a local that hides a loop variable from all but
/// indices is what the index lookup rule is for, and W0702 reports it.
constexpr void Names::use_as_index(std::uint32_t name) {
    const std::uint32_t b = find(name);
    if (b == 0 || !space_.bindings[b].shadows) return;
    Binding& binding = space_.bindings[b];
    const bool is_local = binding.kind == BindingKind::Let || binding.kind == BindingKind::Var;
    if (is_local && space_.bindings[binding.outer].kind == BindingKind::Loop) {
        binding.shadows = false;
    }
}

constexpr void Names::store(std::uint32_t name, Span span, Use how, bool reads) {
    const std::uint32_t b = find(name);
    if (b == 0) {
        issues_.add(Code::E0411, span, how == Use::Member ? 1 : how == Use::Indexed ? 0 : 2);
        return;
    }
    const Binding& binding = space_.bindings[b];
    switch (binding.kind) {
        case BindingKind::Operand:
            issues_.add(Code::E0420, span, 0, binding.span);
            break;
        case BindingKind::Loop:
            issues_.add(Code::E0413, span, 0, binding.span);
            break;
        case BindingKind::Let:
            issues_.add(Code::E0414, span, 0, binding.span);
            break;
        case BindingKind::Out:
            if (reads) read_out(span);
            kernel.writes_out = true;
            break;
        default:
            break;
    }
}

}  // namespace quern::lang

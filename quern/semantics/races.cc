#include <fmt/format.h>

#include <algorithm>

#include "quern/semantics/lowering.h"

// Parallel points must write different elements of `out`: what one store does at two points, and
// what two stores do.

namespace quern::semantics {

using ir::BinaryOp;
using ir::ExprKind;

namespace {

bool is_trivial(const ir::Kernel& kernel, const LoopScope& loop) {
    return loop.from_zero && kernel.is_constant(loop.range.end, 1);
}

/// A quotient or a remainder by a positive constant: both of one number tell it.
struct Digit {
    ExprId number = ir::kNoExpr;
    ExprId divisor = ir::kNoExpr;
    bool is_remainder = false;
};

std::optional<Digit> digit_of(const ir::Kernel& kernel, const ir::Affine& form) {
    if (form.terms.size() != 1) return std::nullopt;
    const ir::Expr& e = kernel[form.terms[0].atom];
    if (e.kind != ExprKind::Binary) return std::nullopt;
    const auto op = static_cast<BinaryOp>(e.op);
    if (op != BinaryOp::Div && op != BinaryOp::FloorDiv && op != BinaryOp::Rem) return std::nullopt;
    return Digit{ExprId{e.a}, ExprId{e.b}, op == BinaryOp::Rem};
}

}  // namespace

bool Lowering::tells_apart(const ir::Affine& form, ExprId slice_length, const LoopScope& loop) {
    const ExprId symbol = kernel_.symbol(loop.range.symbol);
    // i / c in steps of a multiple of c.
    const auto digit = digit_of(kernel_, form);
    if (digit && !digit->is_remainder && digit->number == symbol && loop.from_zero &&
        !exists(slice_length) && kernel_.is_constant(digit->divisor) &&
        kernel_.is_constant(loop.range.step)) {
        const std::int64_t divisor = kernel_.integer_value(digit->divisor);
        return divisor > 0 && kernel_.integer_value(loop.range.step) % divisor == 0;
    }
    for (const ir::Term& term : form.terms) {
        if (term.atom != symbol) continue;
        if (!exists(slice_length)) return true;
        if (slice_length == loop.range.step) return term.coefficient == 1;
        return kernel_.is_constant(slice_length) && kernel_.is_constant(loop.range.step) &&
               std::abs(term.coefficient) * kernel_.integer_value(loop.range.step) >=
                   kernel_.integer_value(slice_length);
    }
    return false;
}

ExprId Lowering::trips_of(const ir::LoopRange& range) {
    const ir::Expr& end = kernel_[range.end];
    const auto opaque = end.kind == ExprKind::Dim ? opaque_.find(end.a) : opaque_.end();
    return simplify(kernel_.binary(
        BinaryOp::Sub, opaque == opaque_.end() ? range.end : opaque->second, range.begin));
}

bool Lowering::is_mixed_radix(const ir::Affine& form, const std::vector<const LoopScope*>& loops) {
    // c1*i + c2*j + ..., each coefficient above all that the smaller ones can add up to.
    std::vector<std::pair<std::int64_t, const LoopScope*>> places;
    bool has_numbers = true;
    for (const LoopScope* loop : loops) {
        // 4*i..4*i + 3 is another part of the digits for each i.
        const ir::LoopRange& range = loop->range;
        if (!kernel_.is_constant(range.step) || !is_fixed(kernel_, range.begin)) return false;
        for (const ir::Term& term : form.terms) {
            if (!ir::depends_on(kernel_, term.atom, loop->range.symbol)) continue;
            has_numbers = has_numbers && term.atom == kernel_.symbol(loop->range.symbol);
            places.emplace_back(std::abs(term.coefficient), loop);
        }
    }
    std::sort(places.begin(), places.end(),
              [](const auto& x, const auto& y) { return x.first < y.first; });
    const auto has_number = [&](const auto& place) {
        return &place == &places.back() || kernel_.is_constant(trips_of(place.second->range));
    };
    has_numbers = has_numbers && places.size() == loops.size();
    if (has_numbers && std::ranges::all_of(places, has_number)) {
        std::int64_t reach = 0;
        bool separate = true;
        for (std::size_t k = 0; k < places.size() && separate; ++k) {
            const ir::LoopRange& range = places[k].second->range;
            separate = places[k].first * kernel_.integer_value(range.step) > reach;
            if (k + 1 == places.size()) break;
            const std::int64_t last = kernel_.integer_value(trips_of(range)) - 1;
            reach += places[k].first * std::max<std::int64_t>(last, 0);
        }
        return separate;
    }
    // (i*H + j)*W + k: each stride is at least that of the next loop times the iterations of that.
    const auto is_of_others = [&](const ir::Term& term) {
        return !is_fixed(kernel_, term.atom) &&
               std::ranges::none_of(loops, [&](const LoopScope* loop) {
                   return ir::depends_on(kernel_, term.atom, loop->range.symbol);
               });
    };
    if (std::ranges::any_of(form.terms, is_of_others)) return false;
    std::vector<std::pair<ExprId, const LoopScope*>> strides;
    for (const LoopScope* loop : loops) {
        ExprId stride = zero();
        std::int64_t sign = 0;
        for (const ir::Term& term : form.terms) {
            if (!ir::depends_on(kernel_, term.atom, loop->range.symbol)) continue;
            const ExprId factor =
                ir::exact_quotient(kernel_, term.atom, kernel_.symbol(loop->range.symbol));
            if (!exists(factor)) return false;
            if (sign == 0) sign = term.coefficient < 0 ? -1 : 1;
            const ExprId times = kernel_.integer(sign * term.coefficient);
            stride =
                kernel_.binary(BinaryOp::Add, stride, kernel_.binary(BinaryOp::Mul, factor, times));
        }
        if (sign == 0) return false;
        stride = simplify(stride);
        const bool varies = std::ranges::any_of(loops, [&](const LoopScope* other) {
            return ir::depends_on(kernel_, stride, other->range.symbol) ||
                   ir::depends_on(kernel_, loop->range.end, other->range.symbol);
        });
        if (varies) return false;
        strides.emplace_back(stride, loop);
    }
    for (ExprId reach = one(); !strides.empty();) {
        auto next = std::ranges::find(strides, reach, [](const auto& s) { return s.first; });
        if (next == strides.end()) {
            const auto is_least = [&](ExprId stride) {
                return std::ranges::none_of(strides, [&](const auto& other) {
                    return other.first != stride &&
                           ir::proves_at_least(kernel_, stride, other.first);
                });
            };
            next = std::ranges::find_if(strides, [&](const auto& s) {
                return ir::proves_at_least(kernel_, s.first, reach) && is_least(s.first);
            });
        }
        if (next == strides.end()) return false;
        reach = simplify(kernel_.binary(BinaryOp::Mul, next->first, trips_of(next->second->range)));
        strides.erase(next);
    }
    return true;
}

ExprId Lowering::block_of(const LoopScope& inner, const LoopScope& loop) {
    // i + 4 of i..min(i + 4, n), i in steps of 4; 4*i + 4 of 4*i..4*i + 3.
    const ir::Affine begin = ir::affine_of(kernel_, inner.range.begin);
    if (begin.terms.size() != 1 || begin.terms[0].atom != kernel_.symbol(loop.range.symbol) ||
        !kernel_.is_constant(loop.range.step)) {
        return ir::kNoExpr;
    }
    std::int64_t rows = 0;
    const std::int64_t step = kernel_.integer_value(loop.range.step);
    if (__builtin_mul_overflow(begin.terms[0].coefficient, step, &rows) || rows == INT64_MIN)
        return ir::kNoExpr;
    rows = std::abs(rows);
    const ExprId end = kernel_.binary(BinaryOp::Add, inner.range.begin, kernel_.integer(rows));
    return ir::proves_at_least(kernel_, end, inner.range.end) ? end : ir::kNoExpr;
}

bool Lowering::fills_block_of(const LoopScope& inner, const LoopScope& loop, ExprId extent) {
    const ExprId end = block_of(inner, loop);
    const ir::Affine begin = ir::affine_of(kernel_, inner.range.begin);
    return exists(end) && loop.from_zero && begin.constant == 0 && begin.terms[0].coefficient > 0 &&
           ir::proves_at_least(kernel_, inner.range.end, minimum(end, extent));
}

std::pair<ExprId, ExprId> Lowering::quotient_of(ExprId id) {
    ExprId divisor = one();
    for (auto digit = digit_of(kernel_, ir::affine_of(kernel_, id)); digit && !digit->is_remainder;
         digit = digit_of(kernel_, ir::affine_of(kernel_, id))) {
        divisor = simplify(kernel_.binary(BinaryOp::Mul, divisor, digit->divisor));
        id = digit->number;
    }
    return {id, divisor};
}

bool Lowering::digits_tell(const std::vector<ExprId>& indices, ExprId number, ExprId divisor) {
    const std::pair<ExprId, ExprId> wanted{number, divisor};
    for (const ExprId index : indices) {
        if (quotient_of(index) == wanted) return true;
    }
    // What is left of the number when the quotient is cut off; then the quotient by both.
    std::vector<ExprId> others;
    ExprId more = ir::kNoExpr;
    for (const ExprId index : indices) {
        const auto digit = digit_of(kernel_, ir::affine_of(kernel_, index));
        const bool next =
            !exists(more) && digit && digit->is_remainder && quotient_of(digit->number) == wanted;
        if (next) {
            more = simplify(kernel_.binary(BinaryOp::Mul, divisor, digit->divisor));
        } else {
            others.push_back(index);
        }
    }
    return exists(more) && digits_tell(others, number, more);
}

const LoopScope* Lowering::not_told_apart(const Access& store) {
    std::vector<const LoopScope*> open;
    for (const LoopScope& loop : store.loops) {
        if (loop.parallel && !is_trivial(kernel_, loop)) open.push_back(&loop);
    }
    std::vector<ir::Affine> forms;
    for (const ExprId index : store.index) forms.push_back(ir::affine_of(kernel_, index));
    const auto uses = [&](ExprId id, const LoopScope* loop) {
        return ir::depends_on(kernel_, id, loop->range.symbol);
    };
    // An index that is a loop's own variable tells the block that it runs through.
    for (const LoopScope& inner : store.loops) {
        bool is_index = false;
        for (std::size_t p = 0; p < forms.size(); ++p) {
            is_index = is_index || (forms[p].terms.size() == 1 && !exists(store.slice_length[p]) &&
                                    forms[p].terms[0].atom == kernel_.symbol(inner.range.symbol));
        }
        if (!is_index) continue;
        std::erase_if(open, [&](const LoopScope* loop) { return exists(block_of(inner, *loop)); });
    }
    // An index in which one loop is not yet told apart tells it; others may stand beside it.
    for (bool progress = true; progress && !open.empty();) {
        progress = false;
        for (std::size_t p = 0; p < forms.size() && !progress; ++p) {
            std::vector<const LoopScope*> here;
            for (const LoopScope* loop : open) {
                if (uses(store.index[p], loop)) here.push_back(loop);
            }
            bool told = here.size() == 1 && tells_apart(forms[p], store.slice_length[p], *here[0]);
            told = told || (here.size() > 1 && !exists(store.slice_length[p]) &&
                            is_mixed_radix(forms[p], here));
            // Loops of the point may make up the rest, as c in g * per + c.
            std::vector<const LoopScope*> all = here;
            for (const LoopScope& inner : store.loops) {
                if (!inner.parallel && uses(store.index[p], &inner)) all.push_back(&inner);
            }
            told = told || (all.size() > here.size() && !here.empty() &&
                            !exists(store.slice_length[p]) && is_mixed_radix(forms[p], all));
            const auto digit = digit_of(kernel_, forms[p]);
            if (digit && here.size() == 1 && !told) {
                std::vector<ExprId> own;
                for (std::size_t q = 0; q < forms.size(); ++q) {
                    const bool of_others =
                        std::any_of(open.begin(), open.end(), [&](const LoopScope* loop) {
                            return loop != here[0] && uses(store.index[q], loop);
                        });
                    if (!of_others && !exists(store.slice_length[q])) own.push_back(store.index[q]);
                }
                const ExprId number = quotient_of(digit->number).first;
                told = digits_tell(own, number, one()) &&
                       tells_apart(ir::affine_of(kernel_, number), ir::kNoExpr, *here[0]);
            }
            if (!told) continue;
            for (const LoopScope* loop : here)
                open.erase(std::find(open.begin(), open.end(), loop));
            progress = true;
        }
    }
    if (open.empty()) return nullptr;
    for (const LoopScope* loop : open) {
        if (std::none_of(store.index.begin(), store.index.end(),
                         [&](ExprId id) { return uses(id, loop); })) {
            return loop;
        }
    }
    return open.back();
}

bool Lowering::meet_at_two_points(const Access& x, const Access& y) {
    // Their places differ by a whole number of parallel steps.
    if (x.index.size() != y.index.size()) return false;
    bool shifted = false;
    std::map<ExprId, std::int64_t> shift;
    for (std::size_t p = 0; p < x.index.size(); ++p) {
        const ir::Affine difference =
            ir::affine_of(kernel_, kernel_.binary(BinaryOp::Sub, y.index[p], x.index[p]));
        if (!difference.is_constant() || exists(x.slice_length[p])) return false;
        const std::int64_t delta = difference.constant;
        std::int64_t coefficient = 0, step = 1;
        ExprId symbol = ir::kNoExpr;
        for (const ir::Term& term : ir::affine_of(kernel_, x.index[p]).terms) {
            for (const LoopScope& loop : x.loops) {
                if (!loop.parallel || kernel_.symbol(loop.range.symbol) != term.atom) continue;
                if (exists(symbol)) return false;
                symbol = term.atom;
                coefficient = term.coefficient;
                if (kernel_.is_constant(loop.range.step))
                    step = kernel_.integer_value(loop.range.step);
            }
        }
        if (!exists(symbol)) {
            if (delta != 0) return false;
            continue;
        }
        if (delta % (coefficient * step) != 0) return false;
        const auto [it, fresh] = shift.emplace(symbol, delta / coefficient);
        if (it->second != delta / coefficient) return false;
        shifted = shifted || delta != 0;
    }
    return shifted;
}

void Lowering::check_races() {
    std::vector<const Access*> stores;
    for (const Access& access : accesses_) {
        if (access.is_store) stores.push_back(&access);
    }
    for (const Access* store : stores) {
        const LoopScope* loop = not_told_apart(*store);
        if (!loop) continue;
        report(
            Code::E0510, store->span,
            fmt::format("points that differ in '{}' write the same element of 'out'", loop->name))
            .note_at(loop->span, fmt::format("'{}' runs in parallel", loop->name))
            .help(
                fmt::format("reduce over {0} (@kernel reduce, or an inner loop that accumulates), "
                            "or index 'out' by {0}",
                            loop->name));
        return;
    }
    for (std::size_t a = 0; a < stores.size(); ++a) {
        for (std::size_t b = a + 1; b < stores.size(); ++b) {
            if (!meet_at_two_points(*stores[a], *stores[b])) continue;
            report(Code::E0510, stores[b]->span,
                   "two parallel points write the same element of 'out'")
                .note_at(stores[a]->span, "the other store")
                .help(
                    "store at c*i, c*i + 1, ..., c*i + c - 1, so that every point owns its "
                    "elements");
            return;
        }
    }
}

}  // namespace quern::semantics

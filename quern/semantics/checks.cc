#include <fmt/format.h>

#include <algorithm>

#include "quern/semantics/lowering.h"

// What the finished CIR shows: indices out of bounds, elements that nothing writes, decorators that
// say something else than the body.

namespace quern::semantics {

using ir::BinaryOp;

void Lowering::check_bounds() {
    for (const Access& access : accesses_) {
        if (access.is_store || access.guarded || access.buffer >= kernel_.operand_count) continue;
        const bool never_runs = std::ranges::any_of(access.loops, [&](const LoopScope& loop) {
            return kernel_.is_constant(loop.range.begin) && kernel_.is_constant(loop.range.end) &&
                   ir::proves_at_least(kernel_, loop.range.begin, loop.range.end);
        });
        if (never_runs) continue;
        for (std::size_t p = 0; p < access.index.size(); ++p) {
            if (exists(access.slice_length[p])) continue;
            const ExprId extent = kernel_.extent(access.buffer, std::uint32_t(p));
            // A bare index made the loop's end the extent.
            const bool bare =
                std::any_of(access.loops.begin(), access.loops.end(), [&](const LoopScope& loop) {
                    return loop.from_zero && kernel_.symbol(loop.range.symbol) == access.index[p] &&
                           !is_part_of_declared(loop.range.end, extent);
                });
            const ExprId run = run_of(access.index[p], access.loops);
            if (bare ||
                (exists(run) && !kernel_.is_constant(run) && !is_part_of_declared(run, extent))) {
                continue;
            }
            const std::string& name = kernel_.buffers[access.buffer].name;
            const ExprId low = attained_over_loops(access.index[p], access.loops, false);
            const ExprId high = attained_over_loops(access.index[p], access.loops, true);
            if (exists(low) && ir::proves_less(kernel_, low, zero())) {
                report(Code::E0507, access.index_spans[p],
                       fmt::format("the index of axis {} of '{}' is negative", p, name))
                    .help("indices count from 0; guard the read with an if");
                continue;
            }
            if (!exists(high)) continue;
            bool outside = ir::proves_at_least(kernel_, high, extent);
            for (std::size_t c = 0; c < kernel_.constraints.size() && !outside; ++c) {
                const ir::Constraint constraint = kernel_.constraints[c];
                if (constraint.right == extent) {
                    outside = ir::proves_at_least(kernel_, high, constraint.left);
                } else if (constraint.left == extent) {
                    outside = ir::proves_at_least(kernel_, high, constraint.right);
                }
            }
            if (outside) {
                report(Code::E0507, access.index_spans[p],
                       fmt::format("the index of axis {} of '{}' runs past its end", p, name))
                    .help("write the window as an inner loop, or declare the dimension");
            }
        }
    }
}

bool Lowering::is_of_loops(ExprId id, const std::vector<LoopScope>& loops) const {
    return std::ranges::any_of(loops, [&](const LoopScope& loop) {
        return ir::depends_on(kernel_, id, loop.range.symbol);
    });
}

bool Lowering::covers_run(const LoopScope& loop, const Access& store, ExprId extent,
                          Coverage& coverage) {
    if (!coverage.loops.insert(loop.range.symbol).second) return false;
    if (!is_of_loops(loop.range.begin, store.loops) && !is_of_loops(loop.range.end, store.loops))
        return true;
    // Whole blocks side by side leave nothing out; a triangle does.
    return std::ranges::any_of(store.loops, [&](const LoopScope& other) {
        return fills_block_of(loop, other, extent) &&
               !is_of_loops(other.range.begin, store.loops) &&
               !is_of_loops(other.range.end, store.loops) &&
               coverage.loops.insert(other.range.symbol).second;
    });
}

std::optional<bool> Lowering::covers_axis(const Access& store, std::size_t p, ExprId extent,
                                          bool single, Coverage& coverage) {
    const ExprId index = store.index[p], length = store.slice_length[p];
    const ir::Affine form = ir::affine_of(kernel_, index);
    if (exists(length) && kernel_.is_constant(index, 0) && length == extent) return true;
    if (form.is_constant() && !exists(length)) {
        if (kernel_.is_constant(extent, 1)) return true;
        if (!coverage.whole || !kernel_.is_constant(extent)) return std::nullopt;
        coverage.whole = false;
        coverage.group = {p, kernel_.integer_value(extent), true};
        coverage.residue = form.constant;
        return true;
    }
    const LoopScope* loop = nullptr;
    std::int64_t coefficient = 0;
    std::vector<const LoopScope*> used;
    for (const LoopScope& each : store.loops) {
        if (ir::depends_on(kernel_, index, each.range.symbol)) used.push_back(&each);
    }
    for (const ir::Term& term : form.terms) {
        for (const LoopScope* each : used) {
            if (kernel_.symbol(each->range.symbol) != term.atom) continue;
            loop = each;
            coefficient = term.coefficient;
        }
    }
    const auto holds = [](bool condition) {
        return condition ? std::optional(true) : std::nullopt;
    };
    // Another store may make `out` longer.
    const auto reaches_end = [&](ExprId last, ExprId more) {
        const ExprId end = simplify(kernel_.binary(BinaryOp::Add, last, more));
        return single || ir::proves_at_least(kernel_, end, extent);
    };
    if (used.size() > 1) {
        // (i*H + j)*W + k: as many elements as there are up to the last one.
        ExprId count = one();
        for (const LoopScope* each : used) {
            const bool is_plain = each->from_zero && kernel_.is_constant(each->range.step, 1) &&
                                  !is_of_loops(each->range.end, store.loops);
            if (!is_plain || !coverage.loops.insert(each->range.symbol).second) return std::nullopt;
            count = kernel_.binary(BinaryOp::Mul, count, each->range.end);
        }
        const ExprId last = over_loops(index, store.loops, true);
        if (exists(length) || !exists(last) || !is_mixed_radix(form, used)) return std::nullopt;
        const ExprId end = simplify(kernel_.binary(BinaryOp::Add, last, one()));
        return holds(form.constant == 0 && end == simplify(count) && reaches_end(last, one()));
    }
    // i + i / 2, or a quotient or a remainder alone, which may be a digit.
    if (loop && form.terms.size() > 1) {
        for (const ir::Term& term : form.terms) {
            if (term.atom != kernel_.symbol(loop->range.symbol) &&
                is_of_loops(term.atom, store.loops)) {
                return std::nullopt;
            }
        }
    }
    if (!loop) return false;
    if (!covers_run(*loop, store, extent, coverage)) return std::nullopt;
    const ExprId low = over_loops(index, store.loops, false);
    const ExprId high = over_loops(index, store.loops, true);
    if (!exists(low) || !exists(high)) return std::nullopt;
    const bool from_zero = kernel_.is_constant(low, 0);
    if (exists(length)) {
        const bool gapless =
            length == loop->range.step ||
            (kernel_.is_constant(length) && kernel_.is_constant(loop->range.step) &&
             kernel_.integer_value(length) >= kernel_.integer_value(loop->range.step));
        return holds(coefficient == 1 && from_zero && gapless && reaches_end(high, length));
    }
    if (!kernel_.is_constant(loop->range.step, 1)) return std::nullopt;
    if (coefficient == 1 || coefficient == -1) return holds(from_zero && reaches_end(high, one()));
    const bool strided = coverage.whole && loop->from_zero && coefficient > 1 &&
                         form.terms.size() == 1 && form.constant >= 0 &&
                         form.constant < coefficient;
    coverage.whole = false;
    coverage.group = {p, coefficient, false};
    coverage.residue = form.constant;
    const ExprId rest = kernel_.integer(coefficient - form.constant);
    return holds(strided && reaches_end(high, rest));
}

bool Lowering::covers_digits(const Access& store, const std::vector<ExprId>& digits,
                             const std::set<SymbolId>& bare) {
    // Digits that tell every value of a loop apart reach as many elements as it has iterations.
    std::map<ExprId, ExprId> products;
    for (const ExprId index : digits) {
        const ExprId run = run_of(index, store.loops);
        if (!exists(run)) return false;
        const auto form = kernel_[index];
        const ExprId inner =
            static_cast<BinaryOp>(form.op) == BinaryOp::Rem ? ExprId{form.a} : index;
        const auto [it, fresh] = products.emplace(quotient_of(inner).first, run);
        if (!fresh) it->second = simplify(kernel_.binary(BinaryOp::Mul, it->second, run));
    }
    return std::all_of(products.begin(), products.end(), [&](const auto& product) {
        const ir::Expr& number = kernel_[product.first];
        const bool alone = number.kind == ir::ExprKind::Symbol && !bare.count(number.a);
        return alone && product.second == run_of(product.first, store.loops) &&
               digits_tell(digits, product.first, one());
    });
}

std::optional<Coverage> Lowering::covers(const Access& store, bool single) {
    const std::vector<ExprId>& shape = kernel_.buffers[kernel_.output()].shape;
    Coverage coverage;
    std::vector<ExprId> digits;
    for (std::size_t p = 0; p < store.index.size(); ++p) {
        const auto found = covers_axis(store, p, shape[p], single, coverage);
        if (!found) return std::nullopt;
        if (*found) continue;
        if (exists(store.slice_length[p]) || !single) return std::nullopt;
        digits.push_back(store.index[p]);
    }
    if (!digits.empty() && !covers_digits(store, digits, coverage.loops)) return std::nullopt;
    // A loop that no index tells may have no iteration, and then nothing is stored.
    for (const LoopScope& loop : store.loops) {
        const bool is_told = coverage.loops.count(loop.range.symbol) > 0 ||
                             std::ranges::any_of(digits, [&](ExprId digit) {
                                 return ir::depends_on(kernel_, digit, loop.range.symbol);
                             });
        if (!is_told && !ir::proves_less(kernel_, loop.range.begin, loop.range.end))
            return std::nullopt;
    }
    return coverage;
}

void Lowering::check_coverage() {
    if (is_reduce_) return;
    check_piped();
    const auto stores = std::count_if(accesses_.begin(), accesses_.end(),
                                      [](const Access& access) { return access.is_store; });
    Span place;
    std::map<std::tuple<std::size_t, std::int64_t, bool>, std::set<std::int64_t>> residues;
    for (const Access& store : accesses_) {
        if (!store.is_store) continue;
        place = store.span;
        if (store.conditions > 0) continue;
        const auto found = covers(store, stores == 1);
        if (!found) continue;
        if (found->whole) return;
        auto& seen = residues[found->group];
        seen.insert(found->residue);
        if (std::int64_t(seen.size()) == std::get<1>(found->group)) return;
    }
    report(Code::N0801, place, "elements of 'out' that the kernel does not write are zero");
    for (const Piped& piped : request_.then) {
        if (is_zero_of_zero(piped.name)) continue;
        report(Code::E0421, piped.span.length > 0 ? piped.span : place,
               fmt::format("'{}' is applied where the kernel stores, and elements that it may not "
                           "write would stay 0",
                           piped.name))
            .help("bind the kernel's result, and apply the function to that");
        return;
    }
}

/// Functions that are piped behind a kernel are applied where it stores.
void Lowering::check_piped() {
    if (request_.then.empty()) return;
    for (const Access& access : accesses_) {
        if (access.is_store || access.buffer != kernel_.output()) continue;
        report(Code::E0421, access.span,
               fmt::format("'out' is read where '{}' was applied to it already",
                           request_.then.front().name))
            .help("bind the kernel's result, and apply the function to that");
        return;
    }
}

void Lowering::check_steps() {
    for (std::size_t i = 0; i < tile_order_.size() && i < steps_.size(); ++i) {
        const auto& [name, place] = tile_order_[i];
        const std::int64_t stated = tile_names_.find(name)->second;
        if (steps_[i].first == stated) continue;
        report(Code::E0311, steps_[i].second,
               fmt::format("expected step {}, as @tile says of '{}', got {}", stated, name,
                           steps_[i].first))
            .note_at(place, "stated here");
    }
    for (std::size_t i = steps_.size(); i < tile_order_.size(); ++i) {
        const auto& [name, place] = tile_order_[i];
        if (occurs(tree_, body_, name)) continue;
        report(Code::E0311, place,
               fmt::format("@tile states {} steps, the body has {} loop{} with a step",
                           tile_order_.size(), steps_.size(), steps_.size() == 1 ? "" : "s"))
            .help(fmt::format("leave '{}' out, or use it in the body", name));
    }
}

void Lowering::check_broadcast(NodeId decorator) {
    const NodeId operand_node = tree_.child(decorator, 1);
    NodeId axis_node = tree_.child(decorator, 2);
    if (operand_node < 0 || axis_node < 0) return;
    if (tree_[axis_node].kind == Kind::NamedArg) axis_node = tree_.child(axis_node, 1);
    const std::string name = compact_text(tree_, operand_node);
    const auto found = std::find(operand_names_.begin(), operand_names_.end(), name);
    if (found == operand_names_.end()) {
        report(Code::E0505, span_of(operand_node), fmt::format("'{}' is not an operand", name));
        return;
    }
    const auto operand = std::uint32_t(found - operand_names_.begin());
    std::int64_t axis = constant_of(axis_node, "axis", 0);
    if (axis < -out_rank_ || axis >= out_rank_) {
        report(Code::E0505, span_of(axis_node),
               fmt::format("expected an axis of the result, from {} to {}, got {}", -out_rank_,
                           out_rank_ - 1, axis));
        return;
    }
    if (axis < 0) axis += out_rank_;
    if (kernel_.buffers[operand].shape.size() != 1) {
        report(Code::E0505, span_of(operand_node),
               fmt::format("expected '{}' of rank 1, got rank {}", name,
                           kernel_.buffers[operand].shape.size()));
        return;
    }
    if (!occurs(tree_, body_, name)) {
        report(Code::E0505, span_of(operand_node),
               fmt::format("expected '{}' along axis {} of 'out', the body does not use it", name,
                           axis));
        return;
    }
    for (const Access& store : accesses_) {
        if (!store.is_store || std::int64_t(store.index.size()) <= axis) continue;
        for (const Access& load : accesses_) {
            if (load.buffer != operand || load.is_store || load.index.empty()) continue;
            if (load.index[0] == store.index[std::size_t(axis)]) continue;
            report(Code::E0505, load.span,
                   fmt::format("expected '{}' to be indexed as axis {} of 'out' is", name, axis));
            return;
        }
    }
}

}  // namespace quern::semantics

#include "quern/frontend/fused.h"

#include <algorithm>
#include <string>
#include <utility>

#include "quern/frontend/bound.h"
#include "quern/ir/fuse.h"
#include "quern/runtime/held.h"
#include "quern/support/check.h"

namespace quern::frontend {
namespace {

/// Of a fused kernel. Each operand takes registers, and a long chain of launches is made in pieces:
/// preparing one more is as much work as preparing all before it.
constexpr std::uint32_t kMostOperands = 12;
constexpr std::size_t kMostProducers = 8;

/// How many kernels the launch is made from, besides its own.
std::size_t producers_of(const LaunchRequest& request) {
    std::size_t count = 0;
    for (const FusedOperand& f : request.options.fused) count += 1 + producers_of(*f.by);
    return count;
}

std::shared_ptr<const Prepared> prepared(const LaunchRequest& request) {
    return prepare(*request.source, request.compute, infos_of(request.operands), request.arguments,
                   request.options);
}

/// Whether every access of an element-wise kernel is in bounds: each is over all of a loop.
bool stays_inside(const ir::Kernel& kernel, const ir::Environment& environment) {
    std::vector<std::pair<ir::SymbolId, ir::ExprId>> ends;
    for (const auto* block = &kernel.body; block->front().kind == ir::StmtKind::For;
         block = &block->front().body) {
        ends.emplace_back(block->front().symbol, block->front().end);
    }
    const auto is_inside = [&](ir::ExprId index, std::int64_t extent) {
        for (const auto& [symbol, end] : ends) {
            if (kernel[index].kind != ir::ExprKind::Symbol || kernel[index].a != symbol) continue;
            const auto value = ir::evaluate(kernel, end, environment);
            return value && *value <= extent;
        }
        const auto value = ir::evaluate(kernel, index, environment);
        return value && 0 <= *value && *value < extent;
    };
    return std::all_of(kernel.exprs.begin(), kernel.exprs.end(), [&](const ir::Expr& e) {
        bool all = true;
        for (int p = 0; e.kind == ir::ExprKind::Load && p < e.count; ++p) {
            all = all && is_inside(kernel.index_of(e, p), environment.shapes[e.a][std::size_t(p)]);
        }
        return all;
    });
}

}  // namespace

bool may_wait(const LaunchRequest& request) {
    if (!request.options.placement.others.empty() || request.options.part) return false;
    if (std::ranges::any_of(request.operands, Held::may_end)) return false;
    // Operands elsewhere are E0602 then.
    if (request.options.placement.device.is_vulkan() && request.options.pedantic) return false;
    auto kernel = prepared(request);
    if (!ir::is_elementwise(kernel->lowered.kernel)) return false;
    const BoundKernel launch =
        bind_launch(*request.source, std::move(kernel), infos_of(request.operands));
    return stays_inside(launch.kernel(), launch.environment());
}

std::optional<LaunchRequest> fused(const std::shared_ptr<const LaunchRequest>& producer,
                                   LaunchRequest consumer, std::size_t operand) {
    const LaunchOptions& there = producer->options;
    const LaunchOptions& here = consumer.options;
    if (!(there.placement.device == here.placement.device) || !here.placement.others.empty() ||
        there.numerics != here.numerics || here.part) {
        return std::nullopt;
    }
    const auto made = prepared(*producer), reads = prepared(consumer);
    const ir::Kernel& first = made->lowered.kernel;
    const ir::Kernel& second = reads->lowered.kernel;
    if (first.operand_count + second.operand_count > kMostOperands ||
        producers_of(*producer) + producers_of(consumer) >= kMostProducers) {
        return std::nullopt;
    }
    if (!reads->lowered.slices.empty() || !ir::fuse(first, second, std::uint32_t(operand))) {
        return std::nullopt;
    }
    const Tensor placeholder = consumer.operands[operand];
    consumer.options.fused.push_back(
        {operand, {placeholder.dtype(), placeholder.shape()}, producer});
    const auto at = consumer.operands.erase(consumer.operands.begin() + std::ptrdiff_t(operand));
    consumer.operands.insert(at, producer->operands.begin(), producer->operands.end());
    return consumer;
}

Tensor launch(const LaunchRequest& request) {
    return launch(*request.source, request.compute, request.operands, request.arguments,
                  request.options);
}

std::shared_ptr<const Prepared> prepare_fused(const lang::Source& source, lang::NodeId compute,
                                              std::span<const OperandInfo> operands,
                                              const Arguments& arguments,
                                              const LaunchOptions& options) {
    LaunchOptions before = options;
    const FusedOperand last = std::move(before.fused.back());
    before.fused.pop_back();
    std::vector<OperandInfo> infos(operands.begin(), operands.end());
    const auto first = infos.begin() + std::ptrdiff_t(last.operand);
    const auto end = first + std::ptrdiff_t(last.by->operands.size());
    const auto made =
        prepare(*last.by->source, last.by->compute, std::vector<OperandInfo>(first, end),
                last.by->arguments, last.by->options);
    infos.insert(infos.erase(first, end), last.info);
    const auto reads = prepare(source, compute, infos, arguments, before);
    auto kernel = ir::fuse(made->lowered.kernel, reads->lowered.kernel, std::uint32_t(last.operand),
                           last.by->source.get() == &source);
    QUERN_CHECK(kernel.has_value(), "kernels that were fused before");
    semantics::Lowered lowered = reads->lowered;
    lowered.kernel = std::move(*kernel);
    return verified(std::move(lowered));
}

const Number* find_number(std::string_view scalar, const Arguments& arguments,
                          const LaunchOptions& options) {
    // Names of a text have no dot: this is ir::fuse's.
    const std::size_t dot = scalar.find('.');
    if (dot == std::string_view::npos) {
        const auto found = arguments.find(scalar);
        return found == arguments.end() ? nullptr : &found->second;
    }
    for (const FusedOperand& operand : options.fused) {
        if (std::to_string(operand.operand) != scalar.substr(0, dot)) continue;
        return find_number(scalar.substr(dot + 1), operand.by->arguments, operand.by->options);
    }
    return nullptr;
}

}  // namespace quern::frontend

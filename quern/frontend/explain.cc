#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "quern/frontend/bound.h"
#include "quern/frontend/check.h"
#include "quern/frontend/work.h"
#include "quern/ir/index.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/support/check.h"

namespace quern::frontend {

namespace {

using ir::ExprId;
using ir::StmtKind;

struct LoopLine {
    const ir::Stmt* loop;
    int depth;
};

void collect_loops(const std::vector<ir::Stmt>& body, int depth, std::vector<LoopLine>& loops) {
    for (const ir::Stmt& s : body) {
        if (s.kind == StmtKind::For) loops.push_back({&s, depth});
        collect_loops(s.body, depth + (s.kind == StmtKind::For), loops);
        collect_loops(s.otherwise, depth, loops);
    }
}

std::string quantity(double value, const char* unit) {
    static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
    int p = 0;
    while (value >= 10000 && p < 5) {
        value /= 1000;
        ++p;
    }
    // "12.5 MB", "12.5 M operations", "12 operations".
    const bool is_word = unit[0] == ' ';
    const std::string_view name = is_word && p == 0 ? unit + 1 : unit;
    return fmt::format("{:.{}f} {}{}", value, p == 0 ? 0 : 1, kPrefixes[p], name);
}

class Report {
public:
    Report(const lang::Source& source, const semantics::Lowered& lowered)
        : kernel_(lowered.kernel), places_(source) {}

    /// How compiled code runs the loops.
    void schedule(const std::string& text) { schedule_ = text; }

    /// What a vector of the schedule is for the instructions of a processor.
    void vectors(cpu::Simd simd) {
        constexpr std::string_view kVector = "vector ";
        const std::size_t at = schedule_.find(kVector);
        if (at == std::string::npos) return;
        const int lanes = std::atoi(schedule_.c_str() + at + kVector.size());
        const int bits = cpu::register_bits(simd);
        const int registers = lanes * 32 / bits;
        vectors_ = fmt::format("{}, {} bits: {} lanes of float32 are {} register{}",
                               to_string(simd), bits, lanes, registers, registers == 1 ? "" : "s");
    }

    /// The work-groups of each stage.
    void groups(const std::vector<vulkan::Groups>& groups) { groups_ = groups; }

    /// `launch` of `operands`, or null where there are none.
    std::string text(std::span<const OperandInfo> operands, const BoundKernel* launch) {
        const semantics::Binding* const binding = launch ? &launch->binding : nullptr;
        binding_ = binding;
        if (launch) environment_ = launch->environment();
        line("kernel", kernel_.kind);
        for (std::uint32_t i = 0; i < kernel_.operand_count; ++i) {
            const ir::Buffer& b = kernel_.buffers[i];
            const std::string shape = binding ? to_string(operands[i].shape) : extents(b);
            line(i == 0 ? "operands" : "",
                 fmt::format("{} {}{}{}", b.name, to_string(b.dtype), shape,
                             b.flat ? ", read by row-major position" : ""));
        }
        const ir::Buffer& out = kernel_.buffers[kernel_.output()];
        const auto shape = [&] {
            return out.flat ? operands[kernel_.first_flat()].shape : binding->output;
        };
        line("result", fmt::format("{}{}", to_string(out.dtype),
                                   binding ? to_string(shape()) : extents(out)));
        dimensions();
        loops();
        if (!schedule_.empty()) line("schedule", schedule_);
        if (!vectors_.empty()) line("vectors", vectors_);
        for (std::size_t i = 0; i < groups_.size(); ++i) {
            const std::string stage = groups_.size() > 1 ? fmt::format("stage {}: ", i + 1) : "";
            line(i == 0 ? "work-groups" : "", stage + to_string(groups_[i]));
        }
        if (kernel_.cooperative) line("one point", "cooperative: it has tiles or shared variables");
        if (kernel_.workgroup[0] > 0) {
            std::string sizes = fmt::format("{}", kernel_.workgroup[0]);
            for (int i = 1; i < 3 && kernel_.workgroup[i] > 0; ++i) {
                sizes += fmt::format(" x {}", kernel_.workgroup[i]);
            }
            line("work-group", sizes + ", innermost first (a hint)");
        }
        if (launch) traffic(*launch);
        return text_;
    }

private:
    void line(std::string_view head, std::string_view tail) {
        text_ += fmt::format("{:<11} {}\n", head, tail);
    }

    std::string extents(const ir::Buffer& buffer) const {
        std::string text = "[";
        for (const ExprId e : buffer.shape) {
            if (text.size() > 1) text += ", ";
            const ir::Expr& node = kernel_[e];
            if (node.kind == ir::ExprKind::Extent) {
                text += name_of_axis(e);
            } else {
                text += semantics::describe(kernel_, e);
            }
        }
        return text + "]";
    }

    /// The dim that constraints equate an operand's extent with, over other extents too; else the
    /// first thing that one does.
    std::string name_of_axis(ExprId extent) const {
        std::vector<ExprId> equal = {extent};
        for (std::size_t at = 0; at < equal.size(); ++at) {
            for (const ir::Constraint& c : kernel_.constraints) {
                if (c.right != equal[at] && c.left != equal[at]) continue;
                const ExprId other = c.right == equal[at] ? c.left : c.right;
                if (kernel_[other].kind == ir::ExprKind::Dim)
                    return semantics::describe(kernel_, other);
                if (std::find(equal.begin(), equal.end(), other) == equal.end())
                    equal.push_back(other);
            }
        }
        return equal.size() > 1 ? semantics::describe(kernel_, equal[1]) : "?";
    }

    std::string with_value(ExprId id) const {
        const std::string name = kernel_[id].kind == ir::ExprKind::Extent
                                     ? name_of_axis(id)
                                     : semantics::describe(kernel_, id);
        if (!binding_ || kernel_.is_constant(id)) return name;
        const auto value = ir::evaluate(kernel_, id, environment_);
        return value ? fmt::format("{} = {}", name, *value) : name;
    }

    void dimensions() {
        bool first = true;
        for (std::size_t d = 0; d < kernel_.dims.size(); ++d) {
            std::vector<std::string> reasons;
            for (const ir::Constraint& c : kernel_.constraints) {
                for (const auto& [side, other] : {std::pair{c.left, c.right}, {c.right, c.left}}) {
                    const ir::Affine form = ir::linear(kernel_, side);
                    const bool here =
                        std::any_of(form.terms.begin(), form.terms.end(), [&](const ir::Term& t) {
                            return kernel_[t.atom].kind == ir::ExprKind::Dim &&
                                   kernel_[t.atom].a == d;
                        });
                    if (!here) continue;
                    std::string reason =
                        fmt::format("{} ({}, line {})", semantics::describe(kernel_, other),
                                    semantics::to_string(c.rule), places_.at(c.span).line);
                    if (std::ranges::find(reasons, reason) == reasons.end())
                        reasons.push_back(std::move(reason));
                }
            }
            if (reasons.empty()) continue;
            const std::string value =
                binding_ ? fmt::format("{} = {}", kernel_.dims[d].name, binding_->dims[d])
                         : kernel_.dims[d].name;
            line(first ? "dimensions" : "",
                 fmt::format("{}, from {}", value, fmt::join(reasons, "; ")));
            first = false;
        }
    }

    void loops() {
        std::vector<LoopLine> list;
        collect_loops(kernel_.body, 0, list);
        std::string parallel;
        for (const LoopLine& l : list) {
            if (!l.loop->parallel) continue;
            parallel += fmt::format("{}{} in {}", parallel.empty() ? "" : ", ",
                                    kernel_.symbols[l.loop->symbol].name, range(*l.loop));
        }
        line("parallel",
             parallel.empty() ? "nothing: one point" : parallel + ", on the device's threads");
        bool first = true;
        for (const LoopLine& l : list) {
            if (l.loop->parallel) continue;
            const Span where = l.loop->span;
            if (where.length == 0) continue;
            std::string reduces;
            for (const ir::SymbolId v : l.loop->reduces) reduces += " " + kernel_.symbols[v].name;
            line(first ? "in order" : "",
                 fmt::format("{:>{}}{} in {}{}", "", 2 * l.depth,
                             kernel_.symbols[l.loop->symbol].name, range(*l.loop),
                             reduces.empty() ? "" : ", reduces" + reduces));
            first = false;
        }
    }

    std::string range(const ir::Stmt& loop) const {
        std::string text =
            fmt::format("{}..{}", semantics::describe(kernel_, loop.value), with_value(loop.end));
        if (!kernel_.is_constant(loop.step, 1)) {
            text += fmt::format(" step {}", semantics::describe(kernel_, loop.step));
        }
        return text;
    }

    void traffic(const BoundKernel& launch) {
        const Work work = work_of(launch);
        line("bytes", fmt::format("{} read, {} written, each element once",
                                  quantity(work.read, "B"), quantity(work.written, "B")));
        line("operations",
             fmt::format("{}{}, {}, {:.2f} per byte, over {}", work.is_least ? "at least " : "",
                         quantity(work.operations, " arithmetic"),
                         quantity(work.functions, " function calls"),
                         (work.operations + work.functions) / std::max(work.bytes(), 1.0),
                         quantity(work.points, " points")));
    }

    using Span = lang::Span;
    const ir::Kernel& kernel_;
    lang::Diagnostics places_;
    const semantics::Binding* binding_ = nullptr;
    ir::Environment environment_;
    std::string text_;
    std::string schedule_;
    std::string vectors_;
    std::vector<vulkan::Groups> groups_;
};

/// How a device runs the loops for operands in row-major order, and its work-groups, or why it does
/// not.
void add_schedule(Report& report, const Device& device, const BoundKernel& launch,
                  Numerics numerics) {
    const auto add = [&] {
        const ir::Kernel& kernel = launch.kernel();
        const Prepared& prepared = *launch.prepared;
        const auto schedule = [&](const std::string& loops) {
            report.schedule(numerics == Numerics::Strict
                                ? loops
                                : fmt::format("{}; {}", loops, to_string(numerics)));
        };
        if (device.is_cpu()) {
            const auto code = prepared.compiled->find(
                kernel, launch.row_major_facts(kAnywhere, kResult), numerics);
            schedule(code->schedule());
            report.vectors(cpu::chosen_simd());
        } else {
            const auto code = prepared.on_vulkan->find(
                device, kernel, launch.row_major_facts(kPacket, kPacket), numerics, {});
            schedule(code->image.schedule);
            report.groups(code->groups);
        }
    };
#if QUERN_EXCEPTIONS
    try {
        add();
    } catch (const Refusal& refusal) {
        report.schedule("none: the device " + device.id() + " does not run " + refusal.reason());
    } catch (const DeviceError& error) {
        report.schedule(std::string("none: ") + error.what());
    } catch (const OutOfMemory& error) {
        report.schedule(std::string("none: ") + error.what());
    }
#else
    add();
#endif
}

}  // namespace

std::string explain(const lang::Source& source, lang::NodeId compute,
                    std::span<const OperandInfo> operands, const Arguments& arguments,
                    const LaunchOptions& options) {
    const BoundKernel launch = bind_launch(source, compute, operands, arguments, options);
    Report report(source, launch.prepared->lowered);
    const Device& device = options.placement.device;
    if (device.is_cpu() || device.is_vulkan()) {
        add_schedule(report, device, launch, options.numerics);
    }
    return report.text(operands, &launch);
}

std::string explain(const lang::Source& source, lang::NodeId compute,
                    std::vector<semantics::Piped> then) {
    lang::Diagnostics diagnostics(source);
    const auto lowered = lower_text(source, compute, std::move(then), diagnostics);
    diagnostics.raise();
    return Report(source, *lowered).text({}, nullptr);
}

}  // namespace quern::frontend

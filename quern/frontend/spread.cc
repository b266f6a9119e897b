// Launches over several devices: each does a part of one loop.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "quern/frontend/pass_check.h"
#include "quern/frontend/run.h"
#include "quern/future.h"
#include "quern/interpret/points.h"
#include "quern/ir/index.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/storage.h"
#include "quern/runtime/vulkan_plugin.h"
#include "quern/support/check.h"

namespace quern::frontend {
namespace {

using ir::ExprId;
using ir::ExprKind;
using ir::Stmt;
using ir::StmtKind;

/// What of a kernel is cut, or why nothing is.
struct Cut {
    Stmt* loop = nullptr;

    /// The loop reduces, and what the devices get is combined by this.
    std::optional<ir::BinaryOp> combine;
    std::string why_not;
};

std::vector<Stmt*> nest_at(Stmt& outermost) {
    std::vector<Stmt*> nest{&outermost};
    while (nest.back()->body.size() == 1 && nest.back()->body[0].kind == StmtKind::For &&
           nest.back()->body[0].parallel) {
        nest.push_back(&nest.back()->body[0]);
    }
    return nest;
}

/// For each operand: whether an index of one of its loads depends on the loop.
std::vector<bool> operands_indexed_by(const ir::Kernel& kernel, ir::SymbolId loop) {
    std::vector<bool> indexed(kernel.operand_count, false);
    for (const ir::Expr& e : kernel.exprs) {
        if (e.kind != ExprKind::Load || e.a >= kernel.operand_count) continue;
        for (int p = 0; p < e.count; ++p) {
            if (ir::depends_on(kernel, kernel.index_of(e, p), loop)) indexed[e.a] = true;
        }
    }
    return indexed;
}

/// The innermost loop of the nest that indexes an operand which the outermost one does not.
Stmt* weight_loop(const ir::Kernel& kernel, const std::vector<Stmt*>& nest) {
    const std::vector<bool> data = operands_indexed_by(kernel, nest[0]->symbol);
    for (std::size_t l = nest.size(); l-- > 1;) {
        const std::vector<bool> own = operands_indexed_by(kernel, nest[l]->symbol);
        for (std::size_t i = 0; i < own.size(); ++i) {
            if (own[i] && !data[i]) return nest[l];
        }
    }
    return nullptr;
}

/// The operator that adds to `symbol`, or none.
std::optional<ir::BinaryOp> operator_of(const std::vector<Stmt>& block, ir::SymbolId symbol) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::Accumulate && s.symbol == symbol) return s.op;
        for (const auto* inner : {&s.body, &s.otherwise}) {
            if (const auto found = operator_of(*inner, symbol)) return found;
        }
    }
    return std::nullopt;
}

Cut cut_of(ir::Kernel& kernel, Spread spread) {
    Cut cut;
    Stmt* only = nullptr;
    for (Stmt& s : kernel.body) {
        const bool is_repeated = s.kind == StmtKind::Let || s.kind == StmtKind::Check ||
                                 s.kind == StmtKind::Var || s.kind == StmtKind::Store;
        if (s.kind == StmtKind::For && only == nullptr) {
            only = &s;
        } else if (!is_repeated) {
            cut.why_not = "it has more than one loop, one after the other";
            return cut;
        }
    }
    if (only == nullptr) {
        cut.why_not = "it has no loop";
        return cut;
    }
    if (!only->parallel) {
        cut.combine = kernel.kind == "reduce" && only->reduces.size() == 1
                          ? operator_of(only->body, only->reduces[0])
                          : std::nullopt;
        cut.loop = cut.combine ? only : nullptr;
        if (!cut.combine) cut.why_not = "its points are not parallel";
        return cut;
    }
    const bool is_plain = std::ranges::none_of(kernel.body, [](const Stmt& s) {
        return s.kind == StmtKind::Store || s.kind == StmtKind::Var;
    });
    if (!is_plain) {
        cut.why_not = "what is around its parallel loops writes too";
        return cut;
    }
    cut.loop = spread == Spread::Model ? weight_loop(kernel, nest_at(*only)) : only;
    if (cut.loop == nullptr) {
        cut.why_not = "no parallel loop indexes an operand that the outermost one does not";
    }
    return cut;
}

/// The iterations of a loop, of which number n has the value begin + n * step.
struct Iterations {
    std::int64_t begin = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
};

/// None if they differ between points.
std::optional<Iterations> iterations_of(const BoundLaunch& launch, const Stmt& loop) {
    const ir::Kernel& kernel = launch.prepared->lowered.kernel;
    std::vector<std::int64_t> scalars;
    for (const interpret::ScalarValue& value : launch.scalars) scalars.push_back(value.integer);
    ir::Environment environment;
    environment.dims = launch.binding.dims;
    environment.shapes = launch.shapes;
    environment.scalars = scalars;
    const auto begin = ir::evaluate(kernel, loop.value, environment);
    const auto end = ir::evaluate(kernel, loop.end, environment);
    const auto step = exists(loop.step) ? ir::evaluate(kernel, loop.step, environment) : 1;
    if (!begin || !end || !step || *step < 1) return std::nullopt;
    return Iterations{*begin, *step, *end <= *begin ? 0 : (*end - *begin - 1) / *step + 1};
}

/// The axes of the output on which a store's place is the loop's variable.
std::vector<bool> axes_of(const ir::Kernel& kernel, const Stmt& store, ir::SymbolId loop) {
    std::vector<bool> axes;
    for (const ExprId index : store.indices) {
        const ir::Expr& e = kernel[index];
        axes.push_back(e.kind == ExprKind::Symbol && e.a == loop);
    }
    return axes;
}

/// Leaves those on which every store to the output is so.
void keep_axes(const ir::Kernel& kernel, const std::vector<Stmt>& block, ir::SymbolId loop,
               std::vector<bool>& axes) {
    for (const Stmt& s : block) {
        if (s.kind == StmtKind::Store && s.buffer == kernel.output()) {
            const std::vector<bool> own = axes_of(kernel, s, loop);
            for (std::size_t p = 0; p < axes.size(); ++p) axes[p] = axes[p] && own[p];
        }
        keep_axes(kernel, s.body, loop, axes);
        keep_axes(kernel, s.otherwise, loop, axes);
    }
}

/// The axis of which a part of the loop writes a slice of the output, and nothing else.
std::optional<std::size_t> axis_of_parts(const ir::Kernel& kernel, const Stmt& loop, int rank) {
    const bool is_flat = kernel.buffers[kernel.output()].flat;
    std::vector<bool> axes(is_flat ? 1 : std::size_t(rank), true);
    keep_axes(kernel, loop.body, loop.symbol, axes);
    const auto found = std::ranges::find(axes, true);
    if (found == axes.end()) return std::nullopt;
    return std::size_t(found - axes.begin());
}

/// Copies places [begin, end) of an axis, as far as there are such, between row-major tensors of
/// one shape.
void copy_slice(const Tensor& src, Tensor& dst, const Shape& shape, std::size_t axis,
                std::int64_t begin, std::int64_t end) {
    begin = std::max<std::int64_t>(begin, 0);
    end = std::min(end, shape[axis]);
    if (begin >= end) return;
    const auto product = [&](std::size_t from, std::size_t to) {
        std::size_t count = 1;
        for (std::size_t p = from; p < to; ++p) count *= std::size_t(shape[p]);
        return count;
    };
    const std::size_t inner = product(axis + 1, shape.size()) * size_of(src.dtype());
    const std::size_t bytes = std::size_t(end - begin) * inner;
    if (bytes == 0) return;
    const auto* const from = static_cast<const std::byte*>(src.data());
    auto* const to = static_cast<std::byte*>(dst.data());
    for (std::size_t o = 0; o < product(0, axis); ++o) {
        const std::size_t at = (o * std::size_t(shape[axis]) + std::size_t(begin)) * inner;
        std::memcpy(to + at, from + at, bytes);
    }
}

/// Whether it is seen that no two points use one element of the output.
bool are_points_apart(const BoundLaunch& launch, Stmt& outermost) {
    const ir::Kernel& kernel = launch.prepared->lowered.kernel;
    const interpret::Launch numbers{.dims = launch.binding.dims,
                                    .scalars = launch.scalars,
                                    .operands = launch.views,
                                    .output = &launch.output};
    interpret::Ranges ranges(kernel, numbers);
    std::vector<const Stmt*> nest;
    for (const Stmt* loop : nest_at(outermost)) nest.push_back(loop);
    return interpret::buffers_shared_by_points(kernel, ranges, nest).empty();
}

std::string why_not(const BoundLaunch& launch, Cut& cut, Stmt& outermost) {
    if (!cut.why_not.empty()) return cut.why_not;
    if (!iterations_of(launch, *cut.loop)) return "the ends of its loops differ between points";
    if (!cut.combine && !are_points_apart(launch, outermost)) {
        return "it is not seen that its points write elements of their own";
    }
    return {};
}

bool is_seen_by_host(const Device& device) {
    const auto number = vulkan_number(device.id());
    return !number || vulkan::is_memory_seen(*number);
}

/// The device in whose memory results are: that of a device "vulkan:N" that the host sees, since
/// others write there too, but not the other way round. Some devices store a part of a word by
/// storing all of it, so such elements are written apart.
Device home_of(const std::vector<Device>& devices, DType dtype) {
    const bool is_part_of_word = size_of(dtype) < sizeof(std::uint32_t);
    const auto is_for_all = [&](const Device& d) {
        return d.is_vulkan() && is_seen_by_host(d) && !is_part_of_word;
    };
    const auto found = std::ranges::find_if(devices, is_for_all);
    if (found != devices.end()) return *found;
    const auto host = std::ranges::find_if_not(devices, &Device::is_vulkan);
    return host == devices.end() ? Device("interpreter") : *host;
}

/// Whether a device does not write in the memory of another. What it writes is copied there.
bool is_apart(const Device& device, const Device& home) {
    return device.is_vulkan() && device != home;
}

void warn_at(const lang::Source& source, lang::Span span, const std::string& reason) {
    if (span.length == 0) return;
    lang::Diagnostics diagnostics(source);
    diagnostics.add(lang::Code::W0707, span, "the work is not spread: " + reason);
    diagnostics.raise();
}

/// Runs the parts at the same time, and throws the first error once all have ended.
void run_all(const std::vector<std::function<void()>>& parts) {
    // What has begun is waited for also where the next part gets no thread.
    struct Begun {
        std::vector<Future<bool>> futures;
        ~Begun() {
            for (const Future<bool>& future : futures) future.wait();
        }
    };
    std::vector<Future<bool>> all;
    {
        Begun begun;
        begun.futures.reserve(parts.size());
        for (const auto& part : parts) {
            begun.futures.push_back(run_async<bool>([&part] {
                part();
                return true;
            }));
        }
        all = begun.futures;
    }
    for (const Future<bool>& future : all) future.get();
}

void run_part(const lang::Source& source, const BoundLaunch& launch, const Device& device,
              Tensor& result) {
    if (device.is_cpu()) {
        const auto [code, ready] = compiled(source, launch, pass_check(launch).get());
        std::vector<void*> addresses = launch.addresses();
        // Parts write elements of their own, so none waits for another.
        addresses.push_back(InFlight::address(result, vulkan_number(result.device().id())));
        if (code->run(ready, addresses)) return;
    }
    if (device.is_vulkan() && vulkan_runs(source, launch, device, result, true)) return;
    interpret(source, launch, result, {});
}

/// The kernel that makes one result of those of the parts.
std::string combining_text(ir::BinaryOp op) {
    const char* name = op == ir::BinaryOp::Add   ? "+"
                       : op == ir::BinaryOp::Mul ? "*"
                       : op == ir::BinaryOp::Min ? "min"
                       : op == ir::BinaryOp::Max ? "max"
                       : op == ir::BinaryOp::And ? "and"
                                                 : "or";
    return fmt::format(
        "compute(parts) {{\n    @kernel reduce({})\n    for i in 0..len:\n        yield "
        "parts[i]\n}}",
        name);
}

Tensor combined(const Tensor& parts, ir::BinaryOp op, const LaunchOptions& options) {
    const std::string text = combining_text(op);
    lang::Diagnostics diagnostics(text);
    const auto source = lang::parse(text, {}, diagnostics);
    diagnostics.raise();
    const lang::Tree tree = source->tree();
    LaunchOptions alone = options;
    alone.placement.others.clear();
    return launch(*source, tree.child(tree[tree.root].first, 0), std::vector{parts}, {}, alone);
}

/// Results of parts are rounded when they are combined, and not before.
void keep_digits(ir::Kernel& kernel) {
    for (Stmt& s : kernel.body) {
        if (s.kind != StmtKind::Store || s.buffer != kernel.output()) continue;
        const ir::Expr& stored = kernel[s.value];
        if (stored.kind != ExprKind::Cast || !is_floating(stored.dtype)) continue;
        s.value = ExprId(stored.a);
        kernel.buffers[kernel.output()].dtype = kernel[s.value].dtype;
    }
}

}  // namespace

void cut_loop(ir::Kernel& kernel, Spread spread) {
    const Cut cut = cut_of(kernel, spread);
    QUERN_CHECK(cut.loop != nullptr, "a loop that can be cut");
    if (cut.combine) keep_digits(kernel);
    const auto number = [&](const char* name) {
        kernel.scalars.push_back({name, DType::Int64, cut.loop->span});
        return kernel.scalar(std::uint32_t(kernel.scalars.size() - 1));
    };
    const auto place = [&](ExprId iterations) {
        const ExprId step = exists(cut.loop->step) ? cut.loop->step : kernel.integer(1);
        return kernel.binary(ir::BinaryOp::Add, cut.loop->value,
                             kernel.binary(ir::BinaryOp::Mul, iterations, step));
    };
    const ExprId begin = place(number("part.begin")), end = place(number("part.end"));
    // The extremes keep what is known of the loop's variable.
    cut.loop->value = kernel.binary(ir::BinaryOp::Max, cut.loop->value, begin);
    cut.loop->end = kernel.binary(ir::BinaryOp::Min, cut.loop->end, end);
}

Tensor launch_spread(const lang::Source& source, lang::NodeId compute,
                     std::span<const Tensor> operands, const Arguments& arguments,
                     const LaunchOptions& options) {
    std::vector<Device> devices{options.placement.device};
    devices.insert(devices.end(), options.placement.others.begin(), options.placement.others.end());
    LaunchOptions alone = options;
    alone.placement.others.clear();
    const BoundLaunch whole = bound(source, compute, operands, arguments, alone);
    ir::Kernel kernel = whole.prepared->lowered.kernel;
    Cut cut = cut_of(kernel, options.placement.spread);
    if (cut.combine && cut.why_not.empty() && options.numerics == Numerics::Reproducible) {
        cut.why_not = "it is a reduction, whose order reproducible mode keeps";
    }
    const auto outermost =
        std::ranges::find_if(kernel.body, [](const Stmt& s) { return s.kind == StmtKind::For; });
    Iterations all_of_them;
    if (std::string why = why_not(whole, cut, *outermost); !why.empty()) {
        warn_at(source, options.placement.span, why);
    } else {
        all_of_them = *iterations_of(whole, *cut.loop);
    }
    const std::int64_t trips = all_of_them.count;
    const std::int64_t count = std::min<std::int64_t>(std::int64_t(devices.size()), trips);
    if (count < 2) return launch(source, compute, operands, arguments, alone);
    devices.resize(std::size_t(count));
    const Device home = home_of(devices, whole.dtype);
    const auto axis = axis_of_parts(kernel, *cut.loop, int(whole.shape.size()));
    const auto apart =
        std::ranges::find_if(devices, [&](const Device& d) { return is_apart(d, home); });
    if (!cut.combine && !axis && apart != devices.end()) {
        warn_at(
            source, options.placement.span,
            fmt::format(
                "'{}' does not write in the memory of '{}', and its part is no slice of the result",
                apart->id(), home.id()));
        return launch(source, compute, operands, arguments, alone);
    }

    // Functions that are piped are of the whole.
    if (cut.combine) alone.then.clear();
    std::vector<Part> cuts;
    std::vector<BoundLaunch> parts;
    for (std::int64_t p = 0; p < count; ++p) {
        const Part part{options.placement.spread, trips / count * p + std::min(p, trips % count),
                        trips / count * (p + 1) + std::min(p + 1, trips % count)};
        cuts.push_back(part);
        alone.part = part;
        alone.placement.device = devices[std::size_t(p)];
        parts.push_back(bound(source, compute, operands, arguments, alone));
    }
    std::vector<Tensor> results;
    Tensor all;
    if (cut.combine) {
        // Far enough apart that no device loads or stores two of them at a time.
        constexpr std::int64_t kApart = 64;
        const Device first = is_seen_by_host(devices[0]) ? devices[0] : home;
        all = Tensor({count * kApart}, parts[0].dtype, first).slice(0, 0, count * kApart, kApart);
        for (std::int64_t p = 0; p < count; ++p) results.push_back(all.slice(0, p, p + 1));
    } else {
        const bool is_cleared = !whole.writes_all();
        const auto made = [&](const Device& device) {
            return is_cleared ? Tensor(whole.shape, whole.dtype, device)
                              : Tensor::empty(whole.shape, whole.dtype, device);
        };
        all = made(home);
        for (const Device& device : devices) {
            results.push_back(is_apart(device, home) ? made(device) : all);
        }
    }
    std::vector<std::function<void()>> work;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        work.push_back([&, p] { run_part(source, parts[p], devices[p], results[p]); });
    }
    run_all(work);
    if (cut.combine) {
        const Tensor result = combined(all, *cut.combine, options);
        return result.dtype() == whole.dtype ? result : result.to(whole.dtype);
    }
    const bool is_flat = kernel.buffers[kernel.output()].flat;
    const Shape places = is_flat ? Shape{all.element_count()} : whole.shape;
    for (std::size_t p = 0; p < parts.size(); ++p) {
        if (!is_apart(devices[p], home)) continue;
        const auto place = [&](std::int64_t n) { return all_of_them.begin + n * all_of_them.step; };
        copy_slice(results[p], all, places, *axis, place(cuts[p].begin),
                   place(cuts[p].end - 1) + 1);
    }
    return all.to(devices[0]);
}

}  // namespace quern::frontend

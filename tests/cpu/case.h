// One launch without its device: for the interpreter, and for code of each SIMD level.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quern/frontend/bound.h"
#include "quern/ir/doubles.h"
#include "quern/runtime/compiled.h"
#include "tests/sanitized.h"

namespace quern::cpu_test {

using frontend::Arguments;

/// Everything of one launch but the device.
class Case {
public:
    Case(const std::string& text, std::vector<Tensor> operands, Arguments arguments = {})
        : text_(text), operands_(std::move(operands)), arguments_(std::move(arguments)) {
        lang::Diagnostics diagnostics(text_);
        source_ = lang::parse(text_, {}, diagnostics);
        diagnostics.raise();
        for (std::size_t n = 0; n < source_->nodes.size() && compute_ < 0; ++n) {
            if (source_->nodes[n].kind == lang::Kind::Compute) compute_ = lang::NodeId(n);
        }
        bound_ = frontend::bind_launch(*source_, compute_, frontend::infos_of(operands_),
                                       arguments_, {});
        for (std::size_t i = 0; i < operands_.size(); ++i) {
            const bool flat = kernel().buffers[i].flat;
            if (flat) operands_[i] = operands_[i].contiguous();
            Tensor& t = operands_[i];
            views_.push_back({t.data(), t.dtype(), bound_.shapes[i],
                              flat ? std::vector<std::int64_t>{1} : t.strides()});
        }
        for (const ir::Scalar& s : kernel().scalars) {
            interpret::ScalarValue value;
            const auto found = arguments_.find(s.name);
            if (found != arguments_.end()) {
                if (const auto* d = std::get_if<double>(&found->second)) value.floating = *d;
                if (const auto* i = std::get_if<std::int64_t>(&found->second)) {
                    value = {*i, double(*i)};
                }
            }
            scalars_.push_back(value);
        }
    }

    const std::string& text() const { return text_; }
    const ir::Kernel& kernel() const { return bound_.kernel(); }

    ir::Facts facts() const {
        std::vector<ir::OperandView> views;
        for (const interpret::View& v : views_) {
            views.push_back({v.data, v.dtype, v.shape, v.strides});
        }
        const std::vector<std::int64_t> strides = row_major();
        views.push_back({nullptr, out().dtype, bound_.binding.output, strides});
        return ir::facts_of(kernel(), bound_.binding.dims, views);
    }

    /// What a launch on the device cpu would run.
    std::shared_ptr<const CompiledKernel> found(Numerics numerics) const {
        return bound_.prepared->compiled->find(kernel(), facts(), numerics);
    }

    /// None if the launch fails.
    std::optional<Tensor> interpreted() const {
        Tensor result(bound_.binding.output, out().dtype, Device("interpreter"));
        const auto failure =
            bound_.prepared->program.run(bound_.binding.dims, scalars_, views_, view(result));
        if (failure) return std::nullopt;
        return result;
    }

    /// What the interpreter makes of another kernel with the same operands.
    std::optional<Tensor> interpreted(const ir::Kernel& kernel) const {
        Tensor result(bound_.binding.output, out().dtype, Device("interpreter"));
        if (interpret::Program(kernel).run(bound_.binding.dims, scalars_, views_, view(result))) {
            return std::nullopt;
        }
        return result;
    }

    frontend::BoundLaunch launch(Numerics numerics = Numerics::Strict) const {
        frontend::LaunchOptions options;
        options.numerics = numerics;
        return frontend::bound(*source_, compute_, operands_, arguments_, options);
    }

    std::optional<Tensor> compiled(const CompiledKernel& compiled, int threads = 2) const {
        Tensor result = output();
        if (!run(compiled, result, threads)) return std::nullopt;
        return result;
    }

    std::optional<Tensor> compiled(Numerics numerics, cpu::Simd simd, int threads = 2) const {
        return compiled(CompiledKernel(kernel(), facts(), numerics, simd), threads);
    }

    /// By code of 32 bits, as for a device without numbers of 64.
    std::optional<Tensor> without_int64(Numerics numerics, cpu::Simd simd) const {
        const ir::Facts f = facts();
        return compiled(CompiledKernel(kernel(), f,
                                       compile({.kernel = kernel(),
                                                .facts = f,
                                                .numerics = numerics,
                                                .simd = simd,
                                                .has_int64 = false})));
    }

    /// By the code of a plan whose functions may be those of lanes, or none where it fails.
    std::optional<Tensor> compiled(const schedule::Plan& plan, cpu::Simd simd,
                                   bool watches_races = false) const {
        const ir::Facts f = facts();
        return compiled(CompiledKernel(kernel(), f,
                                       compile({.kernel = kernel(),
                                                .facts = f,
                                                .simd = simd,
                                                .plan = &plan,
                                                .watches_races = watches_races})));
    }

    /// What a device "vulkan:N" makes of it.
    std::optional<Tensor> on_vulkan(const Device& device, Numerics numerics,
                                    vulkan::PointsAre points = vulkan::PointsAre::Chosen,
                                    bool may_be_small = true) const {
        Tensor result = output();
        const bool has_run =
            frontend::run_on_vulkan(launch(numerics), device, result, !is_written_whole(),
                                    {.points = points, .may_be_small = may_be_small});
        return has_run ? std::optional(result) : std::nullopt;
    }

    /// Memory for the result: zeros, unless each element is written, then bits that are 1.
    Tensor output() const {
        Tensor result(bound_.binding.output, out().dtype, Device("interpreter"));
        if (result.bytes() > 0 && is_written_whole()) {
            std::memset(result.data(), 0xFF, result.bytes());
        }
        return result;
    }

    bool has_float64() const { return ir::needs_float64(kernel()); }

    bool is_written_whole() const { return bound_.writes_all(); }

    /// How code of an image is launched, on one thread.
    ReadyLaunch ready(const KernelImage& image) const {
        std::vector<DType> dtypes;
        for (const ir::Scalar& scalar : kernel().scalars) dtypes.push_back(scalar.dtype);
        Tensor result = output();
        return ready_launch(image, dtypes, bound_.binding.dims, scalars_, views_, view(result), 1);
    }

    ReadyLaunch ready(const CompiledKernel& kernel, int threads) const {
        Tensor result = output();
        return kernel.ready(bound_.binding.dims, scalars_, views_, view(result), threads);
    }

    /// Of the operands.
    const std::vector<interpret::View>& views() const { return views_; }

    /// False if the launch fails.
    bool run(const CompiledKernel& kernel, Tensor& result, int threads) const {
        return kernel.run(bound_.binding.dims, scalars_, views_, view(result), threads);
    }

private:
    const ir::Buffer& out() const { return kernel().buffers[kernel().output()]; }

    std::vector<std::int64_t> row_major() const {
        std::vector<std::int64_t> strides(bound_.binding.output.size(), 1);
        for (std::size_t p = strides.size(); p-- > 1;) {
            strides[p - 1] = strides[p] * bound_.binding.output[p];
        }
        return strides;
    }

    interpret::View view(Tensor& result) const {
        return {result.data(), out().dtype, bound_.binding.output, row_major()};
    }

    std::string text_;
    lang::NodeId compute_ = -1;
    std::vector<Tensor> operands_;
    Arguments arguments_;
    std::shared_ptr<const lang::Source> source_;
    frontend::BoundKernel bound_;
    std::vector<interpret::View> views_;
    std::vector<interpret::ScalarValue> scalars_;
};

/// The levels that this processor has. A sanitizer sees nothing of the code that is made, so under
/// one the least and the best say what there is to say of its making.
inline std::vector<cpu::Simd> levels_here() {
    std::vector<cpu::Simd> levels;
    for (const cpu::Simd simd : cpu::kSimdLevels) {
        if (cpu::has(simd)) levels.push_back(simd);
    }
    if (kSanitized && levels.size() > 2) levels = {levels.front(), levels.back()};
    return levels;
}

/// Any NaN is as good as any other: IEEE 754 leaves their bits open. Numbers below `least` are 0.
inline bool same_numbers(const Tensor& a, const Tensor& b, double least = 0) {
    if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
    if (!is_floating(a.dtype())) {
        return a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
    }
    std::vector<double> x = a.values(), y = b.values();
    for (std::size_t i = 0; i < x.size(); ++i) {
        for (double* v : {&x[i], &y[i]}) {
            if (std::abs(*v) < least) *v = std::copysign(0.0, *v);
        }
        const bool both_nan = std::isnan(x[i]) && std::isnan(y[i]);
        if (!both_nan && (x[i] != y[i] || std::signbit(x[i]) != std::signbit(y[i]))) return false;
    }
    return true;
}

/// As a device has them whose floats have no denormals.
inline bool same_normal_numbers(const Tensor& a, const Tensor& b) {
    return same_numbers(a, b, std::numeric_limits<float>::min());
}

}  // namespace quern::cpu_test

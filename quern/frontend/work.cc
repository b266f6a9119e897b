#include "quern/frontend/work.h"

#include <algorithm>

#include "quern/frontend/prepare.h"
#include "quern/ir/index.h"

namespace quern::frontend {
namespace {

using ir::ExprId;
using ir::StmtKind;

class Counter {
public:
    Counter(const ir::Kernel& kernel, const ir::Environment& environment)
        : kernel_(kernel), environment_(environment) {}

    Work count() {
        block(kernel_.body, 1);
        return work_;
    }

private:
    void block(const std::vector<ir::Stmt>& body, double times) {
        for (const ir::Stmt& s : body) {
            double inside = times;
            if (s.kind == StmtKind::For) {
                const std::int64_t begin = number(s.value), end = number(s.end);
                const std::int64_t step = std::max<std::int64_t>(number(s.step), 1);
                environment_.symbols[s.symbol] = begin;
                const double trips = end > begin ? double((end - begin + step - 1) / step) : 0;
                inside = times * trips;
                if (s.parallel) work_.points *= trips;
            } else {
                expression(s.value, times);
                if (s.kind == StmtKind::Accumulate) work_.operations += times;
            }
            block(s.body, inside);
            block(s.otherwise, inside);
        }
    }

    std::int64_t number(ExprId id) const {
        return ir::evaluate(kernel_, id, environment_).value_or(0);
    }

    void expression(ExprId id, double times) {
        if (!exists(id)) return;
        const ir::Expr& e = kernel_[id];
        if (e.kind == ir::ExprKind::Load || e.dtype == DType::Int64) return;
        if (e.kind == ir::ExprKind::Binary) {
            const bool power = static_cast<ir::BinaryOp>(e.op) == ir::BinaryOp::Pow;
            (power ? work_.functions : work_.operations) += times;
        }
        if (e.kind == ir::ExprKind::Unary) {
            const bool sign = static_cast<ir::UnaryOp>(e.op) <= ir::UnaryOp::IsNan;
            (sign ? work_.operations : work_.functions) += times;
        }
        ir::for_each_child(kernel_, id, [&](ExprId child) { expression(child, times); });
    }

    const ir::Kernel& kernel_;
    ir::Environment environment_;
    Work work_;
};

}  // namespace

Work work_of(const ir::Kernel& kernel, std::span<const OperandInfo> operands,
             const semantics::Binding& binding, std::span<const Shape> shapes) {
    ir::Environment environment;
    environment.dims = binding.dims;
    environment.shapes = shapes;
    Work work = Counter(kernel, environment).count();
    for (const OperandInfo& o : operands) {
        work.read += double(element_count(o.shape)) * double(size_of(o.dtype));
    }
    const ir::Buffer& out = kernel.buffers[kernel.output()];
    work.written = double(element_count(binding.output)) * double(size_of(out.dtype));
    return work;
}

Work work_of(const lang::Source& source, lang::NodeId compute,
             std::span<const OperandInfo> operands, const Arguments& arguments,
             const LaunchOptions& options) {
    const auto prepared = prepare(source, compute, operands, arguments, options);
    const std::vector<Shape> shapes = bound_shapes(source, *prepared, operands);
    return work_of(prepared->lowered.kernel, operands, bind_or_raise(source, *prepared, shapes),
                   shapes);
}

}  // namespace quern::frontend

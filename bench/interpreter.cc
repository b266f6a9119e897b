// Loop steps a second of the interpreter on one thread, and what a second thread gives.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "quern/interpret/interpret.h"
#include "quern/ir/builder.h"

namespace {

using namespace quern;
using ir::BinaryOp;
using ir::BufferId;
using ir::Builder;
using ir::ExprId;
using ir::Kernel;
using ir::SymbolId;
using ir::UnaryOp;

using Extents = std::vector<std::int64_t>;

struct Job {
    const char* name;
    Kernel kernel;
    std::vector<Extents> operands;
    Extents output;
};

/// Nodes of the kernel that is being built.
struct Nodes {
    Builder b{"bench"};
    Kernel& k = b.kernel();

    ExprId zero() { return k.floating(0, DType::Float32); }
    ExprId op(BinaryOp op, ExprId x, ExprId y) { return k.binary(op, x, y); }
    ExprId points(const char* name, ExprId end) {
        return b.begin_for(name, k.integer(0), end, {.parallel = true});
    }
    ExprId loop(const char* name, ExprId end, SymbolId reduced) {
        return b.begin_for(name, k.integer(0), end, {.reduces = {reduced}});
    }
    void close(int blocks) {
        while (blocks-- > 0) b.end_for();
    }
};

Job matmul(std::int64_t n) {
    Nodes m;
    const BufferId x = m.b.operand("A", DType::Float32, 2), y = m.b.operand("B", DType::Float32, 2);
    const ExprId rows = m.k.extent(x, 0), cols = m.k.extent(y, 1);
    const BufferId out = m.b.output("out", DType::Float32, {rows, cols});
    const ExprId i = m.points("i", rows), j = m.points("j", cols);
    const SymbolId sum = m.b.var("sum", m.zero());
    const ExprId k = m.loop("k", m.k.extent(x, 1), sum);
    m.b.accumulate(sum, BinaryOp::Add,
                   m.op(BinaryOp::Mul, m.k.load(x, {i, k}), m.k.load(y, {k, j})));
    m.close(1);
    m.b.store(out, {i, j}, m.b.read(sum));
    m.close(2);
    return {"matmul", m.b.take(), {{n, n}, {n, n}}, {n, n}};
}

Job element_wise(std::int64_t n) {
    Nodes m;
    const BufferId x = m.b.operand("x", DType::Float32, 1);
    const BufferId out = m.b.output("out", DType::Float32, {m.k.extent(x, 0)});
    const ExprId i = m.points("i", m.k.extent(x, 0));
    m.b.store(out, {i}, m.op(BinaryOp::Max, m.k.load(x, {i}), m.zero()));
    m.close(1);
    return {"element-wise max", m.b.take(), {{n}}, {n}};
}

Job sum_of_exp(std::int64_t rows, std::int64_t n) {
    Nodes m;
    const BufferId x = m.b.operand("x", DType::Float32, 2);
    const BufferId out = m.b.output("out", DType::Float32, {m.k.extent(x, 0)});
    const ExprId i = m.points("i", m.k.extent(x, 0));
    const SymbolId sum = m.b.var("sum", m.zero());
    const ExprId k = m.loop("k", m.k.extent(x, 1), sum);
    m.b.accumulate(sum, BinaryOp::Add, m.k.unary(UnaryOp::Exp, m.k.load(x, {i, k})));
    m.close(1);
    m.b.store(out, {i}, m.b.read(sum));
    m.close(1);
    return {"row sums of exp", m.b.take(), {{rows, n}}, {rows}};
}

/// The tanh form.
Job gelu(std::int64_t n) {
    Nodes m;
    const BufferId x = m.b.operand("x", DType::Float32, 1);
    const BufferId out = m.b.output("out", DType::Float32, {m.k.extent(x, 0)});
    const ExprId i = m.points("i", m.k.extent(x, 0));
    const ExprId v = m.b.let("v", m.k.load(x, {i}));
    const auto number = [&](double c) { return m.k.floating(c, DType::Float32); };
    const auto times = [&](ExprId p, ExprId q) { return m.op(BinaryOp::Mul, p, q); };
    const ExprId cube = times(times(v, v), v);
    const ExprId inner = m.op(BinaryOp::Add, v, times(number(0.044715), cube));
    const ExprId tanh = m.k.unary(UnaryOp::Tanh, times(number(0.7978845608), inner));
    m.b.store(out, {i}, times(times(v, number(0.5)), m.op(BinaryOp::Add, number(1), tanh)));
    m.close(1);
    return {"gelu", m.b.take(), {{n}}, {n}};
}

/// Every read is checked, since the indices are data.
Job gather(std::int64_t n) {
    Nodes m;
    const BufferId x = m.b.operand("x", DType::Float32, 1), at = m.b.operand("at", DType::Int64, 1);
    const BufferId out = m.b.output("out", DType::Float32, {m.k.extent(at, 0)});
    const ExprId i = m.points("i", m.k.extent(at, 0));
    m.b.store(out, {i}, m.k.load(x, {m.k.load(at, {i})}));
    m.close(1);
    return {"checked gather", m.b.take(), {{n}, {n}}, {n}};
}

/// Nested reductions of three iterations, guarded at the borders.
Job convolution(std::int64_t channels, std::int64_t side) {
    Nodes m;
    const BufferId x = m.b.operand("input", DType::Float32, 3);
    const BufferId w = m.b.operand("kernel", DType::Float32, 4);
    const ExprId height = m.k.extent(x, 1), width = m.k.extent(x, 2), one = m.k.integer(1);
    const BufferId out = m.b.output("out", DType::Float32, {m.k.extent(w, 0), height, width});
    const ExprId oc = m.points("oc", m.k.extent(w, 0));
    const ExprId oh = m.points("oh", height), ow = m.points("ow", width);
    const SymbolId sum = m.b.var("sum", m.zero());
    const ExprId ic = m.loop("ic", m.k.extent(x, 0), sum);
    const ExprId kh = m.loop("kh", m.k.extent(w, 2), sum);
    const ExprId kw = m.loop("kw", m.k.extent(w, 3), sum);
    const auto shifted = [&](ExprId p, ExprId q) {
        return m.op(BinaryOp::Sub, m.op(BinaryOp::Add, p, q), one);
    };
    const auto inside = [&](ExprId e, ExprId extent) {
        return m.op(BinaryOp::And, m.op(BinaryOp::LessEqual, m.k.integer(0), e),
                    m.op(BinaryOp::Less, e, extent));
    };
    const ExprId ih = m.b.let("ih", shifted(oh, kh)), iw = m.b.let("iw", shifted(ow, kw));
    m.b.begin_if(m.op(BinaryOp::And, inside(ih, height), inside(iw, width)));
    m.b.accumulate(sum, BinaryOp::Add,
                   m.op(BinaryOp::Mul, m.k.load(x, {ic, ih, iw}), m.k.load(w, {oc, ic, kh, kw})));
    m.b.end_if();
    m.close(3);
    m.b.store(out, {oc, oh, ow}, m.b.read(sum));
    m.close(3);
    return {"convolution 3x3",
            m.b.take(),
            {{channels, side, side}, {channels, channels, 3, 3}},
            {channels, side, side}};
}

std::size_t count_of(const Extents& extents) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents) count *= extent;
    return static_cast<std::size_t>(count);
}

interpret::View view_of(void* data, DType dtype, const Extents& shape) {
    interpret::View view{data, dtype, shape, Extents(shape.size(), 1)};
    for (std::size_t axis = shape.size(); axis-- > 1;) {
        view.strides[axis - 1] = view.strides[axis] * shape[axis];
    }
    return view;
}

/// The best of five launches.
double seconds(const Job& job, int threads, std::uint64_t& steps) {
    std::vector<std::vector<float>> floats(job.operands.size());
    std::vector<Extents> integers(job.operands.size());
    std::vector<interpret::View> operands;
    for (std::size_t o = 0; o < job.operands.size(); ++o) {
        const DType dtype = job.kernel.buffers[o].dtype;
        const std::size_t count = count_of(job.operands[o]);
        floats[o].assign(count, 0.5f);
        for (std::size_t n = 0; n < count; ++n) integers[o].push_back(std::int64_t(n));
        void* data = dtype == DType::Float32 ? static_cast<void*>(floats[o].data())
                                             : static_cast<void*>(integers[o].data());
        operands.push_back(view_of(data, dtype, job.operands[o]));
    }
    std::vector<float> result(count_of(job.output));
    const interpret::View output = view_of(result.data(), DType::Float32, job.output);
    const interpret::Program program(job.kernel);
    interpret::Options options;
    options.threads = threads;
    double best = HUGE_VAL;
    for (int repeat = 0; repeat < 5; ++repeat) {
        const auto start = std::chrono::steady_clock::now();
        if (const auto failure = program.run({}, {}, operands, output, options)) {
            std::fprintf(stderr, "%s: %s\n", job.name, failure->message.c_str());
            return HUGE_VAL;
        }
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        best = std::min(best, taken.count());
    }
    steps = interpret::Program::steps_of_last_run();
    return best;
}

}  // namespace

int main() {
    std::printf("%-18s %12s %20s %12s\n", "kernel", "steps", "million steps/s", "2 threads");
    for (const Job& job : {matmul(256), element_wise(4'000'000), sum_of_exp(1000, 4000),
                           gelu(1'000'000), gather(4'000'000), convolution(16, 48)}) {
        std::uint64_t steps = 0;
        const double one = seconds(job, 1, steps), two = seconds(job, 2, steps);
        std::printf("%-18s %12llu %20.1f %11.2fx\n", job.name,
                    static_cast<unsigned long long>(steps), double(steps) / one / 1e6, one / two);
    }
    std::uint64_t steps = 0;
    std::printf("launch of a 2x2 matmul: %.1f us\n", seconds(matmul(2), 1, steps) * 1e6);
}

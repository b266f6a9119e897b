#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quern/interpret/interpret.h"
#include "quern/ir/builder.h"
#include "quern/ir/verify.h"

// Kernels and operands for the tests of the interpreter.

namespace quern::interpret::testing {

using ir::BinaryOp;
using ir::BufferId;
using ir::BufferKind;
using ir::Code;
using ir::ExprId;
using ir::Kernel;
using ir::Span;
using ir::SymbolId;
using ir::UnaryOp;

/// A builder with short names for nodes.
struct Build : ir::Builder {
    Build() : ir::Builder("test", "custom") {}

    ExprId i(std::int64_t value) { return kernel().integer(value); }
    ExprId f(double value, DType dtype = DType::Float32) { return kernel().floating(value, dtype); }
    ExprId extent(BufferId operand, std::uint32_t axis = 0) {
        return kernel().extent(operand, axis);
    }
    ExprId at(BufferId b, const std::vector<ExprId>& indices, Span span = {}) {
        return kernel().load(b, indices, span);
    }
    ExprId op(BinaryOp op, ExprId a, ExprId b, Span span = {}) {
        return kernel().binary(op, a, b, span);
    }
    ExprId add(ExprId a, ExprId b) { return op(BinaryOp::Add, a, b); }
    ExprId sub(ExprId a, ExprId b) { return op(BinaryOp::Sub, a, b); }
    ExprId mul(ExprId a, ExprId b) { return op(BinaryOp::Mul, a, b); }
    ExprId less(ExprId a, ExprId b) { return op(BinaryOp::Less, a, b); }
    ExprId loop(const std::string& name, ExprId end, std::vector<SymbolId> reduces = {}) {
        return begin_for(name, i(0), end, {.reduces = std::move(reduces)});
    }
    ExprId points(const std::string& name, ExprId end) {
        return begin_for(name, i(0), end, {.parallel = true});
    }
};

/// Elements in memory, with a row-major view of them.
template <class T>
struct Data {
    std::vector<T> values;
    View view;

    Data(DType dtype, std::vector<std::int64_t> shape, std::vector<T> elements)
        : values(std::move(elements)) {
        view.dtype = dtype;
        view.strides.assign(shape.size(), 1);
        for (std::size_t axis = shape.size(); axis-- > 1;) {
            view.strides[axis - 1] = view.strides[axis] * shape[axis];
        }
        view.shape = std::move(shape);
        view.data = values.data();
    }
    Data(const Data&) = delete;
    Data& operator=(const Data&) = delete;
};

template <class T>
struct Result {
    std::vector<T> values;
    std::optional<Failure> failure;
    std::uint64_t steps = 0;
};

struct How {
    int threads = 1;
    std::vector<std::int64_t> dims = {};
    std::vector<ScalarValue> scalars = {};
    std::int64_t local_limit = std::int64_t(1) << 32;
    std::function<void(double)> progress = {};
};

/// Runs a kernel that verifies into a zero-filled output of elements T.
template <class T>
Result<T> run(const Kernel& kernel, const std::vector<View>& operands,
              const std::vector<std::int64_t>& shape, const How& how = {}) {
    const std::vector<std::string> wrong = ir::verify(kernel);
    EXPECT_TRUE(wrong.empty()) << (wrong.empty() ? "" : wrong.front());
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    Data<T> out(kernel.buffers[kernel.output()].dtype, shape,
                std::vector<T>(std::size_t(count), T{}));
    Options options;
    options.threads = how.threads;
    options.local_limit = how.local_limit;
    options.progress = how.progress;
    Result<T> result;
    result.failure = Program(kernel).run(how.dims, how.scalars, operands, out.view, options);
    result.steps = Program::steps_of_last_run();
    result.values = std::move(out.values);
    return result;
}

template <class T>
std::vector<T> values_of(const Result<T>& result) {
    EXPECT_FALSE(result.failure) << result.failure->message;
    return result.values;
}

}  // namespace quern::interpret::testing

#pragma once

#include <cmath>

#include "quern/ir/builder.h"

// Small valid kernels that several tests begin with.

namespace quern::ir {

/// out[i, j] = the sum over k of A[i, k] * B[k, j].
inline Kernel matmul() {
    Builder b("matmul", "matmul");
    Kernel& k = b.kernel();
    const ExprId M = b.dim("M", {5, 1}), N = b.dim("N"), K = b.dim("K");
    const BufferId A = b.operand("A", DType::Float32, 2, {10, 1});
    const BufferId B = b.operand("B", DType::Float32, 2);
    const BufferId out = b.output("out", DType::Float32, {M, N});
    b.require(M, k.extent(A, 0), Rule::BareIndex, Code::E0501, {30, 7});
    b.require(K, k.extent(A, 1));
    b.require(K, k.extent(B, 0));
    b.require(N, k.extent(B, 1));
    const ExprId zero = k.integer(0);
    const ExprId i = b.begin_for("i", zero, M, {.parallel = true, .span = {40, 9}});
    const ExprId j = b.begin_for("j", zero, N, {.parallel = true});
    const SymbolId sum = b.var("sum", k.floating(0, DType::Float32), {60, 13});
    const ExprId n = b.begin_for("k", zero, K, {.reduces = {sum}});
    b.accumulate(sum, BinaryOp::Add,
                 k.binary(BinaryOp::Mul, k.load(A, {i, n}, {80, 7}), k.load(B, {n, j}), {88, 1}),
                 {75, 20});
    b.end_for();
    b.store(out, {i, j}, b.read(sum));
    b.end_for();
    b.end_for();
    return b.take();
}

/// One of every kind of statement: the smallest positive element of each row, by way of a tile.
inline Kernel everything() {
    Builder b("every.thing");
    Kernel& k = b.kernel();
    k.cooperative = true;
    k.workgroup[0] = 32;
    k.workgroup[1] = 2;
    const ExprId rows = b.dim("rows"), half = b.dim("cols/2");
    const ExprId eps = b.scalar("eps", DType::Float64);
    const BufferId x = b.operand("x", DType::Float32, 2);
    const BufferId mask = b.operand("mask", DType::Bool, 1);
    k.buffers[mask].flat = true;
    const BufferId out = b.output("out", DType::Int64, {rows});
    const ExprId zero = k.integer(0), two = k.integer(2);
    b.require(k.binary(BinaryOp::Mul, half, two), k.extent(x, 1), Rule::Strided, Code::E0508);
    b.check(k.binary(BinaryOp::Less, zero, rows), Code::E0620, {3, 4});
    const ExprId r = b.begin_for("r", zero, rows, {.parallel = true});
    const BufferId tile = b.alloc(BufferKind::Local, "tile", DType::Float32, {half, two});
    const BufferId seen = b.alloc(BufferKind::Shared, "seen", DType::Bool, {});
    const SymbolId any = b.var("any", k.boolean(false));
    const ExprId c = b.begin_for("c", zero, k.extent(x, 1), {.step = two, .reduces = {any}});
    const ExprId value = b.let("value", k.load(x, {r, c}));
    const ExprId above = k.binary(BinaryOp::Less, eps, k.cast(value, DType::Float64));
    b.begin_if(
        k.binary(BinaryOp::And, above, k.unary(UnaryOp::Not, k.unary(UnaryOp::IsNan, value))));
    b.accumulate(any, BinaryOp::Or, k.boolean(true));
    b.begin_else();
    b.begin_if(k.load(mask, {c}));
    b.store(
        tile, {k.binary(BinaryOp::FloorDiv, c, two), zero},
        k.unary(UnaryOp::Sqrt, k.binary(BinaryOp::Pow, value, k.floating(-2.5, DType::Float32))));
    b.end_if();
    b.end_if();
    b.end_for();
    b.store(seen, {}, b.read(any));
    b.barrier();
    const SymbolId best = b.var("best", k.floating(INFINITY, DType::Float32));
    const SymbolId at = b.var("at", k.integer(-1));
    const ExprId d = b.begin_for("c", zero, half);
    b.arg_reduce(best, at, BinaryOp::Less, k.load(tile, {d, zero}), d);
    b.end_for();
    b.assign(at, k.select(k.load(seen, {}), b.read(at), k.unary(UnaryOp::Neg, b.read(at))));
    b.store(out, {r}, b.read(at));
    b.end_for();
    return b.take();
}

}  // namespace quern::ir

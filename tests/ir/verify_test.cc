#include "quern/ir/verify.h"

#include <gtest/gtest.h>

#include <functional>

#include "kernels.h"
#include "quern/ir/parse.h"

namespace quern::ir {
namespace {

using Findings = std::vector<std::string>;

/// The findings with the numbers of nodes left out.
Findings findings(const Kernel& kernel) {
    Findings list = verify(kernel);
    for (std::string& each : list) {
        if (each.starts_with("node ")) each.erase(5, each.find(' ', 5) - 4);
    }
    return list;
}

/// What verify says of matmul() after a change.
Findings after(const std::function<void(Kernel&)>& change) {
    Kernel k = matmul();
    change(k);
    return findings(k);
}

/// What verify says of a body, over a few declarations.
Findings of(const std::string& body) {
    std::string error;
    const auto kernel = parse_ir(
        "kernel k {\n"
        "dim M, N\n"
        "scalar s: float32, n: int64\n"
        "operand A: float32[A.0, A.1]\n"
        "operand idx: int64[idx.0]\n"
        "operand h: float8_e4m3[h.0]\n"
        "output out: float32[M]\n" +
            body + "\n}\n",
        error);
    EXPECT_TRUE(kernel) << error;
    return kernel ? findings(*kernel) : Findings();
}

void add_node(Kernel& k, ExprKind kind, int op = 0, std::uint32_t a = 0) {
    Expr e;
    e.kind = kind;
    e.op = static_cast<std::uint8_t>(op);
    e.a = a;
    k.exprs.push_back(e);
}

Stmt& innermost(Kernel& k) { return k.body[0].body[0].body[1].body[0]; }
Expr& node(Kernel& k, ExprId id) { return k.exprs[static_cast<std::uint32_t>(id)]; }

TEST(Verify, AcceptsValidKernels) {
    EXPECT_EQ(verify(matmul()), Findings());
    EXPECT_EQ(verify(everything()), Findings());
    EXPECT_EQ(of("parallel for i in 0..M { out[i] = float32(h[i]) + A[i, idx[i]] }"), Findings());
    EXPECT_EQ(of("var a: float32 = 0.0\n"
                 "for i in 0..M reduces a { for j in 0..i reduces a { a max= A[i, j] } }\n"
                 "parallel for r in 0..M step n { out[r] = a }"),
              Findings());
    EXPECT_EQ(of("var a: float32 = 0.0 var at: int64 = 0\n"
                 "for i in 0..M { if 0.0 < A[i, i] { argmin a, at = A[i, i], i } }"),
              Findings());
    EXPECT_EQ(of("parallel for i in 0..M { local t: float32[i + 1] if i < N { barrier } }"),
              Findings());
}

// Nodes.

TEST(Verify, NodesReferToWhatIsThere) {
    const Findings none{"node (dim): expected an index below 3, got 9"};
    EXPECT_EQ(after([](Kernel& k) { k.exprs[0].a = 9; }), none);
    EXPECT_EQ(after([](Kernel& k) { node(k, k.extent(0, 0)).b = 2; }).at(0),
              "node (extent): expected an index below 2, got 2");
    EXPECT_EQ(after([](Kernel& k) { node(k, k.extent(0, 0)).a = 2; }).at(0),
              "node (extent): expected an index below 2, got 2");
    EXPECT_EQ(after([](Kernel& k) { add_node(k, ExprKind::Scalar); }).at(0),
              "node (scalar): expected an index below 0, got 0");
    EXPECT_EQ(after([](Kernel& k) { add_node(k, ExprKind::Symbol, 0, 77); }).at(0),
              "node (symbol): expected an index below 4, got 77");
    EXPECT_EQ(after([](Kernel& k) { k.index_pool.pop_back(); }).size(), 1u);
    EXPECT_EQ(after([](Kernel& k) { node(k, innermost(k).value).a = 400; }).at(0),
              "node (mul) @88+1: expected operands with smaller ids, got 400");
    EXPECT_EQ(after([](Kernel& k) { k.exprs[0].kind = static_cast<ExprKind>(99); }).at(0),
              "node (node): unknown kind");
    EXPECT_EQ(after([](Kernel& k) { k.exprs[0].dtype = static_cast<DType>(99); }).at(0),
              "node (node): unknown dtype");
    EXPECT_EQ(after([](Kernel& k) { node(k, innermost(k).value).op = 99; }).at(0),
              "node (binary) @88+1: unknown operator");
    EXPECT_EQ(after([](Kernel& k) { add_node(k, ExprKind::Unary, 99); }).at(0),
              "node (unary): unknown operator");
}

TEST(Verify, DtypesOfNodesAgree) {
    const auto size = static_cast<std::uint32_t>(matmul().exprs.size());
    const std::uint32_t truth = size, f8 = size + 1, f32 = size + 2;
    const auto add = [&](ExprKind kind, auto op, DType dtype, std::uint32_t a, std::uint32_t b = 0,
                         std::uint32_t c = 0) {
        return after([&](Kernel& k) {
            EXPECT_EQ(k.boolean(true), ExprId{truth});
            EXPECT_EQ(k.floating(1, DType::Float8E5M2), ExprId{f8});
            EXPECT_EQ(k.floating(1, DType::Float32), ExprId{f32});
            k.exprs.push_back({kind, static_cast<std::uint8_t>(op), dtype, 0, a, b, c, {}});
        });
    };
    using enum ExprKind;
    const auto text = [&](const char* problem) { return Findings{std::string("node ") + problem}; };
    EXPECT_EQ(add(Dim, 0, DType::Float32, 0), text("(dim): expected int64, got float32"));
    EXPECT_EQ(add(Extent, 0, DType::Int32, 0, 0), text("(extent): expected int64, got int32"));
    EXPECT_EQ(add(Symbol, 0, DType::Int32, 0), text("(symbol): expected int64, got int32"));
    EXPECT_EQ(add(Unary, UnaryOp::Not, DType::Bool, 0), text("(not): expected bool, got int64"));
    EXPECT_EQ(add(Unary, UnaryOp::Neg, DType::Bool, truth),
              text("(neg): expected a number, got bool"));
    EXPECT_EQ(add(Unary, UnaryOp::Exp, DType::Int64, 0),
              text("(exp): expected a floating dtype, got int64"));
    EXPECT_EQ(add(Unary, UnaryOp::IsNan, DType::Bool, 0),
              text("(isnan): expected a floating dtype, got int64"));
    EXPECT_EQ(add(Unary, UnaryOp::IsNan, DType::Float32, f32),
              text("(isnan): expected bool, got float32"));
    EXPECT_EQ(add(Unary, UnaryOp::Abs, DType::Float8E5M2, f8),
              text("(abs): expected a number, got float8_e5m2"));
    EXPECT_EQ(add(Unary, UnaryOp::Abs, DType::Int64, f32),
              text("(abs): expected float32, got int64"));
    EXPECT_EQ(add(Binary, BinaryOp::Add, DType::Int64, 0, f32),
              text("(add): expected int64, got float32"));
    EXPECT_EQ(add(Binary, BinaryOp::Add, DType::Float32, 0, 0),
              text("(add): expected int64, got float32"));
    EXPECT_EQ(add(Binary, BinaryOp::Add, DType::Bool, truth, truth),
              text("(add): expected a number, got bool"));
    EXPECT_EQ(add(Binary, BinaryOp::Add, DType::Float8E5M2, f8, f8),
              text("(add): expected a dtype of arithmetic, got float8_e5m2"));
    EXPECT_EQ(add(Binary, BinaryOp::Less, DType::Int64, 0, 0),
              text("(lt): expected bool, got int64"));
    EXPECT_EQ(add(Binary, BinaryOp::And, DType::Int64, 0, 0),
              text("(and): expected bool, got int64"));
    EXPECT_EQ(add(Binary, BinaryOp::FloorDiv, DType::Float32, f32, f32),
              text("(floordiv): expected an integer dtype, got float32"));
    EXPECT_EQ(add(Select, 0, DType::Int64, 0, 0, 0), text("(select): expected bool, got int64"));
    EXPECT_EQ(add(Select, 0, DType::Int64, truth, 0, f32),
              text("(select): expected int64, got float32"));
    EXPECT_EQ(add(Cast, 0, DType::Int64, 0), text("(cast): expected another dtype than int64"));
}

TEST(Verify, LoadsFitTheirBuffer) {
    EXPECT_EQ(of("out[0] = A[0]"), Findings{"node (load of 'A'): expected 2 indices, got 1"});
    EXPECT_EQ(of("out[0] = A[s, 0]"), Findings{"node (load of 'A'): expected int64, got float32"});
    EXPECT_EQ(after([](Kernel& k) { k.buffers[0].dtype = DType::Float64; }).at(0),
              "node (load of 'A') @80+7: expected float64, got float32");
}

// Buffers and constraints.

TEST(Verify, BuffersComeInOrderWithShapesKnownAtLaunch) {
    EXPECT_EQ(after([](Kernel& k) { k.buffers.resize(2); }).at(0), "buffers: expected an output");
    EXPECT_EQ(
        after([](Kernel& k) { k.buffers[2].kind = BufferKind::Local; }),
        Findings{"buffer 'out': expected operands, the output, then local and shared arrays"});
    EXPECT_EQ(after([](Kernel& k) { k.buffers[0].shape[1] = k.extent(1, 1); }).at(0),
              "buffer 'A' @10+1: expected its own extents as an operand's shape");
    EXPECT_EQ(after([](Kernel& k) { k.buffers[2].shape[1] = k.floating(2, DType::Float32); }),
              Findings{"buffer 'out': expected a shape of dtype int64, got float32"});
    EXPECT_EQ(after([](Kernel& k) { k.buffers[2].shape[1] = k.symbol(0); }),
              Findings{"buffer 'out': expected a shape over dims, extents and scalars"});
    EXPECT_EQ(after([](Kernel& k) { k.buffers[2].shape[1] = kNoExpr; }),
              Findings{"buffer 'out': expected a shape, got no expression"});
    EXPECT_EQ(after([](Kernel& k) { k.buffers[2].flat = true; }),
              Findings{"buffer 'out': expected a flat operand or output of rank 1"});
    EXPECT_EQ(after([](Kernel& k) { k.constraints[0].right = k.symbol(0); }),
              Findings{"require @30+7: expected sides over dims, extents and scalars"});
    EXPECT_EQ(of("shared t: float32[4] for i in 0..M { shared u: float32[i] }"),
              Findings{"buffer 'u': expected a shape over dims, extents and scalars"});
}

// Scope.

TEST(Verify, SymbolsAreDeclaredOnceBeforeTheirUseAndInScope) {
    EXPECT_EQ(of("if n < 3 { let a: int64 = 3 } out[a] = s"),
              Findings{"store 'out': 'a' is used outside its block"});
    EXPECT_EQ(of("for i in 0..M { } out[i] = s"),
              Findings{"store 'out': 'i' is used outside its block"});
    EXPECT_EQ(after([](Kernel& k) {
                  std::swap(k.body[0].body[0].body[0], k.body[0].body[0].body[2]);
              }).at(0),
              "store 'out': 'sum' is used before it is declared");
    EXPECT_EQ(after([](Kernel& k) { k.body.push_back(k.body[0]); }).at(0),
              "for 'i' @40+9: 'i' is declared twice");
    EXPECT_EQ(after([](Kernel& k) { k.symbols[0].kind = SymbolKind::Let; }).at(0),
              "for 'i' @40+9: expected a symbol of the statement's kind");
    EXPECT_EQ(after([](Kernel& k) { k.body[0].symbol = 99; }).at(0),
              "for @40+9: expected a symbol of the statement's kind");
    EXPECT_EQ(of("let a: int32 = n"),
              Findings{"let 'a': expected a value of dtype int32, got int64"});
    EXPECT_EQ(of("if n < 3 { var a: int64 = n } else { } a = 3"),
              Findings{"assign 'a': 'a' is written where it is not in scope"});
}

TEST(Verify, OnlyVarsAreWritten) {
    EXPECT_EQ(of("let a: int64 = 3 a = 4"), Findings{"assign 'a': expected a var"});
    EXPECT_EQ(of("for i in 0..M { i = 4 }"), Findings{"assign 'i': expected a var"});
    EXPECT_EQ(of("var a: int64 = 3 a = 4.0"),
              Findings{"assign 'a': expected a value of dtype int64, got float32"});
    EXPECT_EQ(of("A[0, 0] = s"), Findings{"store 'A': an operand is written"});
}

TEST(Verify, ArraysAreAllocatedOnceBeforeTheirUse) {
    EXPECT_EQ(of("if n < 3 { local t: float32[4] } t[0] = s"),
              Findings{"store 't': 't' is used outside its block"});
    EXPECT_EQ(of("if n < 3 { local t: float32[4] } out[0] = t[0]"),
              Findings{"store 'out': 't' is used outside its block"});
    EXPECT_EQ(of("local t: float32[4] alloc t"), Findings{"alloc 't': expected one alloc"});
    EXPECT_EQ(of("alloc out"), Findings{"alloc 'out': expected a local or shared array"});
    EXPECT_EQ(of("local t: float32[idx[0]]"),
              Findings{"alloc 't': expected a shape without loads"});
}

// Reductions.

TEST(Verify, AccumulatesLieInALoopThatReducesTheVar) {
    const std::string sum = "var a: float32 = 0.0\n";
    EXPECT_EQ(of(sum + "for i in 0..M { a += s }"),
              Findings{"accumulate 'a': expected a loop around it that reduces the var"});
    EXPECT_EQ(of(sum + "a += s"),
              Findings{"accumulate 'a': expected a loop around it that reduces the var"});
    EXPECT_EQ(of(sum + "for i in 0..M reduces a { a sub= s }"),
              Findings{"accumulate 'a': expected add, mul, min, max, and or or, got sub"});
    EXPECT_EQ(of(sum + "for i in 0..M reduces a { a and= true }").at(0),
              "accumulate 'a': and does not fit float32");
    EXPECT_EQ(of("var a: bool = false for i in 0..M reduces a { a += true }"),
              Findings{"accumulate 'a': add does not fit bool"});
    EXPECT_EQ(of(sum + "for i in 0..M reduces a { a += n }"),
              Findings{"accumulate 'a': expected a value of dtype float32, got int64"});
    EXPECT_EQ(of(sum + "for i in 0..M reduces a { a += s if n < 3 { a *= s } }"),
              Findings{"for 'i': 'a' is reduced by two operators"});
    EXPECT_EQ(of(sum + "for i in 0..M reduces a, a { a += s }"),
              Findings{"for 'i': 'a' is reduced twice"});
    EXPECT_EQ(of("let a: float32 = s for i in 0..M reduces a { }"),
              Findings{"for 'i': expected a var"});
}

TEST(Verify, AReducedVarHasNoOtherUseInItsLoop) {
    const std::string sum = "var a: float32 = 0.0\n";
    EXPECT_EQ(of(sum + "for i in 0..M reduces a { a += s out[i] = a }"),
              Findings{"store 'out': 'a' is read in a loop that reduces it"});
    EXPECT_EQ(of(sum + "for i in 0..M reduces a { a += a }"),
              Findings{"accumulate 'a': 'a' is read in a loop that reduces it"});
    EXPECT_EQ(of(sum + "for i in 0..M reduces a { a += s a = s }"),
              Findings{"assign 'a': a reduced var is assigned in its loop"});
}

TEST(Verify, ArgReduceTakesTwoVarsOfTheDtypesOfItsValues) {
    const std::string vars = "var a: float32 = 0.0 var b: int64 = 0 let c: int64 = 0\n";
    EXPECT_EQ(of(vars + "argmin a, b = n, n"),
              Findings{"argreduce 'a': expected a value of dtype float32, got int64"});
    EXPECT_EQ(of(vars + "argmin a, b = s, s"),
              Findings{"argreduce 'a': expected an index of dtype int64, got float32"});
    EXPECT_EQ(of(vars + "argmin a, c = s, n"), Findings{"argreduce 'a': expected a var"});
    EXPECT_EQ(of(vars + "argmin b, b = n, n"), Findings{"argreduce 'b': expected two vars"});
}

// Control flow.

TEST(Verify, ParallelLoopsAreTheOutermostNest) {
    const Findings under{"for 'j': expected parallel loops under parallel loops only"};
    EXPECT_EQ(of("for i in 0..M { parallel for j in 0..N { } }"), under);
    EXPECT_EQ(of("if n < 3 { parallel for j in 0..N { } }"), under);
    EXPECT_EQ(of("parallel for i in 0..M { let a: int64 = i parallel for j in 0..N { } }"),
              Findings{"for 'i': expected a parallel loop alone in another one"});
    EXPECT_EQ(of("var a: float32 = 0.0 parallel for i in 0..M reduces a { }"),
              Findings{"for 'i': a parallel loop reduces nothing"});
    EXPECT_EQ(of("var a: float32 = 0.0 parallel for i in 0..M { a = s }"),
              Findings{"assign 'a': 'a' is written in a parallel loop and declared outside"});
}

TEST(Verify, LoopsHaveInt64BoundsAndAPositiveStepKnownAtLaunch) {
    EXPECT_EQ(of("for i in s..M { }"),
              Findings{"for 'i': expected a begin of dtype int64, got float32"});
    EXPECT_EQ(of("for i in 0..s { }"),
              Findings{"for 'i': expected an end of dtype int64, got float32"});
    EXPECT_EQ(of("for i in 0..M step 0 { }"), Findings{"for 'i': expected a positive step, got 0"});
    EXPECT_EQ(of("for i in 0..M step idx[0] { }"),
              Findings{"for 'i': expected a step over dims, extents and scalars"});
    EXPECT_EQ(after([](Kernel& k) { k.body[0].step = kNoExpr; }),
              Findings{"for 'i' @40+9: expected a step, got no expression"});
    EXPECT_EQ(after([](Kernel& k) { k.symbols[0].dtype = DType::Int32; }).size() > 0, true);
}

TEST(Verify, ConditionsAreBool) {
    EXPECT_EQ(of("if n { }"), Findings{"if: expected a condition of dtype bool, got int64"});
    EXPECT_EQ(of("check n E0620"),
              Findings{"check: expected a condition of dtype bool, got int64"});
}

TEST(Verify, StoresFitTheirBuffer) {
    EXPECT_EQ(of("out[] = s"), Findings{"store 'out': expected 1 indices, got 0"});
    EXPECT_EQ(of("out[s] = s"),
              Findings{"store 'out': expected an index of dtype int64, got float32"});
    EXPECT_EQ(of("out[0] = n"),
              Findings{"store 'out': expected a value of dtype float32, got int64"});
}

TEST(Verify, BarriersAreReachedByAllOrNone) {
    const Findings divergent{"barrier: expected conditions that no element or var decides"};
    EXPECT_EQ(of("if idx[0] < 3 { barrier }"), divergent);
    EXPECT_EQ(of("if n < 3 { } else { if idx[0] < 3 { } else { barrier } }"), divergent);
    EXPECT_EQ(of("let a: int64 = idx[0] if a < 3 { barrier }"), divergent);
    EXPECT_EQ(of("var a: int64 = 0 if a < 3 { barrier }"), divergent);
    EXPECT_EQ(of("for i in 0..idx[0] { barrier }"), divergent);
    EXPECT_EQ(of("let a: int64 = n for i in 0..a { if i < 3 { barrier } } if idx[0] < 3 { }"),
              Findings());
}

TEST(Verify, UnknownStatementsAreRefused) {
    EXPECT_EQ(after([](Kernel& k) { k.body[0].kind = static_cast<StmtKind>(77); }).at(0),
              "? 'i' @40+9: unknown kind of statement");
}

TEST(Verify, FindingsEndAtTwenty) {
    std::string body;
    for (int i = 0; i < 30; ++i) body += "out[] = s\n";
    EXPECT_EQ(of(body).size(), 20u);
}

}  // namespace
}  // namespace quern::ir

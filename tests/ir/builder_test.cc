#include "quern/ir/builder.h"

#include <gtest/gtest.h>

#include "kernels.h"
#include "quern/error.h"

namespace quern::ir {
namespace {

TEST(BuilderOfKernels, BlocksNestAsTheyAreOpened) {
    const Kernel k = matmul();
    ASSERT_EQ(k.body.size(), 1u);
    const std::vector<Stmt>& point = k.body[0].body[0].body;
    ASSERT_EQ(point.size(), 3u);
    EXPECT_EQ(point[0].kind, StmtKind::Var);
    EXPECT_EQ(point[1].kind, StmtKind::For);
    EXPECT_EQ(point[1].reduces, std::vector<SymbolId>{point[0].symbol});
    EXPECT_EQ(point[1].body[0].kind, StmtKind::Accumulate);
    EXPECT_EQ(point[2].kind, StmtKind::Store);
}

TEST(BuilderOfKernels, ElseFillsTheOtherBlock) {
    Builder b("k");
    b.begin_if(b.kernel().boolean(true));
    b.begin_else();
    b.barrier();
    b.end_if();
    const Kernel k = b.take();
    EXPECT_TRUE(k.body[0].body.empty());
    EXPECT_EQ(k.body[0].otherwise.size(), 1u);
}

TEST(BuilderOfKernels, MisuseIsAnInternalError) {
    Builder b("k");
    EXPECT_THROW(b.end_for(), InternalError);
    EXPECT_THROW(b.begin_else(), InternalError);
    EXPECT_THROW(b.alloc(BufferKind::Local, "t", DType::Float32, {}), InternalError);
    b.output("out", DType::Float32, {});
    EXPECT_THROW(b.output("out", DType::Float32, {}), InternalError);
    EXPECT_THROW(b.operand("A", DType::Float32, 1), InternalError);
    b.begin_if(b.kernel().boolean(true));
    EXPECT_THROW(b.end_for(), InternalError);
    EXPECT_THROW(b.take(), InternalError);
    b.end_if();
    b.take();
}

}  // namespace
}  // namespace quern::ir

// Elements whose index is an element too, directly and by names and vars that lanes differ in.

#include <gtest/gtest.h>

#include <string>

#include "tests/conformance/operands.h"
#include "tests/cpu/compiled_run.h"

namespace quern {
namespace {

using cpu_test::Case;

/// A permutation of 0 .. count - 1, if count is no multiple of 7.
Tensor indices(std::int64_t count) {
    Tensor all({count}, DType::Int32);
    for (std::int64_t i = 0; i < count; ++i) {
        all.data<std::int32_t>()[i] = std::int32_t((i * 7 + 3) % count);
    }
    return all;
}

TEST(Gathers, ByIndicesThatLanesDifferIn) {
    const Tensor idx = indices(37), x = uniform({37}, 1);
    for (const char* body : {
             "  out[i] = x[idx[idx[i]]]\n",
             "  let r = idx[i]\n  out[i] = x[idx[r]]\n",
             "  let r = idx[i]\n  let s = idx[r]\n  out[i] = x[idx[s]] + x[r]\n",
             "  var r = 1\n  if x[i] > 0.0: r = 2\n  out[i] = x[idx[r]] + float32(idx[i])\n",
             "  var r = idx[i]\n  for k in 0..3: r = idx[r]\n  out[i] = x[idx[r]]\n",
             "  let r = idx[i]\n  var s = 0.0\n  for k in 0..3: s += x[idx[(r + k) % 37]]\n"
             "  out[i] = s\n",
         }) {
        SCOPED_TRACE(body);
        cpu_test::expect_agreement(
            Case("compute(idx, x) {\n@kernel custom\nfor i in 0..n:\n" + std::string(body) + "}",
                 {idx, x}));
    }
}

TEST(Gathers, InsideOfAPoint) {
    const Tensor idx = indices(37), x = uniform({3, 37, 20}, 1);
    cpu_test::expect_agreement(
        Case("compute(idx, x) {\n@kernel custom\nfor p in 0..batch:\n  let first = x[p, 0, 0]\n"
             "  for i in 0..n:\n    let r = idx[i]\n"
             "    for k in 0..m: out[p, i, k] = x[p, idx[r], k] + first\n}",
             {idx, x}));
}

}  // namespace
}  // namespace quern

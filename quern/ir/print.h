#pragma once

#include <string>
#include <string_view>

#include "quern/ir/cir.h"

// The text form of a kernel; parse.h reads it back.
//
//   kernel matmul : matmul workgroup(16, 16) {
//       dim M, N, K
//       scalar eps: float32
//       operand A: float32[A.0, A.1]                     A.1 is the extent of axis 1
//       operand x: float32[x.0] flat
//       output out: float32[M, N]
//       require M == A.0 bare_index E0501
//       parallel for i in 0..M {
//           var sum: float32 = 0.0
//           for k in 0..K step 2 reduces sum {
//               let a: float32 = A[i, k]
//               sum += a * float32(k)                    also *= min= max= and= or=
//           }
//           if i < N and not (i == 3) { ... } else { ... }
//           local tile: float32[64, N]                   or shared: Alloc
//           argmin best, at = sum, i                     or argmax
//           check 0 < N E0620
//           barrier
//           out[i, 0] = sum
//       }
//   }
//
// Operators, loosest first: or; and; not; < <= == !=; + -; * / % // (rounding down); -x. Functions
// and select(c, a, b) go by name, conversions by the dtype. A literal is int64 or float32, or what
// follows it: 2.0:float64. Names that are not words of letters, digits and dots, or that mean
// something else, stand in `backquotes`. Two things of one name: the later ones get a suffix .1,
// .2.
// '#' begins a comment. With spans, `@begin+length` follows a name, an operand or an operator, and
// `@@begin+length` a statement.

namespace quern::ir {

struct PrintOptions {
    bool spans = false;
};

std::string print(const Kernel& kernel, const PrintOptions& options = {});

/// One expression, with the names that the kernel's text has.
std::string print(const Kernel& kernel, ExprId id);

/// Returns "bare_index".
std::string_view to_string(Rule rule);

/// True for a word that has a meaning of its own where a name could stand.
bool is_reserved(std::string_view word);

/// The text of a kernel and a digest of its expressions, of which some are too deep to be printed:
/// what kernels that are alike have alike, and no others.
std::string identity(const Kernel& kernel);

}  // namespace quern::ir

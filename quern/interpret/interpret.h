#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quern/dtype.h"
#include "quern/ir/cir.h"

// The definition of what a kernel means. Every other device is compared with it.
//
// Reductions. A loop that reduces a var keeps 16 partials, each beginning at the operator's
// identity (0 for add, 1 for mul, -inf for max, +inf for min, the dtype's extremes for integers,
// true, false). What iteration k of a chunk contributes goes to partial k mod 16, in order, rounded
// to the var's dtype at each step. A chunk is 4096 iterations; at its end the partials are combined
// pairwise: 0 with 8, 1 with 9, ...; then 0 with 4, ...; 0 with 2, 1 with 3; 0 with 1. With more
// than one chunk, the chunks' results are the elements of the same rule, level by level. The result
// is combined with the var's value from before the loop: var = op(var, result).

namespace quern::interpret {

/// Elements in memory. Strides are in elements.
struct View {
    void* data = nullptr;
    DType dtype = DType::Float32;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
};

/// A value for each Kernel::scalars entry; integers and bool in `integer`, floats in `floating`.
struct ScalarValue {
    std::int64_t integer = 0;
    double floating = 0;
};

/// What a launch failed with, and where in the kernel's text.
struct Failure {
    ir::Code code = ir::Code::E0507;
    ir::Span span;
    std::string message;
};

struct Options {
    /// 0 is num_threads().
    int threads = 0;

    /// Called with the share of the work done, on the thread that calls `run`, at most ten times a
    /// second. Loops one after another count as equally long.
    std::function<void(double)> progress;

    /// Local and shared arrays above this many bytes for one point are refused.
    std::int64_t local_limit = std::int64_t(1) << 32;
};

/// A kernel made ready to run. Immutable; one program may run on many threads at once.
class Program {
public:
    /// `kernel` has passed ir::verify.
    explicit Program(const ir::Kernel& kernel);
    ~Program();
    Program(Program&&) noexcept;
    Program& operator=(Program&&) noexcept;

    /// Runs it. `dims` has a value for each Kernel::dims entry; `operands` one view for each
    /// operand, with the rank that the kernel uses; `output` is contiguous and zero-filled by the
    /// caller.
    ///
    /// Found and reported at the kernel's line: an index outside its buffer (E0507), an element of
    /// the output written by two parallel points (E0510) or read before it is written (E0421), a
    /// local or shared element read before it is written (E0514), an integer division by zero
    /// (E0621), a Check that does not hold (its own code). After a failure the output is
    /// unspecified.
    std::optional<Failure> run(std::span<const std::int64_t> dims,
                               std::span<const ScalarValue> scalars, std::span<const View> operands,
                               const View& output, const Options& options = {}) const;

    /// Loop iterations done by the last successful `run` on this thread.
    static std::uint64_t steps_of_last_run();

private:
    struct Kept;
    std::unique_ptr<Kept> kept_;
};

}  // namespace quern::interpret

// Random valid kernels: a text of the language, operands for it, and what it must give, computed
// from the generator's own tree in double with a bound on float32's rounding. Every backend is
// compared with these.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "quern/tensor.h"

namespace quern::generator {

/// A number and a bound on how far a device that rounds each operation may be from it.
struct Approximate {
    double value = 0;
    double error = 0;
};

struct RandomKernel {
    std::string text;
    std::vector<Tensor> operands;

    /// In row-major order of `shape`.
    std::vector<Approximate> expected;
    Shape shape;

    /// What is wrong with a result: its shape, or the first element that no rounding explains.
    /// Empty if nothing is.
    std::string wrong_element(const Tensor& result) const;
};

/// The kernel of a seed: always the same one.
RandomKernel random_kernel(std::uint64_t seed);

/// Others, whose points write elements and read them again in loops one after the other: those of
/// a row of the output in any order, or shared variables with barriers between them. What they
/// give is exact.
RandomKernel random_row_kernel(std::uint64_t seed);

}  // namespace quern::generator

#pragma once

#include <cstdint>
#include <vector>

#include "quern/lir/lir.h"

namespace quern::lir {

/// A function of vectors, and the arrays that it has beside its own.
struct Vectors {
    struct Array {
        DType dtype = DType::Float32;
        std::uint32_t elements = 0;
    };

    Function function;
    std::vector<Array> arrays;
};

/// A function that the lanes of a work-group run together (lir/lanes.h) as one for a processor,
/// whose vectors have a number of each of 16 lanes. It is split where lanes meet, and each part
/// done for 16 lanes after the others; what a lane needs of an earlier part lies in an array. What
/// is the same in all lanes is one number.
///
/// `watches`: it fails where two lanes touch an element of an array of the group without a barrier
/// between them and one of them writes it, whatever the subgroup, and where lanes would go
/// different ways. Each element has a word that says who wrote it last and one that says who read
/// it, with the number of barriers before that.
/// Requires: no matrices.
Vectors in_vectors(const Function& function, bool watches = false);

}  // namespace quern::lir

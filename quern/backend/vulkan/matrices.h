#pragma once

#include "quern/backend/vulkan/code.h"

namespace quern::vulkan {

/// Cooperative matrices of subgroups, in the memory model of Vulkan (SPV_KHR_cooperative_matrix).
class MatrixCode {
public:
    MatrixCode(Code& code, const lir::Atom& atom) : code_(code), m_(code.module()), atom_(atom) {}

    /// The type of a value.
    Id type(lir::Part part);

    /// `pointer`: to the first element, in an array of the group.
    Id fill(Id number) { return m_.op(spv::Op::OpCompositeConstruct, sum_type(), {number}); }
    Id load(lir::Part part, Id pointer, std::uint32_t row, bool is_turned);
    void store(Id pointer, Id value, std::uint32_t row);
    Id multiply(Id left, Id right, Id sum);

private:
    Id sum_type() { return type(lir::Part::Sum); }

    Code& code_;
    Module& m_;
    lir::Atom atom_;
};

}  // namespace quern::vulkan

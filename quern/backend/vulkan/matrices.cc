#include "quern/backend/vulkan/matrices.h"

#include "quern/backend/vulkan/newer_spirv.h"
#include "quern/support/check.h"

namespace quern::vulkan {

Id MatrixCode::type(lir::Part part) {
    using lir::Part;
    const bool is_sum = part == Part::Sum;
    const DType dtype = is_sum ? atom_.sum : atom_.operand;
    QUERN_CHECK(is_floating(dtype) && dtype != DType::BFloat16, "float16, float32 or float64");
    m_.capability(spirv::kCooperativeMatrixCapability);
    m_.extension(spirv::kCooperativeMatrix);
    if (dtype == DType::Float16) m_.capability(spv::Capability::Float16);
    const std::uint32_t use = is_sum               ? spirv::kMatrixAccumulator
                              : part == Part::Left ? spirv::kMatrixA
                                                   : spirv::kMatrixB;
    return m_.matrix(m_.real(std::uint32_t(size_of(dtype) * 8)),
                     {code_.u32(std::uint32_t(spv::Scope::Subgroup)),
                      code_.u32(part == Part::Right ? atom_.depth : atom_.rows),
                      code_.u32(part == Part::Left ? atom_.depth : atom_.columns), code_.u32(use)});
}

Id MatrixCode::load(lir::Part part, Id pointer, std::uint32_t row, bool is_turned) {
    const std::uint32_t layout = is_turned ? spirv::kColumnMajor : spirv::kRowMajor;
    return m_.op(spirv::kCooperativeMatrixLoad, type(part),
                 {pointer, code_.u32(layout), code_.u32(row), kNonPrivate});
}

void MatrixCode::store(Id pointer, Id value, std::uint32_t row) {
    m_.statement(spirv::kCooperativeMatrixStore,
                 {pointer, value, code_.u32(spirv::kRowMajor), code_.u32(row), kNonPrivate});
}

Id MatrixCode::multiply(Id left, Id right, Id sum) {
    return m_.op(spirv::kCooperativeMatrixMulAdd, sum_type(), {left, right, sum});
}

}  // namespace quern::vulkan

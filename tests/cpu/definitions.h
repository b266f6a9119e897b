// What functions of the language are by definition, with products and sums that are fused or are
// not: what compiled code is compared with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "quern/dtype.h"
#include "quern/math/functions.h"
#include "tests/cpu/case.h"
#include "tests/tensor_test.h"

namespace quern::cpu_test {

inline constexpr const char* kFunctions[] = {
#define UNARY(name, op, operand, value) #name,
#include "quern/lang/functions.def"
    "sigmoid", "relu"};

inline std::string text_of(const char* function) {
    return "compute(x) {\n    @kernel elementwise\n    for i in 0..len:\n        out[i] = " +
           std::string(function) + "(x[i])\n}";
}

inline constexpr const char* kPower = R"(
compute(x, y) {
    @kernel elementwise
    for i in 0..len:
        out[i] = pow(x[i], y[i])
})";

inline constexpr DType kDTypes[] = {DType::Float16, DType::BFloat16, DType::Float32,
                                    DType::Float64};

/// Numbers of every size and sign, and what is special.
inline Tensor arguments(DType dtype) {
    std::vector<double> x = {0.0,   -0.0,   1.0,    -1.0, 0.5,    INFINITY, -INFINITY,
                             NAN,   1e-40,  -1e-40, 88.7, -103.9, 127.99,   -149.5,
                             709.7, -745.1, 1e5,    1e10, 3e38,   2.5};
    Random random(3);
    for (int i = 0; i < 2000; ++i) {
        const double size = std::exp2(double(random.bits() % 60) - 40);
        x.push_back((random.bits() % 2 ? 1 : -1) * size *
                    (1 + double(random.bits() >> 12) * 0x1p-52));
    }
    return Tensor::from({std::int64_t(x.size())}, x).to(dtype);
}

/// Every number of 16 bits.
inline Tensor every_number(DType dtype) {
    Tensor all = Tensor::empty({1 << 16}, dtype);
    auto* const bytes = static_cast<unsigned char*>(all.data());
    for (std::size_t i = 0; i < (1 << 16); ++i) {
        bytes[2 * i] = static_cast<unsigned char>(i);
        bytes[2 * i + 1] = static_cast<unsigned char>(i >> 8);
    }
    return all;
}

/// What the definition of a function gives, where products and sums are fused or are not.
template <class T, bool fuses>
T defined(const std::string& name, T number) {
    const math::Native<T, fuses> x = {number};
    if (name == "relu") return x.number > 0 || x.number != x.number ? x.number : T(0);
#define UNARY(text, op, operand, value) \
    if (name == #text) return (value).number;
#include "quern/lang/functions.def"
    ADD_FAILURE() << "no definition of " << name;
    return number;
}

template <class T, bool fuses>
Tensor defined_all(const std::string& name, const Tensor& x) {
    std::vector<double> results;
    for (const double v : x.values()) results.push_back(defined<T, fuses>(name, T(v)));
    return Tensor::from(x.shape(), results).to(x.dtype());
}

template <class F>
Tensor map(const Tensor& x, F f) {
    std::vector<double> values = x.values();
    for (double& v : values) v = f(v);
    return Tensor::from(x.shape(), values).to(x.dtype());
}

inline Tensor definition(const std::string& name, const Tensor& x, bool fuses) {
    if (name == "sigmoid") {
        // Each step is rounded to the dtype. In double it is exact, or so near that to round once
        // more changes nothing.
        const Tensor power = definition("exp", map(x, [](double v) { return -v; }), fuses);
        const Tensor sum = map(power, [](double v) { return v + 1; });
        return map(sum, [](double v) { return 1 / v; });
    }
    if (x.dtype() == DType::Float64) {
        return fuses ? defined_all<double, true>(name, x) : defined_all<double, false>(name, x);
    }
    return fuses ? defined_all<float, true>(name, x) : defined_all<float, false>(name, x);
}

inline Tensor fused_powers(const Tensor& x, const Tensor& y) {
    using Double = math::Native<double, true>;
    using Float = math::Native<float, true>;
    const std::vector<double> a = x.values(), b = y.values();
    std::vector<double> powers;
    for (std::size_t i = 0; i < a.size(); ++i) {
        powers.push_back(x.dtype() == DType::Float64
                             ? pow(Double{a[i]}, Double{b[i]}).number
                             : pow(Float{float(a[i])}, Float{float(b[i])}).number);
    }
    return Tensor::from(x.shape(), powers).to(x.dtype());
}

}  // namespace quern::cpu_test

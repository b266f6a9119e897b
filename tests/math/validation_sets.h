// NumPy's validation sets: inputs and exact results as bits, and how many representable numbers a
// result may be away.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

namespace quern::math::testing {

template <class T>
struct ValidationRow {
    T x = 0;
    T result = 0;
    double bound = 0;
};

inline std::string validation_set(const std::string& function) {
    const char* folder = std::getenv("QUERN_TEST_DATA");
    const std::string root = folder != nullptr ? folder : QUERN_SOURCE_DIR "/../shared/data";
    const bool is_inverse = function[0] == 'a';
    const std::string name = is_inverse ? "arc" + function.substr(1) : function;
    return root + "/numpy/umath-validation-set-" + name + ".csv";
}

/// Of float or double; empty where there is no set.
template <class T>
std::vector<ValidationRow<T>> validation_rows(const std::string& function) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const auto parse = [](const std::string& text) {
        return std::bit_cast<T>(Bits(std::stoull(text, nullptr, 16)));
    };
    std::vector<ValidationRow<T>> rows;
    std::ifstream file(validation_set(function));
    for (std::string line; std::getline(file, line);) {
        std::istringstream fields(line);
        std::string dtype, x, result, bound;
        std::getline(fields, dtype, ',');
        std::getline(fields, x, ',');
        std::getline(fields, result, ',');
        std::getline(fields, bound, ',');
        if (dtype != (sizeof(T) == 4 ? "np.float32" : "np.float64")) continue;
        rows.push_back({parse(x), parse(result), std::stod(bound)});
    }
    return rows;
}

/// How many representable numbers lie between.
template <class T>
double steps(T got, T expected) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    if (got != got || expected != expected) {
        return got != got && expected != expected ? 0 : HUGE_VAL;
    }
    const auto place = [](T x) {
        const auto magnitude = std::int64_t(std::bit_cast<Bits>(std::fabs(x)));
        return std::signbit(x) ? -magnitude : magnitude;
    };
    return std::fabs(double(place(got) - place(expected)));
}

}  // namespace quern::math::testing

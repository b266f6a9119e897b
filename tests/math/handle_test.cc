#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/math/reference.h"

// The functions written for a handle: what it is made from travels with it, nothing is global, and
// both sides of a choice are always evaluated. A handle of a compiler would add a node where this
// one counts and computes.

namespace quern::math::testing {
namespace {

struct Builder {
    int operations = 0;
};

struct Mask {
    Builder* builder;
    NativeMask value;

    friend Mask operator&(Mask a, Mask b) { return made(a, a.value & b.value); }
    friend Mask operator|(Mask a, Mask b) { return made(a, a.value | b.value); }
    friend Mask operator!(Mask a) { return made(a, !a.value); }

    static Mask made(Mask a, NativeMask value) {
        return {(++a.builder->operations, a.builder), value};
    }
};

/// Of a Native or a NativeInt.
template <class N>
struct Handle;

template <class N>
Handle<N> made(Builder* builder, N value) {
    ++builder->operations;
    return {builder, value};
}
inline Mask made(Builder* builder, NativeMask value) {
    ++builder->operations;
    return {builder, value};
}

template <class T>
struct Handle<NativeInt<T>> {
    Builder* builder;
    NativeInt<T> value;

    Handle constant(std::int64_t c) const { return {builder, value.constant(c)}; }
    friend Handle operator+(Handle a, Handle b) { return made(a.builder, a.value + b.value); }
    friend Handle operator-(Handle a, Handle b) { return made(a.builder, a.value - b.value); }
    friend Handle operator&(Handle a, Handle b) { return made(a.builder, a.value & b.value); }
    friend Handle operator|(Handle a, Handle b) { return made(a.builder, a.value | b.value); }
    friend Handle operator^(Handle a, Handle b) { return made(a.builder, a.value ^ b.value); }
    friend Handle operator<<(Handle a, int n) { return made(a.builder, a.value << n); }
    friend Handle operator>>(Handle a, int n) { return made(a.builder, a.value >> n); }
    friend Mask operator<(Handle a, Handle b) { return made(a.builder, a.value < b.value); }
    friend Mask operator==(Handle a, Handle b) { return made(a.builder, a.value == b.value); }
    friend Handle select(Mask m, Handle a, Handle b) {
        return made(a.builder, select(m.value, a.value, b.value));
    }
};

template <class T>
struct Handle<Native<T>> {
    using Element = T;
    using Int = Handle<typename Native<T>::Int>;
    using Mask = testing::Mask;

    Builder* builder;
    Native<T> value;

    Handle constant(double c) const { return {builder, value.constant(c)}; }
    friend Handle operator+(Handle a, Handle b) { return made(a.builder, a.value + b.value); }
    friend Handle operator-(Handle a, Handle b) { return made(a.builder, a.value - b.value); }
    friend Handle operator*(Handle a, Handle b) { return made(a.builder, a.value * b.value); }
    friend Handle operator/(Handle a, Handle b) { return made(a.builder, a.value / b.value); }
    friend Handle operator-(Handle a) { return made(a.builder, -a.value); }
    friend Mask operator<(Handle a, Handle b) { return made(a.builder, a.value < b.value); }
    friend Mask operator<=(Handle a, Handle b) { return made(a.builder, a.value <= b.value); }
    friend Mask operator>(Handle a, Handle b) { return made(a.builder, a.value > b.value); }
    friend Mask operator>=(Handle a, Handle b) { return made(a.builder, a.value >= b.value); }
    friend Mask operator==(Handle a, Handle b) { return made(a.builder, a.value == b.value); }
    friend Mask operator!=(Handle a, Handle b) { return made(a.builder, a.value != b.value); }
    friend Handle multiply_add(Handle a, Handle b, Handle c) {
        return made(a.builder, multiply_add(a.value, b.value, c.value));
    }
    friend Handle abs(Handle a) { return made(a.builder, abs(a.value)); }
    friend Handle sqrt(Handle a) { return made(a.builder, sqrt(a.value)); }
    friend Handle floor(Handle a) { return made(a.builder, floor(a.value)); }
    friend Handle round_even(Handle a) { return made(a.builder, round_even(a.value)); }
    friend Handle select(Mask m, Handle a, Handle b) {
        return made(a.builder, select(m.value, a.value, b.value));
    }
    friend Int bits(Handle a) { return {a.builder, bits(a.value)}; }
};

template <class T>
auto from_bits(Handle<NativeInt<T>> i) {
    const auto value = from_bits(i.value);
    return Handle<std::remove_const_t<decltype(value)>>{i.builder, value};
}
static_assert(Value<Handle<Native<float>>> && Value<Handle<Native<double>>>);
static_assert(Value<Native<float>> && Value<Native<double>>);

template <class T>
bool same_bits(T a, T b) {
    return (a != a && b != b) || std::memcmp(&a, &b, sizeof a) == 0;
}

/// Gives the number of operations.
template <class T, class OfHandle, class OfNumber>
int check(const char* name, OfHandle of_handle, OfNumber of_number,
          const std::vector<double>& borders) {
    int operations = 0;
    const auto one = [&](T x) {
        Builder builder;
        const T got = of_handle(Handle<Native<T>>{&builder, {x}}).value.number;
        const T expected = of_number(Native<T>{x}).number;
        EXPECT_TRUE(same_bits(got, expected))
            << name << "(" << x << "): " << got << ", " << expected;
        // How a result is computed never depends on x.
        EXPECT_TRUE(operations == 0 || builder.operations == operations);
        operations = builder.operations;
    };
    for (const T x : special_points<T>(borders)) one(x);
    RandomNumbers<T> numbers;
    for (int k = 0; k < 20'000; ++k) one(numbers.next());
    std::printf("%s of %s: %d operations\n", name, sizeof(T) == 4 ? "float" : "double", operations);
    return operations;
}

template <class T>
void check_all(const std::vector<int>& most) {
    std::size_t row = 0;
    const auto next = [&] { return most[row++]; };
    const auto borders = [](const std::string& name) {
        for (const Function& f : functions()) {
            if (f.name == name) return f.borders;
        }
        return std::vector<double>{};
    };
#define CHECK_FUNCTION(name)                                                             \
    EXPECT_LE((check<T>(                                                                 \
                  #name, [](auto x) { return name(x); }, [](auto x) { return name(x); }, \
                  borders(#name))),                                                      \
              next())                                                                    \
        << #name
    CHECK_FUNCTION(exp);
    CHECK_FUNCTION(exp2);
    CHECK_FUNCTION(log);
    CHECK_FUNCTION(log2);
    CHECK_FUNCTION(sinh);
    CHECK_FUNCTION(cosh);
    CHECK_FUNCTION(tanh);
    CHECK_FUNCTION(erf);
    CHECK_FUNCTION(sin);
    CHECK_FUNCTION(cos);
    CHECK_FUNCTION(tan);
    CHECK_FUNCTION(rsqrt);
    CHECK_FUNCTION(expm1);
    CHECK_FUNCTION(log1p);
    CHECK_FUNCTION(log10);
    CHECK_FUNCTION(asin);
    CHECK_FUNCTION(acos);
    CHECK_FUNCTION(atan);
    CHECK_FUNCTION(asinh);
    CHECK_FUNCTION(acosh);
    CHECK_FUNCTION(atanh);
    CHECK_FUNCTION(cbrt);
#undef CHECK_FUNCTION
    const auto square = [](auto x) { return pow(x, x.constant(2.5) * x); };
    EXPECT_LE((check<T>("pow", square, square, {})), next());
}

// More operations than these need a reason. In order: exp exp2 log log2 sinh cosh tanh erf sin cos
// tan rsqrt expm1 log1p log10 asin acos atan asinh acosh atanh cbrt pow.
TEST(Handles, GetTheBitsOfNumbersOfFloat) {
    check_all<float>({20, 19, 33, 44, 31, 29, 19, 35, 250, 249, 278, 2,
                      32, 45, 47, 24, 29, 27, 60, 61, 59,  49,  220});
}

TEST(Handles, GetTheBitsOfNumbersOfDouble) {
    check_all<double>({26, 25, 38, 49, 37, 35, 23, 61, 294, 293, 322, 2,
                       38, 50, 52, 32, 37, 35, 65, 66, 64,  51,  230});
}

}  // namespace
}  // namespace quern::math::testing

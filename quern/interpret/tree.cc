#include "quern/interpret/tree.h"

#include <algorithm>
#include <limits>

#include "quern/support/check.h"

namespace quern::interpret {
namespace {

using ir::BinaryOp;

/// Integers of one dtype, in registers that hold them widened.
template <class T>
struct Integer {
    using Value = T;
    static T get(Reg r) { return T(r.u); }
    static Reg put(T x) {
        Reg r;
        if constexpr (std::is_signed_v<T>) {
            r.i = x;
        } else {
            r.u = x;
        }
        return r;
    }
    static T add(T x, T y) { return T(std::uint64_t(x) + std::uint64_t(y)); }
    static T mul(T x, T y) { return T(std::uint64_t(x) * std::uint64_t(y)); }
    static T lowest() { return std::numeric_limits<T>::min(); }
    static T highest() { return std::numeric_limits<T>::max(); }
};

struct Boolean : Integer<std::uint8_t> {
    static Reg put(std::uint8_t x) { return Integer::put(x != 0); }
    static std::uint8_t highest() { return 1; }
};

template <class T, float (*round)(float)>
struct Floating {
    using Value = T;
    static T get(Reg r) {
        if constexpr (std::is_same_v<T, double>) {
            return r.d;
        } else {
            return r.f;
        }
    }
    static Reg put(T x) {
        Reg r;
        r.u = 0;
        if constexpr (std::is_same_v<T, double>) {
            r.d = x;
        } else {
            r.f = round(x);
        }
        return r;
    }
    static T add(T x, T y) { return x + y; }
    static T mul(T x, T y) { return x * y; }
    static T lowest() { return -std::numeric_limits<T>::infinity(); }
    static T highest() { return std::numeric_limits<T>::infinity(); }
};

float keep(float x) { return x; }

template <class Type, BinaryOp op>
Reg apply(Reg a, Reg b) {
    const auto x = Type::get(a), y = Type::get(b);
    switch (op) {
        case BinaryOp::Add:
            return Type::put(Type::add(x, y));
        case BinaryOp::Mul:
            return Type::put(Type::mul(x, y));
        case BinaryOp::Max:
            return Type::put(max_of(x, y));
        case BinaryOp::Min:
            return Type::put(min_of(x, y));
        case BinaryOp::And:
            return Type::put(typename Type::Value(x != 0 && y != 0));
        default:
            return Type::put(typename Type::Value(x != 0 || y != 0));
    }
}

template <class Type, BinaryOp op>
Reg combine(Reg* partials, std::int64_t live) {
    for (std::int64_t half = kPartials / 2; half > 0; half /= 2) {
        for (std::int64_t j = 0; j + half < live; ++j) {
            partials[j] = apply<Type, op>(partials[j], partials[j + half]);
        }
        live = std::min(live, half);
    }
    return partials[0];
}

template <class Type, BinaryOp op>
Tree tree(typename Type::Value identity) {
    return {Type::put(identity), apply<Type, op>, combine<Type, op>};
}

template <class Type>
Tree tree_for(BinaryOp op) {
    switch (op) {
        case BinaryOp::Add:
            return tree<Type, BinaryOp::Add>(0);
        case BinaryOp::Mul:
            return tree<Type, BinaryOp::Mul>(1);
        case BinaryOp::Max:
            return tree<Type, BinaryOp::Max>(Type::lowest());
        case BinaryOp::Min:
            return tree<Type, BinaryOp::Min>(Type::highest());
        case BinaryOp::And:
            return tree<Type, BinaryOp::And>(1);
        case BinaryOp::Or:
            return tree<Type, BinaryOp::Or>(0);
        default:
            break;
    }
    QUERN_CHECK(false, "a reduction by add, mul, max, min, and, or");
    return {};
}

void reset(const Tree& tree, Reg* partials, std::int64_t count = kPartials) {
    std::fill_n(partials, count, tree.identity);
}

}  // namespace

Tree tree_of(BinaryOp op, DType dtype) {
    switch (dtype) {
        case DType::Bool:
            return tree_for<Boolean>(op);
        case DType::Int8:
            return tree_for<Integer<std::int8_t>>(op);
        case DType::Int16:
            return tree_for<Integer<std::int16_t>>(op);
        case DType::Int32:
            return tree_for<Integer<std::int32_t>>(op);
        case DType::Int64:
            return tree_for<Integer<std::int64_t>>(op);
        case DType::UInt8:
            return tree_for<Integer<std::uint8_t>>(op);
        case DType::UInt16:
            return tree_for<Integer<std::uint16_t>>(op);
        case DType::UInt32:
            return tree_for<Integer<std::uint32_t>>(op);
        case DType::UInt64:
            return tree_for<Integer<std::uint64_t>>(op);
        case DType::Float16:
            return tree_for<Floating<float, round_float16>>(op);
        case DType::BFloat16:
            return tree_for<Floating<float, round_bfloat16>>(op);
        case DType::Float32:
            return tree_for<Floating<float, keep>>(op);
        case DType::Float64:
            return tree_for<Floating<double, keep>>(op);
        default:
            break;
    }
    QUERN_CHECK(false, "a reduction of a dtype that kernels compute in");
    return {};
}

void begin_reduction(const Tree& tree, Reg* partials, std::int64_t count) {
    reset(tree, partials, std::min(count, kPartials));
}

void end_chunk(const Tree& tree, Reg* partials, std::int64_t done) {
    Reg result = tree.combine(partials, kPartials);
    reset(tree, partials);
    // A chunk of a level is one element of the next.
    for (std::int64_t chunk = done / kChunk - 1;; chunk = (chunk + 1) / kChunk - 1) {
        partials += kPartials;
        if (chunk % kChunk == 0) reset(tree, partials);
        Reg& slot = partials[chunk % kPartials];
        slot = tree.apply(slot, result);
        if ((chunk + 1) % kChunk != 0) return;
        result = tree.combine(partials, kPartials);
    }
}

Reg end_reduction(const Tree& tree, Reg* partials, std::int64_t count) {
    if (count == 0) return tree.identity;
    std::int64_t chunks = (count - 1) / kChunk + 1;
    const std::int64_t in_last = count - (chunks - 1) * kChunk;
    Reg result = tree.combine(partials, std::min(in_last, kPartials));
    while (chunks > 1) {
        partials += kPartials;
        const std::int64_t chunk = chunks - 1;
        if (chunk % kChunk == 0) reset(tree, partials);
        Reg& slot = partials[chunk % kPartials];
        slot = tree.apply(slot, result);
        result = tree.combine(partials, kPartials);
        chunks = chunk / kChunk + 1;
    }
    return result;
}

}  // namespace quern::interpret

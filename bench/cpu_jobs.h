// What bench_cpu measures.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "bench/hand_written/hand_written.h"
#include "tests/cpu/case.h"

namespace quern::bench {

using cpu_test::Arguments;

inline std::string example(const std::string& number) {
    const std::filesystem::path folder =
        std::filesystem::path(QUERN_SOURCE_DIR) / "examples/kernels";
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().filename().string().rfind(number + "_", 0) != 0) continue;
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        return text.str();
    }
    return {};
}

/// Normal random numbers.
inline Tensor random(const Shape& shape, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(std::size_t(element_count(shape)));
    for (float& value : values) value = normal(engine);
    return Tensor::from(shape, values);
}

enum class Bound { Copy, Read, Fma };

struct Job {
    std::string name;
    std::string text;
    std::vector<Tensor> operands;
    Arguments arguments;
    Bound bound = Bound::Copy;

    /// Bytes, or operations.
    double work = 0;

    /// The part of the bound that is to be reached; 0 where it is only shown.
    double target = 0;

    /// The same kernel on operands that the interpreter does in an instant.
    std::vector<Tensor> small;

    /// The same written by hand for rows [begin, end), where there is such a thing.
    std::function<void(const HandWritten& by, const std::vector<Tensor>& operands, float* out,
                       std::int64_t begin, std::int64_t end)>
        by_hand = {};

    /// What bench/torch_peer.py calls the same, and how many times as fast ours is to be.
    std::string torch = {};
    double over_torch = 0;

    /// What it and ours may differ by, relative to `scale` and more: sums that nearly cancel differ
    /// by as much as those that do not.
    float tolerance = 1e-4f;
    float scale = 1e-3f;

    /// Whether two threads are to be nearly twice as fast as one.
    bool is_arithmetic = false;

    Numerics numerics = Numerics::Strict;
};

/// What is to be reached of the bounds.
inline constexpr double kMemory = 0.9, kArithmetic = 0.25;

inline constexpr std::int64_t kRows = 4096, kWidth = kRowWidth;

/// The peers that are written for the instructions that ours take, or null.
inline const HandWritten* hand_written() {
#if defined(__x86_64__)
    switch (cpu::chosen_simd()) {
        case cpu::Simd::Avx2:
            return &kByHandWithAvx2;
        case cpu::Simd::Avx512:
            return &kByHandWithAvx512;
        default:
            break;
    }
#endif
    return nullptr;
}

inline void softmax_by_hand(const HandWritten& by, const std::vector<Tensor>& operands, float* out,
                            std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * kWidth;
    by.softmax(operands[0].data<float>() + at, out + at, end - begin);
}

inline void layer_norm_by_hand(const HandWritten& by, const std::vector<Tensor>& operands,
                               float* out, std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * kWidth;
    by.layer_norm(operands[0].data<float>() + at, operands[1].data<float>(),
                  operands[2].data<float>(), out + at, end - begin, 1e-5f);
}

/// That of the README.
inline constexpr const char* kRmsNorm = R"(compute(x, gamma) {
    @kernel fused
    for b in 0..batch:
        var sum = 0.0
        for i in 0..hidden:
            sum += x[b, i] * x[b, i]
        let scale = rsqrt(sum / hidden + eps)
        for i in 0..hidden:
            out[b, i] = x[b, i] * scale * gamma[i]
})";

/// 15 over the last axis.
inline std::string softmax_of_rows() {
    std::string text = example("15");
    for (const char* call : {"reduce(max, logits", "reduce(+, exp_vals"}) {
        // The first is in a comment.
        text.insert(text.rfind(call) + std::string(call).size(), ", axis=-1");
    }
    return text;
}

inline std::vector<Job> jobs() {
    const std::int64_t n = 1 << 24;
    const double bytes = 4.0 * n;
    const std::string softmax = softmax_of_rows();
    const Tensor x = random({n}, 1), y = random({n}, 2), square = random({4096, 4096}, 3);
    const Tensor few = random({1003}, 4), rows = random({5, 130}, 5);
    const Tensor wide = random({130}, 6);
    const Shape heads{1, 2, 1024, 64}, few_heads{1, 1, 33, 16}, bert{1, 12, 512, 64};
    const Shape one_head{1, 1, 4096, 64};
    Job fast_gelu{"17 gelu, fast mode", example("17"), {x},     {},
                  Bound::Copy,          2 * bytes,     kMemory, {few}};
    fast_gelu.numerics = Numerics::Fast;
    std::vector<Job> list = {
        {"01 relu", example("01"), {x}, {}, Bound::Copy, 2 * bytes, kMemory, {few}},
        {"02 multiply-add", example("02"), {x, y}, {}, Bound::Copy, 3 * bytes, kMemory, {few, few}},
        {"03 scale rows",
         example("03"),
         {square, random({4096}, 7)},
         {},
         Bound::Copy,
         2 * bytes,
         kMemory,
         {rows, wide}},
        {"17 gelu", example("17"), {x}, {}, Bound::Copy, 2 * bytes, kMemory, {few}},
        fast_gelu,
        {"01 relu, 256 MiB",
         example("01"),
         {random({4 * n}, 33)},
         {},
         Bound::Copy,
         8 * bytes,
         kMemory,
         {few}},
        {"18 rope",
         example("18"),
         {random({1, 16, 4096, 256}, 8), random({4096, 128}, 9), random({4096, 128}, 10)},
         {},
         Bound::Copy,
         2 * bytes,
         kMemory,
         {random({1, 2, 5, 66}, 8), random({5, 33}, 9), random({5, 33}, 10)}},
        {"04 sum", example("04"), {x}, {}, Bound::Read, bytes, kMemory, {few}},
        {"05 max", example("05"), {x}, {}, Bound::Read, bytes, kMemory, {few}},
        {"06 norm", example("06"), {x}, {}, Bound::Read, bytes, kMemory, {few}},
        {"07 row sums", example("07"), {square}, {}, Bound::Read, bytes, kMemory, {rows}},
        {"08 argmax", example("08"), {x}, {}, Bound::Read, bytes, kMemory, {few}},
        {"15 softmax, rows of 2048",
         softmax,
         {random({kRows, kWidth}, 11)},
         {},
         Bound::Copy,
         bytes,
         0,
         {rows},
         softmax_by_hand,
         "softmax",
         2},
        {"16 layer norm, rows of 2048",
         example("16"),
         {random({kRows, kWidth}, 12), random({kWidth}, 13), random({kWidth}, 14)},
         {{"eps", 1e-5}},
         Bound::Copy,
         bytes,
         0,
         {rows, wide, wide},
         layer_norm_by_hand,
         "layer_norm",
         2,
         1e-2f},  // a sum of beta and its negative, nearly
        {"RMS norm of the user, fused",
         kRmsNorm,
         {random({kRows, kWidth}, 23), random({kWidth}, 24)},
         {{"eps", 1e-5}},
         Bound::Copy,
         bytes,
         0,
         {rows, wide},
         {},
         "rms_norm"},
        {"09 matmul 1024",
         example("09"),
         {random({1024, 1024}, 15), random({1024, 1024}, 16)},
         {},
         Bound::Fma,
         2.0 * (1 << 30),
         kArithmetic,
         {random({17, 33}, 15), random({33, 65}, 16)},
         {},
         "matmul",
         0,
         1e-4f,
         32,
         true},
        {"09 matmul 4096",
         example("09"),
         {square, random({4096, 4096}, 25)},
         {},
         Bound::Fma,
         2.0 * 4096 * 4096 * 4096,
         kArithmetic,
         {random({17, 33}, 15), random({33, 65}, 16)},
         {},
         "matmul",
         0,
         1e-4f,
         64,
         true},
        {"11 conv2d 64 channels",
         example("11"),
         {random({1, 64, 56, 56}, 17), random({64, 64, 3, 3}, 18), random({64}, 19)},
         {{"stride", std::int64_t(1)}, {"padding", std::int64_t(1)}},
         Bound::Fma,
         2.0 * 64 * 64 * 9 * 56 * 56,
         kArithmetic,
         {random({1, 3, 9, 21}, 17), random({5, 3, 3, 3}, 18), random({5}, 19)},
         {},
         "conv2d",
         0,
         1e-4f,
         24,
         true},
        {"14 flash attention 1024",
         example("14"),
         {random(heads, 20), random(heads, 21), random(heads, 22)},
         {},
         Bound::Fma,
         2.0 * 2 * 2 * 1024 * 1024 * 64,
         0,
         {random(few_heads, 20), random(few_heads, 21), random(few_heads, 22)},
         {},
         "attention",
         0,
         1e-4f,
         1,
         true},
        {"14 attention of BERT-base",
         example("14"),
         {random(bert, 26), random(bert, 27), random(bert, 28)},
         {},
         Bound::Fma,
         2.0 * 2 * 12 * 512 * 512 * 64,
         0,
         {random(few_heads, 20), random(few_heads, 21), random(few_heads, 22)},
         {},
         "attention",
         0,
         1e-4f,
         1,
         true},
        {"14 flash attention 4096",
         example("14"),
         {random(one_head, 29), random(one_head, 31), random(one_head, 32)},
         {},
         Bound::Fma,
         2.0 * 2 * 4096 * 4096 * 64,
         0,
         {random(few_heads, 20), random(few_heads, 21), random(few_heads, 22)},
         {},
         "attention",
         0,
         1e-4f,
         1,
         true},
    };
    return list;
}

}  // namespace quern::bench

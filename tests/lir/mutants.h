// Kernels whose lanes work together, and what is planted in their code.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <regex>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/operands.h"
#include "tests/cpu/lanes_run.h"
#include "tests/sanitized.h"

namespace quern::lir {

using cpu_test::Case;
using cpu_test::LanesRun;

// The product of tiles and the least of each row.
inline const char* const kTiles =
    "compute(a, b) {\n@kernel custom\nfor p in 0..batch:\n  for q in 0..m step 16:\n"
    "    let t = a[p, q:q+16] @ b[p]\n"
    "    out[p, q:q+16] = t - row_max(t)\n}";

/// A kernel whose lanes work together, on sizes that leave a rest.
struct Cooperative {
    const char* name;
    std::function<Case()> make;

    /// Whether the result is wrong without any one of its barriers, or there may be a race.
    bool needs_all_barriers = false;

    /// No lane reads what another wrote: what barriers there are stand before arrays of a point,
    /// whose memory may have been another's.
    bool has_lanes_apart = false;
    Numerics numerics = Numerics::Reproducible;
};

inline void PrintTo(const Cooperative& kernel, std::ostream* stream) { *stream << kernel.name; }

inline const char* const kReversed =
    "compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[40]: float32\n"
    "  for i in 0..40: t[i] = exp(x[b, i])\n  barrier()\n"
    "  for i in 0..40: out[b, i] = t[39 - i]\n}";

// Lanes write what others wrote in an earlier iteration of a loop around them.
inline const char* const kShifted =
    "compute(x) {\n@kernel custom\nfor b in 0..rows:\n  out[b, 79] = 1.0\n"
    "  for i in 0..5:\n    for j in 0..64: out[b, j + i] = x[b, j + i] * 2.0\n}";
inline const char* const kScattered =
    "compute(x) {\n@kernel custom\nfor b in 0..rows:\n  out[b, 149] = 1.0\n"
    "  for i in 0..5:\n    for j in 0..64: out[b, 2 * j + i] = x[b, 2 * j + i] * 2.0\n}";
// Lanes store pairs of neighbours, and then some one of their own.
inline const char* const kStoredTwice =
    "compute(x) {\n@kernel custom\nfor i in 0..n:\n  out[2 * i] = x[i]\n"
    "  out[2 * i + 1] = -x[i]\n  if x[i] > 0.0: out[2 * i] = x[i] * 3.0\n}";
inline const char* const kShiftedTile =
    "compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[80]: float32\n"
    "  for i in 0..80: t[i] = 0.0\n  barrier()\n"
    "  for k in 0..5:\n    for j in 0..64: t[j + k] = x[b, j + k] * 2.0\n    barrier()\n"
    "  for i in 0..80: out[b, i] = t[i]\n}";

// Each row adds up for an element that it reads and writes.
inline const char* const kSumsIntoTile =
    "compute(x) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[24]: float32\n"
    "  for i in 0..24: t[i] = 1.0\n  barrier()\n"
    "  for k in 0..2:\n    for i in 0..24:\n      var s = 0.0\n"
    "      for j in 0..32: s += x[b, k, i, j]\n      t[i] = t[i] + s\n    barrier()\n"
    "  for i in 0..24: out[b, i] = t[i]\n}";

// That of a transformer block, which keeps what is between its products in a shared variable.
inline const char* const kFeedForward =
    "compute(x, up, down) {\n@kernel fused\nfor b in 0..rows:\n  shared var t[ffn]\n"
    "  for f in 0..ffn:\n    var sum = 0.0\n    for h in 0..hidden: sum += x[b, h] * up[h, f]\n"
    "    t[f] = sum * 0.5 * (1.0 + tanh(sum))\n  barrier()\n"
    "  for h in 0..hidden:\n    var sum = 0.0\n    for f in 0..ffn: sum += t[f] * down[f, h]\n"
    "    out[b, h] = sum\n}";

inline const Cooperative kKernels[] = {
    {"row_sums",
     [] {
         return Case(example_text("07"), {uniform({3, 40}, 1)});
     },
     true},
    {"sum", [] { return Case(example_text("04"), {uniform({3000}, 1)}); }},
    {"max", [] { return Case(example_text("05"), {uniform({3000}, 1)}); }},
    {"norm", [] { return Case(example_text("06"), {uniform({3000}, 1)}); }},
    {"argmax", [] { return Case(example_text("08"), {uniform({3000}, 1)}); }},
    {"matmul",
     [] {
         return Case(example_text("09"), {uniform({5, 18}, 1), uniform({18, 20}, 2)});
     },
     false, true},
    {"batched_matmul",
     [] {
         return Case(example_text("10"), {uniform({2, 3, 18}, 1), uniform({2, 18, 20}, 2)});
     },
     false, true},
    {"conv2d",
     [] {
         return Case(example_text("11"),
                     {uniform({1, 2, 5, 21}, 1), uniform({3, 2, 3, 3}, 2), uniform({3}, 3)},
                     {{"stride", 1}, {"padding", 1}});
     }},
    {"rotary_embedding",
     [] {
         return Case(example_text("18"),
                     {uniform({1, 2, 3, 40}, 1), uniform({3, 20}, 2), uniform({3, 20}, 3)});
     }},
    {"staged_matmul",
     [] {
         // Sums of integers, exact in any order.
         const auto integers = [](const Shape& shape, std::uint64_t seed) {
             return uniform(shape, seed, -9, 9).to(DType::Int32).to(DType::Float32);
         };
         return Case(example_text("09"), {integers({35, 37}, 1), integers({37, 70}, 2)});
     },
     false, false, Numerics::Strict},
    {"flash_attention",
     [] {
         const Shape shape{1, 1, 9, 3};
         const std::string text = std::regex_replace(example_text("14"), std::regex("64"), "8");
         return Case(text, {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3)});
     }},
    {"staged_attention",
     [] {
         // Scores that are the largest of their row or so much smaller that they weigh nothing:
         // sums are whole numbers, exact in any order.
         const Shape shape{1, 1, 19, 16};
         const auto whole = [&](std::uint64_t seed, double most, double unit) {
             const Tensor t = uniform(shape, seed, 0, most).to(DType::Int32).to(DType::Float32);
             return Kernel(
                        "compute(t) {\n@kernel elementwise\nfor i in 0..len: out[i] = t[i] * u\n}")
                 .on(Device("interpreter"))(t, arg("u", unit));
         };
         const std::string text = std::regex_replace(example_text("14"), std::regex("64"), "16");
         return Case(text, {whole(1, 2, 32), whole(2, 2, 32), whole(3, 9, 1)});
     },
     false, false, Numerics::Strict},
    {"feed_forward",
     [] {
         return Case(kFeedForward,
                     {uniform({3, 18}, 1), uniform({18, 37}, 2), uniform({37, 18}, 3)});
     }},
    {"attention",
     [] {
         const Shape shape{1, 2, 9, 5};
         return Case(example_text("13"), {uniform(shape, 1), uniform(shape, 2), uniform(shape, 3),
                                          random_tensor({9, 9}, DType::Bool, 4)});
     }},
    {"staged_tiles",
     [] {
         // Whose lanes have rows, and share what the products of a point read.
         const auto integers = [](const Shape& shape, std::uint64_t seed) {
             return uniform(shape, seed, -9, 9).to(DType::Int32).to(DType::Float32);
         };
         return Case(kTiles, {integers({1, 17, 16}, 1), integers({1, 16, 17}, 2)});
     },
     false, false, Numerics::Strict},
    {"softmax",
     [] {
         return Case(example_text("15"), {uniform({3, 40}, 1)});
     }},
    {"layer_norm",
     [] {
         return Case(example_text("16"), {uniform({3, 50}, 1), uniform({50}, 2), uniform({50}, 3)},
                     {{"eps", 1e-5}});
     },
     true},
    {"reversed_tile",
     [] {
         return Case(kReversed, {uniform({5, 40}, 1)});
     },
     true},
    {"shifted_rows",
     [] {
         return Case(kShifted, {uniform({3, 80}, 1)});
     }},
    {"shifted_scatter",
     [] {
         return Case(kScattered, {uniform({3, 150}, 1)});
     }},
    {"sums_into_tile",
     [] {
         return Case(kSumsIntoTile,
                     {uniform({2, 2, 24, 32}, 1, -9, 9).to(DType::Int32).to(DType::Float32)});
     },
     false, false, Numerics::Strict},
    {"stored_twice", [] { return Case(kStoredTwice, {uniform({40}, 1)}); }},
    {"shifted_tile",
     [] {
         return Case(kShiftedTile, {uniform({3, 80}, 1)});
     }},
};

/// On a device without subgroups, with those of a part of the work-group, and of all of it.
class Mutants : public testing::TestWithParam<std::tuple<Cooperative, std::uint32_t>> {
protected:
    Mutants()
        : case_(kernel().make()),
          plan_(schedule::plan(case_.kernel(), case_.facts(), kernel().numerics, vulkan::kGroups)),
          functions_(cpu_test::functions_of(plan_, subgroup())),
          expected_(*case_.interpreted()) {}

    static const Cooperative& kernel() { return std::get<0>(GetParam()); }
    static std::uint32_t subgroup() { return std::get<1>(GetParam()); }

    LanesRun run(const std::vector<Function>& functions) const {
        return cpu_test::run_on_lanes(case_, plan_, functions);
    }

    bool is_right(const LanesRun& run) const {
        return run.mistake.empty() && run.result && cpu_test::same_numbers(*run.result, expected_);
    }

    /// How many mutants of a kind there are, and are caught. `mutate` changes an instruction of a
    /// function, and says whether it could.
    struct Count {
        int made = 0;
        int caught = 0;
        int races = 0;
    };
    Count count(const std::function<bool(Function&, BlockId, std::size_t)>& mutate) const {
        struct Place {
            std::size_t function, instruction;
            BlockId block;
        };
        std::vector<Place> places;
        for (std::size_t f = 0; f < functions_.size(); ++f) {
            for (BlockId block = 0; block < functions_[f].blocks.size(); ++block) {
                for (std::size_t n = 0; n < functions_[f].blocks[block].size(); ++n) {
                    Function mutant = functions_[f];
                    if (mutate(mutant, block, n)) places.push_back({f, n, block});
                }
            }
        }
        // Some from everywhere, and more until one is caught.
        Count all;
        const std::size_t step = places.size() / kMost + 1;
        for (std::size_t first = 0; first < step; ++first) {
            for (std::size_t p = first; p < places.size(); p += step) {
                if (all.made >= kMost && all.caught > 0) return all;
                std::vector<Function> mutant = functions_;
                mutate(mutant[places[p].function], places[p].block, places[p].instruction);
                ++all.made;
                const LanesRun got = run(mutant);
                all.caught += !is_right(got);
                all.races += !got.mistake.empty();
            }
        }
        return all;
    }

    static constexpr int kMost = kSanitized ? 8 : 40;

    Case case_;
    schedule::Plan plan_;
    std::vector<Function> functions_;
    Tensor expected_;
};

/// What the executor finds it finds with sanitizers too; they look at the executor.
inline const std::vector<std::uint32_t> kSubgroups =
    kSanitized ? std::vector<std::uint32_t>{4} : std::vector<std::uint32_t>{1, 4, 16};

inline Inst& at(Function& f, BlockId block, std::size_t n) {
    return f.insts[std::uint32_t(f.blocks[block][n])];
}

/// Leaves out a barrier.
inline bool without_barrier(Function& f, BlockId block, std::size_t n) {
    if (at(f, block, n).op != Op::Barrier) return false;
    auto& insts = f.blocks[block];
    insts.erase(insts.begin() + std::ptrdiff_t(n));
    return true;
}

}  // namespace quern::lir

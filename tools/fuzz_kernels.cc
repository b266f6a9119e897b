// Makes random valid kernels and holds the way from text to result against them: the text is
// printed and parsed again, so is its CIR; the CIR is verified; the result is compared with the
// generator's own in double, and between one thread and several, and operands that are views and
// row-major, bit by bit. Where the plug-in of the device cpu is, the kernel is compiled too, for
// one SIMD level of this processor after the other: reproducible code has the interpreter's bits
// by a random legal schedule and after each pass, and so has the default schedule's with and
// without numbers of 64 bits, or strict code is within the generator's bound: the seed says which
// of the three. So is code for the lanes of work-groups, run lane by lane or in vectors of this
// processor without races, and that of every device "vulkan:N" in one numeric mode, whose points
// are invocations or work-groups; reproducible bits are the interpreter's. "one-way" compiles each
// kernel by the default schedule and in one other of these ways, runs its lanes in one, has fewer
// work-groups on devices "vulkan:N", and interprets what has no device, so that many kernels take
// little time. "cpu" runs on the
// interpreter and the device cpu only, "drivers" on it and the devices "vulkan:N" only, and "lanes"
// on it and the lanes of work-groups. "rows" makes kernels whose points write elements and read
// them again.
//
//     fuzz_kernels [COUNT [FIRST_SEED [one-way] [cpu | lanes | drivers] [rows]]]

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "quern/error.h"
#include "quern/frontend/prepare.h"
#include "quern/ir/parse.h"
#include "quern/ir/print.h"
#include "quern/ir/verify.h"
#include "quern/kernel.h"
#include "quern/lang/parse.h"
#include "quern/threads.h"
#include "tests/cpu/lanes_run.h"
#include "tests/cpu/passes.h"
#include "tests/cpu/random_tiling.h"
#include "tests/cpu/vulkan_devices.h"
#include "tests/generator/random_kernel.h"

namespace {

using quern::Tensor;

bool same_bits(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && a.dtype() == b.dtype() &&
           (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

/// The first thing that is wrong, or nothing.
std::string check_text(const std::string& text) {
    quern::lang::Diagnostics diagnostics(text);
    const auto source = quern::lang::parse(text, {}, diagnostics);
    if (diagnostics.has_errors()) return to_string(diagnostics.sorted()[0]);
    const std::string printed = quern::lang::print(source->tree());
    quern::lang::Diagnostics again(printed);
    const auto reparsed = quern::lang::parse(printed, {}, again);
    if (again.has_errors()) return "the printed text: " + to_string(again.sorted()[0]);
    if (!quern::lang::same(source->tree(), reparsed->tree()))
        return "printed text has another tree";
    return {};
}

std::string check_cir(const quern::generator::RandomKernel& kernel) {
    quern::lang::Diagnostics diagnostics(kernel.text);
    const auto source = quern::lang::parse(kernel.text, {}, diagnostics);
    const auto infos = quern::frontend::infos_of(kernel.operands);
    const quern::lang::Tree tree = source->tree();
    const auto prepared =
        quern::frontend::prepare(*source, tree.child(tree[tree.root].first, 0), infos, {}, {});
    const std::string printed = quern::ir::print(prepared->lowered.kernel);
    std::string error;
    const auto parsed = quern::ir::parse_ir(printed, error);
    if (!parsed) return "the printed CIR does not parse: " + error;
    if (quern::ir::print(*parsed) != printed) return "the CIR does not round-trip:\n" + printed;
    const auto broken = quern::ir::verify(*parsed);
    return broken.empty() ? std::string() : "the parsed CIR does not verify: " + broken.front();
}

std::string check_result(const quern::generator::RandomKernel& kernel) {
    const quern::Kernel compiled(kernel.text);
    quern::set_num_threads(1);
    const Tensor result = compiled.run(kernel.operands);
    if (std::string wrong = kernel.wrong_element(result); !wrong.empty()) return wrong;
    quern::set_num_threads(3);
    if (!same_bits(result, compiled.run(kernel.operands))) return "three threads give other bits";
    std::vector<Tensor> rows;
    for (const Tensor& t : kernel.operands) rows.push_back(t.clone());
    if (!same_bits(result, compiled.run(rows))) return "row-major operands give other bits";
    return {};
}

/// Functions of float64 are tens of thousands of instructions where it is arithmetic on bits, for
/// which drivers take up to 20 s: so it is with one seed of so many.
constexpr long kSeedsOfSoftFunctions = 64;

bool has_functions_of_float64(const quern::cpu_test::Case& c) {
    return std::ranges::any_of(c.kernel().exprs, [](const quern::ir::Expr& e) {
        return quern::ir::is_function(e) && e.dtype == quern::DType::Float64;
    });
}

bool may_be_soft(const quern::cpu_test::Case& c, long seed) {
    return !has_functions_of_float64(c) || seed % kSeedsOfSoftFunctions == 0;
}

/// The ways to compile a kernel; `Passes` compiles nothing, but interprets after each pass.
enum class Way { Default, Narrow, Strict, RandomTiling, Passes };
constexpr std::array kWays{Way::Default, Way::Narrow, Way::Strict, Way::RandomTiling, Way::Passes};

/// Whether a seed takes a way, where every one of so many levels is to be met with every way.
bool is_taken(Way way, long seed, std::size_t levels, bool one_way) {
    const std::size_t turn = std::size_t(seed) / levels;
    if (one_way) return way == Way::Default || way == kWays[1 + turn % (kWays.size() - 1)];
    const bool is_by_turns = way == Way::Default || way == Way::Narrow || way == Way::Strict;
    return !is_by_turns || way == kWays[turn % 3];
}

std::string check_way(Way way, const quern::generator::RandomKernel& kernel,
                      const quern::cpu_test::Case& c, const Tensor& expected, quern::cpu::Simd simd,
                      long seed) {
    using quern::Numerics;
    std::optional<Tensor> exact;
    switch (way) {
        case Way::Default:
            exact = c.compiled(Numerics::Reproducible, simd);
            if (exact && quern::cpu_test::same_numbers(*exact, expected)) return {};
            return "reproducible code differs from the interpreter";
        case Way::Passes: {
            std::string wrong = quern::cpu_test::first_wrong_pass(c, Numerics::Strict);
            if (!wrong.empty()) return wrong;
            return quern::cpu_test::first_wrong_pass(c, Numerics::Reproducible);
        }
        case Way::Narrow:
            // LLVM takes minutes for some of them.
            if (has_functions_of_float64(c)) return {};
            exact = c.without_int64(Numerics::Reproducible, simd);
            if (exact && quern::cpu_test::same_numbers(*exact, expected)) return {};
            return "code without int64 differs from the interpreter";
        case Way::RandomTiling: {
            std::mt19937_64 engine{std::uint64_t(seed)};
            return quern::cpu_test::wrong_by_random_tiling(c, expected, simd,
                                                           Numerics::Reproducible, engine);
        }
        case Way::Strict:
            break;
    }
    const auto strict = c.compiled(Numerics::Strict, simd);
    return strict ? kernel.wrong_element(*strict) : "an assertion failed in strict code";
}

/// How many kernels ran where, how many a device refused, and how many it was not asked for, since
/// its driver takes too long for functions of soft float64.
struct Counts {
    long by_cpu = 0, refused_by_cpu = 0, by_vulkan = 0, refused_by_vulkan = 0, left_out = 0;
};

std::string check_compiled(const quern::generator::RandomKernel& kernel, long seed, bool one_way,
                           Counts& counts) {
    const std::vector<quern::cpu::Simd> levels = quern::cpu_test::levels_here();
    if (quern::cpu::plugin_path().empty() || levels.empty()) return {};
    const auto simd = levels[std::size_t(seed) % levels.size()];
    const quern::cpu_test::Case c(kernel.text, kernel.operands);
    const auto expected = c.interpreted();
    if (!expected) return "an assertion failed";
    for (const Way way : kWays) {
        if (!is_taken(way, seed, levels.size(), one_way)) continue;
        try {
            const std::string wrong = check_way(way, kernel, c, *expected, simd, seed);
            if (!wrong.empty()) return "on " + std::string(to_string(simd)) + ": " + wrong;
        } catch (const quern::Refusal&) {
            ++counts.refused_by_cpu;
            return {};
        }
    }
    ++counts.by_cpu;
    return {};
}

/// The code of work-groups in vectors of this processor, watched.
std::string check_vectors(const quern::generator::RandomKernel& kernel, long seed) {
    const std::vector<quern::cpu::Simd> levels = quern::cpu_test::levels_here();
    if (quern::cpu::plugin_path().empty() || levels.empty()) return {};
    const quern::cpu_test::Case c(kernel.text, kernel.operands);
    const auto expected = c.interpreted();
    if (!expected || !quern::schedule::legal(c.kernel()).empty()) return {};
    quern::schedule::Target target = quern::vulkan::kGroups;
    target.native.int64 = target.native.float64 = seed % 3 != 0 || !may_be_soft(c, seed);
    target.native.int8 = target.native.int16 = target.native.int64;
    const std::uint32_t subgroup = std::array{1u, 4u, 16u, 64u}[seed / 2 % 4];
    const auto plan =
        quern::cpu_test::plan_of_lanes(c, quern::Numerics::Reproducible, target, subgroup);
    const auto got = c.compiled(plan, levels.back(), true);
    if (!got) return "in vectors: a race, or an assertion failed";
    return quern::cpu_test::same_numbers(*got, *expected)
               ? std::string()
               : "in vectors: it differs from the interpreter";
}

/// Lane by lane, as work-groups and as invocations run it; one of these ways if so.
std::string check_lanes(const quern::generator::RandomKernel& kernel, long seed, bool one_way) {
    const quern::cpu_test::Case c(kernel.text, kernel.operands);
    const auto expected = c.interpreted();
    int way = 0;
    const auto is_chosen = [&] { return !one_way || way++ == seed / 8 % 6; };
    for (quern::schedule::Target target : {quern::vulkan::kGroups, quern::vulkan::kInvocations}) {
        target.native.float64 = seed % 2 != 0 || !may_be_soft(c, seed);
        // Devices that have no float64 may have integers of 64 bits.
        target.native.int64 = target.native.float64 || seed % 8 == 2;
        target.native.int8 = target.native.int16 = target.native.int64;
        target.is_small = seed % 3 != 0;
        target.group_bytes = std::array{16u << 10, 32u << 10, 48u << 10}[seed / 3 % 3];
        const bool is_legal = quern::schedule::legal(c.kernel()).empty();
        // None, and those of a part, of all, and of more than a work-group.
        const std::uint32_t subgroup = std::array{1u, 4u, 16u, 64u}[seed / 2 % 4];
        const std::string where = "on " + std::to_string(target.lanes) + " lanes, subgroups of " +
                                  std::to_string(subgroup) + ": ";
        for (const auto numerics : {quern::Numerics::Strict, quern::Numerics::Reproducible}) {
            if (!is_chosen() || !is_legal) continue;
            const auto run = quern::cpu_test::run_on_lanes(c, numerics, target, subgroup);
            if (!run.mistake.empty()) return where + run.mistake;
            if (!expected || !run.result) return where + "an assertion failed";
            const bool is_exact = numerics == quern::Numerics::Reproducible;
            if (is_exact && !quern::cpu_test::same_numbers(*run.result, *expected)) {
                return where + "reproducible code differs from the interpreter";
            }
            const std::string wrong = kernel.wrong_element(*run.result);
            if (!wrong.empty()) return where + wrong;
        }
    }
    // LLVM takes its time.
    const bool are_vectors_chosen = one_way ? seed / 8 % 6 == 5 : seed % 32 == 0;
    if (are_vectors_chosen) {
        const std::string wrong = check_vectors(kernel, seed);
        if (!wrong.empty()) return wrong;
    }
    if (!is_chosen()) return {};
    const quern::ir::Facts facts = c.facts();
    const quern::schedule::Target target = quern::vulkan::kGroups;
    const auto numerics = quern::Numerics::Reproducible;
    if (!expected || !quern::schedule::legal(c.kernel()).empty()) return {};
    quern::ir::Kernel prepared = quern::schedule::prepare(c.kernel(), facts, numerics);
    std::mt19937_64 engine{std::uint64_t(seed)};
    const auto tiling = quern::cpu_test::random_tiling(prepared, target, numerics, engine);
    const std::string how = "on lanes by " + to_string(prepared, tiling) + ": ";
    const auto plan = quern::schedule::lower(std::move(prepared), facts, target, tiling);
    const auto run = quern::cpu_test::run_on_lanes(c, plan, quern::cpu_test::functions_of(plan));
    if (!run.mistake.empty()) return how + run.mistake;
    const bool is_right = run.result && quern::cpu_test::same_numbers(*run.result, *expected);
    return is_right ? std::string() : how + "it differs from the interpreter";
}

/// On every device that runs kernels by Vulkan, in one of two numeric modes.
std::string check_vulkan(const quern::generator::RandomKernel& kernel, long seed, bool one_way,
                         Counts& counts) {
    using quern::Numerics;
    using quern::vulkan::PointsAre;
    const quern::cpu_test::Case c(kernel.text, kernel.operands);
    const auto expected = c.interpreted();
    int device_number = 0;
    for (const quern::cpu_test::VulkanDevice& vulkan : quern::cpu_test::vulkan_devices()) {
        // Each device is met with each mode.
        const bool is_exact = (seed / 3 + device_number++) % 2 == 0;
        if (vulkan.is_swiftshader && !may_be_soft(c, seed)) {
            ++counts.left_out;
            continue;
        }
        // Groups, which GPUs choose, sometimes: llvmpipe takes seconds for some of their code, and
        // the lanes of work-groups are run without a driver. Of the seeds of soft functions, too,
        // some are groups and the others invocations.
        const long turn = seed + seed / kSeedsOfSoftFunctions;
        const bool are_groups = turn % ((vulkan.is_swiftshader ? 8 : 32) * (one_way ? 8 : 1)) == 0;
        const PointsAre points = are_groups ? PointsAre::Groups : PointsAre::Chosen;
        const Numerics numerics = is_exact ? Numerics::Reproducible : Numerics::Strict;
        const std::string where = "on " + std::string(vulkan.device.id()) + ": ";
        std::optional<Tensor> got;
        try {
            const bool may_be_small = seed % 4 != 0;
            got = c.on_vulkan(vulkan.device, numerics, points, may_be_small);
        } catch (const quern::Refusal&) {
            ++counts.refused_by_vulkan;
            continue;
        }
        ++counts.by_vulkan;
        if (!expected || !got) return where + "an assertion failed";
        if (is_exact && !vulkan.gives(*got, *expected)) {
            return where + "reproducible code differs from the interpreter";
        }
        const std::string wrong = kernel.wrong_element(*got);
        if (!wrong.empty()) return where + wrong;
    }
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    const long count = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 500;
    const long first = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 1;
    const std::vector<std::string_view> words(argv + std::min(argc, 3), argv + argc);
    std::size_t known = 0;
    const auto has = [&](std::string_view word) {
        const bool is_there = std::ranges::count(words, word) == 1;
        known += is_there;
        return is_there;
    };
    const bool one_way = has("one-way"), are_rows = has("rows");
    const bool cpu = has("cpu"), lanes = has("lanes"), drivers = has("drivers");
    const bool is_everywhere = !cpu && !lanes && !drivers;
    if (count < 0 || first < 0 || words.size() != known || cpu + lanes + drivers > 1) {
        std::fprintf(stderr,
                     "usage: fuzz_kernels [COUNT [FIRST_SEED [one-way] "
                     "[cpu | lanes | drivers] [rows]]]\n");
        return 2;
    }
    if (drivers && quern::cpu_test::vulkan_devices().empty()) {
        std::fprintf(stderr, "drivers: expected a device with Vulkan, found none\n");
        return 2;
    }
    const auto make =
        are_rows ? quern::generator::random_row_kernel : quern::generator::random_kernel;
    const bool terminal = isatty(STDERR_FILENO) != 0;
    Counts counts;
    if (one_way || !is_everywhere) quern::set_default_device("interpreter");
    // Warnings of random kernels say nothing.
    quern::set_warning_handler([](const quern::Diagnostic&) {});
    for (long n = 0; n < count; ++n) {
        if (terminal && n % 50 == 0) std::fprintf(stderr, "\r%ld of %ld", n, count);
        const auto kernel = make(std::uint64_t(first + n));
        std::string wrong;
        try {
            wrong = check_text(kernel.text);
            if (wrong.empty()) wrong = check_cir(kernel);
            if (wrong.empty()) wrong = check_result(kernel);
            if (wrong.empty() && (cpu || is_everywhere))
                wrong = check_compiled(kernel, first + n, one_way, counts);
            if (wrong.empty() && (lanes || is_everywhere))
                wrong = check_lanes(kernel, first + n, one_way);
            if (wrong.empty() && (drivers || is_everywhere))
                wrong = check_vulkan(kernel, first + n, one_way, counts);
        } catch (const std::exception& error) {
            wrong = error.what();
        }
        if (wrong.empty()) continue;
        std::fprintf(stderr, "%sseed %ld: %s\n%s", terminal ? "\r" : "", first + n, wrong.c_str(),
                     kernel.text.c_str());
        for (const Tensor& t : kernel.operands) {
            std::fprintf(stderr, "operand %s %s\n", std::string(to_string(t.dtype())).c_str(),
                         quern::to_string(t.shape()).c_str());
        }
        return 1;
    }
    std::fprintf(stderr, "%s", terminal ? "\r" : "");
    std::printf("%ld random kernels: printed, parsed, verified, run, compared\n", count);
    std::printf("%ld of them on the device cpu, %ld refused by it\n", counts.by_cpu,
                counts.refused_by_cpu);
    std::printf("%ld times on devices with Vulkan, %ld times refused by them, %ld times left out\n",
                counts.by_vulkan, counts.refused_by_vulkan, counts.left_out);
    // A rare one is above a limit; more would be tests that do not run.
    const auto are_many = [](long refused, long run) { return refused > 2 + run / 50; };
    if (are_many(counts.refused_by_cpu, counts.by_cpu) ||
        are_many(counts.refused_by_vulkan, counts.by_vulkan)) {
        std::fprintf(stderr, "expected at most one in 50 to be refused\n");
        return 1;
    }
    return 0;
}

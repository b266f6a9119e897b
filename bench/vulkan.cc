// What a kernel costs as SPIR-V, what code of work-groups costs without a device, and launches on
// devices "vulkan:N": many without waiting, each with waiting, work on memory of the device and of
// the host, and a product beside a shader that is written by hand.
//
//     bench_vulkan [bench_glsl_matmul]

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/targets.h"
#include "quern/kernel.h"
#ifdef QUERN_HAS_SPIRV
#include "quern/backend/vulkan/emit.h"
#include "quern/backend/vulkan/targets.h"
#include "quern/schedule/plan.h"
#include "tests/cpu/case.h"
#include "tests/cpu/lanes_run.h"
#endif

namespace {

using namespace quern;
using Clock = std::chrono::steady_clock;

bench::Targets targets;

constexpr const char* kRelu = R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = relu(x[i])
})";

/// The least of several times, in seconds.
double least(int runs, const std::function<void()>& run) {
    double best = 1e30;
    for (int i = 0; i < runs; ++i) {
        const auto start = Clock::now();
        run();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    }
    return best;
}

Tensor random(std::int64_t count, unsigned seed = 1) {
    std::mt19937 engine(seed);
    std::uniform_real_distribution<float> number(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = number(engine);
    return Tensor::from({count}, values).to(Device("cpu"));
}

#ifdef QUERN_HAS_SPIRV
cpu_test::Case case_of(const char* file, const std::vector<Tensor>& operands) {
    std::ostringstream text;
    text << std::ifstream(std::filesystem::path(QUERN_SOURCE_DIR) / "examples/kernels" / file)
                .rdbuf();
    return cpu_test::Case(text.str(), operands);
}

/// From a kernel to words, as an invocation a point and as a work-group a point, for a device that
/// has all that code asks for, and for one that has the least: 32 bits, buffers that are bound,
/// lanes that exchange nothing. Validation and the driver are not of it.
void emits(const char* file, const std::vector<Tensor>& operands) {
    using vulkan::BuffersAre, vulkan::PointsAre;
    const cpu_test::Case c = case_of(file, operands);
    const vulkan::Features all{.has_float64 = true, .has_float16 = true, .subgroup = 16};
    const vulkan::Features least_one{
        .integers = {.has_8 = false, .has_16 = false, .has_64 = false}};
    const struct {
        const char* name;
        PointsAre points;
        const vulkan::Features& device;
        BuffersAre buffers;
    } kinds[] = {{"invocations", PointsAre::Invocations, all, BuffersAre::Addressed},
                 {"work-groups", PointsAre::Groups, all, BuffersAre::Addressed},
                 {"invocations, 32 bits", PointsAre::Invocations, least_one, BuffersAre::Bound},
                 {"work-groups, 32 bits", PointsAre::GroupsByMemory, least_one, BuffersAre::Bound}};
    for (const auto& kind : kinds) {
        const auto [target, integers, has_float16] =
            vulkan::code_for({.points = kind.points}, kind.device);
        schedule::Plan plan;
        const double passes = least(50, [&, &target = target] {
            plan = schedule::plan(c.kernel(), c.facts(), Numerics::Strict, target);
        });
        const vulkan::FloatControls controls{.has_float16 = has_float16};
        std::size_t words = 0;
        const double emitting = least(50, [&, &target = target, &integers = integers] {
            words = 0;
            for (lir::Function& function :
                 schedule::for_lanes(plan, target.subgroup, target.group_bytes)) {
                words += vulkan::emit(lir::legalise(std::move(function), target.native), controls,
                                      integers, kind.buffers)
                             .size();
            }
        });
        std::printf("%-24s %-20s schedule and passes %.3f ms, words %.3f ms, of %zu\n", file,
                    kind.name, passes * 1e3, emitting * 1e3, words);
        targets.at_most(std::string("emitting ") + file + " as " + kind.name + ", ms",
                        emitting * 1e3, 1);
    }
}

void emits() {
    const Tensor x({1 << 20}), matrix({512, 512}), heads({1, 2, 128, 64});
    emits("01_relu.quern", {x});
    emits("17_gelu.quern", {x});
    emits("15_softmax.quern", {matrix});
    emits("09_matmul.quern", {matrix, matrix});
    emits("14_flash_attention.quern", {heads, heads, heads});
}

/// The code of work-groups by the executor, and in vectors of this processor, made and run.
void runs_without_a_device(const char* file, const std::vector<Tensor>& operands) {
    const cpu_test::Case c = case_of(file, operands);
    const auto mode = Numerics::Reproducible;
    cpu_test::LanesRun run;
    const double executed =
        least(1, [&] { run = cpu_test::run_on_lanes(c, mode, vulkan::kGroups, 16); });
    const schedule::Plan plan = cpu_test::plan_of_lanes(c, mode, vulkan::kGroups, 16);
    std::optional<Tensor> result;
    const double in_vectors = least(1, [&] { result = c.compiled(plan, cpu::chosen_simd()); });
    const bool is_same = run.result && result && cpu_test::same_numbers(*run.result, *result);
    std::printf("%-24s work-groups  executor %.2f s, made and run in vectors %.2f s, %s\n", file,
                executed, in_vectors, is_same ? "same numbers" : "OTHER NUMBERS");
}

void runs_without_a_device() {
    const Tensor matrix = random(256 * 256).reshape({256, 256});
    const Tensor heads = random(2 * 256 * 64).reshape({1, 2, 256, 64});
    runs_without_a_device("15_softmax.quern", {random(512 * 512).reshape({512, 512})});
    runs_without_a_device("09_matmul.quern", {matrix, matrix});
    runs_without_a_device("14_flash_attention.quern", {heads, heads, heads});
}
#else
void runs_without_a_device() {}
void emits() { std::printf("skipped: no plug-in with Vulkan\n"); }
#endif

/// That no number is farther from the expected one than `most` of it.
template <class Most>
void expect_close(const Device& device, const std::vector<double>& got,
                  const std::vector<double>& expected, const Most& most) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::abs(got[i] - expected[i]) <= most(expected[i])) continue;
        return targets.missed(device.id() + ": a wrong result");
    }
}

void launches(const Device& device, bool is_llvmpipe) {
    const Kernel kernel = Kernel(kRelu).on(device);
    const Tensor x = random(16).to(device);
    const std::vector<double> expected = Kernel(kRelu).on(Device("interpreter"))(x).values();
    if (kernel(x).values() != expected) targets.missed(device.id() + ": a wrong result");
    constexpr int kCalls = 1000;
    const double batched = least(10, [&] {
        for (int i = 0; i < kCalls; ++i) kernel(x);
        synchronize(device);
    });
    const double chained = least(10, [&] {
        Tensor y = x;
        for (int i = 0; i < kCalls; ++i) y = kernel(y);
        synchronize(device);
    });
    const double alone = least(200, [&] {
        kernel(x);
        synchronize(device);
    });
    std::printf(
        "    launch on 16 elements: %.1f us each of %d, %.1f us where each reads the last "
        "one's result, %.1f us with waiting\n",
        batched / kCalls * 1e6, kCalls, chained / kCalls * 1e6, alone * 1e6);
    if (is_llvmpipe) {
        targets.at_most("launch on " + device.id() + ", us", batched / kCalls * 1e6, 50);
        targets.at_most("launch on a result on " + device.id() + ", us", chained / kCalls * 1e6,
                        50);
    }
}

void streams(const Device& device) {
    const Kernel kernel = Kernel(kRelu).on(device);
    const Tensor host = random(16 << 20), x = host.to(device);
    const double bytes = 2.0 * double(x.bytes());
    const auto run = [&](const Tensor& operand) {
        kernel(operand);
        synchronize(device);
    };
    const double there = least(7, [&] { run(x); }), copied = least(7, [&] { run(host); });
    const Kernel on_cpu = Kernel(kRelu).on(Device("cpu"));
    const double cpu = least(7, [&] { on_cpu(host); });
    if (kernel(x).values() != on_cpu(host).values())
        targets.missed(device.id() + ": a wrong result");
    std::printf(
        "    relu of 64 MB in the device's memory: %.1f ms, %.1f GB/s; operand of the host: "
        "%.1f ms; device cpu: %.1f ms, %.1f GB/s\n",
        there * 1e3, bytes / there / 1e9, copied * 1e3, cpu * 1e3, bytes / cpu / 1e9);
}

constexpr const char* kProduct = R"(compute(a, b) {
    @kernel custom
    for i in 0..m, j in 0..n:
        var sum = 0.0
        for k in 0..depth:
            sum += a[i, k] * b[k, j]
        out[i, j] = sum
})";

/// The least seconds that the program of code by hand prints, or a negative number if it fails.
double seconds_of(const std::string& command) {
    FILE* const output = popen(command.c_str(), "r");
    double seconds = -1;
    if (output && std::fscanf(output, "%lf", &seconds) != 1) seconds = -1;
    const int status = output ? pclose(output) : -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? seconds : -1;
}

std::string number_of(const Device& device) {
    return device.id().substr(device.id().find(':') + 1);
}

/// Of matmul_tiled.comp; none where there is no compiler for it.
std::optional<double> by_hand(const std::string& program, const Device& device,
                              std::int64_t extent) {
    const std::string code =
        (std::filesystem::temp_directory_path() / "quern_bench_matmul.spv").string();
    const std::string compile = "glslangValidator -V --target-env vulkan1.2 " QUERN_SOURCE_DIR
                                "/bench/matmul_tiled.comp -o " +
                                code + " > /dev/null 2>&1";
    if (program.empty() || std::system(compile.c_str()) != 0) return std::nullopt;
    const double seconds =
        seconds_of(program + " " + code + " " + number_of(device) + " " + std::to_string(extent));
    std::filesystem::remove(code);
    return seconds;
}

/// What memory bounds beside a copy in the device's memory. On a processor that is called a device
/// arithmetic bounds it.
void memory_bound(const Device& device, bool is_processor, const std::string& program) {
    constexpr std::int64_t kRows = 4096, kBytes = kRows * kRows * 4;
    const double copy =
        program.empty()
            ? -1
            : seconds_of(program + " copy " + number_of(device) + " " + std::to_string(kBytes));
    if (copy < 0) {
        std::printf("    skipped: no copy by bench_glsl_matmul\n");
        return;
    }
    const double bound = 2.0 * kBytes / copy;
    std::printf("    copy of 64 MiB in the device's memory: %.3f ms, %.1f GB/s\n", copy * 1e3,
                bound / 1e9);
    const Tensor x = random(kRows * kRows, 6).reshape({kRows, kRows}), there = x.to(device);
    struct Job {
        const char* name;
        std::string body;
        double bytes;
    };
    const Job jobs[] = {
        {"relu", "for i in 0..m, j in 0..n: out[i, j] = relu(x[i, j])", 2.0 * kBytes},
        {"row sums",
         "for i in 0..m:\n  var sum = 0.0\n  for j in 0..n: sum += x[i, j]\n  out[i] = sum",
         1.0 * kBytes},
    };
    for (const Job& job : jobs) {
        const Kernel kernel("compute(x) {\n@kernel custom\n" + job.body + "\n}");
        const Kernel here = kernel.on(device);
        // Sums of numbers below 1, each rounded.
        expect_close(device, here(there).values(), kernel.on(Device("cpu"))(x).values(),
                     [](double) { return 1e-7 * kRows; });
        const double seconds = least(12, [&] {
            here(there);
            synchronize(device);
        });
        const double ratio = job.bytes / seconds / bound;
        std::printf("    %s of 64 MiB: %.3f ms, %.1f GB/s, %.0f %% of the copy\n", job.name,
                    seconds * 1e3, job.bytes / seconds / 1e9, ratio * 100);
        if (!is_processor) {
            targets.at_least(std::string(job.name) + " on " + device.id() + ", of a copy", ratio,
                             0.85);
        }
    }
}

void products(const Device& device, bool is_llvmpipe, const std::string& program) {
    constexpr std::int64_t kExtent = 512;
    const Kernel kernel = Kernel(kProduct).on(device);
    const Tensor a = random(kExtent * kExtent, 2).reshape({kExtent, kExtent}).to(device);
    const Tensor b = random(kExtent * kExtent, 3).reshape({kExtent, kExtent}).to(device);
    const std::vector<double> got = kernel(a, b).values();
    const std::vector<double> expected = Kernel(kProduct).on(Device("cpu"))(a, b).values();
    // Products of at most 1, each sum rounded.
    expect_close(device, got, expected, [](double) { return 1e-7 * kExtent; });
    const double ours = least(12, [&] {
        kernel(a, b);
        synchronize(device);
    });
    const double operations = 2.0 * kExtent * kExtent * kExtent;
    std::printf("    product of 512: %.1f ms, %.1f GFLOP/s; ", ours * 1e3, operations / ours / 1e9);
    const auto hand = by_hand(program, device, kExtent);
    if (!hand) {
        std::printf("skipped: no glslangValidator or no bench_glsl_matmul\n");
    } else if (*hand < 0) {
        std::printf("the shader by hand fails\n");
    } else {
        std::printf("tiled shader by hand: %.1f ms, %.1fx\n", *hand * 1e3, *hand / ours);
        if (is_llvmpipe) targets.at_least("product of 512 over the shader", *hand / ours, 3);
    }
}

/// Of float16 with sums of float32, which subgroups multiply as matrices where a device has those.
void half_products(const Device& device) {
    constexpr std::int64_t kExtent = 1024;
    const Kernel kernel = Kernel(kProduct).on(device);
    const auto matrix = [](unsigned seed) {
        return random(kExtent * kExtent, seed).reshape({kExtent, kExtent}).to(DType::Float16);
    };
    const Tensor a = matrix(4), b = matrix(5), there_a = a.to(device), there_b = b.to(device);
    const std::vector<double> got = kernel(there_a, there_b).values();
    const std::vector<double> expected = Kernel(kProduct).on(Device("cpu"))(a, b).values();
    // A unit of float16, where sums are rounded differently.
    expect_close(device, got, expected,
                 [](double number) { return std::max(std::abs(number), 1.0) * 0x1p-10; });
    const double seconds = least(5, [&] {
        kernel(there_a, there_b);
        synchronize(device);
    });
    const std::string text = kernel.explain(std::vector{there_a, there_b});
    const std::size_t groups = text.find("work-groups ");
    std::printf("    product of 1024, float16: %.1f ms, %.1f GFLOP/s; %s\n", seconds * 1e3,
                2.0 * kExtent * kExtent * kExtent / seconds / 1e9,
                text.substr(groups, text.find('\n', groups) - groups).c_str());
}

}  // namespace

int main(int argc, char** argv) {
    const std::string program = argc > 1 ? argv[1] : "";
    emits();
    runs_without_a_device();
    bool is_any = false, has_gpu = false;
    for (const DeviceInfo& info : devices()) {
        if (info.type != "vulkan") continue;
        is_any = true;
        std::printf("%s, %s\n", info.id.c_str(), info.name.c_str());
        const bool is_llvmpipe = info.name.find("llvmpipe") != std::string::npos;
        launches(Device(info.id), is_llvmpipe);
        const bool is_processor = is_llvmpipe || info.name.find("SwiftShader") != std::string::npos;
        has_gpu |= !is_processor;
        streams(Device(info.id));
        memory_bound(Device(info.id), is_processor, program);
        products(Device(info.id), is_llvmpipe, program);
        half_products(Device(info.id));
    }
    if (!is_any) std::printf("skipped: no device vulkan\n");
    if (is_any && !has_gpu)
        std::printf("no GPU here: what memory bounds and matrices have no target\n");
    return targets.finish();
}

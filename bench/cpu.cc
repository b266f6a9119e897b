// The device cpu against bounds taken in the same run: a plain copy and a plain read loop for what
// is bound by memory, the peak of multiply-adds for what is bound by arithmetic. Outputs lie in
// memory that was written before, so what is timed is the code and not the system's pages.

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "bench/hand_written.h"
#include "quern/io.h"
#include "quern/kernel.h"
#include "quern/memory.h"
#include "quern/runtime/bounds.h"
#include "quern/support/threads.h"
#include "tests/cpu/case.h"

namespace {

using namespace quern;
using cpu_test::Arguments;
using cpu_test::Case;

constexpr int kThreads = 2;

std::string example(const std::string& number) {
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
Tensor random(const Shape& shape, unsigned seed) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(std::size_t(element_count(shape)));
    for (float& value : values) value = normal(engine);
    return Tensor::from(shape, values);
}

Tensor causal_mask(std::int64_t n) {
    Tensor mask({n, n}, DType::Bool, Device("interpreter"));
    for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) mask.data<bool>()[i * n + j] = true;
    }
    return mask;
}

/// The least time of some calls, in seconds.
double best_time(const std::function<void()>& call) {
    double best = 1e30, total = 0;
    for (int i = 0; i < 30 && (i < 5 || total < 0.6); ++i) {
        const auto start = std::chrono::steady_clock::now();
        call();
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        best = std::min(best, seconds);
        total += seconds;
    }
    return best;
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

    /// The same kernel on operands that the interpreter does in an instant.
    std::vector<Tensor> small;

    /// What the two may differ by, relative to 1e-3 and more.
    float tolerance = 1e-4f;

    /// The same written by hand for rows [begin, end), where there is such a thing.
    std::function<void(const std::vector<Tensor>& operands, float* out, std::int64_t begin,
                       std::int64_t end)>
        by_hand = {};

    /// What bench/torch_peer.py calls the same.
    std::string torch = {};
};

constexpr std::int64_t kRows = 4096, kWidth = 2048;

#if defined(__x86_64__)
void softmax_by_hand(const std::vector<Tensor>& operands, float* out, std::int64_t begin,
                     std::int64_t end) {
    const std::int64_t at = begin * kWidth;
    bench::softmax_rows(operands[0].data<float>() + at, out + at, end - begin, kWidth);
}

void layer_norm_by_hand(const std::vector<Tensor>& operands, float* out, std::int64_t begin,
                        std::int64_t end) {
    const std::int64_t at = begin * kWidth;
    bench::layer_norm_rows(operands[0].data<float>() + at, operands[1].data<float>(),
                           operands[2].data<float>(), out + at, end - begin, kWidth, 1e-5f);
}
#else
constexpr auto softmax_by_hand = nullptr, layer_norm_by_hand = nullptr;
#endif

std::vector<Job> jobs() {
    const std::int64_t n = 1 << 24;
    const double bytes = 4.0 * n;
    std::string softmax = example("15");
    for (const char* call : {"reduce(max, logits", "reduce(+, exp_vals"}) {
        // The first is in a comment.
        softmax.insert(softmax.rfind(call) + std::string(call).size(), ", axis=-1");
    }
    const Tensor x = random({n}, 1), y = random({n}, 2), square = random({4096, 4096}, 3);
    const Tensor few = random({1003}, 4), rows = random({5, 130}, 5);
    const Tensor wide = random({130}, 6);
    const Shape heads{1, 2, 1024, 64}, few_heads{1, 1, 33, 16};
    std::vector<Job> list = {
        {"01 relu", example("01"), {x}, {}, Bound::Copy, 2 * bytes, {few}},
        {"02 multiply-add", example("02"), {x, y}, {}, Bound::Copy, 3 * bytes, {few, few}},
        {"03 scale rows",
         example("03"),
         {square, random({4096}, 7)},
         {},
         Bound::Copy,
         2 * bytes,
         {rows, wide}},
        {"17 gelu", example("17"), {x}, {}, Bound::Copy, 2 * bytes, {few}},
        {"18 rope",
         example("18"),
         {random({1, 16, 4096, 256}, 8), random({4096, 128}, 9), random({4096, 128}, 10)},
         {},
         Bound::Copy,
         2 * bytes,
         {random({1, 2, 5, 66}, 8), random({5, 33}, 9), random({5, 33}, 10)}},
        {"04 sum", example("04"), {x}, {}, Bound::Read, bytes, {few}},
        {"05 max", example("05"), {x}, {}, Bound::Read, bytes, {few}},
        {"06 norm", example("06"), {x}, {}, Bound::Read, bytes, {few}},
        {"07 row sums", example("07"), {square}, {}, Bound::Read, bytes, {rows}},
        {"08 argmax", example("08"), {x}, {}, Bound::Read, bytes, {few}},
        {"15 softmax, rows of 2048",
         softmax,
         {random({kRows, kWidth}, 11)},
         {},
         Bound::Copy,
         bytes,
         {rows},
         1e-4f,
         softmax_by_hand,
         "softmax"},
        {"16 layer norm, rows of 2048",
         example("16"),
         {random({kRows, kWidth}, 12), random({kWidth}, 13), random({kWidth}, 14)},
         {{"eps", 1e-5}},
         Bound::Copy,
         bytes,
         {rows, wide, wide},
         1e-2f,  // a sum of beta and its negative, nearly
         layer_norm_by_hand,
         "layer_norm"},
        {"09 matmul 1024",
         example("09"),
         {random({1024, 1024}, 15), random({1024, 1024}, 16)},
         {},
         Bound::Fma,
         2.0 * (1 << 30),
         {random({17, 33}, 15), random({33, 65}, 16)}},
        {"11 conv2d 64 channels",
         example("11"),
         {random({1, 64, 56, 56}, 17), random({64, 64, 3, 3}, 18), random({64}, 19)},
         {{"stride", std::int64_t(1)}, {"padding", std::int64_t(1)}},
         Bound::Fma,
         2.0 * 64 * 64 * 9 * 56 * 56,
         {random({1, 3, 9, 21}, 17), random({5, 3, 3, 3}, 18), random({5}, 19)}},
        {"14 flash attention 1024",
         example("14"),
         {random(heads, 20), random(heads, 21), random(heads, 22)},
         {},
         Bound::Fma,
         2.0 * 2 * 2 * 1024 * 1024 * 64,
         {random(few_heads, 20), random(few_heads, 21), random(few_heads, 22)}},
    };
    return list;
}

/// The least seconds of a run, or a negative number if its results are wrong.
double time_of(const Job& job, int threads) {
    const Case small(job.text, job.small, job.arguments);
    const auto expected = small.interpreted();
    const auto got = small.compiled(Numerics::Strict, cpu::chosen_simd());
    if (!expected || !got) return -1;
    const std::vector<double> a = expected->values(), b = got->values();
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (std::abs(a[i] - b[i]) > 1e-4 * std::max(1.0, std::abs(a[i]))) return -1;
    }
    const Case large(job.text, job.operands, job.arguments);
    const CompiledKernel kernel(large.kernel(), large.facts(), Numerics::Strict,
                                cpu::chosen_simd());
    Tensor result = large.output();
    return best_time([&] { large.run(kernel, result, threads); });
}

/// Whether no two elements differ by more, relative to 1e-3 and more.
bool agree(const Tensor& a, const Tensor& b, float tolerance) {
    for (std::int64_t i = 0; i < a.element_count(); ++i) {
        const float x = a.data<float>()[i], y = b.data<float>()[i];
        if (!(std::abs(x - y) <= tolerance * std::max(1e-3f, std::abs(x)))) return false;
    }
    return true;
}

/// The least seconds of the same by hand, or a negative number if the two do not agree.
double time_by_hand(const Job& job) {
    const Case c(job.text, job.operands, job.arguments);
    const CompiledKernel kernel(c.kernel(), c.facts(), Numerics::Strict, cpu::chosen_simd());
    Tensor ours = c.output(), hand = c.output();
    c.run(kernel, ours, kThreads);
    const auto run = [&] {
        parallel_for(kRows / 16, kThreads, [&](std::int64_t begin, std::int64_t end) {
            job.by_hand(job.operands, hand.data<float>(), begin * 16, end * 16);
        });
    };
    const double seconds = best_time(run);
    return agree(ours, hand, job.tolerance) ? seconds : -1;
}

/// PyTorch's least seconds, or a negative number if it fails or results do not agree; none where
/// there is no PyTorch. Its results take memory that was freed by those before, as ours do.
std::optional<double> time_of_torch(const Job& job) {
    const auto folder = std::filesystem::temp_directory_path() / "quern_bench_torch";
    std::filesystem::create_directories(folder);
    std::string files = (folder / "result.npy").string();
    for (const Tensor& operand : job.operands) {
        const std::string file = (folder / (std::to_string(files.size()) + ".npy")).string();
        save_npy(file, operand);
        files += " " + file;
    }
    const std::string command =
        "MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 "
        "/usr/bin/python3 " QUERN_SOURCE_DIR "/bench/torch_peer.py " +
        job.torch + " " + std::to_string(kThreads) + " " + files + " 2>/dev/null";
    double seconds = 0;
    FILE* output = popen(command.c_str(), "r");
    const bool is_read = output && std::fscanf(output, "%lf", &seconds) == 1;
    // What it ends with where there is no PyTorch.
    constexpr int kAbsent = 3;
    const int status = output ? pclose(output) : -1;
    std::optional<double> result;
    if (!is_read && !(WIFEXITED(status) && WEXITSTATUS(status) == kAbsent)) result = -1;
    if (is_read) {
        const Case c(job.text, job.operands, job.arguments);
        Tensor ours = c.output();
        c.run(CompiledKernel(c.kernel(), c.facts(), Numerics::Strict, cpu::chosen_simd()), ours,
              kThreads);
        const bool agrees = agree(ours, load_npy((folder / "result.npy").string()), job.tolerance);
        result = agrees ? seconds : -1;
    }
    std::filesystem::remove_all(folder);
    return result;
}

/// How many times faster a kernel on 64 KiB is with the instructions of one level than of another.
double speed_up(const std::string& text, const std::vector<Tensor>& operands,
                const Arguments& arguments, cpu::Simd from, cpu::Simd to) {
    const Case c(text, operands, arguments);
    const auto seconds = [&](cpu::Simd simd) {
        const CompiledKernel kernel(c.kernel(), c.facts(), Numerics::Strict, simd);
        Tensor result = c.output();
        return best_time([&] {
            for (int i = 0; i < 50; ++i) c.run(kernel, result, 1);
        });
    };
    return seconds(from) / seconds(to);
}

void print_levels() {
    const Tensor x = random({16, 1024}, 40), gamma = random({1024}, 41);
    for (const auto& [name, number, operands, arguments] :
         {std::tuple<const char*, const char*, std::vector<Tensor>, Arguments>{
              "16 layer norm", "16", {x, gamma, gamma}, {{"eps", 1e-5}}},
          {"17 gelu", "17", {x}, {}}}) {
        for (const cpu::Simd simd : {cpu::Simd::Avx2, cpu::Simd::Avx512}) {
            if (!cpu::has(simd)) continue;
            std::printf("%s on 64 KiB, %s over scalar: %.1fx\n", name, cpu::to_string(simd),
                        speed_up(example(number), operands, arguments, cpu::Simd::Scalar, simd));
        }
    }
}

/// 14 beside 13, and the memory that it takes besides operands and result.
void print_attention() {
    for (const std::int64_t seq : {512, 4096}) {
        const Tensor q = random({1, 1, seq, 64}, 30);
        const Tensor few = q.slice(2, 0, 20).contiguous();
        const auto seconds = [&](const char* number, std::vector<Tensor> large,
                                 std::vector<Tensor> small) {
            return time_of({"", example(number), large, {}, Bound::Fma, 0, small}, kThreads);
        };
        const double plain =
            seconds("13", {q, q, q, causal_mask(seq)}, {few, few, few, causal_mask(20)});
        const double flash = seconds("14", {q, q, q}, {few, few, few});
        const Kernel kernel = Kernel(example("14")).on(Device("cpu"));
        kernel(q, q, q);
        reset_peak_memory();
        const std::size_t before = memory_counters().live;
        const Tensor result = kernel(q, q, q);
        const std::size_t extra = memory_counters().peak - before - result.bytes();
        std::printf("14 over 13 at %d x 64: %.1fx; %.0f KiB besides operands and result\n",
                    int(seq), plain / flash, double(extra) / 1024);
    }
}

}  // namespace

int main() {
    if (cpu::plugin_path().empty()) {
        std::printf("skipped: no plug-in with LLVM 19\n");
        return 0;
    }
    set_warning_handler([](const Diagnostic&) {});
    const Bounds bounds = measure_bounds(kThreads);
    std::printf("%s, %d threads: copy %.1f GB/s, read %.1f GB/s, multiply-adds %.0f GFLOP/s\n",
                cpu::to_string(cpu::chosen_simd()), kThreads, bounds.copy / 1e9, bounds.read / 1e9,
                bounds.operations / 1e9);
    std::printf("%-28s %9s %12s %9s %10s\n", "kernel", "ms", "rate", "of bound", "2 threads");
    bool all_agree = true;
    for (const Job& job : jobs()) {
        const double seconds = time_of(job, kThreads);
        if (seconds < 0) {
            all_agree = false;
            std::printf("%-28s wrong results\n", job.name.c_str());
            continue;
        }
        const double one = time_of(job, 1);
        const double bound = job.bound == Bound::Copy   ? bounds.copy
                             : job.bound == Bound::Read ? bounds.read
                                                        : bounds.operations;
        const double rate = job.work / seconds;
        std::printf("%-28s %9.3f %7.1f %s %8.0f %% %9.2fx\n", job.name.c_str(), seconds * 1e3,
                    rate / 1e9, job.bound == Bound::Fma ? "GFLOP" : "GB   ", 100 * rate / bound,
                    one / seconds);
        if (!job.by_hand || !cpu::has(cpu::Simd::Avx512)) continue;
        const double hand = time_by_hand(job);
        all_agree = all_agree && hand > 0;
        std::printf("%-28s %9.3f ms by hand with AVX-512: %.0f %% of it\n", "", hand * 1e3,
                    100 * hand / seconds);
        const std::optional<double> torch = time_of_torch(job);
        if (!torch) {
            std::printf("%-28s skipped: no PyTorch (Debian's python3-torch)\n", "");
            continue;
        }
        all_agree = all_agree && *torch > 0;
        std::printf("%-28s %9.3f ms by PyTorch: %.1fx\n", "", *torch * 1e3, *torch / seconds);
    }
    print_levels();
    print_attention();
    return all_agree ? 0 : 1;
}

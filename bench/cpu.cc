// The device cpu against bounds taken in the same run: a plain copy and a plain read loop for what
// is bound by memory, the peak of multiply-adds for what is bound by arithmetic. Outputs lie in
// memory that was written before, so what is timed is the code and not the system's pages.

#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bench/cpu_jobs.h"
#include "quern/io.h"
#include "quern/kernel.h"
#include "quern/memory.h"
#include "quern/runtime/bounds.h"
#include "quern/support/threads.h"

namespace {

using namespace quern;
using namespace quern::bench;
using cpu_test::Case;

constexpr int kThreads = 2;

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

bool agree(const Job& job, const Tensor& a, const Tensor& b) {
    for (std::int64_t i = 0; i < a.element_count(); ++i) {
        const float x = a.data<float>()[i], y = b.data<float>()[i];
        if (!(std::abs(x - y) <= job.tolerance * std::max(job.scale, std::abs(x)))) return false;
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
    return agree(job, ours, hand) ? seconds : -1;
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
        const bool agrees = agree(job, ours, load_npy((folder / "result.npy").string()));
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
        if (job.by_hand && cpu::has(cpu::Simd::Avx512)) {
            const double hand = time_by_hand(job);
            all_agree = all_agree && hand > 0;
            std::printf("%-28s %9.3f ms by hand with AVX-512: %.0f %% of it\n", "", hand * 1e3,
                        100 * hand / seconds);
        }
        if (job.torch.empty()) continue;
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

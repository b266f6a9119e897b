// The device cpu against bounds: a plain copy and a plain read loop for what is bound by memory,
// the peak of multiply-adds for what is bound by arithmetic. What is compared is timed in turn,
// call by call, and the plain loops go over the kernel's own operands and result, as the memory of
// a shared machine is three times as fast at some times as at others. Outputs lie in memory that
// was written before, so what is timed is the code and not the system's pages.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/cpu_jobs.h"
#include "bench/targets.h"
#include "bench/torch_peer.h"
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

/// A call that gives its seconds.
using Timed = std::function<double()>;

template <class Call>
Timed timed(Call call) {
    return [call] {
        const auto start = std::chrono::steady_clock::now();
        call();
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
}

/// The least seconds of each of some calls, made in turn, short ones a few times in a row: the
/// first finds the caches as another call left them, and threads that sleep.
std::vector<double> best_times(const std::vector<Timed>& calls) {
    constexpr int kRounds = 100, kFewest = 5;
    // What a call may take in all its rounds, and in the first few: a slow peer is not waited for.
    constexpr double kSeconds = 0.6, kMost = 4;
    constexpr int kInRow = 4;
    constexpr double kShort = 0.05;
    std::vector<double> best(calls.size(), 1e30), total(calls.size());
    for (int round = 0; round < kRounds; ++round) {
        for (std::size_t i = 0; i < calls.size(); ++i) {
            if (total[i] > (round < kFewest ? kMost : kSeconds)) continue;
            for (int repeat = 0; repeat < (best[i] < kShort ? kInRow : 1); ++repeat) {
                const double seconds = calls[i]();
                best[i] = std::min(best[i], seconds);
                total[i] += seconds;
            }
        }
    }
    return best;
}

/// Whether what the device makes of few operands is what the interpreter makes of them.
bool is_right(const Job& job) {
    const Case small(job.text, job.small, job.arguments);
    const auto expected = small.interpreted();
    const auto got = small.compiled(job.numerics, cpu::chosen_simd());
    if (!expected || !got) return false;
    const std::vector<double> a = expected->values(), b = got->values();
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!(std::abs(a[i] - b[i]) <= 1e-4 * std::max(1.0, std::abs(a[i])))) return false;
    }
    return true;
}

bool agree(const Job& job, const Tensor& a, const Tensor& b) {
    for (std::int64_t i = 0; i < a.element_count(); ++i) {
        const float x = a.data<float>()[i], y = b.data<float>()[i];
        if (!(std::abs(x - y) <= job.tolerance * std::max(job.scale, std::abs(x)))) return false;
    }
    return true;
}

/// Least seconds of one job.
struct Times {
    double two_threads = 0;
    double one_thread = 0;

    /// Of a plain loop over the first operand, and for Bound::Copy into the result; 0 for others.
    double plain = 0;

    /// Of the same written by hand, and by PyTorch; 0 where there is none.
    double by_hand = 0;
    double torch = 0;

    /// Whether all results are alike.
    bool agrees = true;
};

Times times_of(const Job& job) {
    const Case c(job.text, job.operands, job.arguments);
    const CompiledKernel kernel(c.kernel(), c.facts(), job.numerics, cpu::chosen_simd());
    Tensor ours = c.output();
    // OpenMP's threads look for more work for a while, on the processors that the next call needs.
    constexpr std::chrono::milliseconds kUntilPeersSleep(20);
    bool is_peer_awake = false;
    std::vector<Timed> calls = {[&, run = timed([&] { c.run(kernel, ours, kThreads); })] {
                                    if (std::exchange(is_peer_awake, false)) {
                                        std::this_thread::sleep_for(kUntilPeersSleep);
                                    }
                                    return run();
                                },
                                timed([&] { c.run(kernel, ours, 1); })};
    const float* const src = job.operands[0].data<float>();
    const std::int64_t count = job.operands[0].element_count();
    if (job.bound == Bound::Read) calls.push_back(timed([&] { plain_read(src, count, kThreads); }));
    Tensor copy = job.bound == Bound::Copy ? c.output() : Tensor();
    if (job.bound == Bound::Copy) {
        calls.push_back(timed([&] { plain_copy(src, copy.data<float>(), count, kThreads); }));
    }
    const HandWritten* const by = hand_written();
    const bool has_hand = job.by_hand && by;
    Tensor hand = has_hand ? c.output() : Tensor();
    if (has_hand) {
        calls.push_back(timed([&] {
            parallel_for(kRows / 16, kThreads, [&](std::int64_t begin, std::int64_t end) {
                job.by_hand(*by, job.operands, hand.data<float>(), begin * 16, end * 16);
            });
        }));
    }
    std::optional<TorchPeer> torch;
    if (!job.torch.empty()) torch.emplace(job.torch, job.operands, kThreads);
    if (torch && torch->is_ready()) {
        calls.push_back([&] {
            is_peer_awake = true;
            return torch->run();
        });
    }
    const std::vector<double> seconds = best_times(calls);
    Times times{.two_threads = seconds[0], .one_thread = seconds[1]};
    if (job.bound != Bound::Fma) times.plain = seconds[2];
    if (has_hand) {
        times.by_hand = seconds[3];
        times.agrees = agree(job, ours, hand);
    }
    if (torch && torch->is_ready()) {
        times.torch = seconds.back();
        const std::optional<Tensor> result = torch->result();
        times.agrees = times.agrees && result && agree(job, ours, *result);
    } else if (torch) {
        times.agrees = times.agrees && torch->is_absent();
    }
    return times;
}

Targets targets;

/// How many times faster a kernel on 64 KiB is with the instructions of one level than of another.
double speed_up(const std::string& text, const std::vector<Tensor>& operands,
                const Arguments& arguments, cpu::Simd from, cpu::Simd to) {
    const Case c(text, operands, arguments);
    Tensor result = c.output();
    const auto repeated = [&](const CompiledKernel& kernel) {
        return timed([&] {
            for (int i = 0; i < 50; ++i) c.run(kernel, result, 1);
        });
    };
    const CompiledKernel slow(c.kernel(), c.facts(), Numerics::Strict, from);
    const CompiledKernel fast(c.kernel(), c.facts(), Numerics::Strict, to);
    const std::vector<double> seconds = best_times({repeated(slow), repeated(fast)});
    return seconds[0] / seconds[1];
}

void print_levels() {
    const Tensor x = random({16, 1024}, 40), gamma = random({1024}, 41);
    for (const auto& [name, number, operands, arguments] :
         {std::tuple<const char*, const char*, std::vector<Tensor>, Arguments>{
              "16 layer norm", "16", {x, gamma, gamma}, {{"eps", 1e-5}}},
          {"17 gelu", "17", {x}, {}}}) {
        for (const cpu::Simd simd : {cpu::Simd::Avx2, cpu::Simd::Avx512}) {
            if (!cpu::has(simd)) continue;
            const double times =
                speed_up(example(number), operands, arguments, cpu::Simd::Scalar, simd);
            std::printf("%s on 64 KiB, %s over scalar: %.1fx\n", name, cpu::to_string(simd), times);
            targets.at_least(fmt::format("{}, {} over scalar", name, cpu::to_string(simd)), times,
                             simd == cpu::Simd::Avx512 ? 4 : 2);
        }
    }
}

/// Two threads over one where all that two cores read and write stays in their caches. Beside it
/// what a copy of as much would allow if it did not overlap with arithmetic: what the kernel takes
/// beyond the copy is halved, the copy takes as long as it does with two threads. The rate is
/// what the kernel reaches where memory does not bound it.
void print_threads() {
    constexpr int kTimes = 20;
    const Tensor x = random({256, 1024}, 40), gamma = random({1024}, 41);
    for (const auto& [name, text, operands, arguments] :
         {std::tuple<const char*, std::string, std::vector<Tensor>, Arguments>{
              "15 softmax", softmax_of_rows(), {x}, {}},
          {"16 layer norm", example("16"), {x, gamma, gamma}, {{"eps", 1e-5}}},
          {"17 gelu", example("17"), {x}, {}}}) {
        const Case c(text, operands, arguments);
        const CompiledKernel kernel(c.kernel(), c.facts(), Numerics::Strict, cpu::chosen_simd());
        Tensor result = c.output();
        std::vector<void*> addresses;
        for (const interpret::View& view : c.views()) addresses.push_back(view.data);
        addresses.push_back(result.data());
        const auto repeated = [&](int threads) {
            return timed([&, launch = c.ready(kernel, threads)] {
                for (int i = 0; i < kTimes; ++i) kernel.run(launch, addresses);
            });
        };
        const auto copied = [&](int threads) {
            return timed([&, threads] {
                for (int i = 0; i < kTimes; ++i) {
                    plain_copy(x.data<float>(), result.data<float>(), x.element_count(), threads);
                }
            });
        };
        const std::vector<double> seconds =
            best_times({repeated(1), repeated(kThreads), copied(1), copied(kThreads)});
        const double times = seconds[0] / seconds[1];
        const double bound = seconds[0] / ((seconds[0] - seconds[2]) / 2 + seconds[3]);
        std::printf(
            "%s on 1 MiB, two threads over one: %.2fx (caches allow %.2fx, a copy %.2fx), "
            "%.1f GB/s\n",
            name, times, bound, seconds[2] / seconds[3],
            kTimes * 2 * double(x.bytes()) / seconds[1] * 1e-9);
        targets.at_least(fmt::format("{} on 1 MiB, two threads", name), times, 1.85);
    }
}

/// 14 beside 13, and the memory that it takes besides operands and result.
void print_attention() {
    for (const std::int64_t seq : {512, 4096}) {
        const Tensor q = random({1, 1, seq, 64}, 30);
        const Tensor few = q.slice(2, 0, 20).contiguous();
        Job small;
        small.text = example("13");
        small.small = {few, few, few, causal_mask(20)};
        if (!is_right(small)) targets.missed("13: not what the interpreter computes");
        const Case plain(example("13"), {q, q, q, causal_mask(seq)});
        const Case flash(example("14"), {q, q, q});
        const CompiledKernel a(plain.kernel(), plain.facts(), Numerics::Strict, cpu::chosen_simd());
        const CompiledKernel b(flash.kernel(), flash.facts(), Numerics::Strict, cpu::chosen_simd());
        // Before others of this length: arrays of threads are kept for those that come.
        const Kernel kernel = Kernel(example("14")).on(Device("cpu"));
        std::size_t extra = 0;
        std::thread([&] {
            reset_peak_memory();
            const std::size_t before = memory_counters().live;
            const Tensor result = kernel(q, q, q);
            extra = memory_counters().peak - before - result.bytes();
        }).join();
        Tensor out = plain.output();
        std::vector<Timed> calls = {timed([&] { plain.run(a, out, kThreads); }),
                                    timed([&] { flash.run(b, out, kThreads); })};
        if (seq == 512) calls.push_back(timed([&] { plain.run(a, out, 1); }));
        const std::vector<double> seconds = best_times(calls);
        if (seq == 512) {
            const double times = seconds[2] / seconds[0];
            std::printf("13 at 512 x 64, two threads over one: %.2fx\n", times);
            targets.at_least("13 at 512 x 64, two threads", times, 1.85);
        }
        std::printf("14 over 13 at %d x 64: %.1fx; %.0f KiB besides operands and result\n",
                    int(seq), seconds[0] / seconds[1], double(extra) / 1024);
        if (seq == 4096) targets.at_least("14 over 13", seconds[0] / seconds[1], 5);
        // That of each thread's arrays, whatever the length.
        if (seq == 4096) {
            targets.at_most("memory of 14 at 4096, over that of an operand",
                            double(extra) / double(q.bytes()), 1);
        }
    }
}

void print_row(const Job& job, double peak) {
    const Times times = times_of(job);
    const double rate = job.work / times.two_threads;
    // Bytes that a plain loop reads, and writes for a copy, as `work` counts them.
    const double plain_bytes = double(job.operands[0].bytes()) * (job.bound == Bound::Copy ? 2 : 1);
    const double bound = job.bound == Bound::Fma ? peak : plain_bytes / times.plain;
    std::printf("%-28s %9.3f %7.1f %s %7.1f %7.0f %% %9.2fx\n", job.name.c_str(),
                times.two_threads * 1e3, rate / 1e9, job.bound == Bound::Fma ? "GFLOP" : "GB   ",
                bound / 1e9, 100 * rate / bound, times.one_thread / times.two_threads);
    if (bound > 0) targets.at_least(job.name + ", of the bound", rate / bound, job.target);
    if (job.is_arithmetic) {
        targets.at_least(job.name + ", two threads", times.one_thread / times.two_threads, 1.85);
    }
    if (!times.agrees) targets.missed(job.name + ": not what its peers compute");
    if (times.by_hand > 0) {
        std::printf("%-28s %9.3f ms by hand with %s: %.0f %% of it\n", "", times.by_hand * 1e3,
                    hand_written()->instructions, 100 * times.by_hand / times.two_threads);
        targets.at_least(job.name + ", of what is written by hand",
                         times.by_hand / times.two_threads, 0.9);
    }
    if (job.torch.empty()) return;
    if (times.torch == 0) {
        std::printf("%-28s skipped: no PyTorch (Debian's python3-torch)\n", "");
        return;
    }
    const double over = times.torch / times.two_threads;
    std::printf("%-28s %9.3f ms by PyTorch: %.1fx\n", "", times.torch * 1e3, over);
    targets.at_least(job.name + ", over PyTorch", over, job.over_torch);
}

}  // namespace

// bench_cpu [NAME]: all, or the rows whose names have NAME in them, and of "SIMD levels", "threads"
// and "14 over 13" those.
int main(int argc, char** argv) {
    const auto is_wanted = [&](std::string_view name) {
        return argc < 2 || name.find(argv[1]) != std::string_view::npos;
    };
    if (cpu::plugin_path().empty()) {
        std::printf("skipped: no plug-in with LLVM 19\n");
        return 0;
    }
    set_warning_handler([](const Diagnostic&) {});
    const double peak = measure_bounds(kThreads).operations;
    std::printf("%s, %d threads: multiply-adds %.0f GFLOP/s\n", cpu::to_string(cpu::chosen_simd()),
                kThreads, peak / 1e9);
    std::printf("%-28s %9s %13s %7s %9s %10s\n", "kernel", "ms", "rate   ", "bound", "of it",
                "2 threads");
    for (const Job& job : jobs()) {
        if (!is_wanted(job.name)) continue;
        if (is_right(job)) {
            print_row(job, peak);
        } else {
            targets.missed(job.name + ": not what the interpreter computes");
        }
    }
    if (is_wanted("SIMD levels")) print_levels();
    if (is_wanted("threads")) print_threads();
    if (is_wanted("14 over 13")) print_attention();
    return targets.finish();
}

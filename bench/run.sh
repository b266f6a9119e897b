#!/usr/bin/env bash
# Runs every benchmark of a release build and writes bench/RESULTS.md. With a pattern it runs those
# whose titles match, and keeps what the file says of the others.
# usage: bench/run.sh [BUILD_FOLDER [PATTERN]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build/release}
pattern=${2:-}
results=$here/RESULTS.md
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ -n "$pattern" ]; then cp "$results" "$scratch/before"; fi

machine() {
    grep -m1 'model name' /proc/cpuinfo | sed 's/.*: //'
    echo "$(nproc) processors, $(free -g | awk '/^Mem/ {print $2}') GiB, $(uname -sr)"
    for c in g++ clang++-14 clang++-19; do
        command -v "$c" > /dev/null && "$c" --version | head -n 1
    done
    echo "load before the run: $(cut -d' ' -f1-3 /proc/loadavg)"
}

# The least processor time of five compilations, in seconds.
compile_time() { # COMPILER SOURCE
    for _ in 1 2 3 4 5; do
        { TIMEFORMAT='%U %S'; time "$1" -std=c++20 -I"$here/.." -c "$2" -o /dev/null; } 2>&1
    done | awk '{t = $1 + $2; if (NR == 1 || t < best) best = t} END {printf "%.2f s", best}'
}

hello() {
    cat > "$scratch/tensor.cc" <<'CODE'
#include "quern/io.h"
#include "quern/kernel.h"
int main() { return quern::Tensor({2, 3}).rank() - 2; }
CODE
    cat > "$scratch/static.cc" <<'CODE'
#include "quern/static_kernel.h"
inline const auto twice = QUERN_KERNEL(R"(compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = x[i] * 2.0
})");
int main() { return twice(quern::Tensor({2, 3})).rank() - 2; }
CODE
    for c in g++ clang++-14 clang++-19; do
        command -v "$c" > /dev/null || continue
        echo "$c: kernel.h and io.h $(compile_time "$c" "$scratch/tensor.cc")," \
            "static_kernel.h with one QUERN_KERNEL $(compile_time "$c" "$scratch/static.cc")"
    done
}

# What most processors have, on whichever this is.
avx2() {
    machine
    QUERN_CPU=avx2 "$build/bin/bench_cpu"
}

library() {
    local bytes most=3000000
    strip -o "$scratch/library.so" "$1"
    bytes=$(stat -c %s "$scratch/library.so")
    echo "libquern.so, stripped: $bytes bytes (target: at most $most)"
    [ "$bytes" -le "$most" ]
}

# A program that misses a target ends with an error; the others run all the same.
section() { # TITLE COMMAND...
    if [ -n "$pattern" ] && ! [[ "$1" =~ $pattern ]]; then
        # Titles say targets too, which may have changed: the words before them name a section.
        awk -v name="## ${1%% (*}" '/^## / {on = index($0, name) == 1; if (on) print ""} on' \
            "$scratch/before" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
        return
    fi
    echo
    echo "## $1"
    echo
    echo '```'
    local title=$1
    shift
    "$@" || echo "$title" >> "$scratch/missed"
    echo '```'
}

shared=$build/shared
cmake -S "$here/.." -B "$shared" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG" -DBUILD_SHARED_LIBS=ON \
    -DQUERN_TESTS=OFF -DQUERN_TOOLS=OFF -DQUERN_BENCH=OFF > /dev/null
cmake --build "$shared" > /dev/null

{
    echo "# Results"
    echo
    echo "Made by \`bench/run.sh\` after \`make build\`. Figures are of the machine named here; the"
    echo "machines at hand are shared, so compare ratios and least values."
    section "Machine" machine
    section "Checking a text at run time (targets: K14 at most 0.2 ms, 1 MB under 1 s)" "$build/bin/bench_check_time"
    section "QUERN_KERNEL (targets: median at most 50 ms, K14 at most 120 ms)" python3 "$here/compile_time.py"
    section "A hello program (target: under 1 s)" hello
    section "The interpreter (target: 20 million loop steps a second on a core, times the cores)" "$build/bin/bench_interpreter"
    section "The device cpu (targets: of the bound 90 % where it is memory, 25 % where it is arithmetic; 1.85x with two threads; 14 over 13: 5x)" "$build/bin/bench_cpu"
    section "AVX2, here or chosen (targets as of the device cpu)" avx2
    section "Threads (nothing to reach: Quern's own pool beside oneTBB)" "$build/bin/bench_threads"
    section "Copies (target: from pinned memory at least as fast as from other)" "$build/bin/bench_copies"
    section "Launching, loading and compiling (targets: launch 2 us, from the disk 1 ms, compiling element-wise 15 ms and 14 60 ms, our passes 0.5 ms and 3 ms)" "$build/bin/bench_launch"
    section "Devices vulkan (targets: words of a kernel 1 ms; on llvmpipe 50 us a launch where nobody waits; product of 512: 3x of a tiled shader by hand)" "$build/bin/bench_vulkan" "$build/bin/bench_glsl_matmul"
    section "Size of the library" library "$(find "$shared" -name 'libquern.so.*.*' | head -n 1)"
} | tee "$results"
if [ -e "$scratch/missed" ]; then
    echo "missed:"
    cat "$scratch/missed"
    exit 1
fi

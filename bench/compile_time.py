#!/usr/bin/env python3
"""What QUERN_KERNEL adds to the time of a C++ compilation, for each program of examples/kernels.

The processor time of a translation unit with COPIES checked texts, each with another comment so that no
compiler takes one for another, less that of one with the same header and none, for each text; the least
of several runs of each. What else a machine does only adds to a time, and to the header's by more than a
single text takes on a shared one: hence the copies, the header alone as often as all files together, and
runs until no least value falls any more. Usage:
compile_time.py [COMPILER...] [--repeat N] [--seconds S] [--header HEADER --macro MACRO]. Exits with
1 if a target is missed.
"""

import argparse
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MEDIAN_LIMIT_MS = 50
K14_LIMIT_MS = 120
NOISE_MS = 20
COPIES = 8


def compile_ms(compiler, source):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([compiler, "-std=c++20", f"-I{ROOT}", "-c", source, "-o", os.devnull], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def measure(compiler, header, macro, repeat, seconds, folder):
    empty = folder / "empty.cc"
    empty.write_text(f'#include "{header}"\n')
    sources = {}
    for kernel in sorted((ROOT / "examples" / "kernels").glob("*.quern")):
        source = folder / f"{kernel.stem}.cc"
        copies = (f'const auto text{i} = {macro}(R"quern({kernel.read_text()}\n// {i}\n)quern");\n'
                  for i in range(COPIES))
        source.write_text(f'#include "{header}"\n' + "".join(copies))
        sources[kernel.stem] = source
    least = dict.fromkeys(["", *sources], float("inf"))
    start = time.monotonic()
    calm = 0
    while calm < repeat and (time.monotonic() - start < seconds or calm == 0):
        calm += 1
        for name, source in sources.items():
            for each, file in (("", empty), (name, source)):
                took = compile_ms(compiler, file)
                if took < least[each] - NOISE_MS:
                    calm = 0
                least[each] = min(least[each], took)
    base = least.pop("")
    return base, {name: (value - base) / COPIES for name, value in least.items()}


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("compilers", nargs="*")
    parser.add_argument("--repeat", type=int, default=3, help="rounds without a lower time")
    parser.add_argument("--seconds", type=float, default=300, help="at most, for a compiler")
    parser.add_argument("--header", default="quern/lang/compile_time.h")
    parser.add_argument("--macro", default="QUERN_CHECKED_TEXT")
    options = parser.parse_args()
    compilers = options.compilers or [c for c in ("g++", "clang++-14", "clang++-19") if shutil.which(c)]
    print(f"machine: {processor()}, {os.cpu_count()} cores; milliseconds of processor time for each of "
          f"{COPIES} texts in a file, least until {options.repeat} rounds give no lower one")
    missed = False
    columns = {}
    for compiler in compilers:
        with tempfile.TemporaryDirectory() as folder:
            columns[compiler] = measure(compiler, options.header, options.macro, options.repeat,
                                        options.seconds, pathlib.Path(folder))
    names = sorted(columns[compilers[0]][1])
    print(f"{'program':28}" + "".join(f"{c:>14}" for c in compilers))
    print(f"{'(header alone)':28}" + "".join(f"{columns[c][0]:14.0f}" for c in compilers))
    for name in names:
        print(f"{name:28}" + "".join(f"{columns[c][1][name]:14.1f}" for c in compilers))
    medians = {c: statistics.median(columns[c][1].values()) for c in compilers}
    print(f"{'median':28}" + "".join(f"{medians[c]:14.1f}" for c in compilers)
          + f"   target {MEDIAN_LIMIT_MS}")
    k14 = next(name for name in names if name.startswith("14"))
    print(f"{'K14':28}" + "".join(f"{columns[c][1][k14]:14.1f}" for c in compilers)
          + f"   target {K14_LIMIT_MS}")
    for c in compilers:
        missed |= medians[c] > MEDIAN_LIMIT_MS or columns[c][1][k14] > K14_LIMIT_MS
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env bash
# Installs Quern, static and shared, moves the package to another folder, and builds and runs a
# program with it in each way that users have: find_package, add_subdirectory and pkg-config, with
# the compiler c++ and with Clang. Prints a table; the exit status is 1 if a row failed.
# Usage: tests/packaging/run.sh BUILD_ROOT
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
consumer=$root/tests/packaging/consumer
work=$(realpath -m "${1:?expected a folder to build in}")
mkdir -p "$work"
CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$((($(nproc) + 1) / 2))}
export CMAKE_BUILD_PARALLEL_LEVEL

clang=
for name in clang++-14 clang++-19 clang++; do
    if command -v "$name" > /dev/null; then
        clang=$name
        break
    fi
done
if [ -z "$clang" ]; then
    echo "packaging: expected clang++-14 or clang++-19, found neither" >&2
    exit 1
fi

# The flags of the preset `release`, whose compiler is called c++ too, so that ccache answers the one
# with objects of the other.
library_options=(
    -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG"
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0
    -DQUERN_WERROR=ON --log-level=WARNING --no-warn-unused-cli
)

failures=0
table=()
# row NAME COMMAND...: runs the command, keeps its output in a log and its outcome in the table.
row() {
    local name=$1 outcome=ok start=$SECONDS
    shift
    local log=$work/${name//[^a-z0-9+]/-}.log
    if ! "$@" > "$log" 2>&1; then
        outcome=FAILED
        failures=$((failures + 1))
        echo "-- $name failed, from $log:"
        grep -m 10 -iE 'error|undefined' "$log" || tail -n 10 "$log"
    fi
    table+=("$(printf '%-42s %-7s %4d s' "$name" "$outcome" $((SECONDS - start)))")
}

install_package() { # LINKAGE
    local shared=OFF build=$work/build-$1 prefix=$work/staged-$1
    [ "$1" = shared ] && shared=ON
    rm -rf "$prefix" "${work:?}/prefix-$1" &&
        cmake -S "$root" -B "$build" "${library_options[@]}" -DCMAKE_CXX_COMPILER=c++ \
            -DBUILD_SHARED_LIBS=$shared -DCMAKE_INSTALL_PREFIX="$prefix" \
            -DQUERN_TESTS=OFF -DQUERN_BENCH=OFF &&
        cmake --build "$build" &&
        cmake --install "$build" &&
        mv "$prefix" "$work/prefix-$1"
}

build_and_run() { # BUILD CMAKE_OPTION...
    local build=$1
    shift
    rm -rf "$build" &&
        cmake -S "$consumer" -B "$build" "${library_options[@]}" "$@" &&
        cmake --build "$build" &&
        "$build/hello" "$device"
}

by_find_package() { # LINKAGE COMPILER
    build_and_run "$work/find_package-$1-$2" -DCMAKE_CXX_COMPILER="$2" \
        -DCMAKE_PREFIX_PATH="$work/prefix-$1"
}

by_add_subdirectory() { # LINKAGE COMPILER
    local shared=OFF options=()
    [ "$1" = shared ] && shared=ON
    local -x CCACHE_BASEDIR=$work/add_subdirectory-$1-$2
    if command -v ccache > /dev/null; then
        options=("-DCMAKE_CXX_COMPILER_LAUNCHER=$root/tests/packaging/ccache_in_quern")
    fi
    # The installed objects are the compiler c++'s; what another makes is wanted soon, not fast.
    [ "$2" = c++ ] || options+=("-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG")
    build_and_run "$CCACHE_BASEDIR" -DCMAKE_CXX_COMPILER="$2" "${options[@]}" \
        -DBUILD_SHARED_LIBS=$shared -DQUERN_SOURCE="$root"
}

by_pkg_config() { # LINKAGE COMPILER
    local flags library_folder static=()
    [ "$1" = static ] && static=(--static)
    library_folder=$(dirname "$(find "$work/prefix-$1" -name 'libquern.*' | head -n 1)") &&
        read -ra flags < <(PKG_CONFIG_PATH=$library_folder/pkgconfig \
            pkg-config "${static[@]}" --cflags --libs quern) &&
        "$2" "$consumer/hello.cc" -o "$work/pkg_config-$1-$2" "${flags[@]}" &&
        if [ "$1" = static ]; then
            "$work/pkg_config-$1-$2" "$device"
        else
            LD_LIBRARY_PATH=$library_folder "$work/pkg_config-$1-$2" "$device"
        fi
}

# Each installed header compiles by itself, with nothing of the source tree in sight.
headers_stand_alone() { # COMPILER
    local header folder=$work/prefix-static/include
    for header in "$folder"/quern/*.h; do
        echo "#include \"quern/${header##*/}\"" |
            "$1" -std=c++20 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$folder" -x c++ - ||
            return 1
    done
}

# The command runs from where the package was moved to.
command_runs() { # LINKAGE
    "$work/prefix-$1/bin/quern" --help
}

for linkage in static shared; do
    row "install, $linkage" install_package $linkage
done
# Without a package the other rows would only repeat why.
if [ "$failures" -eq 0 ]; then
    # What kernels of the consumer run on: the compiler is found where the package was moved to.
    device=interpreter
    [ -z "$(find "$work/prefix-static" -name libquern_cpu.so)" ] || device=cpu
    unset QUERN_DEVICE QUERN_PLUGINS
    for linkage in static shared; do
        row "command quern, $linkage" command_runs $linkage
        for compiler in c++ "$clang"; do
            row "find_package, $linkage, $compiler" by_find_package $linkage "$compiler"
            row "pkg-config, $linkage, $compiler" by_pkg_config $linkage "$compiler"
            row "add_subdirectory, $linkage, $compiler" by_add_subdirectory $linkage "$compiler"
        done
    done
    for compiler in c++ "$clang"; do
        row "headers stand alone, $compiler" headers_stand_alone "$compiler"
    done
fi

printf '%s\n' "${table[@]}"
echo "packaging: $((${#table[@]} - failures)) passed, $failures failed"
[ "$failures" -eq 0 ]

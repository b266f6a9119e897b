#!/bin/sh
# Compiles every program of this folder and every kernel of examples/kernels with COMPILER. A program's
# first line, `// expect: REGEX`, says what the compiler must print while it refuses it; `success`, that
# it must not.
# Usage: run.sh COMPILER, which may be nvcc: then the programs are CUDA sources, so that its own front
# end reads them before the host's compiler does.
set -eu
compiler=${1:?usage: run.sh COMPILER}
if ! command -v "$compiler" >/dev/null; then
    echo "compile_fail with $compiler: SKIPPED, it is not here" >&2
    exit 77
fi
# nvcc names the parameters of a template: "<Error, Line> [with Error=..., Line=4L]" is <..., 4>.
values='s/<(\w+, )*\w+> \[with ([^]]*)\]/<\2>/
s/(<|, )[A-Z]\w*=/\1/g
s/\b([0-9]+)L\b/\1/g'
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Options name its files without its path, which may have a blank.
cd "$work"

# The header, which all of them include, is read once.
header=quern/lang/compile_time.h
common='-std=c++20 -Wall -Wextra -Wno-unused-variable -Wno-unused-const-variable'
precompile() { # RESULT
    mkdir -p "$(dirname "$1")"
    echo "#include \"$header\"" >header.h
    # shellcheck disable=SC2086  # several options
    "$compiler" $common -I"$root" -x c++-header header.h -o "$1"
}
case $(basename "$compiler") in
nvcc*) options='-x cu -std=c++20 -c -o /dev/null' ;;
clang*)
    precompile header.pch
    options="$common -fsyntax-only -include-pch header.pch"
    ;;
*)
    precompile "$header.gch"
    options="$common -fsyntax-only -Winvalid-pch -I."
    ;;
esac

# Several to a program, since each starts a compiler.
count=0
for kernel in "$root"/examples/kernels/*.quern; do
    program=$work/kernels_$((count % 4)).cc
    [ -e "$program" ] || {
        echo '// expect: success'
        echo '#include "quern/lang/compile_time.h"'
    } >"$program"
    {
        echo "#line 1 \"$kernel\""
        echo "const auto text_$count = QUERN_CHECKED_TEXT(R\"quern("
        cat "$kernel"
        echo ')quern");'
    } >>"$program"
    count=$((count + 1))
done

cat >"$work/one" <<'END'
file=$1
expected=$(sed -n '1s,^// expect: ,,p' "$file")
[ -n "$expected" ] || { echo "$file: no expectation in its first line"; exit 1; }
# shellcheck disable=SC2086  # several options
if output=$("$COMPILER" $OPTIONS -I"$ROOT" "$file" 2>&1); then
    [ "$expected" = success ] && exit 0
    echo "$file: compiled, expected $expected"
elif [ "$expected" = success ]; then
    echo "$file: does not compile:"
    echo "$output"
elif echo "$output" | sed -E "$VALUES" | grep -Eq -- "$expected"; then
    exit 0
else
    echo "$file: expected $expected, got:"
    echo "$output"
fi
exit 1
END
COMPILER=$compiler ROOT=$root OPTIONS=$options VALUES=$values
export COMPILER ROOT OPTIONS VALUES
if find "$here" "$work" -name '*.cc' | sort | xargs -d '\n' -n 1 -P 2 sh "$work/one"; then
    echo "compile_fail with $compiler: all as expected"
else
    echo "compile_fail with $compiler: some were not as expected" >&2
    exit 1
fi

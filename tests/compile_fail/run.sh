#!/bin/sh
# Compiles every program of this folder and every kernel of examples/kernels with COMPILER. A program's
# first line, `// expect: REGEX`, says what the compiler must print while it refuses it; `success`, that
# it must not.
# Usage: run.sh COMPILER
set -eu
compiler=${1:?usage: run.sh COMPILER}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for kernel in "$root"/examples/kernels/*.quern; do
    {
        echo '// expect: success'
        echo '#include "quern/lang/compile_time.h"'
        echo 'const auto text = QUERN_CHECKED_TEXT(R"quern('
        cat "$kernel"
        echo ')quern");'
    } >"$work/kernel_$(basename "$kernel" .quern).cc"
done

cat >"$work/one" <<'END'
file=$1
expected=$(sed -n '1s,^// expect: ,,p' "$file")
[ -n "$expected" ] || { echo "$file: no expectation in its first line"; exit 1; }
if output=$("$COMPILER" -std=c++20 -Wall -Wextra -Wno-unused-variable -Wno-unused-const-variable \
    -I"$ROOT" -fsyntax-only "$file" 2>&1); then
    [ "$expected" = success ] && exit 0
    echo "$file: compiled, expected $expected"
elif [ "$expected" = success ]; then
    echo "$file: does not compile:"
    echo "$output"
elif echo "$output" | grep -Eq -- "$expected"; then
    exit 0
else
    echo "$file: expected $expected, got:"
    echo "$output"
fi
exit 1
END
COMPILER=$compiler ROOT=$root
export COMPILER ROOT
if find "$here" "$work" -name '*.cc' | sort | xargs -n 1 -P 2 sh "$work/one"; then
    echo "compile_fail with $compiler: all as expected"
else
    echo "compile_fail with $compiler: some were not as expected" >&2
    exit 1
fi

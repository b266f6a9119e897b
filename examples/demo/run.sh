#!/usr/bin/env bash
# The main job: renders a picture, develops it with a script of kernels, then runs a transformer block
# and compares it with the same computation in double.
# usage: run.sh [BUILD_FOLDER [OUTPUT_FOLDER]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../../build/release}
out=${2:-$build/demo}
quern=$build/bin/quern
mkdir -p "$out"
size=(--arg height=320 --arg width=480)

echo "== devices"
"$quern" devices

echo "== a picture of 480 by 320, rendered by a kernel"
"$quern" run "$here/scene.quern" --in spheres="$here/spheres.npy" "${size[@]}" \
    --out photo="$out/photo.png"

echo "== developed: exposure by a reduction, blur as a convolution, edges, tone curve"
"$quern" run "$here/darkroom.quern" --in photo="$out/photo.png" "${size[@]}" \
    --out result="$out/before_after.png"

echo "== the same on the interpreter, and how far apart the pictures are"
"$quern" run "$here/darkroom.quern" --device interpreter --in photo="$out/photo.png" "${size[@]}" \
    --out result="$out/interpreted.png"
difference=$("$quern" run "$here/difference.quern" --in a="$out/before_after.png" \
    --in b="$out/interpreted.png" | tail -n 1)
echo "largest difference of a channel: ${difference%.} of 255"
# A value between two levels may be rounded to either.
[[ $difference =~ ^[01]\.$ ]] || { echo "the devices disagree" >&2; exit 1; }

echo "== how long its kernels take"
"$quern" bench "$here/darkroom.quern" --in photo="$out/photo.png" "${size[@]}"

echo "== what its kernels do"
"$quern" explain "$here/darkroom.quern" --in photo="$out/photo.png" "${size[@]}"

echo "== a transformer block with weights from a safetensors file"
"$build/bin/example_transformer_block" make "$out"
"$quern" run "$here/../kernels/19_transformer_block.quern" --in model="$out/model.safetensors" \
    --in x="$out/x.npy" --arg layer=0 --arg num_heads=4 --arg eps=1e-5 \
    --out transformer_block="$out/y.npy"
"$build/bin/example_transformer_block" compare "$out"

echo "input and result, side by side: $(realpath --relative-to="$PWD" "$out/before_after.png")"

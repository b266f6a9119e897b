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

echo "== the same on the interpreter and by Vulkan, and how far apart the pictures are"
mapfile -t others < <("$quern" devices | grep -oE '^(interpreter|vulkan:[0-9]+)')
for device in "${others[@]}"; do
    picture=$out/${device/:/_}.png
    if ! said=$("$quern" run "$here/darkroom.quern" --device "$device" \
        --in photo="$out/photo.png" "${size[@]}" --out result="$picture" 2>&1); then
        # A kernel that the device lacks something for.
        [[ $said == *E0600* ]] || { echo "$said" >&2; exit 1; }
        echo "skipped on $device: ${said%%$'\n'*}"
        continue
    fi
    difference=$("$quern" run "$here/difference.quern" --in a="$out/before_after.png" \
        --in b="$picture" | tail -n 1)
    echo "$device: largest difference of a channel: ${difference%.} of 255"
    # A value between two levels may be rounded to either.
    [[ $difference =~ ^[01]\.$ ]] || { echo "the devices disagree" >&2; exit 1; }
done
[[ ${others[*]} == *vulkan* ]] || echo "skipped: no device vulkan"

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

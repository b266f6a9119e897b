#!/usr/bin/env bash
# Installs the Debian packages that building and testing Quern needs, and says which.
# Usage: tools/setup.sh [--dry-run]
#   --dry-run   prints what would be installed, as without root
# QUERN_SETUP_QUERY names the command that is asked whether a package is installed (for tests);
# it gets the package's name, and says "installed" or nothing.
set -euo pipefail

packages=(
    # Build
    g++ cmake ninja-build make git pkg-config ccache mold
    # Libraries, all that others maintain better
    libfmt-dev nlohmann-json3-dev libpng-dev zlib1g-dev
    # The device cpu compiles with it; programs that run kernels baked before do not need it
    llvm-19-dev
    # The devices vulkan: headers, a driver in software that tests run on, and what checks their calls
    libvulkan-dev libvulkan-volk-dev spirv-headers spirv-tools mesa-vulkan-drivers
    vulkan-validationlayers
    # Command, tests and benchmarks
    libcli11-dev libgtest-dev librapidcheck-dev libbenchmark-dev libmpfr-dev
    # The other compilers that the tests use, and the fuzzer
    clang-14 libclang-rt-14-dev clang-19 libclang-rt-19-dev
    # Code for aarch64 is run by an emulator
    g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user
    # Checks, and references that tests compare with
    clang-format-14 python3 python3-numpy
)

dry_run=no
case "${1:-}" in
    "") ;;
    --dry-run) dry_run=yes ;;
    *)
        echo "setup: expected --dry-run or nothing, got '$1'" >&2
        exit 2
        ;;
esac

if ! command -v apt-get > /dev/null || ! command -v dpkg-query > /dev/null; then
    echo "setup: this is not a Debian system; install by hand what these packages hold:"
    echo "  ${packages[*]}"
    exit 0
fi

is_installed() {
    if [ -n "${QUERN_SETUP_QUERY:-}" ]; then
        [ "$("$QUERN_SETUP_QUERY" "$1")" = installed ]
    else
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2> /dev/null)" = installed ]
    fi
}

missing=()
for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
done

if [ ${#missing[@]} -eq 0 ]; then
    echo "setup: all ${#packages[@]} packages are installed, nothing to do"
    exit 0
fi

command="apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$dry_run" = yes ] || [ "$(id -u)" -ne 0 ]; then
    echo "setup: ${#missing[@]} packages are missing. Run as root:"
    echo "  apt-get update && $command"
    exit 1
fi

echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Package lists may be absent on a fresh machine, or name versions that are gone.
if ! apt-get install -y --no-install-recommends --simulate "${missing[@]}" > /dev/null 2>&1 ||
    ! $command; then
    apt-get update
    $command
fi
echo "setup: done"

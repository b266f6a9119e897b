# Two commands do everything on a fresh Debian 12 machine: `make demo` and `make test`.

JOBS ?= $(shell nproc)
TEST_JOBS ?= 2
.NOTPARALLEL:
.PHONY: build demo test bench fuzz clean format setup

# Builds the release: library, the command build/release/bin/quern, examples and benchmarks.
build:
	cmake --preset release --log-level=WARNING > /dev/null
	cmake --build --preset release --parallel $(JOBS)

# Runs the main job on a picture and shows its result.
demo: setup build
	examples/demo/run.sh

# Runs every test, those of the package and of the compilers' messages included.
test: setup
	cmake --preset dev --log-level=WARNING > /dev/null
	cmake --build --preset dev --parallel $(JOBS)
	ctest --test-dir build/dev --parallel $(TEST_JOBS) --output-on-failure --no-label-summary

# Prints the figures that bench/RESULTS.md records.
bench: setup build
	bench/run.sh build/release

# Runs each libFuzzer target for FUZZ_SECONDS, two at a time.
fuzz: setup
	cmake --preset asan --log-level=WARNING > /dev/null
	cmake --build --preset asan --target fuzz --parallel $(JOBS)
	.ci/fuzz build/asan $(or $(FUZZ_SECONDS),60)

setup:
	@tools/setup.sh

format:
	git ls-files -co --exclude-standard '*.cc' '*.h' | xargs -r clang-format-14 -i

clean:
	rm -rf build

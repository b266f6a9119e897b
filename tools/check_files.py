#!/usr/bin/python3
"""Compiles each file of the library by itself and without precompiled headers, to no object.

A file that lacks an include, or that takes what another file of its folder has, is found out
neither where headers are precompiled nor where CMake compiles a folder as one file.
Usage: tools/check_files.py BUILD [--jobs N]
BUILD is configured with CMAKE_UNITY_BUILD and QUERN_PRECOMPILE off; nothing of it need be built.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "quern"


# Optimisation, and fmt's functions, which would be read and instantiated in each file.
NOT_CHECKED = ("-O", "-DFMT_HEADER_ONLY")


def checking(command):
    """The command of a compiler as one that only looks: without its launcher and its output."""
    words = shlex.split(command)
    compiler = next(i for i, word in enumerate(words) if pathlib.Path(word).name.split("-")[0]
                    in ("c++", "g++", "clang++"))
    words = words[compiler:]
    output = words.index("-o")
    del words[output:output + 2]
    return [word for word in words if not word.startswith(NOT_CHECKED)] + ["-fsyntax-only"]


def complaint(entry):
    done = subprocess.run(checking(entry["command"]), cwd=entry["directory"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.stdout or f"{entry['file']}: failed" if done.returncode else ""


def main():
    parser = argparse.ArgumentParser(description="Compiles each file of the library by itself.")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    commands = json.loads((arguments.build / "compile_commands.json").read_text(encoding="utf-8"))
    entries = [entry for entry in commands if LIBRARY in pathlib.Path(entry["file"]).parents]
    if not entries:
        sys.exit(f"check_files: expected files of {LIBRARY} in {arguments.build}, found none")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        complaints = [text for text in pool.map(complaint, entries) if text]
    print("\n".join(complaints + [f"check_files: {len(entries) - len(complaints)} of "
                                  f"{len(entries)} files compile by themselves"]))
    sys.exit(bool(complaints))


if __name__ == "__main__":
    main()

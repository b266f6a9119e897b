#!/usr/bin/python3
"""Checks that no file is too long to be read in one go: public headers 400 lines, others 800."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("quern", "tools", "tests", "bench", "examples", "cmake", "packaging")
SUFFIXES = (".h", ".cc", ".py", ".sh", ".cmake", ".def")
SOURCE_LIMIT = 800
PUBLIC_HEADER_LIMIT = 400

# Exempt, by suffix, and why.
EXEMPT = {
    ".def": "a table: one row a fact, nothing to split by",
}


def limit(relative):
    if relative.suffix == ".h" and relative.parent == pathlib.PurePath("quern"):
        return PUBLIC_HEADER_LIMIT
    return SOURCE_LIMIT


def check(root):
    """Returns complaints and the number of files looked at."""
    complaints = []
    count = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or path.suffix in EXEMPT or not path.is_file():
                continue
            count += 1
            relative = path.relative_to(root)
            lines = len(path.read_text(encoding="utf-8").splitlines())
            if lines > limit(relative):
                complaints.append(f"{relative}: expected at most {limit(relative)} lines, "
                                  f"got {lines}; split it by what changes together")
    return complaints, count


def main():
    complaints, count = check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    for complaint in complaints:
        print(complaint)
    print(f"check_sizes: {count} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

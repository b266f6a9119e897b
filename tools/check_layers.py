#!/usr/bin/python3
"""Checks who includes whom under quern/.

A folder may include only folders before it in QUERN_FOLDERS (quern/CMakeLists.txt), and public
headers. Public headers, and whatever they reach, include only public headers, quern/lang and the
C++ standard library, because only those are installed.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)

# What a folder may include beside the C++ standard library, as prefixes of the name in <>.
THIRD_PARTY = {
    "fmt/": lambda path, installed: path.suffix == ".cc",
    "nlohmann/": lambda path, installed: path.suffix == ".cc" and path.parent.name == "io",
    "png.h": lambda path, installed: path.parent.name == "io" and not installed,
    "llvm-c/": lambda path, installed: path.parent.parent.name == "backend",
    "spirv/": lambda path, installed: path.parent.parent.name == "backend",
    "spirv-tools/": lambda path, installed: path.parent.parent.name == "backend",
    "volk.h": lambda path, installed: path.parent.parent.name == "backend",
    "zlib.h": lambda path, installed: path.parent.name in ("io", "runtime") and not installed,
}


def folder_order(cmake_text):
    match = re.search(r"set\(QUERN_FOLDERS\s+([^)]*)\)", cmake_text)
    return match.group(1).split()


def includes(path):
    text = path.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(2)) + 1, match.group(1) == '"', match.group(2)


def check(root):
    """Returns the list of complaints about the tree at `root`."""
    order = folder_order((root / "quern/CMakeLists.txt").read_text(encoding="utf-8"))
    complaints = []
    sources = sorted(p for p in (root / "quern").rglob("*") if p.suffix in (".h", ".cc", ".def"))

    # Headers that users compile: the public ones and all they reach.
    installed = set()
    pending = [p for p in sources if p.parent.name == "quern" and p.suffix == ".h"]
    while pending:
        path = pending.pop()
        if path in installed:
            continue
        installed.add(path)
        pending += [root / name for _, quoted, name in includes(path)
                    if quoted and (root / name).is_file()]

    for path in sources:
        relative = path.relative_to(root)
        own = relative.parts[1] if len(relative.parts) > 2 else None
        if own is not None and own not in order:
            complaints.append(f"{relative}: folder '{own}' is not in QUERN_FOLDERS")
            continue
        for line, quoted, name in includes(path):
            where = f"{relative}:{line}"
            if not quoted:
                if path in installed and ("/" in name or name.endswith(".h")):
                    complaints.append(f"{where}: an installed header includes <{name}>, "
                                      "expected the C++ standard library only")
                for prefix, allowed in THIRD_PARTY.items():
                    if name.startswith(prefix) and not allowed(path, path in installed):
                        complaints.append(f"{where}: <{name}> is not for this file")
                continue
            parts = pathlib.PurePosixPath(name).parts
            if parts[0] != "quern" or not (root / name).is_file():
                complaints.append(f'{where}: "{name}" is not the path of a file from the root')
            elif len(parts) == 2:
                continue
            elif path in installed and parts[1] != "lang":
                complaints.append(f"{where}: an installed header includes {name}, "
                                  "expected quern/*.h or quern/lang")
            elif own is not None and parts[1] in order and order.index(parts[1]) > order.index(own):
                complaints.append(f"{where}: folder '{own}' includes {name}, but '{parts[1]}' comes "
                                  "after it")
    return complaints, len(sources)


def main():
    complaints, count = check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    for complaint in complaints:
        print(complaint)
    print(f"check_layers: {count} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

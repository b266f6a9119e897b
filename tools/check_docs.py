#!/usr/bin/python3
"""Checks that what is public is documented.

* Each class, struct, function and macro of quern/*.h has a /// comment above it, or stands below
  one that has in a group without blank lines. Exempt: forward declarations, bodies of what was
  declared with a comment further up, members without parameters or with a body of one statement
  (name and body say it), operators, defaulted and deleted functions, namespace detail.
* docs/errors has one page for each code of quern/lang/codes.def, and no other.
* Relative links in Markdown files lead to files.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
RAW_STRING = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"')


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_noise(text):
    """Blanks comments, strings and preprocessor lines, keeping every line and column."""
    text = RAW_STRING.sub(blank, text)
    text = re.sub(r"//[^\n]*|/\*(?:.|\n)*?\*/|" + STRING.pattern, blank, text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\(?:.|\n))*", blank, text, flags=re.M)


def matching_brace(text, position):
    depth = 0
    for index in range(position, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return index
    return len(text) - 1


def declarations(text):
    """Yields (offset, head, body, scope) for each declaration; scope is 'namespace' or 'class'."""
    scopes = [("namespace", True)]
    position = start = 0

    def skip_space(index):
        while index < len(text) and text[index].isspace():
            index += 1
        return index

    start = position = skip_space(0)
    while position < len(text):
        character = text[position]
        head = " ".join(text[start:position].split())
        if character == "}":
            scopes.pop()
            position = skip_space(position + 1)
            if position < len(text) and text[position] == ";":
                position = skip_space(position + 1)
            start = position
        elif character == ":" and re.fullmatch(r"public|private|protected", head):
            scopes[-1] = (scopes[-1][0], head == "public")
            start = position = skip_space(position + 1)
        elif character in ";{":
            kind, public = scopes[-1]
            bare = re.sub(r"^(template\s*<.*?>\s*(requires\b.*?\)\s*)?)+(?=\w|\[)", "", head)
            opens = character == "{"
            end = position
            if opens and re.match(r"(inline )?namespace\b|extern\b *$", bare):
                scopes.append(("namespace", public and "detail" not in bare))
                start = position = skip_space(position + 1)
                continue
            if opens and re.match(r"(class|struct|union)\b", bare):
                if public:
                    yield start, bare, "", kind
                scopes.append(("class", public and not bare.startswith("class")))
                # A private nested scope stays private whatever its labels say.
                if not public:
                    end = matching_brace(text, position)
                    scopes.pop()
                    position = skip_space(end + 1)
                    if position < len(text) and text[position] == ";":
                        position = skip_space(position + 1)
                    start = position
                    continue
                start = position = skip_space(position + 1)
                continue
            if opens:
                end = matching_brace(text, position)
                after = skip_space(end + 1)
                # A braced member initializer or default argument: the declaration goes on.
                if after < len(text) and text[after] in ",{)=" or (
                        after < len(text) and text[after] == ";" and "(" not in head):
                    position = after
                    continue
                if after < len(text) and text[after] == ";":
                    end = after
            if public and head:
                yield start, bare, text[position:end + 1] if opens else "", kind
            start = position = skip_space(end + 1)
        else:
            position += 1


def without_template_arguments(head):
    """std::function<void(int)> f  ->  std::function f"""
    while (shorter := re.sub(r"<[^<>]*>", " ", head)) != head:
        head = shorter
    return head


def undocumented(text):
    """Yields (line, name) of public declarations without a /// comment."""
    lines = text.splitlines()

    def has_comment(line):
        """True if a /// stands between `line` and the blank line or the scope's opening above it."""
        while line > 0 and lines[line - 1].strip():
            line -= 1
            if re.match(r"\s*(class|struct|union|namespace)\b.*\{$", lines[line]):
                return False
            if lines[line].lstrip().startswith("///"):
                return True
        return False

    clean = without_noise(text)
    declared = set()
    for offset, head, body, scope in declarations(clean):
        line = clean.count("\n", 0, offset)
        record = re.match(r"(?:class|struct|union)\s+(?:\[\[.*?\]\]\s*)?([\w:]+)", head)
        if "operator" not in head:
            head = without_template_arguments(head)
        function = re.search(r"([\w:~]+)\s*\(", head)
        if record:
            if clean[offset:].split(";")[0].count("{") == 0:
                continue  # a forward declaration
            name = record.group(1)
        elif function and not re.match(r"(using|typedef|friend|static_assert|enum)\b", head):
            name = function.group(1)
            parameters = head[function.end():].lstrip()
            if re.search(r"=\s*(default|delete)$", head):
                continue
            if has_comment(line):
                declared.add(name)
            elif body and ("::" in name or name in declared):
                continue
            short = body and ";" not in body.strip("{}; \n")
            if scope == "class" and (parameters.startswith(")") or short):
                continue
        else:
            continue
        if not has_comment(line):
            yield line + 1, name
    for match in re.finditer(r"^#define (QUERN_\w+)", text, flags=re.M):
        line = text.count("\n", 0, match.start())
        if not has_comment(line):
            yield line + 1, match.group(1)


def check_headers(root):
    for path in sorted((root / "quern").glob("*.h")):
        for line, name in undocumented(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(root)}:{line}: expected a /// comment above '{name}'"


def check_error_pages(root):
    table = (root / "quern/lang/codes.def").read_text(encoding="utf-8")
    codes = set(re.findall(r"^CODE\((\w+),", table, flags=re.M))
    pages = {path.stem for path in (root / "docs/errors").glob("*.md")} - {"README", "index"}
    for code in sorted(codes - pages):
        yield f"docs/errors/{code}.md: expected a page, {code} is in quern/lang/codes.def"
    for page in sorted(pages - codes):
        yield f"docs/errors/{page}.md: no such code in quern/lang/codes.def"


def check_links(root):
    pages = list(root.glob("*.md"))
    for folder in ("docs", "bench", "examples", "tests"):
        pages += (root / folder).rglob("*.md")
    for page in sorted(pages):
        text = re.sub(r"^```.*?^```", blank, page.read_text(encoding="utf-8"), flags=re.M | re.S)
        text = re.sub(r"`[^`\n]*`", blank, text)
        for match in re.finditer(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text):
            target = match.group(1)
            if re.match(r"\w+:", target) or (page.parent / target).exists():
                continue
            line = text.count("\n", 0, match.start()) + 1
            yield f"{page.relative_to(root)}:{line}: link to '{target}', which is not there"


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    complaints = [*check_headers(root), *check_error_pages(root), *check_links(root)]
    for complaint in complaints:
        print(complaint)
    print(f"check_docs: {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""Tests tools/check_layers.py, check_sizes.py, check_docs.py, check_files.py and setup.sh on small
trees."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import check_docs  # noqa: E402
import check_files  # noqa: E402
import check_layers  # noqa: E402
import check_sizes  # noqa: E402


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("quern/CMakeLists.txt", "set(QUERN_FOLDERS support lang ir io)\n")
        self.write("quern/tensor.h", "#include <vector>\n")
        self.write("quern/lang/parse.h", "")
        self.write("quern/ir/cir.h", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class Files(Tree):
    def complaint(self, text):
        self.write("alone.cc", text)
        return check_files.complaint({
            "directory": str(self.root), "file": "alone.cc",
            "command": "env CCACHE_BASEDIR=/ ccache /usr/bin/c++ -O2 -o alone.o -c alone.cc"})

    def test_a_file_that_includes_what_it_uses_compiles_to_no_object(self):
        self.assertEqual(self.complaint("#include <vector>\nstd::vector<int> v;\n"), "")
        self.assertFalse((self.root / "alone.o").exists())

    def test_a_file_that_does_not_is_complained_of_in_the_compilers_words(self):
        self.assertIn("alone.cc:1", self.complaint("std::vector<int> v;\n"))


class Layers(Tree):
    def complaints(self):
        return check_layers.check(self.root)[0]

    def test_a_folder_may_include_itself_those_before_it_and_public_headers(self):
        self.write("quern/ir/cir.cc", '#include "quern/ir/cir.h"\n#include "quern/lang/parse.h"\n'
                                      '#include "quern/tensor.h"\n#include <fmt/format.h>\n')
        self.assertEqual(self.complaints(), [])

    def test_a_folder_may_not_include_one_after_it(self):
        self.write("quern/lang/parse.cc", '\n#include "quern/ir/cir.h"\n')
        self.assertEqual(self.complaints(), [
            "quern/lang/parse.cc:2: folder 'lang' includes quern/ir/cir.h, but 'ir' comes after it"])

    def test_a_public_header_may_include_the_language_but_no_other_folder(self):
        self.write("quern/kernel.h", '#include "quern/lang/parse.h"\n#include "quern/ir/cir.h"\n')
        self.assertEqual(self.complaints(), [
            "quern/kernel.h:2: an installed header includes quern/ir/cir.h, expected quern/*.h or "
            "quern/lang"])

    def test_what_a_public_header_reaches_is_held_to_the_same(self):
        self.write("quern/support/check.h", "")
        self.write("quern/lang/parse.h", '#include "quern/support/check.h"\n')
        self.assertEqual(self.complaints(), [])
        self.write("quern/kernel.h", '#include "quern/lang/parse.h"\n')
        self.assertEqual(len(self.complaints()), 1)
        self.assertIn("quern/lang/parse.h:1: an installed header", self.complaints()[0])

    def test_installed_headers_include_the_standard_library_only(self):
        self.write("quern/tensor.h", "#include <vector>\n#include <zlib.h>\n")
        self.assertIn("quern/tensor.h:2: an installed header includes <zlib.h>, expected the C++ "
                      "standard library only", self.complaints())

        self.write("quern/tensor.h", "#include <boost/any.hpp>\n")
        self.assertEqual(len(self.complaints()), 1)

    def test_a_third_party_header_stays_where_it_belongs(self):
        self.write("quern/io/json.cc", "#include <nlohmann/json.hpp>\n")
        self.write("quern/ir/json.cc", "#include <nlohmann/json.hpp>\n")
        self.assertEqual(self.complaints(),
                         ["quern/ir/json.cc:1: <nlohmann/json.hpp> is not for this file"])

    def test_an_include_names_a_file_from_the_root(self):
        self.write("quern/ir/cir.cc", '#include "cir.h"\n')
        self.assertEqual(self.complaints(), [
            'quern/ir/cir.cc:1: "cir.h" is not the path of a file from the root'])

    def test_the_library_includes_nothing_of_tools_or_tests(self):
        self.write("tools/quern/options.h", "")
        self.write("quern/ir/cir.cc", '#include "tools/quern/options.h"\n')
        self.assertEqual(len(self.complaints()), 1)

    def test_a_folder_that_is_not_in_the_list_is_refused(self):
        self.write("quern/extra/a.cc", "")
        self.assertEqual(self.complaints(),
                         ["quern/extra/a.cc: folder 'extra' is not in QUERN_FOLDERS"])


class Sizes(Tree):
    def test_the_limits_are_400_and_800_lines(self):
        self.write("quern/tensor.h", "\n" * 400)
        self.write("quern/ir/cir.h", "\n" * 800)
        self.write("tests/ir/cir_test.cc", "\n" * 800)
        self.assertEqual(check_sizes.check(self.root)[0], [])
        self.write("quern/tensor.h", "\n" * 401)
        self.write("quern/ir/cir.h", "\n" * 801)
        self.write("tests/ir/cir_test.cc", "\n" * 801)
        self.assertEqual(check_sizes.check(self.root)[0], [
            "quern/ir/cir.h: expected at most 800 lines, got 801; split it by what changes together",
            "quern/tensor.h: expected at most 400 lines, got 401; split it by what changes together",
            "tests/ir/cir_test.cc: expected at most 800 lines, got 801; split it by what changes "
            "together"])

    def test_tables_are_exempt(self):
        self.write("quern/lang/codes.def", "\n" * 2000)
        self.assertEqual(check_sizes.check(self.root)[0], [])


class Docs(Tree):
    def names(self, text):
        return [name for _, name in check_docs.undocumented(text)]

    def test_functions_and_classes_need_a_comment(self):
        self.assertEqual(self.names("namespace quern {\nvoid f(int x);\n\nclass A {};\n\n"
                                    "/// Doc.\nvoid g();\n\n/// Doc.\nstruct B {};\n}\n"), ["f", "A"])

    def test_a_comment_covers_its_group_up_to_a_blank_line(self):
        self.assertEqual(self.names("/// Doc.\nint f(int);\nint f(double);\n\nint g(int);\n"), ["g"])

    def test_a_body_needs_none_if_its_declaration_has_one(self):
        self.assertEqual(self.names("/// Doc.\nint f(int a);\n\nint f(int a) {\n    return g(a);\n}\n\n"
                                    "int h(int a) {\n    return g(a);\n}\n\n"
                                    "int A::m(int a) {\n    return g(a);\n}\n\nint f(char);\n"),
                         ["h", "f"])

    def test_public_members_with_parameters_need_a_comment(self):
        self.assertEqual(self.names("""
/// Doc.
template <class T>
class A : public B<T> {
    void private_by_default(int a);

public:
    A(int a) : a_{a} {
        run();
        run();
    }

    int size() const;

    bool same(const A& other) const {
        return other.a_ == a_;
    }

    void set(int a) { a_ = a; }

    void bad(std::function<void(int)> f = {});

    std::function<void(int)> field;
    bool operator==(const A&) const = default;
    ~A();

    A& operator()(const A& other);

private:
    void hidden(int a);
    struct Inner {
        void deep(int a);
    };
};
"""), ["A", "bad"])

    def test_names_in_comments_strings_detail_and_bodies_are_not_declarations(self):
        self.assertEqual(self.names("""
// void a(int);
namespace detail {
void b(int);
}
/// Doc.
inline constexpr const char* text = R"(
void c(int);

void c(int); {
)";

class Forward;

/// Doc.
inline void d() {
    e(1);
}
"""), [])

    def test_macros_need_a_comment(self):
        self.assertEqual(self.names("#define QUERN_A 1\n\n/// Doc.\n#define QUERN_B 1\n"), ["QUERN_A"])

    def test_codes_and_pages_match(self):
        self.write("quern/lang/codes.def", 'CODE(E0101, a, "a")\nCODE(E0102, b, "b")\n')
        self.write("docs/errors/E0102.md", "")
        self.write("docs/errors/E0999.md", "")
        self.write("docs/errors/README.md", "")
        self.assertEqual(list(check_docs.check_error_pages(self.root)), [
            "docs/errors/E0101.md: expected a page, E0101 is in quern/lang/codes.def",
            "docs/errors/E0999.md: no such code in quern/lang/codes.def"])

    def test_links_lead_to_files(self):
        self.write("README.md", "[a](docs/a.md#part) [b](docs/b.md) [c](https://x.org)\n"
                                "`x[0](y)`\n```\nk[1](z)\n```\n")
        self.write("docs/a.md", "[back](../README.md) [here](#part)\n")
        self.assertEqual(list(check_docs.check_links(self.root)),
                         ["README.md:1: link to 'docs/b.md', which is not there"])


class Setup(Tree):
    def run_setup(self, installed, *arguments):
        query = self.root / "query"
        query.write_text(f"#!/bin/sh\ncase $1 in {installed}) echo installed;; esac\n")
        query.chmod(0o755)
        return subprocess.run([TOOLS / "setup.sh", *arguments], capture_output=True, text=True,
                              env={**os.environ, "QUERN_SETUP_QUERY": str(query)})

    def test_it_does_nothing_when_all_is_there(self):
        result = self.run_setup("*")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stdout, r"^setup: all \d+ packages are installed, nothing to do\n$")

    def test_it_prints_the_command_that_installs_what_is_missing(self):
        result = self.run_setup("[a-ln-z]*", "--dry-run")
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get install -y --no-install-recommends make mold mesa-vulkan-drivers\n",
                      result.stdout)

    def test_it_refuses_other_arguments(self):
        result = self.run_setup("*", "--force")
        self.assertEqual(result.returncode, 2)
        self.assertIn("expected --dry-run or nothing, got '--force'", result.stderr)


if __name__ == "__main__":
    unittest.main()

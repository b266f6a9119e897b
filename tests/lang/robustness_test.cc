#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "quern/lang/parser.h"
#include "texts.h"

namespace quern::lang {
namespace {

double seconds_to_parse(const std::string& text) {
    const auto start = std::chrono::steady_clock::now();
    parsed(text);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string repeated(const std::string& piece, std::size_t size) {
    std::string text;
    while (text.size() < size) text += piece;
    return text;
}

/// A script of computes with names of their own.
std::string many_kernels(std::size_t size) {
    std::string text;
    for (int i = 0; text.size() < size; ++i) {
        text += fmt::format(
            "let y{0} = compute(x{0}, w.a{0}) {{\n    @kernel custom\n    for i{0} in 0..n{0}:\n"
            "        let t{0} = x{0}[i{0}] * w.a{0}[i{0}]\n        out[i{0}] = t{0} + "
            "relu(t{0})\n}}\n",
            i);
    }
    return text;
}

TEST(Robustness, Check22_AMegabyteParsesInASecond) {
    constexpr std::size_t kSize = 1 << 20;
    // Ten times the time is left for sanitizers and busy machines.
    constexpr double kLimit = 10;
    std::string names = "compute(x) {\n@kernel custom\nout = x\n";
    for (int i = 0; names.size() < kSize; ++i)
        names += fmt::format("let a{0} = b{0} + a{1}\n", i, i / 2);
    EXPECT_LT(seconds_to_parse(many_kernels(kSize)), kLimit);
    EXPECT_LT(seconds_to_parse(names + "}"), kLimit);
    for (const char* piece : {"(",
                              "a+",
                              "a ",
                              "let a = b\n",
                              "@",
                              "@broadcast(x, axis=1)\n",
                              "{",
                              "}",
                              "[:",
                              "a.",
                              "\"",
                              "-",
                              "not ",
                              " \t\n",
                              "// \n",
                              "compute(",
                              "a,",
                              ":\n ",
                              "^",
                              "0",
                              "if 1: a\n",
                              "\xff",
                              "f(x) @async ",
                              "await ",
                              "a |> b() "}) {
        EXPECT_LT(seconds_to_parse(repeated(piece, kSize)), kLimit) << piece;
        EXPECT_LT(seconds_to_parse("compute(x) {\n @kernel custom\n" + repeated(piece, kSize)),
                  kLimit)
            << piece;
    }
}

TEST(Robustness, ATextBeyondTheLimitIsRefusedBeforeMemoryIsTaken) {
    const std::string text((std::size_t(32) << 20) + 1, ' ');
    Diagnostics diagnostics("");
    EXPECT_THROW(parse(text, {}, diagnostics), ValueError);
}

TEST(Robustness, TheNodesOfDenseTextsFitIntoTheirArray) {
    for (const char* piece : {"a[:,:,:,:];", "a\n", "a;", "f(a,a,a)\n", "a[:]\n",
                              "compute(a,a,a,a){}\n", "x:[a]\n", "if a{b}\n", "[a,a,a]\n"}) {
        const std::string text = repeated(piece, 4000);
        const Outcome outcome = parsed(text);
        EXPECT_LE(outcome.source->nodes.size(), 2 * text.size() + 63) << piece;
        for (const Diagnostic& d : outcome.diagnostics) EXPECT_NE(d.code, "E0104") << piece;
    }
}

class Mutator {
public:
    explicit Mutator(std::uint32_t seed) : random_(seed) {
        for (const auto& path : kernel_files()) texts_.push_back(text_of_file(path));
    }

    std::string next() {
        std::string text = texts_[below(texts_.size())];
        for (std::size_t n = 1 + below(4); n > 0; --n) mutate(text);
        return text;
    }

private:
    std::size_t below(std::size_t n) {
        return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
    }

    void mutate(std::string& text) {
        static const std::vector<std::string> kPieces = {"(",
                                                         ")",
                                                         "[",
                                                         "]",
                                                         "{",
                                                         "}",
                                                         ":",
                                                         ";",
                                                         "\n",
                                                         "    ",
                                                         "\t",
                                                         "@",
                                                         "\"",
                                                         "..",
                                                         "...",
                                                         "|>",
                                                         "for ",
                                                         "if ",
                                                         "else",
                                                         "yield ",
                                                         "let ",
                                                         "var ",
                                                         "in",
                                                         "step",
                                                         "compute(",
                                                         "out",
                                                         "not ",
                                                         "-",
                                                         "==",
                                                         "0",
                                                         "1e9",
                                                         "9999999999999999999",
                                                         "^",
                                                         ".",
                                                         ",",
                                                         "=",
                                                         "shared var t[4]\n",
                                                         "await "};
        if (text.empty()) text = "x";
        const std::size_t at = below(text.size());
        const std::size_t length = 1 + below(std::min<std::size_t>(text.size() - at, 12));
        switch (below(5)) {
            case 0:
                text.erase(at, length);
                break;
            case 1:
                text.insert(at, kPieces[below(kPieces.size())]);
                break;
            case 2:
                text[at] = static_cast<char>(below(256));
                break;
            case 3:
                text.insert(at, text.substr(below(text.size()), length));
                break;
            default:
                text.resize(at);
                break;
        }
    }

    std::mt19937 random_;
    std::vector<std::string> texts_;
};

TEST(Robustness, Check22_MutatedKernelsAreParsedOrRefused) {
    Mutator mutator(1);
    int good = 0;
    for (int i = 0; i < 20000; ++i) {
        const std::string text = mutator.next();
        const Outcome outcome = parsed(text);
        bool refused = false;
        int last_line = 0;
        for (const Diagnostic& d : outcome.diagnostics) {
            refused = refused || d.severity == Severity::Error;
            ASSERT_GE(d.line, last_line) << text;
            ASSERT_FALSE(to_string(d).empty());
            last_line = d.line;
        }
        if (refused) continue;
        ++good;
        const std::string once = print(outcome.source->tree());
        ASSERT_TRUE(same_trees(text, once)) << text << "\nprinted as\n" << once;
    }
    EXPECT_GT(good, 500);
}

/// What a parse finds if its memory is filled with `byte` before.
std::string issues_over(const std::string& text, int byte) {
    const auto size = static_cast<std::uint32_t>(text.size());
    const Capacity capacity(size);
    const auto filled = [byte](std::size_t bytes) {
        return std::vector<std::uint64_t>(bytes / 8 + 1, 0x0101010101010101u * std::uint64_t(byte));
    };
    auto tokens = filled(capacity.tokens * sizeof(Token));
    auto nodes = filled(capacity.nodes * sizeof(Node));
    auto node_names = filled(capacity.nodes * sizeof(std::uint32_t));
    auto names = filled(capacity.names * sizeof(NameEntry));
    auto bindings = filled(capacity.bindings * sizeof(Binding));
    std::vector<std::uint32_t> buckets(capacity.buckets);
    std::vector<std::uint32_t> bound(capacity.bound);
    Workspace space;
    space.text = text.data();
    space.size = size;
    space.tokens = reinterpret_cast<Token*>(tokens.data());
    space.nodes = reinterpret_cast<Node*>(nodes.data());
    space.node_capacity = capacity.nodes;
    space.node_names = reinterpret_cast<std::uint32_t*>(node_names.data());
    space.names = reinterpret_cast<NameEntry*>(names.data());
    space.buckets = buckets.data();
    space.bucket_mask = capacity.buckets - 1;
    space.bindings = reinterpret_cast<Binding*>(bindings.data());
    space.bound = bound.data();
    Issues issues;
    const Parsed parsed = Parser(space, issues, false).run();
    std::string list = fmt::format("{} nodes", parsed.node_count);
    for (int i = 0; i < issues.count; ++i) {
        const Issue& issue = issues.list[i];
        list += fmt::format(" {}.{}@{}+{}", to_string(issue.code), issue.variant, issue.span.begin,
                            issue.span.length);
    }
    return list;
}

TEST(Robustness, NothingIsReadThatTheParserDidNotWrite) {
    Mutator mutator(2);
    for (int i = 0; i < 3000; ++i) {
        // Several texts together have more errors than are reported.
        std::string text = mutator.next();
        for (int n = i % 4; n > 0; --n) text += "\n" + mutator.next();
        const int small = static_cast<int>(Tok::LeftParen);
        ASSERT_EQ(issues_over(text, 0xff), issues_over(text, small)) << text;
    }
}

}  // namespace
}  // namespace quern::lang

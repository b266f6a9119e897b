// What the command says about wrong texts and files: text on standard error, JSON on standard
// output.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "command.h"

namespace quern::cli {
namespace {

constexpr const char* kRelu =
    "let y = compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = relu(x[i])\n}\n";
constexpr const char* kWrong =
    "let y = compute(x) {\n    @kernal elementwise\n    for i in 0..len\n        out[i] = "
    "x[i]\n}\n";

TEST(CommandDiagnostics, AreTextWithThePlaceOnStandardError) {
    const Folder folder;
    const std::string script = folder.write("wrong.quern", kWrong);
    const Outcome outcome = run({"check", script});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.err.find(script + ":2:"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("error[E0302]"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find('\033'), std::string::npos) << "colour without a terminal";
}

TEST(CommandDiagnostics, AreAnArrayOfObjectsWithJson) {
    const Folder folder;
    const std::string script = folder.write("wrong.quern", kWrong);
    for (const char* command : {"check", "run", "explain"}) {
        const Outcome outcome = run({command, "--json", script});
        EXPECT_EQ(outcome.status, 1) << command;
        EXPECT_EQ(outcome.err, "") << command;
        const auto list = nlohmann::json::parse(outcome.out);
        ASSERT_TRUE(list.is_array());
        ASSERT_GE(list.size(), 1u);
        const auto& first = list[0];
        EXPECT_EQ(first["severity"], "error");
        EXPECT_EQ(first["code"], "E0302");
        EXPECT_EQ(first["file"], script);
        EXPECT_EQ(first["line"], 2);
        EXPECT_TRUE(first["column"].is_number_integer());
        EXPECT_TRUE(first["length"].is_number_integer());
        EXPECT_TRUE(first["message"].is_string());
        EXPECT_TRUE(first["notes"].is_array());
        EXPECT_TRUE(first["help"].is_array());
        EXPECT_TRUE(first["fixits"].is_array());
    }
}

TEST(CommandDiagnostics, OfAShapeThatIsGivenTwiceNameIt) {
    const Folder folder;
    const std::string script = folder.write("set.quern", "let b = model.bias |> relu()\n");
    const Outcome outcome =
        run({"explain", script, "--shape", "model.bias=f16[3]", "--shape", "model.bias=f32[7]"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("[--shape] expected one value for 'model.bias', got two"),
              std::string::npos)
        << outcome.err;
}

TEST(CommandDiagnostics, OfTextsAloneGuessDtypesByTheirUses) {
    const Folder folder;
    for (const char* value : {"x[i] % 2", "(x[i] + 1) % 3", "select(x[i], 1.0, 2.0)",
                              "y[max(x[i] - 1, 0)]", "select(not x[i] and z[i] > 0.5, y[i], 1.0)",
                              "x[i + k]", "x[i] + i % k", "x[i - shift * 2]", "dot(x, x) + y[i]",
                              "x[i] + reduce(+, y[0:3])", "select(x[i] == z[i] % 2, 1, y[i])"}) {
        const std::string script = folder.write(
            "guess.quern",
            "let r = compute(x, y, z) {\n    @kernel custom\n    for i in 0..n: out[i] = " +
                std::string(value) + "\n}\n");
        const Outcome outcome = run({"check", script});
        EXPECT_EQ(outcome.status, 0) << value << outcome.err;
    }
    const std::string rows =
        folder.write("rows.quern",
                     "let r = compute(x, first: [n + 1]) {\n    @kernel custom\n    for i in "
                     "0..n:\n        var s = 0.0\n"
                     "        for k in first[i]..first[i + 1]: s += x[k]\n        out[i] = s\n}\n");
    EXPECT_EQ(run({"check", rows}).err, "");
    for (const char* body : {"for i in 0..n:\n  let j = i - k\n  out[i] = x[j]",
                             "for i in 0..n:\n  let k = y[i]\n"
                             "  out[i] = x[k]",
                             "for i in 0..n:\n  let k = y[i] + z[i]\n  out[i] = x[k]",
                             "for i in 0..n: out[i] = select(reduce(and, x[i, :]), 1, 2)"}) {
        const std::string script =
            folder.write("guess.quern", "let r = compute(x, y, z) {\n@kernel custom\n" +
                                            std::string(body) + "\n}\n");
        EXPECT_EQ(run({"check", script}).err, "") << body;
    }
    // Where there is much to guess little is tried: all of it would take minutes.
    std::string names, stores;
    for (int i = 0; i < 600; ++i) {
        const std::string name = "a" + std::to_string(i);
        names += (i > 0 ? ", " : "") + name;
        stores += "  out[i, " + std::to_string(i) + "] = " + name + "[i]\n";
    }
    const std::string many = folder.write(
        "many.quern", "let r = compute(" + names + ") {\n@kernel custom\nfor i in 0..n:\n" +
                          stores + "  out[i, 0] = a0[0.5]\n}\n");
    EXPECT_NE(run({"check", many}).err.find("error[E0412]"), std::string::npos);
    // What no operands make right is said of the first guess.
    const std::string wrong = folder.write(
        "wrong.quern",
        "let r = compute(x) {\n@kernel custom\nfor i in 0..n: out[i] = x[i, 0.5]\n}\n");
    EXPECT_NE(run({"check", wrong}).err.find(":3:30: error[E0412]"), std::string::npos);
}

TEST(CommandDiagnostics, JsonStaysJsonForAnyBytes) {
    const Folder folder;
    const std::string script = folder.write("bytes.quern", "let y = \xff\xfe\x01 \"\\\"\n");
    const Outcome outcome = run({"check", "--json", script});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(nlohmann::json::parse(outcome.out).is_array());
}

TEST(CommandDiagnostics, ARightTextGivesAnEmptyArray) {
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const Outcome outcome = run({"check", "--json", script});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(nlohmann::json::parse(outcome.out), nlohmann::json::array());
    const Outcome silent = run({"check", script});
    EXPECT_EQ(silent.status, 0);
    EXPECT_EQ(silent.out + silent.err, "");
}

TEST(CommandDiagnostics, CheckReportsAWrongPipeAtThePipe) {
    const Folder folder;
    const std::string kernel = std::string(kRelu).substr(0, std::string(kRelu).size() - 1);
    const std::string script = folder.write("pipe.quern", kernel + " |> sqrt() |> gelu()\n");
    const Outcome outcome = run({"check", script});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.err.substr(0, script.size() + 20), script + ":4:16: error[E0407]:");
    const std::string power = folder.write("power.quern", kernel + " |> sqrt(2)\n");
    EXPECT_EQ(run({"check", power}).err.substr(0, power.size() + 19),
              power + ":4:6: error[E0408]:");
}

TEST(CommandDiagnostics, WhatThereIsNoRoomForHasAPlaceInTheScript) {
    const Folder folder;
    const std::string script = folder.write(
        "large.quern",
        "let y = compute(x) {\n    @kernel custom\n    for i in 0..n: out[i] = x[0]\n}\n");
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {1, 2}));
    const Outcome outcome =
        run({"run", "--json", script, "--in", "x=" + x, "--arg", "n=1000000000000000"});
    EXPECT_EQ(outcome.status, 1);
    const auto list = nlohmann::json::parse(outcome.out);
    ASSERT_EQ(list.size(), 1u) << outcome.out;
    EXPECT_EQ(list[0]["code"], "E0608");
    EXPECT_EQ(list[0]["file"], script);
    EXPECT_EQ(list[0]["line"], 1);
    EXPECT_EQ(list[0]["column"], 9);
}

TEST(CommandDiagnostics, CheckReportsEveryFile) {
    const Folder folder;
    const std::string wrong = folder.write("wrong.quern", kWrong);
    const std::string other = folder.write("other.quern", "let a = slpit(1, 2)\n");
    const Outcome outcome = run({"check", folder / "absent.quern", wrong, other});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("absent.quern"), std::string::npos);
    EXPECT_NE(outcome.err.find("E0302"), std::string::npos);
    EXPECT_NE(outcome.err.find("E0407"), std::string::npos);
}

TEST(CommandDiagnostics, PedanticRefusesAMissingKernelKind) {
    const Folder folder;
    const std::string script =
        folder.write("plain.quern", "let y = compute(x) {\n    for i in 0..n: out[i] = x[i]\n}\n");
    EXPECT_EQ(run({"check", script}).status, 0);
    const Outcome outcome = run({"check", "--pedantic", script});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("E0303"), std::string::npos) << outcome.err;
}

TEST(CommandDiagnostics, AMissingInputSaysHowToGiveIt) {
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const Outcome outcome = run({"run", script});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("E0411"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("--in x=FILE"), std::string::npos) << outcome.err;
}

TEST(CommandDiagnostics, AMissingOrDamagedFileIsAnErrorThatNamesIt) {
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const Outcome absent = run({"run", script, "--in", "x=" + folder / "x.npy"});
    EXPECT_EQ(absent.status, 1);
    EXPECT_NE(absent.err.find("x.npy"), std::string::npos);
    const std::string damaged = folder.write("d.npy", "\x93NUMPY\x01");
    const Outcome outcome = run({"run", "--json", script, "--in", "x=" + damaged});
    EXPECT_EQ(outcome.status, 1);
    const auto list = nlohmann::json::parse(outcome.out);
    ASSERT_EQ(list.size(), 1u);
    EXPECT_NE(list[0]["message"].get<std::string>().find("d.npy"), std::string::npos);
    EXPECT_EQ(run({"run", folder / "absent.quern"}).status, 1);
    EXPECT_EQ(run({"run", folder / "."}).status, 1);
}

TEST(CommandDiagnostics, WarningsAreShownAndDoNotFail) {
    const Folder folder;
    const std::string script =
        folder.write("p.quern",
                     "let y = compute(x) @parallel(data) {\n    @kernel elementwise\n"
                     "    for i in 0..len: out[i] = relu(x[i])\n}\n");
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {1, 2}));
    const Outcome outcome = run({"run", script, "--in", "x=" + x});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.err.find("warning[W0707]"), std::string::npos) << outcome.err;
}

TEST(CommandDiagnostics, TheHostApiProgramChecksAndRuns) {
    const std::string program = QUERN_SOURCE_DIR "/examples/kernels/20_host_api.quern";
    EXPECT_EQ(run({"check", program}).status, 0);
    if (devices().front().id != "cpu") GTEST_SKIP() << "no compiler plug-in in this build";
    const Folder folder;
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {1, 2}));
    const std::string large = folder.write("large.npy", Tensor::from<float>({1, 2}, {3, 4}));
    std::vector<std::string> arguments = {"run", program, "--in", "large=" + large};
    for (const char* name : {"data", "batch1", "batch2", "batch3"}) {
        arguments.insert(arguments.end(), {"--in", std::string(name) + "=" + x});
    }
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("split_result"), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace quern::cli

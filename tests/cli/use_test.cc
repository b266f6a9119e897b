// Options, help, exit statuses.

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "quern/device.h"

namespace quern::cli {
namespace use_test {

constexpr const char* kRelu =
    "let y = compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = relu(x[i])\n}\n";

TEST(CommandUse, HelpEndsWithZeroAndHasAnExample) {
    for (const char* command : {"run", "check", "explain", "devices"}) {
        const Outcome outcome = run({command, "--help"});
        EXPECT_EQ(outcome.status, 0) << command;
        EXPECT_NE(outcome.out.find(std::string("Example: quern ") + command), std::string::npos)
            << outcome.out;
    }
    EXPECT_NE(run({"--help"}).out.find("Example: quern run"), std::string::npos);
    EXPECT_NE(run({"run", "--help"}).out.find("NAME=PATH"), std::string::npos);
}

TEST(CommandUse, TheVersionIsPrinted) {
    const Outcome outcome = run({"--version"});
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.out.rfind("quern ", 0), 0u);
}

TEST(CommandUse, WrongUseEndsWithTwo) {
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const std::vector<std::vector<std::string>> wrong = {
        {},
        {"fly"},
        {"run"},
        {"check"},
        {"run", script, "--fast"},
        {"run", script, "--in", "x"},
        {"run", script, "--in", "x="},
        {"run", script, "--in", "=x.npy"},
        {"run", script, "--in", "x=x.jpeg"},
        {"run", script, "--out", "y=y.txt"},
        {"run", script, "--arg", "eps=abc"},
        {"run", script, "--numerics", "exact"},
        {"run", script, "--threads", "-1"},
        {"run", script, "--threads", "many"},
        {"run", script, "--threads", "3000000000"},
        {"explain", script, "--shape", "x=f32"},
        {"explain", script, "--shape", "x=f33[2]"},
        {"explain", script, "--shape", "x=f32[2,]"},
        {"explain", script, "--shape", "x=f32[-2]"},
        {"devices", "all"},
    };
    for (const auto& arguments : wrong) {
        const Outcome outcome = run(arguments);
        std::string line;
        for (const std::string& argument : arguments) line += " " + argument;
        EXPECT_EQ(outcome.status, 2) << line << outcome.err;
        EXPECT_EQ(outcome.out, "") << line;
        EXPECT_NE(outcome.err, "") << line;
    }
}

TEST(CommandUse, WhatIsNoCommandAndNoDeviceIsNamed) {
    const Outcome unknown = run({"fly", "f.quern"});
    EXPECT_NE(unknown.err.find("expected a subcommand, got 'fly'"), std::string::npos)
        << unknown.err;
    EXPECT_EQ(run({}).err.find("got ''"), std::string::npos);
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {1, 2}));
    const Outcome nowhere = run({"run", script, "--in", "x=" + x, "--device", ""});
    EXPECT_EQ(nowhere.status, 1);
    EXPECT_NE(nowhere.err.find("no device ''"), std::string::npos) << nowhere.err;
}

TEST(CommandUse, AnOptionMayBeRepeatedAndStandAnywhere) {
    const Folder folder;
    const std::string script =
        folder.write("f.quern",
                     "let z = compute(x, y) {\n    @kernel elementwise\n"
                     "    for i in 0..len: out[i] = x[i] * a + y[i] * b\n}\n");
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {1, 2}));
    const Outcome outcome = run({"run", "--in", "x=" + x, "--in", "y=" + x, script, "--arg", "a=2",
                                 "--arg", "b=-1e1", "--out", "z=" + folder / "z.npy"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(load_npy(folder / "z.npy").values(), (std::vector<double>{-8, -16}));
}

TEST(CommandUse, UnknownNamesAreRefusedWithTheOnesThereAre) {
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {1, 2}));
    const Outcome out = run({"run", script, "--in", "x=" + x, "--out", "z=" + folder / "z.npy"});
    EXPECT_EQ(out.status, 1);
    EXPECT_NE(out.err.find("the script has y"), std::string::npos) << out.err;
    const Outcome in = run({"run", script, "--in", "xx=" + x});
    EXPECT_EQ(in.status, 1);
    EXPECT_NE(in.err.find("did you mean 'x'?"), std::string::npos) << in.err;
    EXPECT_EQ(run({"run", script, "--in", "x=" + x, "--arg", "eps=1"}).status, 1);
    const Outcome twice = run({"run", script, "--in", "x=" + x, "--in", "x=" + x});
    EXPECT_EQ(twice.status, 1);
    EXPECT_NE(twice.err.find("got two"), std::string::npos) << twice.err;
    const Outcome same = run({"run", script, "--in", "x=" + x, "--out", "y=" + folder / "y.npy",
                              "--out", "y=" + folder / "y.npy"});
    EXPECT_EQ(same.status, 1);
}

TEST(CommandUse, DevicesAreListed) {
    const Outcome text = run({"devices"});
    EXPECT_EQ(text.status, 0);
    EXPECT_NE(text.out.find("interpreter"), std::string::npos);
    const auto list = nlohmann::json::parse(run({"devices", "--json"}).out);
    ASSERT_TRUE(list.is_array());
    EXPECT_EQ(list.back()["id"], "interpreter");
    for (const char* key : {"id", "type", "name", "cores", "memory"}) {
        EXPECT_TRUE(list.back().contains(key)) << key;
    }
}

TEST(CommandUse, WhatKeepsDevicesFromBeingListedIsSaid) {
    const char* const drivers = std::getenv("VK_DRIVER_FILES");
    const bool has_drivers = drivers && *drivers;
    Environment environment;
    environment.set("VK_DRIVER_FILES", "/none");
    const std::string text = run({"devices"}).out;
    const auto list = nlohmann::json::parse(run({"devices", "--json"}).out);
    EXPECT_NE(text.find("\nvulkan       none         "), std::string::npos) << text;
    // Or there is no loader, or no plug-in.
    if (has_drivers) {
        EXPECT_NE(text.find("there is no driver"), std::string::npos) << text;
    }
    EXPECT_EQ(list.back()["id"], "interpreter");
}

TEST(CommandUse, AnUnknownDeviceIsAnError) {
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {1, 2}));
    const Outcome outcome = run({"run", script, "--in", "x=" + x, "--device", "cuda:9"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("cuda:9"), std::string::npos) << outcome.err;
    EXPECT_EQ(run({"run", script, "--in", "x=" + x, "--device", "interpreter"}).status, 0);
    // What the option names is the device of the inputs too.
    Environment environment;
    environment.set("QUERN_DEVICE", "cuda:9");
    for (const char* command : {"run", "bench"}) {
        const std::vector<std::string> call = {command, script, "--in", "x=" + x};
        EXPECT_EQ(run(call).status, 1);
        std::vector<std::string> chosen = call;
        chosen.insert(chosen.end(), {"--device", "interpreter"});
        EXPECT_EQ(run(chosen).status, 0) << command;
    }
}

TEST(CommandUse, ATextWithoutEndIsRefused) {
    for (const char* command : {"run", "check"}) {
        const Outcome outcome = run({command, "/dev/zero"});
        EXPECT_EQ(outcome.status, 1);
        EXPECT_NE(outcome.err.find("at most 67108864"), std::string::npos) << outcome.err;
    }
}

TEST(CommandUse, ADeviceWithVulkanIsListedAndChosenByTheOptionOrTheEnvironment) {
    const auto list = nlohmann::json::parse(run({"devices", "--json"}).out);
    const auto is_vulkan = [](const auto& each) { return each["type"] == "vulkan"; };
    const auto device = std::ranges::find_if(list, is_vulkan);
    if (device == list.end()) GTEST_SKIP() << "no Vulkan driver";
    EXPECT_EQ((*device)["id"], "vulkan:0");
    EXPECT_NE((*device)["name"], "");
    EXPECT_GT((*device)["memory"], 0);
    EXPECT_NE(run({"devices"}).out.find("vulkan:0"), std::string::npos);

    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const std::string x = folder.write("x.npy", Tensor::from<float>({2}, {-1, 2}));
    const std::string to = folder / "y.npy";
    const std::vector<std::string> here = {"run", script, "--in", "x=" + x, "--out", "y=" + to};
    const std::vector<std::string> explain = {"explain", script, "--shape", "x=f32[7]"};
    const auto expect_there = [&](const std::vector<std::string>& more) {
        const auto with = [&](std::vector<std::string> arguments) {
            arguments.insert(arguments.end(), more.begin(), more.end());
            return run(arguments);
        };
        EXPECT_EQ(with(here).status, 0);
        EXPECT_EQ(load_npy(to).values(), (std::vector<double>{0, 2}));
        std::filesystem::remove(to);
        EXPECT_NE(with(explain).out.find("\nwork-groups "), std::string::npos);
    };
    EXPECT_EQ(run(explain).out.find("\nwork-groups "), std::string::npos);
    expect_there({"--device", "vulkan:0"});
    ::setenv("QUERN_DEVICE", "vulkan:0", 1);
    expect_there({});
    EXPECT_EQ(run({"explain", script, "--shape", "x=f32[7]", "--device", "interpreter"})
                  .out.find("\nwork-groups "),
              std::string::npos)
        << "the option comes before the environment";
    ::unsetenv("QUERN_DEVICE");
}

TEST(CommandUse, NumericsComeFromTheOptionThenTheEnvironment) {
    if (!Device("auto").is_cpu()) GTEST_SKIP() << "no plug-in with LLVM 19";
    const Folder folder;
    const std::string script = folder.write("relu.quern", kRelu);
    const std::vector<std::string> explain = {"explain", script, "--shape", "x=f32[7]"};
    std::vector<std::string> fast = explain;
    fast.insert(fast.end(), {"--numerics", "fast"});
    EXPECT_NE(run(fast).out.find("; fast"), std::string::npos) << run(fast).out;
    ::setenv("QUERN_NUMERICS", "reproducible", 1);
    EXPECT_NE(run(explain).out.find("; reproducible"), std::string::npos) << run(explain).out;
    EXPECT_NE(run(fast).out.find("; fast"), std::string::npos);
    ::setenv("QUERN_NUMERICS", "exact", 1);
    const Outcome wrong = run(explain);
    ::unsetenv("QUERN_NUMERICS");
    EXPECT_NE(wrong.status, 0);
    EXPECT_NE(wrong.err.find("expected QUERN_NUMERICS to be strict, reproducible or fast, got "
                             "'exact'"),
              std::string::npos)
        << wrong.err;
}

}  // namespace use_test
}  // namespace quern::cli

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "command.h"
#include "quern/device.h"
#include "quern/runtime/cpu_plugin.h"

// Compiled kernels outlive the process: what one has compiled, the next runs without a compiler.

namespace quern::cli {
namespace cache_test {

namespace fs = std::filesystem;

constexpr const char* kText = R"(
let y = compute(x) {
    @kernel elementwise
    for i in 0..len: out[i] = tanh(x[i]) * 2.0
}
let s = compute(y) {
    @kernel reduce(+)
    for i in 0..n: yield y[i]
}
return s
)";

class Cache : public testing::Test {
protected:
    void SetUp() override {
        for (const DeviceInfo& device : devices()) has_cpu_ = has_cpu_ || device.id == "cpu";
        if (!has_cpu_) GTEST_SKIP() << "no device cpu";
        plugins_ = folder_ / "plugins";
        fs::create_directory(plugins_);
        setenv("QUERN_CACHE", (folder_ / "cache").c_str(), 1);
        script_ = folder_.write("script.quern", kText);
        operand_ = folder_.write("x.npy", Tensor::from({3}, {0.5f, 1.0f, -2.0f}));
    }
    void TearDown() override {
        unsetenv("QUERN_PLUGINS");
        setenv("QUERN_CACHE", "off", 1);
    }

    Outcome run() const {
        return cli::run({"run", script_, "--in", "x=" + operand_, "--device", "cpu"});
    }

    /// A plug-in that cannot be loaded, in the place of the one there is.
    void take_compiler_away() const {
        std::ofstream(fs::path(plugins_) / "libquern_cpu.so") << "not a library";
        setenv("QUERN_PLUGINS", plugins_.c_str(), 1);
    }

    Folder folder_;
    std::string plugins_, script_, operand_;
    bool has_cpu_ = false;
};

TEST_F(Cache, RunsWhatAnEarlierProcessCompiledWithoutTheCompiler) {
    const Outcome first = run();
    ASSERT_EQ(first.status, 0) << first.err;
    take_compiler_away();
    const Outcome second = run();
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(second.out, first.out);
    EXPECT_EQ(second.err, first.err);
    // Where nothing is kept, the compiler is missed.
    setenv("QUERN_CACHE", "off", 1);
    const Outcome third = run();
    EXPECT_NE(third.status, 0);
    EXPECT_NE(third.err.find("E0601"), std::string::npos) << third.err;
}

TEST_F(Cache, IsWhereTheSystemKeepsWhatCanBeMadeAgain) {
    Environment environment;
    unsetenv("QUERN_CACHE");
    const std::string home = folder_ / "home", xdg = folder_ / "xdg";
    environment.set("HOME", home);
    environment.set("XDG_CACHE_HOME", xdg);
    for (const std::string& each : {home, xdg}) fs::create_directory(each);
    const auto has_entries = [](const fs::path& folder) {
        return fs::is_directory(folder) && !fs::is_empty(folder);
    };
    EXPECT_EQ(run().status, 0);
    EXPECT_TRUE(has_entries(fs::path(xdg) / "quern"));
    EXPECT_TRUE(fs::is_empty(home));
    // One that is no path from the root is to be ignored.
    environment.set("XDG_CACHE_HOME", "xdg");
    EXPECT_EQ(run().status, 0);
    EXPECT_TRUE(has_entries(fs::path(home) / ".cache" / "quern"));
}

TEST_F(Cache, KeepsAsManyBytesAsTheEnvironmentSays) {
    Environment environment;
    const auto bytes = [&] {
        std::uintmax_t sum = 0;
        for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache")) {
            if (entry.is_regular_file()) sum += entry.file_size();
        }
        return sum;
    };
    environment.set("QUERN_CACHE_BYTES", "1");
    const Outcome small = run();
    EXPECT_EQ(small.status, 0);
    EXPECT_EQ(small.err.find("QUERN_CACHE_BYTES"), std::string::npos) << small.err;
    const std::uintmax_t few = bytes();
    environment.set("QUERN_CACHE_BYTES", "a lot");
    const Outcome wrong = run();
    EXPECT_EQ(wrong.status, 0);
    EXPECT_NE(wrong.err.find("expected a number of bytes, got 'a lot'"), std::string::npos)
        << wrong.err;
    EXPECT_GT(bytes(), few);
}

TEST_F(Cache, TakesNoCompilerThatWasMadeOfOtherSources) {
    const std::string version = cpu::code_version();
    std::ostringstream read;
    read << std::ifstream(cpu::plugin_path(), std::ios::binary).rdbuf();
    std::string plugin = read.str();
    const std::size_t at = plugin.find(version);
    ASSERT_NE(at, std::string::npos) << cpu::plugin_path();
    plugin[at] = plugin[at] == '0' ? '1' : '0';
    const std::string other = plugin.substr(at, version.size());
    std::ofstream(fs::path(plugins_) / "libquern_cpu.so", std::ios::binary) << plugin;
    setenv("QUERN_PLUGINS", plugins_.c_str(), 1);
    const Outcome outcome = run();
    EXPECT_NE(outcome.status, 0);
    const std::string said = "expected version " + version + ", got " + other;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("E0601"), std::string::npos) << outcome.err;
}

TEST_F(Cache, SaysOnceThatThereIsNoCompilerAndTheInterpreterRunsKernels) {
    const std::string said = "kernels run on the interpreter: expected libquern_cpu.so";
    const auto times = [&](const std::string& device) {
        std::vector<std::string> words = {"run", script_, "--in", "x=" + operand_};
        if (!device.empty()) words.insert(words.end(), {"--device", device});
        const Outcome outcome = cli::run(words);
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        const std::size_t first = outcome.err.find(said);
        return first == std::string::npos                               ? 0
               : outcome.err.find(said, first + 1) == std::string::npos ? 1
                                                                        : 2;
    };
    EXPECT_EQ(times(""), 0);
    setenv("QUERN_PLUGINS", plugins_.c_str(), 1);
    EXPECT_EQ(times(""), 1) << "of two kernels";
    EXPECT_EQ(times("interpreter"), 0) << "it was asked for";
}

TEST_F(Cache, SaysOnceThatAnEntryIsDamaged) {
    const Outcome first = run();
    ASSERT_EQ(first.status, 0) << first.err;
    for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
        fs::resize_file(entry.path(), fs::file_size(entry.path()) / 2);
    }
    const Outcome second = run();
    EXPECT_EQ(second.status, 0);
    EXPECT_EQ(second.out, first.out);
    EXPECT_NE(second.err.find("expected a compiled kernel"), std::string::npos) << second.err;
    const Outcome third = run();
    EXPECT_EQ(third.err, first.err);
}

}  // namespace cache_test
}  // namespace quern::cli

// Results: printed, or written to files, all or none.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include "command.h"

namespace quern::cli {
namespace {

constexpr const char* kTwo =
    "let y = compute(x) {\n    @kernel elementwise\n    for i in 0..len: out[i] = relu(x[i])\n}\n"
    "let total = compute(y) {\n    @kernel reduce(+)\n    for i in 0..len: yield y[i]\n}\n";

constexpr const char* kMatmul =
    "let C = compute(A, B) {\n"
    "    @kernel matmul\n"
    "    for i in 0..M, j in 0..N:\n"
    "        var sum = 0.0\n"
    "        for k in 0..K:\n"
    "            sum += A[i, k] * B[k, j]\n"
    "        out[i, j] = sum\n"
    "}\n";

TEST(CommandOutput, ResultsArePrintedWithoutOut) {
    const Folder folder;
    const std::string script = folder.write("two.quern", kTwo);
    const std::string x = folder.write("x.npy", Tensor::from<float>({3}, {-1, 2, 3}));
    const Outcome outcome = run({"run", script, "--in", "x=" + x});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(outcome.out.find("y ="), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("total ="), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("float32"), std::string::npos) << outcome.out;
    EXPECT_NE(outcome.out.find("5"), std::string::npos) << outcome.out;
    EXPECT_EQ(folder.files(), (std::vector<std::string>{"two.quern", "x.npy"}));
}

TEST(CommandOutput, OutWritesFilesAndNothingElse) {
    const Folder folder;
    const std::string script = folder.write("two.quern", kTwo);
    const std::string x = folder.write("x.npy", Tensor::from<float>({3}, {-1, 2, 3}));
    const Outcome outcome =
        run({"run", script, "--in", "x=" + x, "--out", "y=" + folder / "y.npz", "--out",
             "total=" + folder / "t.npy", "--out", "y=" + folder / "y.safetensors"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out + outcome.err, "");
    EXPECT_EQ(load_npy(folder / "t.npy").item(), 5);
    EXPECT_EQ(load_npz(folder / "y.npz").at("y").values(), (std::vector<double>{0, 2, 3}));
    EXPECT_EQ(load_safetensors(folder / "y.safetensors").at("y").values(),
              (std::vector<double>{0, 2, 3}));
    EXPECT_EQ(folder.files(),
              (std::vector<std::string>{"t.npy", "two.quern", "x.npy", "y.npz", "y.safetensors"}));
}

TEST(CommandOutput, AnErrorInTheScriptWritesNothing) {
    const Folder folder;
    const std::string script = folder.write("late.quern", std::string(kTwo) + "let z = 1 / 0\n");
    const std::string x = folder.write("x.npy", Tensor::from<float>({3}, {-1, 2, 3}));
    const std::string y = folder.write("y.npy", "what was there before");
    const Outcome outcome = run({"run", script, "--in", "x=" + x, "--out", "y=" + y});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("E0621"), std::string::npos) << outcome.err;
    EXPECT_EQ(read_file(y), "what was there before");
    EXPECT_EQ(folder.files(), (std::vector<std::string>{"late.quern", "x.npy", "y.npy"}));
}

TEST(CommandOutput, OneFileThatCannotBeWrittenKeepsTheOthersAway) {
    const Folder folder;
    const std::string script = folder.write("two.quern", kTwo);
    const std::string x = folder.write("x.npy", Tensor::from<float>({3}, {-1, 2, 3}));
    // A picture needs uint8, which is found after the first file has been staged.
    const Outcome outcome = run({"run", script, "--in", "x=" + x, "--out", "y=" + folder / "y.npy",
                                 "--out", "total=" + folder / "t.png"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(folder.files(), (std::vector<std::string>{"two.quern", "x.npy"}));
    const Outcome absent =
        run({"run", script, "--in", "x=" + x, "--out", "y=" + folder / "no_folder/y.npy"});
    EXPECT_EQ(absent.status, 1);
    EXPECT_NE(absent.err.find("no_folder"), std::string::npos) << absent.err;
    const Outcome too_long = run({"run", script, "--in", "x=" + x, "--out", "y=" + folder / "y.npy",
                                  "--out", "total=" + folder / (std::string(252, 'a') + ".npy")});
    EXPECT_EQ(too_long.status, 1);
    EXPECT_EQ(folder.files(), (std::vector<std::string>{"two.quern", "x.npy"}));
}

TEST(CommandOutput, AFileThatIsReplacedKeepsItsPermissionsAndLinksStay) {
    namespace fs = std::filesystem;
    const Folder folder;
    const std::string script = folder.write("two.quern", kTwo);
    const std::string x = folder.write("x.npy", Tensor::from<float>({3}, {-1, 2, 3}));
    const std::string own = folder.write("own.npy", "before"), link = folder / "link.npy";
    const fs::perms mine = fs::perms::owner_read | fs::perms::owner_write;
    fs::permissions(own, mine);
    fs::create_symlink(own, link);
    const Outcome outcome = run({"run", script, "--in", "x=" + x, "--out", "y=" + link});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(fs::status(own).permissions(), mine);
    EXPECT_EQ(load_npy(own).values(), (std::vector<double>{0, 2, 3}));

    fs::remove(own);
    ASSERT_EQ(run({"run", script, "--in", "x=" + x, "--out", "y=" + link}).status, 0);
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_EQ(load_npy(own).values(), (std::vector<double>{0, 2, 3}));

    const Outcome twice = run({"run", script, "--in", "x=" + x, "--out", "y=" + link, "--out",
                               "total=" + folder / "./own.npy"});
    EXPECT_EQ(twice.status, 1);
    EXPECT_NE(twice.err.find("expected one result for"), std::string::npos) << twice.err;

    const std::string pipe = folder / "pipe.npy";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const Outcome special = run({"run", script, "--in", "x=" + x, "--out", "y=" + pipe});
    EXPECT_EQ(special.status, 1);
    EXPECT_NE(special.err.find("expected a regular file or none"), std::string::npos)
        << special.err;
    EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(CommandOutput, AFullDiskIsAnError) {
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0) GTEST_SKIP() << "no /dev/full";
    const Folder folder;
    const std::string script = folder.write("two.quern", kTwo);
    const std::string x = folder.write("x.npy", Tensor::from<float>({3}, {-1, 2, 3}));
    const std::vector<std::vector<std::string>> calls = {{"run", script, "--in", "x=" + x},
                                                         {"explain", script},
                                                         {"check", "--json", script},
                                                         {"devices"},
                                                         {"--help"},
                                                         {"--version"}};
    for (const auto& call : calls) {
        const std::string log = folder / (call[0] + ".err");
        const int err = ::open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        int status = 0;
        waitpid(start(call, full, err), &status, 0);
        ::close(err);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << call[0];
        EXPECT_NE(read_file(log).find("standard output"), std::string::npos) << call[0];
    }
    ::close(full);
}

TEST(CommandOutput, ANumberIsNoFile) {
    const Folder folder;
    const std::string script = folder.write("n.quern", "let n = 3\n");
    const Outcome outcome = run({"run", script, "--out", "n=" + folder / "n.npy"});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("expects a tensor"), std::string::npos) << outcome.err;
    EXPECT_EQ(folder.files(), (std::vector<std::string>{"n.quern"}));
}

TEST(CommandOutput, APictureGoesInAndOut) {
    const Folder folder;
    const std::string script =
        folder.write("copy.quern", "let copy = permute(picture, [1, 0, 2])\n");
    const std::string picture =
        folder.write("p.png", Tensor::from<std::uint8_t>({1, 2, 3}, {1, 2, 3, 4, 5, 6}));
    const Outcome outcome =
        run({"run", script, "--in", "picture=" + picture, "--out", "copy=" + folder / "q.PNG"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const Tensor copy = load_png(folder / "q.PNG");
    EXPECT_EQ(copy.shape(), (Shape{2, 1, 3}));
    EXPECT_EQ(copy.values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
}

TEST(CommandOutput, ExplainSaysWhatEachKernelDoes) {
    const Folder folder;
    const std::string script = folder.write("matmul.quern", kMatmul);
    const Outcome text = run({"explain", script});
    EXPECT_EQ(text.status, 0) << text.err;
    EXPECT_NE(text.out.find("in line 1"), std::string::npos) << text.out;
    const Outcome shaped =
        run({"explain", script, "--shape", "A=f32[4,3]", "--shape", "B=f32[3, 2]"});
    EXPECT_EQ(shaped.status, 0) << shaped.err;
    EXPECT_NE(shaped.out.find("kernel C"), std::string::npos) << shaped.out;
    EXPECT_NE(shaped.out.find("K"), std::string::npos) << shaped.out;
    const Outcome wrong =
        run({"explain", script, "--shape", "A=f32[4,3]", "--shape", "B=f32[4,2]"});
    EXPECT_EQ(wrong.status, 1);
    EXPECT_NE(wrong.err.find("E0501"), std::string::npos) << wrong.err;
    const std::string a = folder.write("a.npy", Tensor(Shape{2, 2}));
    const Outcome run_too = run({"run", script, "--explain", "--in", "A=" + a, "--in", "B=" + a});
    EXPECT_EQ(run_too.status, 0);
    EXPECT_NE(run_too.out.find("kernel C"), std::string::npos) << run_too.out;
}

TEST(CommandOutput, ExplainMeasuresWhatItRuns) {
    const Folder folder;
    const std::string script = folder.write("matmul.quern", kMatmul);
    const std::string a = folder.write("a.npy", Tensor(Shape{16, 16}));
    const Outcome outcome =
        run({"explain", script, "--measure", "--in", "A=" + a, "--in", "B=" + a});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::size_t kernel = outcome.out.find("kernel C"),
                      operations = outcome.out.find("\noperations "),
                      roofline = outcome.out.find("\nroofline "),
                      measured = outcome.out.find("\nmeasured ");
    ASSERT_NE(measured, std::string::npos) << outcome.out;
    EXPECT_LT(kernel, operations) << outcome.out;
    EXPECT_LT(operations, measured) << outcome.out;
#if defined(__x86_64__)
    EXPECT_LT(operations, roofline) << outcome.out;
    EXPECT_LT(roofline, measured) << outcome.out;
    EXPECT_NE(outcome.out.find(" % of the roofline, ", measured), std::string::npos) << outcome.out;
#endif
    const Outcome shapes =
        run({"explain", script, "--measure", "--shape", "A=f32[2,2]", "--shape", "B=f32[2,2]"});
    EXPECT_EQ(shapes.status, 1);
    EXPECT_NE(shapes.err.find("expected whole operands by --in"), std::string::npos) << shapes.err;
}

TEST(CommandOutput, ExplainTakesTheShapesOfASet) {
    const Folder folder;
    const std::string script =
        folder.write("set.quern",
                     "let y = compute(x, model.a.w) {\n    @kernel elementwise\n"
                     "    for i in 0..len: out[i] = x[i] * model.a.w[i]\n}\n");
    const Outcome outcome = run({"explain", script, "--shape", "x=f32[1000000000]", "--shape",
                                 "model.a.w=f32[1000000000]"});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("1000000000"), std::string::npos) << outcome.out;
    EXPECT_EQ(run({"explain", script, "--shape", "modle.a.w=f32[2]"}).status, 1);
}

TEST(CommandOutput, AnInterruptLeavesNoFile) {
    const Folder folder;
    const std::string script = folder.write("matmul.quern", kMatmul);
    const std::string a = folder.write("a.npy", Tensor(Shape{2000, 2000}));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    // For minutes, so that the interrupt comes before its end on a busy machine too.
    const pid_t child = start({"run", script, "--device", "interpreter", "--explain", "--in",
                               "A=" + a, "--in", "B=" + a, "--out", "C=" + folder / "c.npy"},
                              ends[1], ends[1]);
    close(ends[1]);
    // The first byte of the explanation comes right before the kernel starts.
    char byte = 0;
    ASSERT_EQ(read(ends[0], &byte, 1), 1);
    kill(child, SIGINT);
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[0]);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
    EXPECT_EQ(folder.files(), (std::vector<std::string>{"a.npy", "matmul.quern"}));
}

/// Interrupts the command when it has begun to write `count` files of 16 MiB; returns how it ended,
/// or -1 if it was done before.
int status_of_interrupted_write(const Folder& folder, int count) {
    const std::string script = folder.write("copy.quern", "let y = x.to_device(\"auto\")\n");
    const std::string x = folder.write("x.npy", Tensor(Shape{1 << 22}));
    std::vector<std::string> arguments = {"run", script, "--in", "x=" + x};
    for (int n = 0; n < count; ++n) {
        arguments.push_back("--out");
        arguments.push_back("y=" + folder / (std::to_string(n) + ".npy"));
    }
    const int nowhere = open("/dev/null", O_WRONLY);
    const pid_t child = start(arguments, nowhere, nowhere);
    close(nowhere);
    int status = 0;
    const std::size_t before = folder.files().size();
    while (folder.files().size() == before) {
        if (waitpid(child, &status, WNOHANG) == child) return -1;
    }
    kill(child, SIGINT);
    waitpid(child, &status, 0);
    return status;
}

TEST(CommandOutput, AnInterruptWhileFilesAreWrittenLeavesNone) {
    for (int count = 4; count <= 64; count *= 4) {
        const Folder folder;
        folder.write("0.npy", "what was there before");
        const int status = status_of_interrupted_write(folder, count);
        if (status == -1 || folder.files().size() > 3) continue;
        EXPECT_EQ(folder.files(), (std::vector<std::string>{"0.npy", "copy.quern", "x.npy"}));
        EXPECT_EQ(read_file(folder / "0.npy"), "what was there before");
        EXPECT_TRUE(WIFSIGNALED(status)) << "the shell must see the signal, got " << status;
        EXPECT_EQ(WTERMSIG(status), SIGINT);
        return;
    }
    GTEST_SKIP() << "this machine has written every file before a signal arrives";
}

/// Runs a matmul of size n with standard error on a terminal; returns what the terminal shows.
std::string terminal_output(const Folder& folder, int n, double& seconds) {
    const std::string script = folder.write("matmul.quern", kMatmul);
    const std::string a = folder.write("a.npy", Tensor(Shape{n, n}));
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return "no terminal";
    const int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    const int nowhere = open("/dev/null", O_WRONLY);
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = start({"run", script, "--device", "interpreter", "--threads", "1", "--in",
                               "A=" + a, "--in", "B=" + a},
                              nowhere, other_end);
    close(other_end);
    close(nowhere);
    std::string shown;
    char buffer[256];
    for (ssize_t got = 0; (got = read(terminal, buffer, sizeof buffer)) > 0;) {
        shown.append(buffer, std::size_t(got));
    }
    int status = 0;
    waitpid(child, &status, 0);
    close(terminal);
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return shown;
}

TEST(CommandOutput, ProgressIsShownOnATerminalForLongWork) {
    const Folder folder;
    double seconds = 0;
    for (int n = 64; n <= 1024; n *= 2) {
        const std::string shown = terminal_output(folder, n, seconds);
        if (shown == "no terminal") GTEST_SKIP() << "no pseudo-terminal here";
        if (seconds < 0.4) {
            EXPECT_EQ(shown, "") << "work of " << seconds << " s shows progress";
        }
        if (seconds < 1.5) continue;
        EXPECT_NE(shown.find(" %"), std::string::npos) << shown;
        EXPECT_NE(shown.find("C "), std::string::npos) << shown;
        EXPECT_EQ(shown.substr(shown.size() - 4), "\r\033[K") << "the line is taken away";
        return;
    }
    GTEST_SKIP() << "this machine is done before progress begins";
}

TEST(CommandBench, TimesEachKernelBesideTheBound) {
    const Folder folder;
    const std::string script = folder.write("matmul.quern", kMatmul);
    const std::string a = folder.write("a.npy", Tensor(Shape{64, 64}));
    const Outcome outcome = run({"bench", script, "--in", "A=" + a, "--in", "B=" + a});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(outcome.out.find("GB/s"), std::string::npos) << outcome.out;
    std::istringstream lines(outcome.out);
    std::string line, last;
    while (std::getline(lines, line)) last = line;
    std::istringstream columns(last);
    std::string name, device;
    double milliseconds = 0, bandwidth = 0, operations = 0;
    columns >> name >> device >> milliseconds >> bandwidth >> operations;
    EXPECT_EQ(name, "C");
    EXPECT_EQ(device, Device().id());
    EXPECT_GT(milliseconds, 0);
    // A multiplication and an addition for each of 64^3 steps, three matrices of 16 KiB.
    constexpr double kRatio = 2.0 * 64 * 64 * 64 / (3 * 64 * 64 * 4);
    EXPECT_NEAR(operations / bandwidth, kRatio, 0.01 * kRatio) << outcome.out;
    EXPECT_NE(run({"bench", script, "--in", "A=" + a}).status, 0);
}

}  // namespace
}  // namespace quern::cli

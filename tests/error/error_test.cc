#include "quern/error.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <type_traits>

#include "quern/support/check.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

Diagnostic diagnostic(std::string code, std::string message,
                      Severity severity = Severity::Warning) {
    Diagnostic d;
    d.severity = severity;
    d.code = std::move(code);
    d.message = std::move(message);
    d.file = "kernel.quern";
    d.line = 3;
    d.column = 5;
    d.source = "    out[i] = x[i]";
    return d;
}

/// The handler that was set before the test is back after it.
class Warnings : public ::testing::Test {
protected:
    void TearDown() override { set_warning_handler({}); }
};

TEST(Errors, AreAllQuernErrorsAndStandardExceptions) {
    EXPECT_THROW(raise(ShapeError("s")), Error);
    EXPECT_THROW(raise(DTypeError("s")), Error);
    EXPECT_THROW(raise(ValueError("s")), Error);
    EXPECT_THROW(raise(FileError("s")), Error);
    EXPECT_THROW(raise(DeviceError("s")), Error);
    EXPECT_THROW(raise(DeviceLost("s")), DeviceError);
    EXPECT_THROW(raise(OutOfMemory("s")), Error);
    EXPECT_THROW(raise(InternalError("s")), Error);
    EXPECT_THROW(raise(KernelError({diagnostic("E0411", "m")})), Error);
    EXPECT_THROW(raise(Error("s")), std::exception);
    EXPECT_THROWS(Error, "[op] expected a, got b", raise(Error("[op] expected a, got b")));
}

TEST(Errors, CanBeThrownAgainWithoutThrowing) {
    EXPECT_TRUE(std::is_nothrow_move_constructible_v<KernelError>);
    EXPECT_TRUE(std::is_nothrow_move_constructible_v<ShapeError>);
}

TEST(KernelErrors, SayWhatTheirDiagnosticsSay) {
    const Diagnostic first = diagnostic("E0411", "undefined name 'y'", Severity::Error);
    const Diagnostic second = diagnostic("W0701", "name shadows another");
    const KernelError error({first, second});
    EXPECT_EQ(std::string(error.what()), to_string(first) + "\n" + to_string(second));
    ASSERT_EQ(error.diagnostics().size(), 2u);
    EXPECT_EQ(error.diagnostics()[1].code, "W0701");
    EXPECT_EQ(std::string(KernelError({first}).what()), to_string(first));
}

TEST(Check, NamesThePlaceInTheLibraryAndWhatShouldHold) {
    const int rank = 2;
    QUERN_CHECK(rank == 2, "never looked at");
    EXPECT_THROWS(InternalError, "] rank is 3; please report", QUERN_CHECK(rank == 3, "rank is 3"));
    EXPECT_THROWS(InternalError, "[quern/ir/cir.cc:42] blocks nest; please report",
                  detail::check_failed("/home/someone/quern/quern/ir/cir.cc", 42, "blocks nest"));
    EXPECT_THROWS(InternalError, "[other.cc:1] x; please report",
                  detail::check_failed("other.cc", 1, "x"));
}

TEST(FatalHandler, ReceivesWhatCannotBeThrown) {
    EXPECT_EXIT(
        {
            set_fatal_handler([](const Error& error) {
                std::_Exit(std::string_view(error.what()) == "no way to throw" ? 7 : 1);
            });
            detail::fatal(ShapeError("no way to throw"));
        },
        ::testing::ExitedWithCode(7), "");
}

TEST(FatalHandler, EndsTheProgramByDefault) {
    EXPECT_EXIT(
        {
            std::set_terminate([] { std::_Exit(8); });
            detail::fatal(ShapeError("s"));
        },
        ::testing::ExitedWithCode(8), "");
}

TEST_F(Warnings, GoToTheHandler) {
    std::vector<std::string> seen;
    set_warning_handler([&](const Diagnostic& d) { seen.push_back(d.code + " " + d.message); });
    warn(diagnostic("W0703", "one"));
    warn(diagnostic("W0703", "one"));
    warn(diagnostic("N0801", "a note", Severity::Note));
    EXPECT_EQ(seen, (std::vector<std::string>{"W0703 one", "W0703 one", "N0801 a note"}));
}

TEST_F(Warnings, HandTheHandlerBackWhenItIsReplaced) {
    int first = 0, second = 0;
    EXPECT_FALSE(set_warning_handler([&](const Diagnostic&) { ++first; }));
    WarningHandler before = set_warning_handler([&](const Diagnostic&) { ++second; });
    warn(diagnostic("W0703", "m"));
    set_warning_handler(std::move(before));
    warn(diagnostic("W0703", "m"));
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 1);
}

TEST_F(Warnings, AreWrittenOnceByDefaultAndNotesNever) {
    const Diagnostic a = diagnostic("W0703", "written once, a");
    const Diagnostic b = diagnostic("W0703", "written once, b");
    ::testing::internal::CaptureStderr();
    warn(a);
    warn(b);
    warn(a);
    warn(diagnostic("N0801", "a note", Severity::Note));
    std::string expected;
    for (const Diagnostic& d : {a, b}) {
        expected += to_string(d);
        if (!expected.ends_with('\n')) expected += '\n';
    }
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), expected);
}

TEST_F(Warnings, MayBeGivenFromWithinAHandler) {
    std::vector<std::string> seen;
    set_warning_handler([&](const Diagnostic& d) {
        seen.push_back(d.message);
        if (seen.size() == 1) warn(diagnostic("W0703", "inner"));
        if (seen.size() == 2) set_warning_handler([](const Diagnostic&) {});
    });
    warn(diagnostic("W0703", "outer"));
    warn(diagnostic("W0703", "unseen"));
    EXPECT_EQ(seen, (std::vector<std::string>{"outer", "inner"}));
}

TEST_F(Warnings, ReachTheHandlerFromOneThreadAtATime) {
    int count = 0;
    set_warning_handler([&](const Diagnostic&) { ++count; });
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([] {
            for (int i = 0; i < 500; ++i) warn(diagnostic("W0703", "m"));
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace quern

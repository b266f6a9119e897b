#include "quern/runtime/later_warnings.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace quern {
namespace {

/// Hands warnings to a list while it lives.
class LaterWarningsTest : public ::testing::Test {
protected:
    void SetUp() override {
        before_ = set_warning_handler([this](const Diagnostic& d) { told_.push_back(d.message); });
    }
    void TearDown() override { set_warning_handler(before_); }

    static void warn_of(const std::string& message) {
        Diagnostic diagnostic;
        diagnostic.severity = Severity::Warning;
        diagnostic.message = message;
        warn(diagnostic);
    }

    std::vector<std::string> told_;

private:
    WarningHandler before_;
};

TEST_F(LaterWarningsTest, AreToldInOrderAtTheEnd) {
    {
        const LaterWarnings outer;
        warn_of("a");
        {
            const LaterWarnings inner;
            warn_of("b");
        }
        warn_of("c");
        EXPECT_TRUE(told_.empty());
        std::thread([] { warn_of("of another thread"); }).join();
        EXPECT_EQ(told_, (std::vector<std::string>{"of another thread"}));
    }
    EXPECT_EQ(told_, (std::vector<std::string>{"of another thread", "a", "b", "c"}));
}

TEST_F(LaterWarningsTest, LetAHandlerThrow) {
    set_warning_handler([](const Diagnostic& d) { throw std::runtime_error(d.message); });
    const auto message_of = [](bool fails) {
        try {
            const LaterWarnings later;
            warn_of("a warning");
            if (fails) throw std::runtime_error("an error");
        } catch (const std::runtime_error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(message_of(false), "a warning");
    EXPECT_EQ(message_of(true), "an error");
}

}  // namespace
}  // namespace quern

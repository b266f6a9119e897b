#include <gtest/gtest.h>

#include <string>

#include "quern/device.h"

// Scripts set the default device of the process: for each test it is the one that the tests were
// begun with.

namespace quern::script {
namespace {

class DefaultDevice : public ::testing::EmptyTestEventListener {
    void OnTestStart(const ::testing::TestInfo&) override { before_ = Device().id(); }
    void OnTestEnd(const ::testing::TestInfo&) override { set_default_device(before_); }

    std::string before_;
};

[[maybe_unused]] const bool is_there = [] {
    ::testing::UnitTest::GetInstance()->listeners().Append(new DefaultDevice);
    return true;
}();

}  // namespace
}  // namespace quern::script

#include "quern/device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/device_options.h"
#include "quern/support/threads.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

/// Sets QUERN_DEVICE for the length of a test.
class Environment : public ::testing::Test {
protected:
    void SetUp() override {
        const char* value = std::getenv("QUERN_DEVICE");
        if (value != nullptr) before_ = value;
        ::unsetenv("QUERN_DEVICE");
    }
    void TearDown() override {
        if (before_.empty()) {
            ::unsetenv("QUERN_DEVICE");
        } else {
            ::setenv("QUERN_DEVICE", before_.c_str(), 1);
        }
    }
    std::string before_;
};
using Devices = Environment;

TEST_F(Devices, ListTheInterpreterLast) {
    const std::vector<DeviceInfo> all = devices();
    ASSERT_FALSE(all.empty());
    EXPECT_EQ(all.back().id, "interpreter");
    EXPECT_EQ(all.back().cores, hardware_threads());
    for (const DeviceInfo& info : all) EXPECT_EQ(Device(info.id).id(), info.id);
}

/// The best device there is.
std::string best() { return cpu::plugin_path().empty() ? "interpreter" : "cpu"; }

TEST_F(Devices, AutoIsTheFirstOfAll) {
    EXPECT_EQ(Device("auto").id(), best());
    EXPECT_EQ(Device("auto").id(), devices().front().id);
    EXPECT_EQ(Device(), Device("auto"));
    EXPECT_EQ(Tensor({2}).device(), Device(best()));
}

TEST_F(Devices, OfTheCpuMayBeNumbered) {
    if (cpu::plugin_path().empty()) GTEST_SKIP() << "no compiler plug-in in this build";
    for (const char* id : {"cpu:0", "cpu:1", "cpu:9", "cpu:10", "cpu:63"}) {
        EXPECT_EQ(Device(id).id(), id);
        EXPECT_TRUE(Device(id).is_cpu());
    }
    EXPECT_TRUE(Device("cpu").is_cpu());
    EXPECT_FALSE(Device("interpreter").is_cpu());
    for (const char* id : {"cpu:", "cpu:64", "cpu:-1", "cpu:01", "cpu:00", "cpu:1 ", "cpu:+1",
                           "cpu:99999999999999999999", "cpu:x"}) {
        EXPECT_THROWS(DeviceError, "logical devices of the cpu are cpu:0 to cpu:63", Device(id));
    }
}

TEST_F(Devices, RefuseAnUnknownIdAndSayWhichThereAre) {
    EXPECT_THROWS(DeviceError, "[device] E0601: no device 'cuda:9'; there are: ", Device("cuda:9"));
    EXPECT_THROWS(DeviceError, "no device ''; there are", Device(""));
    EXPECT_THROWS(DeviceError, "no device 'Interpreter'", Device("Interpreter"));
    EXPECT_THROWS(DeviceError, "E0601: no device 'hip:0'", set_default_device("hip:0"));
}

TEST_F(Devices, SayWhyThereIsNoCpu) {
    if (cpu::plugin_path().empty()) {
        EXPECT_THROWS(DeviceError,
                      "[device] E0601: no device 'cpu': the compiler plug-in that it needs is not "
                      "part of this build; there are: interpreter",
                      Device("cpu"));
    } else {
        EXPECT_EQ(Device("cpu").id(), "cpu");
    }
}

TEST_F(Devices, ComeFromTheEnvironment) {
    ::setenv("QUERN_DEVICE", "interpreter", 1);
    EXPECT_EQ(Device().id(), "interpreter");
    ::setenv("QUERN_DEVICE", "", 1);
    EXPECT_EQ(Device().id(), best());
    ::setenv("QUERN_DEVICE", "cuda:9", 1);
    EXPECT_THROWS(DeviceError, "E0601: no device 'cuda:9' (from QUERN_DEVICE); there are",
                  Device());
    EXPECT_EQ(Device("auto").id(), best()) << "only the default depends on it";
}

TEST_F(Devices, SetByTheProgramWinOverTheEnvironment) {
    // In a process of its own: there is no way back from a default that was set.
    EXPECT_EXIT(
        {
            ::setenv("QUERN_DEVICE", "cuda:9", 1);
            set_default_device("auto");
            std::_Exit(Device().id() == best() ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace quern

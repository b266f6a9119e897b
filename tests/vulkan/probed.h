// What processes say whose loader is mock/loader.cc, and which run one of failing_calls_probes.cc.
#pragma once

#include <gtest/gtest.h>

#ifdef QUERN_MOCK_LOADER
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/cpu/vulkan_devices.h"

namespace quern {

struct Probed {
    std::string said;
    bool ended_well = false;

    /// Whether the mock did what it was told, and whether that was to let a call fail.
    bool has_happened = false;
    bool has_failed = false;

    bool says(const std::string& text) const { return said.find(text) != std::string::npos; }
    bool is_as_promised() const { return ended_well && says("cpu: right\n") && !says("wrong"); }
};

enum class Drivers { First, FirstWithoutLayers, Last, All };

/// What one of failing_calls_probes.cc says where the loader is that of a folder.
inline Probed probe(const std::string& order, const std::string& folder = QUERN_MOCK_LOADER,
                    const std::string& test = "Runs", const std::string& cache = "off",
                    Drivers which = Drivers::First) {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe");
    const char* const drivers = std::getenv("VK_DRIVER_FILES");
    const std::string all = drivers ? drivers : "";
    const bool is_last = which == Drivers::Last;
    const std::string one = is_last ? all.substr(all.rfind(':') + 1) : all.substr(0, all.find(':'));
    std::string only = which == Drivers::FirstWithoutLayers ? "VK_INSTANCE_LAYERS= " : "";
    if (drivers && which != Drivers::All) only += "VK_DRIVER_FILES='" + one + "' ";
    // What it finds of this driver must not be kept for others.
    const std::string command = only + "QUERN_CACHE='" + cache + "' LD_LIBRARY_PATH='" + folder +
                                "' QUERN_MOCK_VULKAN='" + order + "' '" + self +
                                "' --gtest_also_run_disabled_tests --gtest_brief=1 "
                                "--gtest_filter='FailingCallsProbe.DISABLED_" +
                                test + "' 2>&1";
    Probed result;
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) {
        result.said.append(buffer, count);
    }
    result.ended_well = pclose(pipe) == 0;
    result.has_happened = result.says("mock: here");
    result.has_failed = result.says("mock: failed");
    return result;
}

class FailingCalls : public testing::Test {
protected:
    void SetUp() override {
        if (cpu_test::vulkan_devices().empty()) GTEST_SKIP() << "no device vulkan:0";
    }
};

inline int modules_of(const Probed& probed) {
    int count = 0;
    const std::string mark = "mock: module\n";
    for (std::size_t at = 0; (at = probed.said.find(mark, at)) != std::string::npos; ++at) ++count;
    return count;
}

/// Lets each call of a function fail in turn, and gives what was said. `beside`: other orders.
inline std::vector<Probed> each_call(const std::string& function, const std::string& result,
                                     const std::string& beside = {},
                                     const std::string& test = "Runs") {
    std::vector<Probed> all;
    for (int call = 1; call < 100; ++call) {
        const std::string order = beside + function + " " + std::to_string(call) + " " + result;
        Probed probed = probe(order, QUERN_MOCK_LOADER, test);
        EXPECT_TRUE(probed.is_as_promised()) << order << "\n" << probed.said;
        if (!probed.has_failed) break;
        all.push_back(std::move(probed));
        if (!all.back().is_as_promised()) break;
    }
    EXPECT_FALSE(all.empty()) << function << " is not called";
    return all;
}

/// Memory that the host does not see, and a queue that only copies to and from it.
inline const char* const kStaged = "memory of its own; transfer queue; ";

}  // namespace quern
#endif

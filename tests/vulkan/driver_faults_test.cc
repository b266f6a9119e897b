// Drivers that get something wrong, do not compile it, or have subgroups and caches of their own
// kind. Each case is a process of its own (probed.h).

#include "tests/vulkan/probed.h"

#ifdef QUERN_MOCK_LOADER
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/folder.h"

namespace quern {
namespace {

TEST_F(FailingCalls, ADriverThatComputesSomethingElseIsFoundBeforeAKernelNeedsIt) {
    const Probed probed = probe("other quotients");
    EXPECT_TRUE(probed.has_happened);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("E0600")) << probed.said;
    EXPECT_TRUE(probed.says("arithmetic of float32, whose test its driver fails")) << probed.said;
    EXPECT_FALSE(probed.says("vulkan:0: right")) << "what it does not divide is refused too";
    const std::size_t first = probed.said.find("fails the test of arithmetic of float32");
    ASSERT_NE(first, std::string::npos) << probed.said;
    EXPECT_EQ(probed.said.find("fails the test of arithmetic of float32", first + 1),
              std::string::npos)
        << "a warning for each kernel";
}

TEST_F(FailingCalls, NoneAndWhatIsRightOfADriverIsKeptForTheNextProcessAndThisVersion) {
    const TestFolder cache;
    const auto modules = [&](const std::string& more) {
        const Probed probed = probe("say modules" + more, QUERN_MOCK_LOADER, "Runs", cache.path());
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        return modules_of(probed);
    };
    const int with_trials = modules(""), without = modules("");
    EXPECT_GT(without, 0);
    EXPECT_LT(without, with_trials);
    EXPECT_EQ(modules("; another version"), with_trials);
    EXPECT_EQ(modules("; another version"), without);
    EXPECT_EQ(modules(""), without);
}

TEST_F(FailingCalls, AWrongResultOfADriverIsKeptForTheNextProcessAndThisVersion) {
    const TestFolder cache;
    const auto probed = [&](const std::string& order) {
        return probe("say modules; " + order, QUERN_MOCK_LOADER, "Runs", cache.path());
    };
    const std::string fault = "fails the test of arithmetic of float32: expected ";
    const Probed first = probed("other quotients"), second = probed("other quotients");
    EXPECT_TRUE(first.says(fault)) << first.said;
    EXPECT_FALSE(first.says("kept in")) << first.said;
    EXPECT_TRUE(second.says(fault)) << second.said;
    EXPECT_TRUE(second.says("(kept in " + cache.path())) << second.said;
    EXPECT_TRUE(second.says("whose test its driver fails")) << second.said;
    EXPECT_LT(modules_of(second), modules_of(first)) << "its test ran again";
    const Probed newer = probed("another version");
    EXPECT_FALSE(newer.says("warning")) << newer.said;
    EXPECT_TRUE(newer.says("vulkan:0: right\nvulkan:0: right\n")) << newer.said;
}

TEST_F(FailingCalls, CodeThatADriverDoesNotCompileIsTriedAgainInTheNextProcess) {
    const TestFolder cache;
    const auto probed = [&](const std::string& order) {
        return probe(order, QUERN_MOCK_LOADER, "RunsGroups", cache.path());
    };
    const std::string fault = "fails the test of sums by subgroups";
    const Probed without = probed("no shuffles"), with = probed("");
    EXPECT_TRUE(without.says(fault)) << without.said;
    EXPECT_FALSE(with.says(fault)) << with.said;
    EXPECT_TRUE(with.says("vulkan:0: right\nvulkan:0: right\n")) << with.said;
}

TEST_F(FailingCalls, SubgroupsThatAreNotWhatTheDriverSaysAreNotUsed) {
    const Probed wide = probe("wide subgroups", QUERN_MOCK_LOADER, "RunsGroups");
    EXPECT_TRUE(wide.has_happened);
    EXPECT_TRUE(wide.ended_well) << wide.said;
    EXPECT_TRUE(wide.says("vulkan:0: right\nvulkan:0: right\n")) << wide.said;
    EXPECT_TRUE(wide.says("fails the test of sums by subgroups of a work-group")) << wide.said;
    EXPECT_TRUE(wide.says("; lanes use memory instead")) << wide.said;
    const Probed as_they_are = probe("", QUERN_MOCK_LOADER, "RunsGroups");
    EXPECT_TRUE(as_they_are.says("vulkan:0: right\nvulkan:0: right\n")) << as_they_are.said;
    EXPECT_FALSE(as_they_are.says("fails the test")) << as_they_are.said;
}

TEST_F(FailingCalls, NoneAndPipelinesSayHowManyInvocationsTheirSubgroupsHave) {
    const Probed told = probe("told subgroups", QUERN_MOCK_LOADER, "RunsGroups");
    EXPECT_TRUE(told.has_happened);
    EXPECT_TRUE(told.ended_well) << told.said;
    EXPECT_TRUE(told.says("vulkan:0: right\nvulkan:0: right\n")) << told.said;
    const std::string mark = " lanes in subgroups of ";
    const std::size_t at = told.said.find(mark);
    ASSERT_NE(at, std::string::npos) << told.said;
    const int size = std::atoi(told.said.c_str() + at + mark.size());
    EXPECT_TRUE(told.says("mock: subgroups of " + std::to_string(size) + ", full\n")) << told.said;
}

TEST_F(FailingCalls, NoneAndADriverThatIsAnotherInterfaceUnderneathIsUsed) {
    const Probed subset = probe("portability");
    EXPECT_TRUE(subset.has_happened);
    EXPECT_TRUE(subset.is_as_promised()) << subset.said;
    EXPECT_TRUE(subset.says("vulkan:0: right\nvulkan:0: right\n")) << subset.said;
}

TEST_F(FailingCalls, SubgroupsThatADriverDoesNotCompileAreNotUsed) {
    const Probed none = probe("no shuffles", QUERN_MOCK_LOADER, "RunsGroups");
    EXPECT_TRUE(none.has_happened);
    EXPECT_TRUE(none.ended_well) << none.said;
    EXPECT_TRUE(none.says("vulkan:0: right\nvulkan:0: right\n")) << none.said;
    const std::string warning = "fails the test of sums by subgroups of a work-group: ";
    const std::size_t first = none.said.find(
        warning + "vkCreateShaderModule: the driver does not say why; lanes use memory instead");
    ASSERT_NE(first, std::string::npos) << none.said;
    EXPECT_EQ(none.said.find(warning, first + 1), std::string::npos) << "a warning for each";
}

TEST_F(FailingCalls, PacketsThatADriverDoesNotCompileAreNotUsed) {
    const Probed with = probe("", QUERN_MOCK_LOADER, "RunsPackets");
    EXPECT_TRUE(with.says("vulkan:0: right\nvulkan:0: right\nin packets\n")) << with.said;
    EXPECT_FALSE(with.says("fails the test")) << with.said;
    const Probed none = probe("no packets", QUERN_MOCK_LOADER, "RunsPackets");
    EXPECT_TRUE(none.has_happened);
    EXPECT_TRUE(none.is_as_promised()) << none.said;
    EXPECT_TRUE(none.says("vulkan:0: right\nvulkan:0: right\none by one\n")) << none.said;
    EXPECT_TRUE(none.says(" lanes of each of ")) << none.said;
    const std::string warning =
        "fails the test of packets of float32: vkCreateShaderModule: the driver does not say why; "
        "lanes load and store one element at a time instead";
    const std::size_t first = none.said.find(warning);
    ASSERT_NE(first, std::string::npos) << none.said;
    EXPECT_EQ(none.said.find(warning, first + 1), std::string::npos) << "a warning for each";
}

/// Whose own tests are of lanes too.
TEST_F(FailingCalls, PacketsThatAGraphicsCardDoesNotCompileAreNotUsed) {
    const Probed none = probe("graphics card; no packets");
    EXPECT_TRUE(none.has_happened);
    EXPECT_TRUE(none.is_as_promised()) << none.said;
    EXPECT_TRUE(none.says("vulkan:0: right\nvulkan:0: right\n")) << none.said;
    EXPECT_TRUE(none.says("fails the test of packets of float32")) << none.said;
    EXPECT_FALSE(none.says("fails the test of arithmetic")) << none.said;
}

TEST_F(FailingCalls, ProductsAndSumsInOneThatADriverGetsWrongAreTwoOperations) {
    const Probed with = probe("graphics card", QUERN_MOCK_LOADER, "RunsDots");
    EXPECT_TRUE(with.is_as_promised()) << with.said;
    EXPECT_TRUE(with.says("vulkan:0: right\nin one\n")) << with.said;
    EXPECT_FALSE(with.says("fails the test")) << with.said;
    const Probed other = probe("graphics card; other sums", QUERN_MOCK_LOADER, "RunsDots");
    EXPECT_TRUE(other.is_as_promised()) << other.said;
    EXPECT_TRUE(other.says("vulkan:0: right\nin two\n")) << other.said;
    EXPECT_TRUE(other.says("fails the test of products and sums in one: expected ")) << other.said;
    EXPECT_TRUE(other.says("; they are two operations instead")) << other.said;
}

TEST_F(FailingCalls, LanesThatADriverDoesNotCompileDoWholePointsEach) {
    const Probed none = probe("no meeting", QUERN_MOCK_LOADER, "RunsGroups");
    EXPECT_TRUE(none.has_happened);
    EXPECT_TRUE(none.ended_well) << none.said;
    EXPECT_TRUE(none.says("vulkan:0: right\nvulkan:0: right\n64 invocations, a point each\n"))
        << none.said;
    EXPECT_TRUE(none.says("fails the test of sums by the lanes of a work-group: ")) << none.said;
    EXPECT_TRUE(none.says("; invocations do whole points instead")) << none.said;
}

/// AMD's set those of 16 and 64 bits together, Intel's and Apple's all, of which these have no 64.
TEST_F(FailingCalls, NoneAndModesOfFloatsThatBelongTogetherAreAskedForTogether) {
    const Probed free = probe("", QUERN_MOCK_LOADER, "RunsHalves");
    const std::string without = "; no float64 modes", none = without + "; no float64";
    for (const std::string widths : {"dependent widths", "dependent halves"}) {
        const auto run = [&](const std::string& more) {
            const Probed probed = probe(widths + more, QUERN_MOCK_LOADER, "RunsHalves");
            EXPECT_TRUE(probed.has_happened);
            EXPECT_TRUE(probed.is_as_promised()) << probed.said;
            return probed.says("as halves");
        };
        EXPECT_EQ(run(""), free.says("as halves")) << widths;
        EXPECT_FALSE(run(without)) << widths;
        EXPECT_EQ(run(none), free.says("as halves")) << widths;
    }
}

/// What is said where one pipeline after the other fails.
std::vector<Probed> each_pipeline(const std::string& result) {
    std::vector<Probed> all;
    for (int call = 1;; ++call) {
        all.push_back(probe("vkCreateComputePipelines " + std::to_string(call) + " " + result,
                            QUERN_MOCK_LOADER, "RunsHalves"));
        if (all.back().has_failed) continue;
        all.pop_back();
        return all;
    }
}

TEST_F(FailingCalls, ForWantOfMemorySayNothingOfTheDriver) {
    const std::vector<Probed> all = each_pipeline("-1");
    EXPECT_GT(all.size(), 3u);
    for (const Probed& probed : all) {
        EXPECT_TRUE(probed.says("vkCreateComputePipelines: the host is out of memory"))
            << probed.said;
        EXPECT_FALSE(probed.says("fails the test")) << probed.said;
    }
}

TEST_F(FailingCalls, OfOneKernelsCodeDoNotSwitchOffWhatTheDriverHas) {
    if (!probe("", QUERN_MOCK_LOADER, "RunsHalves").says("as halves")) {
        GTEST_SKIP() << "the driver has no float16";
    }
    int without = 0;
    for (const Probed& probed : each_pipeline("-13")) {
        // Where a test is what fails, the driver is warned of.
        if (probed.says("fails the test")) continue;
        without +=
            probed.is_as_promised() && probed.says("other: right\nother: right\nas halves\n");
    }
    EXPECT_EQ(without, 1);
}

/// SwiftShader, which has no float16, is not asked for matrices.
TEST_F(FailingCalls, MatricesThatADriverDoesNotCompileAreNotUsed) {
    const Probed none = probe("no matrices", QUERN_MOCK_LOADER, "RunsMatrices");
    EXPECT_TRUE(none.ended_well) << none.said;
    EXPECT_FALSE(none.says("wrong")) << none.said;
    if (none.says("SwiftShader: right")) {
        EXPECT_FALSE(none.has_happened) << none.said;
        return;
    }
    EXPECT_TRUE(none.has_happened);
    EXPECT_TRUE(none.says("other: right\nother: right\n")) << none.said;
    const std::string warning = "fails the test of products of matrices of ";
    const std::size_t first = none.said.find(warning);
    ASSERT_NE(first, std::string::npos) << none.said;
    EXPECT_TRUE(none.says(" by subgroups: vkCreateShaderModule")) << none.said;
    EXPECT_TRUE(none.says("; each lane multiplies for itself instead")) << none.said;
    EXPECT_EQ(none.said.find(warning, first + 1), std::string::npos) << "a warning for each";
}

TEST_F(FailingCalls, Float16ThatADriverGetsWrongIsComputedWithAsFloat32) {
    const Probed as_it_is = probe("", QUERN_MOCK_LOADER, "RunsHalves", "off", Drivers::All);
    EXPECT_TRUE(as_it_is.is_as_promised()) << as_it_is.said;
    EXPECT_FALSE(as_it_is.says("SwiftShader: right\nas halves")) << "it has none";
    EXPECT_FALSE(as_it_is.says("fails the test")) << as_it_is.said;
    if (!as_it_is.says("as halves")) GTEST_SKIP() << "no driver has float16";
    const Probed other =
        probe("other halves", QUERN_MOCK_LOADER, "RunsHalves", "off", Drivers::All);
    EXPECT_TRUE(other.has_happened);
    EXPECT_TRUE(other.is_as_promised()) << other.said;
    EXPECT_FALSE(other.says("as halves")) << other.said;
    const std::string warning = "fails the test of arithmetic of float16 as it is: expected ";
    const std::size_t first = other.said.find(warning);
    ASSERT_NE(first, std::string::npos) << other.said;
    EXPECT_TRUE(other.says("; it is computed with as float32 instead")) << other.said;
    EXPECT_EQ(other.said.find(warning, first + 1), std::string::npos) << "a warning for each";
}

TEST_F(FailingCalls, NoneAndGroupsOfIndependentPointsAreWholeSubgroups) {
    const Probed as_it_is = probe("", QUERN_MOCK_LOADER, "RunsIndependentPoints");
    EXPECT_TRUE(
        as_it_is.says("vulkan:0: right\n64 invocations, a point each\n"
                      "vulkan:0: right\n64 invocations, 16 lanes of each of 4 points\n"))
        << as_it_is.said;
    const Probed wide = probe("one wide subgroup", QUERN_MOCK_LOADER, "RunsIndependentPoints");
    EXPECT_TRUE(wide.has_happened);
    EXPECT_TRUE(
        wide.says("vulkan:0: right\n128 invocations, a point each\n"
                  "vulkan:0: right\n128 invocations, 16 lanes of each of 8 points\n"))
        << wide.said;
}

/// As llvmpipe does, of which that is known by its name.
TEST_F(FailingCalls, NoneAndFloatsAreHiddenFromAnUnknownDriverThatFoldsThemWrongly) {
    const std::string hidden = "fails the test of floats that it folds";
    const Probed known = probe("", QUERN_MOCK_LOADER, "RunsWhatFolds", "off", Drivers::All);
    EXPECT_TRUE(known.is_as_promised()) << known.said;
    EXPECT_FALSE(known.says(hidden)) << known.said;
    const Probed unknown =
        probe("unknown driver", QUERN_MOCK_LOADER, "RunsWhatFolds", "off", Drivers::All);
    EXPECT_TRUE(unknown.has_happened);
    EXPECT_TRUE(unknown.is_as_promised()) << unknown.said;
    EXPECT_EQ(unknown.says(hidden), unknown.says("other: right")) << unknown.said;
}

TEST_F(FailingCalls, NoneAndExplainSaysWhatAWorkGroupOfLanesIs) {
    const Probed card = probe("graphics card", QUERN_MOCK_LOADER, "ExplainsGroups");
    EXPECT_TRUE(card.has_happened);
    EXPECT_TRUE(card.says("\nschedule    i: grid; j: vector 16")) << card.said;
    EXPECT_TRUE(card.says("\nwork-groups 16 lanes in subgroups of ")) << card.said;
    EXPECT_TRUE(card.says(", one point; 128 bytes shared, ")) << card.said;
}

TEST_F(FailingCalls, NoneAndSubgroupsAreNotUsedWhereAGroupHasTooFewOfThem) {
    const Probed few = probe("few subgroups", QUERN_MOCK_LOADER, "RunsGroups");
    if (!few.has_happened) GTEST_SKIP() << "the driver's subgroups have one size";
    EXPECT_TRUE(few.says("vulkan:0: right\nvulkan:0: right\n")) << few.said;
    EXPECT_TRUE(few.says("16 lanes, one point; 128 bytes shared, 2 barriers")) << few.said;
}

/// llvmpipe's subgroups are as wide as its vectors, and those as wide as it is told.
TEST_F(FailingCalls, NoneAndAGroupThatIsOneSubgroupMeetsAsOne) {
    ::setenv("LP_NATIVE_VECTOR_WIDTH", "512", 1);
    const Probed probed = probe("", QUERN_MOCK_LOADER, "RunsShared", "off", Drivers::All);
    ::unsetenv("LP_NATIVE_VECTOR_WIDTH");
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_FALSE(probed.says("fails the test")) << probed.said;
    if (!probed.says("other: ")) GTEST_SKIP() << "no llvmpipe";
    const std::string lanes = "other: right, 16 lanes in subgroups of 16, one point; ";
    EXPECT_TRUE(probed.says(lanes + "160 bytes shared, 2 barriers\n")) << probed.said;
    EXPECT_TRUE(probed.says(lanes + "0 bytes shared, 2 barriers\n")) << probed.said;
}

/// What the caches of pipelines began with.
std::set<std::string> caches_of(const Probed& probed) {
    std::set<std::string> sizes;
    std::istringstream lines(probed.said);
    const std::string mark = "mock: cache of ";
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(mark)) sizes.insert(line.substr(mark.size()));
    }
    return sizes;
}

TEST_F(FailingCalls, NoneAndWhatTheDriverCompiledIsKeptForTheNextProcess) {
    const TestFolder cache;
    const auto run = [&](const char* order) {
        const Probed probed = probe(order, QUERN_MOCK_LOADER, "Runs", cache.path());
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        EXPECT_TRUE(probed.has_happened);
        EXPECT_FALSE(probed.says("warning")) << probed.said;
        return caches_of(probed);
    };
    using Sizes = std::set<std::string>;
    EXPECT_EQ(run("keeps code"), Sizes{"0 bytes"});
    EXPECT_EQ(run("keeps code"), Sizes{"96 bytes"});
}

TEST_F(FailingCalls, OfCachesOfPipelinesAreDoneWithout) {
    const TestFolder cache;
    for (const char* order : {"vkCreatePipelineCache 1 -1", "vkGetPipelineCacheData 1 -2",
                              "vkGetPipelineCacheData 2 5"}) {
        const Probed probed = probe(order, QUERN_MOCK_LOADER, "Runs", cache.path());
        EXPECT_TRUE(probed.has_happened) << order;
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        EXPECT_TRUE(probed.says("vulkan:0: right\nvulkan:0: right\n")) << probed.said;
    }
}

TEST_F(FailingCalls, NoneAndWhatADriverOfAnotherDeviceCompiledIsNotUsed) {
    const TestFolder cache;
    for (int n = 0; n < 2; ++n) {
        const Probed probed = probe("keeps foreign code", QUERN_MOCK_LOADER, "Runs", cache.path());
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        EXPECT_EQ(caches_of(probed), std::set<std::string>{"0 bytes"});
    }
}

}  // namespace
}  // namespace quern
#endif

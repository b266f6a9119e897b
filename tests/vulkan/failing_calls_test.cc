// What a program sees where Vulkan does not do what it was asked, and on devices unlike those here.
// Each case is a process of its own (probed.h).

#include "tests/vulkan/probed.h"

#ifdef QUERN_MOCK_LOADER
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace quern {
namespace {

TEST_F(FailingCalls, NoneAndTheDeviceIsRight) {
    const Probed probed = probe("");
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("vulkan:0: right\nvulkan:0: right\n")) << probed.said;
}

TEST_F(FailingCalls, NoLoaderNoDeviceAndOneThatLacksSomethingAreE0601WithTheReason) {
    const struct {
        const char* order;
        const char* reason;
    } cases[] = {
        {"no devices", "no driver has a device"},
        {"old", "lacks Vulkan 1.2: it has 1.1"},
        {"no timelines", "lacks timelineSemaphore"},
        {"no queue", "lacks a queue for compute"},
        {"old loader", "the Vulkan loader is older than 1.2"},
        {"vkCreateInstance 1 -3", "vkCreateInstance: the driver does not start"},
        {"vkEnumeratePhysicalDevices 1 -3",
         "vkEnumeratePhysicalDevices: the driver does not start"},
        {"vkEnumeratePhysicalDevices 2 -1",
         "vkEnumeratePhysicalDevices: the host is out of memory"},
    };
    for (const auto& c : cases) {
        const Probed probed = probe(c.order);
        EXPECT_TRUE(probed.has_happened) << c.order;
        EXPECT_TRUE(probed.is_as_promised()) << c.order << "\n" << probed.said;
        EXPECT_TRUE(probed.says("E0601")) << c.order << "\n" << probed.said;
        EXPECT_TRUE(probed.says(c.reason)) << c.order << "\n" << probed.said;
    }
    // What is no library is no loader.
    const auto folder =
        std::filesystem::temp_directory_path() / ("quern-no-loader-" + std::to_string(::getpid()));
    std::filesystem::create_directory(folder);
    for (const char* name : {"libvulkan.so.1", "libvulkan.so"})
        std::ofstream(folder / name) << "no";
    const Probed probed = probe("", folder);
    std::filesystem::remove_all(folder);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("there is no Vulkan loader")) << probed.said;
}

TEST_F(FailingCalls, NoneWhereTheHostSeesMemoryPastItsCaches) {
    const Probed cached = probe("", QUERN_MOCK_LOADER, "SaysMemory");
    EXPECT_TRUE(cached.says("seen\n") && !cached.says("not seen\n")) << cached.said;
    const Probed uncached = probe("uncached memory", QUERN_MOCK_LOADER, "SaysMemory");
    EXPECT_TRUE(uncached.has_happened);
    EXPECT_TRUE(uncached.says("not seen\n")) << uncached.said;
    const Probed used = probe("uncached memory");
    EXPECT_TRUE(used.is_as_promised()) << used.said;
    EXPECT_TRUE(used.says("vulkan:0: right\nvulkan:0: right\n")) << used.said;
}

/// As AMD's processors with graphics do.
TEST_F(FailingCalls, NoneWhereADeviceWithoutMemoryCallsPartOfTheHostsItsOwn) {
    const Probed card = probe("divided memory", QUERN_MOCK_LOADER, "SaysMemory");
    EXPECT_TRUE(card.says("not seen\n")) << card.said;
    const Probed integrated = probe("divided memory; integrated");
    EXPECT_TRUE(integrated.has_happened);
    EXPECT_TRUE(integrated.is_as_promised()) << integrated.said;
    EXPECT_TRUE(integrated.says("vulkan:0: right\nvulkan:0: right\n")) << integrated.said;
    EXPECT_TRUE(integrated.says("mock: memory of type 1")) << integrated.said;
    EXPECT_FALSE(integrated.says("mock: memory of type 0")) << integrated.said;
}

TEST_F(FailingCalls, NoneWhereTheHostDoesNotSeeTheDevicesMemory) {
    const Probed probed = probe("memory of its own");
    EXPECT_TRUE(probed.has_happened);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("vulkan:0: right\nvulkan:0: right\n")) << probed.said;
}

/// Whoever does not wait for the other queue finds that it has done nothing.
TEST_F(FailingCalls, NoneWhereAQueueOnlyCopies) {
    const Probed probed = probe("memory of its own; transfer queue");
    EXPECT_TRUE(probed.has_happened);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("vulkan:0: right\nvulkan:0: right\n")) << probed.said;
    EXPECT_TRUE(probed.says("mock: a transfer")) << probed.said;
    EXPECT_FALSE(probed.says("a buffer of one family")) << probed.said;
    // That it has ended says nothing of what the queue of launches sees.
    const Probed quick =
        probe("memory of its own; transfer queue; quick transfers", QUERN_MOCK_LOADER, "RunsOften");
    EXPECT_TRUE(quick.says("vulkan:0: right\nvulkan:0: right\nvulkan:0: right\n")) << quick.said;
    std::size_t rounds = 0;
    for (std::size_t at = quick.said.find("a round"); at != std::string::npos; ++rounds) {
        const std::size_t next = quick.said.find("a round", at + 1);
        const std::string round = quick.said.substr(at, next - at);
        EXPECT_NE(round.find("a wait for a transfer"), std::string::npos) << round;
        EXPECT_NE(round.find("a transfer that waits for launches"), std::string::npos) << round;
        at = next;
    }
    EXPECT_EQ(rounds, 3u);
    // Nothing is copied where the host sees the memory.
    const Probed seen = probe("transfer queue");
    EXPECT_TRUE(seen.says("vulkan:0: right\nvulkan:0: right\n")) << seen.said;
    EXPECT_FALSE(seen.says("mock: a transfer")) << seen.said;
}

TEST_F(FailingCalls, NoneAndTheHostSeesEachSubmission) {
    const Probed probed = probe("watch barriers");
    EXPECT_TRUE(probed.has_happened);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_FALSE(probed.says("does not see")) << probed.said;
}

TEST_F(FailingCalls, NoneAndPartsOfALaunchWaitForEachOtherWhereTheyShareScratch) {
    const Probed probed = probe("few groups; watch barriers", QUERN_MOCK_LOADER, "RunsInParts");
    EXPECT_TRUE(probed.has_happened);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    const std::string beside = "beside the one before", arrays = "with arrays";
    const std::size_t second = probed.said.find(arrays);
    ASSERT_NE(second, std::string::npos) << probed.said;
    EXPECT_LT(probed.said.find(beside), second) << probed.said;
    EXPECT_EQ(probed.said.find(beside, second), std::string::npos) << probed.said;
}

TEST_F(FailingCalls, NoneWhereBuffersHaveNoAddressesAndAreBound) {
    for (const char* order : {"no addresses", "no memory model", "no addresses; coarse bindings"}) {
        const Probed probed = probe(order);
        EXPECT_TRUE(probed.has_happened);
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        EXPECT_TRUE(probed.says("vulkan:0: right\nvulkan:0: right\n")) << probed.said;
        const Probed groups = probe(order, QUERN_MOCK_LOADER, "RunsGroups");
        EXPECT_TRUE(groups.says("vulkan:0: right\nvulkan:0: right\n")) << groups.said;
        const Probed parts = probe(order, QUERN_MOCK_LOADER, "RunsParts");
        EXPECT_TRUE(parts.says("vulkan:0: right\nvulkan:0: right\nvulkan:0: right\n"))
            << parts.said;
    }
}

TEST_F(FailingCalls, AKernelOfMoreBuffersThanAreBoundIsE0600) {
    const Probed probed = probe("no addresses; few bindings");
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("E0600")) << probed.said;
    EXPECT_TRUE(
        probed.says("a kernel of 3 bindings: it has 2 "
                    "(maxPerStageDescriptorStorageBuffers)"))
        << probed.said;
    EXPECT_TRUE(probe("few bindings").says("vulkan:0: right\nvulkan:0: right\n"))
        << "where they have addresses none is bound";
}

TEST_F(FailingCalls, ABufferThatIsTooLargeToBindIsBoundInPieces) {
    const Probed large = probe("no addresses; small bindings", QUERN_MOCK_LOADER, "RunsLarge");
    EXPECT_TRUE(large.is_as_promised()) << large.said;
    EXPECT_TRUE(large.says("vulkan:0: right")) << large.said;
    EXPECT_FALSE(large.says("Error")) << large.said;
    const Probed addressed = probe("small bindings", QUERN_MOCK_LOADER, "RunsLarge");
    EXPECT_TRUE(addressed.is_as_promised()) << addressed.said;
    EXPECT_FALSE(addressed.says("Error")) << addressed.said;
    // llvmpipe takes minutes to compile what the validation layer adds to code.
    for (const Drivers which : {Drivers::FirstWithoutLayers, Drivers::Last}) {
        const Probed pieces =
            probe("no addresses; tiny bindings", QUERN_MOCK_LOADER, "RunsPieces", "off", which);
        EXPECT_TRUE(pieces.is_as_promised()) << pieces.said;
        EXPECT_TRUE(pieces.has_happened) << pieces.said;
        EXPECT_TRUE(pieces.says("vulkan:0: right\n") || pieces.says("vulkan:1: right\n"))
            << pieces.said;
    }
}

TEST_F(FailingCalls, ABufferThatIsTooLargeForAllBindingsIsAnError) {
    const Probed probed =
        probe("no addresses", QUERN_MOCK_LOADER, "RunsHuge", "off", Drivers::Last);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    // llvmpipe has 32 bindings in all, which the pieces of 4 GiB and the rest are more than.
    EXPECT_TRUE(
        probed.says("a kernel of 34 bindings, since buffers above maxStorageBufferRange ") ||
        probed.says("DeviceError [vulkan:0] expected at most 4294967040 bytes "
                    "(maxStorageBufferRange) in one "
                    "buffer of a kernel, got 4294971392\n"))
        << probed.said;
}

TEST_F(FailingCalls, ArraysOfAPointThatAreTooLargeToBindAreAnError) {
    const Probed probed = probe("no addresses; tiny bindings", QUERN_MOCK_LOADER, "RunsArrays");
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says(
        "expected at most 3840 bytes (maxStorageBufferRange) in the arrays of a point, got "))
        << probed.said;
}

TEST_F(FailingCalls, NoneWhereADeviceHasIntegersOf64BitsButNoFloats) {
    const Probed probed =
        probe("no float64", QUERN_MOCK_LOADER, "RunsFloat64", "off", Drivers::All);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.has_happened) << probed.said;
    EXPECT_TRUE(probed.says("right, 64 invocations, a point each; float64 as integers\n"))
        << probed.said;
}

TEST_F(FailingCalls, APieceMoreThanAreBoundIsE0600) {
    const Probed probed =
        probe("no addresses; few bindings; small bindings", QUERN_MOCK_LOADER, "RunsLarge");
    EXPECT_TRUE(
        probed.says("a kernel of 9 bindings, since buffers above maxStorageBufferRange are "
                    "several: it has 2 (maxPerStageDescriptorStorageBuffers)"))
        << probed.said;
}

/// The copies between a step and the one that is next.
std::string copies_of(const Probed& probed, const std::string& step) {
    const std::size_t begin = probed.said.find(step + ":\n");
    if (begin == std::string::npos) return "no such step";
    std::string all;
    std::istringstream lines(probed.said.substr(begin + step.size() + 2));
    for (std::string line; std::getline(lines, line) && line.back() != ':';) {
        const std::string mark = "mock: ";
        const std::size_t end = line.find(" the device");
        if (!line.starts_with(mark) || end == std::string::npos) continue;
        all += (all.empty() ? "" : ", ") + line.substr(mark.size(), end - mark.size());
    }
    return all;
}

/// So the layer sees what it is there for, in copies at least: of what kernels do with memory it
/// reports nothing.
TEST_F(FailingCalls, NoneAndAHazardEndsAProgramUnderTheValidationLayer) {
    if (!std::getenv("VK_INSTANCE_LAYERS")) GTEST_SKIP() << "VK_INSTANCE_LAYERS is not set";
    const Probed probed = probe("memory of its own; no barriers", QUERN_MOCK_LOADER, "RunsChain");
    EXPECT_TRUE(probed.says("SYNC-HAZARD-READ-AFTER-WRITE")) << probed.said;
    EXPECT_FALSE(probed.ended_well);
}

TEST_F(FailingCalls, NoneAndWhatOneSideHasWrittenIsCopiedOnceToTheOther) {
    const Probed probed = probe("memory of its own", QUERN_MOCK_LOADER, "RunsChain");
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_EQ(copies_of(probed, "a chain"), "4000 bytes to");
    EXPECT_EQ(copies_of(probed, "read"), "4000 bytes from");
    EXPECT_EQ(copies_of(probed, "read again"), "");
    EXPECT_EQ(copies_of(probed, "used again"), "40 bytes from");
    EXPECT_EQ(copies_of(probed, "operand read"), "");
    EXPECT_EQ(copies_of(probed, "used after reading"), "");
    EXPECT_EQ(copies_of(probed, "written"), "");
    EXPECT_EQ(copies_of(probed, "used after writing"), "4000 bytes to, 4000 bytes from");
    EXPECT_EQ(copies_of(probed, "result written"),
              "4000 bytes to, 4000 bytes from, 4000 bytes from");
    EXPECT_EQ(copies_of(probed, "used after the cpu"), "");
    EXPECT_EQ(copies_of(probed, "large"),
              "67108864 bytes to, 16777216 bytes to, 67108864 bytes from, 16777216 bytes from");
}

TEST_F(FailingCalls, APieceThatIsTooLargeIsOutOfMemoryThatNamesTheLimit) {
    const Probed probed = probe("small pieces", QUERN_MOCK_LOADER, "RunsLarge");
    EXPECT_TRUE(probed.has_happened);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("vulkan:0: right")) << probed.said;
    const std::string error =
        "OutOfMemory [vulkan:0] expected at most 50331648 bytes in one piece "
        "(maxMemoryAllocationSize), got 67108864\n";
    EXPECT_TRUE(probed.says(error + error)) << probed.said;
}

TEST_F(FailingCalls, OfAllAllocationsAreOutOfMemoryThatNamesWhatTheDeviceHas) {
    const Probed probed = probe("vkAllocateMemory 0 -2");
    EXPECT_TRUE(probed.has_failed);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    const std::size_t at = probed.said.find("OutOfMemory [vulkan:0] expected room for ");
    ASSERT_NE(at, std::string::npos) << probed.said;
    EXPECT_NE(probed.said.find("bytes, got none of the device's ", at), std::string::npos);
}

TEST_F(FailingCalls, OfStagingAreOutOfMemoryOfTheHosts) {
    const Probed probed = probe("memory of its own; vkMapMemory 0 -5");
    EXPECT_TRUE(probed.has_failed);
    EXPECT_TRUE(probed.is_as_promised()) << probed.said;
    EXPECT_TRUE(probed.says("OutOfMemory [vulkan:0] expected room for ")) << probed.said;
    EXPECT_TRUE(probed.says("bytes of the host's memory that the device sees, got none"))
        << probed.said;
}

TEST_F(FailingCalls, OfLargeStagingAreDoneWithLess) {
    for (const char* beside : {"", "; transfer queue"}) {
        const Probed probed = probe(std::string("memory of its own; little staging") + beside,
                                    QUERN_MOCK_LOADER, "RunsChain");
        EXPECT_TRUE(probed.has_happened);
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        const std::string copies = copies_of(probed, "large");
        EXPECT_TRUE(copies.starts_with("65536 bytes to, ")) << copies;
        EXPECT_TRUE(copies.ends_with(", 65536 bytes from")) << copies;
    }
}

TEST_F(FailingCalls, LongLaunchesAreSeveralSubmissions) {
    const Probed probed = probe("say submissions", QUERN_MOCK_LOADER, "RunsLong");
    EXPECT_TRUE(probed.ended_well) << probed.said;
    const auto submissions = [&](const std::string& from, const std::string& to) {
        const std::string what = "mock: submission\n";
        int count = 0;
        const std::size_t begin = probed.said.find(from), end = probed.said.rfind(to);
        for (std::size_t at = begin; (at = probed.said.find(what, at)) < end; ++at) ++count;
        return count;
    };
    EXPECT_EQ(submissions("64 points: right", "64 points: right"), 1) << probed.said;
    // 200,000 points of 2,000 iterations of five instructions or more.
    EXPECT_GE(
        submissions("64 points: right\nmock: submission\n64 points: right", "200000 points: right"),
        3)
        << probed.said;
}

TEST_F(FailingCalls, OfWhatMakesThingsAreErrorsAndTheDeviceIsUsedAgain) {
    for (const char* function :
         {"vkCreateDevice", "vkCreateCommandPool", "vkAllocateCommandBuffers",
          "vkCreatePipelineLayout", "vkCreateSemaphore", "vkCreateBuffer", "vkAllocateMemory",
          "vkBindBufferMemory", "vkMapMemory", "vkCreateShaderModule",
          "vkCreateComputePipelines"}) {
        for (const Probed& probed : each_call(function, "-2")) {
            EXPECT_TRUE(probed.says("vulkan:0: right\n")) << function << "\n" << probed.said;
            EXPECT_FALSE(probed.says("DeviceLost") || probed.says("DeviceError")) << probed.said;
        }
    }
}

TEST_F(FailingCalls, ForWantOfMemoryAreSaidByExplain) {
    for (const Probed& probed : each_call("vkCreateComputePipelines", "-2", {}, "ExplainsGroups")) {
        EXPECT_TRUE(
            probed.says("none: [vulkan:0] vkCreateComputePipelines: the device is out of "
                        "memory, which has "))
            << probed.said;
    }
}

TEST_F(FailingCalls, ForWantOfMemoryAreOutOfMemoryAndOthersDeviceErrors) {
    const struct {
        const char* order;
        const char* error;
    } cases[] = {
        {"vkCreateDevice 1 -2",
         "OutOfMemory [vulkan:0] vkCreateDevice: the device is out of memory, which has "},
        {"vkCreateDevice 1 -1",
         "OutOfMemory [vulkan:0] vkCreateDevice: the host is out of memory\n"},
        {"vkCreateDevice 1 -8", "DeviceError [vulkan:0] vkCreateDevice: a feature is not there\n"},
        {"vkCreateSemaphore 1 -2",
         "OutOfMemory [vulkan:0] vkCreateSemaphore: the device is out of memory, which has "},
        {"vkCreateShaderModule 1 -1",
         "OutOfMemory [vulkan:0] vkCreateShaderModule: the host is out of memory\n"},
        {"vkCreateComputePipelines 1 -2",
         "OutOfMemory [vulkan:0] vkCreateComputePipelines: the device is out of memory, which "},
    };
    for (const auto& c : cases) {
        const Probed probed = probe(c.order);
        EXPECT_TRUE(probed.has_failed) << c.order;
        EXPECT_TRUE(probed.is_as_promised()) << c.order << "\n" << probed.said;
        EXPECT_TRUE(probed.says(c.error)) << c.order << "\n" << probed.said;
        EXPECT_TRUE(probed.says("vulkan:0: right\n")) << c.order << "\n" << probed.said;
    }
}

TEST_F(FailingCalls, OfWhatBindsBuffersAreErrorsAndTheDeviceIsUsedAgain) {
    for (const char* function : {"vkCreateDescriptorSetLayout", "vkCreatePipelineLayout",
                                 "vkCreateDescriptorPool", "vkAllocateDescriptorSets"}) {
        for (const Probed& probed : each_call(function, "-2", "no addresses; ")) {
            EXPECT_TRUE(probed.says(std::string("OutOfMemory [vulkan:0] ") + function +
                                    ": the device is out of memory"))
                << probed.said;
            EXPECT_TRUE(probed.says("vulkan:0: right\n")) << function << "\n" << probed.said;
        }
    }
}

TEST_F(FailingCalls, OfWhatMakesStagingAndTransfersAreErrorsAndTheDeviceIsUsedAgain) {
    for (const char* function :
         {"vkCreateDevice", "vkCreateCommandPool", "vkAllocateCommandBuffers", "vkCreateSemaphore",
          "vkCreateBuffer", "vkAllocateMemory", "vkBindBufferMemory", "vkMapMemory"}) {
        for (const Probed& probed : each_call(function, "-2", kStaged)) {
            EXPECT_TRUE(probed.says("vulkan:0: right\n")) << function << "\n" << probed.said;
            EXPECT_FALSE(probed.says("DeviceLost") || probed.says("DeviceError")) << probed.said;
        }
    }
}

/// `beside`: other orders.
void expect_lost(const std::string& function, const std::string& beside = {}) {
    int errors = 0, unseen = 0;
    for (const Probed& probed : each_call(function, "-4", beside)) {
        if (probed.says("vulkan:0: right\nvulkan:0: right\n")) {
            ++unseen;
            continue;
        }
        ++errors;
        // Only waits at the end of the process, which are the last, are seen by nobody.
        EXPECT_EQ(unseen, 0) << probed.said;
        EXPECT_TRUE(probed.says("DeviceLost [vulkan:0] " + function + ": the device is lost"))
            << probed.said;
    }
    EXPECT_GT(errors, 0) << function;
}

TEST_F(FailingCalls, OfTheQueueAreErrorsFromThenOn) {
    for (const char* function :
         {"vkResetCommandPool", "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkQueueSubmit",
          "vkWaitSemaphores", "vkGetSemaphoreCounterValue"}) {
        expect_lost(function);
    }
}

/// A device that hangs is reset, and what it was at then counts as ended, or as anything.
TEST_F(FailingCalls, OfADeviceThatHangsAreErrorsWhateverItSaysHasEnded) {
    for (const char* result : {"0", "1"}) {
        for (const Probed& probed : each_call("vkHang", result)) {
            EXPECT_TRUE(probed.says("DeviceLost [vulkan:0] vk")) << probed.said;
            EXPECT_TRUE(probed.says("the device is lost")) << probed.said;
        }
    }
}

/// The device may run on what nobody could wait for.
TEST_F(FailingCalls, OfWaitsLeaveThePipelinesOfWhatWasNotSeenToEnd) {
    for (const char* result : {"-4", "-1"}) {
        const auto all =
            each_call("vkWaitSemaphores", result, "watch pipelines; ", "RunsAndForgets");
        EXPECT_GT(all.size(), 1u);
        for (const Probed& probed : all) {
            EXPECT_FALSE(probed.says("a pipeline in use goes")) << probed.said;
        }
    }
}

TEST_F(FailingCalls, NoneAndAChildOfForkIsToldThatTheDeviceIsItsParents) {
    for (const std::string order : {"", kStaged}) {
        const Probed probed = probe(order, QUERN_MOCK_LOADER, "Forks");
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        const std::string lost =
            "child: DeviceLost [vulkan:0] the device was opened before fork(), by this process's "
            "parent\n";
        EXPECT_TRUE(probed.says(lost + lost + lost + lost + lost + lost + "child: right\n"))
            << probed.said;
        EXPECT_TRUE(probed.says("child: ended with 0\n")) << probed.said;
    }
}

TEST_F(FailingCalls, NoneAndWhatWasBroughtForALaunchThatDidNotComeIsFree) {
    for (const char* hidden : {"memory of its own", "memory of its own; transfer queue"}) {
        const Probed probed = probe(hidden, QUERN_MOCK_LOADER, "BringsAndDrops");
        EXPECT_TRUE(probed.is_as_promised()) << probed.said;
        EXPECT_TRUE(probed.says("to the device\n")) << probed.said;
        EXPECT_TRUE(probed.says("4194304 bytes in use\n")) << hidden << "\n" << probed.said;
    }
}

TEST_F(FailingCalls, OfTransfersAreErrorsFromThenOn) {
    for (const char* function : {"vkBeginCommandBuffer", "vkQueueSubmit", "vkWaitSemaphores"}) {
        expect_lost(function, kStaged);
    }
}

TEST_F(FailingCalls, AQueueThatIsFullTakesMoreWhenItHasDoneItsWork) {
    for (const std::string beside : {"", kStaged}) {
        for (const Probed& probed : each_call("vkQueueSubmit", "-2", beside)) {
            EXPECT_TRUE(probed.says("vulkan:0: right\nvulkan:0: right\n")) << probed.said;
        }
        const Probed full = probe(beside + "vkQueueSubmit 0 -2");
        EXPECT_TRUE(full.is_as_promised()) << full.said;
        EXPECT_TRUE(full.says("[vulkan:0] vkQueueSubmit: the device is out of memory"))
            << full.said;
    }
}

}  // namespace
}  // namespace quern
#endif

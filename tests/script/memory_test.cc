// Acceptance checks 101 to 105 as far as there are devices for them: memory that a script manages.

#include <cstring>

#include "script_helpers.h"
#include "tests/tensor_test.h"

namespace quern::script {
namespace memory_test {

const Bindings kX = {{"x", counting({4})}};
const std::string kPool = "let pool = memory_pool(device=\"interpreter\", size=1MB)\n";

TEST(ScriptMemory, Check101_Allocate) {
    const Results results = run_text(
        "let a = allocate(shape=[2, 3])\n"
        "let b = allocate(shape=[0], dtype=int64, device=\"interpreter\", pinned=true)\n"
        "let c = allocate([5], bool)\n");
    EXPECT_EQ(tensor_in(results, "a").shape(), (Shape{2, 3}));
    EXPECT_EQ(tensor_in(results, "a").dtype(), DType::Float32);
    EXPECT_EQ(tensor_in(results, "b").dtype(), DType::Int64);
    EXPECT_EQ(tensor_in(results, "b").device(), Device("interpreter"));
    EXPECT_EQ(tensor_in(results, "c").dtype(), DType::Bool);
    EXPECT_EQ(error_of("let a = allocate(shape=[2, -1])"), "E0617 at 1:24");
    EXPECT_EQ(error_of("let a = allocate(shape=[4611686018427387904, 4])"), "E0618 at 1:24");
    EXPECT_EQ(error_of("let a = allocate(shape=[2], device=\"cuda:9\")"), "E0601 at 1:36");
    EXPECT_EQ(error_of("let a = allocate(shape=[2], dtype=3)"), "E0441 at 1:35");
    EXPECT_EQ(error_of("let a = allocate(shape=[2], pinned=3)"), "E0441 at 1:36");
    EXPECT_EQ(error_of("let a = allocate(shape=2)"), "E0441 at 1:24");
    EXPECT_EQ(error_of("let a = allocate(dtype=int8)"), "E0408 at 1:9");
    EXPECT_EQ(error_of("let a = allocate(extents=[2])"), "E0408 at 1:18");
}

TEST(ScriptMemory, OfAllocateIsNanWhereTheEnvironmentAsksForIt) {
    const char* fill = std::getenv("QUERN_FILL");
    if (!fill || std::string(fill) != "nan") GTEST_SKIP() << "QUERN_FILL is not nan";
    const Results results = run_text(kPool +
                                     "let a = allocate(shape=[3])\n"
                                     "let b = allocate(shape=[3], device=\"cpu\", pinned=true)\n"
                                     "let c = pool.allocate(shape=[3])\n");
    for (const char* name : {"a", "b", "c"}) {
        SCOPED_TRACE(name);
        for (const double x : tensor_in(results, name).values()) EXPECT_TRUE(std::isnan(x));
    }
}

TEST(ScriptMemory, Check102_ToDeviceKeepsEveryBitAndSharesStorageWhereItCan) {
    const Tensor x = kX.at("x").as<Tensor>()->to(Device("interpreter"));
    for (const DeviceInfo& info : devices()) {
        const Results results = run_text("let there = x.to_device(\"" + info.id +
                                             "\")\nlet back = there.to_device(\"interpreter\")\n"
                                             "let copy = x.to_device(\"" +
                                             info.id + "\", copy=true)\n",
                                         {{"x", x}});
        EXPECT_EQ(tensor_in(results, "there").device().id(), info.id);
        EXPECT_EQ(tensor_in(results, "there").shares_storage_with(x), info.type != "vulkan");
        EXPECT_EQ(tensor_in(results, "back").device(), Device("interpreter"));
        EXPECT_EQ(tensor_in(results, "back").values(), (std::vector<double>{0, 1, 2, 3}));
        EXPECT_EQ(tensor_in(results, "copy").device().id(), info.id);
        EXPECT_FALSE(tensor_in(results, "copy").shares_storage_with(x));
        EXPECT_EQ(tensor_in(results, "copy").values(), (std::vector<double>{0, 1, 2, 3}));
    }
}

TEST(ScriptMemory, Check102_ToDeviceAndBackKeepsEveryBitOfEveryDtype) {
    constexpr std::int64_t kCount = 37;
    for (const DType dtype : kAllDTypes) {
        Tensor x = Tensor({kCount}, dtype).to(Device("interpreter"));
        auto* const bytes = static_cast<unsigned char*>(x.data());
        // NaNs of each kind and numbers below the normal ones among them.
        std::uint32_t seed = 1;
        for (std::size_t i = 0; i < x.bytes(); ++i) {
            seed = seed * 1664525u + 1013904223u;
            const auto byte = static_cast<unsigned char>(seed >> 24);
            bytes[i] = dtype == DType::Bool ? byte & 1 : i < 24 ? 0xff : i < 32 ? i % 2 : byte;
        }
        for (const DeviceInfo& info : devices()) {
            const Results results = run_text("let back = x.to_device(\"" + info.id +
                                                 "\", copy=true).to_device(\"interpreter\")\n",
                                             {{"x", x}});
            const Tensor& back = tensor_in(results, "back");
            ASSERT_EQ(back.dtype(), dtype);
            EXPECT_EQ(std::memcmp(back.data(), x.data(), x.bytes()), 0)
                << info.id << ' ' << to_string(dtype);
        }
    }
}

TEST(ScriptMemory, Check103_WithoutACopyTheMemoryIsOneOrItIsRefused) {
    const Tensor x = kX.at("x").as<Tensor>()->to(Device("interpreter"));
    for (const DeviceInfo& info : devices()) {
        const std::string text = "let there = x.to_device(\"" + info.id +
                                 "\", copy=false)\nlet same = "
                                 "there.to_device(\"" +
                                 info.id + "\", copy=false)\n";
        if (info.type == "vulkan") {
            EXPECT_EQ(error_of("let x = allocate(shape=[2], device=\"interpreter\")\n" + text),
                      "E0611 at 2:42");
            continue;
        }
        const Results results = run_text(text, {{"x", x}});
        EXPECT_TRUE(tensor_in(results, "there").shares_storage_with(x));
        EXPECT_TRUE(tensor_in(results, "same").shares_storage_with(x));
    }
    EXPECT_EQ(error_of("let x = allocate(shape=[2], device=\"interpreter\")\n"
                       "let there = x.to_device(\"cuda:9\", copy=false)"),
              "E0601 at 2:25");
}

TEST(ScriptMemory, Check104_PinnedMemoryIsTheHosts) {
    const auto allocated = [](const char* pinned) {
        const Results results = run_text(
            std::string("let a = allocate(shape=[4], device=\"interpreter\"") + pinned + ")\n", {});
        return tensor_in(results, "a").is_pinned();
    };
    EXPECT_TRUE(allocated(", pinned=true"));
    EXPECT_FALSE(allocated(", pinned=false"));
    EXPECT_FALSE(allocated(""));
    for (const DeviceInfo& info : devices()) {
        if (info.id != "vulkan:0") continue;
        EXPECT_EQ(error_of("let a = allocate(shape=[4], device=\"vulkan:0\", pinned=true)\n"),
                  "E0612 at 1:55");
    }
    EXPECT_EQ(error_of("let a = allocate(shape=[4], device=\"cuda:9\", pinned=true)\n"),
              "E0601 at 1:36");
    EXPECT_EQ(error_of("let a = allocate(shape=[4], pinned=1)\n"), "E0441 at 1:36");
}

TEST(ScriptMemory, Check105_Pools) {
    EXPECT_EQ(error_of(kPool + "let a = pool.allocate(shape=[512, 512])\n"
                               "let b = pool.allocate(shape=[1])\n"),
              "E0613 at 3:14");
    EXPECT_EQ(message_of(kPool + "let a = pool.allocate(shape=[512, 256])\n"
                                 "let b = pool.allocate(shape=[512, 512])\n"),
              "the pool has no room for 1048576 bytes: 524288 are free, the largest block has "
              "524288");
    const std::string taken = kPool + "let a = pool.allocate(shape=[512, 512])\npool.free(a)\n";
    EXPECT_EQ(error_of(taken + "let b = pool.allocate(shape=[512, 512])\n"), "no error");
    EXPECT_EQ(error_of(taken + "let b = a |> relu()\n"), "E0614 at 4:9");
    EXPECT_EQ(error_of(taken + "let b = compute(a) { @kernel elementwise; for i in 0..len { "
                               "out[i] = a[i] } }\n"),
              "E0614 at 4:17");
    EXPECT_EQ(error_of(taken + "pool.free(a)\n"), "E0615 at 4:11");
    EXPECT_EQ(error_of(kPool + "let a = pool.allocate(shape=[4])\npool.reset()\nlet b = [a]\n"),
              "E0614 at 4:10");
    const std::string awaited = "pipeline same(t: tensor):\n    return t\n" + kPool +
                                "let a = pool.allocate(shape=[4])\nlet f = same(a) @async\n"
                                "let b = await f\npool.reset()\n";
    for (const char* use :
         {"f32(await f)", "(await f).to_device(\"interpreter\")", "sqrt(await f)",
          "reshape(await f, [2, 2])", "await (f |> reshape([2, 2]))", "await (f |> split(2))",
          "await (f |> permute([0]))", "await (f |> f32())"}) {
        EXPECT_EQ(error_of(awaited + "let c = " + use + "\n").substr(0, 10), "E0614 at 8") << use;
    }
    const std::string listed = kPool + "let a = [pool.allocate(shape=[4])]\npool.reset()\n";
    EXPECT_EQ(error_of(listed + "let b = f64(a[0])\n"), "E0614 at 4:13");
    EXPECT_EQ(error_of(listed + "let b = max(a[0], 1)\n"), "E0614 at 4:13");
    EXPECT_EQ(error_of(listed + "let b = a[0].to_device(\"interpreter\", copy=true)\n"),
              "E0614 at 4:9");
    EXPECT_EQ(error_of(kPool + "pool.free(x)\n", kX), "E0616 at 2:11");
    EXPECT_EQ(error_of(kPool + "let other = memory_pool(size=1MB)\n"
                               "let a = other.allocate(shape=[4])\npool.free(a)\n"),
              "E0616 at 4:11");
    EXPECT_EQ(error_of("x.free(x)\n", kX), "E0441 at 1:1");
    EXPECT_EQ(error_of("let p = memory_pool(size=0)\n"), "E0441 at 1:26");
    EXPECT_EQ(error_of("let p = memory_pool(device=\"interpreter\")\n"), "E0408 at 1:9");
    EXPECT_EQ(error_of(kPool + "let a = pool.allocate(shape=[4], device=\"interpreter\")\n"),
              "E0408 at 2:41");
}

TEST(ScriptMemory, ResultsWithoutMemoryAreNotShownAsNumbers) {
    const Results results = run_text(kPool + "let r = pool.allocate(shape=[4])\npool.reset()\n");
    EXPECT_EQ(to_string(*results.find("r")), "tensor whose memory was taken back");
    EXPECT_EQ(to_string(*results.find("pool")), "memory pool of 1048576 bytes on interpreter");
}

}  // namespace memory_test
}  // namespace quern::script

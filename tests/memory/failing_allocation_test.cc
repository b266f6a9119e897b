// Every allocation of an action fails in turn: the action ends with OutOfMemory, nothing is lost,
// and it works right after.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "quern/error.h"
#include "quern/io.h"
#include "quern/kernel.h"
#include "quern/tensor.h"
#include "tests/memory/failing_allocations.h"

namespace quern {
namespace {

using failing::fail_each_allocation;
using failing::require;

Tensor counting(const Shape& shape) {
    std::vector<float> values(std::size_t(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i);
    return Tensor::from(shape, values);
}

constexpr std::int64_t kRows = 64, kColumns = 300;

TEST(FailingAllocations, LoseNoTensor) {
    const Tensor x = counting({kRows, kColumns});
    Shape shape;
    EXPECT_GT(fail_each_allocation([&] { Tensor(std::move(shape), DType::Float64); },
                                   [&] {
                                       shape = {kRows, kColumns};
                                   }),
              2);
    const std::vector<int> axes = {1, 0};
    EXPECT_GT(fail_each_allocation(
                  [&] {
                      const Tensor turned = x.permute(axes).slice(0, 1, 9, 2).contiguous();
                      const Tensor half = turned.reshape(std::move(shape)).to(DType::Float16);
                      require(half.split(4, 0).at(1).element_count() == kRows);
                      require(half.values().size() == 4 * kRows);
                      require(turned.to(DType::Int64).integers().at(1) == kColumns + 1);
                  },
                  [&] { shape = {-1}; }),
              20);
}

TEST(FailingAllocations, LeaveAdoptedMemoryToItsOwner) {
    float element = 3;
    int released = 0;
    Shape shape;
    std::vector<std::int64_t> strides;
    std::function<void()> release;
    fail_each_allocation(
        [&] {
            const int before = released;
            bool is_adopted = false;
            try {
                const Tensor tensor = Tensor::adopt(&element, std::move(shape), DType::Float32,
                                                    std::move(strides), std::move(release));
                is_adopted = true;
            } catch (const OutOfMemory&) {
                require(released == before);
                throw;
            }
            require(is_adopted && released == before + 1);
        },
        [&] {
            shape = {1, 1};
            strides = {1, 1};
            release = [&] { ++released; };
        });
}

TEST(FailingAllocations, LoseNothingInFiles) {
    const TensorSet set = {{"weight", counting({kRows, kColumns})}, {"bias", counting({3})}};
    const Tensor image = Tensor({40, 30, 3}, DType::UInt8);
    const FileMetadata metadata = {{"format", "pt"}};
    EXPECT_GT(fail_each_allocation([&] {
                  const auto bytes = to_npy(set.at("weight"));
                  require(parse_npy(bytes, "memory").values().back() == kRows * kColumns - 1);
              }),
              10);
    EXPECT_GT(fail_each_allocation([&] {
                  const auto bytes = to_npz(set, {.compress = true});
                  require(parse_npz(bytes, "memory").at("bias").values().back() == 2);
              }),
              10);
    EXPECT_GT(fail_each_allocation([&] {
                  const auto bytes = to_safetensors(set, metadata);
                  require(parse_safetensors(bytes, "memory").at("bias").values().back() == 2);
              }),
              10);
    EXPECT_GT(fail_each_allocation(
                  [&] { require(parse_png(to_png(image), "memory").shape() == image.shape()); }),
              2);
}

TEST(FailingAllocations, LeaveTheFileThatWasThere) {
    const std::string path =
        ::testing::TempDir() + "quern_memory_" + std::to_string(::getpid()) + ".npz";
    const TensorSet old_set = {{"x", counting({5})}}, new_set = {{"x", counting({6})}};
    save_npz(path, old_set);
    fail_each_allocation([&] {
        save_npz(path, old_set);
        try {
            save_npz(path, new_set);
        } catch (const OutOfMemory&) {
            failing::fail_all(false);
            require(load_npz(path).at("x").element_count() == 5);
            throw;
        }
        require(load_npz(path).at("x").element_count() == 6);
    });
    std::remove(path.c_str());
}

constexpr const char* kNormalize = R"(compute(x) {
    @kernel custom
    for i in 0..rows:
        shared var t[columns]: float32
        for j in 0..columns:
            t[j] = x[i, j]
        barrier()
        var total = 0.0
        for j in 0..columns:
            total += t[j]
        for j in 0..columns:
            out[i, j] = t[j] / total * scale
})";

TEST(FailingAllocations, LoseNoKernelThatRuns) {
    const Tensor x = counting({kRows, kColumns});
    for (const DeviceInfo& info : devices()) {
        const Kernel kernel = Kernel(kNormalize).on(Device(info.id));
        // A launch of compiled code allocates its result and no more.
        EXPECT_GT(fail_each_allocation([&] {
                      const Tensor y = kernel(x, arg("scale", 2.0));
                      require(y.shape() == x.shape() && y.values().at(0) == 0);
                  }),
                  info.id == "interpreter" ? 20 : 2)
            << info.id;
    }
}

TEST(FailingAllocations, LoseNoTextThatIsReadAndPrepared) {
    const Tensor x = counting({3, 4});
    int number = 0;
    std::string text, again;
    const long count = fail_each_allocation(
        [&] {
            // LLVM ends the program when memory ends.
            const Kernel kernel = Kernel(std::move(text)).on(Device("interpreter"));
            require(kernel(x, arg("scale", 1.0)).shape() == x.shape());
            require(!Kernel(std::move(again)).explain().empty());
        },
        [&] {
            // A text of its own each time, so that none is known from before.
            text = std::string(kNormalize) + "// " + std::to_string(++number);
            again = text;
        },
        /*keeps=*/true);
    EXPECT_GT(count, 200);
}

TEST(FailingAllocations, OfARefusedTextAreRefusalsToo) {
    std::string text;
    EXPECT_GT(fail_each_allocation(
                  [&] {
                      try {
                          Kernel(std::move(text));
                      } catch (const KernelError& error) {
                          require(error.diagnostics().size() == 1);
                          return;
                      }
                      require(false);
                  },
                  [&] { text = "compute(x) {\n    @kernel custom\n    out = x +\n}"; }),
              10);
}

TEST(FailingAllocations, AreReportedWhenNothingIsLeftForTheMessage) {
    const Tensor x = counting({2, 2});
    std::string message;
    failing::fail_all(true);
    try {
        static_cast<void>(x.values());
    } catch (const OutOfMemory& error) {
        failing::fail_all(false);
        message = error.what();
    }
    failing::fail_all(false);
    EXPECT_EQ(message, "out of memory");
}

TEST(FailingAllocations, SayHowMuchWasAskedFor) {
    const Tensor one = Tensor::from<float>({1}, {1});
    // 2^58 elements that are one in memory.
    const Tensor many =
        Tensor::adopt(const_cast<void*>(one.data()), {std::int64_t{1} << 58}, DType::Float32, {0});
    try {
        static_cast<void>(many.values());
        FAIL() << "expected OutOfMemory";
    } catch (const OutOfMemory& error) {
        EXPECT_STREQ(error.what(),
                     "[values] expected room for 2305843009213693952 bytes, got none from the "
                     "system");
    }
}

}  // namespace
}  // namespace quern

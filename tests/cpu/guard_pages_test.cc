// Operands that end, or begin, at memory that nobody may touch: what a kernel does not read, its
// code does not read either, on any level of instructions.

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/cpu/compiled_run.h"

namespace quern::cpu_test {
namespace {

enum class Edge : std::uint8_t { End, Begin };

/// The same elements beside a page that ends the program.
Tensor beside_a_guard(const Tensor& tensor, Edge edge) {
    const auto page = std::size_t(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = tensor.bytes(), room = (bytes + page - 1) / page * page + page;
    void* const all =
        ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(all, MAP_FAILED);
    auto* const memory = static_cast<std::byte*>(all);
    const bool is_end = edge == Edge::End;
    EXPECT_EQ(::mprotect(is_end ? memory + room - page : memory, page, PROT_NONE), 0);
    std::byte* const data = is_end ? memory + room - page - bytes : memory + page;
    std::memcpy(data, tensor.data(), bytes);
    return Tensor::adopt(data, tensor.shape(), tensor.dtype(), {}, [=] { ::munmap(all, room); });
}

class GuardPages : public Compiled {
protected:
    static void expect_inside(const std::string& text, const std::vector<Tensor>& operands,
                              const Arguments& arguments = {}) {
        for (const Edge edge : {Edge::End, Edge::Begin}) {
            std::vector<Tensor> guarded;
            for (const Tensor& t : operands)
                guarded.push_back(beside_a_guard(t.contiguous(), edge));
            const Case c(text, guarded, arguments);
            const std::optional<Tensor> expected = c.interpreted();
            ASSERT_TRUE(expected);
            for (const cpu::Simd simd : levels_here()) {
                SCOPED_TRACE(cpu::to_string(simd));
                const auto exact = c.compiled(Numerics::Reproducible, simd);
                ASSERT_TRUE(exact);
                EXPECT_TRUE(same_numbers(*exact, *expected));
                if (simd != cpu::chosen_simd()) continue;
                EXPECT_TRUE(c.compiled(Numerics::Strict, simd));
            }
        }
    }
};

TEST_F(GuardPages, AreNotTouchedByTheRestOfALoop) {
    for (const std::int64_t n : {1, 15, 16, 17, 100}) {
        SCOPED_TRACE(n);
        expect_inside(example_text("01"), {uniform({n}, 1)});
        expect_inside(example_text("04"), {uniform({n}, 1)});
        expect_inside(example_text("07"), {uniform({3, n}, 1)});
    }
    for (const DType dtype : {DType::Float16, DType::Int8, DType::Float64}) {
        expect_inside(example_text("01"), {uniform({33}, 1, -9, 9, dtype)});
    }
    expect_inside(example_text("15"), {uniform({2, 35}, 1)});
    expect_inside(example_text("08"), {uniform({35}, 1)});
    expect_inside(example_text("04"), {uniform({9001}, 1)});
    expect_inside(example_text("08"), {uniform({9001}, 1)});
}

TEST_F(GuardPages, AreNotTouchedByProductsAndTheirTiles) {
    for (const auto& [m, k, n] : {std::tuple{5, 18, 20}, {17, 33, 35}, {1, 1, 1}, {16, 16, 16}}) {
        expect_inside(example_text("09"), {uniform({m, k}, 1), uniform({k, n}, 2)});
    }
    const Shape head{1, 1, 37, 5};
    expect_inside(example_text("14"), {uniform(head, 1), uniform(head, 2), uniform(head, 3)});
    expect_inside(example_text("16"), {uniform({3, 19}, 1), uniform({19}, 2), uniform({19}, 3)},
                  {{"eps", 1e-5}});
    expect_inside(example_text("18"),
                  {uniform({1, 2, 3, 6}, 1), uniform({3, 3}, 2), uniform({3, 3}, 3)});
}

TEST_F(GuardPages, AreNotTouchedByWhatAGuardKeepsOut) {
    const Arguments padded{{"stride", std::int64_t(1)}, {"padding", std::int64_t(1)}};
    expect_inside(example_text("11"),
                  {uniform({1, 3, 9, 21}, 6), uniform({5, 3, 3, 3}, 7), uniform({5}, 8)}, padded);
    // Lanes that the condition keeps out would read far away.
    std::vector<std::int64_t> at(37);
    for (std::size_t i = 0; i < at.size(); ++i) {
        const bool is_out = i % 3 == 0;
        at[i] = is_out ? std::int64_t(i % 2 == 0 ? 1 : -1) << 33 : std::int64_t(i % 5);
    }
    const std::vector<Tensor> operands = {uniform({5}, 1), Tensor::from({37}, at)};
    expect_inside(
        "compute(x, at) {\n@kernel custom\nfor i in 0..n:\n  var v = 0.0\n"
        "  if at[i] >= 0 and at[i] < 5: v = x[at[i]]\n  out[i] = v\n}",
        operands);
    expect_inside(
        "compute(x, at) {\n@kernel custom\nfor i in 0..n:\n"
        "  out[i] = select(at[i] >= 0 and at[i] < 5 and x[at[i]] > 0.0, 1.0, 2.0)\n}",
        operands);
    // The next element, but for the last.
    expect_inside(
        "compute(x) {\n@kernel custom\nfor i in 0..n:\n  var v = x[i]\n"
        "  if i + 1 < n: v = v + x[i + 1]\n  out[i] = v\n}",
        {uniform({35}, 1)});
}

}  // namespace
}  // namespace quern::cpu_test
#endif

#include "quern/kernel.h"
#include "quern/runtime/cpu_plugin.h"
#include "tests/tensor_test.h"

namespace quern {
namespace {

const char* const kMatmul = R"(compute(A, B) {
    @kernel matmul
    @workgroup(16, 16)
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K:
            sum += A[i, k] * B[k, j]
        out[i, j] = sum
})";

TEST(Explain, SaysWhatTheTextAloneSays) {
    EXPECT_EQ(Kernel(kMatmul).explain(), R"(kernel      matmul
operands    A float32[M, K]
            B float32[K, N]
result      float32[M, N]
dimensions  M, from axis 0 of 'A' (bare index, line 7)
            N, from axis 1 of 'B' (bare index, line 7)
            K, from axis 1 of 'A' (bare index, line 7); axis 0 of 'B' (bare index, line 7)
parallel    i in 0..M, j in 0..N, on the device's threads
in order        k in 0..K, reduces sum
work-group  16 x 16, innermost first (a hint)
)");
}

TEST(Explain, CountsBytesAndOperationsForGivenOperands) {
    const std::vector<Tensor> operands = {Tensor({3, 5}), Tensor({5, 7})};
    const std::string text = Kernel(kMatmul).explain(operands);
    for (const char* part :
         {"A float32[3, 5]", "result      float32[3, 7]", "K = 5, from axis 1 of 'A'",
          "i in 0..M = 3, j in 0..N = 7", "200 B read, 84 B written",
          "210 arithmetic, 0 function calls", "over 21 points"}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    }
}

TEST(Explain, SaysHowTheCpuRunsTheLoops) {
    if (devices().front().id != "cpu") GTEST_SKIP() << "no compiler plug-in in this build";
    const auto explained = [](const std::string& text, const std::vector<Tensor>& operands,
                              const char* device) {
        return Kernel(text).on(Device(device)).explain(operands);
    };
    const std::vector<Tensor> operands = {Tensor({64, 64}), Tensor({64, 64})};
    const std::string matmul = explained(kMatmul, operands, "cpu");
    const bool has_vectors = cpu::chosen_simd() != cpu::Simd::Scalar;
    const char* const columns = has_vectors ? "; j: vector 16, grid" : "; j: grid";
    for (const char* part : {"schedule    i: grid", columns, "; k: serial"}) {
        EXPECT_NE(matmul.find(part), std::string::npos) << part << " in\n" << matmul;
    }
    const std::string vectors = [] {
        switch (cpu::chosen_simd()) {
            case cpu::Simd::Sse41:
                return "vectors     sse4.1, 128 bits: 16 lanes of float32 are 4 registers";
            case cpu::Simd::Avx2:
                return "vectors     avx2, 256 bits: 16 lanes of float32 are 2 registers";
            case cpu::Simd::Avx512:
                return "vectors     avx512, 512 bits: 16 lanes of float32 are 1 register\n";
            case cpu::Simd::Neon:
                return "vectors     neon, 128 bits: 16 lanes of float32 are 4 registers";
            case cpu::Simd::Scalar:
                break;
        }
        return "";
    }();
    EXPECT_NE(matmul.find(vectors), std::string::npos) << matmul;
    EXPECT_EQ(matmul.find("vectors") == std::string::npos, vectors.empty()) << matmul;
    EXPECT_EQ(explained(kMatmul, operands, "interpreter").find("schedule"), std::string::npos);
    const std::string sum =
        explained("compute(x) { @kernel reduce(+); for i in 0..len { yield x[i] } }",
                  {Tensor({1000})}, "cpu");
    EXPECT_NE(sum.find(has_vectors ? "i: vector 16" : "i: serial"), std::string::npos) << sum;
}

TEST(Explain, NamesAnAxisByItsDimension) {
    const std::string text = Kernel(R"(compute(q, k) {
        @kernel custom
        for i in 0..rows, j in 0..columns:
            var total = 0.0
            for d in 0..width:
                total += q[i, d]
            out[i, j] = dot(q[i], k[j]) / total
    })")
                                 .explain();
    EXPECT_NE(text.find("q float32[rows, width]"), std::string::npos) << text;
    EXPECT_NE(text.find("k float32[columns, width]"), std::string::npos) << text;
}

TEST(Explain, GivesAFlatResultTheShapeOfItsOperand) {
    const Kernel relu("compute(x) {\n@kernel elementwise\nfor i in 0..len: out[i] = relu(x[i])\n}");
    const std::vector<Tensor> operands = {Tensor({2, 3})};
    const std::string text = relu.explain(operands);
    EXPECT_NE(text.find("result      float32[2, 3]\n"), std::string::npos) << text;
}

TEST(Explain, RefusesWhatALaunchRefuses) {
    const std::vector<Tensor> operands = {Tensor({3, 5}), Tensor({4, 7})};
    EXPECT_THROWS(KernelError, "E0501", Kernel(kMatmul).explain(operands));
}

}  // namespace
}  // namespace quern

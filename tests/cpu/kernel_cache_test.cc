#include "quern/runtime/kernel_cache.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "quern/runtime/disk_cache.h"
#include "quern/runtime/machine_code.h"
#include "tests/cpu/compiled_run.h"
#include "tests/folder.h"
#include "tests/sanitized.h"

namespace quern::cpu_test {
namespace kernel_cache_test {

class KernelCache : public Compiled {};

constexpr const char* kSoftmax = R"(
compute(x) {
    @kernel fused
    let e = exp(x - reduce(max, x, axis=-1))
    out = e / reduce(+, e, axis=-1)
})";

Tensor numbers(const Shape& shape) {
    std::vector<float> values(std::size_t(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = float(i % 13) - 6.5f;
    return Tensor::from(shape, values);
}

std::shared_ptr<const CompiledKernel> made(const Case& c, const DiskCache& cache,
                                           cpu::Simd simd = cpu::Simd::Scalar) {
    return load_or_compile(c.kernel(), c.facts(), Numerics::Strict, simd, &cache);
}

TEST_F(KernelCache, GivesCodeThatComputesTheSame) {
    const TestFolder folder;
    const DiskCache cache(folder / "cache", 1 << 24);
    const Case c(kSoftmax, {numbers({5, 37})});
    for (const cpu::Simd simd : levels_here()) {
        SCOPED_TRACE(cpu::to_string(simd));
        const auto first = c.compiled(*made(c, cache, simd));
        const auto second = c.compiled(*made(c, cache, simd));
        ASSERT_TRUE(first && second);
        EXPECT_TRUE(same_numbers(*first, *second));
    }
}

/// What a launch on row-major operands of those shapes runs.
class Launched {
public:
    explicit Launched(std::string text) : text_(std::move(text)) {
        lang::Diagnostics diagnostics(text_);
        source_ = lang::parse(text_, {}, diagnostics);
        diagnostics.raise();
        while (source_->nodes[std::size_t(compute_)].kind != lang::Kind::Compute) ++compute_;
    }

    std::shared_ptr<const CompiledKernel> code(const Shape& shape) const {
        const std::vector<frontend::OperandInfo> infos = {{DType::Float32, shape}};
        const frontend::BoundKernel launch =
            frontend::bind_launch(*source_, compute_, infos, {}, {});
        const ir::Facts facts = launch.row_major_facts(frontend::kAnywhere, frontend::kResult);
        return launch.prepared->compiled->find(launch.kernel(), facts, Numerics::Strict);
    }

private:
    std::string text_;
    std::shared_ptr<const lang::Source> source_;
    lang::NodeId compute_ = 0;
};

void expect_that_extents_share_code() {
    const Launched softmax(kSoftmax);
    const auto first = softmax.code({5, 37});
    EXPECT_TRUE(softmax.code({5, 37}) == first);
    for (const Shape& other : {Shape{5, 39}, {7, 37}, {3, 101}, {6, 64}, {5, 5000}, {1, 1}}) {
        EXPECT_TRUE(softmax.code(other) == first) << to_string(other);
    }
    // Named dims are specialised by what divides them: code for whole vectors is of no use to
    // others.
    const Launched negated("compute(x) { @kernel elementwise\n for i in 0..len: out[i] = -x[i] }");
    const auto whole = negated.code({64});
    const auto ragged = negated.code({63});
    EXPECT_FALSE(ragged == whole);
    EXPECT_TRUE(negated.code({61}) == ragged);
    EXPECT_TRUE(negated.code({48}) == ragged) << "of less";
    EXPECT_TRUE(negated.code({64}) == whole);
}

TEST_F(KernelCache, Check112_ASecondLaunchAndOtherExtentsCompileNothing) {
    const char* const before = std::getenv("QUERN_CPU");
    const std::string chosen = before ? before : "";
    for (const cpu::Simd simd : levels_here()) {
        SCOPED_TRACE(cpu::to_string(simd));
        setenv("QUERN_CPU", cpu::to_string(simd), 1);
        expect_that_extents_share_code();
    }
    if (before) {
        setenv("QUERN_CPU", chosen.c_str(), 1);
    } else {
        unsetenv("QUERN_CPU");
    }
}

TEST_F(KernelCache, CompilesAgainWhatIsOfNoUse) {
    const TestFolder folder;
    const DiskCache cache(folder / "cache", 1 << 24);
    const Case c(kSoftmax, {numbers({5, 37})});
    const auto expected = c.interpreted();
    const std::string key = cache_key(c.kernel(), c.facts(), Numerics::Strict, cpu::Simd::Scalar);
    std::vector<Diagnostic> warnings;
    const auto before = set_warning_handler([&](const Diagnostic& d) { warnings.push_back(d); });
    const auto image = compile({c.kernel(), c.facts(), Numerics::Strict, cpu::Simd::Scalar});
    const Case other("compute(x) { @kernel elementwise\n for i in 0..len: out[i] = x[i] }",
                     {numbers({7})});
    const auto foreign =
        compile({other.kernel(), other.facts(), Numerics::Strict, cpu::Simd::Scalar});
    KernelImage broken = image_from(image);
    broken.object.resize(broken.object.size() / 2);
    KernelImage renamed = image_from(image);
    renamed.stages[0].function = "elsewhere";
    KernelImage out_of_range = image_from(image);
    out_of_range.stages[0].parameters[0] = {lir::ParameterKind::Dim, 99, 0};
    // As a cache in a home that machines of two kinds share.
    const auto elsewhere = compile({c.kernel(), c.facts(), Numerics::Strict, cpu::Simd::Neon});
    const std::vector<std::byte> nothing;
    for (const auto& planted : {nothing, std::vector<std::byte>(100), to_bytes(broken),
                                to_bytes(renamed), to_bytes(out_of_range), elsewhere}) {
        warnings.clear();
        cache.write(key, planted);
        const auto kernel = made(c, cache);
        EXPECT_EQ(warnings.size(), 1u);
        const auto got = c.compiled(*kernel);
        ASSERT_TRUE(got.has_value());
        const std::vector<double> x = got->values(), y = expected->values();
        for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-6);
        warnings.clear();
        made(c, cache);
        EXPECT_TRUE(warnings.empty()) << "it was not written anew";
    }
    // That it is of another kernel shows where numbers of operands or dims differ.
    EXPECT_NE(image, foreign);
    set_warning_handler(before);
}

TEST_F(KernelCache, HasAnotherKeyForAllThatDecidesTheCode) {
    const std::string text = "compute(x) { @kernel elementwise\n for i in 0..len: out[i] = ";
    const Case base(text + "x[i] + 1.0 }", {numbers({7})});
    std::set<std::string> keys;
    const auto add = [&](const Case& c, Numerics numerics, cpu::Simd simd) {
        EXPECT_TRUE(keys.insert(cache_key(c.kernel(), c.facts(), numerics, simd)).second);
    };
    for (const cpu::Simd simd : cpu::kSimdLevels) {
        add(base, Numerics::Strict, simd);
        add(base, Numerics::Reproducible, simd);
        add(base, Numerics::Fast, simd);
    }
    add(Case(text + "x[i] + 2.0 }", {numbers({7})}), Numerics::Strict, cpu::Simd::Scalar);
    add(Case(text + "x[i] + 1.0 }", {numbers({1})}), Numerics::Strict, cpu::Simd::Scalar);
    add(Case(text + "x[i] + 1.0 }", {numbers({100})}), Numerics::Strict, cpu::Simd::Scalar);
    add(Case(text + "x[i] + 1.0 }", {numbers({7}).to(DType::Float64)}), Numerics::Strict,
        cpu::Simd::Scalar);
    const std::string rows = "compute(x) { @kernel custom\n for i in 0..n, j in 0..m: out[i, j] = ";
    add(Case(rows + "x[i, j] }", {numbers({3, 7})}), Numerics::Strict, cpu::Simd::Scalar);
    add(Case(rows + "x[i, j] }", {numbers({7, 3}).permute({1, 0})}), Numerics::Strict,
        cpu::Simd::Scalar);
    ir::Facts streamed = base.facts();
    streamed.operands.back().is_streamed = true;
    EXPECT_TRUE(keys.insert(cache_key(base.kernel(), streamed, Numerics::Strict, cpu::Simd::Scalar))
                    .second);
    const std::string key =
        cache_key(base.kernel(), base.facts(), Numerics::Strict, cpu::Simd::Scalar);
    EXPECT_EQ(key.find(cpu::code_version()), 0u);
}

TEST_F(KernelCache, CompilesWhatItMayNotRead) {
    const TestFolder folder;
    const DiskCache cache(folder / "cache", 1 << 24);
    const Case c(kSoftmax, {numbers({5, 37})});
    made(c, cache);
    const std::string entry =
        cache.path_of(cache_key(c.kernel(), c.facts(), Numerics::Strict, cpu::Simd::Scalar));
    chmod(entry.c_str(), 0);
    for (const auto& each : {folder / "", folder / "cache"}) chmod(each.c_str(), 0755);
    // In a process of its own, which gives up the rights to read every file.
    const pid_t child = fork();
    if (child == 0) {
        if (::getuid() == 0 && (chown((folder / "cache").c_str(), 65534, 65534) != 0 ||
                                chown(entry.c_str(), 65534, 65534) != 0 || setuid(65534) != 0)) {
            _exit(2);
        }
        chmod((folder / "cache").c_str(), 0700);
        int warnings = 0;
        set_warning_handler([&](const Diagnostic&) { ++warnings; });
        const auto got = c.compiled(*made(c, cache), 1);
        const bool has_warned = warnings == 1;
        made(c, cache);
        _exit(got && has_warned && warnings == 1 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "rights could not be given up";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(KernelCache, RemovesWhatTurnedOutToBeWrong) {
    const TestFolder folder;
    const DiskCache cache(folder / "cache", 1 << 24);
    const Case c(kSoftmax, {numbers({5, 37})});
    made(c, cache);
    const std::string key = cache_key(c.kernel(), c.facts(), Numerics::Strict, cpu::Simd::Scalar);
    ASSERT_TRUE(cache.read(key));
    cache.remove(key);
    EXPECT_FALSE(cache.read(key));
    cache.remove(key);

    frontend::CompiledKernels kernels;
    const auto first = kernels.find(c.kernel(), c.facts(), Numerics::Strict);
    EXPECT_EQ(kernels.find(c.kernel(), c.facts(), Numerics::Strict), first);
    kernels.discard(first, c.kernel(), Numerics::Strict);
    EXPECT_NE(kernels.find(c.kernel(), c.facts(), Numerics::Strict), first);
}

/// Under a limit on the size of files, a write beyond which ends a process by SIGXFSZ.
TEST_F(KernelCache, SaysOnceThatNothingCanBeKept) {
    const TestFolder folder;
    EXPECT_EXIT(
        {
            rlimit limit{};
            limit.rlim_cur = limit.rlim_max = 1000;
            ::setrlimit(RLIMIT_FSIZE, &limit);
            std::string message;
            int warnings = 0;
            set_warning_handler([&](const Diagnostic& warning) {
                ++warnings;
                message = warning.file + ": " + warning.message;
            });
            const DiskCache cache(folder / "cache", 1 << 24);
            const Case c(kSoftmax, {numbers({5, 37})});
            const bool runs = c.compiled(*made(c, cache), 1).has_value() &&
                              made(c, cache, cpu::Simd::Sse41) != nullptr;
            const bool is_said =
                message == folder / "cache" + ": compiled kernels are not kept: File too large";
            const bool is_empty = std::filesystem::is_empty(folder / "cache");
            _exit(runs && is_said && warnings == 1 && is_empty ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
}

TEST_F(KernelCache, IsFilledByManyProcessesAtOnce) {
    const Tensor x = numbers({3, 37});
    // Made before, since a child of fork has one thread.
    std::vector<std::unique_ptr<Case>> cases;
    for (int k = 0; k < (kSanitized ? 6 : 50); ++k) {
        cases.push_back(std::make_unique<Case>(
            "compute(x) { @kernel elementwise\n for i in 0..len: out[i] = x[i] * " +
                std::to_string(k) + ".0 }",
            std::vector<Tensor>{x}));
    }
    const auto ask_for_all = [&](const std::string& folder, int p) {
        bool is_right = true;
        set_warning_handler([&](const Diagnostic&) { is_right = false; });
        const DiskCache cache(folder, 1 << 24);
        for (std::size_t i = 0; i < cases.size() * 2; ++i) {
            const std::size_t k = (i + std::size_t(p)) % cases.size();
            const auto got = cases[k]->compiled(*made(*cases[k], cache), 1);
            is_right = is_right && got && got->values()[3] == x.values()[3] * double(k);
        }
        return is_right;
    };
    for (int round = 0; round < (kSanitized ? 1 : 20); ++round) {
        const TestFolder folder;
        std::vector<pid_t> children;
        for (int p = 0; p < 16; ++p) {
            const pid_t child = fork();
            if (child == 0) _exit(ask_for_all(folder / "cache", p) ? 0 : 1);
            children.push_back(child);
        }
        for (const pid_t child : children) {
            int status = 0;
            waitpid(child, &status, 0);
            EXPECT_EQ(status, 0) << "round " << round;
        }
    }
}

}  // namespace kernel_cache_test
}  // namespace quern::cpu_test

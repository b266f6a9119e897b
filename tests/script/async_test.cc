// Acceptance checks 96 to 100: work that goes on beside the script.

#include <algorithm>

#include "quern/error.h"
#include "quern/memory_pool.h"
#include "script_helpers.h"
#include "tests/during_launch.h"

namespace quern::script {
namespace {

const Bindings kX = {{"x", counting({4})}};

std::string relu(const std::string& header, const std::string& operand = "x") {
    return "compute(" + operand + ") " + header +
           "{ @kernel elementwise; for i in 0..len { out[i] = relu(" + operand + "[i]) } }";
}

/// A kernel that takes milliseconds on every device, by functions one after the other: llvmpipe
/// leaves loops after 65535 iterations. Its result is 2 * x.
const char* const kLong = R"(compute(x) @async {
    @kernel custom
    for i in 0..len:
        var sum = 0.0
        for k in 0..60000:
            let small = sin(cos(sin(cos(sin(cos(sin(cos(sum))))))))
            sum = select(small > 2, small, sum * 0.5 + x[i])
        out[i] = sum
}
)";

TEST(ScriptAsync, GivesWhatTheSameScriptGivesWithoutIt) {
    const Results results =
        run_text("let f = " + relu("@async ") + "\nlet y = await f\nlet z = await f\n" +
                     "let both = (await f) |> sqrt()\n",
                 kX);
    const std::vector<double> expected = {0, 1, 2, 3};
    EXPECT_EQ(tensor_in(results, "y").values(), expected);
    EXPECT_TRUE(tensor_in(results, "y").shares_storage_with(tensor_in(results, "z")));
    EXPECT_EQ(tensor_in(results, "both").values()[1], 1);
}

TEST(ScriptAsync, Check96_ReturnsBeforeTheKernelEnds) {
    // The script would wait 0 s otherwise and have no value.
    EXPECT_EQ(error_of("let f = " + std::string(kLong) + "let y = await f timeout 0ms\n", kX),
              "E0632 at 10:9");
    const Results results = run_text("let f = " + std::string(kLong) + "let y = await f\n", kX);
    EXPECT_EQ(tensor_in(results, "y").values(), (std::vector<double>{0, 2, 4, 6}));
}

TEST(ScriptAsync, Check98_AFailingKernelIsReportedWhereItFails) {
    const std::string text =
        "let f = compute(x) @async {\n    @kernel custom\n    for i in 0..len:\n"
        "        out[i] = x[int64(x[i]) * 1000]\n}\n";
    EXPECT_EQ(error_of(text + "let y = await f\n", kX), "E0507 at 4:20");
    EXPECT_EQ(error_of(text, kX), "E0507 at 4:20") << "an error that nobody awaits ends the script";
    EXPECT_EQ(error_of(text + "let (y, n) = await any([f])\n", kX), "E0507 at 4:20");
    EXPECT_EQ(error_of(text + "let y = await all([f])\n", kX), "E0507 at 4:20");
}

TEST(ScriptAsync, ChecksOperandsAtTheCall) {
    EXPECT_EQ(error_of("let f = compute(x) @async { @kernel custom; for i in 0..n, j in 0..m { "
                       "out[i] = x[i, j] } }\nlet y = await f\n",
                       kX)
                  .substr(0, 11),
              error_of("let f = compute(x) { @kernel custom; for i in 0..n, j in 0..m { "
                       "out[i] = x[i, j] } }\n",
                       kX)
                  .substr(0, 11));
}

TEST(ScriptAsync, Check99_AllKeepsTheOrderAndAnyGivesOneThatIsThere) {
    const std::string three = "let a = " + relu("@async ") + "\nlet b = " + kLong +
                              "let c = " + relu("@async ") + "\nlet list = [b, a, c]\n";
    const Results results = run_text(three +
                                         "let all_of = await all(list)\nlet (p, q, r) = all_of\n"
                                         "let (first, index) = await any([b, a])\n",
                                     kX);
    EXPECT_EQ(tensor_in(results, "p").values()[1], 2);
    EXPECT_EQ(tensor_in(results, "q").values()[1], 1);
    EXPECT_EQ(tensor_in(results, "r").values()[1], 1);
    const auto* index = results.find("index")->as<std::int64_t>();
    ASSERT_NE(index, nullptr);
    EXPECT_EQ(tensor_in(results, "first").values()[1], *index == 0 ? 2 : 1);
    for (const char* join : {"all", "any"}) {
        EXPECT_EQ(error_of("let r = await " + std::string(join) + "([])\n", kX), "E0631 at 1:19");
        EXPECT_EQ(error_of("let r = await " + std::string(join) + "([x])\n", kX), "E0441 at 1:19");
    }
}

TEST(ScriptAsync, Check100_ATimeoutGivesTheOtherValue) {
    const Results results =
        run_text("let f = " + std::string(kLong) +
                     "let y = await f timeout 0ms else x\nlet z = await f timeout 1000s else x\n",
                 kX);
    EXPECT_EQ(tensor_in(results, "y").values(), (std::vector<double>{0, 1, 2, 3}));
    EXPECT_EQ(tensor_in(results, "z").values(), (std::vector<double>{0, 2, 4, 6}));
    // The work goes on after its script looked away, and its end is waited for.
    run_text("let f = " + std::string(kLong) + "let y = await f timeout 1ms else x\n", kX);
    const std::string failing =
        "let f = compute(x) @async {\n    @kernel custom\n    for i in 0..len:\n"
        "        out[i] = x[int64(x[i]) * 1000]\n}\n";
    for (const char* wait :
         {"await f timeout 0ms else x", "await any([f, f]) timeout 0ms else x"}) {
        EXPECT_EQ(error_of(failing + "let y = " + wait + "\n", kX), "E0507 at 4:20") << wait;
    }
    EXPECT_EQ(error_of("let f = " + relu("@async ") + "\nlet y = await f timeout x\n", kX),
              "E0441 at 2:25");
    for (const char* time : {"-1ms", "1KB", "10GB"}) {
        EXPECT_EQ(
            error_of("let f = " + relu("@async ") + "\nlet y = await f timeout " + time + "\n", kX),
            "E0441 at 2:25")
            << time;
    }
}

TEST(ScriptAsync, OfPipelinesRunsThemBesideTheScript) {
    const std::string pipeline =
        "let scale = 3\npipeline f(t: tensor):\n    let u = " + relu("@async ", "t") +
        "\n    let v = await u\n    let w = compute(v) { @kernel elementwise; for i in 0..len { "
        "out[i] = v[i] * scale } }\n    return w\n";
    const Results results = run_text(pipeline +
                                         "let a = f(x) @async\nlet b = f(x) @async\n"
                                         "let (p, q) = await all([a, b])\nlet r = f(x)\n",
                                     kX);
    const std::vector<double> expected = {0, 3, 6, 9};
    EXPECT_EQ(tensor_in(results, "p").values(), expected);
    EXPECT_EQ(tensor_in(results, "q").values(), expected);
    EXPECT_EQ(tensor_in(results, "r").values(), expected);
}

TEST(ScriptAsync, APipeBehindAFutureGivesAFuture) {
    const Results results = run_text(
        "pipeline twice(t: tensor):\n    return compute(t) { @kernel elementwise; for i in 0..len "
        "{ "
        "out[i] = t[i] * 2.0 } }\n"
        "let f = " +
            relu("@async ") +
            "\nlet g = f |> max(x) |> twice()\nlet a = await g\n"
            "let b = await (" +
            relu("@async ") +
            " |> sqrt() |> max(x))\n"
            "let c = await (twice(x) @async |> twice() @async)\n",
        kX);
    EXPECT_EQ(tensor_in(results, "a").values(), (std::vector<double>{0, 2, 4, 6}));
    EXPECT_EQ(tensor_in(results, "b").values(), (std::vector<double>{0, 1, 2, 3}));
    EXPECT_EQ(tensor_in(results, "c").values(), (std::vector<double>{0, 4, 8, 12}));
    // The other arguments are those of the place where the call stands.
    const Results inside =
        run_text("let c = 1000.0\npipeline p(t: tensor):\n    let c = 2.0\n    let f = " +
                     relu("@async ", "t") + "\n    return await (f |> max(c))\nlet r = p(x)\n",
                 kX);
    EXPECT_EQ(tensor_in(inside, "r").values(), (std::vector<double>{2, 2, 2, 3}));
    EXPECT_EQ(
        error_of("let f = " + relu("@async ") + "\nlet g = f |> split(3)\nlet h = await g\n", kX),
        "E0502 at 2:20");
}

/// The work began before, so it reads what was there.
TEST(ScriptAsync, OperandsOfAPipelineMayBeFreedWhileItRuns) {
    const std::string sum =
        "compute(t) { @kernel reduce(+); for i in 0..len { yield t[i] * 0.0 + 1.0 } }";
    const std::string text = "pipeline use(t: tensor):\n    let a = " + sum +
                             "\n    let b = " + sum +
                             "\n    return b\n"
                             "let p = memory_pool(device=\"interpreter\", size=4MB)\n"
                             "let t = p.allocate(shape=[100000], dtype=i32)\n"
                             "let f = use(t) @async\np.free(t)\nlet r = await f\n";
    for (int n = 0; n < 5; ++n) EXPECT_EQ(tensor_in(run_text(text), "r").item(), 100000);
    // What goes on inside it has them too.
    std::string nested = text;
    nested.replace(nested.find("let b = compute(t) {"), 20, "let g = compute(t) @async {");
    nested.replace(nested.find("return b"), 8, "return await g");
    for (int n = 0; n < 5; ++n) EXPECT_EQ(tensor_in(run_text(nested), "r").item(), 100000);
}

TEST(ScriptAsync, APipelineHoldsTheGlobalsThatItReads) {
    constexpr std::int64_t kMany = 1 << 16;
    const std::string text =
        "pipeline f(n: int):\n    let y = compute(a) @device(\"interpreter\") "
        "{ @kernel elementwise; for i in 0..len { out[i] = a[i] * 2.0 } }\n    return y\n"
        "let g = f(4) @async\nlet r = await g\n";
    MemoryPool pool(Device("interpreter"), kMany * 4);
    Tensor a = pool.allocate({kMany});
    std::fill_n(a.data<float>(), kMany, 1.0f);
    const DuringLaunch during([&] {
        pool.free(a);
        EXPECT_THROW(pool.allocate({kMany}), OutOfMemory);
    });
    EXPECT_EQ(tensor_in(run_text(text, {{"a", a}}), "r").values(), std::vector<double>(kMany, 2));
    EXPECT_TRUE(during.has_happened());
}

TEST(ScriptAsync, OfSomethingElseIsNotAwaited) {
    EXPECT_EQ(error_of("let y = await x\n", kX), "E0441 at 1:15");
}

TEST(ScriptAsync, HasShapesWhereNothingRuns) {
    RunOptions options;
    options.shapes_only = true;
    const Results results = run_text(
        "let f = " + relu("@async ") + "\nlet (y, n) = await any([f])\nlet z = await all([f])\n",
        kX, options);
    EXPECT_EQ(tensor_in(results, "y").shape(), Shape{4});
}

}  // namespace
}  // namespace quern::script

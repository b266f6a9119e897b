// Values of the host language: names, lists, tuples, strings, sets of tensors.

#include "script_helpers.h"

namespace quern::script {
namespace {

Bindings model() {
    TensorSet set;
    set["layers.0.weight"] = Tensor::from<float>({2}, {1, 2});
    set["layers.0.bias"] = Tensor::from<float>({2}, {3, 4});
    set["layers.10.weight"] = Tensor::from<float>({2}, {5, 6});
    set["scale"] = Tensor::from<float>({1}, {7});
    set["scale.zero_point"] = Tensor::from<float>({1}, {8});
    return {{"model", set_of(std::move(set))}};
}

std::vector<double> values_of(const std::string& expression, const Bindings& bindings) {
    return tensor_in(run_text("let layer = 10\nlet r = " + expression, bindings), "r").values();
}

TEST(ScriptExpressions, ListsAndTuplesAreRead) {
    EXPECT_EQ(result_of("let r = [1, 2.5, \"a\"]"), "[1, 2.5, \"a\"]");
    EXPECT_EQ(result_of("let r = (1, 2)"), "(1, 2)");
    EXPECT_EQ(result_of("let a = [4, 5, 6]\nlet r = a[1 + 1]"), "6");
    EXPECT_EQ(result_of("let (a, b) = (1, 2)\nlet r = b"), "2");
    EXPECT_EQ(result_of("let (a, b) = [1, 2]\nlet r = a"), "1");
    EXPECT_EQ(error_of("let a = [4, 5]\nlet r = a[2]"), "E0507 at 2:11");
    EXPECT_EQ(error_of("let a = [4, 5]\nlet r = a[-1]"), "E0507 at 2:11");
    EXPECT_EQ(error_of("let a = [4, 5]\nlet r = a[0.5]"), "E0412 at 2:11");
    EXPECT_EQ(error_of("let a = 4\nlet r = a[0]"), "E0441 at 2:11");
    EXPECT_EQ(error_of("let a = 4\nlet r = a.length"), "E0441 at 2:11");
    EXPECT_EQ(error_of("let (a, b) = (1, 2, 3)"), "E0441 at 1:5");
    EXPECT_EQ(error_of("let (a, b) = 1"), "E0441 at 1:5");
}

TEST(ScriptExpressions, AVarIsAssignedAndALetIsNot) {
    EXPECT_EQ(result_of("var r = 1\nr = r + 1"), "2");
    EXPECT_EQ(error_of("let r = 1\nr = 2"), "E0414 at 2:1");
    EXPECT_EQ(error_of("r = 2"), "E0411 at 1:1");
    EXPECT_EQ(result_of("let r = 1\nlet r = r + 1"), "2");
    EXPECT_EQ(error_of("var a = [1]\na[0] = 2"), "E0441 at 2:1");
}

TEST(ScriptExpressions, APathIsTheKeyOfATensor) {
    EXPECT_EQ(values_of("model.layers[0].weight", model()), (std::vector<double>{1, 2}));
    EXPECT_EQ(values_of("model.layers[layer].weight", model()), (std::vector<double>{5, 6}));
    EXPECT_EQ(values_of("model[\"layers\"][layer].weight", model()), (std::vector<double>{5, 6}));
    EXPECT_EQ(values_of("model[\"layers.0.bias\"]", model()), (std::vector<double>{3, 4}));
}

TEST(ScriptExpressions, APrefixOfKeysIsASet) {
    const Results results = run_text("let r = model.layers[0]\nlet w = r.weight", model());
    EXPECT_EQ(describe(*results.find("r")), "a set of tensors");
    EXPECT_EQ(results.find("r")->as<SetView>()->tensors().size(), 2u);
    EXPECT_EQ(tensor_in(results, "w").values(), (std::vector<double>{1, 2}));
    // "layers.1" is no prefix, though "layers.10" begins with it.
    EXPECT_EQ(error_of("let r = model.layers[1]", model()), "E0442 at 1:22");
}

TEST(ScriptExpressions, AKeyMayBeAPrefixOfAnother) {
    EXPECT_EQ(values_of("model.scale", model()), (std::vector<double>{7}));
    EXPECT_EQ(values_of("model.scale.zero_point", model()), (std::vector<double>{8}));
}

TEST(ScriptExpressions, AnAbsentKeyNamesItsNeighbours) {
    const auto errors = errors_of("let r = model.layers[0].wieght", model());
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, "E0442");
    EXPECT_EQ(errors[0].column, 25);
    EXPECT_EQ(errors[0].message,
              "'model.layers[0]' has no 'wieght': there is no key 'layers.0.wieght'");
    EXPECT_EQ(errors[0].help, (std::vector<std::string>{"did you mean 'weight'?"}));
    EXPECT_EQ(errors[0].notes, (std::vector<std::string>{"it has bias, weight"}));
    EXPECT_EQ(error_of("let r = model.scale.scale", model()), "E0441 at 1:21");
    EXPECT_EQ(error_of("let r = model[0.5]", model()), "E0441 at 1:15");
}

TEST(ScriptExpressions, TensorsHaveNoOperatorsOutsideKernels) {
    const Bindings x = {{"x", counting({3})}};
    EXPECT_EQ(error_of("let r = x + 1", x), "E0441 at 1:9");
    EXPECT_EQ(message_of("let r = x + 1", x),
              "an operator of a script expects numbers, got a tensor float32 [3] and an integer");
    EXPECT_EQ(error_of("let r = x[0]", x), "E0441 at 1:11");
}

TEST(ScriptExpressions, TheUnknownFunctionNamesItsNeighbours) {
    const auto errors = errors_of("let r = slpit(1, 2)");
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_EQ(errors[0].code, "E0407");
    EXPECT_EQ(errors[0].help, (std::vector<std::string>{"did you mean 'split'?"}));
}

TEST(ScriptExpressions, KernelConstructsAreRefused) {
    EXPECT_EQ(error_of("let r = row_max(1)"), "E0418 at 1:9");
    EXPECT_EQ(error_of("let r = barrier()"), "E0418 at 1:9");
    EXPECT_EQ(error_of("let r = reduce(+, 1)"), "E0418 at 1:9");
    EXPECT_EQ(errors_of("let r = reduce(+, 1)").size(), 1u);
}

TEST(ScriptExpressions, ReturnEndsTheScript) {
    const Results results = run_text("let a = 1\nreturn a + 1\nlet b = 1 / 0");
    EXPECT_EQ(to_string(results.returned), "2");
    EXPECT_EQ(results.named.size(), 1u);
}

}  // namespace
}  // namespace quern::script

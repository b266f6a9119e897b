// Numbers of the host language: literals, quantities, arithmetic, kernel functions of numbers.

#include <limits>

#include "script_helpers.h"

namespace quern::script {
namespace {

TEST(ScriptNumbers, AnArgumentIsANumberOfTheLanguageWithASign) {
    const auto read = [](const std::string& text) {
        const auto value = parse_number(text);
        return value ? describe(*value) + " " + to_string(*value) : "refused";
    };
    EXPECT_EQ(read("12"), "an integer 12");
    EXPECT_EQ(read("-12"), "an integer -12");
    EXPECT_EQ(read("+12"), "an integer 12");
    EXPECT_EQ(read("1e-5"), "a float 1e-05");
    EXPECT_EQ(read("-0.5"), "a float -0.5");
    EXPECT_EQ(read("true"), "a truth value true");
    EXPECT_EQ(read("false"), "a truth value false");
    EXPECT_EQ(read("9223372036854775807"), "an integer 9223372036854775807");
    for (const char* text : {"", "-", "abc", ".5", "5.", "1e", "0x10", "1.5.2",
                             "9223372036854775808", "--1", "1 ", "inf", "True", "1e999"}) {
        EXPECT_EQ(read(text), "refused") << text;
    }
}

TEST(ScriptNumbers, QuantitiesAreBytesOrSeconds) {
    EXPECT_EQ(result_of("let r = 1GB"), "1073741824");
    EXPECT_EQ(result_of("let r = 16MB"), "16777216");
    EXPECT_EQ(result_of("let r = 3KB"), "3072");
    EXPECT_EQ(result_of("let r = 1000ms"), "1.0");
    EXPECT_EQ(error_of("let r = 5parsecs"), "E0441 at 1:9");
    EXPECT_EQ(error_of("let r = 9000000TB"), "E0110 at 1:9");
}

TEST(ScriptNumbers, AFloatIsWrittenAsOne) {
    EXPECT_EQ(result_of("let r = 2.0"), "2.0");
    EXPECT_EQ(result_of("let r = -4.0 / 2"), "-2.0");
    EXPECT_EQ(result_of("let r = -0.0"), "-0.0");
    EXPECT_EQ(result_of("let r = 123456789.0"), "123456789.0");
    EXPECT_EQ(result_of("let r = 1e20"), "1e+20");
    EXPECT_EQ(result_of("let r = -inf"), "-inf");
    EXPECT_EQ(result_of("let r = 0.5"), "0.5");
    EXPECT_EQ(result_of("let r = 2"), "2");
}

TEST(ScriptNumbers, IntegerArithmeticTruncatesTowardZero) {
    EXPECT_EQ(result_of("let r = 7 / 2"), "3");
    EXPECT_EQ(result_of("let r = -7 / 2"), "-3");
    EXPECT_EQ(result_of("let r = -7 % 2"), "-1");
    EXPECT_EQ(result_of("let r = 2 + 3 * 4 - 1"), "13");
    EXPECT_EQ(result_of("let r = 9223372036854775807 + 1"), "-9223372036854775808");
    EXPECT_EQ(result_of("let r = (-9223372036854775807 - 1) / -1"), "-9223372036854775808");
}

TEST(ScriptNumbers, AFloatMakesTheResultAFloat) {
    EXPECT_EQ(result_of("let r = 7 / 2.0"), "3.5");
    EXPECT_EQ(result_of("let r = -(0.5 - 1)"), "0.5");
    EXPECT_EQ(result_of("let r = 7.5 % 2"), "1.5");
}

TEST(ScriptNumbers, AnIntegerDivisionByZeroIsAnError) {
    EXPECT_EQ(error_of("let a = 0\nlet r = 7 / a"), "E0621 at 2:9");
    EXPECT_EQ(error_of("let r = 7 % 0"), "E0621 at 1:9");
    EXPECT_EQ(result_of("let r = 7.0 / 0"), "inf");
}

TEST(ScriptNumbers, ComparisonsAndLogicGiveTruthValues) {
    EXPECT_EQ(result_of("let r = 3 < 4 and not (2.5 > 3)"), "true");
    EXPECT_EQ(result_of("let r = 3 >= 4 or 3 <= 2"), "false");
    EXPECT_EQ(result_of("let r = \"a\" == \"a\""), "true");
    EXPECT_EQ(result_of("let r = \"a\" != \"a\""), "false");
    EXPECT_EQ(result_of("let r = true == false"), "false");
    EXPECT_EQ(error_of("let r = 1 and true"), "E0405 at 1:9");
    EXPECT_EQ(error_of("let r = not 1"), "E0405 at 1:9");
}

TEST(ScriptNumbers, LogicEvaluatesOnlyWhatItNeeds) {
    EXPECT_EQ(result_of("let r = false and 1 / 0 == 1"), "false");
    EXPECT_EQ(result_of("let r = true or 1 % 0 == 1"), "true");
    EXPECT_EQ(error_of("let r = true and 1 / 0 == 1"), "E0621 at 1:18");
    EXPECT_EQ(result_of("let r = true and false"), "false");
    EXPECT_EQ(error_of("let r = 1 and false"), "E0405 at 1:9");
    EXPECT_EQ(error_of("let r = true and 1"), "E0405 at 1:9");
}

TEST(ScriptNumbers, OfTheEndsOfTheirRange) {
    EXPECT_EQ(result_of("let r = 1e-400"), "0.0");
    EXPECT_EQ(result_of("let r = 5e-324 > 0.0"), "true");
    EXPECT_EQ(error_of("let r = 1e400"), "E0110 at 1:9");
    EXPECT_EQ(result_of("let r = 0.001e-330"), "0.0");
    EXPECT_EQ(result_of("let r = 1000.5e-400"), "0.0");
    EXPECT_EQ(error_of("let r = 0.001e330"), "E0110 at 1:9");
    EXPECT_EQ(result_of("let r = 1e-99999999999999999999"), "0.0");
    EXPECT_EQ(error_of("let r = 1e99999999999999999999"), "E0110 at 1:9");
    EXPECT_EQ(result_of("let r = 0e400"), "0.0");
    EXPECT_EQ(result_of("let r = u64(9223372036854775807)"), "9223372036854775807");
    EXPECT_EQ(result_of("let r = inf - inf"), "nan");
    EXPECT_EQ(result_of("let r = u64(9.2e18)"), "9200000000000000000");
    EXPECT_EQ(error_of("let r = u64(1e19)"), "E0441 at 1:13");
    EXPECT_EQ(*parse_number("-9223372036854775808")->as<std::int64_t>(), INT64_MIN);
    EXPECT_FALSE(parse_number("9223372036854775808"));
}

TEST(ScriptNumbers, OperatorsRefuseOtherTypesByName) {
    EXPECT_EQ(error_of("let r = \"a\" + 1"), "E0441 at 1:9");
    EXPECT_EQ(message_of("let r = \"a\" + 1"), "'+' expects numbers, got a string and an integer");
    EXPECT_EQ(error_of("let r = true + 1"), "E0441 at 1:9");
    EXPECT_EQ(error_of("let r = 2 @ 3"), "E0441 at 1:9");
    EXPECT_EQ(error_of("let r = -\"a\""), "E0441 at 1:9");
    EXPECT_EQ(error_of("let r = -\n1", {}), error_of("let r = -\n1", {}));
}

TEST(ScriptNumbers, KernelFunctionsTakeNumbers) {
    EXPECT_EQ(result_of("let r = sqrt(16)"), "4.0");
    EXPECT_EQ(result_of("let r = rsqrt(4.0)"), "0.5");
    EXPECT_EQ(result_of("let r = max(3, 4)"), "4");
    EXPECT_EQ(result_of("let r = min(9007199254740993, 9007199254740992)"), "9007199254740992");
    EXPECT_EQ(result_of("let r = max(9007199254740993, 9007199254740992)"), "9007199254740993");
    EXPECT_EQ(result_of("let r = max(3, 4.5)"), "4.5");
    EXPECT_EQ(result_of("let r = pow(2, 10)"), "1024");
    EXPECT_EQ(result_of("let r = pow(3, 39)"), "4052555153018976267");
    EXPECT_EQ(result_of("let r = pow(3, 41)"), "-420491770248316829");
    EXPECT_EQ(result_of("let r = pow(2.0, -1)"), "0.5");
    EXPECT_EQ(error_of("let r = pow(2, -1)"), "E0621 at 1:9");
    EXPECT_EQ(result_of("let r = abs(-3)"), "3");
    EXPECT_EQ(result_of("let r = relu(-3)"), "0");
    EXPECT_EQ(result_of("let r = relu(2.5)"), "2.5");
    EXPECT_EQ(result_of("let r = sigmoid(0.0)"), "0.5");
    EXPECT_EQ(result_of("let r = clamp(7, 0, 5)"), "5");
    EXPECT_EQ(result_of("let r = clamp(-7, 0, 5)"), "0");
    EXPECT_EQ(result_of("let r = clamp(3, 0, 5)"), "3");
    // As a kernel has them.
    EXPECT_EQ(result_of("let r = 1 / relu(-0.0)"), "inf");
    EXPECT_EQ(result_of("let r = clamp(0.5, 1.0, 0.0)"), "0.0");
    EXPECT_EQ(result_of("let r = clamp(5.0, 0.0, inf - inf)"), "nan");
    EXPECT_EQ(result_of("let r = clamp(0.5, inf - inf, 1.0)"), "nan");
    EXPECT_EQ(result_of("let r = clamp(1, 2, 3.5)"), "2.0");
    EXPECT_EQ(result_of("let r = select(2 > 1, 10, 20)"), "10");
    EXPECT_EQ(result_of("let r = isnan(inf - inf)"), "true");
    EXPECT_EQ(result_of("let r = i32(2.75)"), "2");
    EXPECT_EQ(result_of("let r = bool(2)"), "true");
    EXPECT_EQ(result_of("let r = f16(1.0001)"), "1.0");
    EXPECT_EQ(error_of("let r = sqrt(\"a\")"), "E0441 at 1:14");
    EXPECT_EQ(error_of("let r = f32(\"a\")"), "E0441 at 1:13");
    EXPECT_EQ(error_of("let r = select(1, 2, 3)"), "E0405 at 1:9");
}

}  // namespace
}  // namespace quern::script

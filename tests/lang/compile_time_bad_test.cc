#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

#include "generated_texts.h"
#include "texts.h"

namespace quern::lang {
namespace {

constexpr std::size_t kTexts = 200;

template <std::uint32_t Seed>
constexpr Verdict verdict_of_bad() {
    const GeneratedText text = bad_text(Seed);
    return check_bytes<GeneratedText::kCapacity>(text.data, text.size);
}

/// Each is a constant expression of its own, as each QUERN_KERNEL is.
template <std::uint32_t Seed>
constexpr Verdict kVerdict = verdict_of_bad<Seed>();

template <std::size_t... Seeds>
constexpr std::array<Verdict, kTexts> all_verdicts(std::index_sequence<Seeds...>) {
    return {kVerdict<Seeds>...};
}

constexpr std::array<Verdict, kTexts> kVerdicts = all_verdicts(std::make_index_sequence<kTexts>());

TEST(CompileTime, Check109_TwoHundredBadTextsHaveTheSameFirstErrorAtBothDoors) {
    std::set<std::string> codes;
    for (std::uint32_t seed = 0; seed < kTexts; ++seed) {
        const std::string text(bad_text(seed).view());
        const std::string all = errors_in(text);
        const std::string first = all.substr(0, all.find(' '));
        const Verdict& verdict = kVerdicts[seed];
        ASSERT_NE(verdict.error, kernel_error::none) << text;
        ASSERT_EQ(fmt::format("{}@{}:{}", to_string(static_cast<Code>(verdict.error)), verdict.line,
                              verdict.column),
                  first)
            << text;
        codes.insert(first.substr(0, 5));
    }
    EXPECT_GE(codes.size(), 12u);
}

}  // namespace
}  // namespace quern::lang

#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "generated_texts.h"
#include "texts.h"

namespace quern::lang {
namespace {

constexpr std::size_t kTexts = 200;

template <std::uint32_t Seed>
constexpr Verdict verdict_of_good() {
    const GeneratedText text = good_text(Seed);
    return check_bytes<GeneratedText::kCapacity>(text.data, text.size, true);
}

/// Each is a constant expression of its own, as each QUERN_KERNEL is.
template <std::uint32_t Seed>
constexpr Verdict kVerdict = verdict_of_good<Seed>();

template <std::size_t... Seeds>
constexpr std::array<Verdict, kTexts> all_verdicts(std::index_sequence<Seeds...>) {
    return {kVerdict<Seeds>...};
}

constexpr std::array<Verdict, kTexts> kVerdicts = all_verdicts(std::make_index_sequence<kTexts>());

TEST(CompileTime, Check109_TwoHundredGoodTextsHaveTheSameTreeAtBothDoors) {
    for (std::uint32_t seed = 0; seed < kTexts; ++seed) {
        const std::string text(good_text(seed).view());
        ASSERT_LT(text.size(), GeneratedText::kCapacity);
        ASSERT_EQ(errors_in(text), "") << text;
        ASSERT_EQ(kVerdicts[seed].error, kernel_error::none) << text;
        const auto source = parsed(text).source;
        ASSERT_EQ(
            kVerdicts[seed].hash,
            hash_of_tree(source->nodes.data(), std::uint32_t(source->nodes.size()), text.data()))
            << text;
    }
}

}  // namespace
}  // namespace quern::lang

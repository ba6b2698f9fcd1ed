#include "core/eval/passkey.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace longwave {
namespace {

PasskeyOptions cells(std::vector<std::int64_t> lengths, std::vector<double> depths, std::int64_t trials) {
  PasskeyOptions options;
  options.lengths = std::move(lengths);
  options.depths = std::move(depths);
  options.trials = trials;
  return options;
}

const PasskeyMaker& maker() {
  static const PasskeyMaker made(nullptr, 257);
  return made;
}

const std::int64_t shortest = maker().shortest();

// Five answers at the end of seven tokens. Sums look at a prompt's tokens and answers only, not at its length.
PasskeyPrompt prompt() { return {{9, 9, 1, 2, 3, 4, 5}, {2, 3, 4, 5, 6}, "12345"}; }

TEST(WilsonInterval, AgreesWithPublishedValues) {
  // Newcombe (1998), Table I: 81 of 263 gives 0.2553 to 0.3662, 15 of 148 gives 0.0624 to 0.1605, 0 of 20 gives 0 to
  // 0.1611, 1 of 29 gives 0.0061 to 0.1718.
  EXPECT_NEAR(wilson_interval(81, 263).low, 0.2553, 5e-5);
  EXPECT_NEAR(wilson_interval(81, 263).high, 0.3662, 5e-5);
  EXPECT_NEAR(wilson_interval(15, 148).low, 0.0624, 5e-5);
  EXPECT_NEAR(wilson_interval(15, 148).high, 0.1605, 5e-5);
  EXPECT_EQ(wilson_interval(0, 20).low, 0);
  EXPECT_NEAR(wilson_interval(0, 20).high, 0.1611, 5e-5);
  EXPECT_NEAR(wilson_interval(1, 29).low, 0.0061, 5e-5);
  EXPECT_NEAR(wilson_interval(1, 29).high, 0.1718, 5e-5);
  EXPECT_EQ(wilson_interval(20, 20).high, 1);
}

TEST(Passkey, IsRightWhenEveryTokenOfTheKeyIs) {
  PasskeySums sums(cells({shortest}, {0.5}, 2), maker());
  const std::int32_t right[] = {0, 1, 2, 3, 4, 5, 0};  // what stands before the key and after it does not matter
  const std::int32_t one_wrong[] = {0, 1, 2, 3, 4, 6, 0};
  sums.add_prompt(0, prompt(), right);
  sums.add_prompt(0, prompt(), one_wrong);
  const std::vector<PasskeyResult> results = sums.results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].correct, 1);
  EXPECT_EQ(results[0].trials, 2);
  EXPECT_DOUBLE_EQ(results[0].digits, 0.9);
  EXPECT_EQ(results[0].interval.low, wilson_interval(1, 2).low);
}

TEST(Passkey, LeavesOutALengthTooShortForAPrompt) {
  PasskeySums sums(cells({shortest - 1, shortest}, {0, 1}, 3), maker());
  ASSERT_EQ(sums.cells().size(), 2u);
  EXPECT_EQ(sums.cells()[1].length, shortest);
  EXPECT_EQ(sums.cells()[1].depth, 1);
  EXPECT_THAT(sums.notes(), ::testing::ElementsAre(::testing::HasSubstr(
                                fmt::format("length {} is left out: the shortest prompt has {}", shortest - 1, shortest))));
}

TEST(Passkey, IsLeftOutWhereNoPromptCanBeSpelled) {
  PasskeySums sums(cells({64, 128}, {0, 1}, 3), PasskeyMaker(nullptr, 10));
  EXPECT_TRUE(sums.cells().empty());
  EXPECT_THAT(sums.notes(), ::testing::ElementsAre(::testing::HasSubstr("passkey is left out: ")));
}

TEST(Passkey, WithoutTrialsHasNoCells) {
  PasskeySums sums(cells({shortest}, {0, 1}, 0), maker());
  EXPECT_TRUE(sums.cells().empty());
  EXPECT_TRUE(sums.results().empty());
}

TEST(Passkey, PromptsOfACellDoNotDependOnTheOtherCells) {
  PasskeySums many(cells({shortest, 640}, {0, .25, 1}, 3), maker()), one(cells({640}, {.25}, 3), maker());
  EXPECT_EQ(many.cells()[4].key.bits(5), one.cells()[0].key.bits(5));
  EXPECT_NE(many.cells()[4].key.bits(5), many.cells()[3].key.bits(5));
  EXPECT_NE(many.cells()[4].key.bits(5), many.cells()[1].key.bits(5));
}

TEST(Passkey, RefusesMissingPrompts) {
  PasskeySums sums(cells({shortest}, {0.5}, 2), maker());
  const std::int32_t right[] = {0, 1, 2, 3, 4, 5, 0};
  sums.add_prompt(0, prompt(), right);
  EXPECT_ANY_THROW(sums.results());
}

TEST(PasskeyFiles, HoldWhatWasMeasured) {
  PasskeySums sums(cells({shortest}, {0.25}, 1), maker());
  const std::int32_t right[] = {0, 1, 2, 3, 4, 5, 0};
  sums.add_prompt(0, prompt(), right);
  const auto file = nlohmann::json::parse(passkey_json(sums.results()));
  ASSERT_EQ(file["cells"].size(), 1u);
  const auto& cell = file["cells"][0];
  EXPECT_EQ(cell["length"], shortest);
  EXPECT_EQ(cell["depth"], 0.25);
  EXPECT_EQ(cell["correct"], 1);
  EXPECT_EQ(cell["trials"], 1);
  EXPECT_EQ(cell["high"], 1.0);
  EXPECT_EQ(cell["digits"], 1.0);
  EXPECT_THAT(passkey_csv(sums.results()),
              ::testing::StartsWith(fmt::format("length,depth,correct,trials,low,high,digits\n{},0.25,1,1,0.2065", shortest)));
}

}  // namespace
}  // namespace longwave

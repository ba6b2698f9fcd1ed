// config.yaml: what is written loads to the same configuration, and says where it came from.
#include "tests/unit/config/job_file.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::Not;

class RoundTrip : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(RoundTrip, LoadsToTheSameConfiguration) {
  const Config config = load(smallest, GetParam());
  const std::string text = to_yaml(config, false);
  const Config again = load(text);
  EXPECT_EQ(to_yaml(again, false), text);
  EXPECT_EQ(to_yaml(load(to_yaml(config, true)), false), text);
}

INSTANTIATE_TEST_SUITE_P(
    Config, RoundTrip,
    testing::Values(std::vector<std::string>{},
                    std::vector<std::string>{"position.kind=rope", "position.scaling={kind: ntk, factor: 2.5}"},
                    std::vector<std::string>{"position.kind=fope-paper", "position.learnable=true", "position.share=model"},
                    std::vector<std::string>{"position.kind=fope-authors", "position.extra_frequencies=3", "position.cap=3"},
                    std::vector<std::string>{"position.kind=alibi", "schedule.kind=warmup-stable-decay"},
                    std::vector<std::string>{"position.kind=nope", "schedule.kind=constant"},
                    std::vector<std::string>{"position.kind=p-rope", "position.constant_weight=2"},
                    std::vector<std::string>{"position.kind=clipped-rope", "position.clipped=auto"},
                    std::vector<std::string>{"position.kind=yarn", "position.original_context=8"},
                    std::vector<std::string>{
                        "data.train=[{path: \"a: b # c\\\"d\\\\e\\t\", weight: 1e-3}, '-x', 'null', '~', \"Süd\"]"},
                    std::vector<std::string>{"model.preset=1.2b", "run.seed=18446744073709551615", "evaluate.lengths=[]"}));

TEST(ToYaml, KeepsEveryBitOfANumber) {
  for (const double rate : {0.1, 1.0 / 3, 6e-4, 5e-324, 99.99999999999999, 1e-17}) {
    const Config config = load(smallest, {fmt::format("optimizer.learning_rate={:.17g}", rate)});
    ASSERT_EQ(config.optimizer.learning_rate, rate);
    EXPECT_EQ(load(to_yaml(config, false)).optimizer.learning_rate, rate);
  }
}

TEST(ToYaml, KeepsStringsAsTheyAre) {
  const std::string path = "a: b # c\"d\\e\tf, [g] {h} 'i' ü";
  Config config = load(smallest);
  config.data.train[0].path = path;
  EXPECT_EQ(load(to_yaml(config, false)).data.train.at(0).path, path);
}

TEST(ToYaml, SaysTheSourceOfEveryValue) {
  const JobFile file(smallest);
  const std::string text = to_yaml(load_config(file.path(), {"run.seed=3"}), true);
  EXPECT_THAT(text, testing::ContainsRegex("seed: 3 +# command line\n"));
  EXPECT_THAT(text, HasSubstr("# " + file.at(5) + "\n"));
  EXPECT_THAT(text, testing::ContainsRegex("head_dim: 16 +# default \\(width / heads\\)\n"));
}

TEST(ToYaml, LeavesOutWhatHasNoMeaning) {
  const std::string rope = to_yaml(load(smallest, {"position.kind=rope"}), false);
  EXPECT_THAT(rope, Not(HasSubstr("gain:")));
  EXPECT_THAT(rope, HasSubstr("theta: 10000"));
  const std::string alibi = to_yaml(load(smallest, {"position.kind=alibi"}), false);
  EXPECT_THAT(alibi, Not(HasSubstr("theta:")));
}

TEST(ToYaml, HoldsWhatFinishingFilledIn) {
  Config config = load(smallest);
  finish_config(config, 2, 257);
  const Config again = load(to_yaml(config, false));
  EXPECT_EQ(again.parallel.data, 2);
  EXPECT_EQ(again.train.micro_batch, 4);
  EXPECT_EQ(again.model.vocabulary, 257);
}

TEST(Reference, IsWhatTheProgramKnows) {
  std::ifstream readme(LONGWAVE_SOURCE_DIR "/jobs/README.md");
  const std::string text((std::istreambuf_iterator<char>(readme)), {});
  EXPECT_THAT(text, HasSubstr(describe_settings(true))) << "put the output of `longwave keys --markdown` into jobs/README.md";
}

}  // namespace
}  // namespace longwave

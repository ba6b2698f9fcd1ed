// What a job file means: numbers, defaults, presets, overrides, and where each value came from.
#include "jobs/config/check.h"
#include "tests/unit/config/job_file.h"

namespace longwave {
namespace {

using testing::ElementsAre;

TEST(Config, FillsEveryDefault) {
  const Config config = load(smallest);
  EXPECT_EQ(config.run.name, "job");
  EXPECT_EQ(config.run.dir, "runs");
  EXPECT_EQ(config.run.seed, 1u);
  EXPECT_EQ(config.run_directory(), "runs/job");
  EXPECT_EQ(config.model.kv_heads, 4);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.model.mlp_hidden, 256);
  EXPECT_EQ(config.model.vocabulary, 0);
  EXPECT_EQ(config.position.kind, PositionKind::fope);
  EXPECT_EQ(config.position.gain, 0.3);
  EXPECT_EQ(config.position.cap, PositionCap::quarter);
  EXPECT_EQ(config.optimizer.learning_rate, 6e-4);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.schedule.warmup, 5);
  EXPECT_THAT(config.evaluate.lengths, ElementsAre(64, 128, 256, 512, 1024, 2048));
  EXPECT_EQ(config.evaluate.passkey.lengths, config.evaluate.lengths);
  EXPECT_THAT(config.evaluate.passkey.depths, ElementsAre(0, .25, .5, .75, 1));
  EXPECT_EQ(config.checkpoint.every_minutes, 30);
  EXPECT_EQ(config.watchdog.step, 0);
}

TEST(Config, ReadsNumbersHoweverTheyAreWritten) {
  for (const char* text : {"1e-4", "\"1e-4\"", "1E-4", "0.0001", ".0001", "'+1e-4'", "1.e-4"}) {
    EXPECT_EQ(load(smallest, {std::string("optimizer.learning_rate=") + text}).optimizer.learning_rate, 1e-4) << text;
  }
  for (const char* text : {"2000", "2e3", "2.0e3", "\"2000\"", "+2000", "2000.0"}) {
    EXPECT_EQ(load(smallest, {std::string("train.steps=") + text}).train.steps, 2000) << text;
  }
  EXPECT_EQ(load(smallest, {"run.seed=18446744073709551615"}).run.seed, 18446744073709551615u);
}

TEST(Config, TakesPathsAsAWordAListOrMaps) {
  EXPECT_EQ(load(smallest).data.train.at(0).path, "books.txt");
  const Config several = load(smallest, {"data.train=[a.txt, {path: b c.txt, weight: 3}]", "data.validation=held out.txt"});
  ASSERT_EQ(several.data.train.size(), 2u);
  EXPECT_EQ(several.data.train[0].path, "a.txt");
  EXPECT_EQ(several.data.train[0].weight, 1);
  EXPECT_EQ(several.data.train[1].path, "b c.txt");
  EXPECT_EQ(several.data.train[1].weight, 3);
  ASSERT_EQ(several.data.validation.size(), 1u);
  EXPECT_EQ(several.data.validation[0].path, "held out.txt");
  EXPECT_EQ(load(smallest, {"data.train={path: x}"}).data.train.at(0).path, "x");
}

TEST(Config, LetsTheCommandLineWin) {
  const Config config = load(smallest, {"train.steps=7", "evaluate.lengths=[128,256]", "position.kind=rope",
                                        "evaluate.passkey={trials: 3, depths: [0.5]}", "train.steps=9"});
  EXPECT_EQ(config.train.steps, 9);
  EXPECT_THAT(config.evaluate.lengths, ElementsAre(128, 256));
  EXPECT_THAT(config.evaluate.passkey.lengths, ElementsAre(128, 256));
  EXPECT_EQ(config.position.kind, PositionKind::rope);
  EXPECT_EQ(config.evaluate.passkey.trials, 3);
  EXPECT_THAT(config.evaluate.passkey.depths, ElementsAre(0.5));
}

TEST(Config, NullOnTheCommandLineGoesBackToTheDefault) {
  const std::string text = smallest + "position: {gain: 0.5}\n";
  EXPECT_EQ(load(text).position.gain, 0.5);
  const Config config = load(text, {"position.gain=null"});
  EXPECT_EQ(config.position.gain, 0.3);
  EXPECT_EQ(source_of(config, "position.gain"), "default");
  EXPECT_EQ(load(text, {"position.gain=", "position.kind=rope"}).position.kind, PositionKind::rope);
}

TEST(Config, SaysWhereEachValueCameFrom) {
  const JobFile file(
      "model:\n  preset: 180m\n  context: 512\n  layers: 3\ndata: {train: a.txt}\ntrain: {steps: 10, batch: 4}\n"
      "position:\n  kind: fope-paper\n");
  const Config config = load_config(file.path(), {"run.seed=5"});
  EXPECT_EQ(source_of(config, "model.layers"), file.at(4));
  EXPECT_EQ(source_of(config, "model.width"), "preset 180m (" + file.at(2) + ")");
  EXPECT_EQ(source_of(config, "position.gain"), "preset 180m (" + file.at(2) + ")");
  EXPECT_EQ(source_of(config, "position.kind"), "preset fope-paper (" + file.at(8) + ")");
  EXPECT_EQ(source_of(config, "position.zero_phase"), "preset fope-paper (" + file.at(8) + ")");
  EXPECT_EQ(source_of(config, "run.seed"), "command line");
  EXPECT_EQ(source_of(config, "run.dir"), "default");
  EXPECT_EQ(source_of(config, "model.kv_heads"), "default (heads)");
  EXPECT_EQ(source_of(config, "train.steps"), file.at(6));
}

struct PresetCase {
  const char* name;
  std::int64_t layers, width, heads, head_dim, hidden;
  double gain;
};

class ModelPreset : public testing::TestWithParam<PresetCase> {};

TEST_P(ModelPreset, HasThePublishedSizesAndGain) {
  const PresetCase& expected = GetParam();
  const std::string text = "model: {context: 512}\ndata: {train: a}\ntrain: {steps: 1, batch: 1}\n";
  const Config config = load(text, {std::string("model.preset=") + expected.name});
  EXPECT_EQ(config.model.layers, expected.layers);
  EXPECT_EQ(config.model.width, expected.width);
  EXPECT_EQ(config.model.heads, expected.heads);
  EXPECT_EQ(config.model.kv_heads, expected.heads);
  EXPECT_EQ(config.model.head_dim, expected.head_dim);
  EXPECT_EQ(config.model.mlp_hidden, expected.hidden);
  EXPECT_EQ(config.position.gain, expected.gain);
}

INSTANTIATE_TEST_SUITE_P(Config, ModelPreset,
                         testing::Values(PresetCase{"quickstart", 4, 256, 4, 64, 640, .3},
                                         PresetCase{"60m", 8, 512, 8, 64, 2048, .3},
                                         PresetCase{"180m", 8, 1024, 8, 128, 4096, .4},
                                         PresetCase{"1.2b", 16, 2048, 16, 128, 8192, .6}));

TEST(Config, ExplicitKeysWinOverAPreset) {
  const Config config = load(
      "model: {preset: 180m, context: 512, layers: 2}\nposition: {gain: 0.1}\ndata: {train: a}\n"
      "train: {steps: 1, batch: 1}\n");
  EXPECT_EQ(config.model.layers, 2);
  EXPECT_EQ(config.model.width, 1024);
  EXPECT_EQ(config.position.gain, 0.1);
}

TEST(Config, AModelPresetsGainDoesNotBindOtherPositions) {
  const std::string text = "model: {preset: 180m, context: 512}\ndata: {train: a}\ntrain: {steps: 1, batch: 1}\n";
  const Config config = load(text, {"position.kind=rope"});
  EXPECT_EQ(config.position.kind, PositionKind::rope);
  EXPECT_EQ(source_of(config, "position.gain"), "(no such key)");
}

TEST(Config, PositionPresetsSetTheirOptions) {
  const Config plain = load(smallest, {"position.kind=fope"});
  EXPECT_EQ(plain.position.cap, PositionCap::quarter);
  EXPECT_EQ(plain.position.zero_phase, 1);
  EXPECT_EQ(plain.position.identity, PositionIdentity::first);
  const Config authors = load(smallest, {"position.kind=fope-authors"});
  EXPECT_EQ(authors.position.kind, PositionKind::fope);
  EXPECT_EQ(authors.position.cap, PositionCap::quarter);
  EXPECT_EQ(authors.position.identity, PositionIdentity::step);
  const Config paper = load(smallest, {"position.kind=fope-paper"});
  EXPECT_EQ(paper.position.kind, PositionKind::fope);
  EXPECT_EQ(paper.position.cap, PositionCap::none);
  EXPECT_EQ(paper.position.zero_phase, 0);
  EXPECT_EQ(load(smallest, {"position.kind=fope-paper", "position.zero_phase=1"}).position.zero_phase, 1);
}

TEST(Config, ReadsPositionOptionsOfSeveralForms) {
  EXPECT_EQ(load(smallest, {"position.cap=none"}).position.cap, PositionCap::none);
  const Config seven = load(smallest, {"position.cap=7"});
  EXPECT_EQ(seven.position.cap, PositionCap::pairs);
  EXPECT_EQ(seven.position.cap_pairs, 7);
  EXPECT_EQ(load(smallest, {"position.kind=p-rope", "position.fraction=.5"}).position.fraction, 0.5);
  EXPECT_EQ(load(smallest, {"position.kind=clipped-rope", "position.clipped=3"}).position.clipped, 3);
  EXPECT_EQ(load(smallest, {"position.kind=yarn", "position.original_context=8"}).position.original_context, 8);
  const Config yarn = load(smallest, {"position.kind=rope", "position.scaling=yarn"});
  EXPECT_EQ(yarn.position.scaling, PositionScaling::yarn);
  EXPECT_EQ(yarn.position.scaling_factor, 0);
  const Config pi = load(smallest, {"position={kind: rope, scaling: {kind: pi, factor: 4}}"});
  EXPECT_EQ(pi.position.scaling, PositionScaling::interpolate);
  EXPECT_EQ(pi.position.scaling_factor, 4);
}

TEST(Config, AcceptsAnEmptySection) { EXPECT_EQ(load(smallest + "run:\n").run.seed, 1u); }

TEST(Config, DropsEvaluationLengthsThatHaveNoTarget) {
  EXPECT_THAT(load(smallest, {"model.context=1", "position.kind=nope"}).evaluate.lengths, ElementsAre(2, 4, 8, 16));
}

TEST(JobFiles, LoadAndSplitOverTwoRanks) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(LONGWAVE_SOURCE_DIR "/jobs")) {
    if (entry.path().extension() != ".yaml") continue;
    Config config = load_config(entry.path().string(), {});
    EXPECT_NO_THROW(finish_config(config, 2, 257)) << entry.path();
    EXPECT_EQ(config.run.name, entry.path().stem().string());
    ++files;
  }
  EXPECT_GE(files, 2u);
}

TEST(FinishConfig, FillsTheMeshTheMicroBatchAndTheVocabulary) {
  Config config = load(smallest, {"parallel.tensor=2"});
  finish_config(config, 4, 257);
  EXPECT_EQ(config.parallel.data, 2);
  EXPECT_EQ(config.train.micro_batch, 4);
  EXPECT_EQ(config.model.vocabulary, 257);
  EXPECT_EQ(source_of(config, "parallel.data"), "default (ranks / tensor)");
  EXPECT_EQ(source_of(config, "train.micro_batch"), "default (batch / data ranks)");
}

TEST(FinishConfig, KeepsWhatWasGiven) {
  Config config = load(smallest, {"parallel.data=2", "train.micro_batch=2", "model.vocabulary=300"});
  finish_config(config, 2, 257);
  EXPECT_EQ(config.train.micro_batch, 2);
  EXPECT_EQ(config.model.vocabulary, 300);
}

// For a job that lost a node: a batch of 8.
TEST(MostFittingRanks, AreWholeReplicasAmongWhichTheBatchDivides) {
  EXPECT_EQ(most_fitting_ranks(load(smallest), 8), 8);
  EXPECT_EQ(most_fitting_ranks(load(smallest), 7), 4);
  EXPECT_EQ(most_fitting_ranks(load(smallest, {"train.micro_batch=4"}), 7), 2);
  EXPECT_EQ(most_fitting_ranks(load(smallest, {"parallel.tensor=2"}), 7), 4);
  EXPECT_EQ(most_fitting_ranks(load(smallest, {"parallel.tensor=2"}), 1), 0);
  EXPECT_EQ(most_fitting_ranks(load(smallest, {"parallel.data=4"}), 7), 4);
  EXPECT_EQ(most_fitting_ranks(load(smallest, {"parallel.data=4"}), 3), 0);
}

}  // namespace
}  // namespace longwave

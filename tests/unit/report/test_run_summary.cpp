#include <gtest/gtest.h>

#include "core/base/file.h"
#include "core/eval/passkey.h"
#include "core/eval/perplexity.h"
#include "jobs/config/config.h"
#include "jobs/report/report.h"
#include "jobs/report/run_summary.h"
#include "jobs/run_directory/rank_log.h"
#include "jobs/run_directory/run_directory.h"
#include "tests/unit/report/fake_runs.h"

namespace longwave {
namespace {

// A run directory made by the writers that a training job uses.
std::string write_real_run(const std::filesystem::path& parent) {
  const std::string path = parent / "real";
  write_text(parent / "text.txt", "some text");
  write_text(parent / "job.yaml", "model: {preset: quickstart, context: 256}\ndata: {train: " + (parent / "text.txt").string() +
                                      "}\nposition:\n  kind: rope\ntrain: {steps: 20, batch: 4}\n");
  Config config = load_config(parent / "job.yaml", {"run.seed=7"});
  finish_config(config, 2, 257);
  RunDirectory run(path, 20,
                   {.command_line = {"longwave", "train"}, .hosts = {"a", "b"}, .data = 2, .device = "cpu", .precision = "fp32"});
  run.write_config(to_yaml(config, true));
  run.metrics().append(
      {{"step", 10}, {"loss", 2.5}, {"tokens", 10240}, {"seconds", 4.0}, {"tokens_per_second", 2560.0}, {"mfu", 0.25}});
  run.metrics().append({{"step", 10}, {"validation_loss", 2.75}});
  RankLog log(path, 0);
  log.at(10, "train");
  log.info("step", {{"seconds", 4.0},
                    {"data_seconds", 0.0},
                    {"forward_seconds", 0.75},
                    {"backward_seconds", 1.75},
                    {"optimizer_seconds", 1.0},
                    {"exposed_communication_seconds", 0.5}});
  log.warning("bad_step", {{"message", "loss is not finite"}});
  make_directories(path + "/eval");
  write_file_atomically(path + "/eval/perplexity.json",
                        perplexity_json(256, {{.length = 512,
                                               .chunks = 3,
                                               .targets = 1533,
                                               .perplexity = 9,
                                               .tail_perplexity = 8,
                                               .last_64_perplexity = 7,
                                               .loss_by_position = {{1, 16, 3.5}, {16, 512, 2.5}}}}));
  write_file_atomically(
      path + "/eval/passkey.json",
      passkey_json({{.length = 512, .depth = 0, .correct = 1, .trials = 4, .interval = {0.1, 0.7}, .digits = 0.5},
                    {.length = 512, .depth = 1, .correct = 3, .trials = 4, .interval = {0.3, 0.9}, .digits = 0.9}}));
  run.finish(RunState::stopped, 10, ExitCode::requeue, "stopped by SIGTERM");
  return path;
}

TEST(RunSummary, ReadsWhatATrainingJobWrites) {
  const ScratchFolder scratch;
  const RunSummary run = read_run_summary(write_real_run(scratch.path()));
  EXPECT_EQ(run.missing, std::vector<std::string>());
  EXPECT_EQ(run.kind, "rope");
  EXPECT_EQ(run.train_length, 256);
  EXPECT_EQ(run.sizes.vocabulary, 257);
  EXPECT_GT(run.sizes.parameters(), 1'000'000);
  EXPECT_EQ(run.state(), "stopped");
  EXPECT_EQ(run.status->reason, "stopped by SIGTERM");
  EXPECT_EQ(run.final_loss(), 2.5);
  EXPECT_EQ(run.final_validation_loss(), 2.75);
  EXPECT_EQ(run.tokens(), 10240);
  EXPECT_EQ(run.training_seconds(), 4);
  EXPECT_EQ(run.mfu(), 0.25);
  ASSERT_NE(run.at_length(512), nullptr);
  EXPECT_EQ(run.at_length(512)->last_64_perplexity, 7);
  EXPECT_EQ(run.at_length(512)->loss_by_position[1].loss, 2.5);
  EXPECT_EQ(run.passkey_accuracy(512), 0.5);
  ASSERT_EQ(run.ranks.size(), 1u);
  EXPECT_DOUBLE_EQ(run.ranks[0].busy_share, 0.75);
  EXPECT_EQ(run.ranks[0].problems, std::vector<std::string>{"step 10: bad_step loss is not finite"});
}

TEST(RunSummary, KnowsWhereEachValueCameFrom) {
  const ScratchFolder scratch;
  const RunSummary run = read_run_summary(write_real_run(scratch.path()));
  const auto line = [&](const std::string& key) {
    for (const ConfigLine& found : run.configuration) {
      if (found.key == key) return found.value + " from " + found.source;
    }
    return "no " + key;
  };
  EXPECT_EQ(line("run.seed"), "7 from command line");
  EXPECT_EQ(line("position.kind"), "rope from " + (scratch.path() / "job.yaml").string() + ":4");
  EXPECT_EQ(line("evaluate.passkey.trials"), "20 from default");
}

TEST(RunSummary, IsShownInAReport) {
  const ScratchFolder scratch;
  const std::string output = scratch.path() / "real.html";
  write_report({write_real_run(scratch.path())}, output);
  EXPECT_NE(read_text(output).find("stopped by SIGTERM"), std::string::npos);
}

TEST(RunSummary, CountsParametersAsTheModelHasThem) {
  // The paper's 60M: 8 layers of width 512, 8 heads of 64, SwiGLU 2048, 50280 ids, untied.
  const ModelSizes sizes{.layers = 8,
                         .width = 512,
                         .heads = 8,
                         .kv_heads = 8,
                         .head_dim = 64,
                         .mlp_hidden = 2048,
                         .context = 512,
                         .vocabulary = 50280};
  EXPECT_EQ(sizes.parameters(), 2 * 50280 * 512 + 8 * (4 * 512 * 512 + 3 * 512 * 2048 + 2 * 512) + 512);
}

}  // namespace
}  // namespace longwave

#include "jobs/sweep/sweep_file.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "jobs/config/config.h"
#include "jobs/plan/plan.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/temporary_directory.h"

namespace longwave {
namespace {

class SweepFile : public testing::Test {
 protected:
  SweepFile() {
    std::ofstream(job()) << "model: {layers: 2, width: 64, heads: 4, context: 128}\ndata: {train: a.txt}\n"
                            "train: {steps: 10, batch: 4}\n";
  }
  std::string job() const { return folder_ / "job.yaml"; }
  std::string write(const std::string& axes) const {
    std::ofstream(folder_ / "sweep.yaml") << "name: grid\njob: " << job() << "\n" << axes;
    return folder_ / "sweep.yaml";
  }

 private:
  TemporaryDirectory folder_;
};

const std::string two_by_three =
    "axes:\n"
    "  scale: {tiny: [model.layers=1], small: [model.layers=3, model.width=32]}\n"
    "  position: {fope: [position.kind=fope], rope: [position.kind=rope], nope: [position.kind=nope]}\n";

TEST_F(SweepFile, HasACellForEveryCombinationFirstAxisSlowest) {
  const Sweep sweep = read_sweep(write(two_by_three));
  std::vector<std::string> names;
  for (const SweepCell& cell : sweep.cells) names.push_back(cell.name);
  EXPECT_EQ(names, (std::vector<std::string>{"tiny-fope", "tiny-rope", "tiny-nope", "small-fope", "small-rope", "small-nope"}));
}

TEST_F(SweepFile, GivesEveryCellItsOwnRunDirectoryAndItsChoices) {
  const Sweep sweep = read_sweep(write(two_by_three));
  const SweepCell& cell = sweep.cells.at(4);
  EXPECT_EQ(cell.run_directory, "runs/grid/small-rope");
  const Config config = load_config(sweep.job, cell.overrides);
  EXPECT_EQ(config.run_directory(), cell.run_directory);
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.width, 32);
}

TEST_F(SweepFile, RefusesAWrongOverrideInAnyCellBeforeAnythingRuns) {
  EXPECT_ERROR(read_sweep(write("axes:\n  a: {x: [train.steps=5], y: [train.stepz=5]}\n")), ExitCode::configuration, "cell y");
}

TEST_F(SweepFile, RefusesUnknownKeysNamingTheLine) {
  EXPECT_ERROR(read_sweep(write(two_by_three + "axis: {}\n")), ExitCode::configuration, "sweep.yaml:6: axis: unknown key");
}

TEST_F(SweepFile, RefusesNamesThatAreNoFolders) {
  EXPECT_ERROR(read_sweep(write("axes:\n  a: {../x: [run.seed=1]}\n")), ExitCode::configuration, "sweep.yaml:4");
}

TEST_F(SweepFile, RefusesTheSameChoiceTwice) {
  EXPECT_ERROR(read_sweep(write("axes:\n  a:\n    x: [run.seed=1]\n    x: [run.seed=2]\n")), ExitCode::configuration, "twice");
}

TEST_F(SweepFile, RefusesMoreCellsThanAnArrayTakes) {
  std::string axes = "axes:\n";
  for (const char axis : {'a', 'b', 'c', 'd'}) {
    axes += std::string("  ") + axis + ":\n";
    for (int i = 0; i < 10; ++i) axes += "    v" + std::to_string(i) + ": [run.seed=" + std::to_string(i + 1) + "]\n";
  }
  EXPECT_ERROR(read_sweep(write(axes)), ExitCode::configuration, "split the sweep");
}

// Where they say so, relative to the top of the tree.
class ShippedSweep : public testing::TestWithParam<const char*> {
 protected:
  ShippedSweep() { std::filesystem::current_path(LONGWAVE_SOURCE_DIR); }
  ~ShippedSweep() override { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

TEST_P(ShippedSweep, LoadsAndGivesEveryCellADirectoryOfItsOwn) {
  const Sweep sweep = read_sweep(GetParam());
  std::set<std::string> directories;
  for (const SweepCell& cell : sweep.cells) directories.insert(cell.run_directory);
  EXPECT_EQ(directories.size(), sweep.cells.size());
}

// With a vocabulary of the published size, on 8 GPUs of 80 GB, half of which is kept for what a plan does not count.
TEST_P(ShippedSweep, FitsTheGpusItNames) {
  const Sweep sweep = read_sweep(GetParam());
  for (const SweepCell& cell : sweep.cells) {
    std::vector<std::string> overrides = cell.overrides;
    overrides.insert(overrides.end(), {"data.tokenizer=none", "model.vocabulary=50280", "evaluate.passkey={trials: 0}"});
    const Plan plan = make_plan(load_config(sweep.job, overrides), {.ranks = 8, .calibrate = false});
    EXPECT_LT(static_cast<double>(plan.memory_total), 40e9) << cell.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Jobs, ShippedSweep,
                         testing::Values("jobs/paper/grid.yaml", "jobs/paper/ablations.yaml", "jobs/paper/gain.yaml",
                                         "jobs/paper/frequencies.yaml", "jobs/paper/continual.yaml"));

TEST(ShippedCpuGrid, HasThreeScalesFourPositionsAndTwoSeeds) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(LONGWAVE_SOURCE_DIR);
  EXPECT_EQ(read_sweep("jobs/cpu-grid/grid.yaml").cells.size(), 24u);
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace longwave

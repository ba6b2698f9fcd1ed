#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "jobs/report/comparison.h"
#include "jobs/report/report.h"
#include "jobs/report/run_summary.h"
#include "jobs/report/seeds.h"
#include "tests/unit/report/fake_runs.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> two_kinds_of_two_seeds(const std::filesystem::path& parent) {
  return {write_fake_run(parent, {.name = "tiny-fope-s1", .kind = "fope", .seed = 1}),
          write_fake_run(parent, {.name = "tiny-fope-s2", .kind = "fope", .seed = 2}),
          write_fake_run(parent, {.name = "tiny-rope-s1", .kind = "rope", .seed = 1}),
          write_fake_run(parent, {.name = "tiny-rope-s2", .kind = "rope", .seed = 2})};
}

TEST(Seeds, OfOneConfigurationBecomeTheirMean) {
  const ScratchFolder scratch;
  const std::vector<RunSummary> runs = read_run_summaries(two_kinds_of_two_seeds(scratch.path()));
  const std::vector<RunSummary> averages = average_seeds(runs);
  ASSERT_EQ(averages.size(), 2u);
  const RunSummary& fope = averages[0];
  EXPECT_EQ(fope.name, "tiny-fope");
  EXPECT_EQ(fope.label, "fope");
  ASSERT_EQ(fope.seeds.size(), 2u);
  const auto far = [](const RunSummary& run) { return run.at_length(2048)->last_64_perplexity; };
  EXPECT_DOUBLE_EQ(far(fope), (far(runs[0]) + far(runs[1])) / 2);
  EXPECT_DOUBLE_EQ(mean_over_seeds(fope, far), far(fope));
  EXPECT_NEAR(spread_over_seeds(fope, far), std::abs(far(runs[0]) - far(runs[1])) / std::sqrt(2), 1e-9);
  EXPECT_NEAR(fope.final_loss(), (runs[0].final_loss() + runs[1].final_loss()) / 2, 1e-9);
  EXPECT_EQ(fope.tokens(), runs[0].tokens());
  EXPECT_EQ(fope.passkey.front().trials, 40);
  EXPECT_EQ(fope.passkey.front().correct, runs[0].passkey.front().correct + runs[1].passkey.front().correct);
  EXPECT_DOUBLE_EQ(fope.passkey_accuracy(256), runs[0].passkey_accuracy(256));
}

TEST(Seeds, OfOtherConfigurationsUnfinishedRunsAndRepetitionsStayApart) {
  const ScratchFolder scratch;
  const std::vector<RunSummary> averages = average_seeds(read_run_summaries(
      {write_fake_run(scratch.path(), {.name = "a", .seed = 1}),
       write_fake_run(scratch.path(), {.name = "longer", .context = 512, .seed = 2}),
       write_fake_run(scratch.path(), {.name = "stopped", .state = "stopped", .step = 700, .seed = 3}),
       write_fake_run(scratch.path(), {.name = "again", .seed = 1}),
       write_fake_run(scratch.path(), {.name = "stopped-too", .state = "stopped", .step = 900, .seed = 4})}));
  ASSERT_EQ(averages.size(), 5u);
  for (const RunSummary& run : averages) EXPECT_TRUE(run.seeds.empty()) << run.name;
  EXPECT_TRUE(std::isnan(spread_over_seeds(averages[0], [](const RunSummary& run) { return run.final_loss(); })));
}

TEST(Seeds, AreOneRowAndOneCurveWithItsSpreadAndEachHasItsOwnSection) {
  const ScratchFolder scratch;
  const std::string output = scratch.path() / "report.html";
  write_report(two_kinds_of_two_seeds(scratch.path()), output);
  const std::string html = read_text(output);
  EXPECT_THAT(html, HasSubstr("the mean of 2; ± is the standard deviation between them"));
  EXPECT_THAT(html, HasSubstr("At 8x it is 4.7 times lower for fope than for rope."));
  const std::vector<RunSummary> averages = average_seeds(read_run_summaries(two_kinds_of_two_seeds(scratch.path())));
  const auto near = [](const RunSummary& run) { return run.at_length(256)->last_64_perplexity; };
  EXPECT_THAT(html, HasSubstr(fmt::format("{:.2f} ± {:.2f}", near(averages[0]), spread_over_seeds(averages[0], near))));
  for (const char* name : {"tiny-fope-s1", "tiny-fope-s2", "tiny-rope-s1", "tiny-rope-s2"}) {
    EXPECT_THAT(html, HasSubstr(fmt::format("</svg>{}</h3>", name)));
  }
  EXPECT_THAT(html, Not(HasSubstr("</svg>tiny-fope-s1</span>")));
}

}  // namespace
}  // namespace longwave

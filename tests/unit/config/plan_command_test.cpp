// `longwave plan` as a person and as a script call it; it writes nothing.
#include <nlohmann/json.hpp>

#include "tests/unit/config/run_program.h"

namespace longwave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(PlanCommand, PrintsEveryPartAndWritesNothing) {
  const JobFile file(smallest);
  const Outcome outcome = run_longwave("plan " + file.path() + " run.seed=4 --no-timing");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("Parameters\n"), HasSubstr("Memory of a rank"), HasSubstr("forward"),
                                    HasSubstr("steps"), HasSubstr("# command line"), HasSubstr(file.at(1))));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(std::filesystem::path(file.path()).parent_path()), {}), 1);
}

TEST(PlanCommand, PrintsJson) {
  const JobFile file(smallest);
  const Outcome outcome = run_longwave("plan " + file.path() + " --json --no-timing --ranks 2");
  const auto json = nlohmann::json::parse(outcome.output);
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("tokens"), 100 * 8 * 128);
  EXPECT_TRUE(json.at("seconds_per_step").is_null());
  EXPECT_EQ(json.at("configuration").at("model.heads").at("source"), file.at(1));
  EXPECT_EQ(json.at("configuration").at("train.micro_batch").at("value"), "4");
}

TEST(PlanCommand, RefusesABadConfigurationInOneLine) {
  const JobFile file("model: {haeds: 4}\n");
  expect_one_line(run_longwave("plan " + file.path() + " 2>&1"),
                  "longwave: " + file.at(1) + ": model.haeds: unknown key; did you mean model.heads\n");
  const JobFile good(smallest);
  expect_one_line(run_longwave("plan " + good.path() + " --ranks 0 2>&1"), "longwave: --ranks: 0");
  expect_one_line(run_longwave("plan " + good.path() + " --ranks 3 2>&1"), "longwave: " + good.at(6) + ": train.batch: 8");
  expect_one_line(run_longwave("plan no-such.yaml 2>&1"), "longwave: no-such.yaml: cannot be read");
  expect_one_line(run_longwave("plan " + good.path() + " run.name=a/b 2>&1"), "longwave: command line: run.name");
}

}  // namespace
}  // namespace longwave

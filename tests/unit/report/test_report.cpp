#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "core/base/error.h"
#include "jobs/report/report.h"
#include "jobs/report/run_summary.h"
#include "jobs/report/verdict.h"
#include "tests/unit/report/fake_runs.h"

namespace longwave {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

std::vector<std::string> three_runs(const fs::path& parent) {
  return {write_fake_run(parent, {.name = "quickstart-fope", .kind = "fope"}),
          write_fake_run(parent, {.name = "quickstart-rope", .kind = "rope"}),
          write_fake_run(parent, {.name = "quickstart-alibi", .kind = "alibi"})};
}

std::string report_of(const std::vector<std::string>& runs, const ScratchFolder& scratch) {
  const fs::path output = scratch.path() / "report.html";
  write_report(runs, output);
  return read_text(output);
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++found;
  return found;
}

Error error_of(const std::vector<std::string>& runs, const std::string& output) {
  try {
    write_report(runs, output);
  } catch (const Error& error) {
    return error;
  }
  throw std::logic_error("the report was written");
}

// PATH without gnuplot, for the life of the object.
class WithoutGnuplot {
 public:
  explicit WithoutGnuplot(const std::string& path) : before_(std::getenv("PATH")) { setenv("PATH", path.c_str(), 1); }
  ~WithoutGnuplot() { setenv("PATH", before_.c_str(), 1); }

 private:
  std::string before_;
};

// The HTML opens and closes its elements in order, its ids are unique and each SVG in it is well-formed XML, by Python's
// own parsers.
int check_markup(const ScratchFolder& scratch) {
  const fs::path script = fs::path(LONGWAVE_SOURCE_DIR) / "tests/unit/report/check_markup.py";
  return std::system(("python3 '" + script.string() + "' '" + (scratch.path() / "report.html").string() + "'").c_str());
}

TEST(Report, ComparesRunsInWordsTablesAndPlots) {
  const ScratchFolder scratch;
  const std::string html = report_of(three_runs(scratch.path()), scratch);
  EXPECT_THAT(html, HasSubstr("Three decoder-only transformers of 2.76 M parameters (6 layers of width 192"));
  EXPECT_THAT(html, HasSubstr("At 8x the training length (2048 tokens) the perplexity of the last 64 targets is"));
  EXPECT_THAT(html, HasSubstr("At 8x it is 4.7 times lower for fope than for rope."));
  for (const char* heading :
       {"Runs compared", "Past the training length", "Passkey retrieval", "Training loss", "Validation loss", "Throughput",
        "Loss by position", "Passkey accuracy by length", "Configuration"}) {
    EXPECT_THAT(html, HasSubstr(heading));
  }
  EXPECT_EQ(count(html, "<figure>"), 9u);
  EXPECT_EQ(count(html, "</svg>\n</figure>"), 9u);
  EXPECT_EQ(count(html, "class=\"heat\""), 3u);
  EXPECT_THAT(html, HasSubstr("jobs/quickstart.yaml:7"));  // where the value of model.context came from
  EXPECT_THAT(html, HasSubstr("href=\"./quickstart-rope/eval/perplexity.json\""));
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, NeedsNothingFromTheNetworkAndNoScript) {
  const ScratchFolder scratch;
  const std::string html = report_of(three_runs(scratch.path()), scratch);
  EXPECT_EQ(count(html, "src="), 0u);
  EXPECT_EQ(count(html, "<script"), 0u);
  EXPECT_EQ(count(html, "<link"), 0u);
  EXPECT_EQ(count(html, "@import"), 0u);
  EXPECT_EQ(count(html, "http"),
            count(html, "xmlns=\"http://www.w3.org/2000/svg\"") + count(html, "xmlns:xlink=\"http://www.w3.org/1999/xlink\""));
}

TEST(Report, EmphasisesTheBestValueOfAColumn) {
  const ScratchFolder scratch;
  const std::vector<std::string> runs = three_runs(scratch.path());
  const std::vector<RunSummary> summaries = read_run_summaries(runs);
  const std::string html = report_of(runs, scratch);
  const std::string best = fmt::format("<strong>{:.2f}</strong>", summaries[2].at_length(4096)->last_64_perplexity);
  EXPECT_THAT(html, HasSubstr(best));
  EXPECT_THAT(html, Not(HasSubstr(fmt::format("<strong>{:.1f}</strong>", summaries[1].at_length(4096)->last_64_perplexity))));
}

TEST(Report, HasItsTablesAndSaysSoWithoutGnuplot) {
  const ScratchFolder scratch;
  const std::vector<std::string> runs = three_runs(scratch.path());
  std::string html;
  {
    const WithoutGnuplot path(scratch.path());
    html = report_of(runs, scratch);
  }
  EXPECT_EQ(count(html, "The plots could not be drawn: gnuplot is not installed"), 1u);
  EXPECT_EQ(count(html, "<figure>"), 0u);
  EXPECT_THAT(html, HasSubstr("Perplexity, last 64 targets"));
  EXPECT_EQ(count(html, "class=\"heat\""), 3u);
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, SaysWhyGnuplotFailed) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "one"});
  write_text(scratch.path() / "bin/gnuplot", "#!/bin/sh\necho 'no <svg> terminal' >&2\nexit 3\n");
  fs::permissions(scratch.path() / "bin/gnuplot", fs::perms::owner_all);
  const WithoutGnuplot path(scratch.path() / "bin");
  const std::string html = report_of({run}, scratch);
  EXPECT_THAT(html, HasSubstr("The plots could not be drawn: gnuplot failed: no &lt;svg&gt; terminal"));
  EXPECT_THAT(html, HasSubstr("class=\"heat\""));
}

TEST(Report, ShowsWhatThereIsOfAnUnfinishedRun) {
  const ScratchFolder scratch;
  const std::string run =
      write_fake_run(scratch.path(), {.name = "half", .kind = "rope", .state = "stopped", .step = 700, .evaluated = false});
  const std::string html = report_of({run}, scratch);
  EXPECT_THAT(html, HasSubstr("Not finished: rope (stopped at step 700 of 1,800: SIGTERM)"));
  EXPECT_THAT(html, HasSubstr("No run has been evaluated by length yet"));
  EXPECT_THAT(html, HasSubstr("No run has passkey results"));
  EXPECT_EQ(count(html, "</svg>\n</figure>"), 4u);
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, ShowsARunThatHasOnlyItsConfiguration) {
  const ScratchFolder scratch;
  write_text(scratch.path() / "young/config.yaml", "position:\n  kind: nope\n");
  const std::string html = report_of({scratch.path() / "young"}, scratch);
  EXPECT_THAT(html, HasSubstr("No run has logged a training step yet"));
  EXPECT_THAT(html, HasSubstr("no status (status.json)"));
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, ShowsARunThatEndedBeforeItsConfigurationWasWritten) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "outgrown", .state = "failed", .step = 0});
  const std::string other = write_fake_run(scratch.path(), {.name = "good", .kind = "rope"});
  fs::remove(fs::path(run) / "config.yaml");
  const std::string html = report_of({run, other}, scratch);
  EXPECT_THAT(html, HasSubstr("no configuration (config.yaml)"));
  EXPECT_THAT(html, HasSubstr("Not finished: outgrown (failed at step 0"));
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, ReadsMetricsWhoseLastLineIsCutShort) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "killed"});
  std::ofstream(fs::path(run) / "metrics.jsonl", std::ios::app) << "{\"step\": 1810, \"lo";
  const RunSummary summary = read_run_summary(run);
  EXPECT_EQ(summary.metrics.back().step, 1800);
  EXPECT_THAT(summary.missing, testing::IsEmpty());
}

TEST(Report, ShowsLossesThatAreNotNumbersAsDashes) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "diverged"});
  write_text(fs::path(run) / "metrics.jsonl", "{\"step\": 10, \"loss\": null, \"tokens\": 100}\n");
  write_text(fs::path(run) / "eval/perplexity.json",
             R"({"train_length": 256, "lengths": [{"length": 2048, "perplexity": null, "tail_perplexity": 1e300,)"
             R"( "last_64_perplexity": "x"}]})");
  const std::string html = report_of({run}, scratch);
  EXPECT_THAT(html, HasSubstr("1.0e+300"));
  EXPECT_THAT(html, Not(HasSubstr("nan<")));
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, EscapesEverythingThatIsText) {
  const ScratchFolder scratch;
  const std::string run =
      write_fake_run(scratch.path(), {.name = "a<b>&\"c'; set output '%s'", .kind = "<script>alert(1)</script>"});
  write_text(fs::path(run) / "status.json",
             R"({"state": "failed", "step": 1, "steps": 2, "attempt": 1, "checkpoint": "", "exit_code": 70,)"
             R"( "reason": "loss < 0 & \"worse\" <img src=x>", "rank": 0, "host": "<h1>", "phase": "<p>", "time": "now"})");
  write_text(fs::path(run) / "provenance.json", R"({"<key>": {"<k>": "<v>"}, "attempts": [{"<h>": "<c>"}]})");
  const std::string html = report_of({run, run}, scratch);
  EXPECT_EQ(count(html, "<script"), 0u);
  EXPECT_EQ(count(html, "<img"), 0u);
  EXPECT_EQ(count(html, "<key>") + count(html, "<v>") + count(html, "<h>") + count(html, "<c>"), 0u);
  EXPECT_THAT(html, HasSubstr("a&lt;b&gt;&amp;&quot;c&#39;"));
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, ComparesRunsOfDifferentTrainingLengthsByMultiple) {
  const ScratchFolder scratch;
  const std::vector<std::string> runs = {write_fake_run(scratch.path(), {.name = "short", .context = 128}),
                                         write_fake_run(scratch.path(), {.name = "long", .context = 256})};
  const std::string html = report_of(runs, scratch);
  EXPECT_THAT(html, HasSubstr("At 8x the training length the perplexity"));
  EXPECT_THAT(html, HasSubstr("trained at 128"));
  EXPECT_THAT(html, HasSubstr("trained at 256"));
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, NamesASlowRankAndTheWarningsOfTheLogs) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "slow"});
  write_text(fs::path(run) / "logs/rank-00001.jsonl",
             rank_line(1, 10, 1.2) + "\n" + rank_line(1, 20, 1.7) + "\n" +
                 R"({"level": "warning", "rank": 1, "host": "node1", "step": 20, "phase": "save", "event": "save",)"
                 R"( "message": "<slow> disk"})"
                 "\n");
  const std::string html = report_of({run}, scratch);
  EXPECT_THAT(html, HasSubstr("Ranks: slow rank 1 on node1"));
  EXPECT_THAT(html, HasSubstr("rank 1, step 20: save &lt;slow&gt; disk"));
}

TEST(Report, ListsTheAttemptsOfARunThatWasResumed) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "resumed"});
  EXPECT_THAT(report_of({run}, scratch), Not(HasSubstr("Attempts")));
  write_text(
      fs::path(run) / "provenance.json",
      R"({"attempts": [{"attempt": 1, "hosts": ["a1"], "slurm": {"job_id": "77"}}, {"attempt": 2, "hosts": ["a2", "a3"]}]})");
  const std::string html = report_of({run}, scratch);
  EXPECT_THAT(html, HasSubstr("<h4>Attempts</h4>"));
  EXPECT_THAT(html, HasSubstr("job id 77"));
  EXPECT_THAT(html, HasSubstr("a2, a3"));
}

TEST(Report, NamesADamagedFileAndShowsTheRest) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "damaged"});
  write_text(fs::path(run) / "eval/perplexity.json", "{\"train_length\": 25");
  write_text(fs::path(run) / "status.json", "[]");
  const std::string html = report_of({run}, scratch);
  EXPECT_THAT(html, HasSubstr(run + "/eval/perplexity.json"));
  EXPECT_THAT(html, HasSubstr("No run has been evaluated by length yet"));
  EXPECT_THAT(html, HasSubstr("Training loss"));
  EXPECT_EQ(check_markup(scratch), 0);
}

TEST(Report, RefusesWhatIsNoRun) {
  const ScratchFolder scratch;
  const std::string output = scratch.path() / "report.html";
  const std::string run = write_fake_run(scratch.path(), {.name = "good"});
  fs::create_directories(scratch.path() / "empty");
  for (const std::string& bad :
       {(scratch.path() / "absent").string(), (scratch.path() / "empty").string(), run + "/config.yaml"}) {
    const Error error = error_of({run, bad}, output);
    EXPECT_EQ(error.code(), ExitCode::data);
    EXPECT_THAT(error.what(), HasSubstr(bad));
    EXPECT_EQ(count(error.what(), "\n"), 0u);
  }
  EXPECT_FALSE(fs::exists(output));
}

TEST(Report, LeavesNothingBehindWhereItCannotWrite) {
  const ScratchFolder scratch;
  const std::string run = write_fake_run(scratch.path(), {.name = "good"});
  EXPECT_EQ(error_of({run}, scratch.path() / "no/such/folder/report.html").code(), ExitCode::io);
  EXPECT_EQ(error_of({run}, run).code(), ExitCode::io);
  EXPECT_FALSE(fs::exists(scratch.path() / "no"));
}

TEST(SummaryTable, HasARowForEachRun) {
  const ScratchFolder scratch;
  const std::string table = summary_table(read_run_summaries(three_runs(scratch.path())));
  EXPECT_THAT(table, HasSubstr("quickstart-fope   fope      done   4.61 M"));
  EXPECT_THAT(table, HasSubstr("ppl 8x"));
  EXPECT_THAT(table, HasSubstr("key 2x"));
  EXPECT_EQ(count(table, "\n"), 5u);
}

}  // namespace
}  // namespace longwave

#include "tests/unit/report/fake_runs.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace longwave {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::int64_t tokens_per_step = 2560;

// Nats per token at `position`, in the shape that small models of each kind show when trained at length `context`.
double loss_at(const FakeRun& run, double position) {
  const double learned = 1.55 + 1.6 / std::sqrt(1 + position / 4) + 0.01 * static_cast<double>(run.seed - 1);
  const double past = std::max(0.0, std::log2(position / static_cast<double>(run.context)));
  if (run.kind == "rope") return learned + 0.62 * past * std::min(1.0, 0.35 + past / 4);
  if (run.kind == "alibi") return learned - 0.03 + (past > 0 ? 0 : 0.02);
  return learned + 0.01 + 0.1 * past;
}

// Between -1 and 1, the same in every run of the test.
double noise(std::int64_t index) {
  return std::sin(12.9898 * static_cast<double>(index)) * std::cos(4.1414 * static_cast<double>(index));
}

void write_config(const fs::path& folder, const FakeRun& run) {
  std::ostringstream text;
  text << "run:\n  name: " << run.name << "  # default\n  seed: " << run.seed << "  # default\n"
       << "model:\n  layers: 6  # preset quickstart\n  width: 192  # preset quickstart\n  heads: 6  # preset quickstart\n"
       << "  kv_heads: 6  # default\n  head_dim: 32  # default\n  mlp_hidden: 512  # preset quickstart\n"
       << "  context: " << run.context << "  # jobs/quickstart.yaml:7\n  vocabulary: 257  # tokenizer\n"
       << "  tied: false  # default\n  qk_norm: false  # default\n"
       << "position:\n  kind: " << run.kind << "  # command line\n  theta: 10000  # default\n"
       << "data:\n  tokenizer: bytes  # default\n  train:  # jobs/quickstart.yaml:12\n"
       << "    - {path: data/train/*.txt, weight: 1}  # jobs/quickstart.yaml:13\n"
       << "train:\n  steps: " << run.steps << "  # jobs/quickstart.yaml:16\n  batch: 10  # jobs/quickstart.yaml:17\n";
  write_text(folder / "config.yaml", text.str());
}

void write_metrics(const fs::path& folder, const FakeRun& run) {
  std::ostringstream text;
  for (std::int64_t step = 10; step <= run.step; step += 10) {
    const double progress = static_cast<double>(step) / static_cast<double>(run.steps);
    const double loss = 1.57 + 0.01 * static_cast<double>(run.seed) + 4.0 * std::exp(-9 * std::sqrt(progress)) +
                        0.25 * (1 - progress) + 0.03 * noise(step);
    const double rate = 18400 + 500 * noise(step) - (run.kind == "fope" ? 200 : 0);
    text << json{{"step", step},
                 {"loss", loss},
                 {"learning_rate", 6e-4 * std::min(1.0, progress * 20)},
                 {"grad_norm", 0.4 + 1.5 * std::exp(-20 * progress) + 0.05 * noise(step + 7)},
                 {"tokens", step * tokens_per_step},
                 {"seconds", static_cast<double>(step) * 0.139},
                 {"tokens_per_second", rate},
                 {"mfu", 0.41 + 0.01 * noise(step)}}
                .dump()
         << "\n";
    if (step % 200 == 0 || step == run.steps) {
      text << json{{"step", step}, {"validation_loss", loss + 0.06 - 0.03 * noise(step)}}.dump() << "\n";
    }
  }
  write_text(folder / "metrics.jsonl", text.str());
}

double mean_loss(const FakeRun& run, std::int64_t begin, std::int64_t end) {
  double sum = 0;
  for (std::int64_t position = begin; position < end; ++position) sum += loss_at(run, static_cast<double>(position));
  return sum / static_cast<double>(end - begin);
}

void write_perplexity(const fs::path& folder, const FakeRun& run) {
  json lengths = json::array();
  for (std::int64_t length = run.context / 2; length <= 16 * run.context; length *= 2) {
    json bins = json::array();
    const std::int64_t width = std::max<std::int64_t>(1, length / 64);
    for (std::int64_t begin = 0; begin < length - 1; begin += width) {
      const std::int64_t end = std::min(begin + width, length - 1);
      bins.push_back({{"begin", begin}, {"end", end}, {"loss", mean_loss(run, begin, end)}});
    }
    lengths.push_back({{"length", length},
                       {"perplexity", std::exp(mean_loss(run, 0, length - 1))},
                       {"tail_perplexity", std::exp(mean_loss(run, length / 2, length - 1))},
                       {"last_64_perplexity", std::exp(mean_loss(run, length - 64, length - 1))},
                       {"targets", 131072 / length * (length - 1)},
                       {"chunks", 131072 / length},
                       {"loss_by_position", bins}});
  }
  write_text(folder / "eval/perplexity.json", json{{"train_length", run.context}, {"lengths", lengths}}.dump(1));
}

double passkey_accuracy(const FakeRun& run, std::int64_t length, double depth) {
  const double past = std::max(0.0, std::log2(static_cast<double>(length) / static_cast<double>(run.context)));
  if (run.kind == "rope" && past > 0) return depth == 1 ? 0.1 / past : 0;
  const double kept = run.kind == "alibi" ? 0.45 + 0.3 * depth : 0.88;
  return (0.96 - 0.05 * (1 - depth)) * std::pow(kept, past);
}

void write_passkey(const fs::path& folder, const FakeRun& run) {
  json cells = json::array();
  for (std::int64_t length = run.context / 2; length <= 16 * run.context; length *= 2) {
    for (const double depth : {0.0, 0.25, 0.5, 0.75, 1.0}) {
      const auto correct = static_cast<std::int64_t>(std::lround(20 * passkey_accuracy(run, length, depth)));
      const double share = static_cast<double>(correct) / 20;
      cells.push_back({{"length", length},
                       {"depth", depth},
                       {"correct", correct},
                       {"trials", 20},
                       {"low", std::max(0.0, share - 0.18)},
                       {"high", std::min(1.0, share + 0.18)},
                       {"digits", 0.1 + 0.9 * std::sqrt(share)}});
    }
  }
  write_text(folder / "eval/passkey.json", json{{"cells", cells}}.dump(1));
}

void write_records(const fs::path& folder, const FakeRun& run) {
  json status = {{"state", run.state},
                 {"step", run.step},
                 {"steps", run.steps},
                 {"attempt", 1},
                 {"checkpoint", ""},
                 {"exit_code", 0},
                 {"reason", ""},
                 {"rank", 0},
                 {"host", "node1"},
                 {"phase", "done"},
                 {"time", "2026-03-01T10:12:13Z"}};
  if (run.state == "stopped") status.update({{"exit_code", 75}, {"reason", "SIGTERM"}, {"phase", "step"}});
  write_text(folder / "status.json", status.dump(1));
  json attempt = {{"attempt", 1},
                  {"time", "2026-03-01T10:08:01Z"},
                  {"version", "0.1.0"},
                  {"commit", "241244f"},
                  {"build", {{"type", "Release"}, {"compiler", "GNU 12.2.0"}}},
                  {"libraries", {{"oneDNN", "2.6.3"}, {"Open MPI", "4.1.4"}}},
                  {"ranks", 2},
                  {"hosts", {"node1"}},
                  {"mesh", {{"data", 2}, {"tensor", 1}}},
                  {"precision", "bf16"},
                  {"slurm", nullptr}};
  json provenance = attempt;
  provenance["attempts"] = json::array({attempt});
  write_text(folder / "provenance.json", provenance.dump(1));
  for (int rank = 0; rank < 2; ++rank) {
    std::ostringstream log;
    for (std::int64_t step = 10; step <= run.step; step += 10) {
      log << rank_line(rank, step, 1.2) << "\n";
    }
    write_text(folder / ("logs/rank-0000" + std::to_string(rank) + ".jsonl"), log.str());
  }
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::string pattern = fs::temp_directory_path() / "longwave-test-XXXXXX";
  if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp " + pattern);
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string rank_line(int rank, std::int64_t step, double work) {
  return json{{"time", "2026-03-01T10:09:00Z"},
              {"level", "info"},
              {"rank", rank},
              {"host", "node1"},
              {"step", step},
              {"phase", "train"},
              {"event", "step"},
              {"seconds", 1.39},
              {"data_seconds", 0.01},
              {"forward_seconds", work / 3},
              {"backward_seconds", work * 2 / 3},
              {"optimizer_seconds", 0.1},
              {"exposed_communication_seconds", 0.1}}
      .dump();
}

std::string write_fake_run(const fs::path& parent, const FakeRun& run) {
  const fs::path folder = parent / run.name;
  write_config(folder, run);
  write_metrics(folder, run);
  write_records(folder, run);
  if (run.evaluated) write_perplexity(folder, run);
  if (run.evaluated && run.passkey) write_passkey(folder, run);
  return folder;
}

}  // namespace longwave

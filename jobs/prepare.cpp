#include "jobs/prepare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>

#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/stop_request.h"
#include "core/data/paragraphs.h"
#include "core/data/text_file.h"
#include "core/data/token_shard.h"
#include "core/data/tokenizer.h"
#include "jobs/commands.h"
#include "jobs/prepared_output.h"
#include "jobs/progress.h"
#include "jobs/report/format.h"

namespace longwave {
namespace {

namespace fs = std::filesystem;

struct Document {
  std::string path;
  std::int64_t bytes = 0;  // on disk
};

struct Corpus {
  std::vector<Document> train, validation;
};

std::int64_t total_bytes(const std::vector<Document>& documents) {
  return std::accumulate(documents.begin(), documents.end(), std::int64_t{0},
                         [](std::int64_t sum, const Document& document) { return sum + document.bytes; });
}

// Files in the order given, each once; `seen` holds those that are taken.
std::vector<Document> list_documents(const std::vector<std::string>& paths, std::set<std::string>& seen) {
  std::vector<Document> documents;
  for (const std::string& path : paths) {
    for (const std::string& file : list_files(path)) {
      if (!seen.insert(fs::canonical(file).string()).second) continue;
      check_text_file(file);
      documents.push_back({file, static_cast<std::int64_t>(fs::file_size(file))});
    }
  }
  return documents;
}

// Moves whole documents to the validation side, in a shuffled order that depends on their number only, until it has its
// share; one document at least stays to train on.
void hold_out(Corpus& corpus, double share) {
  const std::size_t count = corpus.train.size();
  if (count < 2) throw config_error("--validation-share: one document cannot be shared out; give --validation FILE instead");
  const RandomKey key(1, "hold-out");
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key.bits(a) < key.bits(b); });
  const double wanted = share * static_cast<double>(total_bytes(corpus.train));
  std::vector<bool> held(count, false);
  double bytes = 0;
  for (std::size_t i = 0; i + 1 < count && bytes < wanted; ++i) {
    held[order[i]] = true;
    bytes += static_cast<double>(corpus.train[order[i]].bytes);
  }
  std::vector<Document> kept;
  for (std::size_t i = 0; i < count; ++i) (held[i] ? corpus.validation : kept).push_back(corpus.train[i]);
  corpus.train = std::move(kept);
}

void check_arguments(const PrepareArguments& arguments) {
  if (!arguments.validation.empty() && arguments.validation_share > 0) {
    throw config_error("--validation and --validation-share: give one of them");
  }
  if (arguments.validation_share < 0 || arguments.validation_share >= 1) {
    throw config_error("--validation-share {}: a share is at least 0 and below 1", arguments.validation_share);
  }
  if (arguments.shard_tokens < 0) throw config_error("--shard-tokens {}: must be above 0", arguments.shard_tokens);
  if (arguments.train_tokenizer != 0 && arguments.tokenizer != "bytes") {
    throw config_error("--train-tokenizer and --tokenizer: give one of them");
  }
  const bool one_file = arguments.output.ends_with(".lwtok");
  if (one_file && (!arguments.validation.empty() || arguments.validation_share > 0 || arguments.shard_tokens > 0)) {
    throw config_error("-o {}: one .lwtok file has no place for validation or several shards; give a folder", arguments.output);
  }
}

Corpus list_corpus(const PrepareArguments& arguments) {
  Corpus corpus;
  std::set<std::string> seen;
  corpus.validation = list_documents(arguments.validation, seen);
  corpus.train = list_documents(arguments.inputs, seen);
  if (corpus.train.empty()) throw config_error("nothing is left to train on: every input is held out by --validation");
  if (arguments.validation_share > 0) hold_out(corpus, arguments.validation_share);
  return corpus;
}

std::string read_document(const Document& document, bool unwrap) {
  std::string text = read_text_file(document.path);
  if (!unwrap) return text;
  text = unwrap_paragraphs(text);
  if (text.empty()) throw data_error("{}: holds no text but blanks; leave it out", document.path);
  return text;
}

// From the training side only. Of a large corpus every so manieth document is read, so that it fits in memory.
std::string train_tokenizer(const std::vector<Document>& documents, const PrepareArguments& arguments) {
  constexpr std::int64_t memory = std::int64_t{256} << 20;
  const auto stride = static_cast<std::size_t>(total_bytes(documents) / memory + 1);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < documents.size(); i += stride) texts.push_back(read_document(documents[i], arguments.unwrap));
  fmt::print("training a tokenizer of {} pieces on {} documents\n", arguments.train_tokenizer, texts.size());
  std::fflush(stdout);
  return train_sentencepiece({texts.begin(), texts.end()}, arguments.train_tokenizer);
}

struct Summary {
  std::string side;
  std::size_t documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t tokens = 0;
};

Summary write_side(const std::string& side, const std::vector<Document>& documents, const PrepareArguments& arguments,
                   const Tokenizer& tokenizer, PreparedOutput& output, Progress& progress) {
  Summary summary{side, documents.size(), 0, 0};
  progress.begin_phase(0, total_bytes(documents));
  std::int64_t done = 0;
  for (const Document& document : documents) {
    if (const int signal = stop_requested()) {
      throw Error(ExitCode::requeue, fmt::format("stopped by {}; nothing was written", signal_name(signal)));
    }
    const std::string text = read_document(document, arguments.unwrap);
    std::vector<std::int32_t> ids = tokenizer.encode(text);
    ids.push_back(tokenizer.end_of_document());
    output.append(side, ids);
    summary.text_bytes += static_cast<std::int64_t>(text.size());
    summary.tokens += static_cast<std::int64_t>(ids.size());
    done += document.bytes;
    progress.update(done, fmt::format("{}: {} tokens", side, show_count(static_cast<double>(summary.tokens))), false);
  }
  progress.end_line();
  return summary;
}

void print_table(const std::vector<Summary>& sides) {
  fmt::print("{:<12} {:>10} {:>14} {:>14} {:>12}\n", "", "documents", "bytes", "tokens", "bytes/token");
  for (const Summary& side : sides) {
    fmt::print("{:<12} {:>10} {:>14} {:>14} {:>12.3f}\n", side.side, side.documents, side.text_bytes, side.tokens,
               static_cast<double>(side.text_bytes) / static_cast<double>(side.tokens));
  }
}

}  // namespace

ExitCode run_prepare(const PrepareArguments& arguments) {
  check_arguments(arguments);
  const Corpus corpus = list_corpus(arguments);
  install_stop_handlers();
  std::unique_ptr<Tokenizer> tokenizer;
  std::string model;
  if (arguments.train_tokenizer != 0) {
    model = train_tokenizer(corpus.train, arguments);
    tokenizer = make_sentencepiece_tokenizer(model, PreparedOutput::model_path(arguments.output));
  } else {
    tokenizer = open_tokenizer(arguments.tokenizer);
    if (!tokenizer) throw config_error("--tokenizer none: text cannot be prepared without one");
  }

  PreparedOutput output(arguments.output, *tokenizer, arguments.shard_tokens);
  if (!model.empty()) output.add_model(model);
  Progress progress(true);
  std::vector<Summary> sides = {write_side("train", corpus.train, arguments, *tokenizer, output, progress)};
  if (!corpus.validation.empty()) {
    sides.push_back(write_side("validation", corpus.validation, arguments, *tokenizer, output, progress));
  }
  const bool changed = output.commit(arguments.force);
  print_table(sides);
  for (const std::string& path : output.paths()) fmt::print("{} {}\n", changed ? "wrote" : "unchanged:", path);
  return ExitCode::done;
}

void add_prepare_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<PrepareArguments>();
  CLI::App* prepare = app.add_subcommand("prepare", "Turn text or .gz files and folders into token shards");
  prepare->add_option("INPUT", arguments->inputs, "Text files, .gz files, folders, globs; a file is a document")->required();
  prepare->add_option("-o,--output", arguments->output, "A folder, or one file ending in .lwtok")->required();
  prepare->add_option("--tokenizer", arguments->tokenizer, "bytes, or a SentencePiece .model file")->capture_default_str();
  prepare->add_option("--train-tokenizer", arguments->train_tokenizer, "Train a SentencePiece model of so many pieces first");
  prepare->add_option("--validation", arguments->validation, "Files, folders, globs to hold out");
  prepare->add_option("--validation-share", arguments->validation_share, "Hold out about this share, in whole documents");
  prepare->add_option("--shard-tokens", arguments->shard_tokens, "Tokens a shard; a document is never cut");
  prepare->add_flag("--unwrap", arguments->unwrap, "Join hard-wrapped lines into paragraphs");
  prepare->add_flag("--force", arguments->force, "Replace output that differs");
  prepare->callback([arguments, &command] { command.run = [arguments] { return run_prepare(*arguments); }; });
}

}  // namespace longwave

// `longwave prepare`: text and .gz files to token shards, a file a document.
//
// OUT ending in .lwtok is one shard. Anything else is a folder that gets train.lwtok, validation.lwtok when documents are
// held out, and tokenizer.model when one is trained; with --shard-tokens the shards are train-00000.lwtok and so on. All
// files appear at the end, or none. What is there already stays unless it is equal, or --force is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace longwave {

struct PrepareArguments {
  std::vector<std::string> inputs;  // files, folders, globs
  std::string output;
  std::string tokenizer = "bytes";
  std::int64_t train_tokenizer = 0;     // pieces of a SentencePiece model to train; 0: use `tokenizer`
  std::vector<std::string> validation;  // files, folders, globs held out, also when `inputs` holds them too
  double validation_share = 0;          // or about this share of the bytes, in whole documents
  std::int64_t shard_tokens = 0;        // begin another shard before a document that would pass this; 0: one shard
  bool unwrap = false;
  bool force = false;
};

ExitCode run_prepare(const PrepareArguments& arguments);

}  // namespace longwave

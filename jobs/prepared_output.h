// What `longwave prepare` writes: shards and perhaps a tokenizer, all of which appear together at the end, or not at all.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/data/token_shard.h"
#include "core/data/tokenizer.h"

namespace longwave {

class PreparedOutput {
 public:
  // `output`: a folder, which is made, or a file ending in .lwtok. Throws io_error when it cannot be written.
  PreparedOutput(const std::string& output, const Tokenizer& tokenizer, std::int64_t shard_tokens);
  PreparedOutput(const PreparedOutput&) = delete;
  PreparedOutput& operator=(const PreparedOutput&) = delete;
  ~PreparedOutput();  // without commit() leaves no file and no folder behind

  static std::string model_path(const std::string& output);

  void add_model(const std::string& model);
  void append(const std::string& side, const std::vector<std::int32_t>& document);

  // False when everything is there already, equal. Throws config_error when something else is there and `force` is not set;
  // shards of an earlier, longer set go with `force`.
  bool commit(bool force);
  std::vector<std::string> paths() const;

 private:
  struct Side {
    std::vector<std::string> paths;
    std::vector<std::unique_ptr<TokenShardWriter>> shards;
  };
  bool one_file() const;
  std::string shard_path(const std::string& side, std::size_t shard) const;
  std::vector<std::string> leftovers() const;
  bool unchanged() const;

  std::string output_;
  const Tokenizer& tokenizer_;
  std::int64_t shard_tokens_;
  std::vector<std::string> made_folders_;
  std::map<std::string, Side> sides_;
  std::unique_ptr<AtomicFile> model_;
  std::string model_bytes_;
  bool committed_ = false;
};

}  // namespace longwave

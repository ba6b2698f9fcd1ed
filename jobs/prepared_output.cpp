#include "jobs/prepared_output.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"

namespace longwave {

namespace fs = std::filesystem;

PreparedOutput::PreparedOutput(const std::string& output, const Tokenizer& tokenizer, std::int64_t shard_tokens)
    : output_(output), tokenizer_(tokenizer), shard_tokens_(shard_tokens) {
  made_folders_ = make_directories(one_file() ? parent_directory(output) : output);
}

PreparedOutput::~PreparedOutput() {
  if (committed_) return;
  sides_.clear();  // the temporary files go first
  model_.reset();
  std::error_code ignored;
  for (auto folder = made_folders_.rbegin(); folder != made_folders_.rend(); ++folder) fs::remove(*folder, ignored);
}

bool PreparedOutput::one_file() const { return output_.ends_with(".lwtok"); }

std::string PreparedOutput::model_path(const std::string& output) {
  if (output.ends_with(".lwtok")) return fs::path(output).replace_extension(".model").string();
  return (fs::path(output) / "tokenizer.model").string();
}

std::string PreparedOutput::shard_path(const std::string& side, std::size_t shard) const {
  if (one_file()) return output_;
  const std::string name = shard_tokens_ == 0 ? side + ".lwtok" : fmt::format("{}-{:05}.lwtok", side, shard);
  return (fs::path(output_) / name).string();
}

void PreparedOutput::add_model(const std::string& model) {
  model_ = std::make_unique<AtomicFile>(model_path(output_));
  model_->file().write_at(model.data(), model.size(), 0);
  model_bytes_ = model;
}

void PreparedOutput::append(const std::string& side, const std::vector<std::int32_t>& document) {
  Side& written = sides_[side];
  const auto tokens = static_cast<std::int64_t>(document.size());
  if (written.shards.empty() || (shard_tokens_ > 0 && written.shards.back()->tokens() + tokens > shard_tokens_)) {
    if (!written.shards.empty()) written.shards.back()->finish();
    written.paths.push_back(shard_path(side, written.shards.size()));
    written.shards.push_back(std::make_unique<TokenShardWriter>(written.paths.back(), tokenizer_.vocabulary(), &tokenizer_));
  }
  written.shards.back()->append(document);
}

std::vector<std::string> PreparedOutput::paths() const {
  std::vector<std::string> paths;
  for (const auto& [side, written] : sides_) paths.insert(paths.end(), written.paths.begin(), written.paths.end());
  if (model_) paths.push_back(model_->path());
  return paths;
}

// Shards of these names that an earlier call wrote and this one does not: a glob or a folder would read them too.
std::vector<std::string> PreparedOutput::leftovers() const {
  if (one_file()) return {};
  const std::vector<std::string> own = paths();
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.ends_with(".lwtok") && (name.starts_with("train") || name.starts_with("validation"));
    if (ours && std::find(own.begin(), own.end(), (fs::path(output_) / name).string()) == own.end()) {
      found.push_back(entry.path().string());
    }
  }
  return found;
}

bool PreparedOutput::unchanged() const {
  for (const auto& [side, written] : sides_) {
    for (std::size_t i = 0; i < written.shards.size(); ++i) {
      if (!fs::exists(written.paths[i]) || !written.shards[i]->equals_existing()) return false;
    }
  }
  if (model_ && (!fs::exists(model_->path()) || read_file(model_->path()) != model_bytes_)) return false;
  return leftovers().empty();
}

bool PreparedOutput::commit(bool force) {
  for (auto& [side, written] : sides_) written.shards.back()->finish();
  if (unchanged()) return false;
  const std::vector<std::string> stale = leftovers();
  if (!force) {
    std::vector<std::string> there = stale;
    for (const std::string& path : paths()) {
      if (fs::exists(path)) there.push_back(path);
    }
    if (!there.empty()) {
      throw config_error("{} is there already and would change; --force replaces it, another -o keeps it", there.front());
    }
  }
  if (model_) model_->commit();
  for (auto& [side, written] : sides_) {
    for (auto& shard : written.shards) shard->commit();
  }
  for (const std::string& path : stale) remove_file(path);
  committed_ = true;
  return true;
}

}  // namespace longwave

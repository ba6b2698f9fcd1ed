#include "core/data/token_shard.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/divide.h"
#include "core/base/error.h"

namespace longwave {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and read in place");

constexpr char magic[8] = {'L', 'W', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr std::uint32_t current_version = 1;
constexpr std::uint64_t default_block_bytes = std::uint64_t{1} << 20;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t width;
  std::uint64_t vocabulary;
  std::uint64_t tokens;
  std::uint64_t documents;
  std::uint64_t block_bytes;
  std::uint64_t fingerprint;
  std::uint64_t checksum;
};
static_assert(sizeof(Header) == 64);

std::uint64_t header_checksum(const Header& header) { return XXH3_64bits(&header, offsetof(Header, checksum)); }

// The file's size by its header. In 128 bits: the fields are not to be trusted before this agrees with the real size.
__extension__ using uint128 = unsigned __int128;
uint128 expected_size(const Header& header) {
  const uint128 id_bytes = static_cast<uint128>(header.tokens) * header.width;
  const uint128 blocks = divide_up(id_bytes, header.block_bytes);
  return sizeof(Header) + round_up(id_bytes, 8) + blocks * 8 + static_cast<uint128>(header.documents) * 8 + 8;
}

Header read_header(const MappedFile& file) {
  const std::string& path = file.path();
  Header header;
  if (file.size() < sizeof(Header)) {
    throw data_error("{}: truncated: {} bytes, and the header alone is {}; make the file again", path, file.size(),
                     sizeof(Header));
  }
  std::memcpy(&header, file.data(), sizeof(Header));
  if (std::memcmp(header.magic, magic, sizeof(magic)) != 0) throw data_error("{}: not a Longwave token file", path);
  if (header.version != current_version) {
    throw data_error("{}: token file version {}, this program reads version {}; make the file again with `longwave prepare`",
                     path, header.version, current_version);
  }
  if (header.checksum != header_checksum(header)) {
    throw data_error("{}: the header is damaged (offset 0: checksum {:016x}, computed {:016x}); make the file again", path,
                     header.checksum, header_checksum(header));
  }
  if ((header.width != 2 && header.width != 4) || header.block_bytes == 0 || header.block_bytes % 4 != 0) {
    throw data_error("{}: the header makes no sense ({} bytes a token, blocks of {} bytes); make the file again", path,
                     header.width, header.block_bytes);
  }
  if (const uint128 expected = expected_size(header); expected != file.size()) {
    throw data_error("{}: {}: the header tells of {} tokens, the file has {} bytes; copy or make it again", path,
                     expected > file.size() ? "truncated" : "too long", header.tokens, file.size());
  }
  if (header.tokens == 0) throw data_error("{}: holds no tokens; leave it out", path);
  return header;
}

}  // namespace

bool TokenShard::recognises(const MappedFile& file) {
  // A file cut inside of the magic is still ours, and truncated; an empty one is nobody's.
  const std::size_t length = std::min(file.size(), sizeof(magic));
  return length > 0 && std::memcmp(file.data(), magic, length) == 0;
}

TokenShard::TokenShard(MappedFile file, const Tokenizer* tokenizer, std::int64_t model_vocabulary) : file_(std::move(file)) {
  const Header header = read_header(file_);
  if (tokenizer && header.fingerprint != 0 && header.fingerprint != tokenizer->fingerprint()) {
    throw data_error(
        "{}: these tokens were made with another tokenizer than data.tokenizer ({}); give that one, or prepare "
        "the text again",
        name(), tokenizer->name());
  }
  ids_ = {file_.data() + sizeof(Header), static_cast<int>(header.width), static_cast<std::int64_t>(header.tokens)};
  vocabulary_ = static_cast<std::int64_t>(header.vocabulary);
  limit_ = id_limit(vocabulary_, model_vocabulary);
  documents_ = static_cast<std::int64_t>(header.documents);
  block_bytes_ = static_cast<std::int64_t>(header.block_bytes);
  blocks_ = divide_up(ids_.count * ids_.width, block_bytes_);
  checked_ = std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(blocks_));
}

std::int64_t TokenShard::checksums_offset() const {
  return static_cast<std::int64_t>(sizeof(Header) + round_up(static_cast<std::uint64_t>(ids_.count * ids_.width), 8));
}

void TokenShard::check_block(std::int64_t block) const {
  const std::int64_t begin = block * block_bytes_;
  const std::int64_t bytes = std::min(block_bytes_, ids_.count * ids_.width - begin);
  std::uint64_t stored;
  std::memcpy(&stored, file_.data() + checksums_offset() + block * 8, sizeof(stored));
  const std::uint64_t computed = XXH3_64bits(ids_.data + begin, static_cast<std::size_t>(bytes));
  const auto file_offset = static_cast<std::int64_t>(sizeof(Header)) + begin;
  if (computed != stored) {
    throw data_error("{}: corrupted: bytes {} to {} have checksum {:016x}, {:016x} was written; copy or make the file again",
                     name(), file_offset, file_offset + bytes, computed, stored);
  }
  check_ids(ids_, limit_, begin / ids_.width, bytes / ids_.width, name(), sizeof(Header));
}

void TokenShard::read(std::int64_t begin, std::int64_t count, std::int32_t* out) const {
  check_range(begin, count, ids_.count, name());
  if (count == 0) return;
  const std::int64_t last = (begin + count - 1) * ids_.width / block_bytes_;
  for (std::int64_t block = begin * ids_.width / block_bytes_; block <= last; ++block) {
    if (checked_[static_cast<std::size_t>(block)].load(std::memory_order_relaxed)) continue;
    check_block(block);
    checked_[static_cast<std::size_t>(block)].store(true, std::memory_order_relaxed);
  }
  ids_.widen(begin, count, out);
}

std::vector<std::int64_t> TokenShard::document_ends() const {
  const std::int64_t offset = checksums_offset() + blocks_ * 8;
  const auto bytes = static_cast<std::size_t>(documents_) * 8;
  std::vector<std::int64_t> ends(static_cast<std::size_t>(documents_));
  std::memcpy(ends.data(), file_.data() + offset, bytes);
  std::uint64_t stored;
  std::memcpy(&stored, file_.data() + offset + static_cast<std::int64_t>(bytes), sizeof(stored));
  const bool ascending = std::is_sorted(ends.begin(), ends.end()) && (ends.empty() || ends.back() == ids_.count);
  if (XXH3_64bits(ends.data(), bytes) != stored || !ascending) {
    throw data_error("{}: corrupted: the document index at offset {} does not agree with its checksum; make the file again",
                     name(), offset);
  }
  return ends;
}

TokenShardWriter::TokenShardWriter(const std::string& path, std::int64_t vocabulary, const Tokenizer* tokenizer)
    : output_(std::make_unique<AtomicFile>(path)),
      vocabulary_(vocabulary),
      fingerprint_(tokenizer ? tokenizer->fingerprint() : 0),
      width_(vocabulary <= 65536 ? 2 : 4),
      offset_(sizeof(Header)) {
  block_.reserve(default_block_bytes);
}

void TokenShardWriter::append(const std::vector<std::int32_t>& document) {
  for (const std::int32_t id : document) {
    if (id < 0 || id >= vocabulary_) {
      throw data_error("{}: id {} for token {} is outside of the vocabulary of {}", output_->path(), id, tokens_, vocabulary_);
    }
    std::byte bytes[4];
    std::memcpy(bytes, &id, sizeof(bytes));
    block_.insert(block_.end(), bytes, bytes + width_);
    ++tokens_;
    if (block_.size() == default_block_bytes) flush_block();
  }
  document_ends_.push_back(static_cast<std::uint64_t>(tokens_));
}

void TokenShardWriter::write(const void* data, std::size_t bytes) {
  output_->file().write_at(data, bytes, offset_);
  offset_ += bytes;
}

void TokenShardWriter::flush_block() {
  if (block_.empty()) return;
  checksums_.push_back(XXH3_64bits(block_.data(), block_.size()));
  write(block_.data(), block_.size());
  block_.clear();
}

void TokenShardWriter::finish() {
  flush_block();
  const std::uint64_t zeros = 0;
  write(&zeros, static_cast<std::size_t>(round_up(offset_, 8) - offset_));
  write(checksums_.data(), checksums_.size() * 8);
  write(document_ends_.data(), document_ends_.size() * 8);
  const std::uint64_t index_checksum = XXH3_64bits(document_ends_.data(), document_ends_.size() * 8);
  write(&index_checksum, sizeof(index_checksum));

  Header header{};
  std::memcpy(header.magic, magic, sizeof(magic));
  header.version = current_version;
  header.width = static_cast<std::uint32_t>(width_);
  header.vocabulary = static_cast<std::uint64_t>(vocabulary_);
  header.tokens = static_cast<std::uint64_t>(tokens_);
  header.documents = static_cast<std::uint64_t>(document_ends_.size());
  header.block_bytes = default_block_bytes;
  header.fingerprint = fingerprint_;
  header.checksum = header_checksum(header);
  output_->file().write_at(&header, sizeof(header), 0);
}

bool TokenShardWriter::equals_existing() const {
  const MappedFile existing(output_->path());
  const MappedFile made(output_->file().path());
  return existing.size() == made.size() && std::memcmp(existing.data(), made.data(), made.size()) == 0;
}

void TokenShardWriter::commit() { output_->commit(); }

}  // namespace longwave

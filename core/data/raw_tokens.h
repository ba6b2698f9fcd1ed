// Token files of other programs, read in place: llm.c .bin (a header of 256 int32) and headerless uint16 or uint32 as
// nanoGPT and OLMo write them. They carry no checksum; ids are checked at every read.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/file.h"
#include "core/data/id_array.h"
#include "core/data/token_source.h"

namespace longwave {

class RawTokens final : public TokenSource {
 public:
  // llm.c: magic 20240520, version 1, count, then uint16 ids. Throws data_error: another version, truncated, too long.
  static std::unique_ptr<RawTokens> open_llmc(MappedFile file, std::int64_t model_vocabulary);
  static bool recognises_llmc(const MappedFile& file);
  // `dtype` "uint16" or "uint32". Throws data_error: a size that is no multiple, a NumPy header.
  static std::unique_ptr<RawTokens> open_headerless(MappedFile file, const std::string& dtype, std::int64_t model_vocabulary);

  std::int64_t size() const override { return ids_.count; }
  std::int64_t vocabulary() const override { return 0; }
  const std::string& name() const override { return file_.path(); }
  void read(std::int64_t begin, std::int64_t count, std::int32_t* out) const override;

 private:
  RawTokens(MappedFile file, std::int64_t data_offset, int width, std::int64_t count, std::int64_t model_vocabulary);

  MappedFile file_;
  std::int64_t data_offset_;  // bytes
  IdArray ids_;
  std::int64_t limit_;
};

}  // namespace longwave

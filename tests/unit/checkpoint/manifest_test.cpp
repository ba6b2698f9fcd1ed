#include "parallel/checkpoint/manifest.h"

#include <functional>

#include "core/base/random.h"
#include "parallel/checkpoint/checksum.h"
#include "parallel/checkpoint/coverage.h"
#include "tests/unit/expect_error.h"

namespace longwave {
namespace {

// Two files that share one 4 x 6 matrix by columns, and a vector in the first.
Manifest two_ranks() {
  Manifest manifest;
  manifest.facts.step = 1200;
  manifest.facts.samples = 9600;
  manifest.facts.program = "longwave 0.1.0 (abc)";
  manifest.facts.config = {{"model.layers", "2"}, {"data.train", "[{path: \"a \\\"b\\\"\", weight: 1}]"}};
  manifest.facts.training = {{"updates", 1199}, {"mean", 0.1}};
  manifest.time = "2026-03-01T12:00:00.123Z";
  manifest.mesh = {1, 2};
  manifest.files = {{"rank-00000.safetensors", 100 + 48 + 12, 100, 7}, {"rank-00001.safetensors", 90 + 48, 90, 8}};
  manifest.tensors = {{"w", DType::f32, {4, 6}, {{0, "w#0", {0, 4, 0, 3}, 100, 48, 1}, {1, "w#0", {0, 4, 3, 6}, 90, 48, 2}}},
                      {"v", DType::f32, {3}, {{0, "v", {0, 3, 0, 1}, 148, 12, 3}}}};
  return manifest;
}

TEST(Manifest, ReadsBackWhatWasWritten) {
  const Manifest written = two_ranks();
  const std::string text = format_manifest(written);
  const Manifest read = parse_manifest(text, "manifest.json");
  EXPECT_EQ(format_manifest(read), text);
  EXPECT_EQ(read.facts.step, 1200);
  EXPECT_EQ(read.facts.samples, 9600);
  EXPECT_EQ(read.facts.config, written.facts.config);
  EXPECT_EQ(read.facts.training, written.facts.training);
  EXPECT_EQ(read.mesh, written.mesh);
  ASSERT_NE(read.find("w"), nullptr);
  EXPECT_EQ(read.find("w")->slices[1].rectangle, (Rectangle{0, 4, 3, 6}));
  EXPECT_EQ(read.find("x"), nullptr);
  EXPECT_EQ(read.bytes(), 298u);
}

TEST(Manifest, NoticesEveryFlippedBit) {
  const std::string text = format_manifest(two_ranks());
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_ERROR(parse_manifest(flipped, "a/manifest.json"), ExitCode::data, "a/manifest.json");
  }
}

TEST(Manifest, NoticesEveryTruncation) {
  const std::string text = format_manifest(two_ranks());
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_ERROR(parse_manifest(text.substr(0, size), "a/manifest.json"), ExitCode::data, "a/manifest.json");
  }
}

// Puts the right checksum on a changed text: what a bug or an attacker could write.
std::string sealed(std::string text) {
  const std::size_t at = text.find("\"xxh3\": \"") + 9;
  text.replace(at, 16, "0000000000000000");
  return text.replace(at, 16, checksum_text(checksum_of(text.data(), text.size())));
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return sealed(text.replace(at, from.size(), to));
}

TEST(Manifest, RefusesWhatIsNoNumberOrOutOfRange) {
  const std::string text = format_manifest(two_ranks());
  const auto refuses = [&](const std::string& from, const std::string& to, const std::string& why) {
    EXPECT_ERROR(parse_manifest(replaced(text, from, to), "m"), ExitCode::data, why);
  };
  refuses("\"step\": 1200", "\"step\": -1", "negative");
  refuses("\"step\": 1200", "\"step\": 1.5", "not an integer");
  refuses("\"step\": 1200", "\"step\": 18446744073709551615", "out of range");
  refuses("\"step\": 1200", "\"step\": \"1200\"", "not an integer");
  refuses("\"format_version\": 1", "\"format_version\": 2", "format version 2, this program reads 1");
  refuses("longwave-checkpoint", "longwave-checkmate", "not a manifest");
  refuses("\"dtype\":\"F32\"", "\"dtype\":\"F33\"", "F33 is not known");
  refuses("0000000000000007", "000000000000000g", "not a checksum");
  refuses("\"training\": {", "\"trainings\": {", "field is missing");
}

TEST(Manifest, RefusesSlicesThatAreNotTheWholeCheckpoint) {
  using Change = std::function<void(Manifest&)>;
  const auto refuses = [](const Change& change, const std::string& why) {
    Manifest manifest = two_ranks();
    change(manifest);
    EXPECT_ERROR(check_coverage(manifest), ExitCode::data, why);
  };
  ASSERT_NO_THROW(check_coverage(two_ranks()));
  refuses([](Manifest& m) { m.tensors[0].slices.pop_back(); }, "12 of 24 elements");
  refuses([](Manifest& m) { m.tensors[0].slices[1].rectangle = {0, 4, 2, 5}; }, "overlap");
  refuses([](Manifest& m) { m.tensors[0].slices[1].rectangle = {0, 4, 0, 3}; }, "overlap");
  refuses([](Manifest& m) { m.tensors[0].slices[1].rectangle = {0, 4, 4, 7}; }, "outside");
  refuses([](Manifest& m) { m.tensors[0].slices[1].rectangle = {4, 0, 3, 6}; }, "outside");
  refuses([](Manifest& m) { m.tensors[0].slices[1].bytes = 44; }, "44 bytes for 12 elements");
  refuses([](Manifest& m) { m.tensors[0].slices[1].file = 2; }, "file 2 of 2");
  refuses([](Manifest& m) { m.tensors[0].shape = {INT64_MAX, 6}; }, "cannot be");
  refuses([](Manifest& m) { m.tensors[0].shape = {0, 6}; }, "cannot be");
  refuses([](Manifest& m) { m.tensors[1].name = "w"; }, "twice");
  refuses([](Manifest& m) { m.tensors[1].slices[0].offset = 144; }, "expected 148");
  refuses([](Manifest& m) { m.files[0].bytes += 4; }, "end at byte 160 of 164");
  refuses([](Manifest& m) { m.files[0].bytes -= 4; }, "rank-00000.safetensors");
  refuses([](Manifest& m) { m.files[1].name = "../rank-00001.safetensors"; }, "no name for a file");
  refuses([](Manifest& m) { m.files[1].name = m.files[0].name; }, "no name for a file");
  refuses([](Manifest& m) { m.files[1].name = ""; }, "no name for a file");
  refuses([](Manifest& m) { m.mesh.data = 0; }, "mesh");
}

// Whatever the bytes are, a manifest or a data_error: the checksum is right here, so the parser behind it sees the damage.
TEST(Manifest, SurvivesRandomDamage) {
  const std::string text = format_manifest(two_ranks());
  const RandomKey key(11, "damage");
  int refused = 0;
  for (std::uint64_t round = 0; round < 4000; ++round) {
    std::string damaged = text;
    for (std::uint64_t i = 0; i < 1 + key.below(4, round, 1); ++i) {
      const std::size_t at = 30 + key.below(damaged.size() - 30, round, 4 * i + 2);
      switch (key.below(3, round, 4 * i + 3)) {
        case 0: damaged[at] = static_cast<char>(key.below(256, round, 4 * i + 4)); break;
        case 1: damaged.erase(at, 1 + key.below(20, round, 4 * i + 5)); break;
        default: damaged.insert(at, damaged.substr(key.below(damaged.size(), round, 4 * i + 5), 9));
      }
    }
    try {
      check_coverage(parse_manifest(sealed(damaged), "m"));
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ExitCode::data) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace longwave

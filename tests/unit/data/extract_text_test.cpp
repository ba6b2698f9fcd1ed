// jobs/extract_text.py on small files of each kind, made here as the packages make them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <zlib.h>

#include <cstdlib>
#include <string>

#include "tests/unit/data/scratch_folder.h"

namespace longwave {
namespace {

std::string deflated(const std::string& text) {
  uLongf size = compressBound(static_cast<uLong>(text.size()));
  std::string out(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                     static_cast<uLong>(text.size())),
            Z_OK);
  out.resize(size);
  return out;
}

std::string little_endian(std::size_t value) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string big_endian(std::size_t value) {
  const std::string bytes = little_endian(value);
  return {bytes.rbegin(), bytes.rend()};
}

class ExtractText : public testing::Test {
 protected:
  // The exit status of the script; its text is in out.txt.
  int extract(const std::string& arguments) const {
    const std::string command = "python3 " LONGWAVE_SOURCE_DIR "/jobs/extract_text.py " + arguments + " >" +
                                folder_.path("out.txt") + " 2>" + folder_.path("err.txt");
    return WEXITSTATUS(std::system(command.c_str()));
  }
  std::string text() const { return folder_.read("out.txt"); }

  void write_sword_module(const std::string& name, const std::vector<std::string>& blocks) const {
    std::string index, data;
    for (const std::string& block : blocks) {
      const std::string packed = deflated(block);
      index += little_endian(data.size()) + little_endian(packed.size()) + little_endian(block.size());
      data += packed;
    }
    folder_.write(name + ".bzs", index);
    folder_.write(name + ".bzz", data);
  }

  ScratchFolder folder_;
};

TEST_F(ExtractText, TakesTheLicenceAndMarksOffABook) {
  const std::string book = folder_.write("book.txt",
                                         "\xef\xbb\xbfProject Gutenberg's Book\r\n\r\n*** START OF THIS PROJECT GUTENBERG EBOOK "
                                         "***\r\n\r\nProduced by Someone and\r\n"
                                         "others\r\n\r\nA _BOOK_\r\n\r\n\r\n\r\n  *  *  *  *\r\n\r\nIts text.\r\n\r\nEnd of the "
                                         "Project Gutenberg EBook\r\nLicence.\r\n");
  ASSERT_EQ(extract("book " + book), 0);
  EXPECT_EQ(text(), "A BOOK\n\nIts text.\n");
}

TEST_F(ExtractText, TurnsOsisMarkupIntoParagraphs) {
  write_sword_module("ot", {"<title type=\"main\">Genesis</title> <div sID=\"g\" type=\"x-p\"/> In the <w lemma=\"strong:H7225\">"
                            "beginning</w><note n=\"a\">or <w>start</w></note> &amp; <hi>then</hi> , <div eID=\"g\"/>",
                            "<chapter osisID=\"Gen.2\"/>\xc2\xb6 Again.<table><row><cell>Outline</cell></row></table>"});
  write_sword_module("nt", {"<l>One</l> <l>two</l>"});
  ASSERT_EQ(extract("sword " + folder_.path("ot.bzs") + " " + folder_.path("nt.bzs")), 0);
  EXPECT_EQ(text(), "Genesis\n\nIn the beginning & then,\n\nAgain.\nOne\ntwo\n");
}

TEST_F(ExtractText, RefusesADamagedModule) {
  write_sword_module("ot", {"some text of some length"});
  const std::string data = folder_.read("ot.bzz");
  folder_.write("ot.bzz", data.substr(0, data.size() - 5));
  EXPECT_NE(extract("sword " + folder_.path("ot.bzs")), 0);
}

TEST_F(ExtractText, FindsANovelAmongRVectors) {
  std::string file;
  for (const std::string title : {"EMMA", "Persuasion"}) {
    std::string vector = "X\n" + big_endian(3) + big_endian(0x040201) + big_endian(0x030500) + big_endian(5) + "UTF-8" +
                         big_endian(16) + big_endian(3);
    for (const std::string& line : {title, std::string(), "About " + title}) {
      vector += big_endian(0x00040009) + big_endian(line.size()) + line;
    }
    file += big_endian(vector.size()) + deflated(vector);
  }
  const std::string path = folder_.write("novels.rdb", file);
  ASSERT_EQ(extract("janeausten " + path + " Persuasion"), 0) << folder_.read("err.txt");
  EXPECT_EQ(text(), "Persuasion\n\nAbout Persuasion\n");
  EXPECT_NE(extract("janeausten " + path + " Sanditon"), 0);
}

}  // namespace
}  // namespace longwave

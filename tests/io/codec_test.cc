#include "io/source/codec.h"

#include <bzlib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "io/core/msg.h"
#include "io/source/byte_stream.h"
#include "io/source/chunk_reader.h"
#include "tests/io/table_helper.h"

namespace dlrun::io {
namespace {

using ::testing::HasSubstr;

// The libraries' own writers.
std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned int>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<unsigned int>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}
std::string zstd(const std::string& text, int window_log = 0) {
  ZSTD_CCtx* context = ::ZSTD_createCCtx();
  ::ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  if (window_log != 0) ::ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(::ZSTD_compressBound(text.size()) + 64, '\0');
  ZSTD_inBuffer from{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  EXPECT_EQ(::ZSTD_compressStream2(context, &to, &from, ZSTD_e_continue) > (1u << 30), false);
  EXPECT_EQ(::ZSTD_compressStream2(context, &to, &from, ZSTD_e_end), 0u);
  ::ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}
std::string xz(const std::string& text) {
  std::string out(::lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t at = 0;
  EXPECT_EQ(::lzma_easy_buffer_encode(
                1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const std::uint8_t*>(text.data()),
                text.size(), reinterpret_cast<std::uint8_t*>(out.data()), &at, out.size()),
            LZMA_OK);
  out.resize(at);
  return out;
}
std::string bzip2(const std::string& text) {
  std::string out(text.size() * 2 + 600, '\0');
  auto n = static_cast<unsigned int>(out.size());
  EXPECT_EQ(::BZ2_bzBuffToBuffCompress(out.data(), &n, const_cast<char*>(text.data()),
                                       static_cast<unsigned int>(text.size()), 1, 0, 0),
            BZ_OK);
  out.resize(n);
  return out;
}

struct Form {
  const char* name;
  Codec codec;
  std::string (*pack)(const std::string&);
};
const Form kForms[] = {{"gzip", Codec::kGzip, gzip},
                       {"zstd", Codec::kZstd, [](const std::string& text) { return zstd(text); }},
                       {"xz", Codec::kXz, xz},
                       {"bzip2", Codec::kBzip2, bzip2}};

/// All that a stream gives in reads of `piece` bytes, then what was wrong.
std::string read_all(const std::string& file, std::size_t piece, Error* error = nullptr) {
  auto stream = ByteStream::open(std::make_unique<MemoryFile>(file));
  EXPECT_TRUE(stream) << stream.error().to_string();
  std::string text;
  std::vector<char> buffer(piece);
  for (;;) {
    const auto n = (*stream)->read(buffer);
    if (!n) {
      if (error != nullptr) *error = n.error();
      const auto again = (*stream)->read(buffer);
      EXPECT_FALSE(again);
      return error != nullptr ? text : text + " !" + n.error().to_string();
    }
    if (*n == 0) return text;
    text.append(buffer.data(), *n);
  }
}

std::string noise(std::size_t n, std::uint64_t seed) {
  SplitMix64 rng(seed);
  std::string text;
  while (text.size() < n)
    text += std::to_string(rng.below(1000)) + (rng.below(9) == 0 ? "\n" : " ");
  return text;
}

TEST(Codec, IsKnownByContentAndPlainBytesAreLeftAlone) {
  for (const Form& form : kForms) {
    EXPECT_EQ(codec_of(form.pack("x")), form.codec) << form.name;
    EXPECT_EQ(codec_of(form.pack("")), form.codec) << form.name;
  }
  EXPECT_EQ(codec_of(std::string("\x53\x2a\x4d\x18", 4)), Codec::kZstd);
  for (const char* text : {"", "1 3:4\n", "BZh9 is a word,", "BZh", "\x1f\x8b", "PK\x03\x04",
                           "\xfd"
                           "7z"})
    EXPECT_EQ(codec_of(text), Codec::kNone) << text;
  EXPECT_EQ(read_all("plain text", 3), "plain text");
  EXPECT_EQ(read_all("", 3), "");
}

TEST(Codec, DecodesInReadsOfAnySize) {
  const std::string text = noise(700'000, 1);
  for (const Form& form : kForms) {
    for (const std::size_t piece : {std::size_t{4099}, std::size_t{1} << 20})
      EXPECT_TRUE(read_all(form.pack(text), piece) == text) << form.name << " by " << piece;
    EXPECT_EQ(read_all(form.pack("small"), 1), "small") << form.name;
    EXPECT_EQ(read_all(form.pack(""), 10), "") << form.name;
  }
}

TEST(Codec, ReadsSeveralMembersAsOneText) {
  const std::string a = noise(300'000, 2), b = noise(5, 3);
  for (const Form& form : kForms)
    EXPECT_TRUE(read_all(form.pack(a) + form.pack("") + form.pack(b) + form.pack(a), 1 << 16) ==
                a + b + a)
        << form.name;
  EXPECT_EQ(read_all(gzip("a") + gzip("b") + std::string(700, '\0'), 10), "ab");
  EXPECT_EQ(read_all(xz("a") + std::string(8, '\0') + xz("b") + std::string(4, '\0'), 10), "ab");
  const std::string skippable = std::string("\x50\x2a\x4d\x18\x03\0\0\0", 8) + "abc";
  EXPECT_EQ(read_all(skippable + zstd("a") + skippable + zstd("b"), 10), "ab");
}

TEST(Codec, NamesTheByteWhereGarbageFollowsTheEnd) {
  for (const Form& form : kForms) {
    const std::string packed = form.pack("hello");
    EXPECT_THAT(read_all(packed + "garbage", 100),
                HasSubstr(std::string("hello !kCorrupt: ") + form.name + ", byte " +
                          std::to_string(packed.size()) +
                          " of the file: bytes after the end that begin no other (5 bytes"))
        << form.name;
  }
  EXPECT_THAT(read_all(gzip("a") + std::string(3, '\0') + gzip("b"), 10), HasSubstr("kCorrupt"));
  EXPECT_THAT(read_all(xz("a") + std::string(3, '\0'), 10), HasSubstr("no multiple of four"));
}

TEST(Codec, AFileCutAtAnyByteGivesAPrefixAndSaysThatItIsCut) {
  const std::string text = noise(1000, 4);
  for (const Form& form : kForms) {
    const std::string packed = form.pack(text.substr(0, 500)) + form.pack(text.substr(500));
    const std::size_t first = form.pack(text.substr(0, 500)).size();
    for (std::size_t cut = kCodecHeadBytes; cut < packed.size(); ++cut) {
      Error error;
      const std::string got = read_all(packed.substr(0, cut), 512, &error);
      ASSERT_EQ(got, text.substr(0, got.size())) << form.name << " cut at " << cut;
      if (cut == first) {
        ASSERT_EQ(got.size(), 500u);
        continue;
      }
      ASSERT_EQ(error.code, Errc::kCorrupt) << form.name << " cut at " << cut;
      ASSERT_THAT(error.context, HasSubstr(" of the file: ")) << cut;
    }
  }
}

TEST(Codec, AChangedByteIsFoundByTheChecksum) {
  const std::string text = noise(2000, 5);
  SplitMix64 rng(6);
  for (const Form& form : kForms) {
    const std::string packed = form.pack(text);
    for (int i = 0; i < 400; ++i) {
      std::string bytes = packed;
      const auto at = kCodecHeadBytes + rng.below(bytes.size() - kCodecHeadBytes);
      bytes[static_cast<std::size_t>(at)] ^= static_cast<char>(1 + rng.below(255));
      Error error;
      const std::string got = read_all(bytes, 512, &error);
      // A change that decodes to the same text is none (a flag, unused bits of a block).
      if (error.code == Errc::kInternal) {
        ASSERT_EQ(got, text) << form.name << " at " << at;
      } else {
        ASSERT_TRUE(error.code == Errc::kCorrupt || error.code == Errc::kResourceExhausted);
      }
    }
  }
}

TEST(Codec, AZstdFrameThatIsShorterThanItsHeaderSaysIsRefusedHoweverItIsRead) {
  // One segment, a content of nine bytes; its last block is raw and empty.
  const std::string bytes("\x28\xb5\x2f\xfd\x20\x09\x01\x00\x00", 9);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 16}) {
    Error error;
    EXPECT_EQ(read_all(bytes, piece, &error), "");
    EXPECT_EQ(error.code, Errc::kCorrupt) << piece;
  }
}

TEST(Codec, RefusesAFileThatNeedsTooMuchMemory) {
  // A frame that declares a window of 2 GiB: descriptor without single segment, exponent 21.
  const std::string frame = std::string("\x28\xb5\x2f\xfd\x00\xa8", 6) + std::string("\x01\0\0", 3);
  EXPECT_THAT(read_all(frame + std::string(20, '\0'), 10), HasSubstr("kResourceExhausted: zstd"));
}

// ---- lines of compressed files, as the feeder reads them

class OneFile final : public Source {
 public:
  explicit OneFile(std::string bytes) : bytes_(std::move(bytes)) {}
  Result<std::vector<FileEntry>> list(const std::vector<std::string>&, std::uint64_t) override {
    return std::vector<FileEntry>{{"f", bytes_.size(), ""}};
  }
  Result<std::unique_ptr<File>> open(const std::string&, const std::string&) override {
    return std::unique_ptr<File>(std::make_unique<MemoryFile>(bytes_));
  }
  std::uint64_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

std::string lines_of(OneFile& source, std::uint64_t begin, std::uint64_t end,
                     ChunkOptions options) {
  auto reader = open_chunks(source, {0, 0, "f", "", begin, end}, options);
  EXPECT_TRUE(reader) << reader.error().to_string();
  std::string text;
  std::uint64_t at = 0;
  for (;;) {
    const auto chunk = (*reader)->next();
    if (!chunk) return text + "!" + chunk.error().to_string();
    if (!*chunk) return text;
    EXPECT_EQ((*chunk)->offset, at);
    at += (*chunk)->text.size() + (*chunk)->skipped_bytes;
    EXPECT_EQ((*reader)->offset(), at);
    if ((*chunk)->skipped_bytes != 0) {
      text += "<" + std::to_string((*chunk)->skipped_bytes) + "@" +
              std::to_string((*reader)->line_of((*chunk)->offset).value()) + ">";
      continue;
    }
    EXPECT_TRUE((*chunk)->text.ends_with('\n') || (*chunk)->offset > 0 || begin == 0);
    const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
    if (text.find('<') == text.npos) {
      EXPECT_EQ((*reader)->line_of((*chunk)->offset).value(), static_cast<std::uint64_t>(lines));
    }
    text += (*chunk)->text;
  }
}

TEST(StreamLines, ACompressedFileBelongsWholeToItsFirstSplit) {
  const std::string text = noise(30'000, 7) + "no newline at the end";
  for (const Form& form : kForms) {
    OneFile source(form.pack(text));
    for (const std::uint64_t split : {std::uint64_t{1}, std::uint64_t{1000}, source.size()}) {
      EXPECT_TRUE(lines_of(source, 0, split, {1000, 1000}) == text) << form.name;
      if (split == source.size()) continue;
      EXPECT_EQ(lines_of(source, split, source.size(), {1000, 1000}), "") << form.name;
    }
  }
  OneFile plain("a\nb\n");
  EXPECT_EQ(lines_of(plain, 0, 1, {}), "a\n");
}

TEST(StreamLines, PassesOverALineThatIsTooLongAndGivesWhatComesBeforeDamage) {
  OneFile source(gzip("short\n" + std::string(5000, 'x') + "\nnext\nlast"));
  EXPECT_EQ(lines_of(source, 0, 1, {100, 1000}), "short\n<5001@2>next\nlast");
  const std::string text = noise(100'000, 8);
  const std::string packed = gzip(text);
  OneFile cut(packed.substr(0, packed.size() / 2));
  const std::string got = lines_of(cut, 0, 1, {1000, 1000});
  const std::size_t mark = got.find('!');
  ASSERT_NE(mark, got.npos);
  EXPECT_GT(mark, 10'000u);
  EXPECT_EQ(got.substr(0, mark), text.substr(0, mark));
  EXPECT_EQ(text[mark - 1], '\n');
  EXPECT_THAT(got, HasSubstr("!kCorrupt: gzip, byte " + std::to_string(packed.size() / 2) +
                             " of the file: the file ends too early"));
}

}  // namespace
}  // namespace dlrun::io

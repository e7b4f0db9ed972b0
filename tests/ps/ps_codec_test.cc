#include "runtime/wire/ps_codec.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace dlrun::wire {
namespace {

ps::RequestHeader full_request() {
  ps::RequestHeader h;
  h.kind = ps::Kind::kCreateTable;
  h.request = 0x0102030405060708;
  for (std::size_t i = 0; i < h.token.size(); ++i) h.token[i] = static_cast<std::uint8_t>(i * 7);
  h.epoch = {3, 9};
  h.client = ClientId{0xfedcba9876543210};
  h.sequence = 77;
  h.table = 12;
  h.worker = ps::WorkerId{1ull << 40 | 5};
  h.clock = 1000;
  h.budget = std::chrono::milliseconds(1500);
  h.n = 100;
  h.dim = 16;
  h.cursor = {4095, ~0ull};
  h.schema = ps::TableSchema{.id = 12,
                             .name = "wide/embedding",
                             .kind = ps::KeyKind::kDense,
                             .rows = 1ull << 31,
                             .dim = 16,
                             .optimizer = ps::Optimizer::kFtrl,
                             .learning_rate = 0.05f,
                             .beta = 0.5f,
                             .l1 = 0.25f,
                             .l2 = 0.125f,
                             .epsilon = 1e-8f,
                             .accumulator = 0.1f,
                             .initializer = ps::Initializer::kNormal,
                             .init_a = -1,
                             .init_b = 2,
                             .seed = 42,
                             .consistency = ps::Consistency::kSsp,
                             .staleness = 3};
  return h;
}

/// With the fields that came later.
ps::RequestHeader grown_request() {
  ps::RequestHeader h = full_request();
  h.rate = 0.75f;
  ps::TableSchema& s = *h.schema;
  s.kind = ps::KeyKind::kSparse;
  s.optimizer = ps::Optimizer::kGroupFtrl;
  s.initializer = ps::Initializer::kTruncatedNormal;
  s.dtype = ps::Dtype::kBf16;
  s.momentum = 0.5f;
  s.beta1 = 0.25f;
  s.beta2 = 0.125f;
  s.group_l1 = 2;
  s.clip_value = 3;
  s.clip_norm = 4;
  s.admission = ps::Admission::kProbability;
  s.admission_n = 5;
  s.admission_p = 0.5f;
  s.eviction = ps::Eviction::kLfu;
  s.ttl_s = 6;
  s.budget_bytes = 1ull << 40;
  s.missing = ps::Missing::kValue;
  s.missing_value = 7;
  return h;
}

/// With the codecs of values, which came later still.
ps::RequestHeader coded_request() {
  ps::RequestHeader h = grown_request();
  h.codec = {ps::Codec::kTopK, 300};
  return h;
}

ps::ReplyHeader full_reply() {
  ps::ReplyHeader h;
  h.kind = ps::Kind::kScan;
  h.request = 0x1122334455667788;
  h.error = 6;
  h.context = "shard 1: epoch 1.1 is over";
  h.epoch = {3, 10};
  h.clock = 12;
  h.n = 3;
  h.dim = 4;
  h.cursor = {7, 9};
  return h;
}

ps::ReplyHeader coded_reply() {
  ps::ReplyHeader h = full_reply();
  h.codec = {ps::Codec::kInt8, 0};
  return h;
}

std::vector<std::byte> recorded(const std::string& file) {
  const char* root = std::getenv("DLRUN_SOURCE_DIR");
  std::ifstream in(std::string(root == nullptr ? "." : root) + "/tests/ps/recorded/" + file);
  std::vector<std::byte> bytes;
  for (std::string pair; in >> pair;)
    bytes.push_back(static_cast<std::byte>(std::stoi(pair, nullptr, 16)));
  return bytes;
}

std::string hex(const std::vector<std::byte>& bytes) {
  std::string out;
  char pair[4];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::snprintf(pair, sizeof pair, "%02x%c", std::to_integer<unsigned>(bytes[i]),
                  i % 16 == 15 ? '\n' : ' ');
    out += pair;
  }
  return out;
}

/// With what a checkpoint needs.
ps::RequestHeader mark_request() {
  ps::RequestHeader h = coded_request();
  h.schema.reset();
  h.cursor = {};
  h.kind = ps::Kind::kMark;
  h.checkpoint = 0x8000000000000009;
  return h;
}
ps::ReplyHeader reply_that_calls() {
  ps::ReplyHeader h = coded_reply();
  h.checkpoint = 9;
  h.cut_clock = 1ull << 40;
  return h;
}

TEST(PsCodec, HeadersComeBackAsTheyWere) {
  EXPECT_EQ(decode_ps_request(encode(full_request())).value(), full_request());
  EXPECT_EQ(decode_ps_request(encode(grown_request())).value(), grown_request());
  EXPECT_EQ(decode_ps_request(encode(ps::RequestHeader{})).value(), ps::RequestHeader{});
  EXPECT_EQ(decode_ps_request(encode(mark_request())).value(), mark_request());
  EXPECT_EQ(decode_ps_reply(encode(reply_that_calls())).value(), reply_that_calls());
  HeaderWriter writer;
  const std::span<const std::byte> plain = writer.write(mark_request());
  EXPECT_EQ(decode_ps_request(plain).value(), mark_request());
  EXPECT_EQ(decode_ps_reply(encode(full_reply())).value(), full_reply());
  EXPECT_EQ(decode_ps_reply(encode(ps::ReplyHeader{})).value(), ps::ReplyHeader{});
}

// What version 1 wrote must be read for as long as there is a version 1 somewhere. To record: print
// hex(encode(...)).
TEST(PsCodec, ReadsTheRecordedBytesOfVersion1) {
  const auto request = decode_ps_request(recorded("request-v1.hex"));
  ASSERT_TRUE(request) << "recorded:\n" << hex(encode(full_request()));
  EXPECT_EQ(*request, full_request());
  const auto grown = decode_ps_request(recorded("request-v1-grown.hex"));
  ASSERT_TRUE(grown) << "recorded:\n" << hex(encode(grown_request()));
  EXPECT_EQ(*grown, grown_request());
  const auto reply = decode_ps_reply(recorded("reply-v1.hex"));
  ASSERT_TRUE(reply) << "recorded:\n" << hex(encode(full_reply()));
  EXPECT_EQ(*reply, full_reply());
  const auto coded = decode_ps_request(recorded("request-v1-coded.hex"));
  ASSERT_TRUE(coded) << "recorded:\n" << hex(encode(coded_request()));
  EXPECT_EQ(*coded, coded_request());
  const auto coded_answer = decode_ps_reply(recorded("reply-v1-coded.hex"));
  ASSERT_TRUE(coded_answer) << "recorded:\n" << hex(encode(coded_reply()));
  EXPECT_EQ(*coded_answer, coded_reply());
}

// The same bytes by either way, and nothing left of the header before.
TEST(PsCodec, AWriterGivesTheSameBytesOverAndOver) {
  HeaderWriter writer;
  const auto bytes = [](std::span<const std::byte> b) { return std::vector(b.begin(), b.end()); };
  ps::RequestHeader plain = coded_request();
  plain.cursor = {};
  plain.schema.reset();
  ps::ReplyHeader reply = coded_reply();
  reply.cursor = {};
  reply.context.clear();
  for (int i = 0; i < 3; ++i) {
    for (const ps::RequestHeader& h :
         {plain, ps::RequestHeader{}, full_request(), coded_request()}) {
      const auto written = bytes(writer.write(h));
      EXPECT_EQ(written, encode(h));
      EXPECT_EQ(decode_ps_request(written).value(), h);
    }
    for (const ps::ReplyHeader& h : {reply, ps::ReplyHeader{}, full_reply(), coded_reply()}) {
      const auto written = bytes(writer.write(h));
      EXPECT_EQ(written, encode(h));
      EXPECT_EQ(decode_ps_reply(written).value(), h);
    }
  }
}

// A message of the size that is read by the short way, but with pointers of its own.
TEST(PsCodec, AStrangePointerInAPlainHeaderIsNotFollowed) {
  const auto plain = encode(ps::RequestHeader{});
  int refused = 0;
  for (std::size_t word = 0; word < plain.size() / 8; ++word) {
    for (const std::uint64_t value : {~0ull, 0x7fffffff00000001ull, 0x00ff00ff00000ffcull}) {
      auto bytes = plain;
      std::memcpy(bytes.data() + word * 8, &value, 8);
      refused += !decode_ps_request(bytes).has_value();
    }
  }
  EXPECT_GT(refused, 6);
}

TEST(PsCodec, AnyAlignmentWillDo) {
  const auto bytes = encode(full_request());
  std::vector<std::byte> shifted(bytes.size() + 3);
  std::copy(bytes.begin(), bytes.end(), shifted.begin() + 3);
  EXPECT_EQ(decode_ps_request(std::span(shifted).subspan(3)).value(), full_request());
}

TEST(PsCodec, EveryTruncationIsAnError) {
  const auto bytes = encode(full_request());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(decode_ps_request(std::span(bytes).first(n))) << n;
  }
  auto longer = bytes;
  longer.resize(longer.size() + 8);
  EXPECT_FALSE(decode_ps_request(longer));
  EXPECT_FALSE(decode_ps_request(std::vector<std::byte>(kPsHeaderBytesMax + 8)));
}

TEST(PsCodec, ALongContextIsCut) {
  ps::ReplyHeader h = full_reply();
  h.context.assign(100'000, 'x');
  const auto bytes = encode(h);
  EXPECT_LE(bytes.size(), kPsHeaderBytesMax);
  EXPECT_EQ(decode_ps_reply(bytes).value().context, std::string(2048, 'x'));
}

// Deterministic mutator: flipped bits, overwritten words, spliced halves. Nothing to expect but a
// Result (ASan and UBSan watch).
TEST(PsCodec, SurvivesMutatedBytes) {
  SplitMix64 rng(20);
  const std::vector<std::vector<std::byte>> seeds = {encode(full_request()), encode(full_reply()),
                                                     encode(ps::RequestHeader{}),
                                                     encode(ps::ReplyHeader{})};
  int decoded = 0, refused = 0;
  for (int i = 0; i < 30'000; ++i) {
    auto bytes = seeds[rng.below(seeds.size())];
    for (std::uint64_t edits = 1 + rng.below(6); edits > 0; --edits) {
      const std::size_t at = rng.below(bytes.size());
      switch (rng.below(4)) {
        case 0:
          bytes[at] ^= static_cast<std::byte>(1u << rng.below(8));
          break;
        case 1:
          bytes[at] = static_cast<std::byte>(rng.next());
          break;
        case 2: {
          const std::uint64_t word = rng.below(2) == 0 ? rng.next() : ~rng.below(4);
          for (std::size_t j = 0; j < 8 && at / 8 * 8 + j < bytes.size(); ++j) {
            bytes[at / 8 * 8 + j] = static_cast<std::byte>(word >> (8 * j));
          }
          break;
        }
        default: {
          const auto& other = seeds[rng.below(seeds.size())];
          bytes.resize(at / 8 * 8);
          if (at < other.size())
            bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(at / 8 * 8),
                         other.end());
          if (bytes.empty()) bytes.resize(8);
        }
      }
    }
    decoded += decode_ps_request(bytes).has_value();
    refused += !decode_ps_reply(bytes).has_value();
  }
  EXPECT_GT(decoded, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace dlrun::wire

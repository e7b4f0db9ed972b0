#include "runtime/wire/pslite_codec.h"

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace dlrun::wire {
namespace {

using namespace pslite;  // NOLINT

std::vector<Packet> samples() {
  Mail mail;
  mail.app = 3;
  mail.customer = -1;
  mail.timestamp = 9;
  mail.head = -7;
  mail.sender = 8;
  mail.recver = 9;
  mail.request = mail.pull = true;
  mail.number = 1ull << 40;
  mail.offset = 5;
  mail.arrays = 3;
  mail.bytes = {0, 8ull << 30, 4, 0};
  mail.types = {0, 8, 9, 0};
  Register wish{1, Role::kServer, 2, -1, 3, 4, "tcp://[::1]:5", "mark shm://@x", "host, process 1"};
  Roster roster{~0ull, 9, {{8, 8, "tcp://a:1", "", "a"}, {9, 9, "", "", "b"}}};
  return {{1, 0, 2, 3, {}},
          {1, 1, 0, 0, wish},
          {1, 2, 0, 0, roster},
          {~0ull, ~0ull, ~0ull, ~0ull, Hello{7, 11}},
          {1, 2, 3, 4, Refused{"no"}},
          {1, 2, 3, 4, Enter{7}},
          {1, 2, 3, 4, Passed{4}},
          {1, 2, 3, 4, Failed{std::string(1000, 'x')}},
          {1, 2, 3, 4, Goodbye{}},
          {1, 2, 3, 4, mail}};
}

TEST(PsliteCodec, EveryPayloadComesBackAsItWas) {
  for (const Packet& packet : samples()) {
    const auto bytes = encode_pslite(packet);
    const auto back = decode_pslite(bytes);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(*back, packet) << packet.payload.index();
  }
}

TEST(PsliteCodec, SizesThatAreTooLargeAreCorrupt) {
  Packet packet = samples().back();
  std::get<Mail>(packet.payload).bytes[0] = kMailBytesMax;
  EXPECT_EQ(decode_pslite(encode_pslite(packet)).error().code, Errc::kCorrupt);
  std::get<Mail>(packet.payload).bytes[0] = ~0ull;
  EXPECT_EQ(decode_pslite(encode_pslite(packet)).error().code, Errc::kCorrupt);
  packet = samples().back();
  std::get<Mail>(packet.payload).offset = (8ull << 30) + 5;
  EXPECT_EQ(decode_pslite(encode_pslite(packet)).error().code, Errc::kCorrupt);
}

TEST(PsliteCodec, DamagedBytesAreAnErrorOrAnotherPacketNeverMore) {
  SplitMix64 rng(1);
  for (const Packet& packet : samples()) {
    const auto good = encode_pslite(packet);
    for (int i = 0; i < 2000; ++i) {
      auto bytes = good;
      for (std::uint64_t n = 1 + rng.below(4); n > 0; --n)
        bytes[rng.below(bytes.size())] = static_cast<std::byte>(rng.below(256));
      if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size() / 8 + 1) * 8);
      (void)decode_pslite(bytes);
    }
  }
  EXPECT_FALSE(decode_pslite({}));
}

}  // namespace
}  // namespace dlrun::wire

#include "runtime/transport/packing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "runtime/base/rng.h"

namespace dlrun::transport {
namespace {

Frame text(const std::string& s) { return Frame::copy(s.data(), s.size()); }
std::string text(const Frame& f) { return {reinterpret_cast<const char*>(f.data), f.size}; }

Frame pack_of(const std::vector<Message>& messages) {
  std::size_t bytes = kPackHeadBytes;
  for (const Message& m : messages) bytes += packed_bytes(m);
  std::vector<std::byte> pack(bytes, std::byte{0xee});
  std::byte* at = write_pack_head(pack.data());
  for (const Message& m : messages) at = write_packed(m, at);
  EXPECT_EQ(at, pack.data() + bytes);
  return Frame::take(std::move(pack));
}

std::vector<Message> some_messages() {
  std::vector<Message> messages;
  for (std::size_t i = 0; i < 20; ++i) {
    Message& m = messages.emplace_back();
    for (std::size_t f = 0; f < i % 9; ++f)
      m.push_back(text(std::string(i * f % 23, static_cast<char>('a' + f))));
  }
  return messages;
}

TEST(Packing, MessagesComeBackAsTheyWereAndLieOnMultiplesOfEight) {
  const auto messages = some_messages();
  const Frame pack = pack_of(messages);
  ASSERT_TRUE(is_pack(pack));
  std::vector<Message> back;
  ASSERT_TRUE(unpack(pack, 8, back));
  ASSERT_EQ(back.size(), messages.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    ASSERT_EQ(back[i].size(), messages[i].size());
    for (std::size_t f = 0; f < back[i].size(); ++f) {
      EXPECT_EQ(text(back[i][f]), text(messages[i][f]));
      if (back[i][f].size > 0) {
        EXPECT_EQ((back[i][f].data - pack.data) % 8, 0);
      }
    }
  }
}

TEST(Packing, LargeMessagesAndManyFramesDoNotFit) {
  EXPECT_TRUE(fits_in_pack({text(std::string(kPackedMessageBytesMax, 'x'))}));
  EXPECT_FALSE(fits_in_pack({text(std::string(kPackedMessageBytesMax, 'x')), text("y")}));
  EXPECT_FALSE(fits_in_pack(Message(9)));
}

TEST(Packing, APackOfManyEmptyMessagesIsBrokenBeforeItCostsMemory) {
  std::vector<Message> back;
  EXPECT_TRUE(unpack(pack_of(std::vector<Message>(kPackMessagesMax)), 8, back));
  back.clear();
  EXPECT_FALSE(unpack(pack_of(std::vector<Message>(100'000)), 8, back));
  EXPECT_EQ(back.size(), kPackMessagesMax);
}

TEST(Packing, BrokenPacksEndWhereTheyAreBroken) {
  const Frame pack = pack_of(some_messages());
  std::vector<Message> back;
  EXPECT_FALSE(unpack(text("drlpack2 or so"), 8, back));
  EXPECT_FALSE(unpack(pack, 7, back)) << "more frames than allowed";
  EXPECT_EQ(back.size(), 8u);
  std::size_t broken = 0;
  for (std::size_t size = 0; size < pack.size; ++size) {
    back.clear();
    broken += unpack(Frame::copy(pack.data, size), 8, back) ? 0 : 1;
  }
  EXPECT_GT(broken, pack.size - 40);
  SplitMix64 rng(4);
  for (int i = 0; i < 3'000; ++i) {  // nothing to expect but no word beyond the frame
    std::vector<std::byte> bytes(pack.data, pack.data + pack.size);
    for (std::uint64_t n = 1 + rng.below(4); n > 0; --n)
      bytes[8 + rng.below(bytes.size() - 8)] = static_cast<std::byte>(rng.next());
    const Frame other = Frame::take(std::move(bytes));
    back.clear();
    (void)unpack(other, 8, back);
    for (const Message& m : back) {
      for (const Frame& f : m) {
        if (f.size == 0) continue;
        ASSERT_GE(f.data, other.data);
        ASSERT_LE(f.data + f.size, other.data + other.size);
      }
    }
  }
}

}  // namespace
}  // namespace dlrun::transport

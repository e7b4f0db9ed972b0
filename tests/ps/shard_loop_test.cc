// What the loop makes of bytes, on a channel that the test holds in its hands.
#include "ps/shard/shard_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>

#include "ps/core/value_codec.h"
#include "runtime/wire/ps_codec.h"

namespace dlrun::ps {
namespace {

using transport::Frame;
using transport::Incoming;
using transport::Message;

constexpr std::array<std::uint8_t, 32> kToken = {4, 4, 4};
constexpr std::uint32_t kTable = 5;

struct HandChannel final : transport::Channel {
  Result<transport::PeerId> connect(const std::string&) override {
    return fail(Errc::kUnsupported, "");
  }
  void disconnect(transport::PeerId) override {}
  Status send(transport::PeerId, const Message& message) override {
    sent.push_back(owned(message));
    return {};
  }
  std::byte* reserve(transport::PeerId, const Frame& head, std::size_t bytes) override {
    if (before_values) before_values();
    room.resize(bytes / sizeof(float));
    sent.push_back(Message{Frame::copy(head.data, head.size)});
    return reinterpret_cast<std::byte*>(room.data());
  }
  void commit(transport::PeerId) override { sent.back().push_back(Frame::take(room)); }
  Result<std::optional<Incoming>> receive(Duration) override {
    if (coming.empty()) return std::optional<Incoming>{};
    Incoming next = std::move(coming.front());
    coming.pop_front();
    return std::optional(std::move(next));
  }
  void wake() noexcept override {}
  std::vector<std::string> endpoints() const override { return {}; }

  std::deque<Incoming> coming;
  std::vector<Message> sent;
  std::function<void()> before_values;  ///< of a reply: its request has been checked
  std::vector<float> room;
};

class ShardLoopByHand : public testing::Test {
 protected:
  ShardLoopByHand() {
    RequestHeader create = header(Kind::kCreateTable);
    create.schema = TableSchema{.id = kTable,
                                .name = "t",
                                .kind = KeyKind::kDense,
                                .rows = 10,
                                .dim = 4,
                                .learning_rate = -1.0f,
                                .consistency = Consistency::kAsp};
    EXPECT_EQ(ask(create, {}).error, 0);
  }
  static RequestHeader header(Kind kind, std::uint32_t n = 0) {
    return {.kind = kind,
            .token = kToken,
            .epoch = {1, 1},
            .client = ClientId{1},
            .sequence = 1,
            .table = kTable,
            .budget = std::chrono::seconds(60),
            .n = n,
            .dim = 4};
  }
  ReplyHeader ask(const RequestHeader& request, Message frames) {
    const std::span<const std::byte> head = writer.write(request);
    frames.insert(frames.begin(), Frame::copy(head.data(), head.size()));
    channel->sent.clear();
    channel->coming.push_back({7, std::move(frames)});
    EXPECT_TRUE(loop.step(Duration{0}));
    EXPECT_EQ(channel->sent.size(), 1u);
    if (channel->sent.empty()) return {.error = -1};
    return wire::decode_ps_reply({channel->sent[0][0].data, channel->sent[0][0].size}).value();
  }
  std::vector<float> values() const {
    const Message& reply = channel->sent.at(0);
    std::vector<float> out(reply.size() < 2 ? 0 : reply[1].size / sizeof(float));
    if (!out.empty()) std::memcpy(out.data(), reply[1].data, reply[1].size);
    return out;
  }

  wire::HeaderWriter writer;
  HandChannel* channel = new HandChannel;  ///< the loop's
  ShardLoop loop{ShardCore({.token = kToken, .workers = 1}, SlotMap::even(1, {1, 1})),
                 std::unique_ptr<transport::Channel>(channel), std::make_shared<SystemClock>()};
};

TEST_F(ShardLoopByHand, AClientThatChangesItsKeysMeanwhileChangesNothing) {
  const std::vector<float> ones(4, 1.0f), twos(4, 2.0f);
  std::vector<float> both = ones;
  both.insert(both.end(), twos.begin(), twos.end());
  ASSERT_EQ(ask(header(Kind::kPush, 2),
                {Frame::take(std::vector<std::uint64_t>{1, 2}), Frame::take(both)})
                .error,
            0);
  // As in shared memory: the keys lie where the client can write, and it does after the check.
  const auto keys = std::make_shared<std::vector<std::uint64_t>>(1, 1);
  const Frame frame{keys, reinterpret_cast<const std::byte*>(keys->data()), 8};
  for (const std::uint64_t instead : {std::uint64_t{2}, ~std::uint64_t{0}}) {
    (*keys)[0] = 1;
    int changed = 0;
    channel->before_values = [&] {
      (*keys)[0] = instead;
      ++changed;
    };
    ASSERT_EQ(ask(header(Kind::kPull, 1), {frame}).error, 0);
    EXPECT_EQ(changed, 1);
    EXPECT_EQ(values(), ones);
  }
}

TEST_F(ShardLoopByHand, ValuesThatDoNotDecodeAreRefusedWithTheReason) {
  RequestHeader push = header(Kind::kPush, 1);
  push.codec = {Codec::kTopK, 2};
  const Frame key = Frame::take(std::vector<std::uint64_t>{1});
  std::vector<std::uint16_t> bytes(encoded_row_bytes(push.codec, 4) / 2);
  bytes[0] = 3;
  bytes[1] = 9;  // of a row of 4
  const ReplyHeader reply = ask(push, {key, Frame::take(bytes)});
  EXPECT_EQ(static_cast<Errc>(reply.error), Errc::kInvalidArgument);
  EXPECT_THAT(reply.context, testing::HasSubstr("top-k: index 9 after 3 of 4"));
  const ReplyHeader shorter = ask(push, {key, Frame::take(std::vector<std::uint16_t>(5))});
  EXPECT_THAT(shorter.context, testing::HasSubstr("10 bytes for 4 values of codec 5"));
  RequestHeader pull = header(Kind::kPull, 1);
  pull.codec = {Codec::kInt8};
  EXPECT_EQ(static_cast<Errc>(ask(pull, {key, Frame::take(bytes)}).error), Errc::kInvalidArgument);
  // Nothing of it was applied, and the number is still free.
  bytes[1] = 0;
  bytes[0] = 0;
  bytes[1] = 1;
  EXPECT_EQ(ask(push, {key, Frame::take(bytes)}).error, 0);
}

TEST_F(ShardLoopByHand, WhoHasNoTokenIsToldSoWhateverTheValuesAre) {
  RequestHeader push = header(Kind::kPush, 1);
  push.codec = {Codec::kTopK, 2};
  push.token = {};
  const Frame key = Frame::take(std::vector<std::uint64_t>{1});
  for (const std::size_t words : {0, 1, 6, 1000}) {
    const ReplyHeader reply = ask(push, {key, Frame::take(std::vector<std::uint16_t>(words, 77))});
    EXPECT_EQ(static_cast<Errc>(reply.error), Errc::kPermissionDenied);
  }
  push.token = kToken;
  push.dim = 3;  // the table's first
  const ReplyHeader reply = ask(push, {key, Frame::take(std::vector<std::uint16_t>(6, 77))});
  EXPECT_THAT(reply.context, testing::HasSubstr("dim 3 where the table has 4"));
}

TEST_F(ShardLoopByHand, WhatIsNoRequestIsCountedAndNotAnswered) {
  const Message whole = [&] {
    const std::span<const std::byte> head = writer.write(header(Kind::kPull, 1));
    return Message{Frame::copy(head.data(), head.size())};
  }();
  const auto with = [&](std::size_t key_bytes) {
    Message message = whole;
    message.push_back(Frame::take(std::vector<char>(key_bytes)));
    return message;
  };
  channel->sent.clear();
  for (const Message& message : {Message{}, Message{Frame::take(std::vector<char>(50, 'x'))},
                                 with(7), with(9), with(kSegmentBytesMax + 8)}) {
    channel->coming.push_back({7, message});
    EXPECT_TRUE(loop.step(Duration{0}));
  }
  EXPECT_TRUE(channel->sent.empty());
  EXPECT_EQ(loop.stats().undecodable, 4u);
}

}  // namespace
}  // namespace dlrun::ps

#include "runtime/wire/control_codec.h"

#include <gtest/gtest.h>

#include "runtime/base/rng.h"
#include "runtime/wire/event_codec.h"
#include "tests/wire/samples.h"

namespace dlrun {
namespace {

// Flips, cuts and overwrites bytes: decoding may fail, never crash (the sanitizers watch).
template <class Decode>
void mutate(const std::string& bytes, std::uint64_t seed, Decode decode) {
  SplitMix64 rng(seed);
  for (int round = 0; round < 400; ++round) {
    std::string broken = bytes;
    for (std::uint64_t n = 1 + rng.below(6); n > 0; --n)
      broken[rng.below(broken.size())] = static_cast<char>(rng.below(256));
    if (rng.below(4) == 0) broken.resize(rng.below(broken.size() + 1));
    if (rng.below(8) == 0) broken.resize(broken.size() / 8 * 8);
    (void)decode(broken);
  }
}

TEST(ControlCodec, EveryMessageComesBackAsItWasSent) {
  std::size_t kinds = 0;
  for (const auto& message : wire_test::to_agent()) {
    const auto back = wire::decode_to_agent(wire::encode(message));
    ASSERT_TRUE(back.has_value()) << back.error().to_string();
    EXPECT_TRUE(*back == message) << "kind " << message.index();
    kinds |= std::size_t{1} << message.index();
  }
  EXPECT_EQ(kinds + 1, std::size_t{1} << std::variant_size_v<cluster::ToAgent>)
      << "a message without a sample";
  kinds = 0;
  for (const auto& message : wire_test::from_agent()) {
    const auto back = wire::decode_from_agent(wire::encode(message));
    ASSERT_TRUE(back.has_value()) << back.error().to_string();
    EXPECT_TRUE(*back == message) << "kind " << message.index();
    kinds |= std::size_t{1} << message.index();
  }
  EXPECT_EQ(kinds + 1, std::size_t{1} << std::variant_size_v<cluster::FromAgent>)
      << "a message without a sample";
}

TEST(ControlCodec, WhatAFrameworkAddsComesBackAndIsAbsentFromOlderBytes) {
  cluster::JobSpec spec = wire_test::job_spec();
  spec.framework = "tensorflow";
  spec.roles[0].end = cluster::EndRule::kTolerant;
  spec.roles[0].failures_permille = 250;
  spec.roles[0].linger = Duration(0);
  spec.roles[1].end = cluster::EndRule::kQuorum;
  spec.roles[1].quorum = 3;
  const cluster::Event event = cluster::JobSubmitted{JobId{1}, spec, "", 1, {}};
  const auto back = wire::decode_event(wire::encode(event));
  ASSERT_TRUE(back.has_value()) << back.error().to_string();
  EXPECT_TRUE(*back == event);
  EXPECT_FALSE(std::get<cluster::JobSubmitted>(*back).spec.roles[1].linger) << "absent is not 0";

  const std::vector<cluster::TaskFile> files = {{"list.txt", "a\xff\n", {"LIST", "OTHER"}}, {}};
  cluster::PrepareTask prepare;
  prepare.files = files;
  const auto prepared = wire::decode_to_agent(wire::encode(cluster::ToAgent(prepare)));
  ASSERT_TRUE(prepared.has_value()) << prepared.error().to_string();
  EXPECT_EQ(std::get<cluster::PrepareTask>(*prepared).files, files);
  cluster::StartTask start;
  start.files = files;
  const auto started = wire::decode_to_agent(wire::encode(cluster::ToAgent(start)));
  ASSERT_TRUE(started.has_value()) << started.error().to_string();
  EXPECT_EQ(std::get<cluster::StartTask>(*started).files, files);
}

TEST(ControlCodec, ANulByteInATextIsRefused) {
  std::string bytes =
      wire::encode(cluster::FromAgent{cluster::Heartbeat{NodeId{"node-one"}, Incarnation{1}, 1}});
  const std::size_t at = bytes.find("node-one");
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(wire::decode_from_agent(bytes).has_value());
  bytes[at + 4] = '\0';  // as a value it would be cut there when it is written again
  const auto decoded = wire::decode_from_agent(bytes);
  ASSERT_FALSE(decoded.has_value());
  EXPECT_EQ(decoded.error().code, Errc::kCorrupt);
}

TEST(ControlCodec, BrokenBytesAreAnErrorNotACrash) {
  std::uint64_t seed = 1;
  for (const auto& message : wire_test::to_agent())
    mutate(wire::encode(message), ++seed, wire::decode_to_agent);
  for (const auto& message : wire_test::from_agent())
    mutate(wire::encode(message), ++seed, wire::decode_from_agent);
  EXPECT_EQ(wire::decode_to_agent("").error().code, Errc::kCorrupt);
  EXPECT_EQ(wire::decode_from_agent("1234567").error().code, Errc::kCorrupt);
}

TEST(EventCodec, EveryEventComesBackAsItWasWritten) {
  std::size_t kinds = 0;
  for (const auto& event : wire_test::events()) {
    const auto back = wire::decode_event(wire::encode(event));
    ASSERT_TRUE(back.has_value()) << back.error().to_string();
    EXPECT_TRUE(*back == event) << kind_of(event);
    kinds |= std::size_t{1} << event.index();
  }
  EXPECT_EQ(kinds + 1, std::size_t{1} << std::variant_size_v<cluster::Event>)
      << "an event without a sample";
  EXPECT_TRUE(wire::decode_job_view(wire::encode(wire_test::job_view())).value() ==
              wire_test::job_view());
}

TEST(EventCodec, BrokenBytesAreAnErrorNotACrash) {
  std::uint64_t seed = 100;
  for (const auto& event : wire_test::events())
    mutate(wire::encode(event), ++seed, wire::decode_event);
}

}  // namespace
}  // namespace dlrun

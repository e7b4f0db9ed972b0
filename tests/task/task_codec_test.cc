#include "runtime/wire/task_codec.h"

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace dlrun::wire {
namespace {

using namespace task;

cluster::Token token_of(std::uint8_t seed) {
  cluster::Token t;
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = static_cast<std::uint8_t>(seed + i);
  return t;
}
TaskId id_of(std::uint32_t rank) { return {JobId{12}, "worker", rank, Generation{3}}; }

io::InputSpec input_of() {
  io::InputSpec spec;
  spec.name = "train";
  spec.uris = {"/data/\xff", "b"};
  return spec;
}

/// One of each, with every field set.
std::vector<ToServer> all_to_server() {
  return {
      Hello{1, PeerKind::kFeeder, token_of(1), 4711},
      Ready{{"tcp://[::1]:1234", "/run/s"}},
      ReportProgress{0.25, "epoch 3 of 4"},
      EnterBarrier{"start", 2},
      OpenInput{5, "train"},
      FeederFiles{6, id_of(0), "train", {{"/a\xff", 10, "e"}, {"/b", 1ull << 40, ""}}},
      FeederLease{7, id_of(1), "train", 3, true, {{9, 1}, {10, 2}}, {{8, 1}}},
      FeederGone{id_of(8)},
      PsReport{std::string("part\0\xff", 6)},
      FeederLease{7, id_of(1), "train", 0, false, {}, {}, {{3, 8, true}, {4, 9, false}}},
      CommitInputs{11,
                   "ckpt/\xff",
                   {{"train", {{5, 9, 1, 1}}, true, 2, 40, {{7, 2, 40, 1ull << 33, 3}}}, {"x"}}},
  };
}

std::vector<ToClient> all_to_client() {
  Welcome welcome;
  welcome.task = id_of(4);
  welcome.epoch = {2, 9};
  welcome.world = 8;
  welcome.job_name = "job";
  welcome.ps.map.epoch = {2, 9};
  for (std::uint32_t s = 0; s < ps::kSlots; ++s)
    welcome.ps.map.owner.push_back(ShardId{s / (ps::kSlots / 2)});
  welcome.ps.shards = {{ShardId{0}, "tcp://a:1", "/i0", NodeId{"n0"}},
                       {ShardId{1}, "tcp://b:2", "", NodeId{"n1"}}};
  welcome.ps.token = token_of(9);
  welcome.ps.workers = 8;
  welcome.inputs = {input_of()};
  welcome.restore = {"/data/checkpoints/7", 0x0102030405060708};
  welcome.commit_number = 4;
  welcome.commit_tag = "ckpt/\xff";
  FeederReply reply{8, Errc{}, "", {io::LeaseState::kGranted, {{3, 1, "/a", "e", 100, 200}}}};
  return {
      welcome,
      Refused{Errc::kPermissionDenied, "wrong token"},
      BarrierPassed{"start", 2},
      InputAt{5, Errc{}, "", "/run/f.sock", token_of(3)},
      WorkerLeft{id_of(5)},
      AdmitConsumer{token_of(4), id_of(6), {2, 9}, input_of()},
      DropConsumer{id_of(7)},
      reply,
      FeederReply{9, Errc::kFailedPrecondition, "other files", {}},
      StopNow{},
      PsOrder{std::string("begin\0\xff", 7)},
      Committed{11, 3, Errc::kFailedPrecondition, "another tag"},
  };
}

std::string hex(std::string_view bytes) {
  std::string h;
  for (const char c : bytes) {
    h.push_back("0123456789abcdef"[static_cast<std::uint8_t>(c) >> 4]);
    h.push_back("0123456789abcdef"[static_cast<std::uint8_t>(c) & 15]);
  }
  return h;
}
std::string unhex(std::string_view h) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < h.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(h.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

TEST(TaskCodec, EveryMessageOfAProcessComesBackTheSame) {
  for (const ToServer& m : all_to_server()) {
    const std::string bytes = encode(m);
    const auto back = decode_to_server(bytes);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->index(), m.index());
    // every field is in the bytes, so equal bytes are equal values
    EXPECT_EQ(hex(encode(*back)), hex(bytes));
  }
  const auto lease = std::get<FeederLease>(decode_to_server(encode(all_to_server()[6])).value());
  EXPECT_EQ(lease.consumer, id_of(1));
  EXPECT_TRUE(lease.resync);
  EXPECT_EQ(lease.held, (std::vector<io::SplitKey>{{9, 1}, {10, 2}}));
  EXPECT_EQ(lease.splits_max, 3u);
  EXPECT_EQ(lease.done, (std::vector<io::SplitKey>{{8, 1}}));
  const auto commit = std::get<CommitInputs>(decode_to_server(encode(all_to_server()[10])).value());
  EXPECT_EQ(commit.inputs, std::get<CommitInputs>(all_to_server()[10]).inputs);
}

TEST(TaskCodec, EveryMessageOfTheAgentComesBackTheSame) {
  for (const ToClient& m : all_to_client()) {
    const std::string bytes = encode(m);
    const auto back = decode_to_client(bytes);
    ASSERT_TRUE(back) << back.error().to_string();
    EXPECT_EQ(back->index(), m.index());
    EXPECT_EQ(hex(encode(*back)), hex(bytes));
  }
  const auto welcome = std::get<Welcome>(decode_to_client(encode(all_to_client()[0])).value());
  EXPECT_EQ(welcome.ps.map.owner.size(), ps::kSlots);
  EXPECT_EQ(welcome.ps.shards.size(), 2u);
  EXPECT_EQ(welcome.inputs, std::vector<io::InputSpec>{input_of()});
  EXPECT_EQ(welcome.restore.folder, "/data/checkpoints/7");
  EXPECT_EQ(welcome.restore.digest, 0x0102030405060708u);
}

// Recorded when version 1 was made: what an older process or agent sends must read for ever.
constexpr const char* kHelloV1 =
    "000000000b000000000000000300030001000000020000006712000000000000000000000000000009000000020100"
    "000000"
    "00000000000000000000000000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20";
constexpr const char* kLeaseV1 =
    "0000000011000000000000000300030007000000000000000300000001000000060000000000000008000000020001"
    "001500"
    "00003200000015000000270000000c000000000000000100000003000000010000003a000000776f726b6572000074"
    "726169"
    "6e0000000800000002000000090000000000000001000000000000000a000000000000000200000000000000";
constexpr const char* kWelcomeV1 =
    "000000003c00000000000000020005000100000008000000000000000000000010000000020001001c000000020000"
    "002100"
    "000022000000200000000100030099000000470000000c000000000000000400000003000000010000003a00000077"
    "6f726b"
    "65720000020000000000000009000000000000006a6f62000000000008000000000000000800000000000200210000"
    "004700"
    "00005d0000000201000004000000020000000900000017000000020000000000000009000000000000000800000001"
    "000000"
    "000000000008000001000000000800000800000001000300000000000000000019000000520000001d0000001a0000"
    "001d00"
    "00001a000000010000000000000019000000520000001d00000002000000190000001a0000007463703a2f2f613a31"
    "000000"
    "000000002f693000000000006e300000000000007463703a2f2f623a32000000000000006e31000000000000090a0b"
    "0c0d0e"
    "0f101112131415161718191a1b1c1d1e1f2021222324252627280400000006000200012c0200000000000000000000"
    "010000"
    "0100000000000000010000000000000000004000000000000000000000000000050000003200000005000000160000"
    "007472"
    "61696e000000050000003a000000050000000a0000002f646174612fff006200000000000000";
constexpr const char* kReplyV1 =
    "0000000014000000000000000200050008000000000000000700000000000000110000000a00000010000000010001"
    "000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000010000003700000004"
    "000000"
    "04000200030000000000000001000000000000006400000000000000c8000000000000000500000012000000050000"
    "000a00"
    "00002f610000000000006500000000000000";

TEST(TaskCodec, BytesOfVersionOneRead) {
  const auto hello = decode_to_server(unhex(kHelloV1));
  ASSERT_TRUE(hello) << hello.error().to_string();
  EXPECT_EQ(std::get<Hello>(*hello).pid, 4711);
  EXPECT_EQ(std::get<Hello>(*hello).token, token_of(1));
  EXPECT_EQ(std::get<Hello>(*hello).kind, PeerKind::kFeeder);
  const auto lease = decode_to_server(unhex(kLeaseV1));
  ASSERT_TRUE(lease) << lease.error().to_string();
  EXPECT_EQ(std::get<FeederLease>(*lease).held.size(), 2u);
  EXPECT_EQ(std::get<FeederLease>(*lease).consumer, id_of(1));
  const auto welcome = decode_to_client(unhex(kWelcomeV1));
  ASSERT_TRUE(welcome) << welcome.error().to_string();
  EXPECT_EQ(std::get<Welcome>(*welcome).ps.shards.at(1).tcp, "tcp://b:2");
  EXPECT_EQ(std::get<Welcome>(*welcome).world, 8u);
  const auto reply = decode_to_client(unhex(kReplyV1));
  ASSERT_TRUE(reply) << reply.error().to_string();
  EXPECT_EQ(std::get<FeederReply>(*reply).answer.splits.at(0),
            (io::Split{3, 1, "/a", "e", 100, 200}));
}

TEST(TaskCodec, MutatedBytesAreAnErrorOrAMessageAndNeverACrash) {
  std::vector<std::string> seeds;
  for (const auto& m : all_to_server()) seeds.push_back(encode(m));
  for (const auto& m : all_to_client()) seeds.push_back(encode(m));
  SplitMix64 rng(11);
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    std::string bytes = seeds[rng.below(seeds.size())];
    const std::uint64_t changes = 1 + rng.below(4);
    for (std::uint64_t c = 0; c < changes; ++c) {
      switch (rng.below(4)) {
        case 0:
          bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
          break;
        case 1:
          bytes[rng.below(bytes.size())] = static_cast<char>(rng.next());
          break;
        case 2:
          bytes.resize(std::max<std::size_t>(8, rng.below(bytes.size()) & ~std::size_t{7}));
          break;
        default: {
          const std::size_t at = rng.below(bytes.size()) & ~std::size_t{7};
          const std::uint64_t word = rng.next();
          bytes.replace(at, 8, reinterpret_cast<const char*>(&word),
                        std::min<std::size_t>(8, bytes.size() - at));
        }
      }
    }
    refused += decode_to_server(bytes).has_value() ? 0 : 1;
    refused += decode_to_client(bytes).has_value() ? 0 : 1;
  }
  EXPECT_GT(refused, 500);
}

TEST(TaskCodec, FramesAreBoundedAndMayComeInPieces) {
  const std::string one = frame(std::string("abcdefgh")).value(),
                    two = frame(std::string("ij")).value();
  const std::string all = one + two;
  std::size_t consumed = 0;
  std::string_view message;
  for (std::size_t n = 0; n < one.size(); ++n)
    EXPECT_FALSE(unframe(all.substr(0, n), consumed, message).value());
  EXPECT_TRUE(unframe(all, consumed, message).value());
  EXPECT_EQ(message, "abcdefgh");
  EXPECT_TRUE(unframe(all, consumed, message).value());
  EXPECT_EQ(message, "ij");
  EXPECT_EQ(consumed, all.size());
  consumed = 0;
  EXPECT_EQ(unframe(std::string(4, '\0'), consumed, message).error().code, Errc::kCorrupt);
  EXPECT_EQ(unframe("\xff\xff\xff\xff", consumed, message).error().code, Errc::kCorrupt);
  EXPECT_EQ(frame(std::string(kTaskFrameBytesMax + 1, 'x')).error().code, Errc::kInvalidArgument);
}

}  // namespace
}  // namespace dlrun::wire

#include "runtime/shim/spec.h"

#include <gtest/gtest.h>

#include "runtime/base/rng.h"

namespace dlrun::shim {
namespace {

Spec full_spec() {
  Spec s;
  s.argv = {"prog", "", "a b", "\xff\xfe|=\n"};
  s.env = {"A=1", "B=x=y|z\nw", "C=\xc3\x28", "D="};
  s.cwd = "/tmp/\xff";
  s.rlimits = {{7, 100, 200}, {4, 0, ~0ull}};
  s.memory_bytes = 1 << 30;
  s.time_limit_ms = 5;
  s.grace_ms = 6;
  s.leftover_grace_ms = 7;
  s.give_up_ms = 8;
  s.log_segment_bytes = 9;
  s.log_retained_bytes = 10;
  s.mark = 0xdeadbeefcafef00d;
  s.no_new_privs = false;
  s.use_cgroup = false;
  return s;
}

TEST(ShimSpec, ComesBackEqualWithAnyBytes) {
  const Spec spec = full_spec();
  const auto back = decode_spec(encode(spec));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, spec);
}

TEST(ShimSpec, RecordsOfEveryKindComeBackEqual) {
  const Exit exit{EndCause::kOom, -3, 9, 77, 88, "detail"};
  EXPECT_EQ(decode_exit(encode(exit)).value(), exit);
  const Tree tree{5, {"/a", "/b"}, "cgroup v2", "boot", 4711};
  EXPECT_EQ(decode_tree(encode(tree)).value(), tree);
  const Report report{Phase::kEnded, 12, 13, "best effort", exit};
  EXPECT_EQ(decode_report(encode(report)).value(), report);
  const Command command{Command::Kind::kStop, 1234, EndCause::kSibling};
  EXPECT_EQ(decode_command(encode(command)).value(), command);
}

TEST(ShimSpec, AnotherKindOfRecordIsRefused) {
  const auto back = decode_spec(encode(Exit{}));
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code, Errc::kUnsupported);
}

TEST(ShimSpec, VersionOneExitRecordReads) {
  // Recorded bytes: a shim of an older release may end under a newer agent.
  const std::string bytes(
      "DLS1\x02\0\0\0"
      "\x01\0\0\0\x08\0\0\0\x01\0\0\0\0\0\0\0"
      "\x02\0\0\0\x08\0\0\0\x07\0\0\0\0\0\0\0"
      "\x03\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0"
      "\x04\0\0\0\x08\0\0\0\x00\x10\0\0\0\0\0\0"
      "\x05\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0"
      "\x06\0\0\0\x02\0\0\0hi",
      8 + 5 * 16 + 10);
  Exit exit{EndCause::kExit, 7, 0, 4096, 0, "hi"};
  const std::string encoded = encode(exit);
  EXPECT_EQ(encoded.substr(0, bytes.size()), bytes);
  EXPECT_EQ(decode_exit(encoded).value(), exit);
}

TEST(ShimSpec, EveryCutIsRefused) {
  const std::string bytes = encode(full_spec());
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(decode_spec(bytes.substr(0, n))) << n;
}

TEST(ShimSpec, MutatedBytesNeverCrashAndNeverPassTheChecksum) {
  const std::string original = encode(full_spec());
  SplitMix64 rng(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = original;
    const std::uint64_t flips = 1 + rng.below(3);
    for (std::uint64_t f = 0; f < flips; ++f) {
      switch (rng.below(4)) {
        case 0:
          bytes[rng.below(bytes.size())] ^= static_cast<char>(1 << rng.below(8));
          break;
        case 1:
          bytes[rng.below(bytes.size())] = static_cast<char>(rng.next());
          break;
        case 2:
          bytes.resize(1 + rng.below(bytes.size()));
          break;
        default:
          bytes.insert(rng.below(bytes.size()), 1 + rng.below(9), static_cast<char>(rng.next()));
      }
    }
    const auto back = decode_spec(bytes);
    if (bytes != original) {
      EXPECT_FALSE(back);
    }
    (void)decode_exit(bytes);
    (void)decode_command(bytes);
  }
}

}  // namespace
}  // namespace dlrun::shim

// Two ends over a channel that loses, repeats and delays: what arrives is what was sent, once and
// in order; credit is never exceeded; silence is found out.
#include "ps/pslite/core/link_core.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <vector>

#include "runtime/base/rng.h"

namespace dlrun::pslite {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Header {
  std::uint64_t sequence, ack, taken;
  std::uint64_t bytes;  ///< that count
};

/// One side: its core, what it sends and what it got.
struct End {
  End(const LinkCore::Limits& limits, TimePoint now) : core(limits, now) {}
  LinkCore core;
  std::map<std::uint64_t, std::uint64_t> bytes;  ///< of the numbered packets
  std::vector<std::uint64_t> got;
  std::deque<std::uint64_t> not_taken;
  std::uint64_t with_peer = 0;  ///< bytes numbered here and not taken there
};

struct Network {
  SplitMix64 rng;
  std::uint64_t lose_percent;
  TimePoint now{};
  std::deque<std::pair<TimePoint, Header>> to[2];

  void send(int side, Header header) {
    if (rng.below(100) < lose_percent) return;
    // In order, as a connection is; a broken one loses what it held.
    if (rng.below(200) < lose_percent) to[side].clear();
    to[side].push_back({now + milliseconds(rng.below(3)), header});
  }
};

class LossyLink : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, LossyLink, testing::Range<std::uint64_t>(0, 40));

TEST_P(LossyLink, DeliversEachOnceAndInOrderWithinTheCredit) {
  LinkCore::Limits limits;
  limits.credit_bytes = 1000;
  limits.packets = 8;
  limits.ack_packets = 4;
  limits.resend_after = milliseconds(20);
  limits.lost_after = seconds(1000);
  Network net{SplitMix64(GetParam()), GetParam() % 4 * 8, {}, {}};
  End ends[2] = {{limits, net.now}, {limits, net.now}};
  constexpr std::uint64_t kPackets = 300;

  const auto done = [&] {
    return ends[0].got.size() == kPackets && ends[1].got.size() == kPackets &&
           ends[0].core.idle() && ends[1].core.idle();
  };
  int turns = 0;
  for (; turns < 200000 && !done(); ++turns) {
    net.now += milliseconds(1);
    for (int side : {0, 1}) {
      End& me = ends[side];
      End& peer = ends[1 - side];
      auto& in = net.to[side];
      while (!in.empty() && in.front().first <= net.now) {
        const Header h = in.front().second;
        in.pop_front();
        if (!me.core.on_packet(h.sequence, h.ack, h.taken, net.now)) continue;
        me.got.push_back(h.sequence);
        if (h.bytes > 0) me.not_taken.push_back(h.bytes);
      }
      if (!me.not_taken.empty() && net.rng.below(4) == 0) {
        me.core.on_taken(me.not_taken.front());
        peer.with_peer -= me.not_taken.front();
        me.not_taken.pop_front();
      }
      me.core.on_time(net.now);
      while (true) {
        if (me.core.to_send() == 0 && me.bytes.size() < kPackets) {
          const std::uint64_t bytes = net.rng.below(2) == 0 ? 0 : 1 + net.rng.below(600);
          if (me.core.may_number(bytes)) {
            me.bytes[me.core.number(bytes)] = bytes;
            me.with_peer += bytes;
            ASSERT_TRUE(me.with_peer <= limits.credit_bytes) << "more than the credit";
          }
        }
        const std::uint64_t sequence = me.core.to_send();
        if (sequence == 0) break;
        ASSERT_LT(sequence - me.core.base(), limits.packets);
        net.send(1 - side, {sequence, me.core.ack(), me.core.taken(), me.bytes.at(sequence)});
        me.core.sent(net.now);
        me.core.told(net.now);
      }
      if (me.core.must_tell(net.now)) {
        net.send(1 - side, {0, me.core.ack(), me.core.taken(), 0});
        me.core.told(net.now);
      }
    }
  }
  ASSERT_TRUE(done()) << turns << " turns, " << ends[0].got.size() << " and " << ends[1].got.size();
  for (const End& end : ends)
    for (std::uint64_t i = 0; i < kPackets; ++i) ASSERT_EQ(end.got[i], i + 1);
}

TEST(LinkCore, APacketLargerThanTheCreditGoesAlone) {
  LinkCore::Limits limits;
  limits.credit_bytes = 100;
  LinkCore core(limits, {});
  EXPECT_TRUE(core.may_number(500));
  core.number(500);
  EXPECT_FALSE(core.may_number(1));
  EXPECT_TRUE(core.may_number(0)) << "what does not count is never held up by what does";
  (void)core.on_packet(0, 0, 500, {});
  EXPECT_TRUE(core.may_number(1));
}

TEST(LinkCore, PartsOfAMailGiveCreditBackWhileTheyComeAndItsRestWhenItIsTaken) {
  LinkCore core({}, {});
  core.on_part(70);
  core.on_part(70);
  EXPECT_EQ(core.taken(), 140u);
  core.on_whole(140);  // with a last packet of 60
  EXPECT_EQ(core.taken(), 140u) << "what was given is never taken back";
  core.on_part(50);  // of the next one
  EXPECT_EQ(core.taken(), 140u) << "and not given twice";
  core.on_taken(200);
  EXPECT_EQ(core.taken(), 250u);
}

TEST(LinkCore, AfterSilenceOnePacketGoesFirstAndTheOthersOnlyWhereTheyAreMissed) {
  LinkCore::Limits limits;
  limits.resend_after = seconds(1);
  TimePoint now{};
  LinkCore core(limits, now);
  for (int i = 0; i < 5; ++i) {
    core.number(0);
    core.sent(now);
  }
  now += seconds(1);
  core.on_time(now);
  EXPECT_EQ(core.to_send(), 1u);
  core.sent(now);
  EXPECT_EQ(core.to_send(), 0u);
  (void)core.on_packet(0, 3, 0, now);  // the peer had three: what it lacks is sent again
  EXPECT_EQ(core.to_send(), 4u);
  core.sent(now);
  EXPECT_EQ(core.to_send(), 5u);
}

TEST(LinkCore, AnAcknowledgementOfWhatWasNeverSentIsIgnored) {
  LinkCore core({}, {});
  core.number(10);
  core.sent({});
  (void)core.on_packet(0, 99, 99, {});
  EXPECT_FALSE(core.idle());
  EXPECT_EQ(core.base(), 1u);
}

TEST(LinkCore, APeerThatSaysNothingIsLostUnlessThisProcessStoodStill) {
  LinkCore::Limits limits;
  limits.lost_after = seconds(20);
  TimePoint now{};
  LinkCore core(limits, now);
  now += seconds(19);
  EXPECT_FALSE(core.lost(now));
  core.stood_still(seconds(15));
  now += seconds(15);
  EXPECT_FALSE(core.lost(now));
  now += seconds(5);
  EXPECT_TRUE(core.lost(now));
  (void)core.on_packet(0, 0, 0, now);
  EXPECT_FALSE(core.lost(now));
}

TEST(LinkCore, SaysSomethingOnceAKeepalive) {
  TimePoint now{};
  LinkCore core({}, now);
  EXPECT_FALSE(core.must_tell(now));
  now += seconds(1);
  EXPECT_TRUE(core.must_tell(now));
  core.told(now);
  EXPECT_FALSE(core.must_tell(now));
  EXPECT_EQ(core.next_time(), now + seconds(1));
}

}  // namespace
}  // namespace dlrun::pslite

#include "runtime/actor/backoff.h"

#include <gtest/gtest.h>

namespace dlrun::actor {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, DoublesWithinItsBoundsAndStartsAgain) {
  Backoff backoff(milliseconds(100), milliseconds(1000), 7);
  Duration expected = milliseconds(100);
  for (int i = 0; i < 80; ++i) {
    const Duration d = backoff.next();
    EXPECT_GE(d, expected / 2) << i;
    EXPECT_LE(d, expected) << i;
    expected = std::min<Duration>(expected * 2, milliseconds(1000));
  }
  backoff.reset();
  EXPECT_LE(backoff.next(), milliseconds(100));
}

TEST(Backoff, SeedsGiveDifferentWaits) {
  Backoff a(milliseconds(100), milliseconds(1000), 1);
  Backoff b(milliseconds(100), milliseconds(1000), 2);
  EXPECT_NE(a.next(), b.next());
}

}  // namespace
}  // namespace dlrun::actor

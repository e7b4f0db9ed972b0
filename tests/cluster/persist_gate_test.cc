#include "runtime/cluster/core/persist_gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <variant>

namespace dlrun::cluster {
namespace {

using Effect = std::variant<Persist, std::string>;
using Gate = PersistGate<Effect>;

class PersistGateTest : public testing::Test {
 protected:
  void flush() { gate_.flush(out_); }
  std::uint64_t asked() const {
    std::uint64_t id = 0;
    for (const Effect& e : out_)
      if (const auto* persist = std::get_if<Persist>(&e)) id = persist->id;
    return id;
  }
  std::size_t answers() const {
    std::size_t n = 0;
    for (const Effect& e : out_) n += std::holds_alternative<std::string>(e) ? 1 : 0;
    return n;
  }
  static Gate::Entry event(JobId job = JobId{1}) {
    return {job, false, {TermStarted{1}}, {"done"}, {}};
  }
  static Gate::Entry answer() { return {JobId{1}, false, {}, {"again"}, {}}; }

  Gate gate_{std::chrono::seconds(1)};
  std::vector<Effect> out_;
};

TEST_F(PersistGateTest, AnAnswerWaitsForTheEventsBeforeIt) {
  gate_.stage(event());
  gate_.stage(answer());
  flush();
  EXPECT_EQ(answers(), 0u);
  ASSERT_TRUE(gate_.on_persisted(asked(), out_));
  EXPECT_EQ(answers(), 2u);
}

TEST_F(PersistGateTest, WhileTheDiskIsFullAnswersToRepeatsDoNotPileUpAndEventsAreKept) {
  TimePoint now{};
  gate_.stage(event());
  flush();
  gate_.on_failed(asked(), now, out_);
  for (std::size_t i = 0; i < 4 * Gate::kStagedMax; ++i) gate_.stage(answer());
  EXPECT_FALSE(gate_.stage(answer()));
  EXPECT_TRUE(gate_.stage(event())) << "what happened is never forgotten";
  now += std::chrono::seconds(2);
  gate_.on_tick(now);
  out_.clear();
  flush();
  ASSERT_TRUE(gate_.on_persisted(asked(), out_));
  EXPECT_EQ(answers(), Gate::kStagedMax + 1);
}

}  // namespace
}  // namespace dlrun::cluster

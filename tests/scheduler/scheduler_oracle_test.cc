// SchedulerCore against the oracle: random events, compared after each.
// A failing seed is printed; DLRUN_SEED=<n> runs that one alone, DLRUN_LONG=1 runs 20 times as
// many.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/base/rng.h"
#include "scheduler/core/scheduler_core.h"
#include "tests/scheduler/oracle.h"

namespace dlrun::sched {
namespace {

constexpr std::uint64_t kSequences = 2000;
constexpr int kSteps = 40;

class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : rng_(seed) {}

  void run() {
    const int nodes = 1 + static_cast<int>(rng_.below(3));
    for (int i = 0; i < nodes; ++i) add_node();
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      event();
      if (rng_.below(3) != 0) drain();  // sometimes several events come between two looks
      compare();
    }
    drain();
  }

 private:
  GangRequest random_gang() {
    GangRequest gang;
    gang.job = JobId(1 + rng_.below(40));
    gang.generation = Generation(1 + static_cast<std::uint32_t>(rng_.below(3)));
    gang.priority = static_cast<std::int32_t>(rng_.below(3)) - 1;
    gang.submitted = TimePoint(Duration(rng_.below(4)));  // ties are frequent
    const auto roles = 1 + rng_.below(2);
    for (std::uint64_t role = 0; role < roles; ++role) {
      TaskDemand task;
      task.role = role == 0 ? "worker" : "ps";
      task.need.cpu_milli = static_cast<std::int64_t>(rng_.below(4)) * 1000;
      task.need.memory_bytes = static_cast<std::int64_t>(rng_.below(3)) << 30;
      task.need.gpus = rng_.below(3) == 0 ? static_cast<std::int32_t>(1 + rng_.below(2)) : 0;
      task.need.ports = static_cast<std::int32_t>(rng_.below(3));
      if (rng_.below(4) == 0) task.require["zone"] = rng_.below(2) == 0 ? "a" : "b";
      const auto count = 1 + rng_.below(2);
      for (std::uint64_t i = 0; i < count; ++i, ++task.rank) gang.tasks.push_back(task);
    }
    return gang;
  }

  std::string random_node() { return "n" + std::to_string(1 + rng_.below(4)); }

  void add_node() {
    NodeCapacity c;
    c.node = NodeId(random_node());
    c.cpu_milli = static_cast<std::int64_t>(rng_.below(6)) * 1000;
    c.memory_bytes = static_cast<std::int64_t>(rng_.below(5)) << 30;
    for (std::uint64_t i = rng_.below(4); i > 0; --i)
      c.gpu_uuids.push_back("GPU-" + std::to_string(i));
    c.ports = PortRange{static_cast<std::uint16_t>(7000 + rng_.below(3)),
                        static_cast<std::uint16_t>(rng_.below(6))};
    if (rng_.below(2) == 0) c.labels["zone"] = rng_.below(2) == 0 ? "a" : "b";
    core_.add_node(c);
    s_.nodes[c.node.value].capacity = c;
  }

  void submit() {
    const GangRequest gang = random_gang();
    const bool exists = s_.queue.contains(gang.job.value) || s_.running.contains(gang.job.value);
    const Status status = core_.submit(gang);
    ASSERT_EQ(status.has_value(), !exists);
    if (exists) {
      ASSERT_EQ(status.error().code, Errc::kAlreadyExists);
    }
    if (!exists) s_.queue[gang.job.value] = gang;
  }

  void release() {
    const JobId job(1 + rng_.below(40));
    core_.release(job);
    s_.queue.erase(job.value);
    s_.running.erase(job.value);
  }

  void release_running() {
    if (s_.running.empty()) return;
    auto at = s_.running.begin();
    std::advance(at, rng_.below(s_.running.size()));
    gone_ = at->second;
    core_.release(JobId(at->first));
    s_.running.erase(at);
  }

  /// What was released last comes back as it was, as after a restart: sometimes something else sits
  /// there by now.
  void adopt() {
    if (!gone_) return;
    const std::uint64_t job = gone_->gang.job.value;
    const bool exists = s_.queue.contains(job) || s_.running.contains(job);
    oracle::Snapshot after = s_;
    after.running[job] = *gone_;
    const std::string broken = exists ? "" : oracle::broken_invariant(after);
    const Status status = core_.adopt(gone_->gang, gone_->placement);
    ASSERT_EQ(status.has_value(), !exists && broken.empty()) << broken;
    if (exists) {
      ASSERT_EQ(status.error().code, Errc::kAlreadyExists);
    }
    if (!exists && !broken.empty()) {
      ASSERT_EQ(status.error().code, Errc::kFailedPrecondition);
    }
    if (status) s_ = after;
  }

  void event() {
    const std::string node = random_node();
    switch (rng_.below(12)) {
      case 0:
        add_node();
        break;
      case 1:
        core_.remove_node(NodeId(node));
        s_.nodes.erase(node);
        break;
      case 2:
      case 3: {
        const bool on = rng_.below(3) != 0;
        core_.set_schedulable(NodeId(node), on, "draining");
        if (s_.nodes.contains(node)) s_.nodes[node].schedulable = on;
        break;
      }
      case 4:
        release();
        break;
      case 5:
      case 6:
        release_running();
        break;
      case 7:
        adopt();
        break;
      default:
        submit();
    }
  }

  void drain() {
    for (;;) {
      const auto expected = oracle::next_job(s_);
      const auto got = core_.next();
      ASSERT_EQ(got.has_value(), expected.has_value())
          << (expected ? to_string(*expected) : "none");
      if (!got) return;
      ASSERT_EQ(got->job, *expected);
      const GangRequest gang = s_.queue.at(got->job.value);
      ASSERT_EQ(oracle::fault(s_, gang, *got), "");
      s_.queue.erase(got->job.value);
      s_.running[got->job.value] = oracle::Running{gang, *got};
    }
  }

  void compare() {
    ASSERT_EQ(core_.queued(), s_.queue.size());
    ASSERT_EQ(core_.placed(), s_.running.size());
    ASSERT_EQ(oracle::broken_invariant(s_), "");
    for (int i = 1; i <= 4; ++i) {
      const std::string node = "n" + std::to_string(i);
      const Usage want = oracle::usage(s_, node);
      const Usage got = core_.usage(NodeId(node));
      ASSERT_EQ(got.cpu_milli_used, want.cpu_milli_used) << node;
      ASSERT_EQ(got.memory_bytes_used, want.memory_bytes_used) << node;
      ASSERT_EQ(got.gpus_used, want.gpus_used) << node;
      ASSERT_EQ(got.ports_used, want.ports_used) << node;
    }
    const GangRequest asked = random_gang();
    ASSERT_EQ(core_.impossible(asked).has_value(),
              s_.nodes.empty() || oracle::impossible(s_, asked));
    for (const auto& [job, gang] : s_.queue) {
      const auto lines = core_.why(JobId(job));
      for (const std::string constraint : {"node", "label", "cpu", "memory", "gpu", "port"}) {
        for (const TaskDemand& task : gang.tasks) {
          const std::uint32_t want = oracle::nodes_failing(s_, constraint, task);
          const bool said = std::any_of(lines.begin(), lines.end(), [&](const WhyLine& line) {
            return line.constraint == constraint && line.nodes_failing == want &&
                   line.nodes_total == s_.nodes.size();
          });
          ASSERT_TRUE(said || want == 0)
              << to_string(JobId(job)) << " " << constraint << " " << want;
        }
      }
      break;  // one job a step is enough
    }
  }

  SplitMix64 rng_;
  SchedulerCore core_;
  oracle::Snapshot s_;
  std::optional<oracle::Running> gone_;
};

TEST(SchedulerOracle, EveryStepOfRandomSequencesAgreesWithExhaustiveSearch) {
  const char* one = std::getenv("DLRUN_SEED");
  const bool many = std::getenv("DLRUN_LONG") != nullptr;
  const std::uint64_t first = one != nullptr ? std::strtoull(one, nullptr, 10) : 1;
  const std::uint64_t last = one != nullptr ? first : kSequences * (many ? 20 : 1);
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    SCOPED_TRACE("DLRUN_SEED=" + std::to_string(seed));
    Sequence(seed).run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace dlrun::sched

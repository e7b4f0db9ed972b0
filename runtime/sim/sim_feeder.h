#pragma once
/// runtime/sim/sim_feeder.h: the feeder process of a node, by the rules of io/feeder/consumer.h: it
/// leases ahead for each attached consumer, hands out one split at a time, tells with each request
/// what was released until an answer says that it is recorded, and says that the input has ended
/// only then; after an answer that may be lost it asks with `resync`. It may die: then its
/// consumers attach to the next one and tell it what they had taken.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/cluster/core/agent_core.h"
#include "runtime/sim/checker.h"
#include "runtime/sim/sim_loop.h"

namespace dlrun::sim {

/// The node that a feeder runs on.
class FeederNode {
 public:
  virtual ~FeederNode() = default;
  virtual SimLoop& loop() = 0;
  virtual Checker& checker() = 0;
  /// False: no agent lives, or it does not know the task as running.
  virtual bool ask_agent(
      const TaskId& task,
      const std::function<cluster::AgentEffects(cluster::AgentCore&, cluster::Now)>& call) = 0;
  virtual void split_for(const TaskId& consumer, const io::Split& split) = 0;
  virtual void input_ended(const TaskId& consumer) = 0;
};

class SimFeeder {
 public:
  explicit SimFeeder(FeederNode& node) : node_(node) {}

  /// `taken`: what the consumer released so far, with other feeders.
  void attach(const TaskId& consumer, const std::string& input, std::vector<io::SplitKey> taken);
  /// The consumer went: what it released and was not told is told once more.
  void detach(const TaskId& consumer);
  bool attached(const TaskId& consumer) const { return consumers_.contains(consumer); }
  void on_reply(const cluster::LeaseReply& reply);
  /// The consumer has read the split that it was given last.
  void released(const TaskId& consumer);

 private:
  struct Consumer {
    std::string input;
    bool files_known = false;
    bool asking = false;
    bool resync = true;
    bool end_of_input = false;
    bool end_said = false;
    std::uint64_t request = 0;
    TimePoint ask_at;   ///< true time
    TimePoint give_up;  ///< of the request under way
    std::deque<io::Split> leased;
    std::optional<io::Split> current;
    std::deque<io::SplitKey> done;  ///< released, and not known to be recorded
    std::uint32_t asked_splits = 0;
    std::size_t asked_done = 0;  ///< of these, in the request under way
    TimePoint done_at;
  };
  void step(const TaskId& consumer);
  void ask(const TaskId& id, Consumer& consumer, bool want);

  FeederNode& node_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::map<TaskId, Consumer> consumers_;
};

}  // namespace dlrun::sim

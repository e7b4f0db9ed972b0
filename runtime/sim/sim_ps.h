#pragma once
/// runtime/sim/sim_ps.h: both ends of the parameter server in a simulated process, on the real
/// client (ps::Engine) and the real data loop (ps::ShardLoop).
///
///   PsWorker: open the table, then per iteration  pull -> push -> clock  (no clock under ASP),
///             then perhaps leave; any error but a refusal that the world explains is a violation.
///   ShardHost: serves; gives slots away and takes them in as the SlotMover says. A slot on the
///             move is kept, and sent again, until its new owner has it.
///
/// Threads: the loop's. Both end with their process: nothing is called back after the destructor.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps/client/engine.h"
#include "ps/shard/shard_loop.h"
#include "runtime/cluster/core/msg.h"
#include "runtime/sim/ps_checker.h"
#include "runtime/sim/sim_channel.h"
#include "runtime/sim/sim_clock.h"
#include "runtime/sim/sim_program.h"
#include "runtime/sim/sim_replica.h"

namespace dlrun::sim {

class ShardHost;

/// What the two need of the world.
class PsWorld {
 public:
  virtual ~PsWorld() = default;
  virtual SimLoop& loop() = 0;
  virtual SimNetwork& network() = 0;
  virtual SimSockets& sockets() = 0;
  virtual PsChecker& ps_checker() = 0;
  virtual const PlantedBugs& bugs() const = 0;
  /// The shard that listens there; nullptr = none.
  virtual ShardHost* host_at(const std::string& endpoint) = 0;
  /// The view in force, over the network: `answer` runs on the asker's node, perhaps never.
  virtual void ask_view(const NodeId& from, const PsJob& job,
                        std::function<void(ps::PsView)> answer) = 0;
  virtual void violated(std::string what) = 0;
};

class PsWorker {
 public:
  /// `ended`: the program is through (0), or gave up (its exit code).
  PsWorker(PsWorld& world, const NodeId& node, std::shared_ptr<const SimClock> clock,
           const cluster::StartTask& start, const SimProgram& program,
           std::function<void(int code)> ended);
  ~PsWorker();

 private:
  enum class Step : std::uint8_t { kOpen, kPull, kPush, kClock, kLeave, kOver };
  void begin(Step step);
  void turn();
  void turn_soon();
  void over(int code);
  void check_error(const Error& error);
  std::vector<std::uint64_t> some_keys();

  PsWorld& world_;
  const NodeId node_;
  const TaskId task_;
  const SimProgram program_;
  const std::function<void(int)> ended_;
  ps::TableSchema schema_;
  std::shared_ptr<const SimClock> clock_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::optional<ps::PsView> newest_;  ///< told, for the engine to ask for
  std::unique_ptr<ps::Engine> engine_;
  std::shared_ptr<ps::Call> call_;
  Step step_ = Step::kOpen;
  std::uint64_t iteration_ = 0;
  std::vector<std::uint64_t> keys_;
  std::vector<float> grads_;
  std::vector<float> out_;
  std::vector<std::uint64_t> before_;
  bool turning_ = false;
};

class ShardHost {
 public:
  ShardHost(PsWorld& world, const NodeId& node, std::shared_ptr<const SimClock> clock,
            const cluster::StartTask& start, std::string endpoint);
  ~ShardHost();

  void worker_gone(const TaskId& worker);
  /// The view that is to be in force. True: it is, and no slot is on its way from or to this shard.
  bool on_view(const ps::PsView& view);
  /// A slot that moved here under `view`. True: it is here, and need not be sent again.
  bool on_slot(const ps::PsView& view, const ps::SlotImage& image);
  /// Before an end: reads every row that lives here, and holds the replica beside the shard.
  void read_back();
  const TaskId& task() const { return task_; }

 private:
  void turn();
  void turn_soon();
  void arm();
  void send_slots();

  PsWorld& world_;
  const NodeId node_;
  const TaskId task_;
  const std::string endpoint_;
  std::shared_ptr<const SimClock> clock_;
  ShardId shard_;
  std::array<std::uint8_t, 32> token_;
  ps::PsView view_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<SimReplica> replica_;
  std::unique_ptr<ps::ShardLoop> shard_loop_;
  std::map<std::pair<transport::PeerId, std::uint64_t>,
           std::pair<ps::RequestHeader, std::vector<std::uint64_t>>>
      pushes_;  ///< taken in and not answered
  std::map<std::uint32_t, ps::SlotImage> leaving_;
  std::set<std::uint32_t> awaited_;
  bool sending_ = false;
  bool turning_ = false;
  std::optional<TimePoint> armed_;
};

}  // namespace dlrun::sim

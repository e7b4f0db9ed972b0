#pragma once
/// runtime/cluster/actor/coordinator_node.h: the coordinator's actors as one object with a
/// thread-safe ControlApi: replay, store, hub, coordinator, jobs. What a composition root or a test
/// makes. No network of its own: `hub()` is published by it.
/// Threads: start and stop from the owner's; the ControlApi from any.

#include <caf/fwd.hpp>
#include <functional>
#include <memory>

#include "runtime/base/result.h"
#include "runtime/cluster/actor/meters.h"
#include "runtime/cluster/core/api.h"
#include "runtime/cluster/core/coordinator_core.h"
#include "runtime/store/event_log.h"
#include "runtime/wire/link_codec.h"

namespace dlrun::cluster {

struct CoordinatorNodeOptions {
  CoordinatorSettings settings;
  JobSettings job_settings;
  std::unique_ptr<store::EventLog> log;
  std::unique_ptr<store::EventLog> log_reader;  ///< a second handle for reads; may be null
  /// Jobs that retention forgot. On the store's thread: must not block.
  std::function<void(const std::vector<JobId>&)> on_retired;
  std::function<void(const std::string&)> say;  ///< one line for the daemon's log; may be empty
  std::shared_ptr<sched::Placer> placer;
  const TokenIssuer* tokens = nullptr;  ///< outlives the node
  const Clock* clock = nullptr;         ///< outlives the node
  LedgerFactory make_ledger;
  std::function<Status(const wire::LinkHello&)> verify;  ///< of each agent that connects
  std::function<void(const NodeId&, const std::string& log_key)>
      on_peer;                                      ///< after it was verified
  Meters* meters = nullptr;                         ///< outlives the node; may be null
  Duration retention{std::chrono::hours(24 * 30)};  ///< of finished jobs in the log
};

class CoordinatorNode final : public ControlApi {
 public:
  /// Replays the log, then spawns. kCorrupt names the record.
  static Result<std::unique_ptr<CoordinatorNode>> start(caf::actor_system& system,
                                                        CoordinatorNodeOptions options);
  ~CoordinatorNode() override;  ///< stop()
  /// Ends the actors and waits for them; open calls are answered kUnavailable. Jobs run on.
  void stop();

  void call(ApiCall request, Duration timeout, Reply reply) override;
  std::shared_ptr<void> subscribe(std::function<void(JobId)> listener) override;
  caf::actor hub() const;
  /// Cuts the node's connection, with the reason; it may connect again if `verify` lets it.
  void drop_peer(const NodeId& node, const std::string& reason);

 private:
  struct Impl;
  explicit CoordinatorNode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::cluster

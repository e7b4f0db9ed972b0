#pragma once
/// runtime/cluster/actor/feeders.h: one feeder process per user of the node, under a shim, started
/// when an input is first opened. Introduces consumers to it and carries what it asks of the job's
/// ledger.
///
///   (none) -1-> Starting -2-> Serving -3-> (none)
///                                |  ^
///                                4  6
///                                v  |
///                             Lingering -5-> (none)
///   1: OpenInput. 2: Ready with its socket: consumers are admitted, waiting OpenInputs answered.
///   3: it died: the next OpenInput starts another. 4: the last consumer left. 5: `linger` is over:
///      it is stopped. 6: OpenInput.
/// A feeder that dies three times within `spawn_quiet` of its start is not started again for that
/// long; the error says why.
/// Errors to consumers: kNotFound (no such input), kUnavailable (not started: the reason).
/// Bounds: waiting_max per feeder.
/// Threads: single owner (the host's worker).

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/time.h"
#include "runtime/cluster/core/msg.h"
#include "runtime/shim/shim_client.h"
#include "runtime/task/task_server.h"

namespace dlrun::cluster {

struct FeedersOptions {
  /// short: feeders live in <run_dir>/f<n>, their sockets have paths of <= 107 bytes
  std::string run_dir;
  std::string self_program;  ///< argv[0] of `dlrun feeder`
  Duration linger{std::chrono::seconds(5)};
  Duration spawn_quiet{std::chrono::seconds(10)};
  std::size_t waiting_max = 1024;
  task::TaskServer* server = nullptr;
  shim::ShimClient* shims = nullptr;
  const Clock* clock = nullptr;
  std::function<void(Duration, std::function<void()>)> after;  ///< on the owner's thread
  std::function<void(const std::string&)> log;
};

class Feeders {
 public:
  explicit Feeders(FeedersOptions options);
  ~Feeders();

  /// Ends what an earlier agent left: consumers ask again and get a new one.
  void sweep();
  void open_input(const PrepareTask& consumer, const task::OpenInput& request);
  /// True: its feeder was told and will answer FeederGone; until forget() it speaks for the
  /// consumer.
  [[nodiscard]] bool drop_consumer(const TaskId& consumer);
  void forget(const TaskId& consumer) { leaving_.erase(consumer); }
  bool is_feeder(const TaskId& task) const { return task.job.value == 0; }
  void on_ready(const TaskId& feeder, const TaskReadyInfo& info);
  /// True when the directory is a feeder's.
  bool on_shim(const shim::ShimEvent& event);
  /// The feeder that serves `consumer`; nullptr when none does.
  const TaskId* feeder_of(const TaskId& consumer) const;
  /// KILLs feeders without consumers (the agent ends); how many are still there tells
  /// idle_running().
  void stop_idle();
  std::size_t idle_running() const;

 private:
  struct Consumer {
    task::AdmitConsumer admit;
  };
  struct Waiting {
    TaskId task;
    task::OpenInput request;
  };
  struct Feeder {
    TaskId id;
    std::string owner;
    std::string dir;
    std::string socket;  ///< "" until Ready
    cluster::Token token{};
    TimePoint started;
    std::map<std::pair<TaskId, std::string>, Consumer> consumers;
    std::vector<Waiting> waiting;
    std::uint64_t idle_number = 0;
  };
  Result<Feeder*> ensure(const std::string& owner);
  Status spawn(Feeder& feeder);
  void answer(const Feeder& feeder, const Waiting& waiting);
  void refuse(const TaskId& task, std::uint64_t request, const Error& error);
  void arm_linger(Feeder& feeder);

  FeedersOptions options_;
  std::map<std::string, std::unique_ptr<Feeder>> by_owner_;
  struct Deaths {
    int count = 0;
    TimePoint until;
    std::string reason;
  };
  std::map<std::string, Deaths> deaths_;
  std::map<TaskId, TaskId> leaving_;  ///< consumer -> the feeder that still has news of it
  std::uint32_t last_number_ = 0;
};

}  // namespace dlrun::cluster

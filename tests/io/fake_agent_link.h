#pragma once
/// tests/io/fake_agent_link.h: an agent and a job in one object: leases from a LedgerCore, counts
/// what is done, and fails on request.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/core/ledger_core.h"
#include "io/feeder/agent_link.h"
#include "tests/io/serve_lease.h"

namespace dlrun::io {

class FakeAgentLink final : public AgentLink {
 public:
  explicit FakeAgentLink(const std::vector<InputSpec>& inputs) : ledger_(inputs) {}

  Status ready(const std::string&) override { return {}; }
  Result<InputStart> files(const TaskId& consumer, const std::string& input,
                           const std::vector<FileEntry>& files, Duration timeout) override {
    std::unique_lock lock(mutex_);
    ++files_told_;
    changed_.notify_all();
    if (!open_.wait_for(lock, timeout, [this] { return !closed_; }))
      return fail(Errc::kDeadlineExceeded, "the coordinator does not answer");
    DLRUN_TRY(ledger_.set_files(input, files));
    if (committed_) DLRUN_TRY(ledger_.restore(*std::exchange(committed_, std::nullopt)));
    return ledger_.start(input, consumer, world_);
  }
  Result<LeaseAnswer> lease(const task::FeederLease& request, Duration timeout) override {
    std::unique_lock lock(mutex_);
    if (!open_.wait_for(lock, timeout, [this] { return !closed_; }))
      return fail(Errc::kDeadlineExceeded, "the coordinator does not answer");
    ++leases_;
    const bool lost = lose_every_ != 0 && leases_ % lose_every_ == 0;
    if (lost && leases_ % (2 * lose_every_) == 0)  // already on its way there
      return fail(Errc::kUnavailable, "the agent was restarted");
    // as the job does
    if (dropped_.contains(request.consumer)) return fail(Errc::kStaleEpoch, "the task has ended");
    if (refuse_with_ != Errc{}) return fail(refuse_with_, "refused by the test");
    resyncs_ += request.resync;
    auto answer = serve_lease(ledger_, request, world_);
    changed_.notify_all();
    if (lost) return fail(Errc::kUnavailable, "the agent was restarted");  // on its way back
    return answer;
  }
  Status gone(const TaskId& consumer) override {
    const std::lock_guard lock(mutex_);
    gone_.insert(consumer);
    changed_.notify_all();
    return {};
  }

  // What the test does and sees.
  void set_world(std::uint32_t world) {
    const std::lock_guard lock(mutex_);
    world_ = world;
  }
  /// Its one input begins there.
  void begin_from(const LedgerState& state) {
    const std::lock_guard lock(mutex_);
    committed_ = state;
  }
  Result<LedgerState> commit(const std::vector<ConsumerCursor>& consumers) {
    const std::lock_guard lock(mutex_);
    DLRUN_ASSIGN(auto states, ledger_.commit(consumers, world_));
    return std::move(states.at(0));
  }
  void drop(const TaskId& consumer) {
    const std::lock_guard lock(mutex_);
    dropped_.insert(consumer);
    ledger_.drop_consumer(consumer);
  }
  void refuse_with(Errc code) {
    const std::lock_guard lock(mutex_);
    refuse_with_ = code;
  }
  void lose_every(int n) {
    const std::lock_guard lock(mutex_);
    lose_every_ = n;
  }
  void close(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    open_.notify_all();
  }
  LedgerCore::Counts counts(const std::string& input) {
    const std::lock_guard lock(mutex_);
    return ledger_.counts(input).value();
  }
  bool wait_done(const std::string& input, std::uint64_t n, Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return ledger_.counts(input)->done >= n; });
  }
  bool wait_gone(const TaskId& consumer, Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return gone_.contains(consumer); });
  }
  bool wait_files_told(int times, Duration timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [&] { return files_told_ >= times; });
  }
  /// Requests: each is one record of the job's log.
  int requests() {
    const std::lock_guard lock(mutex_);
    return leases_;
  }
  int resyncs() {
    const std::lock_guard lock(mutex_);
    return resyncs_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable open_, changed_;
  LedgerCore ledger_;
  std::uint32_t world_ = 1;
  std::optional<LedgerState> committed_;
  std::set<TaskId> dropped_, gone_;
  Errc refuse_with_{};
  int lose_every_ = 0, leases_ = 0, resyncs_ = 0, files_told_ = 0;
  bool closed_ = false;
};

}  // namespace dlrun::io

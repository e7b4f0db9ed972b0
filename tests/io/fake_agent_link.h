#pragma once
/// tests/io/fake_agent_link.h: an agent and a job in one object: leases from a LedgerCore, counts
/// what is done, and fails on request.

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "io/core/ledger_core.h"
#include "io/feeder/agent_link.h"

namespace dlrun::io {

class FakeAgentLink final : public AgentLink {
 public:
  explicit FakeAgentLink(const std::vector<InputSpec>& inputs) : ledger_(inputs) {}

  Status ready(const std::string&) override { return {}; }
  Status files(const TaskId&, const std::string& input, const std::vector<FileEntry>& files,
               Duration) override {
    const std::lock_guard lock(mutex_);
    return ledger_.set_files(input, files);
  }
  Result<LeaseAnswer> lease(const task::FeederLease& request, Duration timeout) override {
    std::unique_lock lock(mutex_);
    if (!open_.wait_for(lock, timeout, [this] { return !closed_; }))
      return fail(Errc::kDeadlineExceeded, "the coordinator does not answer");
    ++leases_;
    if (refuse_with_ != Errc{}) return fail(refuse_with_, "refused by the test");
    if (request.resync) {
      ++resyncs_;
      ledger_.resync(request.input, request.consumer, request.held);
    }
    auto answer = ledger_.lease(request.input, request.consumer, request.splits_max);
    if (lose_every_ != 0 && leases_ % lose_every_ == 0)
      return fail(Errc::kUnavailable, "the agent was restarted");  // leased, and the answer is lost
    return answer;
  }
  Status done(const task::FeederDone& d) override {
    const std::lock_guard lock(mutex_);
    if (ledger_.done(d.input, d.consumer, d.split_id, d.pass))
      ++done_[{d.split_id, d.pass}];
    else
      ++refused_done_;
    changed_.notify_all();
    return {};
  }

  // What the test does and sees.
  void drop(const TaskId& consumer) {
    const std::lock_guard lock(mutex_);
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
  int resyncs() {
    const std::lock_guard lock(mutex_);
    return resyncs_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable open_, changed_;
  LedgerCore ledger_;
  std::map<SplitKey, int> done_;
  Errc refuse_with_{};
  int lose_every_ = 0, leases_ = 0, resyncs_ = 0, refused_done_ = 0;
  bool closed_ = false;
};

}  // namespace dlrun::io

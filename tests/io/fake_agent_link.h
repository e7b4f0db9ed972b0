#pragma once
/// tests/io/fake_agent_link.h: an agent and a job in one object: leases from a LedgerCore, counts
/// what is done, and fails on request.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <vector>

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
    const bool dies = lose_every_ != 0 && leases_ % lose_every_ == 0;
    if (dies)
      said_done_.clear();  // what the agent had not yet passed on dies with it
    else
      pass_on();
    if (dropped_.contains(request.consumer))
      return fail(Errc::kStaleEpoch, "the task has ended");  // as the job does
    if (refuse_with_ != Errc{}) return fail(refuse_with_, "refused by the test");
    if (request.resync) {
      ++resyncs_;
      ledger_.resync(request.input, request.consumer, request.held);
    }
    auto answer = ledger_.lease(request.input, request.consumer, request.splits_max);
    if (dies) return fail(Errc::kUnavailable, "the agent was restarted");  // the answer is lost
    return answer;
  }
  Status done(const task::FeederDone& d) override {
    const std::lock_guard lock(mutex_);
    said_done_.push_back(d);
    if (lose_every_ == 0) pass_on();
    changed_.notify_all();
    return {};
  }

  // What the test does and sees.
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
    return changed_.wait_for(lock, timeout, [&] {
      pass_on();
      return ledger_.counts(input)->done >= n;
    });
  }
  int resyncs() {
    const std::lock_guard lock(mutex_);
    return resyncs_;
  }

 private:
  void pass_on() {
    for (const task::FeederDone& d : said_done_)
      (void)ledger_.done(d.input, d.consumer, d.split_id, d.pass);  // a repeated one is refused
    said_done_.clear();
  }

  std::mutex mutex_;
  std::condition_variable open_, changed_;
  LedgerCore ledger_;
  std::vector<task::FeederDone> said_done_;
  std::set<TaskId> dropped_;
  Errc refuse_with_{};
  int lose_every_ = 0, leases_ = 0, resyncs_ = 0;
  bool closed_ = false;
};

}  // namespace dlrun::io

#pragma once
/// tests/cluster/harness.h: a JobCore or an AgentCore driven by hand: a clock, a store that is
/// always well unless told otherwise, and what the core sent, sorted.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct FixedTokens final : TokenIssuer {
  Token issue(std::string_view purpose, Epoch epoch) const override {
    Token token{};
    token[0] = static_cast<std::uint8_t>(purpose.size());
    token[1] = static_cast<std::uint8_t>(epoch.counter);
    return token;
  }
};

inline JobSpec spec_of(std::uint32_t workers, std::uint32_t shards = 0) {
  JobSpec spec;
  spec.name = "job";
  spec.owner = "ann";
  if (shards > 0) {
    RoleSpec ps;
    ps.name = "ps";
    ps.kind = RoleKind::kService;
    ps.program = RoleProgram::kShardHost;
    ps.count_min = ps.count_max = shards;
    spec.roles.push_back(ps);
  }
  RoleSpec worker;
  worker.name = "worker";
  worker.count_min = worker.count_max = workers;
  worker.argv = {"train"};
  if (shards > 0) worker.after = {"ps"};
  spec.roles.push_back(worker);
  return spec;
}

/// Task i runs on node "n<i>" at 10.0.0.<i> with port 20000 + i.
inline JobPlaced placed_of(const JobSpec& spec, JobId job, Generation generation, Epoch epoch) {
  JobPlaced placed{job, generation, epoch, {}, {}};
  for (const RoleSpec& role : spec.roles)
    for (std::uint32_t rank = 0; rank < role.count_max; ++rank) {
      const std::string i = std::to_string(placed.tasks.size());
      const auto port = static_cast<std::uint16_t>(20000 + placed.tasks.size());
      placed.tasks.push_back(
          {TaskId{job, role.name, rank, generation}, "10.0.0." + i, {NodeId{"n" + i}, {port}, {}}});
    }
  return placed;
}

class JobHarness {
 public:
  explicit JobHarness(JobSpec spec, LedgerFactory ledger = {}, JobSettings settings = {})
      : spec_(spec), ledger_(std::move(ledger)), settings_(settings) {
    const JobSubmitted submitted{job, spec, "", 1, {}};
    log.push_back(submitted);
    core.emplace(JobRecord(submitted, std::make_shared<const JobSpec>(spec)), settings_, tokens_,
                 ledger_);
    take(core->start(now()));
  }

  Now now() const { return {TimePoint{} + at, WallTime{at.count()}}; }
  void place(std::uint32_t generation = 1) {
    JobPlaced placed = placed_of(spec_, job, Generation{generation}, Epoch{1, generation});
    placed.at = now().wall;
    log.push_back(placed);
    take(core->on_input(Placed{placed}, now()));
  }
  TaskId task(const std::string& role, std::uint32_t rank, std::uint32_t generation = 1) const {
    return {job, role, rank, Generation{generation}};
  }
  void from(const std::string& node, FromAgent message) {
    take(core->on_input(TaskMessage{NodeId{node}, message}, now()));
  }
  void update(const std::string& node, const TaskId& task, TaskState state, TaskEnd end = {},
              std::string tcp = "") {
    TaskUpdate m{task, Epoch{1, task.generation.value}, state, end, {tcp, ""}, 7};
    from(node, m);
  }
  void exits(const std::string& node, const TaskId& task, int code) {
    update(node, task, TaskState::kEnded, TaskEnd{.cause = Cause::kExit, .code = code});
  }
  void advance(Duration by) {
    at += by;
    take(core->on_tick(now()));
  }
  /// As after kill -9 of the coordinator: a new core from the log.
  void recover() {
    JobRecord record(std::get<JobSubmitted>(log.front()), std::make_shared<const JobSpec>(spec_));
    for (std::size_t i = 0; i < log.size(); ++i)
      if (std::none_of(log.begin() + static_cast<std::ptrdiff_t>(i) + 1, log.end(),
                       [&](const Event& later) { return is_superseded(log[i], later); }))
        record.apply(log[i]);
    core.emplace(record, settings_, tokens_, ledger_);
    sent.clear();
    take(core->start(now()));
  }
  void take(JobEffects effects) {
    for (JobEffect& effect : effects) {
      if (auto* persist = std::get_if<Persist>(&effect)) {
        if (!store_ok) {
          take(core->on_persist_failed(persist->id, Error{Errc::kResourceExhausted, "disk full"},
                                       now()));
          continue;
        }
        if (hold_store) {
          held = *persist;
          continue;
        }
        log.insert(log.end(), persist->events.begin(), persist->events.end());
        take(core->on_persisted(persist->id, now()));
      } else if (auto* send = std::get_if<SendToAgent>(&effect)) {
        sent.push_back(*send);
      } else {
        const auto& message = std::get<JobToCoordinator>(effect);
        if (const auto* over = std::get_if<JobOver>(&message)) ended = over->view;
        if (const auto* needs = std::get_if<JobNeedsPlacement>(&message))
          wants_generation = needs->generation.value;
        if (const auto* report = std::get_if<JobReport>(&message)) reported = report->view;
      }
    }
  }
  void release_store() {
    hold_store = false;
    log.insert(log.end(), held->events.begin(), held->events.end());
    const std::uint64_t id = held->id;
    held.reset();
    take(core->on_persisted(id, now()));
  }
  /// Messages of type M sent since the last call of clear, in order.
  template <class M>
  std::vector<M> sent_of() const {
    std::vector<M> out;
    for (const SendToAgent& s : sent)
      if (const auto* m = std::get_if<M>(&s.message)) out.push_back(*m);
    return out;
  }
  template <class M>
  std::vector<M> take_of() {
    std::vector<M> out = sent_of<M>();
    sent.clear();
    return out;
  }
  void run_all_workers(std::uint32_t workers) {
    for (std::uint32_t i = 0; i < workers; ++i)
      update("n" + std::to_string(i), task("worker", i), TaskState::kPrepared);
    for (std::uint32_t i = 0; i < workers; ++i)
      update("n" + std::to_string(i), task("worker", i), TaskState::kRunning);
    sent.clear();
  }

  const JobId job{1};
  Duration at{seconds(1000)};
  bool store_ok = true, hold_store = false;
  std::optional<Persist> held;
  std::vector<Event> log;
  std::vector<SendToAgent> sent;
  std::optional<JobView> ended, reported;
  std::uint32_t wants_generation = 0;
  std::optional<JobCore> core;

 private:
  JobSpec spec_;
  LedgerFactory ledger_;
  JobSettings settings_;
  FixedTokens tokens_;
};

}  // namespace dlrun::cluster

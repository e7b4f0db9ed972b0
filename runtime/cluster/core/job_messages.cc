// How JobCore puts its messages together: commands, the view.

#include <algorithm>

#include "runtime/base/assert.h"
#include "runtime/cluster/core/framework/adapter.h"
#include "runtime/cluster/core/job_core.h"
#include "runtime/cluster/core/rendezvous.h"

namespace dlrun::cluster {

namespace {

std::string hex(const Token& token) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : token) (text += kDigits[byte >> 4]) += kDigits[byte & 15];
  return text;
}

EnvList start_env(const JobRecord& record, std::size_t index, const TokenIssuer& tokens,
                  Epoch epoch) {
  EnvList env = rendezvous_of(record, index);
  if (framework::wants_secret(*record.spec) &&
      record.role_of(index).program == RoleProgram::kProcess)
    env.emplace_back("DLRUN_SECRET", hex(tokens.issue("job/" + to_string(record.id), epoch)));
  return env;
}

}  // namespace

bool JobCore::is_shard_host(std::size_t index) const {
  return record_.role_of(index).program == RoleProgram::kShardHost;
}

bool JobCore::is_worker(std::size_t index) const { return record_.index.trains(index); }

PrepareTask JobCore::prepare_of(std::size_t index) const {
  const PlacedTask& placed = record_.tasks[index];
  const RoleSpec& role = record_.role_of(index);
  const JobSpec& spec = *record_.spec;
  PrepareTask message;
  message.task = placed.task;
  message.epoch = epoch();
  message.job_name = spec.name;
  message.owner = spec.owner;
  message.program = role.program;
  message.argv = role.argv;
  if (spec.env_policy == EnvPolicy::kInherit) message.env = spec.submit_env;
  message.env.insert(message.env.end(), role.env.begin(), role.env.end());
  message.cwd = role.cwd.empty() ? spec.cwd : role.cwd;
  message.cwd_required = !role.cwd.empty();
  message.resources = role.resources;
  message.slot = placed.slot;
  message.token = tokens_.issue(task_purpose(placed.task), epoch());
  message.world = world_of(index);
  if (const auto commit = record_.commits.find(role.name);
      commit != record_.commits.end() && commit->second.generation < record_.generation) {
    message.commit_number = commit->second.number;
    message.commit_tag = commit->second.tag;
  }
  message.inputs = spec.inputs;
  message.time_limit = spec.time_limit;
  if (role.time_limit > Duration::zero())
    message.time_limit = spec.time_limit > Duration::zero()
                             ? std::min(spec.time_limit, role.time_limit)
                             : role.time_limit;
  message.rlimits = role.rlimits;
  message.grace = spec.grace;
  message.ready = role.ready;
  message.outputs = outputs_of(record_, index);
  if (gang_of_one()) {
    message.start_at_once = true;
    const EnvList rendezvous = start_env(record_, index, tokens_, epoch());
    message.env.insert(message.env.end(), rendezvous.begin(), rendezvous.end());
    message.files = files_of(record_, index);
  }
  return message;
}

StartTask JobCore::start_of(std::size_t index) const {
  StartTask message;
  message.task = record_.tasks[index].task;
  message.epoch = epoch();
  message.env = start_env(record_, index, tokens_, epoch());
  message.files = files_of(record_, index);
  message.ps = ps_view();
  return message;
}

/// The view of the parameters: shards by rank over the shard-host roles in order. The token goes to
/// the shards too, which get it before they are ready: then `shards` holds those that are.
const ps::PsView& JobCore::ps_view() const {
  if (ps_view_) return *ps_view_;
  ps::PsView& view = ps_view_.emplace();
  std::uint32_t shards = 0;
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (!is_shard_host(i)) {
      if (is_worker(i)) ++view.workers;
      continue;
    }
    ps::ShardEndpoint endpoint;
    endpoint.shard = ShardId{shards++};
    endpoint.tcp = tasks_[i].ready.tcp;
    endpoint.ipc = tasks_[i].ready.ipc;
    endpoint.node = node_of(i);
    view.shards.push_back(std::move(endpoint));
  }
  if (shards == 0) return *ps_view_ = {};
  view.map.epoch = epoch();
  view.map.owner.resize(ps::kSlots);
  for (std::uint32_t slot = 0; slot < ps::kSlots; ++slot)
    view.map.owner[slot] = ShardId{slot * shards / ps::kSlots};  // as SlotMap::even
  view.token = tokens_.issue("ps/" + to_string(record_.id), epoch());
  return *ps_view_;
}

void JobCore::send_command(std::size_t index, Now) {
  const Task& task = tasks_[index];
  switch (task.want) {
    case Want::kNothing:
      return;
    case Want::kPrepared:
      send(index, prepare_of(index));
      return;
    case Want::kStarted:
      // Once seen running, only StartTask asks: an agent that lost the task says so, and does not
      // run it again.
      if (gang_of_one() && !record_.running_seen && task.state < TaskState::kPrepared)
        send(index, prepare_of(index));
      else
        send(index, start_of(index));
      return;
    case Want::kEnded:
      send(index, StopTask{record_.tasks[index].task, epoch(), task.grace, task.stop_cause});
      return;
  }
}

void JobCore::send(std::size_t index, ToAgent message) {
  out_.push_back(SendToAgent{node_of(index), std::move(message)});
}

void JobCore::send_after_durable(std::size_t index, ToAgent message) {
  gate_.stage({record_.id, false, {}, {SendToAgent{node_of(index), std::move(message)}}, {}});
}

JobView JobCore::view() const {
  JobView view;
  view.id = record_.id;
  view.state = state_;
  view.generation = record_.generation;
  view.epoch = record_.epoch;
  view.submitted = record_.submitted;
  view.started = record_.started;
  view.reason = record_.reason;
  view.progress_text = progress_text_;
  if (record_.first_failed) {
    view.first_failed = record_.tasks[*record_.first_failed].task;
    view.end = record_.ends.at(*record_.first_failed).end;
  }
  double sum = 0;
  int reported = 0;
  view.tasks.reserve(tasks_.size());
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    const PlacedTask& placed = record_.tasks[i];
    const Task& task = tasks_[i];
    TaskView line;
    line.task = placed.task;
    line.node = placed.slot.node;
    line.state = task.want == Want::kEnded && task.state < TaskState::kEnded ? TaskState::kStopping
                                                                             : task.state;
    line.pid = task.pid;
    line.ports = placed.slot.ports;
    line.progress = task.progress;
    line.started = task.started;
    if (const auto it = record_.ends.find(i); it != record_.ends.end()) {
      line.end = it->second.end;
      line.ended = it->second.at;
    }
    if (task.progress >= 0) {
      sum += task.progress;
      ++reported;
    }
    view.tasks.push_back(std::move(line));
  }
  if (reported > 0) view.progress = sum / reported;
  return view;
}

}  // namespace dlrun::cluster

// What CoordinatorCore answers to REST.

#include <algorithm>
#include <map>

#include "runtime/cluster/core/coordinator_core.h"

namespace dlrun::cluster {
namespace {

/// "; main waits for web to be ready (0 of 1 are)": of the first role that waits.
std::string waits_for_roles(const JobSpec& spec, const std::vector<TaskView>& tasks) {
  struct Count {
    TaskState from = TaskState::kRunning;  ///< it is ready
    std::size_t ready = 0, all = 0;
  };
  std::map<std::string_view, Count> roles;
  for (const RoleSpec& role : spec.roles)
    if (role.program == RoleProgram::kShardHost || role.ready != ReadyWhen::kRunning)
      roles[role.name].from = TaskState::kReady;
  for (const TaskView& task : tasks) {
    Count& count = roles[task.task.role];
    ++count.all;
    count.ready += task.state >= count.from ? 1 : 0;
  }
  for (const RoleSpec& role : spec.roles)
    for (const std::string& name : role.after) {
      const auto& [from, ready, all] = roles[name];
      if (ready < all)
        return "; " + role.name + " waits for " + name + " to be ready (" + std::to_string(ready) +
               " of " + std::to_string(all) + (all == 1 ? " is)" : " are)");
    }
  return "";
}

}  // namespace

CoordinatorEffects CoordinatorCore::on_call(std::uint64_t id, const ApiCall& request, Now now) {
  if (phase_ < Phase::kReconciling && !std::holds_alternative<GetHealth>(request))
    refuse(id, Errc::kUnavailable, "the coordinator is starting: try again");
  else
    std::visit([&](const auto& r) { call(id, r, now); }, request);
  return flush(now);
}

void CoordinatorCore::call(std::uint64_t id, const SubmitJob& request, Now now) {
  if (const Status valid = validate(request.spec, settings_.limits); !valid)
    return refuse(id, valid.error().code, valid.error().context);
  const std::string key =
      request.idempotency_key.empty() ? "" : request.spec.owner + "\n" + request.idempotency_key;
  const std::uint64_t print = fingerprint(request.spec);
  const Result<ApiReply> store_refused = fail(Errc::kResourceExhausted, "the store refused");
  if (const auto seen = keys_.find(key); !key.empty() && seen != keys_.end()) {
    if (seen->second.fingerprint != print)
      return refuse(
          id, Errc::kAlreadyExists,
          "this Idempotency-Key submitted " + to_string(seen->second.job) + " with another spec");
    return stage(seen->second.job, {}, {ReplyApi{id, ApiReply{SubmitAck{seen->second.job, true}}}},
                 false, {ReplyApi{id, store_refused}});
  }
  if (gate_.failing())
    return refuse(id, Errc::kResourceExhausted,
                  "no new job is taken: the store refuses: " + store_refuses_.value_or(""));
  if (jobs_.size() >= settings_.jobs_live_max)
    return refuse(
        id, Errc::kOverloaded,
        std::to_string(jobs_.size()) + " jobs are queued or running: wait until some have ended");
  last_job_ = JobId{last_job_.value + 1};
  const JobId job_id = last_job_;
  JobSubmitted event{job_id, request.spec, key, print, now.wall};
  auto spec = std::make_shared<const JobSpec>(request.spec);
  LiveJob& job = jobs_[job_id];
  job.spec = spec;
  job.submitted = job.queued = now.at;
  job.held = job.spec->hold;
  if (job.held) job.view.state = JobState::kHeld;
  job.view.id = job_id;
  job.view.generation = job.generation;
  job.view.submitted = now.wall;
  if (!key.empty()) remember_key({key, job_id, print});
  JobRecord record(event, std::move(spec));
  const ReplyApi answer{id, ApiReply{SubmitAck{job_id, false}}};
  if (settings_.bugs.has("submit_acked_before_durable")) {
    out_.push_back(answer);
    stage(job_id, {std::move(event)}, {StartJob{std::move(record), false}}, true, {});
  } else {
    stage(job_id, {std::move(event)}, {answer, StartJob{std::move(record), false}}, true,
          {ReplyApi{id, store_refused}});
  }
  if (!job.held) queue_gang(job_id, job);
  place_ready(now);
}

CoordinatorCore::LiveJob* CoordinatorCore::find_live(std::uint64_t id, JobId job) {
  const auto it = jobs_.find(job);
  if (it != jobs_.end() && it->second.durable) return &it->second;
  for (const JobView& view : finished_)
    if (view.id == job) {
      refuse(id, Errc::kFailedPrecondition,
             to_string(job) + " has already ended: " + std::string(to_string(view.state)));
      return nullptr;
    }
  if (job.value >= 1 && job <= last_job_)
    refuse(id, Errc::kFailedPrecondition, to_string(job) + " has already ended");
  else
    refuse(id, Errc::kNotFound, "no job " + to_string(job));
  return nullptr;
}

void CoordinatorCore::call(std::uint64_t id, const HoldJob& request, Now now) {
  LiveJob* job = find_live(id, request.job);
  if (job == nullptr) return;
  const std::string name = to_string(request.job);
  if (request.hold && job->epoch != Epoch{})
    return refuse(id, Errc::kFailedPrecondition,
                  name + " has its place already; requeue it with hold to take it back");
  if (job->kill_requested) return refuse(id, Errc::kFailedPrecondition, name + " is being killed");
  if (!request.hold && !job->held)
    return refuse(id, Errc::kFailedPrecondition,
                  name + " is not held: it is " + std::string(to_string(job->view.state)));
  if (job->held == request.hold) return stage(request.job, {}, {ReplyApi{id, ApiReply{JobAck{}}}});
  job->held = request.hold;
  job->held_why = request.reason;
  if (request.hold) {
    placer_.release(request.job);
    job->needs_placement = false;
  }
  const JobHeld held{request.job, request.hold, request.reason, now.wall};
  stage(request.job, {held}, {ToJob{request.job, Hold{held}}, ReplyApi{id, ApiReply{JobAck{}}}});
  if (request.hold || job->epoch != Epoch{}) return;
  job->queued = now.at;
  queue_gang(request.job, *job);
  place_ready(now);
}

void CoordinatorCore::call(std::uint64_t id, const RequeueJob& request, Now now) {
  LiveJob* job = find_live(id, request.job);
  if (job == nullptr) return;
  if (job->epoch == Epoch{} || job->kill_requested)
    return refuse(id, Errc::kFailedPrecondition,
                  to_string(request.job) +
                      (job->kill_requested ? " is being killed" : " has no place to give up"));
  const std::string reason = request.reason.empty() ? "requeued by a user" : request.reason;
  std::vector<Event> events;
  Out then;
  if (request.hold && !job->held) {
    job->held = true;
    job->held_why = reason;
    const JobHeld held{request.job, true, reason, now.wall};
    events.emplace_back(held);
    then.emplace_back(ToJob{request.job, Hold{held}});
  }
  const JobStateChanged stopping{request.job,       job->generation, JobState::kStopping,
                                 Cause::kPreempted, reason,          now.wall};
  events.emplace_back(stopping);
  then.emplace_back(ToJob{request.job, Preempt{stopping}});
  then.emplace_back(ReplyApi{id, ApiReply{JobAck{}}});
  stage(request.job, std::move(events), std::move(then));
}

void CoordinatorCore::call(std::uint64_t id, const KillJob& request, Now now) {
  LiveJob* job = find_live(id, request.job);
  if (job == nullptr) return;
  KillAck ack;
  if (job->view.state == JobState::kCommitting)
    ack.note =
        "it is done and its outputs take their places: it is SUCCEEDED when they are there "
        "within " +
        std::to_string(job->spec->grace / std::chrono::seconds(1)) + " s, else CANCELLED";
  const ReplyApi answer{id, ApiReply{std::move(ack)}};
  if (job->kill_requested) return stage(request.job, {}, {answer});
  job->kill_requested = true;
  if (job->epoch == Epoch{}) placer_.release(request.job);  // it shall not be placed any more
  job->needs_placement = false;
  JobKillRequested kill{request.job, request.reason, now.wall};
  stage(request.job, {kill}, {ToJob{request.job, Kill{kill}}, answer});
}

void CoordinatorCore::call(std::uint64_t id, const GetJob& request, Now) {
  if (const auto it = jobs_.find(request.job); it != jobs_.end() && it->second.durable) {
    JobView view = full_view(it->second);
    const bool waits = it->second.epoch == Epoch{} && !it->second.kill_requested;
    if (waits &&
        (view.state == JobState::kPending || view.state == JobState::kHeld || view.reason.empty()))
      view.reason = why_pending(request.job, it->second);
    return reply(id, ApiReply{std::move(view)});
  }
  for (const JobView& view : finished_)
    if (view.id == request.job) return reply(id, ApiReply{view});
  if (request.job.value >= 1 && request.job <= last_job_) {
    out_.push_back(ReadJob{id, request.job});
    return;
  }
  refuse(id, Errc::kNotFound, "no job " + to_string(request.job));
}

void CoordinatorCore::call(std::uint64_t id, const ListJobs& request, Now) {
  ReadJobs read{id, request, {}};
  for (auto it = jobs_.rbegin(); it != jobs_.rend() && read.live.size() < request.limit; ++it) {
    const LiveJob& job = it->second;
    if (!job.durable) continue;
    if (request.before.value != 0 && it->first >= request.before) continue;
    if (request.state && job.view.state != *request.state) continue;
    if (!request.owner.empty() && job.spec->owner != request.owner) continue;
    read.live.push_back(full_view(job));
    read.live.back().tasks.clear();
  }
  out_.push_back(std::move(read));
}

void CoordinatorCore::call(std::uint64_t id, const ListNodes&, Now) {
  NodeList list;
  for (const auto& [node_id, node] : membership_.nodes()) {
    NodeView view{node_id,       node.state, node.incarnation,    node.address, node.version,
                  node.capacity, {},         node.last_heard_wall};
    if (node.state != NodeState::kLost) view.used = placer_.usage(node_id);
    list.nodes.push_back(std::move(view));
  }
  reply(id, ApiReply{std::move(list)});
}

void CoordinatorCore::call(std::uint64_t id, const WhyJob& request, Now) {
  const auto it = jobs_.find(request.job);
  if (it == jobs_.end() || !it->second.durable) {
    for (const JobView& view : finished_)
      if (view.id == request.job)
        return reply(
            id, ApiReply{WhyAnswer{request.job,
                                   view.state,
                                   "has ended" + (view.reason.empty() ? "" : ": " + view.reason),
                                   {}}});
    if (request.job.value >= 1 && request.job <= last_job_)
      return refuse(id, Errc::kFailedPrecondition, to_string(request.job) + " has already ended");
    return refuse(id, Errc::kNotFound, "no job " + to_string(request.job));
  }
  const LiveJob& job = it->second;
  WhyAnswer answer{request.job, job.view.state, "", {}};
  if (job.epoch != Epoch{}) {
    answer.summary =
        "it is placed: " + std::string(to_string(job.view.state)) +
        (job.view.state == JobState::kStarting ? waits_for_roles(*job.spec, job.view.tasks)
                                               : std::string());
  } else {
    answer.summary = why_pending(request.job, job);
    if (!job.needs_placement && !job.held) answer.lines = placer_.why(request.job);
  }
  reply(id, ApiReply{std::move(answer)});
}

void CoordinatorCore::call(std::uint64_t id, const ListEvents& request, Now) {
  out_.push_back(ReadEvents{id, request});
}

void CoordinatorCore::call(std::uint64_t id, const GetHealth&, Now now) {
  Health health;
  health.term = term_;
  health.reconciling = phase_ != Phase::kServing;
  for (const auto& [node_id, node] : membership_.nodes()) ++health.nodes_by_state[node.state];
  health.nodes_up = health.nodes_by_state[NodeState::kUp];
  for (const auto& [job_id, job] : jobs_) {
    ++(job.epoch == Epoch{} ? health.jobs_pending : health.jobs_running);
    ++health.jobs_by_state[job.view.state];
    if (job.epoch == Epoch{} && !job.held)
      health.oldest_wait = std::max(health.oldest_wait, now.at - job.queued);
  }
  health.jobs_finished = jobs_finished_;
  health.ended_by_state = ended_by_state_;
  health.version = settings_.version;
  reply(id, ApiReply{std::move(health)});
}

void CoordinatorCore::call(std::uint64_t id, const ExpelNode& request, Now now) {
  if (const auto change = membership_.expel(request.node, request.reason)) {
    node_changed(*change, now);
    place_ready(now);
  }
  reply(id, ApiReply{ExpelAck{}});
}

JobView CoordinatorCore::full_view(const LiveJob& job) const {
  JobView view = job.view;
  view.spec = *job.spec;
  return view;
}

std::string CoordinatorCore::why_pending(JobId id, const LiveJob& job) const {
  if (phase_ != Phase::kServing)
    return "waits until the nodes have reported after the coordinator's restart";
  if (job.epoch != Epoch{}) return "";
  if (job.held)
    return "is held" + (job.held_why.empty() ? "" : " (" + job.held_why + ")") +
           ": it waits for dlrun release";
  if (membership_.nodes().empty()) return "no node has joined yet";
  if (const auto why = placer_.impossible(gang(id, job))) return *why;
  const auto lines = placer_.why(id);
  return lines.empty() ? "waits for its turn" : lines.front().detail;
}

}  // namespace dlrun::cluster

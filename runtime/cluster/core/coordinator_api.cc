// What CoordinatorCore answers to REST.

#include <algorithm>

#include "runtime/cluster/core/coordinator_core.h"

namespace dlrun::cluster {

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
  job.submitted = now.at;
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
  queue_gang(job_id, job, now);
  place_ready(now);
}

void CoordinatorCore::call(std::uint64_t id, const KillJob& request, Now now) {
  const auto it = jobs_.find(request.job);
  if (it == jobs_.end() || !it->second.durable) {
    for (const JobView& view : finished_)
      if (view.id == request.job)
        return refuse(
            id, Errc::kFailedPrecondition,
            to_string(request.job) + " has already ended: " + std::string(to_string(view.state)));
    if (request.job.value >= 1 && request.job <= last_job_)
      return refuse(id, Errc::kFailedPrecondition, to_string(request.job) + " has already ended");
    return refuse(id, Errc::kNotFound, "no job " + to_string(request.job));
  }
  if (it->second.kill_requested) return stage(request.job, {}, {ReplyApi{id, ApiReply{KillAck{}}}});
  it->second.kill_requested = true;
  if (it->second.epoch == Epoch{}) placer_.release(request.job);  // it shall not be placed any more
  it->second.needs_placement = false;
  JobKillRequested kill{request.job, request.reason, now.wall};
  stage(request.job, {kill}, {ToJob{request.job, Kill{kill}}, ReplyApi{id, ApiReply{KillAck{}}}});
}

void CoordinatorCore::call(std::uint64_t id, const GetJob& request, Now) {
  if (const auto it = jobs_.find(request.job); it != jobs_.end() && it->second.durable) {
    JobView view = full_view(it->second);
    if (view.state == JobState::kPending && view.reason.empty())
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
        return reply(id,
                     ApiReply{WhyAnswer{request.job, view.state, "has ended: " + view.reason, {}}});
    if (request.job.value >= 1 && request.job <= last_job_)
      return refuse(id, Errc::kFailedPrecondition, to_string(request.job) + " has already ended");
    return refuse(id, Errc::kNotFound, "no job " + to_string(request.job));
  }
  const LiveJob& job = it->second;
  WhyAnswer answer{request.job, job.view.state, "", {}};
  if (job.epoch != Epoch{}) {
    answer.summary = "it is placed: " + std::string(to_string(job.view.state));
  } else {
    answer.summary = why_pending(request.job, job);
    if (!job.needs_placement) answer.lines = placer_.why(request.job);
  }
  reply(id, ApiReply{std::move(answer)});
}

void CoordinatorCore::call(std::uint64_t id, const ListEvents& request, Now) {
  out_.push_back(ReadEvents{id, request});
}

void CoordinatorCore::call(std::uint64_t id, const GetHealth&, Now) {
  Health health;
  health.term = term_;
  health.reconciling = phase_ != Phase::kServing;
  for (const auto& [node_id, node] : membership_.nodes())
    if (node.state == NodeState::kUp) ++health.nodes_up;
  for (const auto& [job_id, job] : jobs_)
    ++(job.epoch == Epoch{} ? health.jobs_pending : health.jobs_running);
  health.jobs_finished = jobs_finished_;
  health.version = settings_.version;
  reply(id, ApiReply{std::move(health)});
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
  if (membership_.nodes().empty()) return "no node has joined yet";
  if (const auto why = placer_.impossible(gang(id, job))) return *why;
  const auto lines = placer_.why(id);
  return lines.empty() ? "waits for its turn" : lines.front().detail;
}

}  // namespace dlrun::cluster

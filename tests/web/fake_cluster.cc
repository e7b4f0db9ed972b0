#include "tests/web/fake_cluster.h"

#include <algorithm>

namespace dlrun::test {

FakeControl::FakeControl() : thread_([this] { run(); }) {}

FakeControl::~FakeControl() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FakeControl::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !work_.empty(); });
    if (stop_) return;
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

void FakeControl::call(cluster::ApiCall request, Duration, Reply reply) {
  const std::lock_guard lock(mutex_);
  ++calls_;
  work_.push_back([this, request = std::move(request), reply = std::move(reply)] {
    std::function<std::optional<Result<cluster::ApiReply>>(const cluster::ApiCall&)> hook;
    std::function<void(JobId)> submit_hook, kill_hook;
    {
      const std::lock_guard inner(mutex_);
      hook = hook_;
      submit_hook = submit_hook_;
      kill_hook = kill_hook_;
    }
    if (hook)
      if (auto forced = hook(request)) return reply(std::move(*forced));
    auto result = answer(request);
    const auto* ack = result ? std::get_if<cluster::SubmitAck>(&*result) : nullptr;
    const JobId fresh = ack && !ack->existed ? ack->job : JobId{};
    const bool killed = result && std::holds_alternative<cluster::KillAck>(*result);
    reply(std::move(result));
    if (fresh.value != 0 && submit_hook) submit_hook(fresh);
    if (killed && kill_hook) kill_hook(std::get<cluster::KillJob>(request).job);
  });
  wake_.notify_all();
}

Result<cluster::ApiReply> FakeControl::answer(const cluster::ApiCall& request) {
  JobId changed;
  const auto unknown = [](JobId id) { return fail(Errc::kNotFound, "no job " + to_string(id)); };
  Result<cluster::ApiReply> out = fail(Errc::kInternal, "not answered");
  std::unique_lock lock(mutex_);
  if (const auto* submit = std::get_if<cluster::SubmitJob>(&request)) {
    if (const auto seen = keys_.find(submit->idempotency_key);
        !submit->idempotency_key.empty() && seen != keys_.end())
      return cluster::ApiReply(cluster::SubmitAck{seen->second, true});
    const JobId id{next_job_++};
    cluster::JobView view;
    view.id = id;
    view.spec = submit->spec;
    view.submitted = WallTime{1'700'000'000'000'000'000};
    jobs_[id] = view;
    submitted_.push_back(submit->spec);
    if (!submit->idempotency_key.empty()) keys_[submit->idempotency_key] = id;
    changed = id;
    events_.push_back({.sequence = events_.size() + 1,
                       .at = view.submitted,
                       .job = id,
                       .kind = "job_submitted",
                       .text = "submitted"});
    out = cluster::ApiReply(cluster::SubmitAck{id, false});
  } else if (const auto* kill = std::get_if<cluster::KillJob>(&request)) {
    const auto job = jobs_.find(kill->job);
    if (job == jobs_.end()) return unknown(kill->job);
    if (cluster::is_final(job->second.state))
      return fail(Errc::kFailedPrecondition, to_string(kill->job) + " is over");
    kill_reasons_.push_back(kill->reason);
    out = cluster::ApiReply(cluster::KillAck{});
  } else if (std::holds_alternative<cluster::HoldJob>(request) ||
             std::holds_alternative<cluster::RequeueJob>(request)) {
    const auto* hold = std::get_if<cluster::HoldJob>(&request);
    const JobId id = hold ? hold->job : std::get<cluster::RequeueJob>(request).job;
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) return unknown(id);
    if (cluster::is_final(job->second.state))
      return fail(Errc::kFailedPrecondition, to_string(id) + " is over");
    out = cluster::ApiReply(cluster::JobAck{});
  } else if (const auto* get = std::get_if<cluster::GetJob>(&request)) {
    const auto job = jobs_.find(get->job);
    if (job == jobs_.end()) return unknown(get->job);
    out = cluster::ApiReply(job->second);
  } else if (const auto* list = std::get_if<cluster::ListJobs>(&request)) {
    cluster::JobList reply;
    for (auto job = jobs_.rbegin(); job != jobs_.rend() && reply.jobs.size() < list->limit; ++job) {
      if (list->state && *list->state != job->second.state) continue;
      if (list->before.value != 0 && job->first >= list->before) continue;
      reply.jobs.push_back(job->second);
      reply.jobs.back().tasks.clear();
    }
    out = cluster::ApiReply(std::move(reply));
  } else if (std::holds_alternative<cluster::ExpelNode>(request)) {
    out = cluster::ApiReply(cluster::ExpelAck{});
  } else if (std::holds_alternative<cluster::ListNodes>(request)) {
    out = cluster::ApiReply(cluster::NodeList{nodes_});
  } else if (const auto* why = std::get_if<cluster::WhyJob>(&request)) {
    if (!jobs_.contains(why->job)) return unknown(why->job);
    out = cluster::ApiReply(cluster::WhyAnswer{why->job,
                                               jobs_[why->job].state,
                                               "waits for memory",
                                               {{"memory", 2, 3, "worker/0 needs 64 GiB"}}});
  } else if (const auto* events = std::get_if<cluster::ListEvents>(&request)) {
    cluster::EventList reply;
    for (const auto& event : events_)
      if (event.sequence > events->after && (events->job.value == 0 || events->job == event.job) &&
          reply.events.size() < events->limit)
        reply.events.push_back(event);
    reply.last =
        reply.events.size() < events->limit ? events_.size() : reply.events.back().sequence;
    out = cluster::ApiReply(std::move(reply));
  } else {
    out = cluster::ApiReply(cluster::Health{
        .term = 3, .nodes_up = static_cast<std::uint32_t>(nodes_.size()), .version = "test"});
  }
  lock.unlock();
  if (changed.value != 0) notify(changed);
  return out;
}

void FakeControl::notify(JobId job) {
  std::vector<std::shared_ptr<std::function<void(JobId)>>> due;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : listeners_)
      if (auto listener = weak.lock()) due.push_back(std::move(listener));
  }
  for (const auto& listener : due) (*listener)(job);
}

std::shared_ptr<void> FakeControl::subscribe(std::function<void(JobId)> listener) {
  auto handle = std::make_shared<std::function<void(JobId)>>(std::move(listener));
  const std::lock_guard lock(mutex_);
  listeners_.push_back(handle);
  return handle;
}

void FakeControl::intercept(
    std::function<std::optional<Result<cluster::ApiReply>>(const cluster::ApiCall&)> hook) {
  const std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}
void FakeControl::on_submit(std::function<void(JobId)> hook) {
  const std::lock_guard lock(mutex_);
  submit_hook_ = std::move(hook);
}
void FakeControl::on_kill(std::function<void(JobId)> hook) {
  const std::lock_guard lock(mutex_);
  kill_hook_ = std::move(hook);
}

JobId FakeControl::add(cluster::JobView view) {
  const std::lock_guard lock(mutex_);
  view.id = JobId{next_job_++};
  for (auto& task : view.tasks) task.task.job = view.id;
  jobs_[view.id] = view;
  return view.id;
}

void FakeControl::touch(JobId job, const std::function<void(cluster::JobView&)>& change) {
  {
    const std::lock_guard lock(mutex_);
    change(jobs_.at(job));
  }
  notify(job);
}

void FakeControl::update(JobId job, const std::function<void(cluster::JobView&)>& change,
                         std::string kind) {
  touch(job, change);
  event(job, std::move(kind), "changed");
}

void FakeControl::event(JobId job, std::string kind, std::string text) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back({.sequence = events_.size() + 1,
                       .at = WallTime{1'700'000'000'000'000'000},
                       .job = job,
                       .kind = std::move(kind),
                       .text = std::move(text)});
  }
  notify(job);
}

cluster::JobView FakeControl::job(JobId id) {
  const std::lock_guard lock(mutex_);
  return jobs_.at(id);
}
std::vector<cluster::JobSpec> FakeControl::submitted() {
  const std::lock_guard lock(mutex_);
  return submitted_;
}
std::vector<std::string> FakeControl::kill_reasons() {
  const std::lock_guard lock(mutex_);
  return kill_reasons_;
}
void FakeControl::set_nodes(std::vector<cluster::NodeView> nodes) {
  const std::lock_guard lock(mutex_);
  nodes_ = std::move(nodes);
}
std::size_t FakeControl::calls() {
  const std::lock_guard lock(mutex_);
  return calls_;
}

Result<web::LogSlice> FakeLogs::read(const TaskId& task, web::LogStream stream,
                                     std::uint64_t offset, std::size_t bytes_max) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find({task, stream});
  if (found == streams_.end() || !found->second.known)
    return fail(Errc::kNotFound, "nothing known of this log");
  const Stream& s = found->second;
  web::LogSlice out;
  out.first = s.first;
  out.size = s.bytes.size();
  out.complete = s.complete;
  out.offset = std::max(offset, s.first);
  if (out.offset < s.bytes.size()) out.bytes = s.bytes.substr(out.offset, bytes_max);
  return out;
}

Result<std::vector<web::LogRef>> FakeLogs::list(JobId job) {
  const std::lock_guard lock(mutex_);
  std::vector<web::LogRef> out;
  for (const auto& [ref, stream] : streams_)
    if (ref.task.job == job && stream.known) out.push_back(ref);
  return out;
}

std::shared_ptr<void> FakeLogs::follow(const TaskId& task, web::LogStream stream,
                                       std::function<void()> listener) {
  auto handle = std::make_shared<std::function<void()>>(std::move(listener));
  const std::lock_guard lock(mutex_);
  streams_[{task, stream}].listeners.push_back(handle);
  return handle;
}

void FakeLogs::notify(const web::LogRef& ref) {
  std::vector<std::shared_ptr<std::function<void()>>> due;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : streams_[ref].listeners)
      if (auto listener = weak.lock()) due.push_back(std::move(listener));
  }
  for (const auto& listener : due) (*listener)();
}

void FakeLogs::append(const web::LogRef& ref, std::string_view bytes) {
  {
    const std::lock_guard lock(mutex_);
    streams_[ref].known = true;
    streams_[ref].bytes.append(bytes);
  }
  notify(ref);
}

void FakeLogs::complete(const web::LogRef& ref) {
  {
    const std::lock_guard lock(mutex_);
    streams_[ref].known = true;
    streams_[ref].complete = true;
  }
  notify(ref);
}

void FakeLogs::drop_before(const web::LogRef& ref, std::uint64_t first) {
  const std::lock_guard lock(mutex_);
  streams_[ref].first = first;
}

cluster::JobView running_job(std::uint32_t count) {
  cluster::JobView view;
  view.spec.name = "test";
  view.spec.owner = "someone";
  view.spec.roles.push_back(
      {.name = "worker", .count_min = count, .count_max = count, .argv = {"true"}});
  view.state = cluster::JobState::kRunning;
  view.generation = Generation{1};
  view.epoch = Epoch{1, 2};
  view.submitted = view.started = WallTime{1'700'000'000'000'000'000};
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    cluster::TaskView task;
    task.task = {.job = {}, .role = "worker", .rank = rank, .generation = Generation{1}};
    task.node = NodeId{"node-" + std::to_string(rank % 2)};
    task.state = cluster::TaskState::kRunning;
    task.pid = 100 + rank;
    task.started = view.started;
    view.tasks.push_back(task);
  }
  return view;
}

void end_job(cluster::JobView& view, int code) {
  view.end = {.cause = cluster::Cause::kExit, .code = code};
  view.state = code == 0 ? cluster::JobState::kSucceeded : cluster::JobState::kFailed;
  view.exit_code = code;
  view.ended = WallTime{1'700'000'001'000'000'000};
  for (auto& task : view.tasks) {
    task.state = cluster::TaskState::kEnded;
    task.end = view.end;
    task.ended = view.ended;
  }
  if (code != 0 && !view.tasks.empty()) {
    view.first_failed = view.tasks[0].task;
    view.reason = "worker/0 exited with " + std::to_string(code);
  }
}

}  // namespace dlrun::test

#include "runtime/sim/checker.h"

#include "runtime/cluster/core/job_record.h"

namespace dlrun::sim {

using namespace dlrun::cluster;

void Checker::violated(std::string what) {
  if (!violation_) violation_ = std::move(what);
}

void Checker::check_current(JobId id, Generation generation, const char* what) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || it->second.generation != generation || it->second.generation_over)
    violated(std::string(what) + " of generation " + std::to_string(generation.value) + " of " +
             to_string(id) + " was accepted after it was over");
}

void Checker::on_durable(const Event& event) {
  if (const auto* e = std::get_if<TermStarted>(&event)) {
    if (e->term <= term_) violated("term " + std::to_string(e->term) + " was claimed twice");
    term_ = e->term;
  } else if (const auto* e = std::get_if<JobSubmitted>(&event)) {
    if (!jobs_.try_emplace(e->job).second) violated(to_string(e->job) + " was submitted twice");
    jobs_[e->job].spec = e->spec;
  } else if (const auto* e = std::get_if<JobPlaced>(&event)) {
    on_placed(*e);
  } else if (const auto* e = std::get_if<JobStateChanged>(&event)) {
    check_current(e->job, e->generation, "a state");
    jobs_[e->job].running = e->state == JobState::kRunning;
    if (e->state == JobState::kStopping) jobs_[e->job].decided = true;
  } else if (const auto* e = std::get_if<JobKillRequested>(&event)) {
    jobs_[e->job].kill_requested = true;
  } else if (const auto* e = std::get_if<TaskEnded>(&event)) {
    on_task_ended(*e);
  } else if (const auto* e = std::get_if<GenerationEnded>(&event)) {
    check_current(e->job, e->generation, "the end of a generation");
    Job& job = jobs_[e->job];
    if (job.ends.size() != job.tasks.size())
      violated("generation " + std::to_string(e->generation.value) + " of " + to_string(e->job) +
               " ended before its tasks");
    if (job.first_failed && !job.kill_requested && !starts_again(job))
      violated(to_string(e->job) + " starts again after " + to_string(job.first_failed->task) +
               " ended first by " + std::string(to_string(job.first_failed->end.cause)));
    job.generation_over = true;
    for (const PlacedTask& task : job.tasks) give_back(job, task);
  } else if (const auto* e = std::get_if<JobEnded>(&event)) {
    on_job_ended(jobs_[e->view.id], e->view);
  } else if (const auto* e = std::get_if<SplitsLeased>(&event)) {
    check_current(e->consumer.job, e->consumer.generation, "a lease");
  } else if (const auto* e = std::get_if<CommitGranted>(&event)) {
    check_current(e->job, e->generation, "a commit");
    jobs_[e->job].commit_granted = true;
  } else if (const auto* e = std::get_if<BarrierMet>(&event)) {
    check_current(e->job, e->generation, "a barrier");
  } else if (const auto* e = std::get_if<InputFilesSet>(&event)) {
    check_current(e->job, e->generation, "a file table");
    for (const io::InputSpec& input : jobs_[e->job].spec.inputs) {
      if (input.name != e->input) continue;
      std::uint64_t splits = 0;
      for (const io::FileEntry& file : e->files)
        splits += (file.size_bytes + input.split_bytes - 1) / input.split_bytes;
      inputs_.on_splits({e->job, e->generation}, input, splits);
    }
  } else if (const auto* e = std::get_if<InputsCommitted>(&event)) {
    check_current(e->job, e->generation, "a commit of inputs");
    std::set<TaskId> ranks;
    for (const InputsCommitted::Entered& entered : e->ranks)
      ranks.insert({e->job, e->role, entered.rank, e->generation});
    for (const io::LedgerState& state : e->inputs)
      for (const io::InputSpec& input : jobs_[e->job].spec.inputs)
        if (input.name == state.input && inputs_.opened({e->job, e->generation}, input.name))
          inputs_.on_committed({e->job, e->generation}, ranks, input, state);
  }
}

bool Checker::starts_again(const Job& job) {
  const std::vector<Cause>* on = &job.spec.restart.on;
  const RoleSpec* role = role_of(job, job.first_failed->task);
  if (role != nullptr && role->restart_on) on = &*role->restart_on;
  bool wanted = false;
  for (const Cause cause : *on) wanted = wanted || cause == job.first_failed->end.cause;
  return wanted && job.generation.value <= job.spec.restart.restarts_max;
}

const RoleSpec* Checker::role_of(const Job& job, const TaskId& task) {
  for (const RoleSpec& role : job.spec.roles)
    if (role.name == task.role) return &role;
  return nullptr;
}

bool Checker::finishes(const Job& job, const TaskId& task) {
  const RoleSpec* role = role_of(job, task);
  return role != nullptr && cluster::finishes(job.spec, *role);
}

bool Checker::trains(const Job& job, const TaskId& task) {
  const RoleSpec* role = role_of(job, task);
  return role != nullptr && cluster::trains(job.spec, *role);
}

std::int64_t Checker::cpu_of(const Job& job, const TaskId& task) {
  const RoleSpec* role = role_of(job, task);
  return role == nullptr ? 0 : role->resources.cpu_milli;
}

void Checker::on_placed(const JobPlaced& placed) {
  Job& job = jobs_[placed.job];
  if (job.final_view) return;  // it was cancelled while it was being placed
  if (!epochs_.insert(placed.epoch).second)
    violated("epoch " + to_string(placed.epoch) + " was given twice");
  if (placed.epoch <= job.epoch)
    violated(to_string(placed.job) + " went back to epoch " + to_string(placed.epoch));
  job.epoch = placed.epoch;
  job.generation = placed.generation;
  job.tasks = placed.tasks;
  job.ends.clear();
  job.generation_over = job.running = job.commit_granted = job.published = false;
  job.lost_shard.reset();
  job.decided = job.kill_requested;
  job.first_failed.reset();
  job.workers_left = 0;
  std::vector<ps::WorkerId> workers;
  for (const PlacedTask& task : placed.tasks) {
    if (finishes(job, task.task)) ++job.workers_left;
    if (trains(job, task.task)) workers.push_back(ps::worker_id(task.task));
    leased_.insert(task.task);
    const NodeId& node = task.slot.node;
    for (std::uint16_t port : task.slot.ports) {
      const auto [it, fresh] = port_leases_.emplace(std::make_pair(node, port), task.task);
      if (!fresh)
        violated("port " + std::to_string(port) + " of " + node.value + " was leased to " +
                 to_string(task.task) + " while " + to_string(it->second) + " has it");
    }
    cpu_leases_[node] += cpu_of(job, task.task);
    if (cpu_leases_[node] > capacity_[node])
      violated("more than the CPUs of " + node.value + " were leased");
  }
  ps_.on_generation({placed.job, placed.generation}, std::move(workers));
}

void Checker::give_back(const Job& job, const PlacedTask& task) {
  if (leased_.erase(task.task) == 0) return;
  for (std::uint16_t port : task.slot.ports) port_leases_.erase({task.slot.node, port});
  cpu_leases_[task.slot.node] -= cpu_of(job, task.task);
}

void Checker::on_task_ended(const TaskEnded& ended) {
  check_current(ended.task.job, ended.task.generation, "an end");
  Job& job = jobs_[ended.task.job];
  if (job.epoch != ended.epoch)
    violated("the end of " + to_string(ended.task) + " under another epoch was accepted");
  if (!job.ends.emplace(ended.task, ended.end).second)
    violated(to_string(ended.task) + " ended twice");
  if (ended.end.cause == Cause::kExit) {
    const auto real = process_ends_.find(ended.task);
    if (real == process_ends_.end() || !(real->second == ended.end))
      violated("the recorded end of " + to_string(ended.task) + " is not what happened");
  }
  for (const PlacedTask& task : job.tasks)
    if (task.task == ended.task) give_back(job, task);
  if (!job.decided && (!finishes(job, ended.task) || !ended.end.ok())) job.first_failed = ended;
  job.decided =
      job.decided || job.first_failed || (finishes(job, ended.task) && job.workers_left == 1);
  if (finishes(job, ended.task)) {
    --job.workers_left;
  } else if (job.workers_left > 0 && !job.lost_shard) {
    job.lost_shard = ended.task;
    ++shards_lost_;
  }
  ps_.on_worker_over(ended.task);
}

void Checker::on_job_ended(Job& job, const JobView& view) {
  if (job.final_view) violated(to_string(view.id) + " ended twice");
  if (!is_final(view.state)) violated(to_string(view.id) + " ended in a state that is not final");
  if (!job.generation_over && job.ends.size() != job.tasks.size())
    violated(to_string(view.id) + " ended before its tasks");
  job.final_view = view;
  if (view.state == JobState::kSucceeded) {
    for (const PlacedTask& placed : job.tasks) {
      const auto end = process_ends_.find(placed.task);
      if (finishes(job, placed.task) && (end == process_ends_.end() || !end->second.ok()))
        violated(to_string(view.id) + " succeeded though " + to_string(placed.task) + " did not");
    }
    inputs_.on_succeeded({view.id, job.generation});
    if (!job.spec.outputs.empty() && !job.published)
      violated(to_string(view.id) + " succeeded and its outputs are not published");
    if (job.lost_shard)
      violated(to_string(view.id) + " succeeded though " + to_string(*job.lost_shard) +
               " was lost under its workers");
    if (view.exit_code != 0) violated(to_string(view.id) + " succeeded with an exit code");
  } else if (view.exit_code == 0) {
    violated(to_string(view.id) + " did not succeed but exits with 0");
  } else if (job.lost_shard && view.reason.empty() && !view.first_failed) {
    violated(to_string(view.id) + " lost " + to_string(*job.lost_shard) + " and does not say so");
  }
  if (job.first_failed && !job.generation_over && !job.kill_requested && starts_again(job))
    violated(to_string(view.id) + " ended though " + to_string(job.first_failed->task) +
             " failed by " + std::string(to_string(job.first_failed->end.cause)) +
             " and a restart was left");
  for (const PlacedTask& task : job.tasks) give_back(job, task);
}

void Checker::on_spawn(const PrepareTask& prepare) {
  const TaskId& task = prepare.task;
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end() || epochs_.count(prepare.epoch) == 0)
    violated(to_string(task) + " runs though its placement is not durable");
  else if (job->second.epoch == prepare.epoch)
    for (const PlacedTask& other : job->second.tasks)
      if (prepared_.count({other.task, prepare.epoch}) == 0)
        violated(to_string(task) + " runs before " + to_string(other.task) + " is prepared");
  if (!spawned_.insert({task, prepare.epoch}).second) violated(to_string(task) + " ran twice");
  const NodeId& node = prepare.slot.node;
  for (std::uint16_t port : prepare.slot.ports) {
    const auto [it, free] = ports_.emplace(std::make_pair(node, port), task);
    if (!free)
      violated("port " + std::to_string(port) + " of " + node.value + " is held by " +
               to_string(it->second) + " and " + to_string(task));
  }
  cpu_[node] += prepare.resources.cpu_milli;
  if (cpu_[node] > capacity_[node]) violated(node.value + " runs more than its CPUs");
  running_[task] = {prepare.epoch, node, prepare.slot.ports, prepare.resources.cpu_milli};
}

void Checker::on_process_end(const TaskId& task, const TaskEnd& end) {
  const auto it = running_.find(task);
  if (it == running_.end()) return;
  for (std::uint16_t port : it->second.ports) ports_.erase({it->second.node, port});
  cpu_[it->second.node] -= it->second.cpu_milli;
  running_.erase(it);
  process_ends_[task] = end;
  ps_.on_worker_over(task);
  inputs_.on_reader_over(task, end.ok());
}

void Checker::on_cleaned(const TaskId& task, Epoch epoch) {
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end() || job->second.epoch != epoch || job->second.final_view) return;
  if (job->second.ends.count(task) == 0 && !job->second.generation_over)
    violated("the end of " + to_string(task) + " was acknowledged before it was durable");
}

void Checker::on_submit_acked(const std::string& key, JobId job) {
  if (jobs_.count(job) == 0)
    violated("the submit of " + to_string(job) + " was acknowledged before it was durable");
  const auto [it, fresh] = keys_.emplace(key, job);
  if (!fresh && it->second != job)
    violated("one key made " + to_string(it->second) + " and " + to_string(job));
  acked_.insert(job);
}

void Checker::on_barrier_entered(const TaskId& task, const std::string& name, std::uint64_t round) {
  entered_[{task, name}] = round;
}

void Checker::on_barrier_passed(const TaskId& task, const std::string& name, std::uint64_t round) {
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end() || job->second.generation != task.generation) return;
  for (const PlacedTask& other : job->second.tasks) {
    if (other.task.role != task.role || running_.count(other.task) == 0) continue;
    const auto it = entered_.find({other.task, name});
    if (it == entered_.end() || it->second < round)
      violated(to_string(task) + " passed barrier " + name + " round " + std::to_string(round) +
               " before " + to_string(other.task) + " was there");
  }
}

/// 30 s by the coordinator's clock, which may be 2 % fast.
void Checker::on_declared_lost(const NodeId& node) {
  const auto heard = heard_.find(node);
  if (heard != heard_.end() && loop_.now() - heard->second < std::chrono::seconds(29))
    violated(node.value + " was declared lost " +
             std::to_string((loop_.now() - heard->second) / std::chrono::milliseconds(1)) +
             " ms after it was heard");
}

void Checker::on_published(const TaskId& task, Epoch epoch) {
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end() || job->second.epoch != epoch || !job->second.commit_granted)
    return violated("an output of " + to_string(task) + " was published under " + to_string(epoch) +
                    " without a grant");
  job->second.published = true;
}

void Checker::on_lease_answered(const TaskId& task, Epoch epoch) {
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end() || job->second.epoch != epoch || job->second.generation_over ||
      job->second.final_view)
    violated("a lease of " + to_string(task) + " under epoch " + to_string(epoch) +
             " was granted after it was over");
  else if (job->second.ends.count(task) != 0)
    violated("a lease was granted to " + to_string(task) + " though its end is durable");
}

Checker::Tasks Checker::in_force(bool running) const {
  Tasks tasks;
  for (const auto& [id, job] : jobs_)
    if ((job.running || !running) && !job.generation_over && !job.final_view)
      for (const PlacedTask& task : job.tasks)
        if (job.ends.count(task.task) == 0) tasks.insert({task.task, job.epoch});
  return tasks;
}

bool Checker::ended(JobId job) const {
  const auto it = jobs_.find(job);
  return it != jobs_.end() && it->second.final_view.has_value();
}

std::size_t Checker::final_states(JobState state) const {
  std::size_t n = 0;
  for (const auto& [id, job] : jobs_)
    if (job.final_view && job.final_view->state == state) ++n;
  return n;
}

}  // namespace dlrun::sim

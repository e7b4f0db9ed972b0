#include "runtime/sim/checker.h"

#include "runtime/cluster/core/job_record.h"

namespace dlrun::sim {

using namespace dlrun::cluster;

namespace {
std::string split_name(const std::string& input, std::uint32_t pass, std::uint64_t split) {
  return input + " " + std::to_string(pass) + " " + std::to_string(split);
}
}  // namespace

void Checker::violated(std::string what) {
  if (!violation_) violation_ = std::move(what);
}

void Checker::check_current(JobId id, Generation generation, const char* what) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end() || it->second.generation != generation || it->second.generation_over)
    violated(std::string(what) + " of generation " + std::to_string(generation.value) + " of " + to_string(id) +
             " was accepted after it was over");
}

void Checker::on_durable(const Event& event) {
  if (const auto* e = std::get_if<TermStarted>(&event)) {
    if (e->term <= term_) violated("term " + std::to_string(e->term) + " was claimed twice");
    term_ = e->term;
  } else if (const auto* e = std::get_if<JobSubmitted>(&event)) {
    if (!jobs_.try_emplace(e->job).second) violated(to_string(e->job) + " was submitted twice");
    jobs_[e->job].spec = e->spec;
  } else if (const auto* e = std::get_if<JobPlaced>(&event)) {
    Job& job = jobs_[e->job];
    if (job.final_view) return;  // it was cancelled while it was being placed
    if (!epochs_.insert(e->epoch).second) violated("epoch " + to_string(e->epoch) + " was given twice");
    if (e->epoch <= job.epoch) violated(to_string(e->job) + " went back to epoch " + to_string(e->epoch));
    job.epoch = e->epoch;
    job.generation = e->generation;
    job.tasks = e->tasks;
    job.ends.clear();
    job.generation_over = false;
  } else if (const auto* e = std::get_if<TaskEnded>(&event)) {
    check_current(e->task.job, e->task.generation, "an end");
    Job& job = jobs_[e->task.job];
    if (job.epoch != e->epoch) violated("the end of " + to_string(e->task) + " under another epoch was accepted");
    if (!job.ends.emplace(e->task, e->end).second) violated(to_string(e->task) + " ended twice");
    if (e->end.cause == Cause::kExit) {
      const auto real = process_ends_.find(e->task);
      if (real == process_ends_.end() || !(real->second == e->end))
        violated("the recorded end of " + to_string(e->task) + " is not what happened");
    }
  } else if (const auto* e = std::get_if<GenerationEnded>(&event)) {
    check_current(e->job, e->generation, "the end of a generation");
    Job& job = jobs_[e->job];
    if (job.ends.size() != job.tasks.size())
      violated("generation " + std::to_string(e->generation.value) + " of " + to_string(e->job) +
               " ended before its tasks");
    job.generation_over = true;
  } else if (const auto* e = std::get_if<JobEnded>(&event)) {
    on_job_ended(jobs_[e->view.id], e->view);
  } else if (const auto* e = std::get_if<SplitsLeased>(&event)) {
    check_current(e->consumer.job, e->consumer.generation, "a lease");
  } else if (const auto* e = std::get_if<SplitFinished>(&event)) {
    check_current(e->consumer.job, e->consumer.generation, "a split's end");
    finished_.insert({e->consumer, split_name(e->input, e->pass, e->split_id)});
  } else if (const auto* e = std::get_if<BarrierMet>(&event)) {
    check_current(e->job, e->generation, "a barrier");
  } else if (const auto* e = std::get_if<InputFilesSet>(&event)) {
    check_current(e->job, e->generation, "a file table");
    Job& job = jobs_[e->job];
    for (const io::InputSpec& input : job.spec.inputs) {
      if (input.name != e->input) continue;
      std::uint64_t splits = 0;
      for (const io::FileEntry& file : e->files)
        splits += (file.size_bytes + input.split_bytes - 1) / input.split_bytes;
      job.splits[input.name] = splits * input.passes;
    }
  }
}

void Checker::on_job_ended(Job& job, const JobView& view) {
  if (job.final_view) violated(to_string(view.id) + " ended twice");
  if (!is_final(view.state)) violated(to_string(view.id) + " ended in a state that is not final");
  if (!job.generation_over && job.ends.size() != job.tasks.size())
    violated(to_string(view.id) + " ended before its tasks");
  job.final_view = view;
  if (view.state == JobState::kSucceeded) {
    for (const PlacedTask& placed : job.tasks) {
      bool counts = false;
      for (const RoleSpec& role : job.spec.roles)
        if (role.name == placed.task.role) counts = counts_for_success(job.spec, role);
      const auto end = process_ends_.find(placed.task);
      if (counts && (end == process_ends_.end() || !end->second.ok()))
        violated(to_string(view.id) + " succeeded though " + to_string(placed.task) + " did not");
    }
    for (const auto& [input, splits] : job.splits) {
      const std::size_t read = readers_[{{view.id, job.generation}, input}].size();
      if (read != splits)
        violated(to_string(view.id) + " succeeded but read " + std::to_string(read) + " of " + std::to_string(splits) +
                 " splits of " + input);
    }
    if (view.exit_code != 0) violated(to_string(view.id) + " succeeded with an exit code");
  } else if (view.exit_code == 0) {
    violated(to_string(view.id) + " did not succeed but exits with 0");
  }
}

void Checker::on_spawn(const PrepareTask& prepare, std::int64_t cpu_milli_of_node) {
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
      violated("port " + std::to_string(port) + " of " + node.value + " is held by " + to_string(it->second) + " and " +
               to_string(task));
  }
  cpu_[node] += prepare.resources.cpu_milli;
  if (cpu_[node] > cpu_milli_of_node) violated(node.value + " runs more than its CPUs");
  running_[task] = {prepare.epoch, node, prepare.slot.ports, prepare.resources.cpu_milli};
}

void Checker::on_process_end(const TaskId& task, const TaskEnd& end) {
  const auto it = running_.find(task);
  if (it == running_.end()) return;
  for (std::uint16_t port : it->second.ports) ports_.erase({it->second.node, port});
  cpu_[it->second.node] -= it->second.cpu_milli;
  running_.erase(it);
  process_ends_[task] = end;
}

void Checker::on_cleaned(const TaskId& task, Epoch epoch) {
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end() || job->second.epoch != epoch || job->second.final_view) return;
  if (job->second.ends.count(task) == 0 && !job->second.generation_over)
    violated("the end of " + to_string(task) + " was acknowledged before it was durable");
}

void Checker::on_submit_acked(const std::string& key, JobId job) {
  if (jobs_.count(job) == 0) violated("the submit of " + to_string(job) + " was acknowledged before it was durable");
  const auto [it, fresh] = keys_.emplace(key, job);
  if (!fresh && it->second != job) violated("one key made " + to_string(it->second) + " and " + to_string(job));
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
      violated(to_string(task) + " passed barrier " + name + " round " + std::to_string(round) + " before " +
               to_string(other.task) + " was there");
  }
}

void Checker::on_agent_lost(const NodeId& node) {
  for (const auto& [id, job] : jobs_)
    for (const PlacedTask& placed : job.tasks)
      if (placed.slot.node == node) excused_.insert(placed.task);
}

void Checker::on_lease_answered(const TaskId& task, Epoch epoch) {
  const auto job = jobs_.find(task.job);
  if (job == jobs_.end() || job->second.final_view) return;
  if (job->second.epoch != epoch)
    violated("a lease of " + to_string(task) + " under epoch " + to_string(epoch) + " was granted, " + to_string(task.job) +
             " runs under " + to_string(job->second.epoch));
}

void Checker::on_split_read(const TaskId& task, const std::string& input, const io::Split& split) {
  auto& readers = readers_[{{task.job, task.generation}, input}];
  const auto [it, fresh] = readers.emplace(std::make_pair(split.pass, split.id), task);
  if (fresh || it->second == task) return;
  const auto end = process_ends_.find(it->second);
  const bool failed = end != process_ends_.end() && !end->second.ok();
  const bool in_doubt = excused_.count(it->second) != 0 &&
                        finished_.count({it->second, split_name(input, split.pass, split.id)}) == 0;
  if (!failed && !in_doubt) violated("split " + std::to_string(split.id) + " of pass " + std::to_string(split.pass) + " was read by " + to_string(it->second) + " and by " + to_string(task));
  it->second = task;
}

void Checker::on_push_accepted(const TaskId& shard, ClientId client, std::uint64_t sequence, std::uint64_t key,
                               Epoch of_request, Epoch of_shard) {
  if (of_request != of_shard)
    violated(to_string(shard) + " of epoch " + to_string(of_shard) + " took a push of epoch " + to_string(of_request));
  const std::string name =
      to_string(shard) + " " + std::to_string(client.value) + " " + std::to_string(sequence);
  if (pushes_.insert(name).second) ++rows_[shard][key];
}

void Checker::on_row(const TaskId& shard, std::uint64_t key, float value) {
  const auto expected = static_cast<float>(rows_[shard][key]);
  if (value != expected)
    violated("key " + std::to_string(key) + " of " + to_string(shard) + " is " + std::to_string(value) + " after " +
             std::to_string(expected) + " pushes");
}

std::uint64_t Checker::rows_expected(const TaskId& shard) const {
  const auto it = rows_.find(shard);
  return it == rows_.end() ? 0 : it->second.size();
}

std::vector<std::uint64_t> Checker::keys_of(const TaskId& shard) const {
  std::vector<std::uint64_t> keys;
  if (const auto it = rows_.find(shard); it != rows_.end())
    for (const auto& [key, count] : it->second) keys.push_back(key);
  return keys;
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

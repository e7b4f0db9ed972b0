#include "runtime/cluster/core/job_record.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runtime/base/assert.h"
#include "runtime/base/hash.h"
#include "runtime/cluster/core/port_taken.h"

namespace dlrun::cluster {

namespace {

/// Fields with their lengths, so that no two specs run together.
class FieldHash {
 public:
  void add(std::uint64_t v) { hash_.add(v); }
  void add(const std::string& s) {
    add(std::uint64_t{s.size()});
    hash_.add(s);
  }
  void add(const std::vector<std::string>& list) {
    add(std::uint64_t{list.size()});
    for (const auto& s : list) add(s);
  }
  template <class Pairs>
  void add_pairs(const Pairs& pairs) {
    add(std::uint64_t{pairs.size()});
    for (const auto& [a, b] : pairs) {
      add(a);
      add(b);
    }
  }
  std::uint64_t value() const { return hash_.value(); }

 private:
  Fnv1a hash_;
};

std::uint64_t number(auto v) { return static_cast<std::uint64_t>(v); }

void apply_end(JobRecord& r, const TaskEnded& e) {
  if (e.epoch != r.epoch || e.task.generation != r.generation) return;
  const auto index = r.index_of(e.task);
  if (!index || r.ends.count(*index) != 0) return;
  r.ends[*index] = {e.end, e.at};
  if (r.verdict != Verdict::kNone) return;
  switch (r.tally.ended(r.index.role_at(*index), *index, e.end.ok())) {
    case Outcome::kGoesOn:
      return;
    case Outcome::kDone:
      r.verdict = Verdict::kDone;
      r.done_at = e.at;
      return;
    case Outcome::kFailed:
      break;
  }
  r.verdict = Verdict::kFailed;
  r.first_failed = r.tally.culprit();
  const TaskEnd& end = r.ends.at(*r.first_failed).end;
  r.reason = to_string(r.tasks[*r.first_failed].task) +
             " ended first: " + std::string(to_string(end.cause));
  if (end.cause == Cause::kExit) r.reason += " " + std::to_string(end.code);
  if (end.cause == Cause::kSignal) r.reason += " " + std::to_string(end.signal);
  if (!end.detail.empty()) r.reason += " (" + end.detail + ")";
}

void apply_met(JobRecord& r, const JobRecord::BarrierKey& key, std::uint64_t round) {
  const auto [it, fresh] = r.barriers_met.try_emplace(key, 0);
  it->second = std::max(it->second, round);
  if (fresh) r.barrier_order.push_back(key);
  if (r.barrier_order.size() > kBarriersMax) {
    r.barriers_met.erase(r.barrier_order.front());
    r.barrier_order.pop_front();
  }
}

/// A key of a split has 16 bytes; a lease with its few keys, or a barrier, about 128.
std::uint64_t weight_of(const JobSnapshot& snapshot) {
  constexpr std::size_t kKeysPerRecord = 8;
  std::size_t keys = snapshot.barriers.size() * kKeysPerRecord / 2;
  for (const io::LedgerState& input : snapshot.inputs) {
    keys += input.given_back.size() + input.held.size() * kKeysPerRecord / 2;
    keys += 2 * (input.begun.size() + input.lanes.size());
    for (const io::LedgerState::Held& held : input.held) keys += held.splits.size();
  }
  for (const JobSnapshot::Answer& answer : snapshot.answers)
    keys += kKeysPerRecord / 2 + answer.splits.size();
  return keys / kKeysPerRecord;
}

}  // namespace

JobRecord::JobRecord(const JobSubmitted& event, std::shared_ptr<const JobSpec> spec_in)
    : id(event.job), spec(std::move(spec_in)), submitted(event.at), held(spec->hold) {}

std::optional<std::size_t> JobRecord::index_of(const TaskId& task) const {
  if (task.job != id || task.generation != generation) return std::nullopt;
  return index.find(task.role, task.rank);
}

const RoleSpec& JobRecord::role_of(std::size_t task) const {
  return spec->roles[index.role_at(task)];
}

bool JobRecord::moves() const {
  return first_failed && port_taken(ends.at(*first_failed).end) && moved < kMovesMax;
}

const io::LedgerState* JobRecord::committed(const std::string& input) const {
  const io::LedgerState* found = nullptr;
  std::uint64_t number = 0;
  for (const auto& [role, commit] : commits)
    for (const io::LedgerState& state : commit.inputs)
      if (state.input == input && commit.number > number) {
        found = &state;
        number = commit.number;
      }
  return found;
}

void JobRecord::apply(const Event& event) {
  if (const auto* e = std::get_if<JobPlaced>(&event)) {
    if (e->job != id || e->generation != generation || !tasks.empty()) return;
    epoch = e->epoch;
    tasks = e->tasks;
    index = TaskIndex(*spec, tasks);
    tally = EndTally(*spec, index.sizes());
    requeued = false;
    placed_at = e->at;
  } else if (const auto* e = std::get_if<TaskEnded>(&event)) {
    if (e->task.job != id || e->epoch != epoch) return;
    if (!spec->inputs.empty()) ledger_ops.emplace_back(*e);
    apply_end(*this, *e);
  } else if (const auto* e = std::get_if<JobStateChanged>(&event)) {
    if (e->job != id || e->generation != generation) return;
    if (e->state == JobState::kRunning) {
      running_seen = true;
      if (started == WallTime{}) started = e->at;
    } else if (e->state == JobState::kStopping && verdict == Verdict::kNone) {
      verdict = e->cause == Cause::kTimeLimit   ? Verdict::kTimeout
                : e->cause == Cause::kPreempted ? Verdict::kPreempted
                                                : Verdict::kNotStarted;
      reason = e->reason;
    }
  } else if (const auto* e = std::get_if<JobKillRequested>(&event)) {
    if (e->job != id) return;
    kill_requested = true;
    if (verdict == Verdict::kNone) {
      verdict = Verdict::kKilled;
      reason = e->reason.empty() ? "killed by a user" : e->reason;
    }
  } else if (const auto* e = std::get_if<GenerationEnded>(&event)) {
    if (e->job != id || e->generation != generation) return;
    generation = Generation{generation.value + 1};
    requeued = e->cause == Cause::kPreempted;
    if (requeued) ++preempted;
    if (moves()) ++moved;
    epoch = {};
    tasks.clear();
    index = {};
    ends.clear();
    tally = {};
    warned.clear();
    running_seen = false;
    verdict = kill_requested ? Verdict::kKilled : Verdict::kNone;
    first_failed.reset();
    reason = e->reason;
    ledger_ops.clear();
    since_snapshot = 0;
    snapshot_weight = 0;
    barriers_met.clear();
    barrier_order.clear();
  } else if (const auto* e = std::get_if<JobHeld>(&event)) {
    if (e->job != id) return;
    held = e->held;
    held_why = e->reason;
  } else if (const auto* e = std::get_if<CommitGranted>(&event)) {
    if (e->job == id && e->generation == generation) commit_granted = true;
  } else if (const auto* e = std::get_if<BarrierMet>(&event)) {
    if (e->job != id || e->generation != generation) return;
    ++since_snapshot;
    apply_met(*this, {e->role, e->name}, e->round);
  } else if (const auto* e = std::get_if<TaskWarned>(&event)) {
    if (const auto index = index_of(e->task); index && e->epoch == epoch)
      warned.emplace(*index, e->text);
  } else if (const auto* e = std::get_if<InputFilesSet>(&event)) {
    if (e->job == id && e->generation == generation) ledger_ops.emplace_back(*e);
  } else if (const auto* e = std::get_if<SplitsLeased>(&event)) {
    if (e->consumer.job != id || e->consumer.generation != generation) return;
    ++since_snapshot;
    ledger_ops.emplace_back(*e);
  } else if (const auto* e = std::get_if<InputsCommitted>(&event)) {
    if (e->job == id) commits[e->role] = *e;
  } else if (const auto* e = std::get_if<JobSnapshot>(&event)) {
    if (e->job != id || e->generation != generation) return;
    since_snapshot = 0;
    snapshot_weight = weight_of(*e);
    std::erase_if(ledger_ops,
                  [](const LedgerOp& op) { return !std::holds_alternative<InputFilesSet>(op); });
    ledger_ops.emplace_back(*e);
    barriers_met.clear();
    barrier_order.clear();
    for (const JobSnapshot::Barrier& b : e->barriers) apply_met(*this, {b.role, b.name}, b.round);
  }
}

sched::GangRequest gang_of(const JobSpec& spec, JobId job, Generation generation,
                           TimePoint submitted, double share) {
  sched::GangRequest gang{job, generation, spec.priority, submitted, {}};
  std::vector<std::uint32_t> counts;
  std::uint64_t processes = 0;
  for (const RoleSpec& role : spec.roles) {
    const double range = role.count_max - role.count_min;
    // A share of k / range means k, also when the quotient was rounded down.
    counts.push_back(role.count_min + static_cast<std::uint32_t>(std::floor(range * share + 1e-6)));
    if (role.program == RoleProgram::kProcess) processes += counts.back();
  }
  for (std::size_t i = 0; i < spec.roles.size(); ++i) {
    const RoleSpec& role = spec.roles[i];
    for (std::uint32_t rank = 0; rank < counts[i]; ++rank) {
      sched::TaskDemand demand{role.name, rank, role.resources, role.require};
      if (role.program == RoleProgram::kProcess && processes > 1)
        demand.need.ports = std::max(demand.need.ports, 1);
      gang.tasks.push_back(std::move(demand));
    }
  }
  return gang;
}

std::pair<sched::GangRequest, sched::Placement> gang_of(const JobRecord& record,
                                                        TimePoint submitted) {
  sched::GangRequest gang{record.id, record.generation, record.spec->priority, submitted, {}};
  sched::Placement placement{record.id, record.generation, {}};
  for (std::size_t i = 0; i < record.tasks.size(); ++i) {
    const PlacedTask& placed = record.tasks[i];
    const RoleSpec& role = record.role_of(i);
    sched::TaskDemand demand{role.name, placed.task.rank, role.resources, role.require};
    demand.need.ports = static_cast<std::int32_t>(placed.slot.ports.size());
    gang.tasks.push_back(std::move(demand));
    placement.slots.push_back(placed.slot);
  }
  return {std::move(gang), std::move(placement)};
}

std::vector<OutputSpec> outputs_of(const JobRecord& record, std::size_t index) {
  std::vector<OutputSpec> out;
  const TaskId& task = record.tasks[index].task;
  for (const OutputSpec& output : record.spec->outputs)
    if (task.rank == 0 && output.role == task.role) out.push_back(output);
  return out;
}

std::string staging_path(const OutputSpec& output, const TaskId& task) {
  std::string path = output.path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path + ".dlrun-" + to_string(task.job) + "-g" + std::to_string(task.generation.value);
}

std::string output_variable(const OutputSpec& output) {
  std::string name = "DLRUN_OUTPUT_";
  for (const char c : output.name) {
    const bool digit = c >= '0' && c <= '9';
    const bool capital = c >= 'A' && c <= 'Z';
    const bool small = c >= 'a' && c <= 'z';
    name += small ? static_cast<char>(c - 'a' + 'A') : digit || capital ? c : '_';
  }
  return name;
}

std::uint64_t fingerprint(const JobSpec& spec) {
  FieldHash f;
  f.add(spec.name);
  f.add(spec.owner);
  f.add(spec.project);
  f.add(number(spec.priority));
  f.add(std::uint64_t{spec.roles.size()});
  for (const RoleSpec& role : spec.roles) {
    f.add(role.name);
    f.add(number(role.kind));
    f.add(number(role.program));
    f.add(number(role.count_min));
    f.add(number(role.count_max));
    f.add(role.argv);
    f.add_pairs(role.env);
    f.add(role.cwd);
    f.add(number(role.resources.cpu_milli));
    f.add(number(role.resources.memory_bytes));
    f.add(number(role.resources.gpus));
    f.add(number(role.resources.ports));
    f.add_pairs(role.require);
    f.add(role.after);
    f.add(number(role.ready));
    f.add(number(role.time_limit.count()));
    f.add(std::uint64_t{role.rlimits.size()});
    for (const auto& [name, value] : role.rlimits) {
      f.add(name);
      f.add(value);
    }
    f.add(std::uint64_t{role.restart_on ? role.restart_on->size() + 1 : 0});
    for (Cause cause : role.restart_on.value_or(std::vector<Cause>{})) f.add(number(cause));
    // Added later, and only where they are said, with their names: what was recorded before stays
    // the same.
    if (role.end != EndRule::kByKind) {
      f.add(std::string("end"));
      f.add(number(role.end));
      f.add(number(role.quorum));
      f.add(number(role.failures_permille));
    }
    if (role.linger) {
      f.add(std::string("linger"));
      f.add(number(role.linger->count()));
    }
  }
  f.add(std::uint64_t{spec.inputs.size()});
  for (const io::InputSpec& input : spec.inputs) {
    f.add(input.name);
    f.add(input.uris);
    f.add(number(input.format));
    f.add(number(input.index_base));
    f.add(number(input.delimiter));
    f.add(number(input.header));
    f.add(number(input.label_column));
    f.add(number(input.batch_rows));
    f.add(number(input.passes));
    f.add(number(input.shuffle));
    f.add(input.seed);
    f.add(input.split_bytes);
    f.add(number(input.on_bad_record));
    f.add(input.bad_records_max);
    // Added later, and only where they are said: what was recorded before stays the same.
    if (input.on_bad_record == io::OnBadRecord::kQuarantine) f.add(input.quarantine);
    if (input.mode != io::Mode::kDynamic || !input.weights.empty()) {
      f.add(number(input.mode));
      f.add(number(input.static_by));
      f.add(number(input.lanes));
      f.add(number(input.ends));
      f.add(input.skip_batches);
      f.add(input.take_batches);
      f.add(std::uint64_t{input.weights.size()});
      for (const std::uint32_t weight : input.weights) f.add(number(weight));
    }
    if (!io::is_table(input.format)) continue;
    f.add(input.record_bytes_max);
    f.add(std::uint64_t{input.columns.size()});
    for (const io::FieldSpec& column : input.columns) {
      f.add(column.name);
      f.add(number(column.type));
      f.add(column.width);
      f.add(number(column.may_miss));
      f.add(column.buckets);
      f.add(column.dictionary);
    }
    f.add(input.missing);
    f.add(number(input.newlines_in_quotes));
    f.add(number(input.tokens.type));
    f.add(input.tokens.sequence_length);
    f.add(number(input.tokens.tail));
    f.add(number(input.tokens.separator));
    f.add(number(input.tokens.padding));
    f.add(number(input.tokens.vocabulary));
  }
  f.add(number(spec.restart.restarts_max));
  for (Cause cause : spec.restart.on) f.add(number(cause));
  f.add(number(spec.time_limit.count()));
  f.add(number(spec.grace.count()));
  f.add(number(spec.failure_grace.count()));
  f.add(number(spec.env_policy));
  f.add_pairs(spec.submit_env);
  f.add(spec.cwd);
  f.add(number(spec.hold));
  f.add(std::uint64_t{spec.outputs.size()});
  for (const OutputSpec& output : spec.outputs) {
    f.add(output.name);
    f.add(output.path);
    f.add(output.role);
  }
  if (!spec.framework.empty()) f.add(spec.framework);
  return f.value();
}

}  // namespace dlrun::cluster

#include "io/core/ledger_core.h"

#include <algorithm>
#include <limits>

#include "io/core/lane_plan.h"
#include "io/core/permutation.h"
#include "runtime/base/assert.h"

namespace dlrun::io {

namespace {
std::string describe(SplitKey key) {
  return "split " + std::to_string(key.split_id) + " of pass " + std::to_string(key.pass);
}
}  // namespace

LedgerCore::LedgerCore(const std::vector<InputSpec>& inputs, LedgerLimits limits)
    : limits_(limits) {
  for (const InputSpec& spec : inputs) tables_[spec.name].spec = spec;
}

Result<LedgerCore::Table*> LedgerCore::find(const std::string& input) {
  auto it = tables_.find(input);
  if (it == tables_.end())
    return fail(Errc::kNotFound, "the job declares no input \"" + input + "\"");
  return &it->second;
}

Status LedgerCore::set_files(const std::string& input, const std::vector<FileEntry>& files) {
  DLRUN_ASSIGN(Table * table, find(input));
  if (table->fixed) {
    const std::vector<FileEntry>& began = table->splits.files();
    if (files == began) return {};
    const std::size_t shared = std::min(files.size(), began.size());
    for (std::size_t i = 0; i < shared; ++i) {
      if (files[i] == began[i]) continue;
      return fail(Errc::kFailedPrecondition, "input \"" + input + "\": file " + std::to_string(i) +
                                                 " is " + files[i].uri + " (" + files[i].etag +
                                                 "), the job began with " + began[i].uri + " (" +
                                                 began[i].etag + ")");
    }
    const bool more = files.size() > began.size();
    return fail(Errc::kFailedPrecondition,
                "input \"" + input + "\": " + (more ? files : began)[shared].uri +
                    (more ? " was not there when the job began" : " is gone"));
  }
  if (files.size() > limits_.files_max)
    return fail(Errc::kInvalidArgument, "input \"" + input + "\": " + std::to_string(files.size()) +
                                            " files; at most " + std::to_string(limits_.files_max));
  auto splits = SplitTable::of(table->spec, files);
  if (!splits) return fail_as("input \"" + input + "\"", splits);
  table->splits = std::move(*splits);
  table->files_digest = digest_of(files);
  table->fixed = true;
  return {};
}

Result<LeaseAnswer> LedgerCore::lease(const std::string& input, const TaskId& consumer,
                                      std::uint32_t splits_max) {
  DLRUN_ASSIGN(Table * table, find(input));
  if (!table->fixed)
    return fail(Errc::kFailedPrecondition, "input \"" + input + "\": a lease before the files");
  if (has_lanes(table->spec.mode))
    return fail(Errc::kFailedPrecondition, "input \"" + input + "\": nothing of it is leased");
  if (splits_max == 0)
    return fail(Errc::kInvalidArgument, "input \"" + input + "\": a lease of no splits");

  const std::uint64_t total = table->splits.count();
  const InputSpec& spec = table->spec;
  const auto pass_exists = [&](std::uint32_t pass) {
    return total > 0 && (spec.passes == 0 || pass < spec.passes);
  };
  const auto held = table->held.find(consumer);
  std::uint64_t open = held == table->held.end() ? 0 : held->second.size();

  LeaseAnswer answer;
  while (answer.splits.size() < splits_max && open < limits_.leases_per_consumer_max) {
    if (table->position == total && pass_exists(table->pass) &&
        table->pass != std::numeric_limits<std::uint32_t>::max()) {
      ++table->pass;
      table->position = 0;
    }
    SplitKey key;
    if (!table->given_back.empty()) {
      key = *table->given_back.begin();
      table->given_back.erase(table->given_back.begin());
    } else if (pass_exists(table->pass) && table->position < total) {
      const std::uint64_t i = table->position++;
      key.pass = table->pass;
      key.split_id = spec.shuffle ? Permutation(total, spec.seed, table->pass)(i) : i;
    } else {
      break;
    }
    table->leased.emplace(key, consumer);
    table->held[consumer].insert(key);
    answer.splits.push_back(table->split_of(key));
    ++open;
  }
  const bool left =
      !table->given_back.empty() || (pass_exists(table->pass) && table->position < total) ||
      (table->position == total && pass_exists(table->pass) &&
       table->pass != std::numeric_limits<std::uint32_t>::max() && pass_exists(table->pass + 1));
  if (!answer.splits.empty())
    answer.state = LeaseState::kGranted;
  else
    answer.state = left ? LeaseState::kWait : LeaseState::kEndOfInput;
  return answer;
}

/// Guided self-scheduling (Polychronopoulos, Kuck, 1987): half of an even part of what is left.
std::uint32_t LedgerCore::share(const std::string& input, const TaskId& consumer,
                                std::uint32_t wanted) const {
  const auto it = tables_.find(input);
  if (it == tables_.end() || wanted <= 1) return wanted;
  const Table& table = it->second;
  if (table.spec.passes == 0 || has_lanes(table.spec.mode)) return wanted;
  const std::uint64_t total = table.splits.count();
  const std::uint64_t passes = table.spec.passes - std::min(table.spec.passes, table.pass);
  const std::uint64_t left =
      passes * total - std::min(passes * total, table.position) + table.given_back.size();
  const std::uint64_t consumers = table.held.size() + (table.held.contains(consumer) ? 0 : 1);
  const std::uint64_t part = (left + 2 * consumers - 1) / (2 * consumers);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(part, 1, wanted));
}

void LedgerCore::Table::take_back(const TaskId& consumer, const std::set<SplitKey>& keep) {
  const auto it = held.find(consumer);
  if (it == held.end()) return;
  for (auto key = it->second.begin(); key != it->second.end();) {
    if (keep.contains(*key)) {
      ++key;
      continue;
    }
    leased.erase(*key);
    given_back.insert(*key);
    key = it->second.erase(key);
  }
  if (it->second.empty()) held.erase(it);
}

void LedgerCore::resync(const std::string& input, const TaskId& consumer,
                        const std::vector<SplitKey>& keep) {
  const auto table = tables_.find(input);
  if (table == tables_.end()) return;
  table->second.take_back(consumer, std::set<SplitKey>(keep.begin(), keep.end()));
}

Status LedgerCore::done(const std::string& input, const TaskId& consumer, std::uint64_t split_id,
                        std::uint32_t pass) {
  DLRUN_ASSIGN(Table * table, find(input));
  const SplitKey key{split_id, pass};
  const auto lease = table->leased.find(key);
  if (lease == table->leased.end() || lease->second != consumer)
    return fail(Errc::kFailedPrecondition, "input \"" + input + "\": " + describe(key) +
                                               " is not leased to " + to_string(consumer));
  table->leased.erase(lease);
  const auto held = table->held.find(consumer);
  held->second.erase(key);
  if (held->second.empty()) table->held.erase(held);
  table->begun.erase(key);
  ++table->done;
  return {};
}

void LedgerCore::drop_consumer(const TaskId& consumer) {
  for (auto& [name, table] : tables_) {
    table.take_back(consumer, {});
    if (!has_lanes(table.spec.mode)) continue;
    table.gone.insert(consumer);
    if (table.gate && table.gate_role == consumer.role) table.gate->gone(consumer.rank);
  }
}

LedgerState LedgerCore::Table::state(const std::string& name) const {
  LedgerState out;
  out.input = name;
  out.pass = pass;
  out.position = position;
  out.done = done;
  out.files_digest = files_digest;
  out.given_back.assign(given_back.begin(), given_back.end());
  for (const auto& [key, rows] : begun) out.begun.push_back({key.split_id, rows, key.pass, 0});
  out.world = world;
  for (const auto& [lane, at] : lanes) out.lanes.push_back(at);
  return out;
}

std::vector<LedgerState> LedgerCore::save() const {
  std::vector<LedgerState> states;
  for (const auto& [name, table] : tables_) {
    if (!table.fixed) continue;
    LedgerState& state = states.emplace_back(table.state(name));
    for (const auto& [consumer, keys] : table.held)
      state.held.push_back({consumer, {keys.begin(), keys.end()}});
  }
  return states;
}

Status LedgerCore::restore(const LedgerState& state) {
  DLRUN_ASSIGN(Table * table, find(state.input));
  const auto corrupt = [&](const std::string& what) {
    return fail(Errc::kCorrupt, "the saved state of input \"" + state.input + "\": " + what);
  };
  if (!table->fixed) return corrupt("its files are not known");
  if (state.files_digest != 0 && state.files_digest != table->files_digest)
    return fail(Errc::kFailedPrecondition,
                "input \"" + state.input + "\": its files are not those that the commit is of");
  const std::uint64_t total = table->splits.count();
  const bool lanes = has_lanes(table->spec.mode);
  if (!lanes && state.position > total)
    return corrupt("position " + std::to_string(state.position) + " of " + std::to_string(total) +
                   " splits");
  Table next;
  next.fixed = true;
  next.pass = state.pass;
  next.position = state.position;
  next.done = state.done;
  next.files_digest = table->files_digest;
  next.world = state.world;
  std::set<SplitKey> seen;
  const auto sound = [&](const SplitKey& key) {
    return !lanes && key.split_id < total && key.pass <= state.pass && seen.insert(key).second;
  };
  for (const SplitKey& key : state.given_back) {
    if (!sound(key)) return corrupt(describe(key));
    next.given_back.insert(key);
  }
  for (const LedgerState::Held& held : state.held)
    for (const SplitKey& key : held.splits) {
      if (!sound(key)) return corrupt(describe(key) + " of " + to_string(held.consumer));
      next.leased.emplace(key, held.consumer);
      next.held[held.consumer].insert(key);
    }
  for (const SplitProgress& at : state.begun) {
    const SplitKey key{at.split_id, at.pass};
    if (!seen.contains(key)) return corrupt("rows of " + describe(key));
    next.begun[key] = at.rows;
  }
  for (const LanePosition& at : state.lanes) {
    if (!lanes || at.lane >= kLanesMax || !next.lanes.emplace(at.lane, at).second)
      return corrupt("lane " + std::to_string(at.lane));
  }
  next.gone = std::move(table->gone);
  next.spec = table->spec;
  next.splits = std::move(table->splits);
  *table = std::move(next);
  return {};
}

Result<std::vector<LedgerState>> LedgerCore::commit(const std::vector<ConsumerCursor>& consumers,
                                                    std::uint32_t world) const {
  std::map<std::string, Cursors> by_input;
  for (const ConsumerCursor& consumer : consumers)
    for (const InputCursor& cursor : consumer.inputs) {
      const auto table = tables_.find(cursor.input);
      if (table == tables_.end() || !table->second.fixed)
        return fail(Errc::kInvalidArgument, to_string(consumer.consumer) + " commits input \"" +
                                                cursor.input + "\", which nobody has opened");
      if (!by_input[cursor.input].emplace(consumer.consumer, &cursor).second)
        return fail(Errc::kInvalidArgument,
                    to_string(consumer.consumer) + " names input \"" + cursor.input + "\" twice");
    }
  std::vector<LedgerState> states;
  for (const auto& [name, cursors] : by_input) {
    const Table& table = tables_.at(name);
    const bool lanes = has_lanes(table.spec.mode);
    if (lanes && consumers.size() != world)
      return fail(Errc::kFailedPrecondition,
                  "input \"" + name + "\": a commit of " + std::to_string(consumers.size()) +
                      " of its " + std::to_string(world) +
                      " consumers; the others have ended, and their part would be left out");
    DLRUN_ASSIGN(LedgerState state,
                 lanes ? commit_lanes(table, cursors, world) : commit_leased(table, cursors));
    states.push_back(std::move(state));
  }
  return states;
}

Result<LedgerState> LedgerCore::commit_leased(const Table& table, const Cursors& cursors) {
  std::set<SplitKey> given_back = table.given_back;
  std::map<SplitKey, std::uint64_t> begun = table.begun;
  std::uint64_t done = table.done;
  std::map<SplitKey, const SplitProgress*> taken;
  for (const auto& [consumer, cursor] : cursors)
    for (const SplitProgress& at : cursor->splits) {
      const SplitKey key{at.split_id, at.pass};
      const auto lease = table.leased.find(key);
      if (lease == table.leased.end() || lease->second != consumer)
        continue;  // done, or not its own
      if (!taken.emplace(key, &at).second)
        return fail(Errc::kInvalidArgument, to_string(consumer) + " names " + describe(key) +
                                                " of input \"" + table.spec.name + "\" twice");
    }
  for (const auto& [key, consumer] : table.leased) {
    const auto at = taken.find(key);
    if (at != taken.end() && at->second->whole != 0) {
      begun.erase(key);
      ++done;
      continue;
    }
    given_back.insert(key);
    if (at != taken.end() && at->second->rows > 0) begun[key] += at->second->rows;
  }
  LedgerState state = table.state(table.spec.name);
  state.done = done;
  state.given_back.assign(given_back.begin(), given_back.end());
  state.begun.clear();
  for (const auto& [key, rows] : begun) state.begun.push_back({key.split_id, rows, key.pass, 0});
  return state;
}

Result<LedgerState> LedgerCore::commit_lanes(const Table& table, const Cursors& cursors,
                                             std::uint32_t world) {
  DLRUN_ASSIGN(const LanePlan plan, LanePlan::make(table.spec, table.splits, world));
  const std::string where = "input \"" + table.spec.name + "\": ";
  std::map<std::uint32_t, LanePosition> lanes = table.lanes;
  for (const auto& [consumer, cursor] : cursors) {
    if (consumer.rank >= world)
      return fail(Errc::kInvalidArgument,
                  where + to_string(consumer) + " is none of its consumers");
    std::map<std::uint32_t, const LanePosition*> said;
    for (const LanePosition& at : cursor->lanes) {
      if (at.lane >= plan.lanes() || at.lane % world != consumer.rank || at.pass > cursor->pass ||
          (at.split > plan.splits_of(at.lane) && table.spec.ends != Ends::kWrap))
        return fail(Errc::kInvalidArgument,
                    where + to_string(consumer) + ": its place in lane " + std::to_string(at.lane));
      said[at.lane] = &at;
    }
    if (!cursor->begun) continue;
    for (std::uint32_t lane = consumer.rank; lane < plan.lanes(); lane += world) {
      LanePosition& at = lanes[lane];
      if (at.pass > cursor->pass) continue;  // it was ahead when the generation began
      if (at.pass < cursor->pass) at = {lane, cursor->pass, 0, 0, 0};
      at.lane = lane;
      at.step = std::max(at.step, plan.rounds_before(lane, cursor->step));
      const auto one = said.find(lane);
      if (one == said.end() || one->second->pass != cursor->pass) continue;
      at.split = one->second->split;
      at.rows = one->second->rows;
    }
  }
  LedgerState state = table.state(table.spec.name);
  state.lanes.clear();
  for (const auto& [lane, at] : lanes) state.lanes.push_back(at);
  if (table.spec.mode == Mode::kStatic) state.world = world;
  return state;
}

Result<InputStart> LedgerCore::start(const std::string& input, const TaskId& consumer,
                                     std::uint32_t world) const {
  const auto it = tables_.find(input);
  if (it == tables_.end() || !it->second.fixed)
    return fail(Errc::kFailedPrecondition, "input \"" + input + "\": its files are not known");
  const Table& table = it->second;
  InputStart start;
  if (!has_lanes(table.spec.mode)) {
    const auto held = table.held.find(consumer);
    if (held == table.held.end()) return start;
    for (const SplitKey& key : held->second)
      if (const auto begun = table.begun.find(key); begun != table.begun.end())
        start.begun.push_back({key.split_id, begun->second, key.pass, 0});
    return start;
  }
  DLRUN_TRY(LanePlan::make(table.spec, table.splits, world));  // it can be dealt
  if (consumer.rank >= world)
    return fail(Errc::kInvalidArgument, to_string(consumer) + " of " + std::to_string(world));
  if (table.world != 0 && table.world != world)
    return fail(Errc::kFailedPrecondition,
                "input \"" + input + "\": its commit is of " + std::to_string(table.world) +
                    " consumers, and static parts of " + std::to_string(world) + " are others");
  start.world = world;
  for (const auto& [lane, at] : table.lanes)
    if (lane % world == consumer.rank) start.lanes.push_back(at);
  return start;
}

Result<StepNews> LedgerCore::steps(const std::string& input, const TaskId& consumer,
                                   std::uint32_t world, const std::vector<StepReport>& reports) {
  DLRUN_ASSIGN(Table * table, find(input));
  if (!has_lanes(table->spec.mode) || consumer.rank >= world || reports.empty())
    return fail(Errc::kFailedPrecondition,
                "input \"" + input + "\": no steps of " + to_string(consumer));
  if (table->gate && table->gate_role != consumer.role)
    return fail(Errc::kFailedPrecondition, "input \"" + input + "\": role " + table->gate_role +
                                               " ends its passes together; role " + consumer.role +
                                               " cannot read it too");
  if (!table->gate) {
    table->gate.emplace(world);
    table->gate_role = consumer.role;
    for (const TaskId& task : table->gone)
      if (task.role == consumer.role) table->gate->gone(task.rank);
  }
  for (const StepReport& report : reports) table->gate->report(consumer.rank, report);
  return table->gate->news(reports.back().pass);
}

Split LedgerCore::Table::split_of(const SplitKey& key) const {
  Split split = splits.split(key);
  if (const auto at = begun.find(key); at != begun.end()) split.skip_rows = at->second;
  return split;
}

Result<Split> LedgerCore::split(const std::string& input, const SplitKey& key) const {
  const auto it = tables_.find(input);
  if (it == tables_.end() || !it->second.fixed || key.split_id >= it->second.splits.count())
    return fail(Errc::kNotFound, "input \"" + input + "\" has no " + describe(key));
  return it->second.split_of(key);
}

Result<LedgerCore::Counts> LedgerCore::counts(const std::string& input) const {
  const auto it = tables_.find(input);
  if (it == tables_.end()) return fail(Errc::kNotFound, "no input \"" + input + "\"");
  const Table& table = it->second;
  return Counts{table.splits.count(), table.leased.size(), table.given_back.size(), table.done};
}

}  // namespace dlrun::io

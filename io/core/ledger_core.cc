#include "io/core/ledger_core.h"

#include <algorithm>
#include <limits>

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
  auto splits = SplitTable::make(files, split_bytes_of(table->spec));
  if (!splits) return fail_as("input \"" + input + "\"", splits);
  table->splits = std::move(*splits);
  table->fixed = true;
  return {};
}

Result<LeaseAnswer> LedgerCore::lease(const std::string& input, const TaskId& consumer,
                                      std::uint32_t splits_max) {
  DLRUN_ASSIGN(Table * table, find(input));
  if (!table->fixed)
    return fail(Errc::kFailedPrecondition, "input \"" + input + "\": a lease before the files");
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
    answer.splits.push_back(table->splits.split(key));
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
  if (table.spec.passes == 0) return wanted;
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
  ++table->done;
  return {};
}

void LedgerCore::drop_consumer(const TaskId& consumer) {
  for (auto& [name, table] : tables_) table.take_back(consumer, {});
}

std::vector<LedgerState> LedgerCore::save() const {
  std::vector<LedgerState> states;
  for (const auto& [name, table] : tables_) {
    if (!table.fixed) continue;
    LedgerState& state =
        states.emplace_back(LedgerState{name, table.pass, table.position, table.done, {}, {}});
    state.given_back.assign(table.given_back.begin(), table.given_back.end());
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
  const std::uint64_t total = table->splits.count();
  if (state.position > total)
    return corrupt("position " + std::to_string(state.position) + " of " + std::to_string(total) +
                   " splits");
  Table next{table->spec, true, {}, state.pass, state.position, {}, {}, {}, state.done};
  std::set<SplitKey> seen;
  const auto sound = [&](const SplitKey& key) {
    return key.split_id < total && key.pass <= state.pass && seen.insert(key).second;
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
  next.splits = std::move(table->splits);
  *table = std::move(next);
  return {};
}

Result<Split> LedgerCore::split(const std::string& input, const SplitKey& key) const {
  const auto it = tables_.find(input);
  if (it == tables_.end() || !it->second.fixed || key.split_id >= it->second.splits.count())
    return fail(Errc::kNotFound, "input \"" + input + "\" has no " + describe(key));
  return it->second.splits.split(key);
}

Result<LedgerCore::Counts> LedgerCore::counts(const std::string& input) const {
  const auto it = tables_.find(input);
  if (it == tables_.end()) return fail(Errc::kNotFound, "no input \"" + input + "\"");
  const Table& table = it->second;
  return Counts{table.splits.count(), table.leased.size(), table.given_back.size(), table.done};
}

}  // namespace dlrun::io

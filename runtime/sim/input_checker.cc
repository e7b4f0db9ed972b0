#include "runtime/sim/input_checker.h"

#include "io/core/permutation.h"

namespace dlrun::sim {

namespace {
std::string shown(const io::SplitKey& key) {
  return "split " + std::to_string(key.split_id) + " of pass " + std::to_string(key.pass);
}
}  // namespace

void InputChecker::on_splits(const PsJob& id, const io::InputSpec& input, std::uint64_t splits) {
  Job& job = jobs_[id];
  job.per_pass[input.name] = splits;
  job.splits[input.name] = splits * input.passes;
  if (const auto last = committed_.find({id.first, input.name}); last != committed_.end())
    job.base[input.name] = last->second;
}

void InputChecker::on_committed(const PsJob& id, const std::set<TaskId>& ranks,
                                const io::InputSpec& input, const io::LedgerState& state) {
  ++commits_;
  Job& job = jobs_[id];
  const std::uint64_t total = job.per_pass[input.name];
  std::set<io::SplitKey> covered;
  for (std::uint32_t pass = 0; pass <= state.pass; ++pass)
    for (std::uint64_t i = 0; i < (pass == state.pass ? state.position : total); ++i)
      covered.insert({input.shuffle ? io::Permutation(total, input.seed, pass)(i) : i, pass});
  for (const io::SplitKey& key : state.given_back) covered.erase(key);
  const std::set<io::SplitKey>& base = job.base[input.name];
  for (const auto& [key, reader] : job.released)
    if (key.first == input.name && ranks.contains(reader) && !covered.contains(key.second))
      violated_(shown(key.second) + " was read by " + to_string(reader) +
                " before a commit that leaves it out");
  for (const io::SplitKey& key : covered)
    if (!base.contains(key) && !job.released.contains({input.name, key}))
      violated_(shown(key) + " is committed and nobody read it");
  committed_[{id.first, input.name}] = std::move(covered);
}

void InputChecker::on_released(const TaskId& reader, const std::string& input,
                               const io::Split& split) {
  ++releases_;
  Job& job = jobs_[ps_job(reader)];
  if (job.base[input].contains({split.id, split.pass}))
    violated_(shown({split.id, split.pass}) + " was committed, and read again by " +
              to_string(reader));
  const auto [it, fresh] = job.released.try_emplace({input, {split.id, split.pass}}, reader);
  if (fresh) return;
  if (!job.failed.contains(it->second))
    violated_("split " + std::to_string(split.id) + " of pass " + std::to_string(split.pass) +
              " was read by " + to_string(it->second) + " and by " + to_string(reader));
  it->second = reader;
}

void InputChecker::on_succeeded(const PsJob& id) {
  const Job& job = jobs_[id];
  for (const auto& [input, splits] : job.splits) {
    std::uint64_t read = 0;
    for (const auto& [key, reader] : job.released) read += key.first == input ? 1 : 0;
    const auto base = job.base.find(input);
    if (base != job.base.end()) read += base->second.size();
    if (read != splits)
      violated_(to_string(id.first) + " succeeded but read, with what was committed, " +
                std::to_string(read) + " of " + std::to_string(splits) + " splits of " + input);
  }
}

}  // namespace dlrun::sim

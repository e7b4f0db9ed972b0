#include "runtime/sim/input_checker.h"

namespace dlrun::sim {

void InputChecker::on_released(const TaskId& reader, const std::string& input,
                               const io::Split& split) {
  ++releases_;
  Job& job = jobs_[ps_job(reader)];
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
    if (read != splits)
      violated_(to_string(id.first) + " succeeded but read " + std::to_string(read) + " of " +
                std::to_string(splits) + " splits of " + input);
  }
}

}  // namespace dlrun::sim

#include "runtime/cluster/core/rendezvous.h"

#include "runtime/base/assert.h"
#include "runtime/cluster/core/framework/adapter.h"

namespace dlrun::cluster {

namespace {

std::string join_ports(const std::vector<std::uint16_t>& ports) {
  std::string text;
  for (std::uint16_t port : ports) text += (text.empty() ? "" : ",") + std::to_string(port);
  return text;
}

framework::Gang gang_in(const JobRecord& record) {
  return {record.id, record.restarts_used(), *record.spec, record.tasks, record.index};
}

}  // namespace

EnvList rendezvous_of(const JobRecord& record, std::size_t index) {
  DLRUN_ASSERT(index < record.tasks.size());
  const PlacedTask& self = record.tasks[index];
  const TaskIndex::Range role = record.index.range_of(record.index.role_at(index));
  const PlacedTask& first = record.tasks[role.first];
  const std::string rank = std::to_string(self.task.rank);
  EnvList env = {
      {"DLRUN_JOB", to_string(record.id)},
      {"DLRUN_ROLE", self.task.role},
      {"DLRUN_RANK", rank},
      {"DLRUN_WORLD", std::to_string(role.size())},
      {"DLRUN_GENERATION", std::to_string(record.generation.value)},
      {"INDEX", rank},
      {"RANK", rank},
      {"WORLD_SIZE", std::to_string(role.size())},
      {"LOCAL_RANK", std::to_string(record.index.local_rank(index))},
      {"MASTER_ADDR", first.address},
  };
  if (!first.slot.ports.empty())
    env.emplace_back("MASTER_PORT", std::to_string(first.slot.ports[0]));
  if (!self.slot.ports.empty()) env.emplace_back("DLRUN_PORTS", join_ports(self.slot.ports));
  for (const OutputSpec& output : outputs_of(record, index))
    env.emplace_back(output_variable(output), staging_path(output, self.task));
  if (!record.spec->framework.empty())
    for (auto& variable : framework::env_of(gang_in(record), index))
      env.push_back(std::move(variable));
  return env;
}

std::vector<TaskFile> files_of(const JobRecord& record, std::size_t index) {
  if (record.spec->framework.empty()) return {};
  return framework::files_of(gang_in(record), index);
}

}  // namespace dlrun::cluster

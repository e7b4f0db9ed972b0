#pragma once
/// tests/cluster/framework/gang.h: a placed job of a framework, by hand: which task is on which
/// node. Task i has address 10.0.0.<node>, port 20000 + i.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cluster/core/framework/adapter.h"
#include "runtime/cluster/core/framework/complete.h"

namespace dlrun::cluster::framework {

inline RoleSpec role_of(const std::string& name, std::uint32_t count = 1) {
  RoleSpec role;
  role.name = name;
  role.argv = {"train"};
  role.count_min = role.count_max = count;
  return role;
}

inline JobSpec job_of(const std::string& framework,
                      const std::vector<std::pair<std::string, std::uint32_t>>& roles) {
  JobSpec spec;
  spec.name = spec.owner = "ann";
  spec.framework = framework;
  for (const auto& [name, count] : roles) spec.roles.push_back(role_of(name, count));
  return spec;
}

/// Completes `spec` and places it: task i on node nodes[i], or on a node of its own beyond them.
struct PlacedJob {
  explicit PlacedJob(JobSpec job, const std::vector<int>& nodes = {}) : spec(std::move(job)) {
    problems = complete(spec);
    for (const RoleSpec& role : spec.roles)
      for (std::uint32_t rank = 0; rank < role.count_max; ++rank) {
        const std::size_t i = tasks.size();
        const std::string node =
            std::to_string(i < nodes.size() ? nodes[i] : static_cast<int>(100 + i));
        const auto port = static_cast<std::uint16_t>(20000 + i);
        tasks.push_back({TaskId{JobId{7}, role.name, rank, Generation{1}},
                         "10.0.0." + node,
                         {NodeId{"n" + node}, {port}, {}}});
      }
    index = TaskIndex(spec, tasks);
  }
  Gang gang() const { return {JobId{7}, restarts, spec, tasks, index}; }
  std::size_t at(const std::string& role, std::uint32_t rank) const {
    return index.find(role, rank).value();
  }
  EnvList env(const std::string& role, std::uint32_t rank = 0) const {
    return env_of(gang(), at(role, rank));
  }
  /// "(unset)" when it has none.
  std::string value(const std::string& role, std::uint32_t rank, const std::string& name) const {
    for (const auto& [key, text] : env(role, rank))
      if (key == name) return text;
    return "(unset)";
  }
  std::vector<TaskFile> files(const std::string& role, std::uint32_t rank = 0) const {
    return files_of(gang(), at(role, rank));
  }

  JobSpec spec;
  std::vector<SpecProblem> problems;
  std::vector<PlacedTask> tasks;
  TaskIndex index;
  std::uint32_t restarts = 0;
};

}  // namespace dlrun::cluster::framework

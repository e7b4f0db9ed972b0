// The DMLC family. Sources: dmlc-core's tracker (what it hands to the tasks of dmlc-submit:
// PSTracker with servers, RabitTracker without), ps-lite's docs/env.md and its Van (DMLC_NODE_HOST,
// PORT), MXNet's "Distributed Training" (DMLC_ROLE scheduler, server, worker), xgboost.collective
// (dmlc_tracker_uri, dmlc_tracker_port, dmlc_task_id).
#include "runtime/cluster/core/framework/parts.h"

namespace dlrun::cluster::framework {

EnvList xgboost_env(const Gang& gang, std::size_t task) {
  const TaskIndex::Range tracker = gang.range_of("tracker");
  if (tracker.size() == 0) return {};  // recorded without one: nothing to connect to
  const TaskId& id = gang.tasks[task].task;
  EnvList env = {
      {"DMLC_TRACKER_URI", gang.tasks[tracker.first].address},
      {"DMLC_TRACKER_PORT", std::to_string(port_of(gang.tasks[tracker.first]))},
      {"DMLC_NUM_WORKER", std::to_string(gang.size_of("worker"))},
      {"DMLC_NUM_SERVER", "0"},
      {"DMLC_ROLE", id.role},
  };
  if (id.role == "worker") env.emplace_back("DMLC_TASK_ID", std::to_string(id.rank));
  return env;
}

/// Without servers a program of this family trains by itself: not one variable of DMLC.
EnvList pslite_env(const Gang& gang, std::size_t task) {
  const TaskIndex::Range scheduler = gang.range_of("scheduler");
  if (scheduler.size() == 0 || gang.size_of("server") == 0) return {};
  const PlacedTask& self = gang.tasks[task];
  const PlacedTask& root = gang.tasks[scheduler.first];
  const std::string rank = std::to_string(self.task.rank);
  EnvList env = {
      {"DMLC_PS_ROOT_URI", root.address},
      {"DMLC_PS_ROOT_PORT", std::to_string(port_of(root))},
      {"DMLC_NUM_WORKER", std::to_string(gang.size_of("worker"))},
      {"DMLC_NUM_SERVER", std::to_string(gang.size_of("server"))},
      {"DMLC_ROLE", self.task.role},
      {"DMLC_NODE_HOST", self.address},
  };
  if (task == scheduler.first) return env;
  env.emplace_back(self.task.role == "server" ? "DMLC_SERVER_ID" : "DMLC_WORKER_ID", rank);
  // Where it listens itself: a lease, not a port that it finds free and others find free, too.
  if (const std::uint16_t port = port_of(self); port != 0)
    env.emplace_back("PORT", std::to_string(port));
  return env;
}

EnvList dmlc_env(const Gang& gang, std::size_t task) {
  return gang.size_of("server") > 0 ? pslite_env(gang, task) : xgboost_env(gang, task);
}

}  // namespace dlrun::cluster::framework

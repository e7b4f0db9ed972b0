#include "web/control_metrics.h"

namespace dlrun::web {
namespace {

using cluster::JobState;
using cluster::NodeState;

constexpr JobState kLiveStates[] = {
    JobState::kHeld,     JobState::kPending,  JobState::kPreempted,
    JobState::kAdmitted, JobState::kStaging,  JobState::kStarting,
    JobState::kRunning,  JobState::kStopping, JobState::kCommitting};
constexpr JobState kEndStates[] = {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled,
                                   JobState::kTimeout,   JobState::kOom,    JobState::kLost};
constexpr NodeState kNodeStates[] = {NodeState::kUp, NodeState::kSuspect, NodeState::kFenced,
                                     NodeState::kDraining, NodeState::kLost};

template <class Map, class Key>
double count(const Map& map, Key key) {
  const auto found = map.find(key);
  return found == map.end() ? 0 : static_cast<double>(found->second);
}

Metric gauge(std::string name, std::string help, double value) {
  return {.name = std::move(name),
          .help = std::move(help),
          .samples = {{.labels = {}, .value = value}}};
}

void add_jobs(const cluster::Health& health, std::vector<Metric>& all) {
  // Every state stands there, with 0 too: an alert on a series that is missing never fires.
  Metric live{.name = "dlrun_jobs", .help = "Jobs that are not over, by state."};
  for (const JobState state : kLiveStates)
    live.samples.push_back(
        {{{"state", std::string(cluster::to_string(state))}}, count(health.jobs_by_state, state)});
  all.push_back(std::move(live));
  Metric ended{.name = "dlrun_jobs_ended_total",
               .help = "Jobs that ended since the coordinator started, by final state.",
               .counter = true};
  for (const JobState state : kEndStates)
    ended.samples.push_back(
        {{{"state", std::string(cluster::to_string(state))}}, count(health.ended_by_state, state)});
  all.push_back(std::move(ended));
  all.push_back(gauge("dlrun_jobs_stored", "Finished jobs in the store.",
                      static_cast<double>(health.jobs_finished)));
  all.push_back(gauge("dlrun_queue_jobs",
                      "Jobs that wait for a place; held ones are not among them.",
                      health.jobs_pending - count(health.jobs_by_state, JobState::kHeld)));
  all.push_back(gauge("dlrun_queue_oldest_seconds",
                      "How long the job has waited that waits longest for a place.",
                      static_cast<double>(health.oldest_wait.count()) * 1e-9));
}

void add_nodes(const cluster::NodeList& list, std::vector<Metric>& all) {
  Metric cpus{.name = "dlrun_node_cpus", .help = "Cores of a node."};
  Metric cpus_used{.name = "dlrun_node_cpus_used", .help = "Cores of a node that tasks hold."};
  Metric memory{.name = "dlrun_node_memory_bytes", .help = "Memory of a node."};
  Metric memory_used{.name = "dlrun_node_memory_used_bytes",
                     .help = "Memory of a node that tasks hold."};
  Metric gpus{.name = "dlrun_node_gpus", .help = "GPUs of a node."};
  Metric gpus_used{.name = "dlrun_node_gpus_used", .help = "GPUs of a node that tasks hold."};
  Metric heard{.name = "dlrun_node_last_heard_timestamp_seconds",
               .help = "When the node was heard last, in Unix time."};
  for (const cluster::NodeView& node : list.nodes) {
    const std::vector<std::pair<std::string, std::string>> labels{{"node", node.id.value}};
    const auto add = [&](Metric& metric, double value) {
      metric.samples.push_back({labels, value});
    };
    add(cpus, static_cast<double>(node.capacity.cpu_milli) / 1000);
    add(cpus_used, static_cast<double>(node.used.cpu_milli_used) / 1000);
    add(memory, static_cast<double>(node.capacity.memory_bytes));
    add(memory_used, static_cast<double>(node.used.memory_bytes_used));
    add(gpus, static_cast<double>(node.capacity.gpu_uuids.size()));
    add(gpus_used, node.used.gpus_used);
    add(heard, static_cast<double>(node.last_heard.ns) * 1e-9);
  }
  for (Metric* metric : {&cpus, &cpus_used, &memory, &memory_used, &gpus, &gpus_used, &heard})
    all.push_back(std::move(*metric));
}

}  // namespace

void add_control_metrics(const cluster::Health* health, const cluster::NodeList* nodes,
                         std::vector<Metric>& all) {
  all.push_back(gauge("dlrun_control_up", "1 when the control plane answered within its time.",
                      health != nullptr));
  if (health != nullptr) {
    add_jobs(*health, all);
    Metric by_state{.name = "dlrun_nodes", .help = "Nodes by state."};
    for (const NodeState state : kNodeStates)
      by_state.samples.push_back({{{"state", std::string(cluster::to_string(state))}},
                                  count(health->nodes_by_state, state)});
    all.push_back(std::move(by_state));
    all.push_back(gauge("dlrun_coordinator_term", "Term of the coordinator.",
                        static_cast<double>(health->term)));
    all.push_back(gauge("dlrun_reconciling",
                        "1 while nodes are awaited after a restart: nothing is placed.",
                        health->reconciling));
  }
  if (nodes != nullptr) add_nodes(*nodes, all);
}

}  // namespace dlrun::web

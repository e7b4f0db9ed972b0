// The table of frameworks. docs/frameworks.md shows it to people.
#include "runtime/cluster/core/framework/adapter.h"

#include <algorithm>
#include <unordered_map>

#include "runtime/cluster/core/framework/parts.h"

namespace dlrun::cluster::framework {

namespace {

using std::chrono::seconds;

/// Each task's own text of all tasks must fit into one variable (MAX_ARG_STRLEN, 128 KiB); an
/// endpoint takes at most 50 bytes in it.
constexpr std::uint32_t kNamesAll = 2'600;
constexpr std::uint32_t kNamesNone = 65'536;

// ps and chief are ready before the workers so that the one who fails first is named first.
constexpr RoleRow kTensorFlow[] = {
    {.role = "chief", .end = EndRule::kDecides, .after = {"ps"}, .count_max = 1},
    {.role = "worker", .after = {"ps"}},
    {.role = "ps", .end = EndRule::kServes},
    {.role = "evaluator", .end = EndRule::kIgnored, .count_max = 1},
};
constexpr RoleRow kWorkers[] = {{.role = "worker"}};
constexpr RoleRow kRabit[] = {
    {.role = "worker", .after = {"tracker"}},
    {.role = "tracker", .end = EndRule::kServes, .count_max = 1, .extra = Extra::kTracker},
};
// Servers and scheduler end by themselves once the workers have said goodbye.
constexpr RoleRow kPsLite[] = {
    {.role = "worker", .after = {"scheduler", "server"}},
    {.role = "server", .end = EndRule::kServes, .after = {"scheduler"}, .linger = seconds(30)},
    {.role = "scheduler",
     .end = EndRule::kServes,
     .count_max = 1,
     .extra = Extra::kScheduler,
     .linger = seconds(30)},
};
constexpr RoleRow kDmlc[] = {
    kPsLite[0],
    kPsLite[1],
    kPsLite[2],
    kRabit[1],
};

constexpr Adapter kAdapters[] = {
    {"tensorflow", kTensorFlow, "worker", "ps", "chief", kNamesAll, &tensorflow_env, nullptr},
    {"pytorch", kWorkers, "worker", "", "", kNamesNone, &pytorch_env, nullptr},
    {"xgboost", kRabit, "worker", "", "", kNamesNone, &xgboost_env, nullptr},
    {"dmlc", kDmlc, "worker", "server", "", kNamesNone, &dmlc_env, nullptr},
    {"mxnet", kPsLite, "worker", "server", "", kNamesNone, &pslite_env, nullptr},
    {"pslite", kPsLite, "worker", "server", "", kNamesNone, &pslite_env, nullptr},
    {"lightgbm", kWorkers, "worker", "", "", kNamesAll, &lightgbm_env, &lightgbm_files},
    {"mpi", kWorkers, "worker", "", "", kNamesAll, &mpi_env, &mpi_files, "dlrun_mpi"},
    {"jax", kWorkers, "worker", "", "", kNamesNone, &jax_env, nullptr},
    {"generic", {}, "worker", "ps", "", kNamesNone, &generic_env, nullptr},
};

/// The task's own cores; a program's own word, and the submitter's, go before.
void add_threads(const Gang& gang, std::size_t task, EnvList& env) {
  constexpr std::string_view kName = "OMP_NUM_THREADS";
  const RoleSpec& role = gang.role_of(task);
  const auto sets = [&](const EnvList& list) {
    return std::any_of(list.begin(), list.end(), [&](const auto& e) { return e.first == kName; });
  };
  if (sets(role.env)) return;
  if (gang.spec.env_policy == EnvPolicy::kInherit && sets(gang.spec.submit_env)) return;
  env.emplace_back(kName,
                   std::to_string(std::max<std::int64_t>(1, role.resources.cpu_milli / 1000)));
}

const Adapter* adapter_of(const Gang& gang, std::size_t task) {
  if (gang.role_of(task).program != RoleProgram::kProcess) return nullptr;
  const Adapter* adapter = find(gang.spec.framework);
  if (adapter == nullptr || adapter->roles.empty()) return adapter;
  return adapter->row_of(gang.role_of(task).name) != nullptr ? adapter : nullptr;
}

}  // namespace

TaskIndex::Range Gang::range_of(std::string_view role) const {
  for (std::size_t r = 0; r < spec.roles.size(); ++r)
    if (spec.roles[r].name == role && spec.roles[r].program == RoleProgram::kProcess)
      return index.range_of(r);
  return {};
}

const RoleRow* Adapter::row_of(std::string_view role) const {
  const auto row = std::find_if(roles.begin(), roles.end(),
                                [&](const RoleRow& known) { return known.role == role; });
  return row == roles.end() ? nullptr : &*row;
}

std::span<const Adapter> adapters() { return kAdapters; }

const Adapter* find(std::string_view name) {
  const auto found = std::find_if(std::begin(kAdapters), std::end(kAdapters),
                                  [&](const Adapter& adapter) { return adapter.name == name; });
  return found == std::end(kAdapters) ? nullptr : found;
}

std::string names() {
  std::string out;
  for (const Adapter& adapter : kAdapters) {
    if (!out.empty()) out += ", ";
    out += adapter.name;
  }
  return out;
}

EnvList env_of(const Gang& gang, std::size_t task) {
  const Adapter* adapter = adapter_of(gang, task);
  if (adapter == nullptr) return {};
  EnvList env = adapter->env(gang, task);
  add_threads(gang, task, env);
  return env;
}

std::vector<TaskFile> files_of(const Gang& gang, std::size_t task) {
  const Adapter* adapter = adapter_of(gang, task);
  return adapter != nullptr && adapter->files != nullptr ? adapter->files(gang, task)
                                                         : std::vector<TaskFile>{};
}

bool wants_secret(const JobSpec& spec) {
  const Adapter* adapter = find(spec.framework);
  return adapter != nullptr && !adapter->runner.empty();
}

std::uint16_t port_of(const PlacedTask& task) {
  return task.slot.ports.empty() ? std::uint16_t{0} : task.slot.ports[0];
}

std::string endpoint(const PlacedTask& task) {
  const bool v6 = task.address.find(':') != std::string::npos;
  return (v6 ? "[" + task.address + "]" : task.address) + ":" + std::to_string(port_of(task));
}

std::vector<Host> hosts_of(const Gang& gang, std::string_view role) {
  std::vector<Host> hosts;
  std::unordered_map<std::string_view, std::size_t> place;
  const TaskIndex::Range range = gang.range_of(role);
  for (std::size_t i = range.first; i < range.end; ++i) {
    const auto [at, is_new] = place.emplace(gang.tasks[i].address, hosts.size());
    if (is_new) hosts.push_back({gang.tasks[i].address, 0});
    ++hosts[at->second].tasks;
  }
  return hosts;
}

}  // namespace dlrun::cluster::framework

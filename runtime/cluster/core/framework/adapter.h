#pragma once
/// runtime/cluster/core/framework/adapter.h: what a job of a framework needs that others do not:
/// the ports, end rules, order and extra tasks of its roles, the environment and the files of a
/// task. An adapter is a row of data and two pure functions; the table is in adapters.cc.
/// Addresses and ports are those of the placement: leases of the cluster, literal IPs.
/// Sources: what each framework documents, named at its function.
/// Cost: O(tasks) per call where a task learns of all others (TensorFlow, LightGBM, MPI), else
/// O(roles).
/// Threads: pure functions over constants.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cluster/core/event.h"
#include "runtime/cluster/core/task_index.h"

namespace dlrun::cluster::framework {

/// A placed gang as adapters see it. Borrows everything.
struct Gang {
  JobId job;
  std::uint32_t restarts = 0;  ///< gang starts before this one that failed
  const JobSpec& spec;
  const std::vector<PlacedTask>& tasks;
  const TaskIndex& index;

  /// Tasks of the role of this name that are processes: shard hosts belong to no framework.
  TaskIndex::Range range_of(std::string_view role) const;
  std::size_t size_of(std::string_view role) const { return range_of(role).size(); }
  const RoleSpec& role_of(std::size_t task) const { return spec.roles[index.role_at(task)]; }
};

/// A task that the framework needs and nobody writes into a job.
enum class Extra : std::uint8_t {
  kNo,
  kScheduler,  ///< the workers' program once more, when the job has servers
  kTracker,    ///< dlrun's own program (python/dlrun/tracker.py), when it has none
};

struct RoleRow {
  std::string_view role;
  EndRule end = EndRule::kAll;
  std::array<std::string_view, 2> after = {};  ///< of these, those that the job has
  std::uint32_t count_max = 65'536;
  Extra extra = Extra::kNo;
  std::optional<Duration> linger;  ///< absent = the rule's
  std::int32_t ports = 1;          ///< at least
};

struct Adapter {
  std::string_view name;              ///< in job files and after --as
  std::span<const RoleRow> roles;     ///< empty: roles of any name, by their kind
  std::string_view workers, servers;  ///< what -n and --ps count; "" = it has none
  std::string_view leader;            ///< the first of -n has this role; "" = none
  std::uint32_t tasks_max;            ///< of its roles together: a variable holds 128 KiB
  EnvList (*env)(const Gang& gang, std::size_t task);
  std::vector<TaskFile> (*files)(const Gang& gang, std::size_t task);  ///< nullptr = none
  /// A module of dlrun's own that runs the workers' programs ("python3 -m RUNNER PROGRAM ..."); its
  /// tasks know each other by a secret of the job. "" = none.
  std::string_view runner = {};

  const RoleRow* row_of(std::string_view role) const;  ///< nullptr when it does not know it
};

/// In the order of the documentation.
std::span<const Adapter> adapters();
const Adapter* find(std::string_view name);  ///< nullptr when there is none
/// "tensorflow, pytorch, ...", for messages.
std::string names();

/// For gang.tasks[task]: the variables of its framework, with OMP_NUM_THREADS; empty when the job
/// names none that is known, or the task is no member of it (a board, a shard host).
EnvList env_of(const Gang& gang, std::size_t task);
std::vector<TaskFile> files_of(const Gang& gang, std::size_t task);
/// Whether the tasks of the job want a secret in common: then they find it in DLRUN_SECRET.
bool wants_secret(const JobSpec& spec);

}  // namespace dlrun::cluster::framework

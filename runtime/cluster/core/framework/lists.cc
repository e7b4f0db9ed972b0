// Frameworks that want a list of machines, and those that want one address. Sources: LightGBM's
// "Distributed Learning Guide" (machine_list_filename: lines of "ip port"; machines: "ip:port,...";
// local_listen_port, num_machines; a machine finds itself by its own address and port), Open MPI's
// mpirun(1) (hostfile: "host slots=N"; --host host:N,...) and its MCA parameter
// orte_default_hostfile (the rest of what Open MPI is told: python/dlrun_mpi.py), JAX's
// jax.distributed.initialize (JAX_COORDINATOR_ADDRESS). LIGHTGBM_NUM_MACHINE,
// LIGHTGBM_LOCAL_LISTEN_PORT and the name of the file are XLearning's.
#include "runtime/cluster/core/framework/parts.h"

namespace dlrun::cluster::framework {

EnvList lightgbm_env(const Gang& gang, std::size_t task) {
  const TaskIndex::Range range = gang.range_of("worker");
  std::string machines;
  for (std::size_t i = range.first; i < range.end; ++i)
    machines += (machines.empty() ? "" : ",") + endpoint(gang.tasks[i]);
  return {
      {"LIGHTGBM_NUM_MACHINE", std::to_string(range.size())},
      {"LIGHTGBM_LOCAL_LISTEN_PORT", std::to_string(port_of(gang.tasks[task]))},
      {"LIGHTGBM_MACHINES", machines},
  };
}

std::vector<TaskFile> lightgbm_files(const Gang& gang, std::size_t) {
  const TaskIndex::Range range = gang.range_of("worker");
  std::string lines;
  for (std::size_t i = range.first; i < range.end; ++i)
    lines += gang.tasks[i].address + ' ' + std::to_string(port_of(gang.tasks[i])) + '\n';
  return {{"lightGBMlist.txt", lines, {"LIGHTGBM_MACHINE_LIST"}}};
}

EnvList mpi_env(const Gang& gang, std::size_t) {
  std::string hosts;
  for (const Host& host : hosts_of(gang, "worker"))
    hosts += (hosts.empty() ? "" : ",") + host.address + ':' + std::to_string(host.tasks);
  const TaskIndex::Range range = gang.range_of("worker");
  std::string peers;
  for (std::size_t i = range.first; i < range.end; ++i)
    peers += (peers.empty() ? "" : ",") + endpoint(gang.tasks[i]);
  return {{"DLRUN_HOSTS", hosts}, {"DLRUN_PEERS", peers}};
}

std::vector<TaskFile> mpi_files(const Gang& gang, std::size_t) {
  std::string lines;
  for (const Host& host : hosts_of(gang, "worker"))
    lines += host.address + " slots=" + std::to_string(host.tasks) + '\n';
  return {{"hostfile.txt", lines, {"DLRUN_HOSTFILE", "OMPI_MCA_orte_default_hostfile"}}};
}

EnvList jax_env(const Gang& gang, std::size_t task) {
  const TaskIndex::Range range = gang.range_of("worker");
  return {
      {"JAX_COORDINATOR_ADDRESS", endpoint(gang.tasks[range.first])},
      {"JAX_NUM_PROCESSES", std::to_string(range.size())},
      {"JAX_PROCESS_ID", std::to_string(gang.tasks[task].task.rank)},
  };
}

EnvList generic_env(const Gang&, std::size_t) { return {}; }

}  // namespace dlrun::cluster::framework

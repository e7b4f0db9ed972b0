// PyTorch. Source: "torchrun (Elastic Launch)", section "Environment Variables", and what
// torch.distributed.elastic's local agent sets beside it. RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
// and MASTER_PORT come from rendezvous.h. A group of torchrun is a node here.
#include "runtime/cluster/core/framework/parts.h"

namespace dlrun::cluster::framework {

namespace {

/// Under torchrun a rank sees all GPUs of its node and takes cuda:LOCAL_RANK; here all that its
/// role leased there, in the order of the ranks.
std::string gpus_of_node(const Gang& gang, std::size_t task) {
  std::string text;
  if (gang.tasks[task].slot.gpu_uuids.empty()) return text;
  const TaskIndex::Range range = gang.range_of(gang.tasks[task].task.role);
  for (std::size_t i = range.first; i < range.end; ++i) {
    if (gang.index.group(i) != gang.index.group(task)) continue;
    for (const std::string& uuid : gang.tasks[i].slot.gpu_uuids)
      text += (text.empty() ? "" : ",") + uuid;
  }
  return text;
}

}  // namespace

EnvList pytorch_env(const Gang& gang, std::size_t task) {
  const TaskId& id = gang.tasks[task].task;
  const std::string world = std::to_string(gang.size_of(id.role));
  EnvList env = {
      {"LOCAL_WORLD_SIZE", std::to_string(gang.index.local_size(task))},
      {"GROUP_RANK", std::to_string(gang.index.group(task))},
      {"GROUP_WORLD_SIZE", std::to_string(gang.index.groups(task))},
      {"ROLE_NAME", id.role},
      {"ROLE_RANK", std::to_string(id.rank)},
      {"ROLE_WORLD_SIZE", world},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(gang.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(gang.spec.restart.restarts_max)},
      {"TORCHELASTIC_RUN_ID", to_string(gang.job)},
      // torchrun's agent holds the store at MASTER_PORT itself; here rank 0 makes it.
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
  };
  if (gang.index.local_size(task) > 1)
    if (std::string gpus = gpus_of_node(gang, task); !gpus.empty())
      env.emplace_back("CUDA_VISIBLE_DEVICES", std::move(gpus));
  return env;
}

}  // namespace dlrun::cluster::framework

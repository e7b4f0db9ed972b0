// TensorFlow. Sources: tf.distribute.cluster_resolver.TFConfigClusterResolver (TF_CONFIG:
// "cluster", "task"), the guide "Distributed training with TensorFlow" (the evaluator is a task of
// its own and in no cluster), tf.estimator.RunConfig (a chief is in every cluster that is not
// empty). TF_CLUSTER_DEF, TF_ROLE and TF_INDEX are what XLearning's programs hand to
// tf.train.ClusterSpec and Server.
#include "runtime/cluster/core/framework/parts.h"

namespace dlrun::cluster::framework {

namespace {

constexpr std::string_view kInCluster[] = {"chief", "worker", "ps"};

/// {"chief":["a:1"],"worker":["b:2","c:3"]}; roles that the job does not have are left out.
std::string cluster_of(const Gang& gang) {
  std::string text;
  for (const std::string_view role : kInCluster) {
    const TaskIndex::Range range = gang.range_of(role);
    if (range.size() == 0) continue;
    text += text.empty() ? "{" : ",";
    text += '"' + std::string(role) + "\":[";
    for (std::size_t i = range.first; i < range.end; ++i)
      text += (i == range.first ? "\"" : ",\"") + endpoint(gang.tasks[i]) + '"';
    text += ']';
  }
  return text.empty() ? "{}" : text + '}';
}

/// One process without servers and evaluator trains by itself, and wants to be told nothing.
bool alone(const Gang& gang) {
  return gang.size_of("chief") + gang.size_of("worker") == 1 && gang.size_of("ps") == 0 &&
         gang.size_of("evaluator") == 0;
}

}  // namespace

EnvList tensorflow_env(const Gang& gang, std::size_t task) {
  if (alone(gang)) return {};
  const TaskId& id = gang.tasks[task].task;
  const std::string cluster = cluster_of(gang);
  const std::string rank = std::to_string(id.rank);
  return {
      {"TF_CONFIG", "{\"cluster\":" + cluster + ",\"task\":{\"type\":\"" + id.role +
                        "\",\"index\":" + rank + "}}"},
      {"TF_CLUSTER_DEF", cluster},
      {"TF_ROLE", id.role},
      {"TF_INDEX", rank},
  };
}

}  // namespace dlrun::cluster::framework

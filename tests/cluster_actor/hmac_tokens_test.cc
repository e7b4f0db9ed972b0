#include "runtime/cluster/actor/hmac_tokens.h"

#include <gtest/gtest.h>

namespace dlrun::cluster {
namespace {

TEST(LogProof, ShowsOneTaskOfOneNodeUnderOneEpoch) {
  const HmacTokens tokens("key of the cluster"), others("another key");
  const NodeId node{"n0"};
  const TaskId task{JobId{3}, "worker", 0, Generation{1}};
  const Epoch epoch{1, 2};
  // What the agent was given with the task, and nothing else, makes the proof.
  const std::string proof = log_proof(tokens.issue(task_purpose(task), epoch), node);
  EXPECT_TRUE(may_ship(tokens, node, task, epoch, proof));
  EXPECT_FALSE(may_ship(tokens, NodeId{"n1"}, task, epoch, proof)) << "another node";
  EXPECT_FALSE(may_ship(tokens, node, TaskId{JobId{3}, "worker", 1, Generation{1}}, epoch, proof))
      << "another task";
  EXPECT_FALSE(may_ship(tokens, node, TaskId{JobId{3}, "worker", 0, Generation{2}}, epoch, proof))
      << "another generation";
  EXPECT_FALSE(may_ship(tokens, node, task, Epoch{1, 3}, proof)) << "another epoch";
  EXPECT_FALSE(may_ship(others, node, task, epoch, proof)) << "another cluster";
  EXPECT_FALSE(may_ship(tokens, node, task, epoch, "")) << "no proof";
}

}  // namespace
}  // namespace dlrun::cluster

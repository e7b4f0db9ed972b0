#include "runtime/cluster/core/rendezvous.h"

#include "tests/cluster/harness.h"

namespace dlrun::cluster {
namespace {

/// Three workers: two share a node; ports as given.
JobRecord record_of(std::vector<std::vector<std::uint16_t>> ports) {
  const JobSpec spec = spec_of(static_cast<std::uint32_t>(ports.size()));
  JobRecord record(JobSubmitted{JobId{7}, spec, "", 1, {}}, std::make_shared<const JobSpec>(spec));
  JobPlaced placed = placed_of(spec, JobId{7}, Generation{1}, Epoch{1, 1});
  for (std::size_t i = 0; i < ports.size(); ++i) {
    placed.tasks[i].slot.ports = ports[i];
    if (i > 0) placed.tasks[i].slot.node = NodeId{"shared"};
  }
  record.apply(placed);
  return record;
}

std::string value_of(const EnvList& env, const std::string& key) {
  for (const auto& [name, value] : env)
    if (name == key) return value;
  return "(unset)";
}

TEST(Rendezvous, RanksAreCountedInTheRoleAndLocalRanksOnTheNode) {
  const JobRecord record = record_of({{30001}, {30002, 30003}, {30004}});
  const EnvList env = rendezvous_of(record, 2);
  EXPECT_EQ(value_of(env, "DLRUN_JOB"), "j7");
  EXPECT_EQ(value_of(env, "RANK"), "2");
  EXPECT_EQ(value_of(env, "INDEX"), "2");
  EXPECT_EQ(value_of(env, "WORLD_SIZE"), "3");
  EXPECT_EQ(value_of(env, "LOCAL_RANK"), "1");
  EXPECT_EQ(value_of(env, "MASTER_ADDR"), "10.0.0.0");
  EXPECT_EQ(value_of(env, "MASTER_PORT"), "30001");
  EXPECT_EQ(value_of(rendezvous_of(record, 1), "DLRUN_PORTS"), "30002,30003");
  EXPECT_EQ(value_of(rendezvous_of(record, 0), "LOCAL_RANK"), "0");
}

TEST(Rendezvous, WithoutPortsNoneAreNamed) {
  const EnvList env = rendezvous_of(record_of({{}}), 0);
  EXPECT_EQ(value_of(env, "MASTER_PORT"), "(unset)");
  EXPECT_EQ(value_of(env, "DLRUN_PORTS"), "(unset)");
}

TEST(Rendezvous, AJobOfAFrameworkGetsItsVariablesAndFilesWithEachStart) {
  JobSpec spec = spec_of(2);
  spec.framework = "lightgbm";
  spec.restart = {3, {Cause::kExit}};
  JobHarness h(spec);
  h.place();
  for (const std::uint32_t rank : {0u, 1u})
    h.update("n" + std::to_string(rank), h.task("worker", rank), TaskState::kPrepared);
  const std::vector<StartTask> started = h.sent_of<StartTask>();
  ASSERT_EQ(started.size(), 2u);
  EXPECT_EQ(value_of(started[1].env, "LIGHTGBM_LOCAL_LISTEN_PORT"), "20001");
  EXPECT_EQ(value_of(started[1].env, "RANK"), "1");
  ASSERT_EQ(started[1].files.size(), 1u);
  EXPECT_EQ(started[1].files[0].bytes, "10.0.0.0 20000\n10.0.0.1 20001\n");
}

TEST(Rendezvous, ATaskThatStartsAtOnceFindsThemToo) {
  JobSpec spec = spec_of(1);
  spec.framework = "mpi";
  JobHarness h(spec);
  h.place();
  ASSERT_EQ(h.sent_of<PrepareTask>().size(), 1u);
  const PrepareTask prepare = h.sent_of<PrepareTask>()[0];
  EXPECT_TRUE(prepare.start_at_once);
  EXPECT_EQ(value_of(prepare.env, "DLRUN_HOSTS"), "10.0.0.0:1");
  ASSERT_EQ(prepare.files.size(), 1u);
  EXPECT_EQ(prepare.files[0].bytes, "10.0.0.0 slots=1\n");
}

TEST(Rendezvous, TasksOfAJobOfMpiShareASecretThatIsNoTasksToken) {
  JobSpec spec = spec_of(2);
  spec.framework = "mpi";
  JobHarness h(spec);
  h.place();
  for (const std::uint32_t rank : {0u, 1u})
    h.update("n" + std::to_string(rank), h.task("worker", rank), TaskState::kPrepared);
  const std::vector<StartTask> started = h.sent_of<StartTask>();
  ASSERT_EQ(started.size(), 2u);
  const std::string secret = value_of(started[0].env, "DLRUN_SECRET");
  EXPECT_EQ(secret.size(), 64u);
  EXPECT_EQ(value_of(started[1].env, "DLRUN_SECRET"), secret);
  EXPECT_NE(std::stoi(secret.substr(0, 2), nullptr, 16), h.sent_of<PrepareTask>()[0].token[0]);
}

TEST(Rendezvous, ARestartIsCountedForTheFrameworkAMoveOfPortsIsNot) {
  JobSpec spec = spec_of(1);
  spec.framework = "pytorch";
  JobRecord record(JobSubmitted{JobId{7}, spec, "", 1, {}}, std::make_shared<const JobSpec>(spec));
  record.generation = Generation{4};
  record.moved = 1;
  record.preempted = 1;
  record.apply(placed_of(spec, JobId{7}, Generation{4}, Epoch{1, 1}));
  EXPECT_EQ(value_of(rendezvous_of(record, 0), "TORCHELASTIC_RESTART_COUNT"), "1");
}

TEST(Rendezvous, AnIpv6AddressStaysBare) {
  JobRecord record = record_of({{30001}, {30002}});
  record.tasks[0].address = "fd00::7";
  EXPECT_EQ(value_of(rendezvous_of(record, 1), "MASTER_ADDR"), "fd00::7");
}

}  // namespace
}  // namespace dlrun::cluster

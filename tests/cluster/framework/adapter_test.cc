// What each framework documents, against what its adapter hands out.

#include "runtime/cluster/core/framework/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/cluster/framework/gang.h"

namespace dlrun::cluster::framework {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Pair;
using testing::UnorderedElementsAre;

std::set<std::string> names_in(const EnvList& env) {
  std::set<std::string> out;
  for (const auto& [name, value] : env) EXPECT_TRUE(out.insert(name).second) << name << " twice";
  return out;
}

// ---- TensorFlow

TEST(TensorFlow, TfConfigHasTheClusterAndTheTaskOfEachRole) {
  const PlacedJob job(job_of("tensorflow", {{"chief", 1}, {"worker", 2}, {"ps", 1}}), {1, 2, 3, 4});
  const std::string cluster =
      R"({"chief":["10.0.0.1:20000"],"worker":["10.0.0.2:20001","10.0.0.3:20002"],"ps":["10.0.0.4:20003"]})";
  EXPECT_EQ(job.value("chief", 0, "TF_CONFIG"),
            R"({"cluster":)" + cluster + R"(,"task":{"type":"chief","index":0}})");
  EXPECT_EQ(job.value("worker", 1, "TF_CONFIG"),
            R"({"cluster":)" + cluster + R"(,"task":{"type":"worker","index":1}})");
  EXPECT_EQ(job.value("ps", 0, "TF_CONFIG"),
            R"({"cluster":)" + cluster + R"(,"task":{"type":"ps","index":0}})");
  EXPECT_EQ(job.value("worker", 1, "TF_CLUSTER_DEF"), cluster);
  EXPECT_EQ(job.value("worker", 1, "TF_ROLE"), "worker");
  EXPECT_EQ(job.value("worker", 1, "TF_INDEX"), "1");
}

TEST(TensorFlow, TheEvaluatorIsATaskOfItsOwnAndInNoCluster) {
  const PlacedJob job(job_of("tensorflow", {{"chief", 1}, {"evaluator", 1}}), {1, 2});
  EXPECT_EQ(job.value("evaluator", 0, "TF_CONFIG"),
            R"({"cluster":{"chief":["10.0.0.1:20000"]},"task":{"type":"evaluator","index":0}})");
  EXPECT_EQ(job.value("chief", 0, "TF_CLUSTER_DEF"), R"({"chief":["10.0.0.1:20000"]})");
}

TEST(TensorFlow, OneProcessIsToldNothing) {
  for (const char* role : {"chief", "worker"}) {
    const PlacedJob job(job_of("tensorflow", {{role, 1}}));
    EXPECT_EQ(job.value(role, 0, "TF_CONFIG"), "(unset)");
    EXPECT_EQ(job.value(role, 0, "TF_ROLE"), "(unset)");
  }
}

TEST(TensorFlow, AnIpv6AddressStandsInBrackets) {
  PlacedJob job(job_of("tensorflow", {{"worker", 2}}), {1, 2});
  job.tasks[0].address = "fd00::1";
  EXPECT_EQ(job.value("worker", 0, "TF_CLUSTER_DEF"),
            R"({"worker":["[fd00::1]:20000","10.0.0.2:20001"]})");
}

TEST(TensorFlow, ABoardAndShardsOfDlrunAreInNoCluster) {
  JobSpec spec = job_of("tensorflow", {{"worker", 2}, {"board", 1}, {"ps", 1}});
  spec.roles[1].kind = RoleKind::kService;
  spec.roles[2].program = RoleProgram::kShardHost;
  spec.roles[2].argv.clear();
  const PlacedJob job(spec, {1, 2, 3, 4});
  EXPECT_THAT(job.problems, IsEmpty());
  EXPECT_EQ(job.value("worker", 0, "TF_CLUSTER_DEF"),
            R"({"worker":["10.0.0.1:20000","10.0.0.2:20001"]})");
  EXPECT_THAT(job.env("board"), IsEmpty());
  EXPECT_THAT(job.env("ps"), IsEmpty());
}

// ---- PyTorch

TEST(PyTorch, EveryVariableThatTorchrunDocumentsIsThere) {
  // The rest of its list (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT) every task has:
  // rendezvous_test.
  JobSpec spec = job_of("pytorch", {{"worker", 4}});
  spec.restart.restarts_max = 5;
  PlacedJob job(spec, {1, 1, 2, 2});
  job.restarts = 2;
  EXPECT_THAT(
      job.env("worker", 3),
      UnorderedElementsAre(
          Pair("LOCAL_WORLD_SIZE", "2"), Pair("GROUP_RANK", "1"), Pair("GROUP_WORLD_SIZE", "2"),
          Pair("ROLE_NAME", "worker"), Pair("ROLE_RANK", "3"), Pair("ROLE_WORLD_SIZE", "4"),
          Pair("TORCHELASTIC_RESTART_COUNT", "2"), Pair("TORCHELASTIC_MAX_RESTARTS", "5"),
          Pair("TORCHELASTIC_RUN_ID", "j7"), Pair("TORCHELASTIC_USE_AGENT_STORE", "False"),
          Pair("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"), Pair("OMP_NUM_THREADS", "1")));
}

TEST(PyTorch, GroupsAreNodesInTheOrderOfTheirLowestRanksOfAnySize) {
  const PlacedJob job(job_of("pytorch", {{"worker", 6}}), {9, 4, 4, 4, 9, 5});
  const char* groups[] = {"0", "1", "1", "1", "0", "2"};
  const char* sizes[] = {"2", "3", "3", "3", "2", "1"};
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(job.value("worker", rank, "GROUP_RANK"), groups[rank]) << rank;
    EXPECT_EQ(job.value("worker", rank, "LOCAL_WORLD_SIZE"), sizes[rank]) << rank;
    EXPECT_EQ(job.value("worker", rank, "GROUP_WORLD_SIZE"), "3");
  }
}

TEST(PyTorch, RanksOfANodeSeeAllItsLeasedGpusSoThatLocalRankPicksTheirOwn) {
  PlacedJob job(job_of("pytorch", {{"worker", 3}}), {1, 2, 1});
  job.tasks[0].slot.gpu_uuids = {"GPU-a"};
  job.tasks[1].slot.gpu_uuids = {"GPU-c"};
  job.tasks[2].slot.gpu_uuids = {"GPU-b"};
  EXPECT_EQ(job.value("worker", 0, "CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b");
  EXPECT_EQ(job.value("worker", 2, "CUDA_VISIBLE_DEVICES"), "GPU-a,GPU-b");
  EXPECT_EQ(job.value("worker", 1, "CUDA_VISIBLE_DEVICES"), "(unset)") << "the agent sets its own";
}

// ---- DMLC

TEST(XGBoost, WorkersLearnOfTheTrackerThatTheJobOwns) {
  const PlacedJob job(job_of("xgboost", {{"worker", 2}}), {1, 2, 3});
  ASSERT_EQ(job.spec.roles.size(), 2u);
  EXPECT_EQ(job.spec.roles[1].name, "tracker");
  EXPECT_EQ(job.spec.roles[1].ready, ReadyWhen::kTold);
  EXPECT_THAT(job.spec.roles[0].after, testing::ElementsAre("tracker"));
  EXPECT_THAT(job.env("worker", 1),
              UnorderedElementsAre(Pair("DMLC_TRACKER_URI", "10.0.0.3"),
                                   Pair("DMLC_TRACKER_PORT", "20002"), Pair("DMLC_NUM_WORKER", "2"),
                                   Pair("DMLC_NUM_SERVER", "0"), Pair("DMLC_ROLE", "worker"),
                                   Pair("DMLC_TASK_ID", "1"), Pair("OMP_NUM_THREADS", "1")));
  EXPECT_EQ(job.value("tracker", 0, "DMLC_NUM_WORKER"), "2");
  EXPECT_EQ(job.value("tracker", 0, "DMLC_TASK_ID"), "(unset)");
}

TEST(MxNet, SchedulerServersAndWorkersLearnWhatPsLiteDocuments) {
  const PlacedJob job(job_of("mxnet", {{"worker", 2}, {"server", 2}}), {1, 2, 3, 4, 5});
  ASSERT_EQ(job.spec.roles.size(), 3u);
  EXPECT_EQ(job.spec.roles[2].name, "scheduler");
  EXPECT_EQ(job.spec.roles[2].argv, job.spec.roles[0].argv) << "the same program";
  EXPECT_THAT(job.env("worker", 1),
              UnorderedElementsAre(Pair("DMLC_PS_ROOT_URI", "10.0.0.5"),
                                   Pair("DMLC_PS_ROOT_PORT", "20004"), Pair("DMLC_NUM_WORKER", "2"),
                                   Pair("DMLC_NUM_SERVER", "2"), Pair("DMLC_ROLE", "worker"),
                                   Pair("DMLC_NODE_HOST", "10.0.0.2"), Pair("DMLC_WORKER_ID", "1"),
                                   Pair("PORT", "20001"), Pair("OMP_NUM_THREADS", "1")));
  EXPECT_THAT(job.env("server", 0),
              IsSupersetOf({Pair("DMLC_ROLE", "server"), Pair("DMLC_SERVER_ID", "0"),
                            Pair("DMLC_NODE_HOST", "10.0.0.3"), Pair("PORT", "20002")}));
  EXPECT_EQ(job.value("server", 0, "DMLC_WORKER_ID"), "(unset)");
  EXPECT_THAT(job.env("scheduler"), Contains(Pair("DMLC_ROLE", "scheduler")));
  EXPECT_EQ(job.value("scheduler", 0, "PORT"), "(unset)") << "it listens at DMLC_PS_ROOT_PORT";
}

TEST(MxNet, WithoutServersThereIsNoSchedulerAndNoVariableOfDmlc) {
  const PlacedJob job(job_of("mxnet", {{"worker", 1}}));
  EXPECT_EQ(job.spec.roles.size(), 1u);
  for (const auto& [name, value] : job.env("worker")) EXPECT_THAT(name, Not(HasSubstr("DMLC")));
}

TEST(Dmlc, HasASchedulerWithServersAndATrackerWithout) {
  const PlacedJob with(job_of("dmlc", {{"worker", 1}, {"server", 1}}));
  EXPECT_EQ(with.spec.roles.back().name, "scheduler");
  EXPECT_NE(with.value("worker", 0, "DMLC_PS_ROOT_URI"), "(unset)");
  EXPECT_EQ(with.value("worker", 0, "DMLC_TRACKER_URI"), "(unset)");
  const PlacedJob without(job_of("dmlc", {{"worker", 1}}));
  EXPECT_EQ(without.spec.roles.back().name, "tracker");
  EXPECT_NE(without.value("worker", 0, "DMLC_TRACKER_URI"), "(unset)");
  EXPECT_EQ(without.value("worker", 0, "DMLC_PS_ROOT_URI"), "(unset)");
}

// ---- lists of machines

TEST(LightGbm, TheMachineListIsWhatItsCommandLineReadsAndTheVariableWhatItsPackageTakes) {
  const PlacedJob job(job_of("lightgbm", {{"worker", 3}}), {1, 1, 2});
  ASSERT_EQ(job.files("worker", 1).size(), 1u);
  const TaskFile file = job.files("worker", 1)[0];
  EXPECT_EQ(file.name, "lightGBMlist.txt");
  EXPECT_EQ(file.bytes, "10.0.0.1 20000\n10.0.0.1 20001\n10.0.0.2 20002\n");
  EXPECT_THAT(file.variables, testing::ElementsAre("LIGHTGBM_MACHINE_LIST"));
  EXPECT_THAT(job.env("worker", 1),
              UnorderedElementsAre(
                  Pair("LIGHTGBM_NUM_MACHINE", "3"), Pair("LIGHTGBM_LOCAL_LISTEN_PORT", "20001"),
                  Pair("LIGHTGBM_MACHINES", "10.0.0.1:20000,10.0.0.1:20001,10.0.0.2:20002"),
                  Pair("OMP_NUM_THREADS", "1")));
}

TEST(Mpi, TheHostFileHasALinePerNodeWithItsSlots) {
  const PlacedJob job(job_of("mpi", {{"worker", 5}}), {1, 2, 1, 3, 1});
  ASSERT_EQ(job.files("worker", 4).size(), 1u);
  EXPECT_EQ(job.files("worker", 4)[0].bytes,
            "10.0.0.1 slots=3\n10.0.0.2 slots=1\n10.0.0.3 slots=1\n");
  EXPECT_THAT(job.files("worker", 4)[0].variables,
              testing::ElementsAre("DLRUN_HOSTFILE", "OMPI_MCA_orte_default_hostfile"));
  EXPECT_EQ(job.value("worker", 0, "DLRUN_HOSTS"), "10.0.0.1:3,10.0.0.2:1,10.0.0.3:1");
  EXPECT_EQ(job.value("worker", 4, "DLRUN_PEERS"),
            "10.0.0.1:20000,10.0.0.2:20001,10.0.0.1:20002,10.0.0.3:20003,10.0.0.1:20004");
}

TEST(Mpi, NodesOfOneMachineAreOneLineForOpenMpiKnowsAMachineByItsAddress) {
  PlacedJob job(job_of("mpi", {{"worker", 3}}), {1, 2, 3});
  for (PlacedTask& task : job.tasks) task.address = "127.0.0.1";
  EXPECT_EQ(job.files("worker", 0)[0].bytes, "127.0.0.1 slots=3\n");
  EXPECT_EQ(job.value("worker", 0, "DLRUN_HOSTS"), "127.0.0.1:3");
}

TEST(Mpi, EveryTaskIsASlotThatRunsTheProgramAndNeedsASecret) {
  const PlacedJob job(job_of("mpi", {{"worker", 2}}));
  EXPECT_THAT(job.spec.roles[0].argv, testing::ElementsAre("python3", "-m", "dlrun_mpi", "train"));
  EXPECT_TRUE(wants_secret(job.spec));
  EXPECT_FALSE(wants_secret(job_of("pytorch", {{"worker", 2}})));
  EXPECT_FALSE(wants_secret(job_of("", {{"worker", 2}})));
}

TEST(Jax, TheCoordinatorIsRankZeroAndEachKnowsItsNumber) {
  const PlacedJob job(job_of("jax", {{"worker", 2}}), {1, 2});
  EXPECT_THAT(job.env("worker", 1),
              UnorderedElementsAre(Pair("JAX_COORDINATOR_ADDRESS", "10.0.0.1:20000"),
                                   Pair("JAX_NUM_PROCESSES", "2"), Pair("JAX_PROCESS_ID", "1"),
                                   Pair("OMP_NUM_THREADS", "1")));
}

// ---- all

TEST(Adapters, ThreadsAreTheCoresGivenUnlessTheJobOrTheSubmitterSaysOtherwise) {
  JobSpec spec = job_of("generic", {{"worker", 1}});
  EXPECT_EQ(PlacedJob(spec).value("worker", 0, "OMP_NUM_THREADS"), "1");
  spec.roles[0].resources.cpu_milli = 500;
  EXPECT_EQ(PlacedJob(spec).value("worker", 0, "OMP_NUM_THREADS"), "1");
  spec.roles[0].resources.cpu_milli = 3900;
  EXPECT_EQ(PlacedJob(spec).value("worker", 0, "OMP_NUM_THREADS"), "3");
  spec.submit_env = {{"OMP_NUM_THREADS", "7"}};
  EXPECT_EQ(PlacedJob(spec).value("worker", 0, "OMP_NUM_THREADS"), "(unset)") << "it is there";
  spec.env_policy = EnvPolicy::kClean;
  EXPECT_EQ(PlacedJob(spec).value("worker", 0, "OMP_NUM_THREADS"), "3");
  spec.roles[0].env = {{"OMP_NUM_THREADS", "2"}};
  EXPECT_EQ(PlacedJob(spec).value("worker", 0, "OMP_NUM_THREADS"), "(unset)") << "it is there";
}

TEST(Adapters, AJobWithoutAFrameworkAndAnUnknownOneInAnOldRecordGetNothing) {
  EXPECT_THAT(PlacedJob(job_of("", {{"worker", 2}})).env("worker"), IsEmpty());
  const PlacedJob unknown(job_of("chainer", {{"worker", 2}}));
  EXPECT_THAT(unknown.env("worker"), IsEmpty());
  EXPECT_THAT(unknown.files("worker"), IsEmpty());
}

TEST(Adapters, EveryOneOfThemNamesNoVariableTwiceWhateverRolesTheJobHas) {
  for (const Adapter& adapter : adapters()) {
    std::vector<std::pair<std::string, std::uint32_t>> roles;
    for (const RoleRow& row : adapter.roles)
      if (row.extra == Extra::kNo) roles.emplace_back(row.role, row.count_max > 1 ? 3 : 1);
    if (roles.empty()) roles = {{"worker", 3}};
    const PlacedJob job(job_of(std::string(adapter.name), roles), {1, 2, 1});
    EXPECT_THAT(job.problems, IsEmpty()) << adapter.name;
    for (const RoleSpec& role : job.spec.roles) {
      std::set<std::string> names = names_in(job.env(role.name));
      for (const TaskFile& file : job.files(role.name))
        for (const std::string& name : file.variables)
          EXPECT_TRUE(names.insert(name).second) << adapter.name << ' ' << name;
    }
  }
}

}  // namespace
}  // namespace dlrun::cluster::framework

// Each framework trains a real model by its job file in examples/, across agents. The bounds lie
// below what the programs reach by themselves, under their own launchers; examples/README.md.

#include "tests/frameworks/training.h"

#include <filesystem>

namespace dlrun::frameworks {
namespace {

/// For jobs with a task that loads libdlrun into an interpreter: under a sanitizer its runtime must
/// come first.
std::map<std::string, std::string> for_libdlrun() {
  const std::string preload = DLRUN_TEST_PRELOAD;
  if (preload.empty()) return {};
  return {{"LD_PRELOAD", preload}, {"ASAN_OPTIONS", "detect_leaks=0"}};
}

bool whole() { return std::getenv("DLRUN_LONG") != nullptr; }

class WholeTraining : public Training {
  void SetUp() override {
    if (!whole()) GTEST_SKIP() << "behind DLRUN_LONG";
    Training::SetUp();
  }
};

TEST_F(Training, PyTorchTrainsMnistWithDistributedDataParallelOverGloo) {
  const Ran ran = run("pytorch", {"job.toml"}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.93) << ran.text;
  EXPECT_EQ(ran.number_after(" over "), 2) << ran.text;
}

TEST_F(Training, PyTorchMeetsByATcpAddressToo) {
  const Ran ran = run("pytorch",
                      {"--as", "pytorch", "-n", "2", "--", "python3", "train.py",
                       std::string(std::getenv("DLRUN_DATA_DIR")) + "/mnist", "tcp"},
                      "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.93) << ran.text;
}

TEST_F(Training, TorchrunItselfRunsInsideAJobItsAgentsMeetingAtTheJobsAddress) {
  // Debian's torch with Python 3.11 takes none of the two options' defaults.
  const std::string script =
      "exec python3 -m torch.distributed.run --redirects 1 --tee 1 --nnodes 2 --nproc_per_node 1 "
      "--rdzv_backend c10d "
      "--rdzv_id $DLRUN_JOB --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT train.py $DATA";
  const Ran ran = run("pytorch", {"-n", "2", "--", "sh", "-c", script}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.93) << ran.text;
  EXPECT_EQ(ran.number_after(" over "), 2) << ran.text;
}

TEST_F(Training, XGBoostGrowsOneForestOnTheMushroomsThroughItsOwnTracker) {
  use("xgboost");
  if (HasFatalFailure()) return;
  const Ran ran = run("xgboost", {"job.toml"}, "agaricus", for_libdlrun());
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.995) << ran.text;
  EXPECT_EQ(ran.nodes("tracker").size(), 1u) << ran.job.dump();
}

TEST_F(Training, AnOlderXGBoostMeetsAtTheTrackerOfTheOlderProtocol) {
  use("dmlc");
  if (HasFatalFailure()) return;
  const Ran ran = run("xgboost",
                      {"--as", "dmlc", "-n", "2", "--", "python3", "train.py",
                       std::string(std::getenv("DLRUN_DATA_DIR")) + "/agaricus"},
                      "agaricus", for_libdlrun());
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.995) << ran.text;
  EXPECT_EQ(ran.number_after(" over "), 2) << ran.text;
}

TEST_F(Training, LightGbmGrowsTreesOnHiggsOverTheMachineList) {
  use("lightgbm");
  if (HasFatalFailure()) return;
  const Ran ran = run("lightgbm", {"job.toml"}, "higgs");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test auc "), 0.80) << ran.text;
  const auto scores = [&](int rank) {
    const std::string words = "worker " + std::to_string(rank) + ": scores ";
    const auto at = ran.text.find(words);
    return at == std::string::npos ? words : ran.text.substr(at + words.size(), 16);
  };
  EXPECT_EQ(scores(0), scores(1)) << ran.text;
}

TEST_F(Training, MxnetTrainsMnistThroughSchedulerServerAndWorkers) {
  use("mxnet");
  if (HasFatalFailure()) return;
  const Ran ran = run("mxnet", {"job.toml"}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.91) << ran.text;
  EXPECT_EQ(ran.number_after(" over "), 2) << ran.text;
  EXPECT_EQ(ran.nodes("scheduler").size(), 1u) << ran.job.dump();
}

TEST_F(Training, MxnetTrainsInOneProcessWithoutAVariableOfDmlc) {
  use("mxnet");
  if (HasFatalFailure()) return;
  const Ran ran = run("mxnet",
                      {"--as", "mxnet", "-n", "1", "--", "python3", "train.py",
                       std::string(std::getenv("DLRUN_DATA_DIR")) + "/mnist"},
                      "mnist");
  expect_across(ran, 1);
  EXPECT_GE(ran.number_after("test accuracy "), 0.91) << ran.text;
}

TEST_F(WholeTraining, MxnetTrainsAsynchronouslyToo) {
  use("mxnet");
  if (HasFatalFailure()) return;
  const std::string script = "exec python3 train.py $DATA dist_async";
  const Ran ran = run(
      "mxnet", {"--as", "mxnet", "-n", "2", "--ps", "1", "--cpus", "0.5", "--", "sh", "-c", script},
      "mnist");
  EXPECT_EQ(ran.code, 0) << ran.text;
  EXPECT_GE(ran.number_after("test accuracy "), 0.91) << ran.text;
}

TEST_F(WholeTraining, TensorFlowsCoordinatorTrainsThroughParameterServersThatNeverEndByThemselves) {
  use("tensorflow");
  if (HasFatalFailure()) return;
  const Ran ran = run("tensorflow", {"parameter_server.toml"}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.91) << ran.text;
}

TEST_F(WholeTraining, ProgramsOfTensorFlow1TrainOverItsOwnServers) {
  use("tensorflow");
  if (HasFatalFailure()) return;
  const Ran ran = run("tensorflow", {"between_graph.toml"}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.91) << ran.text;
}

TEST_F(WholeTraining, TwoVersionsOfTensorFlowServeOneClusterSideBySide) {
  const std::string data = std::string(std::getenv("DLRUN_DATA_DIR")) + "/mnist";
  for (const bool newer : {false, true}) {
    use(newer ? "tensorflow216" : "tensorflow");
    if (HasFatalFailure()) return;
    std::map<std::string, std::string> env;
    if (newer) env["TF_USE_LEGACY_KERAS"] = "1";  // through tf-keras
    const Ran ran = run("tensorflow",
                        {"--as", "tensorflow", "-n", "2", "--", "python3", "custom_loop.py", data},
                        "mnist", env);
    expect_across(ran, 1);
    EXPECT_NE(ran.nodes("chief"), ran.nodes("worker")) << ran.job.dump();
    EXPECT_GE(ran.number_after("test accuracy "), 0.92) << ran.text;
    EXPECT_NE(ran.text.find(newer ? "TensorFlow 2.16" : "TensorFlow 2.15"), std::string::npos);
  }
}

TEST_F(Training, TensorFlowTrainsMnistUnderMultiWorkerMirroredStrategy) {
  use("tensorflow");
  if (HasFatalFailure()) return;
  const Ran ran = run("tensorflow", {"job.toml"}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.92) << ran.text;
  EXPECT_EQ(ran.number_after(" over "), 2) << ran.text;
}

TEST_F(Training, AnEstimatorTrainsIrisWithChiefServerAndEvaluatorAndEndsWithItsChief) {
  use("tensorflow");
  if (HasFatalFailure()) return;
  const Ran ran = run("tensorflow", {"estimator.toml"}, "iris", {{"MODEL", folder_ + "/model"}});
  expect_across(ran, 1);
  EXPECT_GE(ran.number_after("test accuracy "), 0.9) << ran.text;
  EXPECT_NE(ran.nodes("worker"), ran.nodes("chief")) << ran.job.dump();
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/model/checkpoint")) << "no checkpoint";
}

TEST_F(Training, MpiRunsAPythonProgramOverTheJobsSlots) {
  const Ran ran = run("mpi", {"job.toml"}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.91) << ran.text;
  for (const char* where : {"rank 0 of 2 is task", "rank 1 of 2 is task"})
    EXPECT_NE(ran.text.find(where), std::string::npos) << ran.text;
}

TEST_F(Training, MpiRunsAProgramInCInTheTasksOfTheJob) {
  const std::string program = folder_ + "/iris",
                    source = std::string(std::getenv("DLRUN_SOURCE_DIR")) + "/examples/mpi/iris.c";
  const auto [code, text] =
      call({"mpicc", "-O2", source, "-o", program, "-lm"}, std::chrono::seconds(60));
  ASSERT_EQ(code, 0) << text;
  const Ran ran = run("mpi", {"iris.toml"}, "iris", {{"IRIS", program}});
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.9) << ran.text;
  // Each rank ran in a task of its own, with that task's environment.
  EXPECT_NE(ran.text.find("worker/0"), std::string::npos) << ran.text;
  EXPECT_NE(ran.text.find("worker/1"), std::string::npos) << ran.text;
}

TEST_F(Training, AnMpiRankThatDiesEndsTheJobAndIsTheOneThatIsNamed) {
  const Ran ran = run("mpi",
                      {"--as", "mpi", "-n", "2", "--", "sh", "-c",
                       "test $OMPI_COMM_WORLD_RANK = 0 && exec sleep 100; exit 7"},
                      "iris");
  EXPECT_EQ(ran.code, 7) << ran.text;
  EXPECT_NE(ran.job.value("reason", "").find("worker/1"), std::string::npos) << ran.job.dump();
  EXPECT_LT(ran.seconds, 30);
}

TEST_F(Training, PyTorchAndTensorFlowTrainWithDlrunsTablesAndPipe) {
  const std::string data = std::string(std::getenv("DLRUN_DATA_DIR")) + "/agaricus/";
  for (const char* framework : {"pytorch", "tensorflow"}) {
    SCOPED_TRACE(framework);
    use(framework == std::string("pytorch") ? "" : framework);
    if (HasFatalFailure()) return;
    const Ran ran = run(
        framework,
        {"-n", "2", "--ps", "1", "--input",
         "train=" + data + "train.libsvm,format=libsvm,batch_rows=256,passes=3,split_bytes=64KiB",
         "--input", "test=" + data + "test.libsvm,format=libsvm,batch_rows=512", "--", "python3",
         "tables.py"},
        "agaricus", for_libdlrun());
    expect_across(ran);
    EXPECT_GE(ran.number_after("test accuracy "), 0.99) << ran.text;
    EXPECT_EQ(ran.number_after(" of "), 1611) << ran.text;
  }
}

/// Who is killed is the one that is named, and nobody hangs. All kinds behind DLRUN_LONG.
TEST_F(Training, AProgramThatIsKilledEndsTheJobWithinFiveSecondsByItsName) {
  struct Case {
    std::string framework, folder, file, data, task;
    bool always;
  };
  const auto trains = [](const std::string& output) {
    return output.find("epoch 1") != std::string::npos;
  };
  for (const Case& one :
       {Case{"", "pytorch", "job.toml", "mnist", "worker/1", true},
        Case{"", "pytorch", "job.toml", "mnist", "worker/0", false},
        Case{"mxnet", "mxnet", "job.toml", "mnist", "server/0", true},
        Case{"mxnet", "mxnet", "job.toml", "mnist", "worker/1", false},
        Case{"mxnet", "mxnet", "job.toml", "mnist", "scheduler/0", false},
        Case{"tensorflow", "tensorflow", "estimator.toml", "iris", "chief/0", false},
        Case{"tensorflow", "tensorflow", "estimator.toml", "iris", "ps/0", false}}) {
    if (!one.always && !whole()) continue;
    SCOPED_TRACE(one.folder + " " + one.task);
    use(one.framework);
    if (HasFatalFailure()) return;
    const std::string model = folder_ + "/killed-" + one.task.substr(0, one.task.find('/'));
    const auto checkpoint = [&](const std::string&) {
      return std::filesystem::exists(model + "/checkpoint");
    };
    const Ran ran = one.framework == "tensorflow"
                        ? run_and_kill(one.folder, {one.file}, one.data, one.task, checkpoint,
                                       {{"MODEL", model}})
                        : run_and_kill(one.folder, {one.file}, one.data, one.task, trains);
    EXPECT_EQ(ran.code, 137) << ran.text;
    EXPECT_LT(ran.seconds, 5);
    EXPECT_NE(ran.job.value("reason", "").find(one.task), std::string::npos) << ran.job.dump();
  }
}

TEST_F(Training, JaxTrainsMnistOverOneMeshOfAllProcesses) {
  use("jax");
  if (HasFatalFailure()) return;
  const Ran ran = run("jax", {"job.toml"}, "mnist");
  expect_across(ran);
  EXPECT_GE(ran.number_after("test accuracy "), 0.91) << ran.text;
}

TEST_F(Training, ScikitLearnSearchesWithCopiesThatKnowTheirIndex) {
  ASSERT_NE(std::getenv("DLRUN_PYTHON"), nullptr) << "DLRUN_PYTHON names no interpreter";
  path_ = std::filesystem::path(std::getenv("DLRUN_PYTHON")).parent_path().string() + ":" + path_;
  const Ran ran = run("scikit-learn", {"job.toml"}, "iris");
  expect_across(ran);
  EXPECT_GE(ran.number_after("gamma 0.0005: test accuracy "), 0.97) << ran.text;
  EXPECT_GE(ran.number_after("gamma 0.001: test accuracy "), 0.97) << ran.text;
}

}  // namespace
}  // namespace dlrun::frameworks

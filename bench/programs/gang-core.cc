// What JobCore costs per task when a gang of 4,096 workers behind one shard starts and ends: from
// the placement to the last task's end. Baseline: a gang of 64. A core that walks all tasks at
// each event costs 64 times as much per task.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "bench/report/report.h"
#include "runtime/cluster/core/job_core.h"

namespace dlrun::cluster {
namespace {

constexpr std::uint32_t kFew = 64, kMany = 4096;

struct ZeroTokens final : TokenIssuer {
  Token issue(std::string_view, Epoch) const override { return {}; }
};

JobSpec spec_of(std::uint32_t workers) {
  JobSpec spec;
  spec.name = "gang";
  spec.owner = "bench";
  RoleSpec ps;
  ps.name = "ps";
  ps.kind = RoleKind::kService;
  ps.program = RoleProgram::kShardHost;
  ps.count_min = ps.count_max = 1;
  RoleSpec worker;
  worker.name = "worker";
  worker.count_min = worker.count_max = workers;
  worker.argv = {"train"};
  worker.after = {"ps"};
  spec.roles = {ps, worker};
  return spec;
}

/// One job with a store that is always well.
class Run {
 public:
  explicit Run(std::uint32_t workers)
      : spec_(std::make_shared<const JobSpec>(spec_of(workers))),
        core_(JobRecord(JobSubmitted{JobId{1}, *spec_, "", 1, {}}, spec_), {}, tokens_, {}) {
    take(core_.start(now_));
    placed_ = JobPlaced{JobId{1}, Generation{1}, Epoch{1, 1}, {}, {}};
    add("ps", 0);
    for (std::uint32_t rank = 0; rank < workers; ++rank) add("worker", rank);
  }

  double ns_per_task() {
    const auto began = std::chrono::steady_clock::now();
    take(core_.on_input(Placed{placed_}, now_));
    all(TaskState::kPrepared);
    update(0, TaskState::kReady, {}, "tcp://10.0.0.1:1");
    workers(TaskState::kRunning, {});
    workers(TaskState::kEnded, TaskEnd{.cause = Cause::kExit});
    update(0, TaskState::kEnded, TaskEnd{.cause = Cause::kStopped}, "");
    const auto took = std::chrono::steady_clock::now() - began;
    if (!succeeded_) std::abort();
    return std::chrono::duration<double, std::nano>(took).count() /
           static_cast<double>(placed_.tasks.size());
  }

 private:
  void add(const std::string& role, std::uint32_t rank) {
    const std::string i = std::to_string(placed_.tasks.size());
    placed_.tasks.push_back(
        {TaskId{JobId{1}, role, rank, Generation{1}}, "10.0.0.1", {NodeId{"n" + i}, {20000}, {}}});
  }
  void update(std::size_t i, TaskState state, TaskEnd end, const std::string& tcp) {
    TaskUpdate m{placed_.tasks[i].task, Epoch{1, 1}, state, end, {tcp, ""}, 7};
    take(core_.on_input(TaskMessage{NodeId{"n" + std::to_string(i)}, m}, now_));
  }
  void workers(TaskState state, const TaskEnd& end) {
    for (std::size_t i = 1; i < placed_.tasks.size(); ++i) update(i, state, end, "");
  }
  void all(TaskState state) {
    update(0, state, {}, "");
    workers(state, {});
  }
  void take(JobEffects effects) {
    for (JobEffect& effect : effects) {
      if (const auto* persist = std::get_if<Persist>(&effect)) {
        take(core_.on_persisted(persist->id, now_));
      } else if (const auto* told = std::get_if<JobToCoordinator>(&effect)) {
        if (const auto* over = std::get_if<JobOver>(told))
          succeeded_ = over->view.state == JobState::kSucceeded;
      }
    }
  }

  const Now now_{TimePoint{} + std::chrono::seconds(1000), WallTime{1'000'000'000'000}};
  ZeroTokens tokens_;
  std::shared_ptr<const JobSpec> spec_;
  JobCore core_;
  JobPlaced placed_;
  bool succeeded_ = false;
};

}  // namespace
}  // namespace dlrun::cluster

int main(int argc, char** argv) {
  using namespace dlrun;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  bench::Figure f{"gang-core", "task_ns", "ns", bench::Better::kLess, {}, "64 tasks", {}, "", {}};
  f.must.ratio_at_least = 0.25;  // caches and the maps' depth, never a walk over all tasks
  for (int round = 0; round < (quick ? 5 : 31); ++round) {
    double few = 0;
    constexpr int kRuns = 16;
    for (int i = 0; i < kRuns; ++i) few += cluster::Run(cluster::kFew).ns_per_task() / kRuns;
    f.baselines.push_back(few);
    f.values.push_back(cluster::Run(cluster::kMany).ns_per_task());
    std::fprintf(stderr, "\rround %d", round + 1);
  }
  std::fprintf(stderr, "\n");
  bench::print(f);
  return 0;
}

// What SchedulerCore costs per event on clusters of 10 to 10,000 nodes: a gang of four submitted
// and placed, a gang that has finished given back, with 10,000 gangs that do not fit waiting in
// front. Baseline: the same events on 10 nodes: a cost of O(log n) is four times that on 10,000
// nodes, and the caches of the processor take their share.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "bench/report/report.h"
#include "runtime/base/rng.h"
#include "scheduler/core/scheduler_core.h"

namespace dlrun::sched {
namespace {

constexpr std::uint32_t kNodes[] = {10, 100, 1'000, 10'000};
constexpr std::uint32_t kPile = 10'000;

GangRequest gang(std::uint64_t job, std::int32_t tasks, std::int64_t cpu_milli,
                 std::int32_t priority) {
  GangRequest g{
      JobId(job), Generation(1), priority, TimePoint(Duration(static_cast<std::int64_t>(job))), {}};
  for (std::int32_t i = 0; i < tasks; ++i)
    g.tasks.push_back(TaskDemand{"worker",
                                 static_cast<std::uint32_t>(i),
                                 Resources{.cpu_milli = cpu_milli, .ports = 1},
                                 {}});
  return g;
}

struct Cost {
  double submit_ns = 0;  ///< submit() and the next() that places it
  double finish_ns = 0;  ///< release() and the next() that finds nobody for the room
};

/// In a cluster that is full but for the room of the gang that just left.
Cost cost(std::uint32_t nodes, std::uint32_t events) {
  using Clock = std::chrono::steady_clock;
  SchedulerCore core;
  for (std::uint32_t i = 0; i < nodes; ++i)
    core.add_node(NodeCapacity{
        NodeId("n" + std::to_string(i)), 16000, 64ll << 30, {}, PortRange{20000, 64}, {}});
  std::uint64_t job = 0;
  for (std::uint32_t i = 0; i < kPile; ++i) (void)core.submit(gang(++job, 1, 32000, 9));
  std::vector<std::uint64_t> running;
  while (running.size() < nodes * 4) {
    (void)core.submit(gang(++job, 4, 1000, 0));
    while (const auto placed = core.next()) running.push_back(placed->job.value);
  }
  SplitMix64 rng(7);
  Clock::duration submits{0}, finishes{0};
  for (std::uint32_t e = 0; e < events; ++e) {
    const std::size_t victim = rng.below(running.size());
    const GangRequest fresh = gang(++job, 4, 1000, 0);
    const auto began = Clock::now();
    core.release(JobId(running[victim]));
    const bool nobody = !core.next().has_value();
    const auto middle = Clock::now();
    (void)core.submit(fresh);
    const bool placed = core.next().has_value();
    submits += Clock::now() - middle;
    finishes += middle - began;
    if (!nobody || !placed) std::abort();  // the cluster is not what it should be
    running[victim] = fresh.job.value;
  }
  const auto ns = [&](Clock::duration d) {
    return std::chrono::duration<double, std::nano>(d).count() / events;
  };
  return {ns(submits), ns(finishes)};
}

}  // namespace
}  // namespace dlrun::sched

int main(int argc, char** argv) {
  using namespace dlrun;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  std::map<std::uint32_t, bench::Figure> submit, finish;
  for (const std::uint32_t nodes : sched::kNodes) {
    bench::Figure f{"placement", "submit_ns_" + std::to_string(nodes),
                    "ns",        bench::Better::kLess,
                    {},          "10 nodes",
                    {},          "",
                    {}};
    // log2(10,000) / log2(10) = 4, and twice that for the caches.
    if (nodes == 10'000) f.must.ratio_at_least = 0.125;
    submit[nodes] = f;
    f.metric = "finish_ns_" + std::to_string(nodes);
    finish[nodes] = f;
  }
  for (int round = 0; round < (quick ? 3 : 7); ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    const auto small = sched::cost(sched::kNodes[0], quick ? 4'000 : 20'000);
    for (const std::uint32_t nodes : sched::kNodes) {
      const auto c = nodes == sched::kNodes[0] ? small : sched::cost(nodes, quick ? 4'000 : 20'000);
      submit[nodes].values.push_back(c.submit_ns);
      submit[nodes].baselines.push_back(small.submit_ns);
      finish[nodes].values.push_back(c.finish_ns);
      finish[nodes].baselines.push_back(small.finish_ns);
    }
  }
  for (const auto& [nodes, figure] : submit) bench::print(figure);
  for (const auto& [nodes, figure] : finish) bench::print(figure);
  return 0;
}

// What SchedulerCore costs per event: gangs submitted, placed and released on clusters of 100 and 10,000 nodes, with a pile of gangs that
// do not fit waiting in front. Baseline: the same events on the small cluster, so that the ratio shows what 100 times the nodes cost.
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "bench/report/report.h"
#include "runtime/base/rng.h"
#include "scheduler/core/scheduler_core.h"

namespace dlrun::sched {
namespace {

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

/// Microseconds per event (submit with next, or release with next) in a full cluster where gangs come and go.
double us_per_event(std::uint32_t nodes, std::uint32_t events) {
  SchedulerCore core;
  for (std::uint32_t i = 0; i < nodes; ++i)
    core.add_node(NodeCapacity{
        NodeId("n" + std::to_string(i)), 16000, 64ll << 30, {}, PortRange{20000, 64}, {}});
  std::uint64_t job = 0;
  for (std::uint32_t i = 0; i < 10000; ++i)
    (void)core.submit(gang(++job, 1, 32000, 9));  // a pile that never fits
  std::vector<std::uint64_t> running;
  while (running.size() < nodes * 3) {
    (void)core.submit(gang(++job, 4, 1000, 0));
    while (const auto placed = core.next()) running.push_back(placed->job.value);
  }
  SplitMix64 rng(7);
  const auto began = std::chrono::steady_clock::now();
  for (std::uint32_t e = 0; e < events; e += 2) {
    const std::size_t victim = rng.below(running.size());
    core.release(JobId(running[victim]));
    running[victim] = running.back();
    running.pop_back();
    (void)core.next();
    (void)core.submit(gang(++job, 4, 1000, 0));
    while (const auto placed = core.next()) running.push_back(placed->job.value);
  }
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began)
             .count() /
         events;
}

}  // namespace
}  // namespace dlrun::sched

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  dlrun::bench::Figure f{"placement", "us_per_event_10000_nodes",
                         "us",        dlrun::bench::Better::kLess,
                         {},          "100 nodes",
                         {},          "",
                         {}};
  for (int round = 0; round < (quick ? 3 : 7); ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    f.baselines.push_back(dlrun::sched::us_per_event(100, quick ? 4000 : 20000));
    f.values.push_back(dlrun::sched::us_per_event(10000, quick ? 4000 : 20000));
  }
  dlrun::bench::print(f);
  return 0;
}

// 200 jobs of one task, `true`, from the first submit to the last end, with a durable store, on one
// agent that declares 64 CPUs.
// Baseline: the same program spawned and waited for in a loop.
#include <cstdio>
#include <string_view>

#include "bench/cluster/bench_cluster.h"
#include "bench/report/report.h"

static int measure(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  constexpr int kJobs = 200;
  BenchCluster cluster;
  cluster.start_coordinator();
  cluster.start_agent(0, 1, 64);
  cluster.wait_nodes(1);

  Figure figure{"throughput",
                "jobs200_s",
                "s",
                Better::kLess,
                {},
                "spawn and wait in a loop",
                {},
                "",
                Must{.ratio_at_least = {}, .value_at_most = 1.5}};
  for (int round = 0; round < (quick ? 2 : 5); ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    std::int64_t began = monotonic_ns();
    for (int i = 0; i < kJobs; ++i) wait_for(spawn({"/bin/true"}, ""));
    figure.baselines.push_back(static_cast<double>(monotonic_ns() - began) * 1e-9);

    const std::uint64_t before = cluster.finished();
    began = monotonic_ns();
    for (int i = 0; i < kJobs; ++i) cluster.submit({"/bin/true"});
    cluster.wait_finished(before + kJobs, std::chrono::seconds(120));
    figure.values.push_back(static_cast<double>(monotonic_ns() - began) * 1e-9);
  }
  print(figure);
  return 0;
}

int main(int argc, char** argv) {
  return dlrun::bench::guarded([&] { return measure(argc, argv); });
}

// A gang of 64 tasks on 8 agents: from the submit until the last task is in its main(), which is
// past the start barrier: no task starts before all are prepared. Baseline: 64 posix_spawns of the
// same program.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "bench/cluster/bench_cluster.h"
#include "bench/report/report.h"

static int measure(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  constexpr int kTasks = 64, kAgents = 8;
  constexpr auto kLimit = std::chrono::seconds(60);
  BenchCluster cluster;
  cluster.start_coordinator();
  for (int i = 0; i < kAgents; ++i) cluster.start_agent(i, kAgents, 8);
  cluster.wait_nodes(kAgents);
  StampPipe pipe(cluster.folder() + "/stamps");
  const std::vector<std::string> program{program_folder() + "/bench_stamp", pipe.path()};

  Figure figure{"gang",
                "gang64_s",
                "s",
                Better::kLess,
                {},
                "64 posix_spawns",
                {},
                "",
                Must{.ratio_at_least = {}, .value_at_most = 1.0}};
  const auto last_of = [&] {
    std::int64_t last = 0;
    for (int i = 0; i < kTasks; ++i) last = std::max(last, pipe.next(kLimit));
    return last;
  };
  for (int round = 0; round < (quick ? 2 : 5); ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    std::int64_t began = monotonic_ns();
    std::vector<pid_t> pids;
    for (int i = 0; i < kTasks; ++i) pids.push_back(spawn(program, ""));
    figure.baselines.push_back(static_cast<double>(last_of() - began) * 1e-9);
    for (const pid_t pid : pids) wait_for(pid);

    const std::uint64_t before = cluster.finished();
    began = monotonic_ns();
    cluster.submit(program, kTasks);
    figure.values.push_back(static_cast<double>(last_of() - began) * 1e-9);
    cluster.wait_finished(before + 1, kLimit);
  }
  print(figure);
  return 0;
}

int main(int argc, char** argv) {
  return dlrun::bench::guarded([&] { return measure(argc, argv); });
}

// From the submit of one task to the first line of the user's main(), on a warm cluster with a
// durable store: over the REST API on a kept connection, and through `dlrun submit`. Baseline:
// posix_spawn of the same program.
#include <cstdio>
#include <string_view>

#include "bench/cluster/bench_cluster.h"
#include "bench/report/report.h"

namespace dlrun::bench {
namespace {

constexpr auto kLimit = std::chrono::seconds(20);

double bare_ms(StampPipe& pipe) {
  const std::int64_t began = monotonic_ns();
  const pid_t pid = spawn({program_folder() + "/bench_stamp", pipe.path()}, "");
  const double ms = static_cast<double>(pipe.next(kLimit) - began) * 1e-6;
  wait_for(pid);
  return ms;
}

double rest_ms(BenchCluster& cluster, StampPipe& pipe) {
  const std::uint64_t before = cluster.finished();
  const std::int64_t began = monotonic_ns();
  cluster.submit({program_folder() + "/bench_stamp", pipe.path()});
  const double ms = static_cast<double>(pipe.next(kLimit) - began) * 1e-6;
  cluster.wait_finished(before + 1, kLimit);
  return ms;
}

double command_ms(BenchCluster& cluster, StampPipe& pipe) {
  const std::uint64_t before = cluster.finished();
  const std::int64_t began = monotonic_ns();
  const pid_t pid = spawn(
      {program_folder() + "/dlrun", "submit", "--", program_folder() + "/bench_stamp", pipe.path()},
      cluster.folder() + "/submit.log");
  const double ms = static_cast<double>(pipe.next(kLimit) - began) * 1e-6;
  wait_for(pid);
  cluster.wait_finished(before + 1, kLimit);
  return ms;
}

}  // namespace
}  // namespace dlrun::bench

static int measure(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int rounds = quick ? 3 : 5;
  const int tries = quick ? 15 : 40;
  BenchCluster cluster;
  setenv("DLRUN_HOME", (cluster.folder() + "/coordinator").c_str(), 1);
  cluster.start_coordinator();
  cluster.start_agent(0, 1, 8);
  cluster.wait_nodes(1);
  StampPipe pipe(cluster.folder() + "/stamps");
  for (int i = 0; i < 5; ++i) rest_ms(cluster, pipe);  // warm

  Figure p50{"launch",
             "submit_to_main_p50_ms",
             "ms",
             Better::kLess,
             {},
             "posix_spawn of the program",
             {},
             "",
             Must{.ratio_at_least = {}, .value_at_most = 20}};
  Figure p99 = p50;
  p99.metric = "submit_to_main_p99_ms";
  p99.must.value_at_most = 60;
  Figure command = p50;
  command.metric = "command_to_main_p50_ms";
  command.must = {};
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "round %d of %d\n", round + 1, rounds);
    std::vector<double> rest, commands, bare;
    for (int i = 0; i < tries; ++i) {
      bare.push_back(bare_ms(pipe));
      rest.push_back(rest_ms(cluster, pipe));
      if (i % 4 == 0) commands.push_back(command_ms(cluster, pipe));
    }
    p50.values.push_back(quantile(rest, 0.5));
    p50.baselines.push_back(quantile(bare, 0.5));
    p99.values.push_back(quantile(rest, 0.99));
    p99.baselines.push_back(quantile(bare, 0.99));
    command.values.push_back(quantile(commands, 0.5));
    command.baselines.push_back(quantile(bare, 0.5));
  }
  print(p50);
  print(p99);
  print(command);
  return 0;
}

int main(int argc, char** argv) {
  return dlrun::bench::guarded([&] { return measure(argc, argv); });
}

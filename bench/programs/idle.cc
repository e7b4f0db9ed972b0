// What a cluster that has nothing to do costs: coordinator + 2 agents, CPU of all together over 30
// s, and the largest resident set.
// No baseline: nothing else does no work for the same purpose; the bounds are absolute.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "bench/cluster/bench_cluster.h"
#include "bench/report/report.h"

namespace dlrun::bench {
namespace {

double cpu_seconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skip;
  for (int i = 0; i < 11; ++i) fields >> skip;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double rss_mib(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace
}  // namespace dlrun::bench

static int measure(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  BenchCluster cluster;
  cluster.start_coordinator();
  for (int i = 0; i < 2; ++i) cluster.start_agent(i, 2, 2);
  cluster.wait_nodes(2);
  std::vector<pid_t> pids{cluster.coordinator_pid()};
  for (const auto& [index, pid] : cluster.agents()) pids.push_back(pid);
  const auto total = [&] {
    double seconds = 0;
    for (const pid_t pid : pids) seconds += cpu_seconds(pid);
    return seconds;
  };
  Figure core{"idle", "idle_core_percent", "%",          Better::kLess, {}, "none",
              {},     "an absolute bound", Must{{}, 1.0}};
  Figure memory{"idle", "rss_mib_max",       "MiB",         Better::kLess, {}, "none",
                {},     "an absolute bound", Must{{}, 40.0}};
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (int round = 0; round < (quick ? 1 : 3); ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    const double seconds = quick ? 10 : 30;
    const double before = total();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    core.values.push_back((total() - before) / seconds * 100);
    double most = 0;
    for (const pid_t pid : pids) most = std::max(most, rss_mib(pid));
    memory.values.push_back(most);
  }
  print(core);
  print(memory);
  return 0;
}

int main(int argc, char** argv) {
  return dlrun::bench::guarded([&] { return measure(argc, argv); });
}

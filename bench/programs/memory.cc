// What jobs cost the coordinator in memory.
//   running, queued: resident set of a real coordinator with so many jobs more, per job.
//   finished: a coordinator and an agent whose programs end at once, in this process over a durable
//     store, with the daemons' settings of malloc, until 200,000 jobs have ended.
//   What is remembered of a finished job has fixed bounds (idempotency keys, the newest views,
//     tombstones): one figure is the growth to 100,000, the other is taken between there, where all
//     of them are full, and the end.
// No baseline: the bounds are absolute.
#include <unistd.h>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "bench/actor/in_process.h"
#include "bench/cluster/bench_cluster.h"
#include "bench/report/report.h"
#include "runtime/node/daemon.h"

namespace dlrun::bench {
namespace {

double rss_bytes(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// ---- jobs that are not over, in a real coordinator

struct PerJob {
  double running = 0, queued = 0;
};

PerJob live_jobs(int running, int queued) {
  BenchCluster cluster;
  cluster.start_coordinator();
  cluster.start_agent(0, 1, running);
  cluster.wait_nodes(1);
  const std::string pid = std::to_string(cluster.coordinator_pid());
  for (int i = 0; i < 300; ++i) cluster.submit({"/bin/true"});  // its caches and pools are in use
  cluster.wait_finished(300, std::chrono::seconds(60));
  const double idle = rss_bytes(pid);
  std::vector<std::string> jobs;
  StampPipe pipe(cluster.folder() + "/stamps");
  for (int i = 0; i < running; ++i)
    jobs.push_back(cluster.submit({program_folder() + "/bench_stamp", pipe.path(), "600"}));
  for (int i = 0; i < running; ++i) pipe.next(std::chrono::seconds(60));
  const double with_running = rss_bytes(pid);
  for (int i = 0; i < queued; ++i) jobs.push_back(cluster.submit({"/bin/true"}));
  const double with_queued = rss_bytes(pid);
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) cluster.kill_job(*job);
  cluster.wait_idle(std::chrono::seconds(120));
  return {(with_running - idle) / running, (with_queued - with_running) / queued};
}

}  // namespace
}  // namespace dlrun::bench

static int measure(int argc, char** argv) {
  using namespace dlrun::bench;
  dlrun::node::keep_memory_small();
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  Figure running{"memory", "running_job_kib",   "KiB",         Better::kLess, {}, "none",
                 {},       "an absolute bound", Must{{}, 64.0}};
  Figure queued = running, finished = running, growth = running;
  queued.metric = "queued_job_kib";
  finished.metric = "finished_job_bytes";
  finished.unit = "bytes";
  finished.must.value_at_most =
      16;  // 1.3 MiB in all: what an allocator's and SQLite's pages may do
  growth.metric = "finished_100000_growth_mib";
  growth.unit = "MiB";
  growth.must.value_at_most = 24;
  for (int round = 0; round < (quick ? 1 : 3); ++round) {
    std::fprintf(stderr, "running and queued jobs, round %d\n", round + 1);
    const auto per_job = live_jobs(quick ? 100 : 400, quick ? 500 : 2000);
    running.values.push_back(per_job.running / 1024);
    queued.values.push_back(per_job.queued / 1024);
  }
  {
    char folder[] = "/tmp/dlrun-bench-XXXXXX";
    if (mkdtemp(folder) == nullptr) give_up("cannot make a folder in /tmp");
    {
      InProcess cluster(folder);
      const std::uint64_t few = 1'000, full = quick ? 20'000 : 100'000;
      const std::uint64_t all = quick ? 30'000 : 200'000;
      cluster.run_to(few);
      const double first = rss_bytes("self");
      std::fprintf(stderr, "%.1f MiB after %llu finished jobs\n", first / (1 << 20),
                   static_cast<unsigned long long>(few));
      cluster.run_to(full);
      const double middle = rss_bytes("self");
      std::fprintf(stderr, "%.1f MiB after %llu\n", middle / (1 << 20),
                   static_cast<unsigned long long>(full));
      cluster.run_to(all);
      const double last = rss_bytes("self");
      std::fprintf(stderr, "%.1f MiB after %llu\n", last / (1 << 20),
                   static_cast<unsigned long long>(all));
      finished.values.push_back((last - middle) / static_cast<double>(all - full));
      growth.values.push_back(((quick ? last : middle) - first) / (1 << 20));
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  print(running);
  print(queued);
  print(finished);
  print(growth);
  return 0;
}

int main(int argc, char** argv) {
  return dlrun::bench::guarded([&] { return measure(argc, argv); });
}

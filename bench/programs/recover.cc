// A coordinator killed with SIGKILL while 100 jobs run, each with as many leases in the log as a
// snapshot leaves, and with 100,000 finished jobs in its store: from the start of the next one
// until it serves (REST answers, agents are back, nothing is being reconciled). Baseline: reading
// the store's file once.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "bench/cluster/bench_cluster.h"
#include "bench/report/report.h"
#include "runtime/cluster/core/job_core.h"
#include "runtime/store/sqlite_event_log.h"
#include "runtime/wire/event_codec.h"

namespace dlrun::bench {
namespace {

/// The records that a finished one-task job leaves, `jobs` times, appended behind what is there.
void fill(const std::string& file, std::uint64_t jobs) {
  auto log = store::SqliteEventLog::open(file);
  if (!log) give_up(log.error().to_string());
  const std::uint64_t first = (*log)->max_job().value() + 1;
  for (std::uint64_t done = 0; done < jobs;) {
    std::vector<store::Record> records;
    std::vector<store::JobRow> rows;
    for (std::uint64_t i = 0; i < 5000 && done < jobs; ++i, ++done) {
      cluster::JobView view;
      view.id = JobId(first + done);
      view.spec.name = "filler";
      view.spec.owner = "bench";
      view.spec.roles.resize(1);
      view.spec.roles[0].name = "worker";
      view.spec.roles[0].argv = {"/bin/true"};
      const TaskId task{view.id, "worker", 0, Generation(1)};
      const Epoch epoch{1, first + done};
      const cluster::TaskEnd end{.cause = cluster::Cause::kExit};
      const auto record = [&](const cluster::Event& event) {
        records.push_back(
            {.term = 1, .at = WallTime{1}, .job = view.id.value, .payload = wire::encode(event)});
      };
      const std::string key = "key-of-the-launcher-" + std::to_string(view.id.value);
      cluster::JobSpec submitted = view.spec;  // with an environment of the usual size
      for (int v = 0; v < 40; ++v)
        submitted.submit_env.emplace_back("VARIABLE_" + std::to_string(v), std::string(60, 'x'));
      record(cluster::JobSubmitted{view.id, submitted, "bench\n" + key, 1, {1}});
      record(cluster::JobPlaced{view.id, Generation(1), epoch, {{task, "127.0.0.1", {}}}, {1}});
      record(cluster::TaskEnded{task, epoch, end, {1}});
      view.state = cluster::JobState::kSucceeded;
      view.end = end;
      view.ended = WallTime{2};
      view.tasks.resize(1);
      view.tasks[0].task = task;
      view.tasks[0].state = cluster::TaskState::kEnded;
      view.tasks[0].end = end;
      record(cluster::JobEnded{view});
      rows.push_back({.job = view.id.value,
                      .state = static_cast<std::uint8_t>(view.state),
                      .finished = true,
                      .owner = "bench",
                      .idempotency_key = key,
                      .submitted = {1},
                      .ended = {2},
                      .view = wire::encode(view)});
    }
    if (const auto done_append = (*log)->append(records, rows); !done_append)
      give_up(done_append.error().to_string());
  }
}

/// What each of `jobs` ("j12") has recorded when the next lease would bring a snapshot.
void lengthen(const std::string& file, const std::vector<std::string>& jobs) {
  auto log = store::SqliteEventLog::open(file);
  if (!log) give_up(log.error().to_string());
  const std::uint64_t leases = cluster::JobSettings{}.snapshot_after - 1;
  for (const std::string& name : jobs) {
    const JobId job(std::stoull(name.substr(1)));
    std::vector<store::Record> records;
    for (std::uint64_t request = 1; request <= leases; ++request) {
      cluster::SplitsLeased lease{
          TaskId{job, "worker", 0, Generation(1)}, "train", 4, request, false, {}, {}};
      for (std::uint64_t i = 0; i < 4; ++i) lease.done.push_back({request * 4 + i, 0});
      records.push_back(
          {.term = 1, .at = WallTime{1}, .job = job.value, .payload = wire::encode(lease)});
    }
    if (const auto appended = (*log)->append(records, {}); !appended)
      give_up(appended.error().to_string());
  }
}

double read_seconds(const std::string& path) {
  const std::int64_t began = monotonic_ns();
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
  }
  return static_cast<double>(monotonic_ns() - began) * 1e-9;
}

}  // namespace
}  // namespace dlrun::bench

static int measure(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  constexpr int kRunning = 100;
  BenchCluster cluster;
  cluster.start_coordinator();
  cluster.start_agent(0, 1, kRunning);
  cluster.wait_nodes(1);
  StampPipe pipe(cluster.folder() + "/stamps");
  std::fprintf(stderr, "starting %d jobs\n", kRunning);
  std::vector<std::string> jobs;
  for (int i = 0; i < kRunning; ++i)
    jobs.push_back(cluster.submit({program_folder() + "/bench_stamp", pipe.path(), "600"}));
  for (int i = 0; i < kRunning; ++i) pipe.next(std::chrono::seconds(30));
  cluster.kill_coordinator();
  const std::string store = cluster.folder() + "/coordinator/events.db";
  std::fprintf(stderr, "writing finished jobs\n");
  fill(store, quick ? 20'000 : 100'000);
  lengthen(store, jobs);

  Figure figure{"recover", "recover_s", "s",          Better::kLess, {}, "reading the store's file",
                {},        "",          Must{{}, 2.0}};
  for (int round = 0; round < (quick ? 2 : 5); ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    figure.baselines.push_back(read_seconds(store));
    const std::int64_t began = monotonic_ns();
    cluster.start_coordinator();
    cluster.wait_nodes(1);
    const auto running = cluster.get("/api/v1/health").at("jobs_running").get<int>();
    figure.values.push_back(static_cast<double>(monotonic_ns() - began) * 1e-9);
    if (running != kRunning)
      give_up("only " + std::to_string(running) + " jobs run after the restart");
    if (round + 1 < (quick ? 2 : 5)) cluster.kill_coordinator();
  }
  print(figure);
  for (const std::string& job : jobs) cluster.kill_job(job);
  cluster.wait_idle(std::chrono::seconds(60));
  return 0;
}

int main(int argc, char** argv) {
  return dlrun::bench::guarded([&] { return measure(argc, argv); });
}

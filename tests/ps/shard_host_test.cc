// Real shard-host processes under a real task socket.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "ps/checkpoint/folder.h"
#include "ps/checkpoint/part_reader.h"
#include "ps/client/client.h"
#include "ps/core/checkpoint_run.h"
#include "runtime/task/task_client.h"
#include "runtime/task/task_server.h"
#include "runtime/wire/ps_checkpoint_codec.h"

namespace dlrun::ps {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr Duration kLong = seconds(60);

class ShardHost : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dlrun-host-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    folder = name;
    task::ServerCallbacks callbacks;
    callbacks.on_message = [this](const TaskId& task, task::PeerKind kind, task::ToServer message) {
      if (const auto* report = std::get_if<task::PsReport>(&message)) {
        const std::lock_guard lock(mutex);
        reports[task.rank].push_back(wire::decode_cut_report(report->report).value());
        changed.notify_all();
        return;
      }
      const auto* said = std::get_if<task::Ready>(&message);
      if (said == nullptr || kind != task::PeerKind::kShardHost) return;
      const std::lock_guard lock(mutex);
      ready[task.rank] = said->info;
      changed.notify_all();
    };
    server = task::TaskServer::start({.socket_dir = folder}, std::move(callbacks)).value();
    view.map = SlotMap::even(2, {1, 1});
    view.token = {7};
    view.workers = 2;
  }
  void TearDown() override {
    for (const auto& [rank, pid] : pids) {
      if (pid <= 0) continue;  // it was not started; kill(-1) would end every process
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    server.reset();
    std::filesystem::remove_all(folder);
  }

  TaskId task_of(std::uint32_t rank) const {
    return {JobId{1}, "ps", rank, Generation{generation}};
  }

  pid_t spawn(const std::vector<std::string>& env) {
    std::vector<char*> envp;
    for (const std::string& e : env) envp.push_back(const_cast<char*>(e.c_str()));
    envp.push_back(nullptr);
    const auto self = std::filesystem::read_symlink("/proc/self/exe");
    const std::string path = self.parent_path().parent_path() / "bin/shard_host_program";
    char* argv[] = {const_cast<char*>(path.c_str()), nullptr};
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, path.c_str(), nullptr, nullptr, argv, envp.data()), 0) << path;
    return pid;
  }
  void start(std::uint32_t rank, const std::string& address = "") {
    cluster::Token token{};
    token[0] = static_cast<std::uint8_t>(rank + 1);
    task::Welcome welcome{
        .task = task_of(rank), .epoch = {1, 1}, .world = 2, .job_name = "test", .ps = view};
    welcome.restore = restore;
    // none is ready yet
    for (std::uint32_t i = 0; i < 2; ++i) welcome.ps.shards.push_back({.shard = ShardId{i}});
    const std::string path = server->open(task_of(rank), token, welcome).value();
    std::vector<std::string> env = {"DLRUN_SOCKET=" + path, "DLRUN_TOKEN=" + task::to_hex(token)};
    if (!address.empty()) env.push_back("DLRUN_ADDRESS=" + address);
    pids[rank] = spawn(env);
  }
  PsView wait_ready() {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, kLong, [&] { return ready.size() == pids.size(); }));
    PsView full = view;
    for (const auto& [rank, info] : ready) {
      full.shards.push_back({.shard = ShardId{rank}, .tcp = info.tcp, .ipc = info.ipc});
    }
    return full;
  }
  void order(std::uint32_t rank, const CutOrder& what) {
    ASSERT_TRUE(server->send(task_of(rank), task::PsOrder{wire::encode(what)}));
  }
  /// The first report of this kind that nobody has taken.
  template <class T>
  T report(std::uint32_t rank) {
    std::unique_lock lock(mutex);
    std::optional<T> found;
    EXPECT_TRUE(changed.wait_for(lock, kLong, [&] {
      auto& all = reports[rank];
      for (auto it = all.begin(); it != all.end(); ++it) {
        if (const T* t = std::get_if<T>(&*it)) {
          found = *t;
          all.erase(it);
          return true;
        }
      }
      return false;
    }));
    return found.value_or(T{});
  }
  /// The wait status, within a minute.
  int end_of(pid_t pid) {
    int status = -1;
    for (int i = 0; i < 6000; ++i) {
      if (::waitpid(pid, &status, WNOHANG) == pid) {
        std::erase_if(pids, [&](const auto& entry) { return entry.second == pid; });
        return status;
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << "the shard host does not end";
    return -1;
  }
  static bool exited(int status, int code) {
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
  }

  std::string folder;
  std::unique_ptr<task::TaskServer> server;
  std::uint32_t generation = 1;
  task::RestoreFrom restore;
  PsView view;
  std::map<std::uint32_t, pid_t> pids;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint32_t, cluster::TaskReadyInfo> ready;
  std::map<std::uint32_t, std::vector<CutReport>> reports;
};

TEST_F(ShardHost, ServesOverBothSocketsHearsOfDeadWorkersAndStopsInGoodOrder) {
  start(0);
  start(1);
  PsView full = wait_ready();
  PsView tcp_only = full;
  for (auto& shard : tcp_only.shards) {
    EXPECT_EQ(shard.tcp.rfind("tcp://127.0.0.1:", 0), 0u);
    EXPECT_EQ(shard.ipc.rfind("@dlrun-ps-", 0), 0u);
    shard.ipc.clear();
  }
  for (auto& shard : full.shards) shard.tcp = "tcp://127.0.0.1:1";  // only ipc can work
  ClientOptions options;
  options.worker = worker_id("worker", 0);
  const auto a = Client::connect(full, options).value();
  const TableSchema schema{
      .name = "t", .dim = 4, .learning_rate = -1, .consistency = Consistency::kBsp};
  const auto table = a->open_table(schema, kLong);
  ASSERT_TRUE(table) << table.error().to_string();
  const std::vector<std::uint64_t> keys = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(a->push(*table, keys, std::vector<float>(32, 2.0f), kLong));
  ASSERT_TRUE(a->clock(*table, kLong));
  std::vector<float> out(32);
  auto pending = a->pull_async(*table, keys, out, kLong).value();
  const TaskId other{JobId{1}, "worker", 1, Generation{1}};
  for (std::uint32_t rank : {0u, 1u})
    ASSERT_TRUE(server->send(task_of(rank), task::WorkerLeft{other}));
  const Status pulled = pending.wait();
  ASSERT_TRUE(pulled) << pulled.error().to_string();
  EXPECT_EQ(out, std::vector<float>(32, 2.0f));
  const auto b = Client::connect(tcp_only, {}).value();
  ASSERT_TRUE(b->open_table(schema, kLong));
  std::fill(out.begin(), out.end(), 0.0f);
  ASSERT_TRUE(b->pull(*table, keys, out, kLong));
  EXPECT_EQ(out, std::vector<float>(32, 2.0f));
  const pid_t first = pids[0], second = pids[1];
  ASSERT_TRUE(server->send(task_of(0), task::StopNow{}));
  EXPECT_TRUE(exited(end_of(first), 0));
  ASSERT_GT(second, 0);
  ::kill(second, SIGTERM);
  EXPECT_TRUE(exited(end_of(second), 0));
}

TEST_F(ShardHost, WritesItsPartOfACheckpointWhenItsAgentSaysSo) {
  view.workers = 1;
  start(0);
  start(1);
  const PsView full = wait_ready();
  ClientOptions options;
  options.worker = worker_id("worker", 0);
  const auto client = Client::connect(full, options).value();
  const Table table =
      client
          ->open_table(
              {.name = "t", .dim = 2, .learning_rate = -1, .consistency = Consistency::kBsp}, kLong)
          .value();
  std::vector<std::uint64_t> keys(1000);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const auto iteration = [&] {
    ASSERT_TRUE(client->push(table, keys, std::vector<float>(2000, 1.0f), kLong));
    ASSERT_TRUE(client->clock(table, kLong));
  };
  iteration();
  // Whoever calls a checkpoint, over two agents' sockets.
  CheckpointRun run({.job = "j1", .epoch = {1, 1}, .shards = 2});
  CheckpointEffects effects;
  const SystemClock clock;
  const std::string place = folder + "/1";
  ASSERT_TRUE(make_folder(place));
  run.start(clock.now(), effects);
  for (std::uint32_t s : {0u, 1u}) order(s, CutAsk{});
  for (std::uint32_t s : {0u, 1u})
    run.on_progress(ShardId{s}, report<CutAnswer>(s).progress, effects);
  for (const CheckpointEffect& e : effects) {
    if (const auto* begin = std::get_if<BeginCut>(&e))
      order(begin->shard.value, CutBegin{begin->plan, place, 1});
  }
  effects.clear();
  for (std::uint32_t s : {0u, 1u}) {
    const CutBegun begun = report<CutBegun>(s);
    EXPECT_EQ(begun.error, Errc{}) << begun.context;
    run.on_begun(ShardId{s}, begun.checkpoint, {}, effects);
  }
  for (int i = 0; i < 4; ++i) iteration();  // the plan is two clocks ahead
  for (std::uint32_t s : {0u, 1u}) {
    CutPart part = report<CutPart>(s);
    ASSERT_EQ(part.error, Errc{}) << part.context;
    run.on_part(ShardId{s}, part.checkpoint, std::move(part.part), effects);
  }
  ASSERT_EQ(effects.size(), 1u);
  const Manifest manifest = std::get<CommitManifest>(effects[0]).manifest;
  const auto digest = write_manifest(place, manifest);
  ASSERT_TRUE(digest) << digest.error().to_string();
  const Status whole = verify_checkpoint(place, manifest);
  EXPECT_TRUE(whole) << whole.error().to_string();
  EXPECT_EQ(manifest.parts[0].rows + manifest.parts[1].rows, 1000u);
  EXPECT_EQ(manifest.parts[0].tables.at(0).clock, 3u);
  // A plan that a worker has passed is refused, by the shard itself.
  order(0, CutBegin{{9, {{table.id, 2}}, kLong}, place, 0});
  EXPECT_EQ(report<CutBegun>(0).error, Errc::kFailedPrecondition);

  // The shards are killed; the next generation begins with what was committed.
  for (const std::uint32_t s : {0u, 1u}) {
    const pid_t victim = pids[s];
    ASSERT_GT(victim, 0);
    ::kill(victim, SIGKILL);
    EXPECT_TRUE(WIFSIGNALED(end_of(victim)));
  }
  {
    const std::lock_guard lock(mutex);
    ready.clear();
  }
  generation = 2;
  restore = {place, *digest + 1};
  start(0);
  EXPECT_TRUE(exited(end_of(pids[0]), 1)) << "not the manifest that was committed";
  generation = 3;
  restore = {place, *digest};
  start(0);
  start(1);
  const auto next = Client::connect(wait_ready(), options).value();
  const Table again = next->open_table(table.schema, kLong).value();
  EXPECT_EQ(next->clock_of(again), 3u);
  std::vector<float> rows(2000);
  ASSERT_TRUE(next->pull(again, keys, rows, kLong));
  EXPECT_EQ(rows, std::vector<float>(2000, 3.0f)) << "clocks 0, 1 and 2";
}

TEST_F(ShardHost, TellsWhatIsWrongWithItsEnvironment) {
  EXPECT_TRUE(exited(end_of(spawn({})), 2));
  EXPECT_TRUE(exited(end_of(spawn({"DLRUN_SOCKET=/tmp/x", "DLRUN_TOKEN=short"})), 2));
  start(0, "192.0.2.1");  // no such address here
  EXPECT_TRUE(exited(end_of(pids[0]), 1));
}

TEST_F(ShardHost, AKilledHostLeavesItsClientsWithAnErrorWithinTheirDeadline) {
  start(0);
  start(1);
  const PsView full = wait_ready();
  const auto client = Client::connect(full, {}).value();
  const Table table =
      client->open_table({.name = "t", .dim = 1, .consistency = Consistency::kAsp}, kLong).value();
  const pid_t victim = pids[1];
  ASSERT_GT(victim, 0);
  ::kill(victim, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(end_of(victim)));
  std::vector<std::uint64_t> keys(100);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  const SystemClock clock;
  const TimePoint start_time = clock.now();
  EXPECT_EQ(client->push(table, keys, std::vector<float>(100), milliseconds(500)).error().code,
            Errc::kDeadlineExceeded);
  EXPECT_LT(clock.now() - start_time, seconds(10));
}

}  // namespace
}  // namespace dlrun::ps

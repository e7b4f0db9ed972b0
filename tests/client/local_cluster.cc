#include "tests/client/local_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "runtime/base/rng.h"
#include "runtime/task/task_client.h"
#include "tests/io/serve_lease.h"

extern char** environ;

namespace dlrun::test {
namespace {

using Env = std::vector<std::pair<std::string, std::string>>;
const Epoch kEpoch{1, 1};
constexpr auto kPoll = std::chrono::milliseconds(5);

Result<pid_t> spawn_process(const std::vector<std::string>& argv, const Env& env,
                            const std::string& stdout_to, const std::string& cwd) {
  std::vector<std::string> lines;
  for (char** line = environ; *line != nullptr; ++line) {
    const std::string text = *line;
    const bool replaced = std::any_of(env.begin(), env.end(), [&](const auto& entry) {
      return text.rfind(entry.first + "=", 0) == 0;
    });
    if (!replaced) lines.push_back(text);
  }
  for (const auto& [name, value] : env) lines.push_back(name + "=" + value);
  std::vector<char*> envp, args;
  for (auto& line : lines) envp.push_back(line.data());
  envp.push_back(nullptr);
  for (const auto& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!cwd.empty()) posix_spawn_file_actions_addchdir_np(&actions, cwd.c_str());
  if (!stdout_to.empty()) {
    posix_spawn_file_actions_addopen(&actions, 1, stdout_to.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                     0644);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
  }
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, args[0], &actions, nullptr, args.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail_errno("spawn " + argv[0], error);
  return pid;
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void end_process(pid_t pid) {
  if (pid <= 0) return;  // it was not started; kill(-1) would end every process
  ::kill(pid, SIGTERM);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

LocalCluster::LocalCluster(LocalJob job)
    : job_(std::move(job)), ledger_(std::make_unique<io::LedgerCore>(job_.inputs)) {}

TaskId LocalCluster::worker_id(std::uint32_t rank) const {
  return {JobId{1}, "worker", rank, Generation{1}};
}

cluster::Token LocalCluster::token_of(const TaskId& task) const {
  SplitMix64 rng(std::hash<TaskId>{}(task) ^ static_cast<std::uint64_t>(::getpid()));
  cluster::Token token{};
  for (auto& byte : token) byte = static_cast<std::uint8_t>(rng.next());
  return token;
}

task::Welcome LocalCluster::welcome(const TaskId& task) const {
  task::Welcome hello;
  hello.task = task;
  hello.epoch = kEpoch;
  hello.world = task.role == "worker" ? job_.workers : task.role == "ps" ? job_.shards : 1;
  hello.job_name = "local";
  hello.inputs = job_.inputs;
  hello.commit_number = job_.committed.empty() ? 0 : 1;
  hello.commit_tag = job_.committed_tag;
  hello.ps.workers = job_.workers;
  hello.ps.token = token_of({JobId{1}, "tables", 0, Generation{1}});
  if (job_.shards > 0) hello.ps.map = ps::SlotMap::even(job_.shards, kEpoch);
  // a shard host is told of all shards before any of them has an address
  for (std::uint32_t shard = 0; shard < job_.shards; ++shard) {
    const auto at = shards_.find(shard);
    hello.ps.shards.push_back(at != shards_.end() ? at->second
                                                  : ps::ShardEndpoint{ShardId{shard}, "", "", {}});
  }
  return hello;
}

Result<std::unique_ptr<LocalCluster>> LocalCluster::start(LocalJob job) {
  std::unique_ptr<LocalCluster> self(new LocalCluster(std::move(job)));
  char pattern[] = "/tmp/dlrun-local-XXXXXX";
  if (::mkdtemp(pattern) == nullptr) return fail_errno("mkdtemp");
  self->folder_ = pattern;
  std::filesystem::create_directories(self->folder_ + "/s");
  task::ServerOptions options;
  options.socket_dir = self->folder_ + "/s";
  task::ServerCallbacks callbacks;
  callbacks.on_message = [me = self.get()](const TaskId& task, task::PeerKind kind,
                                           task::ToServer message) {
    me->on_message(task, kind, std::move(message));
  };
  callbacks.on_gone = [me = self.get()](const TaskId& task, task::PeerKind kind, std::size_t left) {
    me->on_gone(task, kind, left);
  };
  callbacks.on_log = [](const std::string& line) {
    std::fprintf(stderr, "task server: %s\n", line.c_str());
  };
  DLRUN_ASSIGN(self->server_, task::TaskServer::start(options, std::move(callbacks)));

  for (std::uint32_t shard = 0; shard < self->job_.shards; ++shard) {
    DLRUN_TRY(self->start_native({JobId{1}, "ps", shard, Generation{1}}, "shard-host"));
  }
  if (!self->job_.inputs.empty())
    DLRUN_TRY(self->start_native({JobId{1}, "feeder", 0, Generation{1}}, "feeder"));
  std::unique_lock lock(self->mutex_);
  const bool ready = self->changed_.wait_for(lock, std::chrono::seconds(60), [&] {
    return self->shards_.size() == self->job_.shards &&
           (self->job_.inputs.empty() || !self->feeder_socket_.empty());
  });
  if (!ready) return fail(Errc::kDeadlineExceeded, "shard hosts or feeder did not become ready");
  lock.unlock();
  for (std::uint32_t rank = 0; rank < self->job_.workers; ++rank) {
    const TaskId worker = self->worker_id(rank);
    DLRUN_TRY(self->server_->open(worker, self->token_of(worker), self->welcome(worker)));
  }
  return self;
}

Status LocalCluster::start_native(const TaskId& task, const std::string& command) {
  DLRUN_ASSIGN(const auto socket, server_->open(task, token_of(task), welcome(task)));
  const std::string cwd = folder_ + "/" + task.role + std::to_string(task.rank);
  std::filesystem::create_directories(cwd);
  DLRUN_ASSIGN(const auto pid, spawn_process({job_.host_program, command},
                                             {{"DLRUN_SOCKET", socket},
                                              {"DLRUN_TOKEN", task::to_hex(token_of(task))}},
                                             {}, cwd));
  natives_.push_back(pid);
  return {};
}

std::pair<std::string, std::string> LocalCluster::door(std::uint32_t rank) const {
  const TaskId worker = worker_id(rank);
  return {server_->socket_path(worker), task::to_hex(token_of(worker))};
}

Result<pid_t> LocalCluster::spawn(std::uint32_t rank, const std::vector<std::string>& argv,
                                  const Env& env, const std::string& stdout_to) {
  const auto [socket, token] = door(rank);
  Env all = env;
  all.emplace_back("DLRUN_SOCKET", socket);
  all.emplace_back("DLRUN_TOKEN", token);
  DLRUN_ASSIGN(const auto pid, spawn_process(argv, all, stdout_to, {}));
  workers_[pid] = rank;
  return pid;
}

Result<std::vector<int>> LocalCluster::wait(Duration timeout) {
  std::vector<int> codes(job_.workers, -1);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!workers_.empty()) {
    for (auto at = workers_.begin(); at != workers_.end();) {
      int status = 0;
      if (::waitpid(at->first, &status, WNOHANG) == 0) {
        ++at;
        continue;
      }
      codes[at->second] = code_of(status);
      worker_left(worker_id(at->second));
      const bool failed = codes[at->second] != 0;
      at = workers_.erase(at);
      if (failed) {
        for (const auto& [pid, rank] : workers_) {
          end_process(pid);
          codes[rank] = 128 + SIGTERM;
        }
        workers_.clear();
        return codes;
      }
    }
    if (std::chrono::steady_clock::now() > deadline) {
      for (const auto& [pid, rank] : workers_) end_process(pid);
      workers_.clear();
      return fail(Errc::kDeadlineExceeded, "workers still ran");
    }
    std::this_thread::sleep_for(kPoll);
  }
  return codes;
}

void LocalCluster::stop_workers() {
  for (std::uint32_t rank = 0; rank < job_.workers; ++rank)
    static_cast<void>(server_->send(worker_id(rank), task::StopNow{}));
}

LocalCluster::Progress LocalCluster::progress(std::uint32_t rank) const {
  std::scoped_lock lock(mutex_);
  const auto at = progress_.find(worker_id(rank));
  return at == progress_.end() ? Progress{} : at->second;
}

void LocalCluster::worker_left(const TaskId& worker) {
  {
    std::scoped_lock lock(mutex_);
    if (!gone_.insert(worker).second) return;
    ledger_->drop_consumer(worker);
  }
  for (std::uint32_t shard = 0; shard < job_.shards; ++shard) {
    static_cast<void>(
        server_->send({JobId{1}, "ps", shard, Generation{1}}, task::WorkerLeft{worker}));
  }
  if (!job_.inputs.empty()) {
    static_cast<void>(
        server_->send({JobId{1}, "feeder", 0, Generation{1}}, task::DropConsumer{worker}));
  }
}

void LocalCluster::on_gone(const TaskId& from, task::PeerKind, std::size_t left) {
  if (from.role == "worker" && left == 0) worker_left(from);
}

void LocalCluster::on_message(const TaskId& from, task::PeerKind, task::ToServer message) {
  const TaskId feeder{JobId{1}, "feeder", 0, Generation{1}};
  auto reply = [&](std::uint64_t request, const Status& status, io::LeaseAnswer answer) {
    task::FeederReply to{request, {}, {}, std::move(answer)};
    if (!status) {
      to.error = status.error().code;
      to.error_context = status.error().context;
    }
    static_cast<void>(server_->send(from, to));
  };
  if (auto* ready = std::get_if<task::Ready>(&message)) {
    std::scoped_lock lock(mutex_);
    if (from.role == "feeder") feeder_socket_ = ready->info.ipc;
    if (from.role == "ps")
      shards_[from.rank] = {ShardId{from.rank}, ready->info.tcp, ready->info.ipc, NodeId{"local"}};
    changed_.notify_all();
  } else if (auto* progress = std::get_if<task::ReportProgress>(&message)) {
    std::scoped_lock lock(mutex_);
    auto& kept = progress_[from];
    kept = {progress->fraction, progress->text, kept.reports + 1};
  } else if (auto* barrier = std::get_if<task::EnterBarrier>(&message)) {
    bool full = false;
    {
      std::scoped_lock lock(mutex_);
      auto& inside = barriers_[{barrier->name, barrier->round}];
      inside.insert(from.rank);
      full = inside.size() == job_.workers;
    }
    for (std::uint32_t rank = 0; full && rank < job_.workers; ++rank) {
      static_cast<void>(
          server_->send(worker_id(rank), task::BarrierPassed{barrier->name, barrier->round}));
    }
  } else if (auto* open = std::get_if<task::OpenInput>(&message)) {
    task::InputAt at;
    at.request = open->request;
    const auto input = std::find_if(job_.inputs.begin(), job_.inputs.end(),
                                    [&](const auto& one) { return one.name == open->input; });
    if (input == job_.inputs.end()) {
      at.error = Errc::kNotFound;
      at.error_context = "no input " + open->input;
    } else {
      std::scoped_lock lock(mutex_);
      at.feeder_socket = feeder_socket_;
      at.consumer_token = token_of(
          {JobId{1}, "consumer", static_cast<std::uint32_t>(++tokens_given_), Generation{1}});
      static_cast<void>(
          server_->send(feeder, task::AdmitConsumer{at.consumer_token, from, kEpoch, *input}));
    }
    static_cast<void>(server_->send(from, at));
  } else if (auto* files = std::get_if<task::FeederFiles>(&message)) {
    std::scoped_lock lock(mutex_);
    Status status = ledger_->set_files(files->input, files->files);
    if (status && begun_.insert(files->input).second)
      for (const io::LedgerState& state : job_.committed)
        if (status && state.input == files->input) status = ledger_->restore(state);
    io::LeaseAnswer answer;
    if (status) {
      auto start = ledger_->start(files->input, files->consumer, job_.workers);
      if (start)
        answer.start = std::move(*start);
      else
        status = tl::unexpected(start.error());
    }
    reply(files->request, status, std::move(answer));
  } else if (auto* commit = std::get_if<task::CommitInputs>(&message)) {
    std::scoped_lock lock(mutex_);
    committing_[from.rank] = std::move(*commit);
    if (committing_.size() < job_.workers) return;
    std::vector<io::ConsumerCursor> cursors;
    for (const auto& [rank, one] : committing_) cursors.push_back({worker_id(rank), one.inputs});
    auto states = ledger_->commit(cursors, job_.workers);
    if (states) {
      ++commits_;
      committed_ = std::move(*states);
      committed_tag_ = committing_.begin()->second.tag;
    }
    for (const auto& [rank, one] : committing_) {
      task::Committed done{one.request, commits_, {}, ""};
      if (!states) done = {one.request, 0, states.error().code, states.error().context};
      static_cast<void>(server_->send(worker_id(rank), done));
    }
    committing_.clear();
  } else if (auto* lease = std::get_if<task::FeederLease>(&message)) {
    std::scoped_lock lock(mutex_);
    auto answer = io::serve_lease(*ledger_, *lease, job_.workers);
    reply(lease->request, answer ? Status{} : Status{tl::unexpected(answer.error())},
          answer ? *answer : io::LeaseAnswer{});
  }
}

std::pair<std::string, std::vector<io::LedgerState>> LocalCluster::committed() const {
  std::scoped_lock lock(mutex_);
  return {committed_tag_, committed_};
}

LocalCluster::~LocalCluster() {
  for (const auto& [pid, rank] : workers_) end_process(pid);
  for (const pid_t pid : natives_) end_process(pid);
  server_.reset();
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace dlrun::test

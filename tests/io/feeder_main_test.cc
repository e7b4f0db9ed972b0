// The feeder as a process, between a real agent's socket (task::TaskServer) and a real reader.
#include "io/feeder/feeder_main.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "io/core/ledger_core.h"
#include "io/pipe/reader.h"
#include "runtime/task/task_client.h"
#include "runtime/task/task_server.h"
#include "tests/io/serve_lease.h"

extern char** environ;

namespace dlrun::io {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class FeederMain : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "dlrun-fmain-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    fs::create_directory(dir_ / "work");
    std::ofstream out(dir_ / "data.libsvm");
    for (std::uint64_t id = 0; id < kRows; ++id) out << "1 " << id << ":1\n";
    spec_.name = "train";
    spec_.uris = {(dir_ / "data.libsvm").string()};
    spec_.batch_rows = 10;
    spec_.split_bytes = 500;
    spec_.passes = 2;
    ledger_ = std::make_unique<LedgerCore>(std::vector<InputSpec>{spec_});
    consumer_token_[0] = 7;
    feeder_token_[0] = 9;
    start_agent();
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    server_.reset();
    fs::remove_all(dir_);
  }

  void start_agent() {
    task::ServerOptions options;
    options.socket_dir = dir_.string();
    task::ServerCallbacks callbacks;
    callbacks.on_message = [this](const TaskId&, task::PeerKind, task::ToServer message) {
      on_message(std::move(message));
    };
    auto server = task::TaskServer::start(options, std::move(callbacks));
    ASSERT_TRUE(server) << server.error().to_string();
    const std::lock_guard lock(mutex_);
    server_ = std::move(*server);
    auto path = server_->open(feeder_, feeder_token_, {});
    ASSERT_TRUE(path) << path.error().to_string();
    agent_socket_ = *path;
  }
  void on_message(task::ToServer message) {
    const std::lock_guard lock(mutex_);
    task::FeederReply reply;
    if (const auto* ready = std::get_if<task::Ready>(&message)) {
      feeder_socket_ = ready->info.ipc;
      ready_.notify_all();
      return;
    }
    if (const auto* files = std::get_if<task::FeederFiles>(&message)) {
      reply.request = files->request;
      if (const Status set = ledger_->set_files(files->input, files->files); !set) {
        reply.error = set.error().code;
        reply.error_context = set.error().context;
      }
    } else if (const auto* lease = std::get_if<task::FeederLease>(&message)) {
      reply.request = lease->request;
      resyncs_ += lease->resync;
      auto answer = serve_lease(*ledger_, *lease);
      if (answer) {
        reply.answer = *answer;
      } else {
        reply.error = answer.error().code;
        reply.error_context = answer.error().context;
      }
    } else {
      return;
    }
    ready_.notify_all();
    if (server_) (void)server_->send(feeder_, reply);
  }

  void spawn(bool with_environment, const fs::path& errors) {
    const std::string program = std::string(std::getenv("DLRUN_BUILD_DIR")) + "/bin/pipe_peer";
    std::vector<std::string> env;
    for (char** e = environ; *e != nullptr; ++e)
      if (std::string_view(*e).substr(0, 6) != "DLRUN_") env.emplace_back(*e);
    if (with_environment) {
      env.push_back("DLRUN_SOCKET=" + agent_socket_);
      env.push_back("DLRUN_TOKEN=" + task::to_hex(feeder_token_));
    }
    std::vector<char*> envp;
    for (std::string& e : env) envp.push_back(e.data());
    envp.push_back(nullptr);
    std::string mode = "main", work = (dir_ / "work").string();
    char* argv[] = {const_cast<char*>(program.c_str()), mode.data(), work.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, envp.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  void start_feeder() {
    spawn(true, dir_ / "stderr");
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(ready_.wait_for(lock, 20s, [this] { return !feeder_socket_.empty(); }));
    EXPECT_EQ(feeder_socket_, (fs::canonical(dir_) / "work/feeder.sock").string());
    struct stat st {};
    ASSERT_EQ(::stat(feeder_socket_.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u);
    ASSERT_TRUE(server_->send(feeder_, task::AdmitConsumer{consumer_token_, worker_, {}, spec_}));
  }
  int wait_for_exit() {
    int status = -1;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  static constexpr std::uint64_t kRows = 1500;
  fs::path dir_;
  InputSpec spec_;
  const TaskId feeder_{JobId(1), "feeder", 0, Generation(1)};
  const TaskId worker_{JobId(1), "worker", 0, Generation(1)};
  cluster::Token consumer_token_{}, feeder_token_{};
  std::mutex mutex_;
  std::condition_variable ready_;
  std::unique_ptr<LedgerCore> ledger_;
  std::unique_ptr<task::TaskServer> server_;
  std::string agent_socket_, feeder_socket_;
  int resyncs_ = 0;
  pid_t pid_ = -1;
};

TEST_F(FeederMain, FeedsAConsumerThroughItsAgentAndStopsWhenTold) {
  start_feeder();
  auto reader = PipeReader::attach(feeder_socket_, consumer_token_, 20s);
  ASSERT_TRUE(reader) << reader.error().to_string();
  std::multiset<std::uint64_t> ids;
  std::uint32_t marks = 0;
  for (;;) {
    const auto view = (*reader)->next(20s);
    if (!view) {
      EXPECT_EQ(view.error().code, Errc::kEndOfData) << view.error().to_string();
      break;
    }
    marks += view->pass_ended;
    ids.insert(view->ids.begin(), view->ids.end());
    (*reader)->release(*view);
  }
  EXPECT_EQ(marks, 2u);
  EXPECT_EQ(ids.size(), 2 * kRows);
  for (std::uint64_t id = 0; id < kRows; ++id) ASSERT_EQ(ids.count(id), 2u);
  {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ready_.wait_for(lock, 20s, [this] {
      const auto counts = *ledger_->counts("train");
      return counts.done == 2 * counts.splits && counts.leased == 0;
    }));
    ASSERT_TRUE(server_->send(feeder_, task::StopNow{}));
  }
  EXPECT_EQ(wait_for_exit(), 0);
  EXPECT_EQ((*reader)->next(20s).error().code, Errc::kEndOfData);
  EXPECT_FALSE(fs::exists(feeder_socket_));
}

TEST_F(FeederMain, GoesOnWhenTheAgentIsRestartedAndReadsNothingTwice) {
  start_feeder();
  auto reader = PipeReader::attach(feeder_socket_, consumer_token_, 20s);
  ASSERT_TRUE(reader) << reader.error().to_string();
  std::multiset<std::uint64_t> ids;
  int batches = 0;
  for (;;) {
    const auto view = (*reader)->next(30s);
    if (!view) {
      EXPECT_EQ(view.error().code, Errc::kEndOfData) << view.error().to_string();
      break;
    }
    ids.insert(view->ids.begin(), view->ids.end());
    (*reader)->release(*view);
    if (++batches % 60 == 0) {  // the agent dies; the job's ledger lives elsewhere
      std::unique_ptr<task::TaskServer> gone;
      {
        const std::lock_guard lock(mutex_);
        gone = std::move(server_);
      }
      gone.reset();
      start_agent();
    }
  }
  EXPECT_EQ(ids.size(), 2 * kRows);
  for (std::uint64_t id = 0; id < kRows; ++id) ASSERT_EQ(ids.count(id), 2u) << id;
  EXPECT_GT(resyncs_, 1);
}

TEST_F(FeederMain, EndsWellOnTerm) {
  start_feeder();
  auto reader = PipeReader::attach(feeder_socket_, consumer_token_, 20s);
  ASSERT_TRUE(reader);
  ASSERT_GT(pid_, 0);
  ASSERT_EQ(::kill(pid_, SIGTERM), 0);
  EXPECT_EQ(wait_for_exit(), 0);
  Result<BatchView> view = (*reader)->next(20s);
  while (view) view = (*reader)->next(20s);
  EXPECT_EQ(view.error().code, Errc::kUnavailable);
}

TEST_F(FeederMain, SaysWhyItCannotStart) {
  spawn(false, dir_ / "stderr");
  EXPECT_EQ(wait_for_exit(), 1);
  std::ifstream errors(dir_ / "stderr");
  const std::string text{std::istreambuf_iterator<char>(errors), std::istreambuf_iterator<char>()};
  EXPECT_THAT(text, ::testing::HasSubstr("DLRUN_SOCKET"));
}

}  // namespace
}  // namespace dlrun::io

// TaskServer and TaskClient over a real socket, with an agent that restarts and peers that
// misbehave.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "runtime/base/rng.h"
#include "runtime/task/task_client.h"
#include "runtime/task/task_server.h"
#include "runtime/wire/task_codec.h"

namespace dlrun::task {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TaskId kTask{JobId{7}, "worker", 1, Generation{1}};

class Task : public testing::Test {
 protected:
  Task() {
    char name[] = "/tmp/dlrun-task-XXXXXX";
    dir_ = ::mkdtemp(name);
    token_.fill(0x5a);
    start_server();
  }
  ~Task() override {
    server_.reset();
    std::filesystem::remove_all(dir_);
  }

  void start_server() {
    ServerOptions options;
    options.socket_dir = dir_;
    options.hello_timeout = milliseconds(300);
    ServerCallbacks callbacks;
    callbacks.on_message = [this](const TaskId& task, PeerKind kind, ToServer message) {
      EXPECT_EQ(task, kTask);
      {
        const std::lock_guard lock(mutex_);
        got_.emplace_back(kind, message);
        changed_.notify_all();
      }
      if (reply_) reply_(std::move(message));
    };
    callbacks.on_gone = [this](const TaskId&, PeerKind, std::size_t left) {
      const std::lock_guard lock(mutex_);
      gone_.push_back(left);
      changed_.notify_all();
    };
    callbacks.on_log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      log_ += line + "\n";
      changed_.notify_all();
    };
    auto server = TaskServer::start(std::move(options), std::move(callbacks));
    ASSERT_TRUE(server) << server.error().to_string();
    server_ = std::move(*server);
    Welcome welcome;
    welcome.task = kTask;
    welcome.world = 4;
    welcome.job_name = "a job";
    const auto path = server_->open(kTask, token_, welcome);
    ASSERT_TRUE(path) << path.error().to_string();
    path_ = *path;
  }

  ClientOptions options() {
    ClientOptions o = client_options(path_, to_hex(token_), PeerKind::kUser).value();
    o.connect_timeout = seconds(20);
    return o;
  }
  std::unique_ptr<TaskClient> connect(ClientOptions o) {
    auto client = TaskClient::connect(std::move(o));
    EXPECT_TRUE(client) << client.error().to_string();
    return client ? std::move(*client) : nullptr;
  }

  template <class Done>
  bool wait(Done done) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(30), done);
  }
  template <class M>
  std::vector<M> all_of() {  // under mutex_
    std::vector<M> list;
    for (const auto& [kind, m] : got_) {
      if (const auto* typed = std::get_if<M>(&m)) list.push_back(*typed);
    }
    return list;
  }

  int raw() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::memcpy(a.sun_path, path_.c_str(), path_.size() + 1);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
    const timeval t{20, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    return fd;
  }
  /// All that comes until the end.
  static std::string read_to_end(int fd) {
    std::string all;
    char buffer[4096];
    for (;;) {
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
      if (n <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(n));
    }
  }
  static Errc refusal(const std::string& bytes) {
    std::size_t consumed = 0;
    std::string_view message;
    const auto more = wire::unframe(bytes, consumed, message);
    if (!more || !*more) return Errc{};
    const auto m = wire::decode_to_client(message);
    const auto* refused = m ? std::get_if<Refused>(&*m) : nullptr;
    return refused != nullptr ? refused->code : Errc{};
  }

  std::string dir_, path_;
  cluster::Token token_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<PeerKind, ToServer>> got_;
  std::vector<std::size_t> gone_;
  std::string log_;
  std::function<void(ToServer)> reply_;
  std::unique_ptr<TaskServer> server_;
};

TEST_F(Task, HelloIsAnsweredWithWelcomeAndTheAgentLearnsKindAndPid) {
  auto o = options();
  o.kind = PeerKind::kShardHost;
  const auto client = connect(o);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(client->welcome().task, kTask);
  EXPECT_EQ(client->welcome().world, 4u);
  EXPECT_EQ(client->welcome().version, kProtocolVersion);
  ASSERT_TRUE(wait([&] { return !got_.empty(); }));
  EXPECT_EQ(got_[0].first, PeerKind::kShardHost);
  EXPECT_EQ(std::get<Hello>(got_[0].second).pid, ::getpid());
}

TEST_F(Task, AWrongTokenIsRefusedAtOnce) {
  auto o = options();
  o.token[31] ^= 1;
  const auto client = TaskClient::connect(o);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Errc::kPermissionDenied);
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(got_.empty());
  EXPECT_NE(log_.find("process " + std::to_string(::getpid())), std::string::npos) << log_;
}

TEST_F(Task, NobodyThereIsUnavailableWithinTheTimeGiven) {
  auto o = options();
  o.socket_path = dir_ + "/nothing";
  o.connect_timeout = milliseconds(100);
  const auto begin = std::chrono::steady_clock::now();
  const auto client = TaskClient::connect(o);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Errc::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
}

TEST_F(Task, MalformedSettingsAreNamed) {
  EXPECT_EQ(client_options("", "", PeerKind::kUser).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(client_options("/a", "zz", PeerKind::kUser).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(parse_token(to_hex(token_)).value(), token_);
  auto o = options();
  o.socket_path = "/" + std::string(200, 'x');
  EXPECT_EQ(TaskClient::connect(o).error().code, Errc::kInvalidArgument);
}

TEST_F(Task, ABarrierWaitsForItsOwnNameAndRound) {
  reply_ = [this](ToServer m) {
    if (const auto* b = std::get_if<EnterBarrier>(&m); b != nullptr && b->name != "never") {
      EXPECT_TRUE(server_->send(kTask, BarrierPassed{"other", b->round}));
      EXPECT_TRUE(server_->send(kTask, BarrierPassed{b->name, b->round + 7}));
      EXPECT_TRUE(server_->send(kTask, BarrierPassed{b->name, b->round}));
    }
  };
  const auto client = connect(options());
  EXPECT_TRUE(client->barrier("go", seconds(20)));
  EXPECT_TRUE(client->barrier("go", seconds(20)));
  EXPECT_EQ(client->barrier("never", milliseconds(50)).error().code, Errc::kDeadlineExceeded);
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(all_of<EnterBarrier>().at(1).round, 2u);
}

TEST_F(Task, AnswersGoToTheProcessThatAskedAndCarryErrors) {
  reply_ = [this](ToServer m) {
    if (const auto* open = std::get_if<OpenInput>(&m)) {
      InputAt at{open->request, Errc{}, "", "/feeder/" + open->input, token_};
      if (open->input == "none") at = {open->request, Errc::kNotFound, "no input 'none'", "", {}};
      EXPECT_TRUE(server_->send(kTask, at));
      // nobody waits for it twice
      EXPECT_EQ(server_->send(kTask, at).error().code, Errc::kUnavailable);
    }
    if (const auto* lease = std::get_if<FeederLease>(&m)) {
      io::LeaseAnswer answer{io::LeaseState::kGranted, {{lease->splits_max, 0, "/u", "e", 1, 2}}};
      EXPECT_TRUE(
          server_->send(kTask, PeerKind::kUser, FeederReply{lease->request, Errc{}, "", answer}));
    }
    if (const auto* files = std::get_if<FeederFiles>(&m)) {
      io::LeaseAnswer answer;
      answer.start.world = 4;
      EXPECT_TRUE(server_->send(kTask, FeederReply{files->request, Errc{}, "", answer}));
    }
    if (const auto* commit = std::get_if<CommitInputs>(&m)) {
      Committed done{commit->request, 3, Errc{}, ""};
      if (commit->tag != "good") done = {commit->request, 0, Errc::kFailedPrecondition, "bad tag"};
      EXPECT_TRUE(server_->send(kTask, done));
    }
  };
  const auto a = connect(options()), b = connect(options());
  std::thread other([&] {
    for (int i = 0; i < 200; ++i)
      EXPECT_EQ(b->open_input("b", seconds(20)).value().feeder_socket, "/feeder/b");
  });
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(a->open_input("a", seconds(20)).value().feeder_socket, "/feeder/a");
  other.join();
  EXPECT_EQ(a->open_input("none", seconds(20)).error(),
            (Error{Errc::kNotFound, "no input 'none'"}));
  FeederLease lease;
  lease.splits_max = 5;
  EXPECT_EQ(b->feeder_lease(lease, seconds(20)).value().splits.at(0).id, 5u);
  EXPECT_EQ(b->feeder_files(kTask, "x", {{"/f", 1, "e"}}, seconds(20)).value().world, 4u);
  EXPECT_EQ(a->commit("good", {}, seconds(20)).value(), 3u);
  EXPECT_EQ(b->commit("other", {}, seconds(20)).error(),
            (Error{Errc::kFailedPrecondition, "bad tag"}));
  EXPECT_EQ(a->receive(milliseconds(1)).error().code, Errc::kDeadlineExceeded);
}

TEST_F(Task, OtherMessagesAreReceivedInOrderOrGoToTheCallback) {
  const auto client = connect(options());
  ASSERT_TRUE(server_->send(kTask, WorkerLeft{kTask}));
  ASSERT_TRUE(server_->send(kTask, StopNow{}));
  EXPECT_EQ(std::get<WorkerLeft>(client->receive(seconds(20)).value()).worker, kTask);
  EXPECT_TRUE(std::holds_alternative<StopNow>(client->receive(seconds(20)).value()));
  EXPECT_TRUE(client->stop_requested());
  std::mutex mutex;
  std::condition_variable changed;
  bool stopped = false;
  auto o = options();
  o.kind = PeerKind::kFeeder;
  o.on_message = [&](ToClient m) {
    const std::lock_guard lock(mutex);
    stopped = std::holds_alternative<StopNow>(m);
    changed.notify_all();
  };
  const auto feeder = connect(o);
  ASSERT_TRUE(server_->send(kTask, PeerKind::kFeeder, StopNow{}));
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, seconds(20), [&] { return stopped; }));
  // not for users
  EXPECT_EQ(client->receive(milliseconds(1)).error().code, Errc::kDeadlineExceeded);
}

TEST_F(Task, SendingToNobodyIsAnError) {
  EXPECT_EQ(server_->send(kTask, StopNow{}).error().code, Errc::kUnavailable);
  EXPECT_EQ(server_->send(TaskId{}, StopNow{}).error().code, Errc::kNotFound);
  EXPECT_EQ(server_->open(kTask, token_, {}).error().code, Errc::kAlreadyExists);
}

TEST_F(Task, TheAgentHearsWhenAProcessGoes) {
  auto a = connect(options()), b = connect(options());
  ASSERT_TRUE(wait([&] { return all_of<Hello>().size() == 2; }));
  a.reset();
  ASSERT_TRUE(wait([&] { return gone_ == std::vector<std::size_t>{1}; }));
  b.reset();
  ASSERT_TRUE(wait([&] { return gone_ == (std::vector<std::size_t>{1, 0}); }));
}

TEST_F(Task, ARestartedAgentIsFoundAgainAndHearsWhatWasUnderWay) {
  const auto client = connect(options());
  ASSERT_TRUE(client->send(Ready{{"tcp://a:1", "/i"}}));
  ASSERT_TRUE(client->send(ReportProgress{0.1, "x"}));
  ASSERT_TRUE(client->send(ReportProgress{0.5, "y"}));
  Status passed;
  Result<io::LeaseAnswer> lease;
  std::thread at_barrier([&] { passed = client->barrier("go", seconds(60)); });
  std::thread leasing([&] { lease = client->feeder_lease({}, seconds(60)); });
  ASSERT_TRUE(wait(
      [&] { return all_of<EnterBarrier>().size() == 1 && all_of<FeederLease>().size() == 1; }));
  server_.reset();
  leasing.join();
  EXPECT_EQ(lease.error().code, Errc::kUnavailable);  // told at once, not at the deadline
  {
    const std::lock_guard lock(mutex_);
    got_.clear();
  }
  EXPECT_TRUE(client->send(FeederGone{kTask}));  // kept while the agent is away
  EXPECT_EQ(client->feeder_lease({}, seconds(1)).error().code, Errc::kUnavailable);
  const std::string path = path_;
  start_server();
  EXPECT_EQ(path_, path);
  ASSERT_TRUE(
      wait([&] { return all_of<EnterBarrier>().size() == 1 && all_of<FeederGone>().size() == 1; }));
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(all_of<Ready>().at(0).info.tcp, "tcp://a:1");
    ASSERT_EQ(all_of<ReportProgress>().size(), 1u);
    EXPECT_EQ(all_of<ReportProgress>()[0].text, "y");
    EXPECT_EQ(all_of<EnterBarrier>()[0].round, 1u);
  }
  ASSERT_TRUE(server_->send(kTask, BarrierPassed{"go", 1}));
  at_barrier.join();
  EXPECT_TRUE(passed);
}

TEST_F(Task, ManyProgressReportsToASlowAgentKeepOnlyTheLast) {
  std::promise<void> go_on;
  const std::shared_future<void> released = go_on.get_future().share();
  reply_ = [released](ToServer message) {
    if (std::holds_alternative<ReportProgress>(message)) released.wait_for(seconds(30));
  };
  auto o = options();
  o.queue_bytes_max = 64u << 10;
  const auto client = connect(std::move(o));
  const std::string text(500, 't');
  Status status;
  int sent = 0;
  for (; sent < 5000 && status; ++sent)
    status = client->send(ReportProgress{0.5, text + std::to_string(sent)});
  const std::string last = text + std::to_string(sent - 1);
  go_on.set_value();
  ASSERT_TRUE(status) << sent << ": " << status.error().to_string();
  EXPECT_TRUE(wait([&] {
    const auto got = all_of<ReportProgress>();
    return !got.empty() && got.back().text == last;
  }));
}

TEST_F(Task, AnAgentThatStaysAwayClosesTheClient) {
  auto o = options();
  o.reconnect_for = milliseconds(100);
  std::mutex mutex;
  std::condition_variable changed;
  Error closed;
  bool is_closed = false;
  o.on_closed = [&](Error e) {
    const std::lock_guard lock(mutex);
    closed = std::move(e);
    is_closed = true;
    changed.notify_all();
  };
  const auto client = connect(o);
  server_.reset();
  EXPECT_EQ(client->barrier("go", seconds(60)).error().code, Errc::kUnavailable);
  EXPECT_EQ(client->receive(seconds(60)).error().code, Errc::kUnavailable);
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_for(lock, seconds(20), [&] { return is_closed; }));
  EXPECT_EQ(closed.code, Errc::kUnavailable);
}

TEST_F(Task, AClosedTaskRefusesAndItsSocketIsGone) {
  const auto client = connect(options());
  ASSERT_TRUE(wait([&] { return !got_.empty(); }));
  ASSERT_TRUE(server_->send(kTask, StopNow{}));
  server_->close(kTask);
  // what was queued still comes
  EXPECT_TRUE(std::holds_alternative<StopNow>(client->receive(seconds(20)).value()));
  const auto until = std::chrono::steady_clock::now() + seconds(20);
  while (::access(path_.c_str(), F_OK) == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_NE(::access(path_.c_str(), F_OK), 0);
  EXPECT_EQ(server_->send(kTask, StopNow{}).error().code, Errc::kNotFound);
}

TEST_F(Task, ASweepRemovesTheSocketsOfTasksThatEndedMeanwhileAndNothingElse) {
  const TaskId other{JobId{8}, "worker", 0, Generation{1}};
  const auto ended = server_->open(other, token_, {});
  ASSERT_TRUE(ended);
  server_.reset();  // as if the agent was killed
  start_server();
  const std::string file = dir_ + "/t0123456789abcdef", folder = dir_ + "/f12";
  ASSERT_EQ(::close(::creat(file.c_str(), 0600)), 0);
  ASSERT_EQ(::mkdir(folder.c_str(), 0700), 0);
  EXPECT_EQ(::access(ended->c_str(), F_OK), 0);
  server_->sweep();
  EXPECT_NE(::access(ended->c_str(), F_OK), 0);
  EXPECT_EQ(::access(file.c_str(), F_OK), 0) << "no socket of ours";
  EXPECT_EQ(::access(folder.c_str(), F_OK), 0);
  EXPECT_TRUE(connect(options())) << "the open task keeps its own";
}

TEST_F(Task, APathThatIsTooLongIsRefused) {
  ServerOptions o;
  o.socket_dir = dir_ + "/" + std::string(90, 'x');
  std::filesystem::create_directories(o.socket_dir);
  auto server = TaskServer::start(o, {}).value();
  EXPECT_EQ(server->open(kTask, token_, {}).error().code, Errc::kInvalidArgument);
}

TEST_F(Task, StrangersAreSentAwayAndOthersGoOn) {
  const auto client = connect(options());
  const auto attack = [&](const std::string& bytes) {
    const int fd = raw();
    (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const Errc code = refusal(read_to_end(fd));
    ::close(fd);
    return code;
  };
  const auto framed = [](const ToServer& m) { return wire::frame(wire::encode(m)).value(); };
  Hello hello;
  hello.token = token_;
  EXPECT_EQ(attack("\xff\xff\xff\xff"), Errc::kCorrupt);
  EXPECT_EQ(attack(std::string(4, '\0')), Errc::kCorrupt);
  EXPECT_EQ(attack(wire::frame(std::string(64, '\x7f')).value()), Errc::kCorrupt);
  EXPECT_EQ(attack(framed(EnterBarrier{"x", 1})), Errc::kInvalidArgument);
  EXPECT_EQ(attack(std::string("\x00\x00\x10\x00", 4) + std::string(8192, 'x')),
            Errc::kInvalidArgument);
  EXPECT_EQ(attack(""), Errc{});  // says nothing: closed after hello_timeout
  hello.version = 0;
  EXPECT_EQ(attack(framed(hello)), Errc::kUnsupported);
  hello.version = 99;  // a newer peer: the lower version holds, then a second Hello is an offence
  const int fd = raw();
  const std::string twice = framed(hello) + framed(hello);
  (void)!::send(fd, twice.data(), twice.size(), MSG_NOSIGNAL);
  std::string answer = read_to_end(fd);
  ::close(fd);
  std::size_t consumed = 0;
  std::string_view message;
  ASSERT_TRUE(wire::unframe(answer, consumed, message).value());
  EXPECT_EQ(std::get<Welcome>(wire::decode_to_client(message).value()).version, kProtocolVersion);
  EXPECT_EQ(refusal(answer.substr(consumed)), Errc::kInvalidArgument);
  SplitMix64 rng(5);
  for (int i = 0; i < 100; ++i) {
    std::string noise = framed(hello);
    for (int k = 0; k < 4; ++k) noise[rng.below(noise.size())] = static_cast<char>(rng.next());
    const int peer = raw();
    (void)!::send(peer, noise.data(), noise.size(), MSG_NOSIGNAL);
    ::close(peer);
  }
  ASSERT_TRUE(server_->send(kTask, StopNow{}));
  EXPECT_TRUE(std::holds_alternative<StopNow>(client->receive(seconds(20)).value()));
}

TEST_F(Task, APeerThatDoesNotReadIsBounded) {
  const int fd = raw();
  Hello hello;
  hello.token = token_;
  const std::string bytes = wire::frame(wire::encode(ToServer(hello))).value();
  ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  ASSERT_TRUE(wait([&] { return !got_.empty(); }));
  AdmitConsumer big;
  big.input.uris = {std::string(4 << 20, 'x')};
  Status status;
  for (int i = 0; i < 100 && status; ++i) status = server_->send(kTask, big);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::kOverloaded);
  ::close(fd);
}

TEST_F(Task, ABigMessageComesWhole) {
  const auto client = connect(options());
  AdmitConsumer big;
  big.input.uris = {std::string(12 << 20, 'x')};
  ASSERT_TRUE(server_->send(kTask, big));
  EXPECT_EQ(std::get<AdmitConsumer>(client->receive(seconds(30)).value()).input.uris,
            big.input.uris);
  FeederFiles files;
  files.files = {{std::string(12 << 20, 'y'), 1, ""}};
  ASSERT_TRUE(client->send(files));
  ASSERT_TRUE(wait([&] { return all_of<FeederFiles>().size() == 1; }));
  files.files[0].uri.resize(17 << 20);
  EXPECT_EQ(client->send(files).error().code, Errc::kInvalidArgument);
}

TEST_F(Task, WhoConnectsWhileThereAreNoDescriptorsWaitsAndTheServerDoesNotSpin) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path, path_.c_str(), path_.size() + 1);
  // UBSan's first look at an object's type takes two descriptors: it is had before.
  ASSERT_TRUE(wait([] { return true; }));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = ::dup(fd);
  ::close(lowest);
  const rlimit none{static_cast<rlim_t>(lowest), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  using Clock = std::chrono::steady_clock;  // no virtual function: see above
  const std::clock_t busy = std::clock();
  const auto begin = Clock::now();
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  EXPECT_TRUE(wait([&] { return log_.find("(2 times so far)") != std::string::npos; }));
  EXPECT_TRUE(wait([&] { return log_.find("(4 times so far)") != std::string::npos; }));
  const std::chrono::duration<double> busy_s(static_cast<double>(std::clock() - busy) /
                                             CLOCKS_PER_SEC);
  EXPECT_GT(Clock::now() - begin, milliseconds(250)) << "three pauses lie between four tries";
  EXPECT_LT(busy_s, (Clock::now() - begin) / 3.0) << "it spins between them";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  const auto hello = wire::frame(wire::encode(ToServer(Hello{1, PeerKind::kUser, token_, 5})));
  ASSERT_TRUE(hello);
  ASSERT_EQ(::send(fd, hello->data(), hello->size(), 0), static_cast<ssize_t>(hello->size()));
  EXPECT_TRUE(wait([&] { return all_of<Hello>().size() == 1; }));
  ::close(fd);
  const std::lock_guard lock(mutex_);
  EXPECT_NE(log_.find("Too many open files"), std::string::npos) << log_;
  EXPECT_LE(std::count(log_.begin(), log_.end(), '\n'), 5) << log_;
}

TEST_F(Task, AChildOfForkIsToldAndTheParentGoesOn) {
  auto client = connect(options());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool told = client->send(ReportProgress{}).error().code == Errc::kFailedPrecondition &&
                      client->barrier("x", seconds(1)).error().code == Errc::kFailedPrecondition;
    client.reset();  // does not touch the parent's connection
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ASSERT_TRUE(server_->send(kTask, StopNow{}));
  EXPECT_TRUE(std::holds_alternative<StopNow>(client->receive(seconds(20)).value()));
}

}  // namespace
}  // namespace dlrun::task

// The guardian of a local cluster; local_cluster.h has the picture.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "launcher/left_tasks.h"
#include "launcher/local_cluster.h"
#include "runtime/os/signals.h"

namespace dlrun::launcher {
namespace {

using SteadyClock = std::chrono::steady_clock;
using nlohmann::json;

constexpr Duration kCoordinatorLimit = std::chrono::seconds(20);
constexpr Duration kDaemonGrace = std::chrono::seconds(6);
constexpr Duration kJobsLimit = std::chrono::seconds(40);
constexpr Duration kLeftGrace = std::chrono::seconds(2), kLeftLimit = std::chrono::seconds(40);

class Guardian {
 public:
  Guardian(const World& world, std::map<std::string, std::string> flags)
      : world_(world),
        folder_(flags["--data"]),
        nodes_(static_cast<std::uint32_t>(std::strtoul(flags["--nodes"].c_str(), nullptr, 10))),
        cpus_(flags["--cpus"]),
        memory_(flags["--memory"]),
        listen_(flags["--listen"]),
        as_root_(flags["--as-root"] == "yes"),
        standing_(flags["--mode"] == "standing") {}

  int run() {
    // Signals become readable; the terminal's and the parent's do not reach this session.
    auto signals = os::SignalFd::open({SIGTERM, SIGINT, SIGHUP, SIGCHLD});
    auto self = mark_of(::getpid());
    if (!self || !signals) return kInternal;
    signals_.emplace(std::move(*signals));
    self_ = *self;
    say(kGuardianBegins);
    save(false, "");
    Status started = watch_users();
    if (started) started = start();
    if (!started) {
      say(started.error().context);
      end_daemons();
      save(true, started.error().context);
      return kUnreachable;
    }
    ready_ = true;
    save(false, "");
    const bool asked = wait();
    save(true, "");
    end_jobs();
    end_daemons();
    // Of a standing cluster whose coordinator died the tasks run on: `up` takes them up again,
    // `down` ends them.
    if (asked || !standing_) end_left();
    ::unlink((folder_ + "/guardian.json").c_str());
    // The thread that waited for the lock may still wait: it holds nothing that needs care.
    ::_exit(0);
  }

 private:
  void say(std::string_view text) const {
    const std::string line = fmt::format("{}{}\n", kGuardianSays, text);
    std::fputs(line.c_str(), stderr);
  }

  void save(bool stopping, const std::string& error) {
    json daemons = json::array();
    for (const auto& d : daemons_) daemons.push_back({{"pid", d.pid}, {"start", d.start_ticks}});
    const json out{{"pid", self_.pid}, {"start", self_.start_ticks}, {"standing", standing_},
                   {"ready", ready_},  {"stopping", stopping},       {"nodes", nodes_},
                   {"error", error},   {"daemons", daemons}};
    if (const Status saved =
            write_file(folder_ + "/guardian.json",
                       out.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
        !saved)
      say(saved.error().context);
  }

  Status daemon(const std::string& name, std::vector<std::string> argv) {
    argv.insert(argv.begin(), world_.self_exe);
    DLRUN_ASSIGN(const ProcessMark mark, spawn({.argv = std::move(argv),
                                                .log_path = folder_ + "/" + name + ".log",
                                                .death_signal = standing_ ? 0 : SIGTERM}));
    daemons_.push_back(mark);
    save(false, "");
    return {};
  }

  Status start() {
    const std::string coordinator = folder_ + "/coordinator";
    ::unlink((coordinator + "/cluster.json").c_str());
    DLRUN_TRY(make_folders(coordinator));
    std::vector<std::string> command{"coordinator", "--data", coordinator};
    if (!listen_.empty()) {
      const bool v6 = listen_.find(':') != std::string::npos;
      command.insert(command.end(),
                     {"--listen", listen_, "--rest", (v6 ? "[" + listen_ + "]" : listen_) + ":0"});
    }
    DLRUN_TRY(daemon("coordinator", std::move(command)));
    json info;
    for (const auto until = SteadyClock::now() + kCoordinatorLimit;;) {
      const auto text = read_file(coordinator + "/cluster.json");
      info = text ? json::parse(*text, nullptr, false) : json();
      if (info.is_object() && info.contains("rest")) break;
      ::waitpid(daemons_[0].pid, nullptr, WNOHANG);
      if (!alive(daemons_[0]))
        return fail(Errc::kUnavailable,
                    "the coordinator ended: " + tail_of(folder_ + "/coordinator.log", 1500));
      if (SteadyClock::now() > until)
        return fail(Errc::kDeadlineExceeded, "the coordinator does not serve: " +
                                                 tail_of(folder_ + "/coordinator.log", 1500));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const auto field = [&](const char* name) {
      return info.contains(name) && info[name].is_string() ? info[name].get<std::string>()
                                                           : std::string();
    };
    std::string token = field("join_token_file");
    if (!token.empty() && !token.starts_with('/')) token = coordinator + "/" + token;
    for (std::uint32_t i = 0; i < nodes_; ++i) {
      const std::string name = fmt::format("node-{}", i);
      const auto [first, last] = port_range(folder_, i, nodes_);
      DLRUN_TRY(make_folders(folder_ + "/" + name));
      std::vector<std::string> agent{"agent",
                                     "--data",
                                     folder_ + "/" + name,
                                     "--join",
                                     field("join"),
                                     "--token-file",
                                     token,
                                     "--ca-fingerprint",
                                     field("ca_fingerprint"),
                                     "--name",
                                     name,
                                     "--cpus",
                                     cpus_,
                                     "--memory",
                                     memory_,
                                     "--ports",
                                     fmt::format("{}-{}", first, last)};
      if (as_root_) agent.push_back("--tasks-as-root");
      DLRUN_TRY(daemon(name, std::move(agent)));
    }
    return {};
  }

  /// Embedded: what wait() needs to see the last user's leave; without it the cluster would never
  /// end.
  Status watch_users() {
    if (standing_) return {};
    DLRUN_ASSIGN(FileLock lock, FileLock::open(folder_ + "/users.lock"));
    users_.emplace(std::move(lock));
    return ::pipe2(left_, O_CLOEXEC) == 0 ? Status{} : Status(fail_errno("make a pipe"));
  }

  /// Until TERM or (embedded) the last user's leave: true; or the coordinator's end: false.
  bool wait() {
    if (users_) {
      std::thread([lock = std::move(*users_), fd = left_[1]]() mutable {
        lock.lock(FileLock::Mode::kExclusive);
        [[maybe_unused]] const ssize_t n = ::write(fd, "x", 1);
        for (;;) ::pause();  // the lock is held until the process ends
      }).detach();
    }
    for (;;) {
      pollfd fds[2] = {{signals_->get(), POLLIN, 0}, {left_[0], POLLIN, 0}};
      if (::poll(fds, 2, -1) < 0 && errno != EINTR) {
        say(fail_errno("poll; the local cluster ends").value().context);
        return true;
      }
      if (fds[1].revents & POLLIN) {
        say("its last user has left");
        return true;
      }
      while (const auto signal = signals_->next()) {
        if (*signal != SIGCHLD) {
          say("it was asked to end");
          return true;
        }
        int status = 0;
        std::optional<int> coordinator;  // said last: it is why the cluster ends
        for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
          if (pid == daemons_[0].pid)
            coordinator = status;
          else
            say_end(pid, status);
        // It may have died since: it is reaped all the same, or nobody would say so.
        if (!coordinator && !alive(daemons_[0]) && ::waitpid(daemons_[0].pid, &status, 0) > 0)
          coordinator = status;
        if (coordinator) say_end(daemons_[0].pid, *coordinator);
        if (!alive(daemons_[0])) return false;
      }
    }
  }

  /// An agent's end is no reason to end: its node is lost, its tasks run on.
  void say_end(pid_t pid, int status) const {
    for (std::size_t i = 0; i < daemons_.size(); ++i) {
      if (daemons_[i].pid != pid) continue;
      const std::string file = i == 0 ? "coordinator" : fmt::format("node-{}", i - 1);
      std::fprintf(stderr, "%s\n", tail_of(fmt::format("{}/{}.log", folder_, file), 1500).c_str());
      say(fmt::format("{} {}", i == 0 ? "the coordinator" : "the agent of " + file,
                      WIFSIGNALED(status)
                          ? fmt::format("was killed by signal {}", WTERMSIG(status))
                          : fmt::format("ended with code {}", WEXITSTATUS(status))));
    }
  }

  /// What runs would outlive the daemons under its shims: it is killed first.
  void end_jobs() {
    if (nodes_ == 0 || !alive(daemons_[0])) return;
    RestClient client([&] { return read_cluster_info(folder_ + "/coordinator"); });
    std::map<std::string, bool> killed;
    for (const auto until = SteadyClock::now() + kJobsLimit; SteadyClock::now() < until;) {
      const auto body = client.call({.target = "/api/v1/jobs?limit=1000", .retry_for = {}});
      const json list = body ? json::parse(*body, nullptr, false) : json();
      if (!list.is_object() || !list.contains("jobs")) return;
      bool running = false;
      for (const auto& job : list["jobs"]) {
        if (job.value("final", true)) continue;
        running = true;
        const std::string id = job.value("id", "");
        if (!std::exchange(killed[id], true))
          (void)client.call({.method = "POST",
                             .target = "/api/v1/jobs/" + id + "/kill",
                             .body = R"({"reason":"the local cluster is going down"})",
                             .retry_for = {}});
      }
      if (!running) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  void end_daemons() {
    // All agents at once, then the coordinator: it hears their farewell.
    for (std::size_t i = 1; i < daemons_.size(); ++i)
      if (alive(daemons_[i])) ::kill(daemons_[i].pid, SIGTERM);
    for (std::size_t i = daemons_.size(); i-- > 0;) end_process(daemons_[i], kDaemonGrace);
  }

  /// Tasks of agents that were gone before us.
  void end_left() {
    if (const Status ended = end_left_tasks(folder_, kLeftGrace, kLeftLimit); !ended)
      say(ended.error().context);
  }

  const World& world_;
  std::string folder_;
  std::uint32_t nodes_;
  std::string cpus_, memory_, listen_;
  bool as_root_, standing_, ready_ = false;
  std::optional<os::SignalFd> signals_;
  int left_[2] = {-1, -1};         ///< readable when the last user has left
  std::optional<FileLock> users_;  ///< of an embedded cluster
  ProcessMark self_;
  std::vector<ProcessMark> daemons_;
};

}  // namespace

int guardian_main(const std::vector<std::string>& args, const World& world) {
  std::map<std::string, std::string> flags;
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) flags[args[i]] = args[i + 1];
  if (flags["--data"].empty()) return kUsage;
  return Guardian(world, std::move(flags)).run();
}

}  // namespace dlrun::launcher

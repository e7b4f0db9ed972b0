#include "runtime/shim/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "runtime/os/fd.h"
#include "runtime/shim/exec_child.h"
#include "runtime/shim/tree_kill.h"

namespace dlrun::shim {
namespace {

constexpr std::size_t kPeersMax = 8;
constexpr std::size_t kBufferBytes = 64u << 10;

std::int64_t now_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1000 + t.tv_nsec / 1000000;
}

std::int64_t after(std::int64_t now, std::uint64_t ms) {
  return now + static_cast<std::int64_t>(std::min<std::uint64_t>(ms, std::uint64_t{1} << 50));
}

using os::close_fd;

std::string name_of_signal(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation != nullptr ? std::string("SIG") + abbreviation
                                 : "signal " + std::to_string(signal);
}

}  // namespace

Supervisor::Supervisor(int lock_fd, int agent_fd) : lock_fd_(lock_fd) {
  if (agent_fd >= 0) peers_.push_back(agent_fd);
}

Supervisor::~Supervisor() {
  for (int fd : peers_) close_fd(fd);
  for (auto& o : out_) close_fd(o.fd);
  close_fd(listen_fd_);
  close_fd(lock_fd_);
}

int Supervisor::run() {
  auto status = prepare();
  if (status) status = start();
  if (!status) {
    Exit exit;
    exit.cause = EndCause::kStartFailed;
    exit.detail = status.error().context;
    return finish(std::move(exit));
  }
  loop();
  return finish(make_exit());
}

Status Supervisor::prepare() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "dlrun-shim");
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  DLRUN_ASSIGN(auto signals, os::SignalFd::open({SIGCHLD, SIGTERM}, SIG_SETMASK));
  signals_.emplace(std::move(signals));

  char cwd[4096];
  if (::getcwd(cwd, sizeof cwd) == nullptr) return fail_errno("getcwd");
  task_dir_ = cwd;
  DLRUN_ASSIGN(const auto bytes, read_file("spec", kSpecBytesMax));
  DLRUN_ASSIGN(spec_, decode_spec(bytes));

  ::unlink("shim.sock");
  listen_fd_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // relative: a task directory may be longer than sun_path
  std::strcpy(address.sun_path, "shim.sock");
  if (listen_fd_ < 0 ||
      ::bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listen_fd_, 8) != 0) {
    return fail_errno("shim.sock");
  }
  ::mkdir("logs", 0755);
  const char* names[2] = {"stdout", "stderr"};
  for (int i = 0; i < 2; ++i) {
    logs_[i] = std::make_unique<LogWriter>("logs", names[i], spec_.log_segment_bytes,
                                           spec_.log_retained_bytes);
    DLRUN_TRY(logs_[i]->open());
  }
  return {};
}

Status Supervisor::start() {
  tree_.mark = spec_.mark;
  tree_.boot_id = boot_id();
  tree_.shim_pid = ::getpid();
  const auto use_groups = [&](TaskCgroups groups) {
    groups_ = std::move(groups);
    tree_.cgroups = groups_.v2.empty() && groups_.isolation != "cgroup v1"
                        ? std::vector<std::string>()
                        : groups_.all();
    tree_.isolation = groups_.isolation;
    return write_file("tree", encode(tree_));
  };
  DLRUN_TRY(use_groups(
      spec_.use_cgroup
          ? make_task_cgroups(find_cgroup_home(), cgroup_name(spec_.mark), spec_.memory_bytes)
          : TaskCgroups{}));
  ChildSetup setup;
  setup.spec = &spec_;
  setup.cwd = spec_.cwd.empty() ? task_dir_ : spec_.cwd;
  for (const auto& e : spec_.env) {
    if (e.rfind("DLRUN_MARK=", 0) != 0) setup.env.push_back(e);
  }
  setup.env.push_back(mark_env(spec_.mark));
  int ends[2][2] = {{-1, -1}, {-1, -1}};
  int null_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  Status piped;
  for (auto& end : ends) {
    if (::pipe2(end, O_CLOEXEC) != 0) piped = fail_errno("pipe");
  }
  Result<pid_t> pid = 0;
  if (piped && null_fd >= 0) {
    setup.stdin_fd = null_fd;
    setup.stdout_fd = ends[0][1];
    setup.stderr_fd = ends[1][1];
    setup.cgroup_v2 = groups_.v2;
    setup.join = groups_.join;
    pid = start_child(setup);
    if (!pid && pid.error().code == Errc::kUnsupported && !groups_.v2.empty()) {
      tree_remove_cgroups(tree_);
      if (auto again = use_groups(TaskCgroups{}); !again) {
        pid = tl::unexpected(again.error());
      } else {
        setup.cgroup_v2.clear();
        setup.join.clear();
        pid = start_child(setup);
      }
    }
  } else {
    pid = piped ? Result<pid_t>(fail_errno("open /dev/null"))
                : Result<pid_t>(tl::unexpected(piped.error()));
  }
  close_fd(null_fd);
  for (int i = 0; i < 2; ++i) {
    close_fd(ends[i][1]);
    if (!pid) {
      close_fd(ends[i][0]);
      continue;
    }
    ::fcntl(ends[i][0], F_SETFL, O_NONBLOCK);
    out_[i] = {ends[i][0], logs_[i].get()};
  }
  if (!pid) return tl::unexpected(pid.error());
  pid_ = *pid;
  phase_ = Phase::kRunning;
  if (spec_.time_limit_ms > 0) time_limit_at_ = after(now_ms(), spec_.time_limit_ms);
  report();
  return {};
}

void Supervisor::loop() {
  std::vector<pollfd> polled;
  while (!tree_empty_ && !gave_up_) {
    polled.clear();
    polled.push_back({signals_->get(), POLLIN, 0});
    polled.push_back({listen_fd_, POLLIN, 0});
    for (const auto& o : out_) polled.push_back({o.fd, POLLIN, 0});  // -1 is ignored
    for (const int fd : peers_) polled.push_back({fd, POLLIN, 0});
    const std::int64_t deadline = next_deadline();
    const int timeout =
        deadline < 0
            ? -1
            : static_cast<int>(std::clamp<std::int64_t>(deadline - now_ms(), 0, 1'000'000'000));
    if (::poll(polled.data(), polled.size(), timeout) < 0 && errno != EINTR) break;
    for (int i = 0; i < 2; ++i) {
      if (polled[2 + static_cast<std::size_t>(i)].revents != 0) pump(out_[i]);
    }
    if (polled[0].revents != 0) {
      while (const auto signal = signals_->next())
        if (*signal == SIGTERM) begin_stop(EndCause::kUserKill, spec_.grace_ms);
      reap();
    }
    for (std::size_t i = 4; i < polled.size(); ++i) {
      if (polled[i].revents == 0 || on_peer(polled[i].fd)) continue;
      ::close(polled[i].fd);
      std::erase(peers_, polled[i].fd);
    }
    if (polled[1].revents != 0) accept_peer();
    on_timers(now_ms());
  }
}

void Supervisor::reap() {
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) {  // ECHILD: the tree is empty
      tree_empty_ = main_ended_;
      return;
    }
    if (pid == 0) break;
    max_rss_bytes_ = std::max(max_rss_bytes_, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
    if (pid != pid_) continue;
    main_ended_ = true;
    wait_status_ = status;
  }
  // Somebody outlived the program.
  if (main_ended_ && phase_ == Phase::kRunning) {
    phase_ = Phase::kStopping;
    kill_at_ = after(now_ms(), spec_.leftover_grace_ms);
    tree_signal(tree_, ::getpid(), SIGTERM);
    report();
  }
}

void Supervisor::begin_stop(EndCause cause, std::uint64_t grace_ms) {
  const std::int64_t at = after(now_ms(), grace_ms);
  if (stop_cause_ == EndCause::kNone && !main_ended_) stop_cause_ = cause;
  const bool first = phase_ == Phase::kRunning;
  phase_ = Phase::kStopping;
  if (kill_at_ < 0 || at < kill_at_) kill_at_ = at;
  if (first && grace_ms > 0) tree_signal(tree_, ::getpid(), SIGTERM);
  if (first) report();
}

std::int64_t Supervisor::next_deadline() const {
  std::int64_t deadline = -1;
  const auto consider = [&](std::int64_t at) {
    if (at >= 0 && (deadline < 0 || at < deadline)) deadline = at;
  };
  if (next_kill_at_ >= 0) {
    consider(next_kill_at_);
    consider(give_up_at_);
  } else {
    consider(kill_at_);
    if (phase_ == Phase::kRunning) consider(time_limit_at_);
  }
  return deadline;
}

void Supervisor::on_timers(std::int64_t now) {
  if (phase_ == Phase::kRunning && time_limit_at_ >= 0 && now >= time_limit_at_) {
    begin_stop(EndCause::kTimeLimit, spec_.grace_ms);
  }
  if (tree_empty_) return;
  if (next_kill_at_ < 0 && kill_at_ >= 0 && now >= kill_at_) {
    next_kill_at_ = now;
    give_up_at_ = after(now, spec_.give_up_ms);
  }
  if (next_kill_at_ >= 0 && now >= next_kill_at_) kill_round(now);
  if (give_up_at_ >= 0 && now >= give_up_at_) gave_up_ = true;
}

void Supervisor::kill_round(std::int64_t now) {
  tree_kill(tree_, ::getpid());
  if (pid_ > 0 && !main_ended_) ::kill(pid_, SIGKILL);  // our child: its number cannot be another's
  next_kill_at_ = now + kill_pause_ms_;
  kill_pause_ms_ = std::min<std::int64_t>(kill_pause_ms_ * 2, 500);
}

bool Supervisor::pump(Output& output) {
  static char buffer[kBufferBytes];
  if (output.fd < 0) return false;
  const ssize_t n = ::read(output.fd, buffer, sizeof buffer);
  if (n > 0) {
    output.log->write({buffer, static_cast<std::size_t>(n)});
    return true;
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) close_fd(output.fd);
  return false;
}

void Supervisor::accept_peer() {
  const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != ::geteuid() && peer.uid != 0)) {
    ::close(fd);
    return;
  }
  if (peers_.size() >= kPeersMax) {  // the oldest is an agent that is gone
    ::close(peers_.front());
    peers_.erase(peers_.begin());
  }
  peers_.push_back(fd);
  report_to(fd);
}

bool Supervisor::on_peer(int fd) {
  char buffer[4096];
  const ssize_t n = ::recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0) return false;
  const auto command = decode_command({buffer, static_cast<std::size_t>(n)});
  if (!command) return false;
  switch (command->kind) {
    case Command::Kind::kStatus:
      report_to(fd);
      break;
    case Command::Kind::kStop:
      begin_stop(command->cause, command->grace_ms);
      break;
    case Command::Kind::kKill:
      begin_stop(command->cause, 0);
      break;
  }
  return true;
}

void Supervisor::report_to(int fd) {
  Report r;
  r.phase = phase_;
  r.pid = pid_;
  r.shim_pid = ::getpid();
  r.isolation = tree_.isolation;
  if (phase_ != Phase::kStarting && spec_.memory_bytes > 0 && groups_.memory.empty())
    r.warning = "its memory limit of " + std::to_string(spec_.memory_bytes) +
                " bytes is not enforced: no memory cgroup can be made here (" + tree_.isolation +
                ")";
  r.exit = exit_;
  const std::string bytes = encode(r);
  (void)!::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Supervisor::report() {
  for (const int fd : peers_) report_to(fd);
}

Exit Supervisor::make_exit() {
  Exit exit;
  exit.peak_bytes = cgroup_peak_bytes(groups_);
  if (exit.peak_bytes == 0) exit.peak_bytes = max_rss_bytes_;
  if (!groups_.memory.empty()) exit.limit_bytes = spec_.memory_bytes;
  if (main_ended_) {
    if (WIFEXITED(wait_status_)) exit.code = WEXITSTATUS(wait_status_);
    if (WIFSIGNALED(wait_status_)) exit.signal = WTERMSIG(wait_status_);
  }
  const bool main_ok = main_ended_ && WIFEXITED(wait_status_) && exit.code == 0;
  if (gave_up_) {
    const auto left = tree_pids(tree_, ::getpid());
    exit.cause = EndCause::kShimLost;
    exit.detail = "the tree is not empty after " + std::to_string(spec_.give_up_ms / 1000) +
                  " s of KILL: " + std::to_string(left.size()) + " left" +
                  (left.empty() ? "" : ", one is process " + std::to_string(left.front()));
  } else if (stop_cause_ != EndCause::kNone) {
    exit.cause = stop_cause_;
    if (stop_cause_ == EndCause::kTimeLimit) {
      exit.detail = "the time limit of " + std::to_string(spec_.time_limit_ms) + " ms is over";
    }
  } else if (!main_ok && cgroup_oom_kills(groups_) > 0) {
    exit.cause = EndCause::kOom;
    exit.detail = "out of memory: peak " + std::to_string(exit.peak_bytes) + " bytes, limit " +
                  std::to_string(exit.limit_bytes) + " bytes";
  } else if (exit.signal != 0) {
    exit.cause = EndCause::kSignal;
    exit.detail = "ended by " + name_of_signal(exit.signal);
  } else {
    exit.cause = EndCause::kExit;
  }
  return exit;
}

int Supervisor::finish(Exit exit) {
  // Whoever wrote is dead: what is in the pipes is all there is.
  for (auto& o : out_) {
    while (pump(o)) {
    }
  }
  exit_ = std::move(exit);
  phase_ = Phase::kEnded;
  if (!gave_up_) tree_remove_cgroups(tree_);
  const bool recorded = write_file("exit", encode(exit_)).has_value();
  report();
  // The agent knows already; now the record also survives a power cut.
  for (const char* name : {"exit", "."}) {
    int fd = ::open(name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) ::fsync(fd);
    close_fd(fd);
  }
  ::unlink("shim.sock");
  return recorded ? 0 : 1;
}

}  // namespace dlrun::shim

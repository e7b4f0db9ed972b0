#include "runtime/shim/shim_client.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/os/event_loop.h"
#include "runtime/shim/tree_kill.h"

namespace dlrun::shim {
namespace {

using os::close_fd;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kReapPause = milliseconds(20);
constexpr Duration kReapGiveUp = seconds(30);
constexpr Duration kConnectPause = milliseconds(50);

/// The shim's own twin of Cause (spec.h): the same names with the same numbers, so that a cast is
/// right.
#define DLRUN_SAME_CAUSE(name)                               \
  static_assert(static_cast<std::uint8_t>(EndCause::name) == \
                static_cast<std::uint8_t>(cluster::Cause::name))
DLRUN_SAME_CAUSE(kNone);
DLRUN_SAME_CAUSE(kExit);
DLRUN_SAME_CAUSE(kSignal);
DLRUN_SAME_CAUSE(kOom);
DLRUN_SAME_CAUSE(kTimeLimit);
DLRUN_SAME_CAUSE(kUserKill);
DLRUN_SAME_CAUSE(kSibling);
DLRUN_SAME_CAUSE(kNodeLost);
DLRUN_SAME_CAUSE(kShimLost);
DLRUN_SAME_CAUSE(kStartFailed);
DLRUN_SAME_CAUSE(kPreempted);
DLRUN_SAME_CAUSE(kCoordinator);
DLRUN_SAME_CAUSE(kStopped);
#undef DLRUN_SAME_CAUSE

cluster::TaskEnd to_task_end(const Exit& exit) {
  cluster::TaskEnd end;
  end.cause = static_cast<cluster::Cause>(exit.cause);
  end.code = exit.code;
  end.signal = exit.signal;
  end.peak_bytes = exit.peak_bytes;
  end.limit_bytes = exit.limit_bytes;
  end.detail = exit.detail;
  return end;
}

Exit start_failed(std::string detail) {
  Exit exit;
  exit.cause = EndCause::kStartFailed;
  exit.detail = std::move(detail);
  return exit;
}

std::optional<Exit> read_exit(const std::string& dir) {
  const auto bytes = read_file(dir + "/exit", 1 << 20);
  if (!bytes) return std::nullopt;
  auto exit = decode_exit(*bytes);
  if (!exit) return std::nullopt;
  return std::move(*exit);
}

/// Connects to <dir>/shim.sock however long the path is.
int connect_to(const std::string& dir) {
  const int dir_fd = ::open(dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir_fd < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = "/proc/self/fd/" + std::to_string(dir_fd) + "/shim.sock";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    close_fd(fd);
  ::close(dir_fd);
  return fd;
}

Status check(const std::string& dir, const Spec& spec) {
  const auto has_nul = [](const std::string& s) { return s.find('\0') != std::string::npos; };
  if (dir.empty() || dir[0] != '/')
    return fail(Errc::kInvalidArgument, "task directory '" + dir + "' is not absolute");
  if (spec.argv.empty()) return fail(Errc::kInvalidArgument, "argv is empty: nothing to run");
  if (spec.argv[0].empty())
    return fail(Errc::kInvalidArgument, "the program's name (argv[0]) is empty");
  if (has_nul(spec.cwd)) return fail(Errc::kInvalidArgument, "cwd holds a NUL byte");
  for (std::size_t i = 0; i < spec.argv.size(); ++i) {
    if (has_nul(spec.argv[i]))
      return fail(Errc::kInvalidArgument, "argv[" + std::to_string(i) + "] holds a NUL byte");
  }
  for (const auto& e : spec.env) {
    const std::size_t at = e.find('=');
    if (at == std::string::npos || at == 0)
      return fail(Errc::kInvalidArgument, "environment entry '" + e + "' has no name");
    if (has_nul(e))
      return fail(Errc::kInvalidArgument,
                  "environment variable " + e.substr(0, at) + " holds a NUL byte");
  }
  return {};
}

}  // namespace

class ShimClient::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {}

  Status begin() {
    return loop_.start({[this](std::uint64_t key, std::uint32_t) { on_ready(key); },
                        [this](TimePoint now) { return on_time(now); }});
  }

  ~Impl() {
    loop_.stop();
    for (auto& [id, task] : tasks_) {
      close_fd(task.socket);
      close_fd(task.pidfd);
    }
  }

  Status spawn(const std::string& dir, Spec spec) {
    DLRUN_TRY(check(dir, spec));
    if (::access((dir + "/spec").c_str(), F_OK) == 0)
      return fail(Errc::kAlreadyExists, dir + ": a task was here before");
    if (spec.mark == 0) {
      if (::getrandom(&spec.mark, sizeof spec.mark, 0) != sizeof spec.mark)
        return fail_errno("getrandom");
      spec.mark |= 1;
    }
    return enqueue(
        dir, [this, dir, spec = std::move(spec)](std::uint64_t id) { do_spawn(id, dir, spec); });
  }

  Status attach(const std::string& dir) {
    if (::access((dir + "/spec").c_str(), F_OK) != 0)
      return fail(Errc::kNotFound, dir + ": no task here");
    return enqueue(dir, [this](std::uint64_t id) { do_attach(id); });
  }

  Status command(const std::string& dir, Command command) {
    const std::lock_guard lock(mutex_);
    const auto it = ids_.find(dir);
    if (it == ids_.end()) return fail(Errc::kNotFound, dir + ": no running task here");
    loop_.post([this, id = it->second, command] { do_command(id, command); });
    return {};
  }

 private:
  struct Task {
    std::string dir;
    Phase phase = Phase::kStarting;
    std::int64_t pid = 0;
    std::string isolation, warning;
    int socket = -1, pidfd = -1;
    pid_t child = 0;                       ///< the shim, when it is our child
    std::optional<Command> pending;        ///< to be sent once connected
    std::optional<TimePoint> retry_at;     ///< next connect
    std::optional<TimePoint> escalate_at;  ///< a shim that does not obey is killed
    std::optional<OrphanReaper> reaper;
    bool announced = false;
  };

  Status enqueue(const std::string& dir, std::function<void(std::uint64_t)> call) {
    const std::lock_guard lock(mutex_);  // until it is posted: a command must come after it
    if (ids_.contains(dir)) return fail(Errc::kAlreadyExists, dir + ": known already");
    const std::uint64_t id = next_id_++;
    ids_[dir] = id;
    loop_.post([this, id, dir, call = std::move(call)] {
      tasks_[id].dir = dir;
      call(id);
    });
    return {};
  }

  // id * 2 = its socket, id * 2 + 1 = its pidfd.
  void watch(int fd, std::uint64_t key) { loop_.watch(fd, key, EPOLLIN); }

  void on_ready(std::uint64_t key) {
    if (key % 2 == 0)
      on_socket(key / 2);
    else
      on_child(key / 2);
  }

  std::optional<TimePoint> on_time(TimePoint now) {
    std::optional<TimePoint> next;
    std::vector<std::uint64_t> due;
    for (auto& [id, task] : tasks_) {
      for (const auto& at : {task.retry_at, task.escalate_at}) {
        if (!at) continue;
        if (*at <= now) due.push_back(id);
        if (!next || at < *next) next = at;
      }
    }
    for (const auto id : due) on_timer(id, now);
    // <= now when something was due: looks again at once, what was done may have named a later time
    return next;
  }

  Task* find(std::uint64_t id) {
    const auto it = tasks_.find(id);
    return it == tasks_.end() ? nullptr : &it->second;
  }

  void do_spawn(std::uint64_t id, const std::string& dir, const Spec& spec) {
    Task& task = tasks_[id];
    int lock = -1, pair[2] = {-1, -1};
    const auto spawned = [&]() -> Status {
      ::mkdir((dir + "/logs").c_str(), 0755);
      DLRUN_TRY(write_file(dir + "/spec", encode(spec)));
      // Numbers above 10, so that the dup2 onto 3 and 4 in the child cannot overwrite one of them.
      const auto lift = [](int fd) {
        const int high = fd < 0 ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 10);
        if (fd >= 0) ::close(fd);
        return high;
      };
      lock = lift(::open((dir + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) return fail_errno("lock of " + dir);
      if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return fail_errno("socketpair");
      pair[1] = lift(pair[1]);
      ::fcntl(pair[0], F_SETFL, O_NONBLOCK);
      return start_shim(dir, lock, pair[1], task.child);
    }();
    close_fd(lock);
    close_fd(pair[1]);
    if (!spawned) {
      close_fd(pair[0]);
      Exit exit = start_failed("the shim could not be started: " + spawned.error().context);
      (void)write_file(dir + "/exit", encode(exit));
      end(id, exit);
      return;
    }
    task.socket = pair[0];
    watch(task.socket, id * 2);
    task.pidfd = static_cast<int>(::syscall(SYS_pidfd_open, task.child, 0));
    if (task.pidfd >= 0) watch(task.pidfd, id * 2 + 1);
  }

  Status start_shim(const std::string& dir, int lock, int socket, pid_t& pid) const {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    const std::string log = dir + "/shim.log";
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, lock, 3);
    ::posix_spawn_file_actions_adddup2(&actions, socket, 4);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, 5);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const char* const argv[] = {"dlrun-shim", dir.c_str(), nullptr};
    const char* const envp[] = {nullptr};
    const int error = ::posix_spawn(&pid, options_.shim_program.c_str(), &actions, &attributes,
                                    const_cast<char* const*>(argv), const_cast<char* const*>(envp));
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return fail_errno("run " + options_.shim_program, error);
    return {};
  }

  void do_attach(std::uint64_t id) {
    Task& task = tasks_[id];
    if (!shim_alive(task.dir)) {
      lost(id);
      return;
    }
    task.retry_at.reset();
    task.socket = connect_to(task.dir);
    if (task.socket < 0) {  // it is starting, or about to end
      task.retry_at = clock_.now() + kConnectPause;
      return;
    }
    watch(task.socket, id * 2);
    if (task.pending) send(task, *std::exchange(task.pending, std::nullopt));
  }

  void do_command(std::uint64_t id, const Command& command) {
    Task* task = find(id);
    if (task == nullptr || task->reaper) return;
    if (task->socket >= 0) {
      send(*task, command);
    } else {
      task->pending = command;
    }
    if (command.kind == Command::Kind::kStatus) return;
    const TimePoint at = clock_.now() +
                         milliseconds(static_cast<std::int64_t>(
                             std::min<std::uint64_t>(command.grace_ms, 86'400'000))) +
                         kReapGiveUp + seconds(10);
    if (!task->escalate_at || at < *task->escalate_at) task->escalate_at = at;
  }

  static void send(Task& task, const Command& command) {
    const std::string bytes = encode(command);
    if (::send(task.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
        errno == EAGAIN) {
      task.pending = command;  // a full socket of a stopped shim: the escalation follows
    }
  }

  void on_timer(std::uint64_t id, TimePoint now) {
    Task* task = find(id);
    if (task == nullptr) return;
    if (task->escalate_at && *task->escalate_at <= now) {
      task->escalate_at.reset();
      const auto bytes = read_file(task->dir + "/tree", 1 << 20);
      const auto tree = bytes ? decode_tree(*bytes) : Result<Tree>(tl::unexpected(bytes.error()));
      const pid_t shim = task->child != 0 ? task->child
                         : tree           ? static_cast<pid_t>(tree->shim_pid)
                                          : 0;
      if (shim > 1 && shim_alive(task->dir)) ::kill(shim, SIGKILL);
      if (task->socket < 0 && !task->retry_at) task->retry_at = now + kConnectPause;
    }
    if (!task->retry_at || *task->retry_at > now) return;
    if (!task->reaper) {
      do_attach(id);
    } else if (task->reaper->step(now)) {
      const Exit exit = task->reaper->result();
      end(id, exit);
    } else {
      task->retry_at = now + kReapPause;
    }
  }

  /// False when there was nothing to read.
  bool on_socket(std::uint64_t id) {
    Task* task = find(id);
    if (task == nullptr || task->socket < 0) return false;
    char buffer[64 << 10];
    const ssize_t n = ::recv(task->socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n > 0) {
      const auto report = decode_report({buffer, static_cast<std::size_t>(n)});
      if (report) on_report(id, *report);
      return true;
    }
    close_fd(task->socket);
    if (task->child == 0) lost(id);  // else its pidfd tells
    return true;
  }

  void on_report(std::uint64_t id, const Report& report) {
    Task& task = *find(id);
    task.pid = report.pid;
    task.isolation = report.isolation;
    task.warning = report.warning;
    if (report.phase == Phase::kEnded) {
      end(id, report.exit);
      return;
    }
    if (report.phase == task.phase && task.announced) return;
    task.phase = report.phase;
    task.announced = true;
    emit(task, Exit{});
  }

  void on_child(std::uint64_t id) {
    Task* task = find(id);
    if (task == nullptr) {
      reap_child(id);
      return;
    }
    while (on_socket(id)) {  // what it said before it died
    }
    reap_child(id);
    task = find(id);
    if (task == nullptr) return;
    task->child = 0;
    close_fd(task->pidfd);
    lost(id);
  }

  /// After kEnded the shim may still be our child for a moment: pidfds of ended tasks are kept
  /// until it is gone.
  void reap_child(std::uint64_t id) {
    const auto it = zombies_.find(id);
    if (it != zombies_.end()) {
      ::waitpid(it->second.first, nullptr, WNOHANG);
      ::close(it->second.second);
      zombies_.erase(it);
    } else if (Task* task = find(id); task != nullptr && task->child != 0) {
      ::waitpid(task->child, nullptr, WNOHANG);
    }
  }

  /// The shim is not there any more (or about to go): its record, or what is left of its tree.
  void lost(std::uint64_t id) {
    Task& task = *find(id);
    if (const auto exit = read_exit(task.dir)) {
      end(id, *exit);
      return;
    }
    auto reaper = OrphanReaper::begin(task.dir, clock_.now(), kReapGiveUp);
    if (!reaper) {
      if (reaper.error().code == Errc::kFailedPrecondition) {
        // it is just dying, or somebody else reaps
        task.retry_at = clock_.now() + kConnectPause;
        return;
      }
      Exit exit;
      exit.cause = EndCause::kShimLost;
      exit.detail = reaper.error().context;
      end(id, exit);
      return;
    }
    task.escalate_at.reset();
    task.reaper.emplace(std::move(*reaper));
    task.retry_at = clock_.now();
  }

  void emit(const Task& task, const Exit& exit) const {
    if (!options_.on_event) return;
    ShimEvent event;
    event.task_dir = task.dir;
    event.phase = task.phase;
    event.pid = task.pid;
    event.isolation = task.isolation;
    event.warning = task.warning;
    event.end = to_task_end(exit);
    options_.on_event(event);
  }

  void end(std::uint64_t id, const Exit& exit) {
    const auto it = tasks_.find(id);
    Task task = std::move(it->second);
    tasks_.erase(it);
    {
      const std::lock_guard lock(mutex_);
      ids_.erase(task.dir);
    }
    close_fd(task.socket);
    if (task.child != 0 && task.pidfd >= 0) {
      zombies_[id] = {task.child, task.pidfd};
    } else {
      close_fd(task.pidfd);
    }
    task.reaper.reset();  // its lock
    task.phase = Phase::kEnded;
    emit(task, exit);
  }

  Options options_;
  SystemClock clock_;
  os::EventLoop loop_;

  std::mutex mutex_;  // ids_, next_id_
  std::map<std::string, std::uint64_t> ids_;
  std::uint64_t next_id_ = 1;

  // Of the thread.
  std::map<std::uint64_t, Task> tasks_;
  std::map<std::uint64_t, std::pair<pid_t, int>> zombies_;  ///< shim, pidfd
};

ShimClient::ShimClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShimClient::~ShimClient() = default;

Result<std::unique_ptr<ShimClient>> ShimClient::start(Options options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  DLRUN_TRY(impl->begin());
  return std::unique_ptr<ShimClient>(new ShimClient(std::move(impl)));
}

Status ShimClient::spawn(const std::string& task_dir, Spec spec) {
  return impl_->spawn(task_dir, std::move(spec));
}
Status ShimClient::attach(const std::string& task_dir) { return impl_->attach(task_dir); }

Status ShimClient::stop(const std::string& task_dir, Duration grace, cluster::Cause cause) {
  Command command;
  command.kind = Command::Kind::kStop;
  command.grace_ms = static_cast<std::uint64_t>(std::max<std::int64_t>(0, grace / milliseconds(1)));
  command.cause = static_cast<EndCause>(cause);
  return impl_->command(task_dir, command);
}

Status ShimClient::kill(const std::string& task_dir, cluster::Cause cause) {
  Command command;
  command.kind = Command::Kind::kKill;
  command.cause = static_cast<EndCause>(cause);
  return impl_->command(task_dir, command);
}

bool ShimClient::shim_alive(const std::string& task_dir) {
  const int fd = ::open((task_dir + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool alive = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return alive;
}

}  // namespace dlrun::shim

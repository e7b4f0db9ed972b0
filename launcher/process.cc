#include "launcher/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <thread>
#include <utility>

namespace dlrun::launcher {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(5);

}  // namespace

Result<ProcessMark> mark_of(pid_t pid) {
  DLRUN_ASSIGN(const std::string stat, read_file(fmt::format("/proc/{}/stat", pid)));
  const auto close = stat.rfind(')');  // the name may hold anything
  if (close == std::string::npos) return fail(Errc::kCorrupt, "unreadable /proc stat");
  std::istringstream fields(stat.substr(close + 1));
  std::string state, skip;
  fields >> state;
  for (int i = 4; i < 22; ++i) fields >> skip;
  ProcessMark mark{.pid = pid};
  fields >> mark.start_ticks;
  if (!fields || state == "Z" || state == "X")
    return fail(Errc::kNotFound, fmt::format("process {} has ended", pid));
  return mark;
}

bool alive(const ProcessMark& mark) {
  if (mark.pid <= 0) return false;
  const auto now = mark_of(mark.pid);
  return now && now->start_ticks == mark.start_ticks;
}

Result<ProcessMark> spawn(const SpawnOptions& options) {
  std::vector<char*> argv;
  for (const auto& argument : options.argv) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return fail_errno("pipe");
  const int log = ::open(options.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) {
    const int error = errno;
    ::close(report[0]), ::close(report[1]);
    return fail_errno("log " + options.log_path, error);
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    // Only async-signal-safe calls from here on.
    if (options.own_session) ::setsid();
    if (options.death_signal != 0) {
      ::prctl(PR_SET_PDEATHSIG, options.death_signal);
      if (::getppid() != parent) ::_exit(1);
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGINT, SIG_DFL), ::signal(SIGTERM, SIG_DFL), ::signal(SIGPIPE, SIG_DFL),
        ::signal(SIGHUP, SIG_DFL);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, 0), ::dup2(log, 1), ::dup2(log, 2);
    ::execv(argv[0], argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t n = ::write(report[1], &error, sizeof error);
    ::_exit(127);
  }
  const int fork_error = errno;
  ::close(report[1]), ::close(log);
  if (pid < 0) {
    ::close(report[0]);
    return fail_errno("fork", fork_error);
  }
  int error = 0;
  const ssize_t n = ::read(report[0], &error, sizeof error);
  ::close(report[0]);
  if (n == sizeof error) {
    ::waitpid(pid, nullptr, 0);
    return fail_errno("starting " + options.argv[0], error);
  }
  auto mark = mark_of(pid);
  if (!mark)
    return fail(Errc::kIo, fmt::format("{} ended at once: {}", options.argv[0],
                                       tail_of(options.log_path, 1000)));
  return mark;
}

bool end_process(const ProcessMark& mark, Duration grace) {
  const auto gone_within = [&](Duration limit) {
    const auto until = SteadyClock::now() + limit;
    for (;;) {
      ::waitpid(mark.pid, nullptr, WNOHANG);
      if (!alive(mark)) return true;
      if (SteadyClock::now() > until) return false;
      std::this_thread::sleep_for(kPoll);
    }
  };
  if (!alive(mark)) return true;
  ::kill(mark.pid, SIGTERM);
  if (gone_within(grace)) return true;
  if (alive(mark)) ::kill(mark.pid, SIGKILL);
  return gone_within(std::chrono::seconds(5));
}

Status make_folders(const std::string& path) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno("making the folder " + part);
    if (at != std::string::npos) ++at;
  }
  return {};
}

std::string tail_of(const std::string& path, std::size_t bytes) {
  auto text = os::read_tail(path, bytes);
  if (!text) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

}  // namespace dlrun::launcher

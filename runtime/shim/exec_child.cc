#include "runtime/shim/exec_child.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace dlrun::shim {
namespace {

enum class Stage : int { kNone = 0, kSession, kCgroup, kRlimit, kCwd, kStdio, kPrivileges, kExec };

/// Lives in a page that parent and child share: the child's last words.
struct Failure {
  Stage stage = Stage::kNone;
  int error = 0;
  int index = 0;  ///< which cgroup, rlimit or candidate
};

struct Plan {
  std::vector<char*> argv, envp;
  std::vector<std::string> candidates;
  std::vector<int> join_fds;
};

std::vector<std::string> candidates_of(const std::string& program,
                                       const std::vector<std::string>& env) {
  if (program.find('/') != std::string::npos) return {program};
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const auto& e : env) {
    if (e.rfind("PATH=", 0) == 0) path = e.substr(5);
  }
  std::vector<std::string> list;
  std::size_t at = 0;
  for (;;) {
    const std::size_t colon = path.find(':', at);
    const std::string dir = path.substr(at, colon == std::string::npos ? colon : colon - at);
    list.push_back((dir.empty() ? "." : dir) + "/" + program);
    if (colon == std::string::npos) return list;
    at = colon + 1;
  }
}

[[noreturn]] void die(Failure* failure, Stage stage, int index = 0) {
  failure->error = errno;
  failure->index = index;
  failure->stage = stage;
  ::_exit(127);
}

/// In the child: no allocation, no lock.
[[noreturn]] void run_child(const ChildSetup& setup, const Plan& plan, pid_t shim,
                            Failure* failure) {
  if (::setsid() < 0) die(failure, Stage::kSession);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != shim) ::_exit(127);
  for (std::size_t i = 0; i < plan.join_fds.size(); ++i) {
    if (::write(plan.join_fds[i], "0", 1) != 1) die(failure, Stage::kCgroup, static_cast<int>(i));
  }
  for (int s = 1; s < 65; ++s) ::signal(s, SIG_DFL);
  ::umask(022);
  if (::chdir(setup.cwd.c_str()) != 0) die(failure, Stage::kCwd);
  if (::dup2(setup.stdin_fd, 0) < 0 || ::dup2(setup.stdout_fd, 1) < 0 ||
      ::dup2(setup.stderr_fd, 2) < 0) {
    die(failure, Stage::kStdio);
  }
  if (setup.spec->no_new_privs && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    die(failure, Stage::kPrivileges);
  for (std::size_t i = 0; i < setup.spec->rlimits.size(); ++i) {
    const Rlimit& r = setup.spec->rlimits[i];
    const struct rlimit limit { r.soft, r.hard };
    if (::setrlimit(static_cast<__rlimit_resource_t>(r.resource), &limit) != 0) {
      die(failure, Stage::kRlimit, static_cast<int>(i));
    }
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  // As execvp does: ENOENT and ENOTDIR try the next folder of PATH; EACCES is remembered.
  int error = ENOENT, index = 0;
  for (std::size_t i = 0; i < plan.candidates.size(); ++i) {
    ::execve(plan.candidates[i].c_str(), plan.argv.data(), plan.envp.data());
    if (errno == EACCES && error == ENOENT) {
      error = EACCES;
      index = static_cast<int>(i);
    }
    if (errno == ENOENT && error == ENOENT && ::access(plan.candidates[i].c_str(), F_OK) == 0) {
      index = static_cast<int>(i) + 1000000;  // it is there: its interpreter is not
      break;
    }
    if (errno != EACCES && errno != ENOENT && errno != ENOTDIR) {
      error = errno;
      index = static_cast<int>(i);
      break;
    }
  }
  errno = error;
  die(failure, Stage::kExec, index);
}

pid_t clone_child(int cgroup_fd) {
  struct clone_args args;
  std::memset(&args, 0, sizeof args);
  args.flags = CLONE_VFORK | (cgroup_fd >= 0 ? std::uint64_t{CLONE_INTO_CGROUP} : 0);
  args.exit_signal = SIGCHLD;
  args.cgroup = cgroup_fd >= 0 ? static_cast<std::uint64_t>(cgroup_fd) : 0;
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
}

std::string quoted(const std::string& s) { return "'" + s + "'"; }

tl::unexpected<Error> explain(const ChildSetup& setup, const Plan& plan, const Failure& failure) {
  const std::string& program = setup.spec->argv[0];
  switch (failure.stage) {
    case Stage::kCwd:
      return fail_errno("working directory " + quoted(setup.cwd), failure.error);
    case Stage::kCgroup:
      return fail_errno("joining cgroup " + setup.join[static_cast<std::size_t>(failure.index)],
                        failure.error);
    case Stage::kRlimit:
      return fail_errno(
          "setting the limit " +
              rlimit_name(setup.spec->rlimits[static_cast<std::size_t>(failure.index)].resource),
          failure.error);
    case Stage::kStdio:
      return fail_errno("standard streams", failure.error);
    case Stage::kPrivileges:
      return fail_errno("no_new_privs", failure.error);
    case Stage::kExec:
      break;
    default:
      return fail_errno("starting " + quoted(program), failure.error);
  }
  if (failure.index >= 1000000) {
    return fail(Errc::kNotFound,
                "cannot run " +
                    quoted(plan.candidates[static_cast<std::size_t>(failure.index - 1000000)]) +
                    ": the interpreter in its first line (or its loader) does not exist");
  }
  const std::string& path = plan.candidates[static_cast<std::size_t>(failure.index)];
  switch (failure.error) {
    case ENOENT:
    case ENOTDIR:
      return program.find('/') == std::string::npos
                 ? fail(Errc::kNotFound,
                        "unknown program " + quoted(program) + ": not found in PATH")
                 : fail(Errc::kNotFound, "unknown program " + quoted(program) + ": no such file");
    case EACCES: {
      struct stat st {};
      if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
        return fail(Errc::kPermissionDenied, "cannot run " + quoted(path) + ": it is a directory");
      }
      return fail(Errc::kPermissionDenied,
                  "cannot run " + quoted(path) + ": not executable (permission denied)");
    }
    case ENOEXEC:
      return fail(Errc::kInvalidArgument,
                  "cannot run " + quoted(path) +
                      ": neither a program of this machine nor a script that starts with #!");
    case E2BIG:
      return fail(Errc::kInvalidArgument,
                  "cannot run " + quoted(path) + ": arguments and environment are too long");
    default:
      return fail_errno("cannot run " + quoted(path), failure.error);
  }
}

}  // namespace

Result<pid_t> start_child(const ChildSetup& setup) {
  const Spec& spec = *setup.spec;
  if (spec.argv.empty()) return fail(Errc::kInvalidArgument, "argv is empty: nothing to run");
  if (spec.argv[0].empty()) return fail(Errc::kInvalidArgument, "the program's name is empty");
  Plan plan;
  for (const auto& a : spec.argv) plan.argv.push_back(const_cast<char*>(a.c_str()));
  for (const auto& e : setup.env) plan.envp.push_back(const_cast<char*>(e.c_str()));
  plan.argv.push_back(nullptr);
  plan.envp.push_back(nullptr);
  plan.candidates = candidates_of(spec.argv[0], setup.env);

  void* page =
      ::mmap(nullptr, sizeof(Failure), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return fail_errno("mmap");
  auto* failure = new (page) Failure();
  Status opened;
  for (const auto& group : setup.join) {
    const int fd = ::open((group + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) opened = fail_errno("open " + group + "/cgroup.procs");
    plan.join_fds.push_back(fd);
  }
  const int cgroup_fd = setup.cgroup_v2.empty()
                            ? -1
                            : ::open(setup.cgroup_v2.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (!setup.cgroup_v2.empty() && cgroup_fd < 0) opened = fail_errno("open " + setup.cgroup_v2);

  Result<pid_t> result = 0;
  if (!opened) {
    result = tl::unexpected(opened.error());
  } else {
    const pid_t shim = ::getpid();
    // CLONE_VFORK: returns when the child has run exec or died
    const pid_t pid = clone_child(cgroup_fd);
    if (pid == 0) run_child(setup, plan, shim, failure);
    if (pid < 0) {
      const bool refused = cgroup_fd >= 0 && errno != EAGAIN && errno != ENOMEM;
      result = refused ? fail(Errc::kUnsupported,
                              std::string("clone into a cgroup: ") + std::strerror(errno))
                       : fail_errno("clone");
    } else if (failure->stage != Stage::kNone) {
      ::waitpid(pid, nullptr, 0);
      result = explain(setup, plan, *failure);
    } else {
      result = pid;
    }
  }
  for (const int fd : plan.join_fds) {
    if (fd >= 0) ::close(fd);
  }
  if (cgroup_fd >= 0) ::close(cgroup_fd);
  ::munmap(page, sizeof(Failure));
  return result;
}

}  // namespace dlrun::shim

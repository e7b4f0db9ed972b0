#include "runtime/shim/tree_kill.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "runtime/shim/cgroup.h"

namespace dlrun::shim {
namespace {

std::string hex16(std::uint64_t v) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(v));
  return text;
}

struct Process {
  pid_t pid = 0, parent = 0;
  char state = '?';
};

bool read_stat(pid_t pid, Process& p) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[1024];
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  // "pid (any name) state ppid ...": the name may hold anything, so look for the last ')'.
  const std::string_view all(text, static_cast<std::size_t>(n));
  const std::size_t at = all.rfind(')');
  if (at == std::string_view::npos || at + 4 >= all.size()) return false;
  p.pid = pid;
  p.state = all[at + 2];
  p.parent = static_cast<pid_t>(std::strtol(text + at + 4, nullptr, 10));
  return true;
}

std::vector<Process> all_processes() {
  std::vector<Process> list;
  DIR* d = ::opendir("/proc");
  if (d == nullptr) return list;
  while (const dirent* entry = ::readdir(d)) {
    char* end = nullptr;
    const long pid = std::strtol(entry->d_name, &end, 10);
    Process p;
    if (*end == '\0' && pid > 0 && read_stat(static_cast<pid_t>(pid), p)) list.push_back(p);
  }
  ::closedir(d);
  return list;
}

bool has_mark(pid_t pid, const std::string& mark) {
  const auto env = read_file("/proc/" + std::to_string(pid) + "/environ", 8u << 20);
  if (!env) return false;
  for (std::size_t at = env->find(mark); at != std::string::npos; at = env->find(mark, at + 1)) {
    const std::size_t end = at + mark.size();
    if ((at == 0 || (*env)[at - 1] == '\0') && (end == env->size() || (*env)[end] == '\0'))
      return true;
  }
  return false;
}

bool is_zombie(pid_t pid) {
  Process p;
  return !read_stat(pid, p) || p.state == 'Z' || p.state == 'X';
}

}  // namespace

std::string cgroup_name(std::uint64_t mark) { return "dlrun-" + hex16(mark); }
std::string mark_env(std::uint64_t mark) { return "DLRUN_MARK=" + hex16(mark); }

std::vector<pid_t> tree_pids(const Tree& tree, pid_t shim) {
  std::vector<pid_t> pids;
  for (const auto& group : tree.cgroups) {
    for (const pid_t pid : cgroup_pids(group)) {
      if (!is_zombie(pid)) pids.push_back(pid);
    }
  }
  if (shim != 0 || tree.cgroups.empty()) {
    const auto processes = all_processes();
    std::vector<pid_t> below;
    if (shim != 0) {
      below.push_back(shim);
      for (std::size_t i = 0; i < below.size(); ++i) {
        for (const Process& p : processes) {
          if (p.parent == below[i] && p.pid != p.parent) below.push_back(p.pid);
        }
      }
      below.erase(below.begin());
    }
    for (const Process& p : processes) {
      if (p.state == 'Z' || p.state == 'X') continue;
      const bool descends = std::find(below.begin(), below.end(), p.pid) != below.end();
      if (descends ||
          (tree.cgroups.empty() && tree.mark != 0 && has_mark(p.pid, mark_env(tree.mark)))) {
        pids.push_back(p.pid);
      }
    }
  }
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  std::erase_if(pids, [&](pid_t pid) { return pid <= 1 || pid == shim || pid == ::getpid(); });
  return pids;
}

void tree_signal(const Tree& tree, pid_t shim, int signal) {
  std::vector<pid_t> told;
  for (int pass = 0; pass < 5; ++pass) {
    bool found = false;
    for (const pid_t pid : tree_pids(tree, shim)) {
      if (std::find(told.begin(), told.end(), pid) != told.end()) continue;
      found = true;
      told.push_back(pid);
      ::kill(pid, signal);
      if (signal == SIGTERM) ::kill(pid, SIGCONT);  // a stopped process sees it too
    }
    if (!found) return;
  }
}

void tree_kill(const Tree& tree, pid_t shim) {
  for (const auto& group : tree.cgroups) cgroup_kill(group);
  for (const pid_t pid : tree_pids(tree, shim)) ::kill(pid, SIGKILL);
}

bool tree_remove_cgroups(const Tree& tree) {
  bool all = true;
  for (const auto& group : tree.cgroups) all = cgroup_remove(group) && all;
  return all;
}

std::string boot_id() {
  auto id = read_file("/proc/sys/kernel/random/boot_id", 256);
  if (!id) return {};
  while (!id->empty() && id->back() == '\n') id->pop_back();
  return std::move(*id);
}

OrphanReaper::OrphanReaper(OrphanReaper&& other) noexcept
    : dir_(std::move(other.dir_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      tree_(std::move(other.tree_)),
      result_(std::move(other.result_)),
      give_up_at_(other.give_up_at_),
      give_up_(other.give_up_),
      empty_rounds_(other.empty_rounds_),
      recorded_(other.recorded_),
      done_(other.done_) {}

OrphanReaper::~OrphanReaper() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

Result<OrphanReaper> OrphanReaper::begin(const std::string& task_dir, TimePoint now,
                                         Duration give_up) {
  if (::access((task_dir + "/spec").c_str(), F_OK) != 0)
    return fail(Errc::kNotFound, task_dir + ": no task here");
  OrphanReaper r;
  r.dir_ = task_dir;
  r.give_up_ = give_up;
  r.give_up_at_ = now + give_up;
  r.lock_fd_ = ::open((task_dir + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (r.lock_fd_ < 0) return fail_errno("open " + task_dir + "/lock");
  if (::flock(r.lock_fd_, LOCK_EX | LOCK_NB) != 0)
    return fail(Errc::kFailedPrecondition, task_dir + ": its shim lives");
  if (const auto bytes = read_file(task_dir + "/exit", 1 << 20)) {
    if (auto exit = decode_exit(*bytes)) {
      r.result_ = std::move(*exit);
      r.recorded_ = true;
    }
  }
  if (!r.recorded_) {
    r.result_.cause = EndCause::kShimLost;
    r.result_.detail = "the shim died; what was left of the task was killed";
  }
  const auto bytes = read_file(task_dir + "/tree", 1 << 20);
  auto tree = bytes ? decode_tree(*bytes) : Result<Tree>(tl::unexpected(bytes.error()));
  if (!tree) {
    if (!r.recorded_) r.result_.detail = "the shim died before it started the program";
    r.done_ = true;
  } else if (tree->boot_id != boot_id()) {
    if (!r.recorded_) r.result_.detail = "the machine was restarted";
    r.done_ = true;
  } else {
    r.tree_ = std::move(*tree);
  }
  return r;
}

bool OrphanReaper::step(TimePoint now) {
  if (!done_) {
    const auto pids = tree_pids(tree_, 0);
    if (pids.empty()) {
      done_ = ++empty_rounds_ >= 2;
    } else {
      empty_rounds_ = 0;
      tree_kill(tree_, 0);
      if (now >= give_up_at_) {
        done_ = true;
        result_.cause = EndCause::kShimLost;
        result_.detail =
            "the shim died and the tree is not empty after " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(give_up_).count()) +
            " s: process " + std::to_string(pids.front()) + " cannot be killed";
      }
    }
    if (!done_) return false;
    tree_remove_cgroups(tree_);
  }
  if (!recorded_) {
    recorded_ = true;
    (void)write_file(dir_ + "/exit", encode(result_));
  }
  return true;
}

}  // namespace dlrun::shim

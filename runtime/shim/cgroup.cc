#include "runtime/shim/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "runtime/shim/spec.h"

namespace dlrun::shim {
namespace {

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool write_text(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool ok = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return ok;
}

std::string read_text(const std::string& path) {
  auto text = read_file(path, 1 << 20);
  return text ? std::move(*text) : std::string();
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t at = text.find(by);
    parts.push_back(text.substr(0, at));
    text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  }
  return parts;
}

bool has_word(std::string_view list, std::string_view word, char by) {
  for (const auto part : split(list, by)) {
    if (part == word) return true;
  }
  return false;
}

/// "key value" lines.
std::uint64_t value_of(const std::string& text, std::string_view key) {
  for (const auto line : split(text, '\n')) {
    if (line.size() > key.size() && line.substr(0, key.size()) == key && line[key.size()] == ' ') {
      return std::strtoull(std::string(line.substr(key.size() + 1)).c_str(), nullptr, 10);
    }
  }
  return 0;
}

/// `path` of /proc/self/cgroup below the mount whose root is `root`.
std::string below(const std::string& mount, std::string_view root, std::string_view path) {
  if (root != "/" && path.substr(0, root.size()) == root) path.remove_prefix(root.size());
  std::string full = mount;
  if (!path.empty() && path != "/") full += path;
  return full;
}

std::vector<std::string> children(const std::string& group) {
  std::vector<std::string> names;
  DIR* d = ::opendir(group.c_str());
  if (d == nullptr) return names;
  while (const dirent* entry = ::readdir(d)) {
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
      names.push_back(group + "/" + entry->d_name);
  }
  ::closedir(d);
  return names;
}

}  // namespace

CgroupHome parse_cgroup_home(const std::string& mountinfo, const std::string& self_cgroup) {
  // /proc/self/cgroup: id:controllers:path ; the v2 line is "0::path".
  const auto own_path = [&](std::string_view controller) -> std::string {
    for (const auto line : split(self_cgroup, '\n')) {
      const std::size_t a = line.find(':');
      const std::size_t b = a == std::string_view::npos ? a : line.find(':', a + 1);
      if (b == std::string_view::npos) continue;
      const auto names = line.substr(a + 1, b - a - 1);
      if (controller.empty() ? names.empty() : has_word(names, controller, ','))
        return std::string(line.substr(b + 1));
    }
    return {};
  };
  CgroupHome home;
  std::string freezer, pids;
  for (const auto line : split(mountinfo, '\n')) {
    // id parent major:minor root mountpoint options... - fstype source superoptions
    const auto words = split(line, ' ');
    std::size_t dash = 6;
    while (dash < words.size() && words[dash] != "-") ++dash;
    if (dash + 3 >= words.size()) continue;
    const std::string mount(words[4]);
    const auto root = words[3], type = words[dash + 1], options = words[dash + 3];
    if (type == "cgroup2" && home.v2.empty()) {
      const std::string path = own_path("");
      if (!path.empty()) home.v2 = below(mount, root, path);
    } else if (type == "cgroup") {
      const auto take = [&](std::string_view controller, std::string& to) {
        if (!has_word(options, controller, ',') || !to.empty()) return;
        const std::string path = own_path(controller);
        if (!path.empty()) to = below(mount, root, path);
      };
      take("freezer", freezer);
      take("pids", pids);
      take("memory", home.v1_memory);
    }
  }
  home.v1_tracker = !freezer.empty() ? freezer : pids;
  return home;
}

CgroupHome find_cgroup_home() {
  return parse_cgroup_home(read_text("/proc/self/mountinfo"), read_text("/proc/self/cgroup"));
}

std::vector<std::string> TaskCgroups::all() const {
  std::vector<std::string> groups;
  if (!v2.empty()) groups.push_back(v2);
  groups.insert(groups.end(), join.begin(), join.end());
  return groups;
}

TaskCgroups make_task_cgroups(const CgroupHome& home, const std::string& name,
                              std::uint64_t memory_bytes) {
  const auto make = [&](const std::string& parent) -> std::string {
    if (parent.empty()) return {};
    std::string path = parent + "/" + name;
    if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return {};
    return path;
  };
  TaskCgroups groups;
  groups.v2 = make(home.v2);
  if (!groups.v2.empty()) {
    groups.isolation = "cgroup v2";
  } else if (const std::string v1 = make(home.v1_tracker); !v1.empty()) {
    groups.isolation = "cgroup v1";
    groups.join.push_back(v1);
  }
  if (memory_bytes == 0) return groups;
  const std::string limit = std::to_string(memory_bytes);
  if (!groups.v2.empty()) {
    if (!exists(groups.v2 + "/memory.max"))
      write_text(home.v2 + "/cgroup.subtree_control", "+memory");
    if (write_text(groups.v2 + "/memory.max", limit)) {
      write_text(groups.v2 + "/memory.swap.max", "0");
      groups.memory = groups.v2;
      groups.memory_is_v2 = true;
      return groups;
    }
  }
  const std::string v1 = make(home.v1_memory);
  if (v1.empty()) return groups;
  if (!write_text(v1 + "/memory.limit_in_bytes", limit)) {
    ::rmdir(v1.c_str());
    return groups;
  }
  write_text(v1 + "/memory.memsw.limit_in_bytes", limit);
  groups.memory = v1;
  groups.join.push_back(v1);
  return groups;
}

std::uint64_t cgroup_oom_kills(const TaskCgroups& groups) {
  if (groups.memory.empty()) return 0;
  return groups.memory_is_v2
             ? value_of(read_text(groups.memory + "/memory.events"), "oom_kill")
             : value_of(read_text(groups.memory + "/memory.oom_control"), "oom_kill");
}

std::uint64_t cgroup_peak_bytes(const TaskCgroups& groups) {
  if (groups.memory.empty()) return 0;
  const std::string file = groups.memory_is_v2 ? "/memory.peak" : "/memory.max_usage_in_bytes";
  return std::strtoull(read_text(groups.memory + file).c_str(), nullptr, 10);
}

std::vector<pid_t> cgroup_pids(const std::string& group) {
  std::vector<pid_t> pids;
  const std::string procs = read_text(group + "/cgroup.procs");
  for (const auto line : split(procs, '\n')) {
    const long pid = std::strtol(std::string(line).c_str(), nullptr, 10);
    if (pid > 0) pids.push_back(static_cast<pid_t>(pid));
  }
  for (const auto& child : children(group)) {
    const auto more = cgroup_pids(child);
    pids.insert(pids.end(), more.begin(), more.end());
  }
  return pids;
}

void cgroup_kill(const std::string& group) {
  if (write_text(group + "/cgroup.kill", "1")) return;
  const bool frozen = write_text(group + "/freezer.state", "FROZEN");
  for (const pid_t pid : cgroup_pids(group)) ::kill(pid, SIGKILL);
  if (frozen) write_text(group + "/freezer.state", "THAWED");
}

bool cgroup_remove(const std::string& group) {
  if (!exists(group)) return true;
  for (const auto& child : children(group)) cgroup_remove(child);
  return ::rmdir(group.c_str()) == 0 || errno == ENOENT;
}

}  // namespace dlrun::shim

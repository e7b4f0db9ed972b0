#pragma once
/// tests/node/processes.h: the processes of this machine that belong to a test's folder.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/time.h"

namespace dlrun::node {

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Running {
  pid_t pid = 0;
  std::string cmdline;  ///< words separated by NUL
};

/// Processes that carry `folder` in their command line, environment or working directory, but for
/// `except`.
inline std::vector<Running> processes_of(const std::string& folder,
                                         const std::vector<pid_t>& except) {
  std::vector<Running> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid() ||
        std::find(except.begin(), except.end(), pid) != except.end())
      continue;
    const std::string cmdline = text_of(entry.path() / "cmdline");
    std::error_code gone;
    const std::string cwd = std::filesystem::read_symlink(entry.path() / "cwd", gone);
    if (cmdline.find(folder) != std::string::npos || cwd.find(folder) != std::string::npos ||
        text_of(entry.path() / "environ").find(folder) != std::string::npos)
      out.push_back({pid, cmdline});
  }
  return out;
}

inline bool is_feeder(const Running& p) { return p.cmdline.find("feeder") != std::string::npos; }
inline bool is_shim(const Running& p) { return p.cmdline.find("dlrun-shim") != std::string::npos; }

/// Polls.
template <class F>
bool within(Duration limit, F done) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace dlrun::node

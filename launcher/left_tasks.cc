#include "launcher/left_tasks.h"

#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>

#include "runtime/shim/shim_client.h"

namespace dlrun::launcher {
namespace {
namespace fs = std::filesystem;

/// Directories in which a shim was started and no end is recorded. A folder that is not there, or
/// not to be read, holds none.
std::set<std::string> running_task_dirs(const std::string& folder) {
  std::set<std::string> out;
  std::error_code ignored;
  for (const auto& node : fs::directory_iterator(folder, ignored)) {
    if (!node.path().filename().string().starts_with("node-")) continue;
    std::error_code none;
    for (const auto& task : fs::directory_iterator(node.path() / "tasks", none)) {
      const std::string dir = task.path();
      if (::access((dir + "/spec").c_str(), F_OK) != 0) continue;
      if (::access((dir + "/exit").c_str(), F_OK) != 0 || shim::ShimClient::shim_alive(dir))
        out.insert(dir);
    }
  }
  return out;
}

}  // namespace

Status end_left_tasks(const std::string& folder, Duration grace, Duration limit) {
  std::set<std::string> left = running_task_dirs(folder);
  if (left.empty()) return {};
  std::mutex mutex;
  std::condition_variable changed;
  const std::set<std::string> dirs = left;
  DLRUN_ASSIGN(
      const auto client,
      shim::ShimClient::start({.shim_program = "", .on_event = [&](const shim::ShimEvent& event) {
                                 if (event.phase != shim::Phase::kEnded) return;
                                 const std::lock_guard lock(mutex);
                                 left.erase(event.task_dir);
                                 changed.notify_one();
                               }}));
  for (const auto& dir : dirs) {
    const bool taken = client->attach(dir).has_value();
    // kNotFound: it has ended meanwhile.
    if (taken) (void)client->stop(dir, grace, cluster::Cause::kUserKill);
    if (taken) continue;
    const std::lock_guard lock(mutex);
    left.erase(dir);
  }
  std::unique_lock lock(mutex);
  if (changed.wait_for(lock, limit, [&] { return left.empty(); })) return {};
  return fail(Errc::kDeadlineExceeded, "processes of the task in " + *left.begin() + " do not end");
}

}  // namespace dlrun::launcher

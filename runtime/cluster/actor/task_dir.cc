#include "runtime/cluster/actor/task_dir.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "runtime/os/files.h"
#include "runtime/shim/spec.h"
#include "runtime/wire/control_codec.h"

namespace dlrun::cluster {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kFileBytesMax = 64u << 20;

Status make_dir(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("make folder " + path);
  return {};
}

/// nullopt when the file is not there.
template <class T, class Variant>
Result<std::optional<T>> read_as(const std::string& path,
                                 Result<Variant> (*decode)(std::string_view)) {
  const Result<std::string> bytes = os::read_file(path, kFileBytesMax);
  if (!bytes && bytes.error().code == Errc::kNotFound) return std::optional<T>();
  if (!bytes) return tl::unexpected(bytes.error());
  const Result<Variant> message = decode(*bytes);
  if (!message) return fail_as(path, message);
  const T* value = std::get_if<T>(&*message);
  if (value == nullptr) return fail(Errc::kCorrupt, path + ": another message");
  return std::optional<T>(*value);
}

Result<FoundDir> read_dir(const std::string& dir) {
  FoundDir out;
  out.dir = dir;
  DLRUN_ASSIGN(const auto task,
               (read_as<PrepareTask, ToAgent>(dir + "/task", &wire::decode_to_agent)));
  if (!task) return fail(Errc::kNotFound, dir + ": no task");
  out.found.task = *task;
  DLRUN_ASSIGN(out.found.start,
               (read_as<StartTask, ToAgent>(dir + "/start", &wire::decode_to_agent)));
  DLRUN_ASSIGN(const auto ready,
               (read_as<TaskUpdate, FromAgent>(dir + "/ready", &wire::decode_from_agent)));
  if (ready) out.found.ready = ready->ready;
  std::error_code ec;
  out.cleaned = fs::exists(dir + "/cleaned", ec);
  out.has_shim = fs::exists(dir + "/spec", ec);
  if (const Result<std::string> exit = os::read_file(dir + "/exit", kFileBytesMax); exit) {
    DLRUN_ASSIGN(const shim::Exit end, shim::decode_exit(*exit));
    out.found.end = TaskEnd{static_cast<Cause>(end.cause),
                            end.code,
                            end.signal,
                            end.peak_bytes,
                            end.limit_bytes,
                            end.detail};
  } else if (out.found.start && !out.has_shim) {
    out.found.end = TaskEnd{};
    out.found.end->cause = Cause::kStartFailed;
    out.found.end->detail = "the agent ended before it could start the program";
  }
  return out;
}

}  // namespace

std::string task_dir_name(const TaskId& task) {
  return to_string(task.job) + "." + task.role + "." + std::to_string(task.rank) + ".g" +
         std::to_string(task.generation.value);
}

Status make_task_dir(const std::string& dir, const PrepareTask& task) {
  DLRUN_TRY(make_dir(dir));
  DLRUN_TRY(make_dir(dir + "/work"));
  DLRUN_TRY(make_dir(dir + "/logs"));
  return os::write_file(dir + "/task", wire::encode(ToAgent(task)));
}

std::string task_file_path(const std::string& dir, const TaskFile& file) {
  return dir + "/work/" + file.name;
}

Status write_task_files(const std::string& dir, const std::vector<TaskFile>& files) {
  for (const TaskFile& file : files) {
    if (file.name.empty() || file.name.find('/') != std::string::npos || file.name == "." ||
        file.name == "..")
      return fail(Errc::kInvalidArgument, "'" + file.name + "' is no name of a file of a task");
    DLRUN_TRY(os::write_file(task_file_path(dir, file), file.bytes));
  }
  return {};
}

Status write_start(const std::string& dir, const StartTask& start) {
  return os::write_file(dir + "/start", wire::encode(ToAgent(start)));
}

Status write_ready(const std::string& dir, const TaskId& task, const TaskReadyInfo& ready) {
  TaskUpdate update;
  update.task = task;
  update.state = TaskState::kReady;
  update.ready = ready;
  return os::write_file(dir + "/ready", wire::encode(FromAgent(update)));
}

Status mark_cleaned(const std::string& dir) { return os::write_file(dir + "/cleaned", ""); }

void remove_work(const std::string& dir) {
  std::error_code ec;
  fs::remove_all(dir + "/work", ec);
}

void remove_task_dir(const std::string& dir) {
  std::error_code ec;
  fs::remove_all(dir, ec);
}

std::vector<FoundDir> scan_task_dirs(const std::string& root, std::vector<std::string>* broken) {
  std::vector<FoundDir> out;
  std::error_code ec;
  for (fs::directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
    const std::string dir = it->path().string();
    Result<FoundDir> found = read_dir(dir);
    if (found) out.push_back(std::move(*found));
    // the agent ended while it made it: nothing ran
    else if (found.error().code == Errc::kNotFound)
      remove_task_dir(dir);
    else if (broken != nullptr)
      broken->push_back(found.error().to_string());
  }
  return out;
}

}  // namespace dlrun::cluster

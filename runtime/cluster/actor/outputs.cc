#include "runtime/cluster/actor/outputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/cluster/core/job_record.h"
#include "runtime/shim/spec.h"

namespace dlrun::cluster {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMarkBytesMax = 4096;

std::string trimmed(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

std::string mark_of(const CommitOutputs& commit) {
  return to_string(commit.task) + " epoch " + to_string(commit.epoch) + "\n";
}

/// Nothing there, or an empty folder: what a rename can replace.
Status check_free(const OutputSpec& output) {
  std::error_code ec;
  const fs::path path = trimmed(output.path);
  if (!fs::exists(fs::symlink_status(path, ec))) return {};
  if (fs::is_directory(fs::symlink_status(path, ec)) && fs::is_empty(path, ec) && !ec) return {};
  return fail(Errc::kAlreadyExists,
              "output " + output.name + ": " + path.string() + " exists already");
}

Status sync(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return fail_errno("open " + path);
  const int rc = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  return rc == 0 ? Status{} : Status(fail_errno("sync " + path, error));
}

Status sync_tree(const std::string& root) {
  std::error_code ec;
  for (fs::recursive_directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
    const fs::file_status status = it->symlink_status(ec);
    if (fs::is_regular_file(status) || fs::is_directory(status))
      DLRUN_TRY(sync(it->path().string()));
  }
  if (ec) return fail_errno("read " + root, ec.value());
  return sync(root);
}

Status publish(const CommitOutputs& commit, const OutputSpec& output) {
  const std::string from = staging_path(output, commit.task);
  const std::string to = trimmed(output.path);
  const std::string mark = mark_of(commit);
  std::error_code ec;
  if (!fs::is_directory(from, ec)) {
    const auto there = shim::read_file(to + "/_SUCCESS", kMarkBytesMax);
    if (there && *there == mark) return {};
    return fail(Errc::kNotFound, "output " + output.name + ": " + from + " is gone");
  }
  DLRUN_TRY(check_free(output));
  DLRUN_TRY(shim::write_file(from + "/_SUCCESS", mark));
  DLRUN_TRY(sync_tree(from));
  if (::rename(from.c_str(), to.c_str()) != 0)
    return fail_errno("output " + output.name + ": rename " + from + " to " + to);
  return sync(fs::path(to).parent_path().string());
}

}  // namespace

Status make_output_dirs(const TaskId& task, const std::vector<OutputSpec>& outputs) {
  for (const OutputSpec& output : outputs) {
    DLRUN_TRY(check_free(output));
    std::error_code ec;
    const std::string staging = staging_path(output, task);
    fs::create_directories(staging, ec);
    if (ec) return fail_errno("output " + output.name + ": make folder " + staging, ec.value());
  }
  return {};
}

void remove_earlier_outputs(const TaskId& task, const std::vector<OutputSpec>& outputs) {
  std::error_code ec;
  TaskId earlier = task;
  for (const OutputSpec& output : outputs)
    for (std::uint32_t g = task.generation.value; g > 1; --g) {
      earlier.generation = Generation{g - 1};
      fs::remove_all(staging_path(output, earlier), ec);
    }
}

Status publish_outputs(const CommitOutputs& commit) {
  for (const OutputSpec& output : commit.outputs) DLRUN_TRY(publish(commit, output));
  return {};
}

}  // namespace dlrun::cluster

#include "runtime/cluster/actor/outputs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/cluster/core/job_record.h"
#include "runtime/shim/spec.h"

namespace dlrun::cluster {
namespace {

namespace fs = std::filesystem;
using Step = std::function<void()>;
constexpr std::size_t kMarkBytesMax = 4096;
constexpr std::size_t kSyncOneByOne = 64;

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

dev_t device_of(const std::string& path) {
  struct stat st {};
  return ::lstat(path.c_str(), &st) == 0 ? st.st_dev : 0;
}

Status sync_file_system(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW);
  if (fd < 0) return fail_errno("open " + path);
  const int rc = ::syncfs(fd);
  const int error = errno;
  ::close(fd);
  return rc == 0 ? Status{} : Status(fail_errno("sync the file system of " + path, error));
}

/// A few files one by one, many with their whole file system: a commit of its journal for each of
/// them would take minutes.
Status sync_tree(const std::string& root, const Step& step) {
  std::error_code ec;
  std::size_t files = 0;
  const dev_t device = device_of(root);
  for (fs::recursive_directory_iterator it(root, ec), end; !ec && it != end; it.increment(ec)) {
    const fs::file_status status = it->symlink_status(ec);
    if (!fs::is_regular_file(status) && !fs::is_directory(status)) continue;
    const std::string path = it->path().string();
    if (++files <= kSyncOneByOne || device_of(path) != device) DLRUN_TRY(sync(path));
    step();
  }
  if (ec) return fail_errno("read " + root, ec.value());
  if (files > kSyncOneByOne) DLRUN_TRY(sync_file_system(root));
  return sync(root);
}

enum class Stands : std::uint8_t { kStaged, kInPlace, kGone };

Stands where(const CommitOutputs& commit, const OutputSpec& output) {
  std::error_code ec;
  if (fs::is_directory(staging_path(output, commit.task), ec)) return Stands::kStaged;
  const auto mark = shim::read_file(trimmed(output.path) + "/_SUCCESS", kMarkBytesMax);
  return mark && *mark == mark_of(commit) ? Stands::kInPlace : Stands::kGone;
}

/// All that can be known and done before the rename.
Status make_ready(const CommitOutputs& commit, const OutputSpec& output, const Step& step) {
  const std::string from = staging_path(output, commit.task);
  DLRUN_TRY(check_free(output));
  DLRUN_TRY(shim::write_file(from + "/_SUCCESS", mark_of(commit)));
  return sync_tree(from, step);
}

Status put_in_place(const CommitOutputs& commit, const OutputSpec& output) {
  const std::string from = staging_path(output, commit.task);
  const std::string to = trimmed(output.path);
  if (::rename(from.c_str(), to.c_str()) != 0)
    return fail_errno("output " + output.name + ": rename " + from + " to " + to);
  return sync(fs::path(to).parent_path().string());
}

/// `why`, and which outputs could not be taken back.
Error take_back(const CommitOutputs& commit, Error why) {
  for (const OutputSpec& output : commit.outputs) {
    if (where(commit, output) != Stands::kInPlace) continue;
    const std::string from = staging_path(output, commit.task);
    const std::string to = trimmed(output.path);
    if (::rename(to.c_str(), from.c_str()) != 0) {
      why.context += "; output " + output.name + " stays at " + to + ": " +
                     fail_errno("rename to " + from).value().context;
      continue;
    }
    std::error_code ec;
    fs::remove(from + "/_SUCCESS", ec);
    (void)sync(fs::path(to).parent_path().string());
  }
  return why;
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

Status publish_outputs(const CommitOutputs& commit, const Step& step) {
  std::vector<const OutputSpec*> staged;
  for (const OutputSpec& output : commit.outputs) {
    switch (where(commit, output)) {
      case Stands::kStaged:
        staged.push_back(&output);
        break;
      case Stands::kInPlace:
        break;
      case Stands::kGone:  // perhaps it was published, and somebody moved it: nothing is undone
        return fail(Errc::kNotFound, "output " + output.name + ": " +
                                         staging_path(output, commit.task) + " is gone");
    }
  }
  // What is staged shows that this commit was never answered well: it may be undone as a whole.
  for (const OutputSpec* output : staged)
    if (const Status ready = make_ready(commit, *output, step); !ready)
      return tl::unexpected(take_back(commit, ready.error()));
  for (const OutputSpec* output : staged) {
    if (const Status placed = put_in_place(commit, *output); !placed)
      return tl::unexpected(take_back(commit, placed.error()));
    step();
  }
  return {};
}

}  // namespace dlrun::cluster

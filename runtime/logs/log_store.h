#pragma once
/// runtime/logs/log_store.h: the coordinator's store of task output: bytes by (task, stream) and
/// absolute offset.
/// Files: <dir>/j<job>/<generation>.<role>.<rank>.<out|err>.<start offset, 20 digits>, and ....done
/// holding the end offset. A restart finds everything by its names; memory holds nothing per
/// finished job (streams in use only, bounded).
/// Durability: written to the page cache; after a power loss an agent that still has the bytes
/// sends them again, since it asks for the end first.
/// Budgets: per job and in all; above them the oldest segments go (of the job; in all: of the job
/// written longest ago), and reading there starts at `oldest`.
/// Errors: kResourceExhausted (disk full: nothing of the append is kept), kNotFound, kIo.
/// Threads: all methods from any thread. Listeners run on the caller of append()/finish(); they
/// must not block.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/result.h"

namespace dlrun::logs {

enum class Stream : std::uint8_t { kStdout = 1, kStderr = 2 };
std::string_view to_string(Stream stream);  ///< "stdout"

struct StreamId {
  TaskId task;
  Stream stream = Stream::kStdout;
  friend auto operator<=>(const StreamId&, const StreamId&) = default;
};

struct StreamInfo {
  StreamId id;
  std::uint64_t oldest = 0;  ///< first offset still here
  std::uint64_t end = 0;     ///< one past the last byte
  bool finished = false;     ///< no more will come
};

struct Chunk {
  /// of bytes[0]; above the asked one when the asked bytes were dropped or lost
  std::uint64_t offset = 0;
  std::string bytes;       ///< empty = nothing there yet, or (finished) the end
  std::uint64_t next = 0;  ///< ask this next
  std::uint64_t oldest = 0;
  std::uint64_t end = 0;
  bool finished = false;  ///< no more will come and `next` == `end`
};

struct StoreLimits {
  std::uint64_t segment_bytes = 8u << 20;
  std::uint64_t job_bytes = 1ull << 30;
  std::uint64_t total_bytes = 16ull << 30;
};

/// Since open(), but for stored_bytes.
struct StoreStats {
  std::uint64_t stored_bytes = 0;
  std::uint64_t appended_bytes = 0;
  std::uint64_t dropped_bytes = 0;  ///< to keep within the budgets
  std::uint64_t lost_bytes = 0;     ///< holes: never arrived here
};

class LogStore {
 public:
  static Result<std::unique_ptr<LogStore>> open(std::string dir, StoreLimits limits);
  ~LogStore();

  /// Idempotent: bytes below the end are ignored. A hole (offset > end) is taken only with `gap`,
  /// else nothing is written.
  /// Returns the end: what the sender sends next.
  Result<std::uint64_t> append(const StreamId& id, std::uint64_t offset, std::string_view bytes,
                               bool gap = false);
  /// No more bytes will come. Idempotent.
  Status finish(const StreamId& id);
  /// The end of what is here; 0 for an unknown stream.
  Result<std::uint64_t> end_of(const StreamId& id);

  /// kNotFound: nothing is known of the stream (yet).
  Result<Chunk> read(const StreamId& id, std::uint64_t offset, std::size_t bytes_max);
  Result<StreamInfo> info(const StreamId& id);
  /// Every stream of the job, by generation, role, rank, stream.
  Result<std::vector<StreamInfo>> list(JobId job);
  Status drop_job(JobId job);
  StoreStats stats() const;

  /// Calls `listener` after each append and finish, until the handle is destroyed (which waits for
  /// a running call).
  std::shared_ptr<void> subscribe(std::function<void(const StreamInfo&)> listener);

 private:
  class Impl;
  explicit LogStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::logs

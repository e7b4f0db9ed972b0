#pragma once
/// ps/client/client.h: tables of a job's parameter server, from a worker's side. No CAF.
/// Shapes: keys [n] u64, any of the 2^64, in any order, duplicates allowed; rows [n, dim] f32
/// row-major.
/// Clocks: a worker's clock of a table starts at 0 (restored: where it was cut); clock() ends an
///   iteration. A pull at clock c waits at the shard for what it must see, and sees
///   (ps/core/shard_core.h has the rules)
///     BSP     exactly the pushes of all workers with clocks < c
///     SSP(s)  at least those with clocks < c - s
///     ASP     whatever has arrived
/// Retries: every call has a timeout; within it a request is sent again (same sequence, backoff
///   with jitter), and a push is applied once however often it was sent. Nothing hangs past the
///   timeout, whatever the shards do.
/// Errors: kInvalidArgument, kNotFound, kAlreadyExists, kFailedPrecondition (wrong use of clocks),
///   kPermissionDenied at once; kStaleEpoch when no newer view is to be had; kDeadlineExceeded with
///   the last refusal in the context: the effect of a push is then unknown, and this client will
///   not send it again.
/// Bounds: bytes under way per shard <= credit_bytes (over shared memory also <= 1.5 MiB), or one
/// segment that is larger by itself; a request beyond it waits for credit, within its timeout.
/// Threads: all methods of Client are thread safe; a PendingCall belongs to one thread at a time.
///   No thread is started: whoever waits drives the traffic of all. Several clients per process are
///   fine; those that share a worker id must not both call clock().

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::transport {
class Transport;
}

namespace dlrun::ps {

struct ClientOptions {
  /// worker_id(Welcome::task) in a worker; kNoWorker in tools that only look
  WorkerId worker = kNoWorker;
  ClientId client;  ///< 0 = drawn at random
  std::uint64_t credit_bytes = 32u << 20;
  /// At most kSegmentBytesMax. 256 KiB to every shard as long as one is reached over shared memory.
  std::uint32_t segment_bytes_max = 8u << 20;
  /// without a reply for this long: send again
  Duration retry_first = std::chrono::milliseconds(250);
  Duration retry_max = std::chrono::seconds(4);
  std::uint32_t attempts_max = 64;
  std::uint64_t feedback_bytes_max = 1ull << 30;  ///< for each table that is pushed with losses
  std::function<Result<PsView>()> refresh;  ///< asked on kStaleEpoch for a newer view; may be empty
  std::shared_ptr<transport::Transport> transport;  ///< null = zmq
  std::shared_ptr<const Clock> clock;               ///< null = SystemClock
};

struct Call;

/// A checkpoint that a shard has told of and that this client has not marked.
struct CheckpointCall {
  std::uint64_t checkpoint = 0;  ///< 0: none
  std::uint64_t clock = 0;       ///< BSP, SSP: where it cuts the table; 0 where that is not known
};

/// A table that is open: a value, valid for the client that opened it.
struct Table {
  std::uint32_t id = 0;
  TableSchema schema;
};

/// A pull or push under way. wait() once; after it (or after destruction) the arrays that were
/// given to it are the caller's again. Must not outlive the client.
class PendingCall {
 public:
  PendingCall() noexcept;
  PendingCall(PendingCall&&) noexcept;
  PendingCall& operator=(PendingCall&&) noexcept;
  ~PendingCall();
  Status wait();
  /// true, or an error: it has ended, the arrays are the caller's; asked again it says the same.
  /// false: after `timeout` it is still under way. From several threads at a time.
  Result<bool> wait_for(Duration timeout);

 private:
  friend class Client;
  struct Impl;
  explicit PendingCall(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

class Client {
 public:
  /// kInvalidArgument: the view has no shards or its map names unknown ones. Talks to nobody yet.
  static Result<std::unique_ptr<Client>> connect(PsView view, ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Makes the table on every shard, or finds it there. kAlreadyExists: the name with another
  /// schema (the context says which field). Idempotent: every worker may call it. Of a table that
  /// was restored the worker's clock begins where it was cut.
  Result<Table> open_table(TableSchema schema, Duration timeout);

  /// out [n, dim]. Rows never pushed come as the initializer gives them.
  Status pull(const Table& table, std::span<const std::uint64_t> keys, std::span<float> out,
              Duration timeout);
  /// `keys` may go when it returns; `out` must live until wait(). Blocks only for credit.
  Result<PendingCall> pull_async(const Table& table, std::span<const std::uint64_t> keys,
                                 std::span<float> out, Duration timeout);
  /// grads [n, dim]; duplicates are summed (kAssign: the last wins). Returns when every shard has
  /// accepted its part.
  Status push(const Table& table, std::span<const std::uint64_t> keys, std::span<const float> grads,
              Duration timeout);
  /// `keys` and `grads` must live until wait(). Blocks only for credit. A push that was given up
  /// (destroyed before wait) may have been applied or not.
  Result<PendingCall> push_async(const Table& table, std::span<const std::uint64_t> keys,
                                 std::span<const float> grads, Duration timeout);

  /// As pull_async and push_async, but they never block: what has no credit yet is sent while
  /// somebody waits for this client. `keys` must live until wait() too.
  Result<PendingCall> begin_pull(const Table& table, std::span<const std::uint64_t> keys,
                                 std::span<float> out, Duration timeout);
  Result<PendingCall> begin_push(const Table& table, std::span<const std::uint64_t> keys,
                                 std::span<const float> grads, Duration timeout);

  /// The whole of a dense table: [rows, dim].
  Status pull_dense(const Table& table, std::span<float> out, Duration timeout);
  Status push_dense(const Table& table, std::span<const float> grads, Duration timeout);

  /// Ends this worker's iteration on the tables: waits for this client's own pulls and pushes of
  /// them, then tells every shard. After an error the clock stands as before and clock() may be
  /// called again.
  Status clock(const Table& table, Duration timeout);
  Status clock(std::span<const Table> tables, Duration timeout);
  /// The worker's clock of the table: how often clock() succeeded, counted from where it began.
  std::uint64_t clock_of(const Table& table) const;

  // Checkpoints (docs/ps.md). On BSP and SSP tables the mark is clock() itself, when it comes to
  // the clock of the call; on ASP tables it is mark().
  /// Known from the replies that came so far; what it tells is over once clock() is past it.
  CheckpointCall checkpoint_called(const Table& table) const;
  /// What this client has pushed is in the checkpoint, what it pushes from now on is not: where a
  /// worker stands between two steps. Pushes of other threads that are under way are in; later ones
  /// wait until it returns, a round trip. kFailedPrecondition: the checkpoint is over, with why;
  /// train on. After kDeadlineExceeded it may be marked again, as long as nothing was pushed.
  Status mark(std::uint64_t checkpoint, Duration timeout);

  /// From now on (BSP: from this worker's clock on) the table's optimizer uses this rate, on every
  /// shard. One worker says it, not all.
  Status set_learning_rate(const Table& table, float rate, Duration timeout);

  /// How this client's values of the table travel from now on; both f32 at first. A push in kOneBit
  /// or kTopK keeps what it loses of each key's gradient and adds it to the next. kInvalidArgument:
  /// these two for pulls, or on a table that assigns; a k that is not 1 to dim.
  Status set_codecs(const Table& table, CodecSpec push, CodecSpec pull);

  /// The worker leaves every clock set; the client sends no more (kFailedPrecondition). Idempotent.
  Status leave(Duration timeout);

  /// All rows that exist, shard by shard, unordered, in pages of at most segment_bytes_max; spans
  /// are valid during the call. Reads what is applied; a worker on a BSP or SSP table first waits
  /// like a pull. `page` returns false to stop: kCancelled.
  using PageFn =
      std::function<bool(std::span<const std::uint64_t> keys, std::span<const float> values)>;
  Status scan(const Table& table, const PageFn& page, Duration timeout);
  /// Files for numpy.load. Sparse: PREFIX.keys.npy (u64 [n], ascending) and PREFIX.values.npy (f32
  /// [n, dim]). Dense: PREFIX.npy (f32 [rows, dim]), rows never pushed as initialised. Written
  /// beside and renamed: a reader sees all or nothing of each file.
  Status export_table(const Table& table, const std::string& path_prefix, Duration timeout);

  /// Installs a newer view (by epoch; an older one is ignored); requests under way follow it.
  Status set_view(PsView view);

  struct Stats {
    std::uint64_t requests = 0;  ///< segments sent first
    std::uint64_t retries = 0;   ///< sent again
    std::uint64_t bytes_sent = 0;
    std::uint64_t bytes_received = 0;
    /// Rows whose losses in kOneBit or kTopK are gone, since feedback_bytes_max is reached.
    std::uint64_t forgotten = 0;
    std::uint32_t links_shm = 0;  ///< shards that are reached over shared memory now
    std::uint32_t links_socket = 0;
  };
  Stats stats() const;

 private:
  friend class PendingCall;
  struct Impl;
  explicit Client(std::shared_ptr<Impl> impl) noexcept;
  PendingCall pending(std::shared_ptr<Call> call) const;
  std::shared_ptr<Impl> impl_;
};

}  // namespace dlrun::ps

#pragma once
/// io/feeder/consumer.h: one attached consumer: a thread that leases, reads, parses, batches and
/// publishes for it alone. A slow or broken consumer holds up nobody else.
///
/// The loop takes the first that can be done:
///   1. what the consumer released;
///   2. a lease, when few splits wait, or news of splits done, when it is kDoneWithin old (one
///   request of the pump for both; the answer comes to the mailbox). Each request is a durable
///   record, so leases grow until one lasts kAskEvery, and carry the news with them;
///   3. a batch or mark out, when one is due;
///   4. the next piece of the current split, in;
///   5. sleep: until the consumer, the pump or a stop has something.
/// Ends when the consumer closes its socket, breaks the protocol, or on stop(); what was done and
/// not told is told then. What was leased and not done is given back by the job (the task ended) or
/// by the resync of the next attach, which tells how far the consumer is: it goes on there.
///
/// An input with lanes leases nothing: 2 is then, where the consumers end a pass together, a word
/// about the steps that are read, and the news of the others; 3 and 4 are what Lanes says.
///
/// Bounds: slots * slot_bytes of ring (geometry_for), one window of parsed records
/// (window_bytes_max), lease_ahead splits. Bad records: the first one beyond the policy ends the
/// input with its place. `bad_records_max` counts per consumer; a fatal one (a damaged compressed
/// file, a header that is another's) takes the rest of its file with it. A quarantine is a file of
/// the feeder's node that its consumers share.

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/core/split_table.h"
#include "io/feeder/agent_link.h"
#include "io/feeder/batcher.h"
#include "io/feeder/lanes.h"
#include "io/feeder/lease_pump.h"
#include "io/feeder/row_reader.h"
#include "io/pipe/segment.h"
#include "io/pipe/writer.h"

namespace dlrun::io {

struct ConsumerLimits {
  std::uint64_t slot_bytes_max = 16u << 20;
  std::uint64_t window_bytes_max = 32u << 20;  ///< parsed records shuffled together
  std::uint64_t files_max = 1'000'000;
  std::uint64_t quarantine_bytes_max = 256u << 20;
  std::uint32_t lease_ahead = 2;        ///< at first
  std::uint32_t lease_ahead_max = 128;  ///< at most half of LedgerLimits::leases_per_consumer_max
  Duration request_timeout = std::chrono::seconds(10);  ///< one try to tell the files
};

class Consumer {
 public:
  /// Starts the thread. `admit` says who and what; the thread answers the attach over `socket`.
  /// `progress`, `lanes`: what the consumer took before this attach. `on_finished`: from the
  /// thread, last.
  Consumer(task::AdmitConsumer admit, std::vector<SplitProgress> progress,
           std::vector<LanePosition> lanes, pipe::Fd socket, ConsumerLimits limits, Source& source,
           AgentLink& link, LeasePump& pump, std::function<void()> on_finished);
  ~Consumer();  ///< stop() and join
  void stop();
  bool finished() const { return finished_; }
  const TaskId& task() const { return admit_.consumer; }

 private:
  /// What other threads put in.
  struct Mailbox {
    pipe::Fd event;
    std::atomic<bool> full = false;
    std::mutex mutex;
    std::optional<Result<LeaseAnswer>> answer;
    bool stop = false;
  };
  enum class Step { kProgress, kNeedsSlot, kNeedsEntry, kIdle, kOver };

  struct Leased {
    Split split;
    std::uint64_t skip = 0;  ///< rows that the consumer has
  };

  Status attach();
  Result<InputStart> tell_files(const std::vector<FileEntry>& files);
  Status open_quarantine();
  Result<std::vector<FileEntry>> list();
  void resume(const SplitTable& splits);
  Status begin_lanes(const std::vector<FileEntry>& files);
  void loop();
  void tell_rest();
  Status take_in();
  void take_answer(const Result<LeaseAnswer>& answer);
  void ask_for_splits();
  void ask_for_steps();
  void send(task::FeederLease request);
  Step step();
  Step step_lanes();
  Step put_batch();
  Step put_marks(std::uint32_t passes);
  Step read_some();
  void fail_input(Error error);

  const task::AdmitConsumer admit_;
  const std::vector<SplitProgress> progress_;
  const std::vector<LanePosition> lane_progress_;
  const InputSpec& spec_;
  const ConsumerLimits limits_;
  Source& source_;
  AgentLink& link_;
  LeasePump& pump_;
  pipe::Fd socket_;
  std::shared_ptr<Mailbox> mailbox_;
  InputShape shape_;
  std::optional<BadRecordPolicy> bad_records_;
  std::unique_ptr<PipeWriter> writer_;
  std::optional<Batcher> batcher_;
  InputStart start_;
  // Of an input with lanes, in place of batcher_ and leases.
  std::unique_ptr<Lanes> lanes_;
  StepNews news_;
  std::vector<StepReport> told_;
  TimePoint told_at_{};

  std::deque<Leased> leased_;  ///< not begun
  std::uint32_t lease_ahead_;
  bool asking_ = false;
  bool refused_ = false;            ///< the job wants to hear no more of it
  std::uint32_t asked_splits_ = 0;  ///< of the request under way
  std::size_t asked_done_ = 0;      ///< so many of done_ go with it
  TimePoint leased_at_{};           ///< when splits were asked for last
  bool resync_ = true;
  bool wait_said_ = false;  ///< the ledger said kWait: what is there goes out, full batch or not
  bool end_of_input_ = false;
  bool ended_ = false;  ///< end of data or an error was published
  TimePoint ask_at_{};
  Duration backoff_{0};
  std::deque<SplitKey> done_;   ///< not known to be on disk; bounded by the leases
  TimePoint end_held_since_{};  ///< the end is due, batches are with the consumer
  TimePoint done_at_{};         ///< since when the oldest waits

  std::optional<Split> current_;
  const std::function<void()> on_finished_;
  std::unique_ptr<RowReader> reader_;
  std::uint32_t passes_marked_ = 0;
  std::optional<Error> failure_;

  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

}  // namespace dlrun::io

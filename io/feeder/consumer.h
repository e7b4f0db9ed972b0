#pragma once
/// io/feeder/consumer.h: one attached consumer: a thread that leases, reads, parses, batches and
/// publishes for it alone. A slow or broken consumer holds up nobody else.
///
/// The loop takes the first that can be done:
///   1. what the consumer released: splits that are done are told to the agent;
///   2. a lease, when fewer than lease_ahead splits wait (asked of the pump; the answer comes to
///   the mailbox);
///   3. a batch or mark out, when one is due;
///   4. the next piece of the current split, in;
///   5. sleep: until the consumer, the pump or a stop has something.
/// Ends when the consumer closes its socket, breaks the protocol, or on stop(). What was leased and
/// not done is then given back by the job (the task ended) or by the resync of the next attach.
///
/// Bounds: slots * slot_bytes of ring (geometry_for), one window of parsed records
/// (window_bytes_max), lease_ahead splits. Bad records: the first one beyond the policy ends the
/// input with its place. `bad_records_max` counts per consumer.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/feeder/agent_link.h"
#include "io/feeder/batcher.h"
#include "io/feeder/lease_pump.h"
#include "io/pipe/segment.h"
#include "io/pipe/writer.h"
#include "io/source/split_reader.h"

namespace dlrun::io {

struct ConsumerLimits {
  std::uint64_t slot_bytes_max = 16u << 20;
  std::uint64_t window_bytes_max = 32u << 20;  ///< parsed records shuffled together
  std::uint64_t files_max = 1'000'000;
  std::uint32_t lease_ahead = 2;
  Duration request_timeout = std::chrono::seconds(10);
};

class Consumer {
 public:
  /// Starts the thread. `admit` says who and what; the thread answers the attach over `socket`.
  Consumer(task::AdmitConsumer admit, pipe::Fd socket, ConsumerLimits limits, Source& source,
           AgentLink& link, LeasePump& pump);
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

  Status attach();
  void loop();
  Status take_in();
  void take_answer(const Result<LeaseAnswer>& answer);
  void ask_for_splits();
  Step step();
  Step put_batch();
  Step put_marks(std::uint32_t passes);
  Step read_some();
  void bad_record(const std::string& uri, SplitReader& reader, const BadRecord& bad);
  void fail_input(Error error);

  const task::AdmitConsumer admit_;
  const InputSpec& spec_;
  const ConsumerLimits limits_;
  Source& source_;
  AgentLink& link_;
  LeasePump& pump_;
  pipe::Fd socket_;
  std::shared_ptr<Mailbox> mailbox_;
  RecordParser parser_;
  std::unique_ptr<PipeWriter> writer_;
  std::optional<Batcher> batcher_;

  std::deque<Split> leased_;  ///< not begun
  bool asking_ = false;
  bool resync_ = true;
  bool wait_said_ = false;  ///< the ledger said kWait: what is there goes out, full batch or not
  bool end_of_input_ = false;
  bool ended_ = false;  ///< end of data or an error was published
  TimePoint ask_at_{};
  Duration backoff_{0};
  std::deque<task::FeederDone> told_done_;  ///< the last kDoneKept: may have been lost on the way

  std::optional<Split> current_;
  std::unique_ptr<SplitReader> reader_;
  std::uint32_t passes_marked_ = 0;
  std::uint64_t bad_records_ = 0;
  std::optional<Error> failure_;

  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

}  // namespace dlrun::io

#pragma once
/// io/pipe/writer.h: the feeder's end of the input pipe: one per consumer. Makes the segments,
/// hands them over, publishes batches, learns what was released.
/// A slot:  free -1-> being filled -2-> with the consumer -3-> free
///   1: acquire(). 2: publish(). 3: the consumer returned it, seen by collect().
/// Everything that the consumer writes is checked against private counters: kCorrupt, and the
/// writer is dead; nothing that it writes can make this side read or write outside its own memory.
/// Errors: kUnavailable (the consumer is gone: its socket closed), kCorrupt.
/// Threads: one owner.
/// Bounds: slots * slot_bytes of data, allocated in create().

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/pipe/segment.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::io {

struct PipeGeometry {
  std::uint32_t slots = 4;
  std::uint64_t slot_bytes = 1u << 20;  ///< a multiple of 4096
};

class PipeWriter {
 public:
  /// Allocates the segments (kResourceExhausted names them) and answers the consumer over `socket`,
  /// which is taken only on success: else the caller may refuse() over it.
  static Result<std::unique_ptr<PipeWriter>> create(pipe::Fd&& socket, const std::string& name,
                                                    PipeGeometry geometry);
  /// Answers a consumer with an error instead.
  static void refuse(int socket, const Error& error);

  ~PipeWriter();
  PipeWriter(const PipeWriter&) = delete;
  PipeWriter& operator=(const PipeWriter&) = delete;

  std::uint64_t slot_bytes() const;

  /// Takes in what the consumer did: appends the sequences of the batches released since the last
  /// call to `released`.
  Status collect(std::vector<std::uint64_t>& released);

  /// A free slot to fill, if there is one and an entry to announce it.
  std::optional<std::span<std::byte>> acquire();
  /// Announces the first `bytes` of the acquired slot; returns the batch's sequence.
  std::uint64_t publish(std::uint64_t bytes, std::uint32_t pass);

  bool entry_free() const;
  /// Marks need an entry: false = none free now, wait(kForEntry).
  bool publish_pass_end(std::uint32_t pass);
  bool publish_no_rows(std::uint32_t pass, std::uint64_t step);
  bool publish_end_of_data();
  /// The acquired slot carries the text. Last entry.
  void publish_error(const Error& error);

  /// It took every entry and sleeps for the next: what it has not released it means to keep. A
  /// claim of the consumer.
  bool consumer_asleep() const;

  enum class WaitFor { kSlot, kEntry, kRelease };
  /// Sleeps until the consumer did something, `extra_fd` is readable (-1 = none), or the deadline.
  /// A closed socket is kUnavailable, after what was returned before is collectable.
  Status wait(WaitFor what, int extra_fd, TimePoint deadline);

 private:
  struct Impl;
  explicit PipeWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::io

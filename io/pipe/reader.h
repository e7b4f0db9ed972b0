#pragma once
/// io/pipe/reader.h: the consumer's end of the input pipe: batches as spans into memory that the
/// feeder writes. The data segment is mapped read-only; the control segment holds the two rings
/// (docs/io.md has the layout and ordering).
/// Descriptors: three (socket, two eventfds), constant. Nothing is named anywhere; a SIGKILL leaves
/// nothing.
///
/// A pass (one trip over the data) ends with a mark: next() returns a view with `pass_ended`,
/// `pass` and no rows. Every consumer gets one mark per pass, in order, also for a pass of which it
/// got no batch; kEndOfData comes after the last. After a lost consumer, batches of an earlier pass
/// may still follow that pass's mark: `pass` of the batch tells.
///
/// Threads: next() from one thread at a time; release() from any thread, also during next().
/// Fork: destroyed, it is gone for the feeder, whoever has copies of its descriptors; a forked
/// child may only destroy its copy, which ends nothing.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/core/batch.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/cluster/core/msg.h"

namespace dlrun::io {

class PipeReader {
 public:
  /// Connects to the feeder and maps the ring; the feeder lists the files and allocates the ring
  /// before it answers.
  /// Errors: kUnavailable (no feeder listens there: retry), kPermissionDenied (token not admitted),
  /// kDeadlineExceeded, kAlreadyExists (this token is attached already), kResourceExhausted (no
  /// memory for the ring; named), kUnsupported (version), kCorrupt (segments not sealed or not of
  /// the size told), or what the feeder found: kNotFound (no file matches), kFailedPrecondition
  /// (file table differs from that of the job).
  /// `progress`, `lanes`: what this consumer took from feeders that are gone; it is not given
  /// again. At most pipe::kProgressMax and pipe::kLanesMax entries.
  static Result<std::unique_ptr<PipeReader>> attach(const std::string& feeder_socket,
                                                    const cluster::Token& token, Duration timeout,
                                                    const std::vector<SplitProgress>& progress = {},
                                                    const std::vector<LanePosition>& lanes = {});
  ~PipeReader();  ///< every view is dead after this; the feeder gives back what was not released
  PipeReader(const PipeReader&) = delete;
  PipeReader& operator=(const PipeReader&) = delete;

  /// The next batch or mark. Spins briefly, then sleeps. Errors:
  ///   kDeadlineExceeded  nothing within `timeout` (>= 0): call again
  ///   kEndOfData         every pass is over; sticky
  ///   kOverloaded        the caller holds slots() batches and nothing can come: release one first
  ///   kUnavailable       the feeder is gone, and every batch that it had published was returned;
  ///                      sticky
  ///   kCorrupt           the ring holds nonsense; sticky
  ///   any other          the feeder stopped this input and says why (a bad record: uri, line,
  ///                      column, reason); sticky
  Result<BatchView> next(Duration timeout);

  /// Gives the batch's slot back to the feeder. When every batch with records of a split is
  /// released, the split counts as done: it is not read again. Any order. A mark or a view released
  /// before is ignored.
  void release(BatchView view);

  std::uint32_t slots() const;       ///< how many batches may be held at once
  std::uint64_t slot_bytes() const;  ///< bound of one batch

 private:
  struct Impl;
  explicit PipeReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::io

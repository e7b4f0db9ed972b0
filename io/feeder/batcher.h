#pragma once
/// io/feeder/batcher.h: rows of parsed splits -> batches, and which split is through when. No I/O,
/// no threads, no clock. A batch holds rows of one pass, of one or several splits. A split is done
/// when it was read to its end, all its rows went out, and every batch with a row of it was
/// released. A batch names the splits of its rows, and says with which batch a split is out: so
/// split ends are looked for before a batch that might be the last goes out (exact_batch).
/// Order: rows of a window (what was parsed between two close_window calls) are shuffled by (seed,
/// pass, split, window).
/// Bounds: holds the rows that wait, at most about twice: moved together when half of the store is
/// spent.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/core/msg.h"
#include "io/core/row_store.h"

namespace dlrun::io {

class Batcher {
 public:
  /// `store`: empty (make_store).
  Batcher(const InputSpec& spec, std::unique_ptr<RowStore> store, std::uint64_t slot_bytes);

  // Reading: begin_split, (parse into store(), close_window)..., end_split. Rows of another pass
  // must be out before.
  /// The first `skip` of its rows are left out: the consumer has them.
  void begin_split(SplitKey split, std::uint64_t skip = 0);
  RowStore& store() { return *store_; }
  std::uint64_t window_bytes() const;  ///< parsed since the last close_window
  void close_window();
  void end_split();

  // Writing.
  bool empty() const { return next_ == order_.size(); }
  std::uint32_t pass() const { return pass_; }  ///< of the rows that wait
  bool full_batch() const;   ///< the next batch would have batch_rows rows, or no room for one more
  bool exact_batch() const;  ///< full, and it would take every row that waits
  /// Writes the next batch, at most batch_rows rows and the slot's size. Returns its bytes. Call
  /// sent() with its sequence.
  std::uint64_t write(std::span<std::byte> slot);
  /// Of the batch written last.
  const std::vector<SplitPiece>& pieces() const { return pieces_; }
  std::uint64_t waiting() const { return order_.size() - next_; }  ///< rows
  void sent(std::uint64_t sequence);
  void released(std::uint64_t sequence);

  /// Splits that became done since the last call.
  std::vector<SplitKey> take_done();
  /// Splits begun and not done.
  std::vector<SplitKey> open_splits() const;
  std::size_t unreleased() const { return batches_.size(); }

 private:
  struct Work {
    std::uint64_t rows_waiting = 0;
    std::uint64_t batches_out = 0;
    bool read = false;
  };
  void check(SplitKey split);
  void compact();
  std::uint64_t splits_waiting() const;

  const bool shuffle_;
  const std::uint64_t seed_;
  const std::uint64_t batch_rows_;
  const std::uint64_t slot_bytes_;
  const std::unique_ptr<RowStore> store_;
  std::vector<SplitKey> row_split_;   ///< of each row of the store that a window closed over
  std::vector<std::uint32_t> order_;  ///< rows of the store in the order they go out
  std::size_t next_ = 0;              ///< in order_
  std::uint64_t weight_waiting_ = 0;  ///< of order_[next_..]
  std::uint32_t pass_ = 0;
  SplitKey current_;
  std::uint64_t skip_ = 0;  ///< rows of current_ still to leave out
  std::uint32_t window_ = 0;
  std::size_t window_bytes_at_ = 0;
  std::map<SplitKey, Work> work_;
  std::vector<SplitPiece> pieces_;
  std::vector<SplitKey> writing_;  ///< splits of the batch written and not yet sent
  std::map<std::uint64_t, std::vector<SplitKey>> batches_;
  std::vector<SplitKey> done_;
};

}  // namespace dlrun::io

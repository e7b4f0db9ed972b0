#pragma once
/// ps/shard/cut_writer.h: brings a shard's part of a checkpoint from its core to its file, a little
/// in each turn of the shard's loop.
///
///   core.write_cut() --> blocks, at most a slot more than a turn --> PartWriter's queue --> file
///
/// Waits for nobody, but while the core is pressing (copies beyond their bound): then the shard
/// writes before it serves.
/// Threads: the shard's. `wake` is called by the writer's thread.

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "ps/checkpoint/part_writer.h"
#include "ps/core/shard_core.h"

namespace dlrun::ps {

struct CutFile {
  std::string folder;  ///< of the checkpoint; there
  int zstd_level = 0;  ///< 0: as they are
  std::size_t blocks_max = 8;
};
/// The part, its file synced; or why there is none (kCancelled: marks, the slot map, the caller).
using PartDone = std::function<void(Result<PartInfo>)>;

class CutWriter {
 public:
  CutWriter(std::uint64_t checkpoint, ShardId shard, CutFile file, PartDone done,
            std::function<void()> wake)
      : checkpoint_(checkpoint),
        shard_(shard),
        file_(std::move(file)),
        done_(std::move(done)),
        wake_(std::move(wake)) {}

  /// What can be done now. true: come again at once.
  bool step(ShardCore& core);
  bool over() const noexcept { return over_; }

 private:
  void end(Result<PartInfo> part);
  bool write_some(ShardCore& core);
  void press(ShardCore& core);

  std::uint64_t checkpoint_;
  ShardId shard_;
  CutFile file_;
  PartDone done_;
  std::function<void()> wake_;
  std::unique_ptr<PartWriter> writer_;
  std::deque<Block> pending_;
  bool finished_ = false;
  bool over_ = false;
};

}  // namespace dlrun::ps

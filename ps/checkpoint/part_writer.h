#pragma once
/// ps/checkpoint/part_writer.h: a shard's part of a checkpoint as a file, on a thread of its own:
/// compression, CRC, write, sync. The shard's thread only hands blocks over.
///
///   shard's thread -- put(block) --> queue of at most blocks_max --> thread: PATH.tmp-PID
///                  -- finish() --------------------------------> end block, sync, rename to PATH
///                  <---------------- on_change() ------------------
///
/// Errors: those of the system, with the path; after one nothing more is written and result() has
/// it. A writer that is destroyed before its result leaves no file; destroying waits for the write
/// or sync in hand.
/// Bounds: blocks_max blocks in the queue and one in hand; begun writing back every 8 MiB, so that
/// dirty pages do not heap up.
/// Threads: one caller; on_change is called by the writer's thread and must only wake.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ps/core/checkpoint.h"
#include "ps/core/checkpoint_block.h"

namespace dlrun::ps {

struct PartFile {
  std::string path;
  std::uint64_t checkpoint = 0;
  ShardId shard;
  int zstd_level = 0;  ///< 0: as they are
  std::size_t blocks_max = 8;
};

class PartWriter {
 public:
  /// What a manifest says of a file.
  struct Facts {
    std::uint64_t bytes = 0;
    std::uint64_t blocks = 0;
    std::uint64_t rows = 0;
    std::uint32_t headers_crc = 0;
  };

  static Result<std::unique_ptr<PartWriter>> create(PartFile file, std::function<void()> on_change);
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  /// Room for one more without waiting.
  bool has_room() const;
  /// Waits for room. After an error: dropped.
  void put(Block block);
  /// No more blocks. The result comes later.
  void finish();
  /// Once the file is synced under its name, or has failed.
  std::optional<Result<Facts>> result() const;

 private:
  struct Impl;
  explicit PartWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::ps

#pragma once
/// ps/checkpoint/part_reader.h: a part of a checkpoint, read block by block and checked.
/// Errors: kCorrupt: "FILE, byte N: what is wrong"; kNotFound: the file is missing; those of the
/// system. A part is torn when its file is shorter than the manifest says.
/// Bounds: one block in memory.
/// Threads: plain functions; they block.

#include <functional>
#include <string>

#include "ps/core/checkpoint.h"
#include "ps/core/checkpoint_block.h"
#include "ps/core/shard_core.h"

namespace dlrun::ps {

struct PartVisitor {
  /// Of every block; false: its content is skipped, unread.
  std::function<bool(const BlockHeader&)> wants;
  std::function<Status(const BlockHeader&, std::string_view raw)> take;
};

/// All headers in order; at the end they are what `part` says they are.
Status read_part(const std::string& folder, const PartInfo& part, const PartVisitor& visitor);

/// Every byte of every part and attachment.
Status verify_checkpoint(const std::string& folder, const Manifest& manifest);

/// A shard that has done nothing yet takes what is its own. After an error it is of no use.
Status restore_shard(ShardCore& core, const std::string& folder, const Manifest& manifest,
                     bool with_windows, TimePoint now);

}  // namespace dlrun::ps

#include "ps/shard/cut_writer.h"

#include <utility>

#include "ps/checkpoint/folder.h"

namespace dlrun::ps {
namespace {

/// Of rows in a turn: some 50 us, so that pulls wait no longer.
constexpr std::size_t kTurnBytes = 256u << 10;
using Phase = ShardCore::CutPhase;

}  // namespace

void CutWriter::end(Result<PartInfo> part) {
  over_ = true;
  writer_.reset();
  pending_.clear();
  std::exchange(done_, nullptr)(std::move(part));
}

bool CutWriter::step(ShardCore& core) {
  if (over_) return false;
  const ShardCore::CutStatus cut = core.cut();
  if (cut.checkpoint != checkpoint_ || cut.phase == Phase::kCancelled) {
    end(fail(Errc::kCancelled, "checkpoint " + std::to_string(checkpoint_) + ": " +
                                   (cut.why.empty() ? "another was called" : cut.why)));
    return false;
  }
  if (cut.phase == Phase::kMarking) return false;
  if (writer_ == nullptr) {
    auto writer = PartWriter::create({.path = file_.folder + "/" + part_file_name(shard_),
                                      .checkpoint = checkpoint_,
                                      .shard = shard_,
                                      .zstd_level = file_.zstd_level,
                                      .blocks_max = file_.blocks_max},
                                     wake_);
    if (!writer) {
      core.cancel_cut(checkpoint_, writer.error().context);
      end(tl::unexpected(writer.error()));
      return false;
    }
    writer_ = std::move(*writer);
  }
  if (const auto result = writer_->result()) {
    if (!*result) {
      core.cancel_cut(checkpoint_, result->error().context);
      end(tl::unexpected(result->error()));
      return false;
    }
    PartInfo part = core.part_info();
    part.file = part_file_name(shard_);
    part.bytes = (*result)->bytes;
    part.blocks = (*result)->blocks;
    part.rows = (*result)->rows;
    part.headers_crc = (*result)->headers_crc;
    end(std::move(part));
    return false;
  }
  if (cut.pressing) press(core);
  return write_some(core);
}

/// Copies are beyond their bound: until they are not, nothing else is done. An error of the writer
/// ends this too: it then takes everything.
void CutWriter::press(ShardCore& core) {
  std::vector<Block> blocks;
  while (core.cut().pressing && !writer_->result()) {
    for (; !pending_.empty(); pending_.pop_front()) writer_->put(std::move(pending_.front()));
    core.write_cut(kTurnBytes, blocks);
    for (Block& block : blocks) writer_->put(std::move(block));
    blocks.clear();
  }
}

bool CutWriter::write_some(ShardCore& core) {
  for (; !pending_.empty() && writer_->has_room(); pending_.pop_front())
    writer_->put(std::move(pending_.front()));
  if (!pending_.empty()) return false;  // woken when there is room
  if (core.cut().phase == Phase::kWriting) {
    std::vector<Block> blocks;
    core.write_cut(kTurnBytes, blocks);
    for (Block& block : blocks) pending_.push_back(std::move(block));
    return true;
  }
  if (!finished_) {
    finished_ = true;
    writer_->finish();
  }
  return false;
}

}  // namespace dlrun::ps

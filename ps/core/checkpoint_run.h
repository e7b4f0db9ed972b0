#pragma once
/// ps/core/checkpoint_run.h: one checkpoint from its call to its end, as whoever calls it sees it
/// (docs/ps.md, "Who does what"). A core: events and time in, effects out.
///
/// States: Asking -1-> Beginning -2-> Waiting -3-> Committing -4-> Done; any -5-> Done (with why)
///   1: every shard has told how far its workers are. 2: every shard has begun. 3: every shard has
///   handed in its part, and they make one. 4: the manifest is written and its digest recorded.
///   5: a shard refused for good, the deadline, or given up. A worker that was ahead of the plan,
///   or parts that make none: from the start, with the next id and twice as far ahead, at most
///   attempts_max times.
/// Every effect may be carried out twice: shards take what they know already as told again.
/// Bounds: one part for each shard.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ps/core/checkpoint.h"

namespace dlrun::ps {

struct AskProgress {
  ShardId shard;
};
struct BeginCut {
  ShardId shard;
  CutPlan plan;
};
struct CancelCut {
  ShardId shard;
  std::uint64_t checkpoint = 0;
  std::string why;
};
/// Write it, then record its digest, then on_committed().
struct CommitManifest {
  Manifest manifest;
};
struct CheckpointDone {
  std::uint64_t checkpoint = 0;  ///< the last id that was used
  Status status;
};
using CheckpointEffect =
    std::variant<AskProgress, BeginCut, CancelCut, CommitManifest, CheckpointDone>;
using CheckpointEffects = std::vector<CheckpointEffect>;

struct CheckpointSettings {
  std::string job;
  Epoch epoch;
  std::uint32_t shards = 0;
  std::uint64_t first_id = 1;  ///< above all that were used
  std::uint64_t ahead = 2;     ///< clocks, at first
  std::uint32_t attempts_max = 5;
  Duration marks_within = std::chrono::seconds(60);
  Duration written_within = std::chrono::minutes(30);  ///< from the call
};

class CheckpointRun {
 public:
  explicit CheckpointRun(CheckpointSettings settings) : settings_(std::move(settings)) {}

  void start(TimePoint now, CheckpointEffects& effects);
  void on_progress(ShardId shard, std::vector<TableProgress> progress, CheckpointEffects& effects);
  /// Of the checkpoint in `id`; one of an earlier attempt is ignored.
  void on_begun(ShardId shard, std::uint64_t id, const Status& begun, CheckpointEffects& effects);
  void on_part(ShardId shard, std::uint64_t id, Result<PartInfo> part, CheckpointEffects& effects);
  /// What was prepared for the checkpoint `id`.
  void add_attachment(std::uint64_t id, Attachment attachment);
  void on_committed(const Status& committed, CheckpointEffects& effects);
  void give_up(std::string why, CheckpointEffects& effects);
  void on_tick(TimePoint now, CheckpointEffects& effects);

  bool done() const noexcept { return state_ == State::kDone; }
  /// Under way: what attachments and parts are for.
  std::uint64_t id() const noexcept { return id_; }
  TimePoint deadline() const noexcept { return deadline_; }

 private:
  enum class State : std::uint8_t { kNew, kAsking, kBeginning, kWaiting, kCommitting, kDone };
  void ask(CheckpointEffects& effects);
  void again(const Error& why, CheckpointEffects& effects);
  void end(Status status, CheckpointEffects& effects);
  void cancel(const std::string& why, CheckpointEffects& effects);

  CheckpointSettings settings_;
  State state_ = State::kNew;
  std::uint64_t id_ = 0;
  std::uint32_t attempt_ = 0;
  TimePoint deadline_;
  std::map<ShardId, std::vector<TableProgress>> progress_;
  std::map<ShardId, bool> begun_;
  std::map<ShardId, PartInfo> parts_;
  std::vector<Attachment> attachments_;
};

}  // namespace dlrun::ps

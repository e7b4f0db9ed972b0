#include "ps/core/checkpoint_run.h"

#include <utility>

#include "runtime/base/assert.h"

namespace dlrun::ps {

void CheckpointRun::start(TimePoint now, CheckpointEffects& effects) {
  DLRUN_ASSERT(state_ == State::kNew);
  deadline_ = now + settings_.written_within;
  id_ = settings_.first_id;
  if (settings_.shards == 0)
    return end(fail(Errc::kFailedPrecondition, "the job has no parameter shards"), effects);
  ask(effects);
}

void CheckpointRun::ask(CheckpointEffects& effects) {
  state_ = State::kAsking;
  progress_.clear();
  begun_.clear();
  parts_.clear();
  attachments_.clear();
  for (std::uint32_t s = 0; s < settings_.shards; ++s) effects.push_back(AskProgress{ShardId{s}});
}

void CheckpointRun::on_progress(ShardId shard, std::vector<TableProgress> progress,
                                CheckpointEffects& effects) {
  if (state_ != State::kAsking || shard.value >= settings_.shards) return;
  progress_[shard] = std::move(progress);
  if (progress_.size() < settings_.shards) return;
  state_ = State::kBeginning;
  std::vector<std::vector<TableProgress>> all;
  for (auto& [s, p] : progress_) all.push_back(std::move(p));
  const CutPlan plan{id_, plan_clocks(all, settings_.ahead << attempt_), settings_.marks_within};
  for (std::uint32_t s = 0; s < settings_.shards; ++s)
    effects.push_back(BeginCut{ShardId{s}, plan});
}

void CheckpointRun::on_begun(ShardId shard, std::uint64_t id, const Status& begun,
                             CheckpointEffects& effects) {
  if (id != id_ || state_ != State::kBeginning || shard.value >= settings_.shards) return;
  if (!begun) {
    if (begun.error().code == Errc::kFailedPrecondition || begun.error().code == Errc::kUnavailable)
      return again(begun.error(), effects);
    return end(tl::unexpected(begun.error()), effects);
  }
  begun_[shard] = true;
  if (begun_.size() == settings_.shards) state_ = State::kWaiting;
}

void CheckpointRun::on_part(ShardId shard, std::uint64_t id, Result<PartInfo> part,
                            CheckpointEffects& effects) {
  const bool under_way = state_ == State::kBeginning || state_ == State::kWaiting;
  if (id != id_ || !under_way || shard.value >= settings_.shards) return;
  if (!part) {
    // A shard's own word that marks or clocks did not come is no reason to call it once more.
    return end(tl::unexpected(part.error()), effects);
  }
  if (part->checkpoint != id || part->shard != shard)
    return end(
        fail(Errc::kInternal, "shard " + std::to_string(shard.value) + " handed in another's part"),
        effects);
  begun_[shard] = true;  // its answer to the call may be the later one
  parts_[shard] = std::move(*part);
  if (begun_.size() == settings_.shards) state_ = State::kWaiting;
  if (parts_.size() < settings_.shards) return;
  std::vector<PartInfo> parts;
  for (const auto& [s, p] : parts_) parts.push_back(p);
  auto manifest = merge_parts(settings_.job, settings_.epoch, std::move(parts), attachments_);
  if (!manifest) {
    if (manifest.error().code == Errc::kFailedPrecondition) return again(manifest.error(), effects);
    return end(tl::unexpected(manifest.error()), effects);
  }
  state_ = State::kCommitting;
  effects.push_back(CommitManifest{std::move(*manifest)});
}

void CheckpointRun::add_attachment(std::uint64_t id, Attachment attachment) {
  if (id != id_ || state_ == State::kCommitting || state_ == State::kDone) return;
  for (Attachment& known : attachments_) {
    if (known.name == attachment.name) {  // told again, or written anew
      known = std::move(attachment);
      return;
    }
  }
  attachments_.push_back(std::move(attachment));
}

void CheckpointRun::on_committed(const Status& committed, CheckpointEffects& effects) {
  if (state_ == State::kCommitting) end(committed, effects);
}

void CheckpointRun::give_up(std::string why, CheckpointEffects& effects) {
  if (state_ != State::kDone && state_ != State::kCommitting)
    end(fail(Errc::kCancelled, std::move(why)), effects);
}

void CheckpointRun::on_tick(TimePoint now, CheckpointEffects& effects) {
  const bool waits =
      state_ == State::kAsking || state_ == State::kBeginning || state_ == State::kWaiting;
  if (!waits || now < deadline_) return;
  std::string missing;
  for (std::uint32_t s = 0; s < settings_.shards; ++s) {
    if (!parts_.contains(ShardId{s})) missing += " " + std::to_string(s);
  }
  end(fail(Errc::kDeadlineExceeded,
           "checkpoint " + std::to_string(id_) + ": not written in time by shards" + missing),
      effects);
}

void CheckpointRun::cancel(const std::string& why, CheckpointEffects& effects) {
  for (std::uint32_t s = 0; s < settings_.shards; ++s)
    effects.push_back(CancelCut{ShardId{s}, id_, why});
}

void CheckpointRun::again(const Error& why, CheckpointEffects& effects) {
  if (++attempt_ >= settings_.attempts_max) return end(tl::unexpected(why), effects);
  cancel(why.context, effects);
  ++id_;
  ask(effects);
}

void CheckpointRun::end(Status status, CheckpointEffects& effects) {
  if (!status && state_ != State::kNew && state_ != State::kCommitting)
    cancel(status.error().context, effects);
  state_ = State::kDone;
  effects.push_back(CheckpointDone{id_, std::move(status)});
}

}  // namespace dlrun::ps

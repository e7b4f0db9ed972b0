#include "io/core/step_gate.h"

#include <algorithm>

#include "runtime/base/assert.h"

namespace dlrun::io {

void StepGate::report(std::uint32_t rank, const StepReport& report) {
  DLRUN_ASSERT(rank < world_);
  auto& ranks = passes_[report.pass];
  ranks.resize(world_);
  std::optional<StepReport>& known = ranks[rank];
  if (known && (known->ended || (!report.ended && report.steps <= known->steps))) return;
  known = report;
  while (passes_.size() > kPasses) passes_.erase(passes_.begin());
}

void StepGate::gone(std::uint32_t rank) { gone_[rank] = true; }

StepNews StepGate::news(std::uint32_t pass) const {
  StepNews news;
  news.pass = pass;
  const auto found = passes_.find(pass);
  if (found == passes_.end()) return news;
  bool all_ended = true, any = false;
  news.heard = true;
  for (std::uint32_t rank = 0; rank < world_; ++rank) {
    const std::optional<StepReport>& known = found->second[rank];
    const bool ended = known && known->ended;
    if (known) news.most = std::max(news.most, known->steps);
    if (gone_.contains(rank) && !ended) continue;  // it left in the middle: it holds up nobody
    const std::uint64_t steps = known ? known->steps : 0;
    news.least = any ? std::min(news.least, steps) : steps;
    if (ended) news.bound = std::min(news.bound, steps);
    any = true;
    news.heard = news.heard && known;
    all_ended = all_ended && ended;
  }
  news.final = all_ended;
  return news;
}

StepVerdict step_verdict(Ends ends, std::uint64_t step, const StepReport& own,
                         const StepNews& news) {
  const bool has = step < own.steps;
  if (ends == Ends::kUneven)
    return has ? StepVerdict::kGive : own.ended ? StepVerdict::kEnd : StepVerdict::kWait;
  const bool same = news.pass == own.pass;
  if (ends == Ends::kDrop) {
    // Not before all are in the pass: one that ran ahead by more than a pass would not say any more
    // how long this one is, and a job that forgot it would never learn.
    if ((own.ended && !has) || (same && step >= news.bound))
      return same && news.heard ? StepVerdict::kEnd : StepVerdict::kWait;
    return same && has && step < news.least ? StepVerdict::kGive : StepVerdict::kWait;
  }
  if (has) return StepVerdict::kGive;
  if (!own.ended || !same) return StepVerdict::kWait;
  if (step < news.most) return StepVerdict::kFill;
  return news.final ? StepVerdict::kEnd : StepVerdict::kWait;
}

}  // namespace dlrun::io

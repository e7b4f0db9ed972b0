#include "ps/core/clock_set.h"

#include <algorithm>

namespace dlrun::ps {

Status Members::may_admit(WorkerId worker) const {
  if (present_.contains(worker)) return {};
  if (left_.contains(worker))
    return fail(Errc::kFailedPrecondition, "this worker has left the job's clocks");
  if (present_.size() >= places_) {
    return fail(Errc::kFailedPrecondition,
                "all " + std::to_string(places_) +
                    " workers of the job have a clock already: this one is not among them");
  }
  return {};
}

Status Members::admit(WorkerId worker) {
  DLRUN_TRY(may_admit(worker));
  present_.insert(worker);
  return {};
}

bool Members::leave(WorkerId worker) {
  if (left_.contains(worker)) return false;
  if (present_.erase(worker) == 0 && present_.size() >= places_) return false;
  left_.insert(worker);
  --places_;
  return true;
}

std::uint64_t Members::digest() const noexcept {
  std::uint64_t h = mix64(places_ + 1);
  for (const WorkerId w : present_) h = mix64(h ^ w.value);
  for (const WorkerId w : left_) h = mix64(h + w.value);
  return h;
}

std::uint64_t ClockSet::of(WorkerId worker) const noexcept {
  const auto it = clocks_.find(worker);
  return it == clocks_.end() ? start_ : it->second;
}

void ClockSet::advance(WorkerId worker, std::uint64_t clock) {
  if (clock <= start_) return;
  std::uint64_t& mine = clocks_[worker];
  mine = std::max(mine, clock);
}

std::uint64_t ClockSet::lowest(std::uint32_t active) const noexcept {
  if (active == 0) return kNobody;
  if (clocks_.size() < active) return start_;
  std::uint64_t low = kNobody;
  for (const auto& [worker, clock] : clocks_) low = std::min(low, clock);
  return low;
}

}  // namespace dlrun::ps

#include "io/core/lane_plan.h"

#include <string>

#include "io/core/permutation.h"
#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::io {

Result<LanePlan> LanePlan::make(const InputSpec& spec, const SplitTable& splits,
                                std::uint32_t world) {
  DLRUN_ASSERT(has_lanes(spec.mode));
  const auto wrong = [&](const std::string& what) {
    return fail(Errc::kFailedPrecondition, "input \"" + spec.name + "\": " + what);
  };
  if (world == 0) return wrong("no consumers");
  LanePlan plan(spec, splits, world);
  plan.lanes_ = spec.mode == Mode::kStatic ? world : spec.lanes;
  if (plan.lanes_ == 0 || plan.lanes_ > kLanesMax)
    return wrong(std::to_string(plan.lanes_) + " lanes; 1 to " + std::to_string(kLanesMax));
  if (plan.lanes_ % world != 0)
    return wrong(std::to_string(plan.lanes_) + " lanes cannot be dealt to " +
                 std::to_string(world) + " consumers: lanes must be a multiple of them");
  if (spec.ends != Ends::kDrop || splits.count() == 0) return plan;
  for (std::uint32_t lane = 0; lane < plan.lanes_; ++lane)
    if (plan.splits_of(lane) == 0)
      return wrong("ends = \"drop\" would leave no step: lane " + std::to_string(lane) + " of " +
                   std::to_string(plan.lanes_) + " has none of the " +
                   std::to_string(splits.count()) + " splits");
  return plan;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> LanePlan::runs_of(std::uint32_t lane) const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
  for (std::size_t file = lane; file < splits_->files().size(); file += lanes_)
    runs.push_back(splits_->of_file(file));
  return runs;
}

std::uint64_t LanePlan::first_of_part(std::uint32_t lane) const {
  // count * lane / lanes without its product
  const std::uint64_t whole = splits_->count() / lanes_, rest = splits_->count() % lanes_;
  return whole * lane + rest * lane / lanes_;
}

std::uint64_t LanePlan::splits_of(std::uint32_t lane) const {
  DLRUN_ASSERT(lane < lanes_);
  if (spec_->mode == Mode::kDeterministic) {
    const std::uint64_t count = splits_->count();
    return count <= lane ? 0 : (count - lane - 1) / lanes_ + 1;
  }
  if (spec_->static_by == StaticBy::kBytes) return first_of_part(lane + 1) - first_of_part(lane);
  std::uint64_t n = 0;
  for (const auto& [first, count] : runs_of(lane)) n += count;
  return n;
}

SplitKey LanePlan::split(std::uint32_t lane, std::uint32_t pass, std::uint64_t index) const {
  const std::uint64_t n = splits_of(lane);
  DLRUN_ASSERT(n > 0);
  index %= n;
  if (spec_->mode == Mode::kDeterministic) {
    const std::uint64_t place = index * lanes_ + lane;
    if (!spec_->shuffle) return {place, pass};
    return {Permutation(splits_->count(), spec_->seed, pass)(place), pass};
  }
  if (spec_->shuffle) index = Permutation(n, mix64(spec_->seed + lane), pass)(index);
  if (spec_->static_by == StaticBy::kBytes) return {first_of_part(lane) + index, pass};
  for (const auto& [first, count] : runs_of(lane)) {
    if (index < count) return {first + index, pass};
    index -= count;
  }
  DLRUN_ASSERT(false);
  return {};
}

}  // namespace dlrun::io

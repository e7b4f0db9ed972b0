#pragma once
/// io/core/lane_plan.h: whose a split is where nothing is leased (deterministic, static): a pure
/// function of (spec, files, pass, number of consumers).
/// Lanes: deterministic spec.lanes, the splits of a pass dealt to them one by one in the order of
/// (seed, pass); static one for each consumer, with the same splits in every pass, in an order of
/// (seed, pass, lane). Consumer r of w owns the lanes r modulo w. Its step t is round t / (lanes /
/// w) of its lane t modulo (lanes / w): so step t of all consumers is w batches in a row of the
/// order (round, lane), which does not hang on w: batch n = round * lanes + lane.
/// Source: the canonical nodes of MosaicML's streaming datasets, with lanes for nodes.
/// Threads: const calls from any.

#include <cstdint>
#include <utility>
#include <vector>

#include "io/core/msg.h"
#include "io/core/split_table.h"

namespace dlrun::io {

class LanePlan {
 public:
  /// `splits` outlives it. kFailedPrecondition: so many consumers cannot share the lanes; or no
  /// step would be left, for Ends::kDrop ends a pass with its shortest lane and one has no split.
  static Result<LanePlan> make(const InputSpec& spec, const SplitTable& splits,
                               std::uint32_t world);

  std::uint32_t world() const { return world_; }
  std::uint32_t lanes() const { return lanes_; }
  std::uint32_t lanes_of_consumer() const { return lanes_ / world_; }
  std::uint64_t splits_of(std::uint32_t lane) const;  ///< in every pass. O(files) for kFiles
  /// The `index`-th split of a lane; index >= splits_of(lane) begins anew. splits_of(lane) > 0.
  SplitKey split(std::uint32_t lane, std::uint32_t pass, std::uint64_t index) const;

  std::uint32_t lane_of(std::uint32_t rank, std::uint64_t step) const {
    return static_cast<std::uint32_t>(step % lanes_of_consumer()) * world_ + rank;
  }
  /// The place of a consumer's step in the order of all.
  std::uint64_t batch_of(std::uint32_t rank, std::uint64_t step) const {
    return step * world_ + rank;
  }
  /// Of the first `step` steps of its consumer, those of `lane`.
  std::uint64_t rounds_before(std::uint32_t lane, std::uint64_t step) const {
    const std::uint64_t n = lanes_of_consumer();
    return step / n + (lane / world_ < step % n ? 1 : 0);
  }
  /// The first step of a consumer whose batch is not before `batch`.
  std::uint64_t step_from(std::uint32_t rank, std::uint64_t batch) const {
    return batch <= rank ? 0 : (batch - rank + world_ - 1) / world_;
  }

 private:
  LanePlan(const InputSpec& spec, const SplitTable& splits, std::uint32_t world)
      : spec_(&spec), splits_(&splits), world_(world) {}
  /// kFiles: (first split, how many) of each file of the lane.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs_of(std::uint32_t lane) const;
  std::uint64_t first_of_part(std::uint32_t lane) const;  ///< kBytes

  const InputSpec* spec_;
  const SplitTable* splits_;
  std::uint32_t world_;
  std::uint32_t lanes_ = 1;
};

}  // namespace dlrun::io

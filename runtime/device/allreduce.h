#pragma once
/// runtime/device/allreduce.h: the sum of a vector over all ranks of a group. Twins: threads of one
/// process over shared memory; NCCL, one GPU a rank, when built with CUDA.
/// Errors of sum(): kInvalidArgument (the ranks' sizes differ; all ranks get it, the group lives
/// on), kDeadlineExceeded (a rank did not come in time: the group is broken), kUnavailable (the
/// group is broken, or a rank has left).
/// Threads: each rank's object belongs to one thread; all ranks of a group call sum() the same
/// number of times.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::device {

class Allreduce {
 public:
  virtual ~Allreduce() = default;
  virtual std::uint32_t rank() const = 0;
  virtual std::uint32_t world() const = 0;
  /// data[i] = the sum over ranks of data[i]; every rank gets the same bytes. On an error the
  /// content is unspecified.
  virtual Status sum(std::span<float> data, Duration timeout) = 0;
};

using AllreduceGroup = std::vector<std::unique_ptr<Allreduce>>;  ///< by rank

inline constexpr std::uint32_t kRanksMax = 1024;

/// Sums in rank order, so that the result does not depend on timing. kInvalidArgument: no ranks, or
/// more than kRanksMax.
Result<AllreduceGroup> make_cpu_allreduce(std::uint32_t world);
/// Rank r on GPU r. kNoDevice when this build has no CUDA, or there is no driver, or fewer GPUs
/// than ranks.
Result<AllreduceGroup> make_nccl_allreduce(std::uint32_t world);

}  // namespace dlrun::device

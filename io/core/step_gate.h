#pragma once
/// io/core/step_gate.h: how many steps a pass has for consumers that end it together (Ends::kDrop,
/// kPad, kWrap): each says what it surely has as far as it has read, and hears the least and the
/// most of all. Held by the job, on no record: consumers say it again until they know enough, the
/// pass before too, so that one that comes after a restart finds it.
/// Bounds: the newest kPasses passes.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "io/core/msg.h"

namespace dlrun::io {

class StepGate {
 public:
  static constexpr std::size_t kPasses = 16;
  explicit StepGate(std::uint32_t world) : world_(world) {}
  /// What is known only grows: an older word changes nothing. rank < world, asserted.
  void report(std::uint32_t rank, const StepReport& report);
  /// It has ended, well: nobody waits for it. Of a pass that it left in the middle only what it
  /// had for certain still counts, among the most: others may be beyond that already.
  void gone(std::uint32_t rank);
  StepNews news(std::uint32_t pass) const;

 private:
  std::uint32_t world_;
  std::map<std::uint32_t, std::vector<std::optional<StepReport>>> passes_;  ///< by rank
  std::map<std::uint32_t, bool> gone_;
};

/// What a consumer does at `step` of a pass; kDrop counts full batches only.
enum class StepVerdict : std::uint8_t { kGive, kFill, kWait, kEnd };
/// kGive: its next batch. kFill: it has none left, others have: pad or wrap. kWait: not known yet.
StepVerdict step_verdict(Ends ends, std::uint64_t step, const StepReport& own,
                         const StepNews& news);

}  // namespace dlrun::io

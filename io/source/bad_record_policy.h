#pragma once
/// io/source/bad_record_policy.h: one place where every bad record of a consumer's input goes: the
/// gate counts and decides, a quarantine keeps, the first kBadRecordsShown passed over are told.
/// Threads: single owner.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "io/core/bad_record_gate.h"
#include "io/source/quarantine.h"

namespace dlrun::io {

inline constexpr std::uint64_t kBadRecordsShown = 10;

class BadRecordPolicy {
 public:
  /// `quarantine`: null unless the action is kQuarantine. `tell`: gets the place and reason of a
  /// record that was passed over.
  BadRecordPolicy(OnBadRecord action, std::uint64_t records_max,
                  std::unique_ptr<Quarantine> quarantine = nullptr,
                  std::function<void(const std::string&)> tell = {});

  /// Whether the next one's line and bytes are wanted; else judge() may be given any.
  bool wants_place() const;
  /// An error when the input is over with it: Errc::kInvalidArgument in the form of describe(), or
  /// one of Quarantine behind it.
  Status judge(const std::string& uri, std::uint64_t line, const BadRecord& bad,
               std::string_view raw);
  std::uint64_t seen() const { return gate_.seen(); }

 private:
  const OnBadRecord action_;
  const std::uint64_t records_max_;
  BadRecordGate gate_;
  std::unique_ptr<Quarantine> quarantine_;
  std::function<void(const std::string&)> tell_;
};

}  // namespace dlrun::io

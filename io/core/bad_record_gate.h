#pragma once
/// io/core/bad_record_gate.h: what becomes of a bad record: the policy of an input, counted.
///   fail        the first one ends the input
///   skip        passed over, at most records_max
///   quarantine  passed over and kept for a person, at most records_max (0 = as many as fit)
/// A quarantined record is one line of JSON: uri, offset, line, column, reason, and the bytes of
/// the record in base64, cut at kQuarantinedBytesMax.
/// Threads: single owner.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/core/bad_record.h"
#include "io/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::io {

using BadRecordAction = OnBadRecord;

inline constexpr std::size_t kQuarantinedBytesMax = 64 * 1024;

class BadRecordGate {
 public:
  struct Verdict {
    std::optional<Error> over;  ///< the input ends with it
    std::string quarantine;     ///< a line to keep; empty = none
  };
  BadRecordGate(BadRecordAction action, std::uint64_t records_max)
      : action_(action), records_max_(records_max) {}

  /// `raw`: the record's bytes, as far as they are at hand.
  Verdict judge(const std::string& uri, std::uint64_t line, const BadRecord& bad,
                std::string_view raw);
  std::uint64_t seen() const { return seen_; }

 private:
  const BadRecordAction action_;
  const std::uint64_t records_max_;
  std::uint64_t seen_ = 0;
};

/// The line, with its end. Bytes of uri and reason that are not printable ASCII come as \u00XX.
std::string quarantine_line(const std::string& uri, std::uint64_t line, const BadRecord& bad,
                            std::string_view raw);

}  // namespace dlrun::io

#pragma once
/// runtime/cluster/core/end_rules.h: when a job is done and when it has failed, as data: one row
/// for each EndRule, and the tally that goes through a job's ends by them. What the rows mean in a
/// job file: docs/frameworks.md.
/// A verdict falls once; what ends afterwards changes nothing.
/// Cost: O(roles) per end.
/// Threads: values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

struct EndRow {
  /// What of the role must have happened before the job is done. kWell: all its tasks ended well.
  /// kEnded: all ended, well or not. kQuorum: RoleSpec::quorum of them ended well. kDecides: as
  /// kWell, and no other role is waited for.
  enum class Waits : std::uint8_t { kNothing, kWell, kEnded, kQuorum, kDecides };
  /// kUntil: fails the job once too many have: kQuorum, what is left cannot make the quorum;
  /// kTolerant, RoleSpec::failures_permille of the tasks have failed.
  enum class Means : std::uint8_t { kNothing, kFailure, kUntil };

  EndRule rule;
  std::string_view word;  ///< in job files
  Waits waits;
  Means good;   ///< a good end before the job is done
  Means bad;    ///< a failure before the job is done
  bool trains;  ///< it works on the model: its clocks are in the sets of the shards
  /// A job has one such role at least: it is waited for, and its failures are not ignored.
  bool finishes;
  Duration linger;
};

inline constexpr std::array<EndRow, 8> kEndRows = {{
    {.rule = EndRule::kAll,
     .word = "all",
     .waits = EndRow::Waits::kWell,
     .good = EndRow::Means::kNothing,
     .bad = EndRow::Means::kFailure,
     .trains = true,
     .finishes = true,
     .linger = std::chrono::seconds(5)},
    {.rule = EndRule::kDecides,
     .word = "decides",
     .waits = EndRow::Waits::kDecides,
     .good = EndRow::Means::kNothing,
     .bad = EndRow::Means::kFailure,
     .trains = true,
     .finishes = true,
     .linger = std::chrono::seconds(5)},
    {.rule = EndRule::kQuorum,
     .word = "quorum",
     .waits = EndRow::Waits::kQuorum,
     .good = EndRow::Means::kNothing,
     .bad = EndRow::Means::kUntil,
     .trains = true,
     .finishes = true,
     .linger = std::chrono::seconds(5)},
    {.rule = EndRule::kTolerant,
     .word = "tolerant",
     .waits = EndRow::Waits::kEnded,
     .good = EndRow::Means::kNothing,
     .bad = EndRow::Means::kUntil,
     .trains = true,
     .finishes = true,
     .linger = std::chrono::seconds(5)},
    {.rule = EndRule::kAwaited,
     .word = "awaited",
     .waits = EndRow::Waits::kEnded,
     .good = EndRow::Means::kNothing,
     .bad = EndRow::Means::kNothing,
     .trains = false,
     .finishes = false,
     .linger = std::chrono::seconds(5)},
    {.rule = EndRule::kIgnored,
     .word = "ignored",
     .waits = EndRow::Waits::kNothing,
     .good = EndRow::Means::kNothing,
     .bad = EndRow::Means::kNothing,
     .trains = false,
     .finishes = false,
     .linger = std::chrono::seconds(60)},
    {.rule = EndRule::kServes,
     .word = "serves",
     .waits = EndRow::Waits::kNothing,
     .good = EndRow::Means::kNothing,
     .bad = EndRow::Means::kFailure,
     .trains = false,
     .finishes = false,
     .linger = std::chrono::seconds(5)},
    {.rule = EndRule::kOutlives,
     .word = "outlives",
     .waits = EndRow::Waits::kNothing,
     .good = EndRow::Means::kFailure,
     .bad = EndRow::Means::kFailure,
     .trains = false,
     .finishes = false,
     .linger = std::chrono::seconds(0)},
}};

/// The row of `rule`, which is not kByKind.
const EndRow& end_row(EndRule rule);

/// The rule of `role` in its job; never kByKind. A shard host outlives; a service does, too, but
/// when a job has nothing but services they count.
EndRule end_rule_of(const JobSpec& spec, const RoleSpec& role);

/// Its own, or that of its rule.
Duration linger_of(const JobSpec& spec, const RoleSpec& role);

/// EndRow::trains and EndRow::finishes of `role`.
bool trains(const JobSpec& spec, const RoleSpec& role);
bool finishes(const JobSpec& spec, const RoleSpec& role);

/// Whether the ends of this job's roles can make it done at all: one of them finishes.
bool can_be_done(const JobSpec& spec);

enum class Outcome : std::uint8_t { kGoesOn, kDone, kFailed };

class EndTally {
 public:
  EndTally() = default;
  /// `tasks`: how many each role of the spec has.
  EndTally(const JobSpec& spec, const std::vector<std::size_t>& tasks);

  /// Task `task` (any number that is its own) of role `role` (index in the spec) has ended.
  Outcome ended(std::size_t role, std::size_t task, bool well);
  /// After kFailed: the task whose failure it was. Where more than one failure was needed, the
  /// first of that role.
  std::size_t culprit() const { return culprit_; }

 private:
  struct Role {
    EndRule rule = EndRule::kAll;
    std::size_t tasks = 0, well = 0, bad = 0;
    std::size_t quorum = 0;  ///< good ends wanted
    std::uint32_t failures_permille = 0;
    std::optional<std::size_t> first_bad;
  };
  static bool too_many(const Role& role);
  static bool satisfied(const Role& role);
  bool done() const;

  std::vector<Role> roles_;
  std::size_t culprit_ = 0;
};

}  // namespace dlrun::cluster

#include "runtime/cluster/core/end_rules.h"

#include <algorithm>

#include "runtime/base/assert.h"

namespace dlrun::cluster {

namespace {

using Waits = EndRow::Waits;
using Means = EndRow::Means;

constexpr std::uint32_t kHalf = 500;

}  // namespace

const EndRow& end_row(EndRule rule) {
  const auto row = std::find_if(kEndRows.begin(), kEndRows.end(),
                                [&](const EndRow& r) { return r.rule == rule; });
  DLRUN_ASSERT(row != kEndRows.end());
  return *row;
}

EndRule end_rule_of(const JobSpec& spec, const RoleSpec& role) {
  if (role.program == RoleProgram::kShardHost) return EndRule::kOutlives;
  if (role.end != EndRule::kByKind) return role.end;
  if (role.kind == RoleKind::kBatch) return EndRule::kAll;
  for (const RoleSpec& other : spec.roles)
    if (other.program == RoleProgram::kProcess &&
        (other.kind == RoleKind::kBatch || other.end != EndRule::kByKind))
      return EndRule::kOutlives;
  return EndRule::kAll;
}

Duration linger_of(const JobSpec& spec, const RoleSpec& role) {
  return role.linger.value_or(end_row(end_rule_of(spec, role)).linger);
}

bool trains(const JobSpec& spec, const RoleSpec& role) {
  return end_row(end_rule_of(spec, role)).trains;
}

bool finishes(const JobSpec& spec, const RoleSpec& role) {
  return end_row(end_rule_of(spec, role)).finishes;
}

bool can_be_done(const JobSpec& spec) {
  return std::any_of(spec.roles.begin(), spec.roles.end(),
                     [&](const RoleSpec& role) { return finishes(spec, role); });
}

EndTally::EndTally(const JobSpec& spec, const std::vector<std::size_t>& tasks) {
  DLRUN_ASSERT(tasks.size() == spec.roles.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const RoleSpec& from = spec.roles[i];
    Role role;
    role.rule = end_rule_of(spec, from);
    role.tasks = tasks[i];
    role.quorum = from.quorum == 0 ? tasks[i] : std::min<std::size_t>(from.quorum, tasks[i]);
    role.failures_permille = from.failures_permille == 0 ? kHalf : from.failures_permille;
    roles_.push_back(role);
  }
}

Outcome EndTally::ended(std::size_t index, std::size_t task, bool well) {
  DLRUN_ASSERT(index < roles_.size());
  Role& role = roles_[index];
  ++(well ? role.well : role.bad);
  if (!well && !role.first_bad) role.first_bad = task;
  const EndRow& row = end_row(role.rule);
  const Means means = well ? row.good : row.bad;
  if (means == Means::kFailure || (means == Means::kUntil && too_many(role))) {
    culprit_ = means == Means::kUntil ? *role.first_bad : task;
    return Outcome::kFailed;
  }
  return done() ? Outcome::kDone : Outcome::kGoesOn;
}

bool EndTally::too_many(const Role& role) {
  if (role.rule == EndRule::kQuorum) return role.bad > role.tasks - role.quorum;
  return role.bad * 1000 >= role.tasks * role.failures_permille;
}

bool EndTally::satisfied(const Role& role) {
  switch (end_row(role.rule).waits) {
    case Waits::kNothing:
      return true;
    case Waits::kWell:
    case Waits::kDecides:
      return role.well == role.tasks;
    case Waits::kEnded:
      return role.well + role.bad == role.tasks;
    case Waits::kQuorum:
      return role.well >= role.quorum;
  }
  return true;
}

bool EndTally::done() const {
  const auto decides = [](const Role& role) { return end_row(role.rule).waits == Waits::kDecides; };
  const bool decided = std::any_of(roles_.begin(), roles_.end(), decides);
  return std::all_of(roles_.begin(), roles_.end(), [&](const Role& role) {
    return (decided && !decides(role)) || satisfied(role);
  });
}

}  // namespace dlrun::cluster

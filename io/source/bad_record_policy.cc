#include "io/source/bad_record_policy.h"

#include <utility>

namespace dlrun::io {

BadRecordPolicy::BadRecordPolicy(OnBadRecord action, std::uint64_t records_max,
                                 std::unique_ptr<Quarantine> quarantine,
                                 std::function<void(const std::string&)> tell)
    : action_(action),
      records_max_(records_max),
      gate_(action, records_max),
      quarantine_(std::move(quarantine)),
      tell_(std::move(tell)) {}

bool BadRecordPolicy::wants_place() const {
  return action_ != OnBadRecord::kSkip || gate_.seen() < kBadRecordsShown ||
         gate_.seen() >= records_max_;
}

Status BadRecordPolicy::judge(const std::string& uri, std::uint64_t line, const BadRecord& bad,
                              std::string_view raw) {
  const auto verdict = gate_.judge(uri, line, bad, raw);
  if (!verdict.quarantine.empty() && quarantine_ != nullptr)
    if (const Status kept = quarantine_->append(verdict.quarantine); !kept)
      return fail_as(describe(uri, line, bad), kept);
  if (verdict.over) return tl::unexpected(*verdict.over);
  if (tell_ && gate_.seen() <= kBadRecordsShown) tell_(describe(uri, line, bad));
  return {};
}

}  // namespace dlrun::io

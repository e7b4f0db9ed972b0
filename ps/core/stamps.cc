#include "ps/core/stamps.h"

#include "runtime/base/assert.h"
#include "runtime/base/rng.h"

namespace dlrun::ps {

Stamps::Stamps() {
  chunks_.push_back(std::make_unique<Stamp[]>(kChunk));
  chunks_[0][made_++].holders = 1;
}

std::uint32_t Stamps::take(std::uint64_t version, std::uint32_t last_use_s) {
  if (version == 0 && last_use_s == 0) {
    hold(kZero);
    return kZero;
  }
  std::uint32_t& recent = recent_[mix64(version + last_use_s) % recent_.size()];
  if (recent != kZero && at(recent).version == version && at(recent).last_use_s == last_use_s) {
    hold(recent);
    return recent;
  }
  if (free_ != 0) {
    recent = free_;
    free_ = at(recent).holders;
  } else {
    DLRUN_ASSERT(made_ != 0);
    if (made_ % kChunk == 0) chunks_.push_back(std::make_unique<Stamp[]>(kChunk));
    recent = made_++;
  }
  at(recent) = {version, last_use_s, 1};
  return recent;
}

void Stamps::free(std::uint32_t stamp) noexcept {
  // One that is free is not to be found among the recent ones.
  Stamp& s = at(stamp);
  std::uint32_t& recent = recent_[mix64(s.version + s.last_use_s) % recent_.size()];
  if (recent == stamp) recent = kZero;
  s = {0, 0, free_};
  free_ = stamp;
}

}  // namespace dlrun::ps

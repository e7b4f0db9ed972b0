#include "runtime/actor/backoff.h"

namespace dlrun::actor {

Duration Backoff::next() {
  Duration d = first_;
  for (int i = 0; i < tries_ && d < max_; ++i) d *= 2;
  if (d > max_) d = max_;
  if (tries_ < 62) ++tries_;
  const auto half = static_cast<std::uint64_t>(d.count() / 2);
  return Duration(static_cast<Duration::rep>(half + rng_.below(half + 1)));
}

}  // namespace dlrun::actor

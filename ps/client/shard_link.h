#pragma once
/// ps/client/shard_link.h: the way from a client to one shard: which of the shard's endpoints is in
/// use, and the credit that goes with it.
///
/// Best -1-> Other;  Other -1-> the next (Best in its turn);  Other -2-> Trial -3-> Best
/// Trial -4-> Other, the one before
///   1: it cannot be dialled (no memory for a ring), or took nothing for kFailsFor. 2: after
///   kBestAgain, twice as long after each trial, or with a new view. 3: an answer came. 4: it took
///   nothing for kTrialFor.
/// What was under way on a link that is left is lost: its user sends it again.
/// Threads: single owner.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/time.h"
#include "runtime/transport/transport.h"

namespace dlrun::ps {

/// A shard that serves the abstract Unix socket "@name" may serve shared memory at "@name" with
/// this appended: a client looks there first, and takes a socket where that does not come up.
inline constexpr std::string_view kShmSuffix = "-shm";
/// Of a request where some link is in shared memory: several are in a ring, so that both sides
/// work.
inline constexpr std::uint32_t kShmSegmentBytes = 256u << 10;

struct ShardLink {
  static constexpr Duration kFailsFor = std::chrono::seconds(1);
  static constexpr Duration kTrialFor = std::chrono::milliseconds(100);
  static constexpr Duration kBestAgain = std::chrono::minutes(1);
  static constexpr Duration kBestAgainMax = std::chrono::hours(1);

  transport::PeerId peer = 0;          ///< 0: none of the endpoints can be dialled
  std::vector<std::string> endpoints;  ///< the best first
  std::size_t choice = 0;              ///< of them
  std::uint64_t bytes = 0;             ///< under way
  std::uint64_t credit = 0;            ///< their bound

  const std::string& endpoint() const { return endpoints[choice]; }
  bool shm() const noexcept;

  /// Looks at what answers on this host, and dials the best, or leaves it as it is.
  /// `credit_bytes`: of a socket; a ring holds less.
  void place(transport::Channel& channel, const ShardEndpoint& shard, std::uint64_t credit_bytes,
             TimePoint now);
  /// A message was taken; an answer came.
  void took() noexcept { failing_since_.reset(); }
  void answered() noexcept;
  /// A message found the link down. true: now it is another one.
  bool refused(transport::Channel& channel, TimePoint now);
  /// When it is time. true: now it is the best one, on trial.
  bool try_best(transport::Channel& channel, TimePoint now);

 private:
  void dial(transport::Channel& channel, std::size_t first, TimePoint now);
  void use(std::size_t which);

  std::uint64_t credit_bytes_ = 0;
  std::size_t after_ = 0;  ///< the choice when this one fails
  std::optional<TimePoint> failing_since_;
  Duration patience_ = kFailsFor;
  TimePoint best_again_;
  Duration best_pause_ = kBestAgain;
};

}  // namespace dlrun::ps

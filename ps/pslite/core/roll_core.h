#pragma once
/// ps/pslite/core/roll_core.h: what the scheduler of a ps-lite program decides: who is who, when a
/// barrier is passed, and that the job has failed.
///
/// States: Gathering -1-> Running -2-> Failed; Gathering -2-> Failed
///   1: as many workers and servers have registered as the job has: ranks are given out, everybody
///   gets the roster. 2: not all came in time; a node is lost, or says that it failed; a barrier
///   waits for one that has left.
/// Ranks: who asks for one that is free and in range gets it, the first comer first; the others get
/// the lowest that are left, in the order in which they registered.
/// Effects: payloads for sessions; session 0 is the scheduler's own process.
/// Bounds: as many registrations as the job has nodes; entries of a barrier as its group has.
/// Threads: single owner.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ps/pslite/core/msg.h"
#include "runtime/base/time.h"

namespace dlrun::pslite {

class RollCore {
 public:
  struct Options {
    std::uint32_t workers = 0;
    std::uint32_t servers = 0;
    std::uint64_t job = 0;  ///< a random number
    Duration start_within = std::chrono::seconds(300);
  };
  using Session = std::uint64_t;
  using Effects = std::vector<std::pair<Session, Payload>>;
  static constexpr Session kSelf = 0;

  RollCore(const Options& options, TimePoint now) : options_(options), began_(now) {}

  Effects on_register(Session session, const Register& wish);
  Effects on_enter(Session session, int group);
  Effects on_goodbye(Session session);
  /// `session` has lost, or is, what cannot be gone on without.
  Effects on_failed(Session session, const std::string& reason);
  Effects on_lost(Session session, const std::string& why);
  Effects on_time(TimePoint now);

  bool running() const noexcept { return state_ == State::kRunning; }
  /// Everybody who had registered has said goodbye.
  bool all_left() const noexcept;
  /// "worker 1 (host, process 123)".
  std::string name_of(Session session) const;

 private:
  enum class State : std::uint8_t { kGathering, kRunning, kFailed };
  struct Entry {
    Session session = 0;
    Register wish;
    int id = kNobody;
    bool left = false;
  };
  struct Barrier {
    std::uint32_t entered = 0;
    std::map<Session, std::uint32_t> by;
  };
  std::uint32_t size_of(int group) const noexcept;
  std::uint32_t count(Role role) const noexcept;
  Effects give_out_ranks();
  Effects check_barriers();
  Effects fail(const std::string& reason);
  void to_all(Effects& effects, const Payload& payload) const;

  const Options options_;
  const TimePoint began_;
  State state_ = State::kGathering;
  std::string reason_;
  std::vector<Entry> entries_;       ///< in the order of their registration
  std::map<int, Barrier> barriers_;  ///< by group; those somebody waits in
};

/// "2 of 3 workers"; "the workers and servers".
std::string group_name(int group);

}  // namespace dlrun::pslite

#pragma once
/// runtime/cluster/core/persist_gate.h: holds effects back until the events they rest on are
/// durable. At most one Persist of a core is under way; what is staged meanwhile makes the next one
/// (group commit), so the order in the log is the order of staging. An entry without events waits
/// for those before it, or passes when there are none. On failure, entries marked `droppable` are
/// dropped with everything staged for their job; the others are kept and tried again after `retry`:
/// state is never lost, new work is refused.
/// Bounds: while the disk is full what has happened is kept (tasks, barriers and splits are
/// bounded, new jobs are refused); answers to repeats, which would grow with each repeat, wait only
/// while fewer than kStagedMax entries do.
/// Threads: single owner.

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/assert.h"
#include "runtime/cluster/core/event.h"

namespace dlrun::cluster {

/// Append the events in one durable commit, then call on_persisted(id) of the core that asked, or
/// on_persist_failed(id).
struct Persist {
  std::uint64_t id = 0;
  std::vector<Event> events;
};

/// `Effect` is a variant that has Persist among its alternatives.
template <class Effect>
class PersistGate {
 public:
  static constexpr std::size_t kStagedMax = 8192;
  struct Entry {
    JobId job;               ///< 0 = cluster
    bool droppable = false;  ///< drop this and all of its job when the store refuses
    std::vector<Event> events;
    std::vector<Effect> then;        ///< performed once durable
    std::vector<Effect> on_failure;  ///< performed instead when dropped
  };

  explicit PersistGate(Duration retry) : retry_(retry) {}

  /// False: an answer (no events) that would be one too many to wait, and is forgotten: whoever
  /// asked asks again.
  bool stage(Entry entry) {
    if (entry.events.empty() && staged_.size() >= kStagedMax) return false;
    staged_.push_back(std::move(entry));
    return true;
  }

  /// Call at the end of each event: passes what waits for nothing, starts a Persist when none is
  /// under way.
  void flush(std::vector<Effect>& out) {
    if (in_flight_id_ != 0 || retry_at_) return;
    while (!staged_.empty() && staged_.front().events.empty()) {
      for (Effect& e : staged_.front().then) out.push_back(std::move(e));
      staged_.pop_front();
    }
    if (staged_.empty()) return;
    in_flight_ = std::move(staged_);
    staged_.clear();
    emit(out);
  }

  /// False: not the one under way (a late answer); nothing done.
  bool on_persisted(std::uint64_t id, std::vector<Effect>& out) {
    if (id == 0 || id != in_flight_id_) return false;
    in_flight_id_ = 0;
    for (Entry& entry : in_flight_)
      for (Effect& e : entry.then) out.push_back(std::move(e));
    in_flight_.clear();
    return true;
  }

  /// Returns the jobs dropped: the core forgets them.
  std::vector<JobId> on_failed(std::uint64_t id, TimePoint now, std::vector<Effect>& out) {
    std::vector<JobId> dropped;
    if (id == 0 || id != in_flight_id_) return dropped;
    in_flight_id_ = 0;
    for (Entry& entry : staged_) in_flight_.push_back(std::move(entry));
    staged_.clear();
    for (const Entry& entry : in_flight_)
      if (entry.droppable) dropped.push_back(entry.job);
    for (Entry& entry : in_flight_) {
      bool drop = false;
      for (JobId job : dropped) drop = drop || (entry.job == job && job.value != 0);
      if (drop)
        for (Effect& e : entry.on_failure) out.push_back(std::move(e));
      else
        staged_.push_back(std::move(entry));
    }
    in_flight_.clear();
    retry_at_ = now + retry_;
    return dropped;
  }

  void on_tick(TimePoint now) {
    if (retry_at_ && now >= *retry_at_) retry_at_.reset();
  }
  std::optional<TimePoint> next_wake() const { return retry_at_; }
  bool failing() const { return retry_at_.has_value(); }
  bool idle() const { return in_flight_id_ == 0 && staged_.empty(); }

 private:
  void emit(std::vector<Effect>& out) {
    Persist persist;
    persist.id = in_flight_id_ = ++last_id_;
    for (const Entry& entry : in_flight_)
      persist.events.insert(persist.events.end(), entry.events.begin(), entry.events.end());
    out.push_back(std::move(persist));
  }

  Duration retry_;
  std::uint64_t last_id_ = 0;
  std::uint64_t in_flight_id_ = 0;
  std::deque<Entry> in_flight_;
  std::deque<Entry> staged_;
  std::optional<TimePoint> retry_at_;
};

}  // namespace dlrun::cluster

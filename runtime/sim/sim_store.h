#pragma once
/// runtime/sim/sim_store.h: the coordinator's log on a disk that is slow, full, or loses what it
/// had not flushed.
/// One writer: batches become durable in the order they were appended. What is kept is the bytes of
/// each record; what a new coordinator replays was decoded from them.

#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/planted_bugs.h"
#include "runtime/cluster/core/event.h"
#include "runtime/sim/sim_loop.h"

namespace dlrun::sim {

class SimStore {
 public:
  /// `durable` sees each event at the moment it is on disk, in order; `violated` hears of a record
  /// that does not decode to what was appended.
  SimStore(SimLoop& loop, PlantedBugs bugs, std::function<void(const cluster::Event&)> durable,
           std::function<void(std::string)> violated)
      : loop_(loop),
        bugs_(std::move(bugs)),
        on_durable_(std::move(durable)),
        violated_(std::move(violated)) {}

  void append(std::vector<cluster::Event> events, std::function<void(Status)> done);
  /// The process died: what was under way is on disk or not, each batch after a lost one is lost;
  /// nobody is told.
  void crash();
  void set_full(bool full) { full_ = full; }
  void set_delay(Duration longest) { delay_max_ = longest; }
  const std::vector<cluster::Event>& log() const { return log_; }
  /// What a new coordinator reads: `log()`, without what later events supersede where that was
  /// removed in time.
  std::vector<cluster::Event> replayable(bool removed) const;
  /// FNV-1a over the bytes of every record.
  std::uint64_t digest() const { return digest_; }

 private:
  struct Batch {
    std::vector<cluster::Event> events;
    std::function<void(Status)> done;
    bool gone = false;
  };
  void flush(const std::vector<cluster::Event>& events);

  SimLoop& loop_;
  PlantedBugs bugs_;
  std::function<void(const cluster::Event&)> on_durable_;
  std::function<void(std::string)> violated_;
  std::vector<cluster::Event> log_;
  std::vector<std::shared_ptr<Batch>> under_way_;
  Duration delay_max_{std::chrono::milliseconds(5)};
  bool full_ = false;
  std::uint64_t digest_ = 0xcbf29ce484222325ULL;
};

}  // namespace dlrun::sim

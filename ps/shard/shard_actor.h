#pragma once
/// ps/shard/shard_actor.h: the actor that owns a shard's thread: it is detached, runs the
/// ShardLoop, and between turns takes its mail: WorkerLeft, checkpoints, stop. Senders go through
/// ShardHandle, which also wakes the loop.
///   ShardHandle --atom message--> mailbox        loop: receive bytes -> core -> send bytes
///        \------- loop.wake() ---> channel ------^ (then reads the mailbox)

#include <caf/actor.hpp>
#include <caf/fwd.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ps/shard/shard_loop.h"

namespace dlrun::ps {

/// Any thread. Keeps the loop alive.
class ShardHandle {
 public:
  ShardHandle(caf::actor actor, std::shared_ptr<ShardLoop> loop)
      : actor_(std::move(actor)), loop_(std::move(loop)) {}
  void worker_left(WorkerId worker) const;
  // Checkpoints: ShardLoop's; what they are given is called on the shard's thread, and not at all
  // when the shard ends before.
  void ask_progress(std::function<void(std::vector<TableProgress>)> told) const;
  void begin_cut(CutPlan plan, CutFile file, std::function<void(Status)> begun,
                 PartDone done) const;
  void cancel_cut(std::uint64_t checkpoint, std::string why) const;
  /// The loop ends after its current turn. Await: caf::scoped_actor::wait_for(actor()).
  void stop() const;
  const caf::actor& actor() const noexcept { return actor_; }

 private:
  void post(std::function<void(ShardLoop&)> run) const;
  caf::actor actor_;
  std::shared_ptr<ShardLoop> loop_;
};

/// `loop` is the actor's from here on.
ShardHandle spawn_shard(caf::actor_system& system, std::shared_ptr<ShardLoop> loop);

}  // namespace dlrun::ps

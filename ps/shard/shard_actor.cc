#include "ps/shard/shard_actor.h"

#include <caf/actor_system.hpp>
#include <caf/blocking_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

namespace dlrun::ps {
namespace {

using left_atom = caf::atom_constant<caf::atom("left")>;
using stop_atom = caf::atom_constant<caf::atom("stop")>;

void shard_actor(caf::blocking_actor* self, std::shared_ptr<ShardLoop> loop) {
  bool running = true;
  while (running) {
    if (!loop->step(Duration{-1})) {
      self->fail_state(caf::exit_reason::unhandled_exception);
      return;
    }
    for (bool mail = true; mail && running;) {
      self->receive([&](left_atom, std::uint64_t worker) { loop->worker_left(WorkerId{worker}); },
                    [&](stop_atom) { running = false; },
                    caf::after(std::chrono::seconds(0)) >> [&] { mail = false; });
    }
  }
}

}  // namespace

void ShardHandle::worker_left(WorkerId worker) const {
  caf::anon_send(actor_, left_atom::value, worker.value);
  loop_->wake();
}

void ShardHandle::stop() const {
  caf::anon_send(actor_, stop_atom::value);
  loop_->wake();
}

ShardHandle spawn_shard(caf::actor_system& system, std::shared_ptr<ShardLoop> loop) {
  return {system.spawn<caf::detached>(shard_actor, loop), loop};
}

}  // namespace dlrun::ps

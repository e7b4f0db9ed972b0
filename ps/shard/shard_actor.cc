#include "ps/shard/shard_actor.h"

#include <caf/actor_system.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/blocking_actor.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

namespace dlrun::ps {
namespace {

/// Something that the shard does on its own thread, between two turns.
struct Errand {
  std::function<void(ShardLoop&)> run;
};

}  // namespace
}  // namespace dlrun::ps

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(dlrun::ps::Errand)

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
                    [&](Errand& errand) { errand.run(*loop); }, [&](stop_atom) { running = false; },
                    caf::after(std::chrono::seconds(0)) >> [&] { mail = false; });
    }
  }
}

}  // namespace

void ShardHandle::worker_left(WorkerId worker) const {
  caf::anon_send(actor_, left_atom::value, worker.value);
  loop_->wake();
}

void ShardHandle::post(std::function<void(ShardLoop&)> run) const {
  caf::anon_send(actor_, Errand{std::move(run)});
  loop_->wake();
}

void ShardHandle::ask_progress(std::function<void(std::vector<TableProgress>)> told) const {
  post([told = std::move(told)](ShardLoop& loop) { told(loop.core().progress()); });
}

void ShardHandle::begin_cut(CutPlan plan, CutFile file, std::function<void(Status)> begun,
                            PartDone done) const {
  post([plan = std::move(plan), file = std::move(file), begun = std::move(begun),
        done = std::move(done)](ShardLoop& loop) { begun(loop.begin_cut(plan, file, done)); });
}

void ShardHandle::cancel_cut(std::uint64_t checkpoint, std::string why) const {
  post([checkpoint, why = std::move(why)](ShardLoop& loop) { loop.cancel_cut(checkpoint, why); });
}

void ShardHandle::stop() const {
  caf::anon_send(actor_, stop_atom::value);
  loop_->wake();
}

ShardHandle spawn_shard(caf::actor_system& system, std::shared_ptr<ShardLoop> loop) {
  return {system.spawn<caf::detached>(shard_actor, loop), loop};
}

}  // namespace dlrun::ps

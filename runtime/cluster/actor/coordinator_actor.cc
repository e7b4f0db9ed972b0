#include "runtime/cluster/actor/coordinator_actor.h"

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <unordered_map>

#include "runtime/actor/link_messages.h"
#include "runtime/base/seldom.h"
#include "runtime/cluster/actor/job_actor.h"
#include "runtime/cluster/actor/messages.h"
#include "runtime/cluster/actor/wake.h"
#include "runtime/wire/control_codec.h"

namespace dlrun::cluster {
namespace {

constexpr auto kSweepEvery = std::chrono::milliseconds(250);

struct Call {
  std::shared_ptr<ApiAnswer> answer;
  TimePoint deadline;
};

struct CoordinatorState {
  static inline const char* name = "coordinator";
  CoordinatorActorOptions options;
  caf::actor store, hub;
  std::unordered_map<JobId, caf::actor> jobs;
  std::unordered_map<std::uint64_t, Call> calls;
  std::uint64_t last_call = 0;
  bool sweeping = false;
  WakeTimer timer;
  Seldom undecodable, false_names;
  CoordinatorState() = default;
  /// The jobs end with their coordinator. They do not monitor it: CAF would keep the memory of each
  /// job that is over for as long as the coordinator lives.
  ~CoordinatorState() {
    for (const auto& [id, job] : jobs) caf::anon_send_exit(job, caf::exit_reason::user_shutdown);
  }
  CoordinatorState(const CoordinatorState&) = delete;
  CoordinatorState& operator=(const CoordinatorState&) = delete;
  CoordinatorCore& core() { return *options.core; }
  const caf::actor& reader() const { return options.reader ? options.reader : store; }
  Now now() const { return read(*options.clock); }
};
using Self = caf::stateful_actor<CoordinatorState>;

/// How long the coordinator, which all wait for, was taken up by one message; placements included.
void note_turn(CoordinatorState& s, TimePoint began) {
  if (s.options.meters != nullptr)
    s.options.meters->turn_seconds.add(seconds_of(s.options.clock->now() - began));
}

void give(Self* self, std::uint64_t call, Result<ApiReply> reply) {
  const auto it = self->state.calls.find(call);
  if (it == self->state.calls.end()) return;  // its time was over
  it->second.answer->give(std::move(reply));
  self->state.calls.erase(it);
}

void start_job(Self* self, StartJob& start) {
  CoordinatorState& s = self->state;
  const JobId id = start.record.id;
  JobActorOptions options{std::move(start.record), s.options.job_settings, s.options.tokens,
                          s.options.clock, s.options.make_ledger};
  s.jobs[id] = spawn_job(self->system(), self, s.store, s.hub, std::move(options));
}

void perform(Self* self, CoordinatorEffects effects) {
  CoordinatorState& s = self->state;
  for (CoordinatorEffect& effect : effects) {
    if (auto* persist = std::get_if<Persist>(&effect)) {
      self->send(s.store, StoreTerm{s.core().term()});
      self->send(s.store, StoreEvents{std::move(*persist)});
    } else if (auto* send = std::get_if<SendToAgent>(&effect)) {
      self->send(s.hub, actor::PeerSend{send->node, wire::encode(send->message)});
    } else if (auto* reply = std::get_if<ReplyApi>(&effect)) {
      give(self, reply->call, std::move(reply->reply));
    } else if (auto* job = std::get_if<ReadJob>(&effect)) {
      self->send(s.reader(), StoreRead{*job});
    } else if (auto* jobs = std::get_if<ReadJobs>(&effect)) {
      self->send(s.reader(), StoreRead{std::move(*jobs)});
    } else if (auto* events = std::get_if<ReadEvents>(&effect)) {
      self->send(s.reader(), StoreRead{*events});
    } else if (auto* start = std::get_if<StartJob>(&effect)) {
      start_job(self, *start);
    } else if (auto* input = std::get_if<ToJob>(&effect)) {
      if (const auto it = s.jobs.find(input->job); it != s.jobs.end())
        self->send(it->second, ForJob{std::move(input->input)});
    } else if (auto* end = std::get_if<EndJob>(&effect)) {
      if (const auto it = s.jobs.find(end->job); it != s.jobs.end()) {
        self->send_exit(it->second, caf::exit_reason::user_shutdown);
        s.jobs.erase(it);
      }
    } else if (const auto* waited = std::get_if<Waited>(&effect)) {
      if (s.options.meters != nullptr)
        s.options.meters->queue_seconds.add(seconds_of(waited->wait));
    }
  }
  s.timer.arm(self, s.core().next_wake(), s.options.clock->now());
}

void tell(Self* self, JobId job) {
  if (self->state.options.on_change) self->state.options.on_change(job);
}

void on_bytes(Self* self, const actor::PeerBytes& message) {
  CoordinatorState& s = self->state;
  const Result<FromAgent> decoded = wire::decode_from_agent(message.bytes);
  const auto refuse = [&] {
    if (s.options.meters != nullptr) s.options.meters->messages_refused.add(1);
  };
  if (!decoded) {  // of a newer agent, or damaged: what matters is repeated
    refuse();
    if (s.undecodable.now() && s.options.log)
      s.options.log("a message of node " + message.node.value + " is not understood (" +
                    std::to_string(s.undecodable.count()) +
                    " so far): " + decoded.error().to_string());
    return;
  }
  // A connection speaks for the node and the process that its hello proved, whatever the message
  // says.
  const auto check = [&](const NodeId& node, Incarnation incarnation) {
    if (node == message.node && incarnation == message.incarnation) return true;
    refuse();
    if (s.false_names.now() && s.options.log)
      s.options.log("node " + message.node.value + " spoke for node " + node.value +
                    " or for another process of its own: refused (" +
                    std::to_string(s.false_names.count()) + " so far)");
    return false;
  };
  if (const auto* r = std::get_if<Register>(&*decoded); r && !check(r->node, r->incarnation))
    return;
  if (const auto* h = std::get_if<Heartbeat>(&*decoded); h && !check(h->node, h->incarnation))
    return;
  const TimePoint began = s.options.clock->now();
  perform(self, s.core().on_agent(message.node, message.incarnation, *decoded, s.now()));
  note_turn(s, began);
}

void on_request(Self* self, ApiRequest& message) {
  CoordinatorState& s = self->state;
  if (s.calls.size() >= s.options.calls_max)
    return message.answer->give(
        fail(Errc::kOverloaded, "too many requests are under way: try again"));
  const Now now = s.now();
  const std::uint64_t call = ++s.last_call;
  s.calls.emplace(call, Call{std::move(message.answer), now.at + message.timeout});
  if (!std::exchange(s.sweeping, true)) self->delayed_send(self, kSweepEvery, ApiSweep{});
  perform(self, s.core().on_call(call, message.request, now));
  note_turn(s, now.at);
}

void sweep(Self* self) {
  CoordinatorState& s = self->state;
  const TimePoint now = s.options.clock->now();
  for (auto it = s.calls.begin(); it != s.calls.end();) {
    if (it->second.deadline > now) {
      ++it;
      continue;
    }
    it->second.answer->give(fail(Errc::kDeadlineExceeded, "no answer in time"));
    it = s.calls.erase(it);
  }
  s.sweeping = !s.calls.empty();
  if (s.sweeping) self->delayed_send(self, kSweepEvery, ApiSweep{});
}

caf::behavior coordinator(Self* self, caf::actor store, CoordinatorActorOptions options,
                          std::function<caf::actor(const caf::actor&)> make_hub) {
  CoordinatorState& s = self->state;
  s.store = std::move(store);
  s.options = std::move(options);
  s.hub = make_hub(self);
  self->set_default_handler(caf::drop);
  self->send(self, StartCoordinator{});
  return {
      [self](const StartCoordinator&) {
        perform(self, self->state.core().start(self->state.now()));
      },
      [self](const actor::PeerUp& peer) {
        if (self->state.options.on_peer) self->state.options.on_peer(peer.node, peer.log_key);
      },
      [](const actor::PeerDown&) {},  // a hint only: the lease decides
      [self](const actor::PeerBytes& message) { on_bytes(self, message); },
      [self](const FromJob& message) {
        if (message.message)
          perform(self, self->state.core().on_job(*message.message, self->state.now()));
        tell(self, message.job);
      },
      [self](const StoreDone& done) {
        CoordinatorState& st = self->state;
        perform(self, done.status
                          ? st.core().on_persisted(done.id, st.now())
                          : st.core().on_persist_failed(done.id, done.status.error(), st.now()));
        if (done.status)
          for (const JobId job : done.jobs) tell(self, job);
      },
      [self](StoreAnswer& answer) { give(self, answer.call, std::move(answer.reply)); },
      [self](ApiRequest& request) { on_request(self, request); },
      [self](const ApiSweep&) { sweep(self); },
      [self](const Wake& wake) {
        CoordinatorState& st = self->state;
        if (st.timer.fired(wake)) perform(self, st.core().on_tick(st.now()));
      },
  };
}

}  // namespace

caf::actor spawn_coordinator(caf::actor_system& system, const caf::actor& store,
                             CoordinatorActorOptions options,
                             std::function<caf::actor(const caf::actor&)> make_hub) {
  return system.spawn(coordinator, store, std::move(options), std::move(make_hub));
}

}  // namespace dlrun::cluster

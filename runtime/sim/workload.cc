// The people and the faults of a World.

#include <algorithm>
#include <iterator>

#include "runtime/sim/world.h"
#include "runtime/wire/ps_codec.h"

namespace dlrun::sim {

using namespace dlrun::cluster;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Of a role of the next job: none of its own, or some of those that may happen here. Drawn apart,
/// so that all else of a seed happens as without it.
std::optional<std::vector<Cause>> World::random_causes(std::uint64_t role) const {
  SplitMix64 rng(mix64(settings_.seed ^ 80) + 2 * wishes_.size() + role);
  if (rng.below(3) != 0) return std::nullopt;
  std::vector<Cause> causes;
  for (const Cause cause : {Cause::kExit, Cause::kSignal, Cause::kNodeLost, Cause::kShimLost})
    if (rng.below(2) == 0) causes.push_back(cause);
  return causes;
}

JobSpec World::random_spec() {
  SplitMix64& rng = loop_.rng();
  JobSpec spec;
  spec.name = "sim";
  spec.owner = "someone";
  spec.grace = seconds(3);
  spec.priority = static_cast<std::int32_t>(rng.below(3));
  RoleSpec worker;
  worker.name = "worker";
  worker.count_min = worker.count_max = static_cast<std::uint32_t>(1 + rng.below(4));
  if (rng.below(8) == 0) worker.count_max = worker.count_min + 3;
  worker.resources.cpu_milli = static_cast<std::int64_t>(500 + 500 * rng.below(3));
  SimProgram program;
  program.run_ms = 50 + rng.below(8000);
  if (rng.below(6) == 0) program.code = static_cast<int>(1 + rng.below(3));
  if (rng.below(12) == 0) program.signal = 11;
  if (rng.below(8) == 0) program.hang = true;
  if (rng.below(8) == 0) program.ignore_term = true;
  if (rng.below(3) == 0) program.barriers = 1 + rng.below(4);
  if (rng.below(3) == 0) {
    program.input = "train";
    io::InputSpec input;
    input.name = "train";
    input.uris = {"sim:/data"};
    input.passes = static_cast<std::uint32_t>(1 + rng.below(2));
    spec.inputs.push_back(input);
  }
  if (rng.below(2) == 0) {
    RoleSpec shard;
    shard.name = "ps";
    shard.kind = RoleKind::kService;
    shard.program = RoleProgram::kShardHost;
    shard.count_min = shard.count_max = static_cast<std::uint32_t>(1 + rng.below(3));
    shard.resources.cpu_milli = 500;
    shard.restart_on = random_causes(1);
    spec.roles.push_back(shard);
    worker.after = {"ps"};
    program.pushes = 3 + rng.below(12);
    program.consistency = static_cast<std::uint32_t>(rng.below(3));
    program.staleness = static_cast<std::uint32_t>(rng.below(4));
    program.leave = rng.below(2) == 0;
    program.run_ms = 50 + rng.below(1500);
  }
  // A rank that stands at a commit must not be waited for by one that never comes there.
  if (program.pushes == 0 && !spec.inputs.empty() && spec.inputs[0].passes == 2)
    program.commit_every = 3;
  if (rng.below(4) == 0) spec.outputs = {{"model", "/out/model", "worker"}};
  worker.argv = to_argv(program);
  worker.restart_on = random_causes(0);
  spec.roles.push_back(worker);
  if (rng.below(5) == 0) spec.time_limit = seconds(5 + rng.below(20));
  spec.restart.restarts_max = static_cast<std::uint32_t>(rng.below(4));
  if (rng.below(3) == 0) spec.restart.on.push_back(Cause::kExit);
  return spec;
}

void World::plan_workload() {
  const Duration part = settings_.storm * 4 / 5;
  for (std::uint32_t i = 0; i < settings_.jobs; ++i)
    loop_.after(loop_.between(Duration{0}, part), [this] {
      SubmitJob submit{random_spec(), "key-" + std::to_string(wishes_.size())};
      const std::string key = submit.idempotency_key;
      wishes_.push_back({std::move(submit), key});
      wish(wishes_.size() - 1);
      if (loop_.chance(0.1)) {  // somebody retries although it went well
        const std::size_t again = wishes_.size() - 1;
        loop_.after(seconds(5), [this, again] {
          wishes_[again].done = false;
          wish(again);
        });
      }
    });
  for (std::uint32_t i = 0; i < settings_.jobs / 4; ++i)
    loop_.after(loop_.between(seconds(2), part), [this] {
      if (checker_.acked().empty()) return;
      auto it = checker_.acked().begin();
      std::advance(it, static_cast<std::ptrdiff_t>(loop_.rng().below(checker_.acked().size())));
      wishes_.push_back({KillJob{*it, "changed my mind"}, ""});
      wish(wishes_.size() - 1);
    });
}

/// Asks, and asks again while there is no answer; a refusal for now (store, start) counts as none.
void World::wish(std::size_t index) {
  if (wishes_[index].done) return;
  if (coordinator_) {
    const std::uint64_t call = ++last_call_;
    calls_[call] = index;
    perform(coordinator_->on_call(call, wishes_[index].call, now()));
  }
  loop_.after(seconds(1), [this, index] { wish(index); });
}

void World::answer(const ReplyApi& reply) {
  const auto it = calls_.find(reply.call);
  if (it == calls_.end()) return;
  Wish& asked = wishes_[it->second];
  calls_.erase(it);
  if (!reply.reply) {
    const Errc code = reply.reply.error().code;
    if (code == Errc::kNotFound && std::holds_alternative<KillJob>(asked.call))
      checker_.violated("an acknowledged job is not known: " + reply.reply.error().context);
    if (code == Errc::kFailedPrecondition) {
      const auto* kill = std::get_if<KillJob>(&asked.call);
      if (kill && !checker_.ended(kill->job))
        checker_.violated("a kill of " + to_string(kill->job) +
                          " was refused though it had not ended");
      asked.done = true;
    }
    return;
  }
  asked.done = true;
  if (const auto* ack = std::get_if<SubmitAck>(&*reply.reply))
    checker_.on_submit_acked(asked.key, ack->job);
}

void World::plan_faults() {
  const std::uint64_t faults = 2 + loop_.rng().below(14);
  for (std::uint64_t i = 0; i < faults; ++i)
    loop_.after(loop_.between(seconds(1), settings_.storm * 9 / 10), [this] { fault(); });
  const std::uint64_t moves = loop_.rng().below(60);
  for (std::uint64_t i = 0; i < moves; ++i)
    loop_.after(loop_.between(seconds(1), settings_.storm), [this] { mover_.move_some(); });
  for (std::uint64_t i = 0; i < 6; ++i)
    loop_.after(loop_.between(seconds(5), settings_.storm), [this] { stranger(); });
}

void World::fault() {
  auto it = nodes_.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(loop_.rng().below(nodes_.size())));
  SimNode& node = *it->second;
  switch (loop_.rng().below(12)) {
    case 0:
    case 1:
      if (!coordinator_) return;
      crash_coordinator();
      loop_.after(loop_.between(milliseconds(100), seconds(8)), [this] { start_coordinator(); });
      return;
    case 2:
      if (!node.agent_alive()) return;
      ++result_.agent_crashes;
      node.crash_agent();
      loop_.after(loop_.between(milliseconds(100), seconds(6)), [&node] { node.start_agent(); });
      return;
    case 3:
      if (!node.agent_alive()) return;
      ++result_.machine_crashes;
      node.crash_machine();
      loop_.after(loop_.between(seconds(1), seconds(50)), [&node] { node.start_agent(); });
      return;
    case 4:
      ++result_.partitions;
      network_.cut(node.id());
      loop_.after(loop_.between(seconds(1), seconds(60)),
                  [this, id = node.id()] { network_.heal(id); });
      return;
    case 5:
      ++result_.stores_full;
      store_.set_full(true);
      loop_.after(loop_.between(milliseconds(100), seconds(6)), [this] { store_.set_full(false); });
      return;
    case 6:
    case 7:
      ++result_.feeder_crashes;
      node.crash_feeder();
      loop_.after(loop_.between(milliseconds(50), seconds(4)), [&node] { node.start_feeder(); });
      return;
    case 8:
    case 9:
      ++result_.process_crashes;
      node.crash_process();
      return;
    case 10: {
      ++result_.clocks_set;
      const Duration by = loop_.between(std::chrono::hours(-3), std::chrono::hours(3));
      if (loop_.chance(0.5))
        clock_->set_wall(by);
      else
        node.clock().set_wall(by);
      return;
    }
    default:
      ++result_.stores_slow;
      store_.set_delay(milliseconds(600));
      loop_.after(seconds(10), [this] { store_.set_delay(milliseconds(5)); });
      return;
  }
}

/// Somebody who is not a worker of the job pushes to one of its shards: of another version, another
/// epoch, or with another token. Each must be refused; the checker sees it otherwise.
void World::stranger() {
  if (shards_seen_.empty()) return;
  SplitMix64& rng = loop_.rng();
  const std::string endpoint = shards_seen_[rng.below(shards_seen_.size())];
  const ShardHost* host = host_at(endpoint);
  if (host == nullptr) return;
  const ps::PsView* view = mover_.view(ps_job(host->task()));
  if (view == nullptr) return;
  ps::RequestHeader request{.kind = ps::Kind::kPush, .request = rng.next(), .token = view->token};
  request.epoch = view->map.epoch;
  request.client = ClientId{rng.next() | 1};
  request.sequence = 1;
  request.table = ps::table_id("counts");
  request.budget = seconds(5);
  request.n = request.dim = 1;
  switch (rng.below(3)) {
    case 0:
      request.version = static_cast<std::uint16_t>(2 + rng.below(9));
      break;
    case 1:
      --request.epoch.counter;
      break;
    default:
      request.token[rng.below(request.token.size())] ^= 1;
      break;
  }
  request.worker = ps::worker_id("worker", 0);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; keys.empty() && key < 4096; ++key)
    if (view->shards[view->map.owner[ps::slot_of(request.table, key)].value].tcp == endpoint)
      keys = {key};
  if (keys.empty()) return;
  SimChannel channel(sockets_, NodeId{"stranger"}, "", [] {});
  const auto peer = channel.connect(endpoint);
  if (!peer) return;
  const auto header = wire::encode(request);
  const float value = -1.0f;
  (void)channel.send(*peer, {transport::Frame::copy(header.data(), header.size()),
                             transport::Frame::copy(keys.data(), sizeof keys[0]),
                             transport::Frame::copy(&value, sizeof value)});
}

/// The storm is over: the network is whole, the disk has room; what still runs after a while is
/// killed.
void World::calm_down() {
  calm_ = true;
  network_.heal_all();
  store_.set_full(false);
  store_.set_delay(milliseconds(5));
  // Twice: what differs both times, twenty seconds apart, is no change under way.
  loop_.after(settings_.rest / 2 - seconds(25), [this] { compare_store_and_nodes(); });
  loop_.after(settings_.rest / 2 - seconds(5), [this] { compare_store_and_nodes(); });
  loop_.after(settings_.rest / 2, [this] {
    for (JobId job : checker_.acked())
      if (!checker_.ended(job)) {
        wishes_.push_back({KillJob{job, "the day is over"}, ""});
        wish(wishes_.size() - 1);
      }
  });
}

void World::compare_store_and_nodes() {
  Checker::Tasks runs;
  for (const auto& [id, node] : nodes_) runs.merge(node->running());
  const auto differ = [](const Checker::Tasks& a, const Checker::Tasks& b) {
    Checker::Tasks out;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(out, out.end()));
    return out;
  };
  const Checker::Tasks not_running = differ(checker_.in_force(true), runs);
  const Checker::Tasks not_in_force = differ(runs, checker_.in_force(false));
  for (const auto& task : not_running)
    if (not_running_.contains(task))
      violated("in quiet: " + to_string(task.first) + " does not run, the store says that it does");
  for (const auto& task : not_in_force)
    if (not_in_force_.contains(task))
      violated("in quiet: " + to_string(task.first) + " runs, the store knows nothing of it");
  not_running_ = not_running;
  not_in_force_ = not_in_force;
}

void World::check_rest() {
  if (!coordinator_ || !coordinator_->serving())
    return checker_.violated("at rest: the coordinator does not serve");
  for (JobId job : checker_.acked())
    if (!checker_.ended(job)) checker_.violated("at rest: " + to_string(job) + " has not ended");
  if (checker_.running() != 0)
    checker_.violated("at rest: " + std::to_string(checker_.running()) + " processes run");
  if (coordinator_->live_jobs() != 0 || !jobs_.empty())
    checker_.violated("at rest: the coordinator holds jobs");
  for (const auto& [id, node] : nodes_) {
    if (node->tasks_known() != 0)
      checker_.violated("at rest: the agent of " + id.value + " holds tasks");
    const Membership::Node* known = coordinator_->membership().find(id);
    if (known == nullptr || known->state != NodeState::kUp)
      checker_.violated("at rest: " + id.value + " is not up");
    const sched::Usage used = placer_->usage(id);
    if (used.cpu_milli_used != 0 || used.ports_used != 0)
      checker_.violated("at rest: " + id.value + " has leases");
  }
}

}  // namespace dlrun::sim

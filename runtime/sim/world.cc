#include "runtime/sim/world.h"

#include <algorithm>

#include "io/core/ledger_core.h"
#include "runtime/wire/control_codec.h"
#include "runtime/wire/link_codec.h"

namespace dlrun::sim {

using namespace dlrun::cluster;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

const NodeId kCoordinatorNode{""};

/// A third of the seeds has a rough network, a quarter damages packets.
NetworkFaults faults_of(const WorldSettings& settings) {
  if (!settings.faults) return NetworkFaults{.loss = 0, .duplicate = 0, .straggle = 0};
  NetworkFaults faults;
  if (mix64(settings.seed ^ 77) % 3 == 0)
    faults = NetworkFaults{.loss = 0.05, .duplicate = 0.15, .straggle = 0.1};
  if (mix64(settings.seed ^ 78) % 4 == 0) faults.damage = 0.05;
  return faults;
}

/// As the link carries it.
template <class Message>
std::string envelope(const Message& message) {
  return wire::encode(wire::LinkFrame(wire::LinkPayload{wire::encode(message)}));
}
/// What was sent must be taken, and be what was sent.
template <class Message, class Decode>
Result<Message> open_envelope(std::string_view bytes, Decode decode) {
  DLRUN_ASSIGN(const wire::LinkFrame frame, wire::decode_link(bytes));
  const auto* payload = std::get_if<wire::LinkPayload>(&frame);
  if (payload == nullptr) return fail(Errc::kCorrupt, "not a payload");
  return decode(payload->bytes);
}

std::string describe(const TaskUpdate& m) {
  return "update " + to_string(m.task) + " of " + to_string(m.epoch) + " " +
         std::string(to_string(m.state)) + " " + std::string(to_string(m.end.cause)) + " " +
         m.end.detail;
}

std::string describe(const ToAgent& message) {
  static constexpr const char* kNames[] = {"register_ack",   "prepare",      "start",
                                           "stop",           "worker_gone",  "barrier_done",
                                           "lease_reply",    "task_end_ack", "heartbeat_ack",
                                           "commit_outputs", "commit_done"};
  static_assert(std::size(kNames) == std::variant_size_v<ToAgent>);
  std::string text = kNames[message.index()];
  std::visit(
      [&](const auto& m) {
        if constexpr (requires {
                        m.task;
                        m.epoch;
                      })
          text += " " + to_string(m.task) + " of " + to_string(m.epoch);
        if constexpr (requires { m.unknown_tasks; })
          for (const TaskId& task : m.unknown_tasks) text += " unknown " + to_string(task);
      },
      message);
  return text;
}

std::string describe(const FromAgent& message) {
  static constexpr const char* kNames[] = {
      "register",    "heartbeat",    "update",          "progress",          "barrier_arrive",
      "input_files", "lease_splits", "worker_gone_ack", "outputs_committed", "commit_inputs"};
  static_assert(std::size(kNames) == std::variant_size_v<FromAgent>);
  if (const auto* m = std::get_if<TaskUpdate>(&message)) return describe(*m);
  std::string text = kNames[message.index()];
  if (const auto* m = std::get_if<Register>(&message))
    for (const TaskUpdate& update : m->tasks) text += "; " + describe(update);
  std::visit(
      [&](const auto& m) {
        if constexpr (requires {
                        m.task;
                        m.epoch;
                      })
          text += " " + to_string(m.task) + " of " + to_string(m.epoch);
      },
      message);
  return text;
}

}  // namespace

Token World::Tokens::issue(std::string_view purpose, Epoch epoch) const {
  std::uint64_t h = epoch.term * 0x9e3779b97f4a7c15ULL ^ epoch.counter;
  for (char c : purpose) h = mix64(h ^ static_cast<std::uint8_t>(c));
  Token token{};
  for (std::size_t i = 0; i < token.size(); ++i) token[i] = static_cast<std::uint8_t>(mix64(h + i));
  return token;
}

World::World(WorldSettings settings)
    : settings_(std::move(settings)),
      loop_(settings_.seed),
      network_(loop_, faults_of(settings_),
               [this](std::string what) { violated(std::move(what)); }),
      checker_(loop_),
      sockets_(network_),
      mover_(*this, kCoordinatorNode),
      store_(
          loop_, settings_.bugs,
          [this](const Event& event) {
            if (settings_.keep_trace)
              trace("durable: " + to_string(job_of(event)) + " " + std::string(kind_of(event)) +
                    " " + text_of(event));
            checker_.on_durable(event);
            if (std::holds_alternative<GenerationEnded>(event) ||
                std::holds_alternative<JobEnded>(event))
              mover_.remove(job_of(event));
          },
          [this](std::string what) { violated(std::move(what)); }) {
  new_clock();
  for (std::uint32_t i = 0; i < settings_.nodes; ++i) {
    sched::NodeCapacity capacity;
    capacity.node = NodeId{std::to_string(i + 1)};
    capacity.cpu_milli = 4000;
    capacity.memory_bytes = std::int64_t{8} << 30;
    capacity.ports = {static_cast<std::uint16_t>(20000), 6};
    checker_.on_node(capacity.node, capacity.cpu_milli);
    nodes_[capacity.node] = std::make_unique<SimNode>(*this, capacity);
  }
}

World::~World() = default;

WorldResult World::run() {
  start_coordinator();
  for (auto& [id, node] : nodes_)
    loop_.after(loop_.between(Duration{0}, milliseconds(500)), [&n = *node] { n.start_agent(); });
  plan_workload();
  if (settings_.faults) plan_faults();
  loop_.at(TimePoint{} + settings_.storm, [this] { calm_down(); });
  const TimePoint end = TimePoint{} + settings_.storm + settings_.rest;
  while (loop_.now() < end && !checker_.violation() && loop_.step()) {
  }
  if (!checker_.violation()) check_rest();
  result_.violation = checker_.violation();
  result_.log_digest = store_.digest();
  result_.log_records = store_.log().size();
  result_.steps = loop_.steps();
  result_.acked = checker_.acked().size();
  result_.succeeded = checker_.final_states(JobState::kSucceeded);
  result_.failed = checker_.final_states(JobState::kFailed);
  result_.cancelled = checker_.final_states(JobState::kCancelled);
  result_.lost = checker_.final_states(JobState::kLost);
  result_.pushes = checker_.ps().pushes();
  result_.pulls = checker_.ps().pulls();
  result_.slots_moved = mover_.moved();
  result_.splits = checker_.inputs().releases();
  result_.commits = checker_.inputs().commits();
  result_.shards_lost = checker_.shards_lost();
  const SimNetwork::Counts& packets = network_.counts();
  result_.packets_lost = packets.lost;
  result_.packets_doubled = packets.doubled;
  result_.packets_late = packets.late;
  result_.packets_cut = packets.cut;
  result_.packets_damaged = packets.damaged;
  result_.packets_refused = packets.refused;
  return result_;
}

// ---- the coordinator's process

void World::trace(std::string line) {
  result_.trace.push_back(std::to_string(loop_.now().time_since_epoch() / milliseconds(1)) +
                          " ms " + std::move(line));
}

void World::start_coordinator() {
  if (settings_.keep_trace) trace("the coordinator starts");
  ++life_;
  armed_.reset();
  placer_ = std::make_unique<sched::SchedulerCore>();
  CoordinatorSettings settings;
  settings.version = "sim";
  settings.bugs = settings_.bugs;
  coordinator_ = std::make_unique<CoordinatorCore>(std::move(settings), *placer_);
  const bool removed = mix64(mix64(settings_.seed ^ 81) + life_) % 2 == 0;
  for (const Event& event : store_.replayable(removed)) coordinator_->apply(event);
  perform(coordinator_->start(now()));
}

void World::crash_coordinator() {
  if (!coordinator_) return;
  ++life_;
  store_.crash();
  jobs_.clear();
  lost_.clear();
  coordinator_.reset();
  placer_.reset();
  calls_.clear();
  ++result_.coordinator_crashes;
  if (loop_.chance(0.3)) new_clock();  // the whole machine went down
}

void World::new_clock() {
  const auto skew = static_cast<std::int64_t>(loop_.rng().below(40'000)) - 20'000;
  clock_ = std::make_unique<SimClock>(loop_, settings_.bugs, skew,
                                      milliseconds(4 * 3600 * 1000 + loop_.rng().below(86400000)));
}

void World::append(std::vector<Event> events, std::function<void(Status)> done) {
  store_.append(std::move(events), [this, life = life_, done = std::move(done)](Status status) {
    if (life == life_) done(std::move(status));
  });
}

void World::perform(CoordinatorEffects effects) {
  for (const auto& [id, node] : coordinator_->membership().nodes()) {
    if (node.state != NodeState::kLost)
      lost_.erase(id);
    else if (lost_.insert(id).second)
      checker_.on_declared_lost(id);
  }
  for (CoordinatorEffect& effect : effects)
    std::visit(
        Overload{
            [&](Persist& e) {
              append(std::move(e.events), [this, id = e.id](Status status) {
                perform(status ? coordinator_->on_persisted(id, now())
                               : coordinator_->on_persist_failed(id, status.error(), now()));
              });
            },
            [&](SendToAgent& e) { send_to_agent(e); }, [&](ReplyApi& e) { answer(e); },
            [&](ReadJob& e) {
              for (const Event& event : store_.log())
                if (const auto* ended = std::get_if<JobEnded>(&event);
                    ended && ended->view.id == e.job)
                  return answer({e.call, ApiReply{ended->view}});
              answer({e.call, fail(Errc::kNotFound, "no job " + to_string(e.job))});
            },
            [&](Waited&) {},
            [&](ReadJobs& e) {
              answer({e.call, ApiReply{JobList{std::move(e.live)}}});
            },
            [&](ReadEvents& e) {
              answer({e.call, ApiReply{EventList{}}});
            },
            [&](StartJob& e) {
              const JobId id = e.record.id;
              loop_.post(
                  "to " + to_string(id), loop_.between(microseconds(1), milliseconds(1)),
                  [this, life = life_, record = std::move(e.record)] {
                    if (life != life_) return;
                    JobSettings settings;
                    settings.bugs = settings_.bugs;
                    // Half the seeds: after a handful of leases and barriers, not after a thousand.
                    if (const std::uint64_t draw = mix64(settings_.seed ^ 79); draw % 2 == 0)
                      settings.snapshot_after = 1 + draw / 2 % 12;
                    auto make_ledger = [](const std::vector<io::InputSpec>& inputs) {
                      return std::make_unique<io::LedgerCore>(inputs);
                    };
                    const JobId job = record.id;
                    jobs_[job] = std::make_unique<JobHost>(JobHost{
                        JobCore(record, std::move(settings), tokens_, make_ledger), std::nullopt});
                    perform_job(job, jobs_[job]->core.start(now()));
                  });
            },
            [&](ToJob& e) {
              loop_.post("to " + to_string(e.job), loop_.between(microseconds(1), milliseconds(1)),
                         [this, life = life_, job = e.job, input = std::move(e.input)] {
                           const auto it = jobs_.find(job);
                           if (life == life_ && it != jobs_.end())
                             perform_job(job, it->second->core.on_input(input, now()));
                         });
            },
            [&](EndJob& e) {
              loop_.post("to " + to_string(e.job), microseconds(1),
                         [this, life = life_, job = e.job] {
                           if (life == life_) jobs_.erase(job);
                         });
            }},
        effect);
  arm();
}

void World::perform_job(JobId id, JobEffects effects) {
  for (JobEffect& effect : effects)
    std::visit(Overload{[&](Persist& e) {
                          append(std::move(e.events), [this, id, persist = e.id](Status status) {
                            const auto it = jobs_.find(id);
                            if (it == jobs_.end()) return;
                            perform_job(id, status ? it->second->core.on_persisted(persist, now())
                                                   : it->second->core.on_persist_failed(
                                                         persist, status.error(), now()));
                          });
                        },
                        [&](SendToAgent& e) { send_to_agent(e); },
                        [&](JobToCoordinator& e) {
                          loop_.post("from " + to_string(id),
                                     loop_.between(microseconds(1), milliseconds(1)),
                                     [this, life = life_, message = std::move(e)] {
                                       if (life == life_)
                                         perform(coordinator_->on_job(message, now()));
                                     });
                        }},
               effect);
  arm_job(id);
}

void World::arm() {
  if (!coordinator_) return;
  const auto wake = coordinator_->next_wake();
  if (!wake || (armed_ && *armed_ <= *wake)) return;
  armed_ = *wake;
  const TimePoint at = std::max(clock_->true_time_of(*wake), loop_.now() + milliseconds(1));
  loop_.at(at, [this, life = life_, wake = *wake] {
    if (life != life_ || armed_ != wake) return;
    armed_.reset();
    perform(coordinator_->on_tick(now()));
  });
}

void World::arm_job(JobId id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return;
  JobHost& host = *it->second;
  const auto wake = host.core.next_wake();
  if (!wake || (host.armed && *host.armed <= *wake)) return;
  host.armed = *wake;
  const TimePoint at = std::max(clock_->true_time_of(*wake), loop_.now() + milliseconds(1));
  loop_.at(at, [this, life = life_, id, wake = *wake] {
    const auto found = jobs_.find(id);
    if (life != life_ || found == jobs_.end() || found->second->armed != wake) return;
    found->second->armed.reset();
    perform_job(id, found->second->core.on_tick(now()));
  });
}

// ---- messages

void World::send_to_agent(const SendToAgent& effect) {
  const auto it = nodes_.find(effect.node);
  if (it == nodes_.end()) return;
  if (const auto* lease = std::get_if<LeaseReply>(&effect.message);
      lease && !lease->answer.splits.empty())
    checker_.on_lease_answered(lease->task, lease->epoch);
  if (const auto* start = std::get_if<StartTask>(&effect.message);
      start && !start->ps.shards.empty()) {
    bool complete = true;
    for (const ps::ShardEndpoint& shard : start->ps.shards)
      complete = complete && !shard.tcp.empty();
    if (complete) mover_.add(ps_job(start->task), start->ps);
    for (const ps::ShardEndpoint& shard : start->ps.shards)
      if (complete) shards_seen_.push_back(shard.tcp);
  }
  SimNode& node = *it->second;
  if (settings_.keep_trace) trace("to " + effect.node.value + ": " + describe(effect.message));
  network_.send(kCoordinatorNode, effect.node, Bytes::kToAgent, envelope(effect.message),
                [this, &node, to = node.life(), sent = effect.message](std::string_view bytes) {
                  if (node.life() != to) return;
                  const auto message = open_envelope<ToAgent>(bytes, wire::decode_to_agent);
                  if (!message || !(*message == sent))
                    return violated("a message to an agent arrived as another");
                  node.deliver(*message);
                });
}

void World::to_coordinator(const NodeId& from, Incarnation life_of_agent, FromAgent message) {
  if (const auto* m = std::get_if<Register>(&message)) agent_incarnations_[from] = m->incarnation;
  const Incarnation incarnation = agent_incarnations_[from];
  if (settings_.keep_trace) trace("from " + from.value + ": " + describe(message));
  const SimNode& node = *nodes_.at(from);
  std::string bytes = envelope(message);
  network_.send(from, kCoordinatorNode, Bytes::kFromAgent, std::move(bytes),
                [this, &node, life = life_, life_of_agent, from, incarnation,
                 sent = std::move(message)](std::string_view arrived) {
                  if (life != life_ || !coordinator_ || node.life() != life_of_agent.value) return;
                  const auto taken = open_envelope<FromAgent>(arrived, wire::decode_from_agent);
                  if (!taken || !(*taken == sent))
                    return violated("a message of an agent arrived as another");
                  const Membership::Node* known = coordinator_->membership().find(from);
                  if (known != nullptr && !known->awaited && known->state != NodeState::kLost &&
                      known->incarnation == incarnation)
                    checker_.on_heard(from);
                  perform(coordinator_->on_agent(from, incarnation, *taken, now()));
                });
}

ShardHost* World::host_at(const std::string& endpoint) {
  const auto node = nodes_.find(node_of_endpoint(endpoint));
  return node == nodes_.end() ? nullptr : node->second->host_at(endpoint);
}

void World::ask_view(const NodeId& from, const PsJob& job, std::function<void(ps::PsView)> answer) {
  network_.send(from, kCoordinatorNode, [this, from, job, answer = std::move(answer)] {
    const ps::PsView* view = mover_.view(job);
    if (view == nullptr) return;
    network_.send(kCoordinatorNode, from, [answer, view = *view] { answer(view); });
  });
}

}  // namespace dlrun::sim

#include "runtime/sim/world.h"

#include <algorithm>

#include "io/core/ledger_core.h"

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

/// A third of the seeds has a rough network.
NetworkFaults faults_of(const WorldSettings& settings) {
  if (!settings.faults) return NetworkFaults{.loss = 0, .duplicate = 0, .straggle = 0};
  if (mix64(settings.seed ^ 77) % 3 == 0) return NetworkFaults{.loss = 0.05, .duplicate = 0.15, .straggle = 0.1};
  return NetworkFaults{};
}

std::string describe(const TaskUpdate& m) {
  return "update " + to_string(m.task) + " of " + to_string(m.epoch) + " " + std::string(to_string(m.state)) + " " +
         std::string(to_string(m.end.cause)) + " " + m.end.detail;
}

std::string describe(const ToAgent& message) {
  static constexpr const char* kNames[] = {"register_ack", "prepare",     "start",        "stop",          "worker_gone",
                                           "barrier_done", "lease_reply", "task_end_ack", "heartbeat_ack", "split_done_ack"};
  std::string text = kNames[message.index()];
  std::visit(
      [&](const auto& m) {
        if constexpr (requires { m.task; m.epoch; }) text += " " + to_string(m.task) + " of " + to_string(m.epoch);
        if constexpr (requires { m.unknown_tasks; })
          for (const TaskId& task : m.unknown_tasks) text += " unknown " + to_string(task);
      },
      message);
  return text;
}

std::string describe(const FromAgent& message) {
  static constexpr const char* kNames[] = {"register",    "heartbeat",    "update",     "progress",       "barrier_arrive",
                                           "input_files", "lease_splits", "split_done", "worker_gone_ack"};
  if (const auto* m = std::get_if<TaskUpdate>(&message)) return describe(*m);
  std::string text = kNames[message.index()];
  if (const auto* m = std::get_if<Register>(&message))
    for (const TaskUpdate& update : m->tasks) text += "; " + describe(update);
  std::visit(
      [&](const auto& m) {
        if constexpr (requires { m.task; m.epoch; }) text += " " + to_string(m.task) + " of " + to_string(m.epoch);
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
      network_(loop_, faults_of(settings_)),
      store_(loop_, [this](const Event& event) {
        if (settings_.keep_trace)
          trace("durable: " + to_string(job_of(event)) + " " + std::string(kind_of(event)) + " " + text_of(event));
        checker_.on_durable(event);
      }) {
  for (std::uint32_t i = 0; i < settings_.nodes; ++i) {
    sched::NodeCapacity capacity;
    capacity.node = NodeId{std::to_string(i + 1)};
    capacity.cpu_milli = 4000;
    capacity.memory_bytes = std::int64_t{8} << 30;
    capacity.ports = {static_cast<std::uint16_t>(20000), 6};
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
  while (loop_.now().at < end && !checker_.violation() && loop_.step()) {
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
  return result_;
}

// ---- the coordinator's process -------------------------------------------------------------------------------------

void World::trace(std::string line) {
  result_.trace.push_back(std::to_string(loop_.now().at.time_since_epoch() / milliseconds(1)) + " ms " + std::move(line));
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
  for (const Event& event : store_.log()) coordinator_->apply(event);
  perform(coordinator_->start(loop_.now()));
}

void World::crash_coordinator() {
  if (!coordinator_) return;
  ++life_;
  store_.crash();
  jobs_.clear();
  coordinator_.reset();
  placer_.reset();
  calls_.clear();
  ++result_.coordinator_crashes;
}

void World::append(std::vector<Event> events, std::function<void(Status)> done) {
  store_.append(std::move(events), [this, life = life_, done = std::move(done)](Status status) {
    if (life == life_) done(std::move(status));
  });
}

void World::perform(CoordinatorEffects effects) {
  for (CoordinatorEffect& effect : effects)
    std::visit(
        Overload{
            [&](Persist& e) {
              append(std::move(e.events), [this, id = e.id](Status status) {
                perform(status ? coordinator_->on_persisted(id, loop_.now())
                               : coordinator_->on_persist_failed(id, status.error(), loop_.now()));
              });
            },
            [&](SendToAgent& e) { send_to_agent(e); },
            [&](ReplyApi& e) { answer(e); },
            [&](ReadJob& e) {
              for (const Event& event : store_.log())
                if (const auto* ended = std::get_if<JobEnded>(&event); ended && ended->view.id == e.job)
                  return answer({e.call, ApiReply{ended->view}});
              answer({e.call, fail(Errc::kNotFound, "no job " + to_string(e.job))});
            },
            [&](ReadJobs& e) { answer({e.call, ApiReply{JobList{std::move(e.live)}}}); },
            [&](ReadEvents& e) { answer({e.call, ApiReply{EventList{}}}); },
            [&](StartJob& e) {
              const JobId id = e.record.id;
              loop_.post("to " + to_string(id), loop_.between(microseconds(1), milliseconds(1)),
                         [this, life = life_, record = std::move(e.record)] {
                           if (life != life_) return;
                           JobSettings settings;
                           settings.bugs = settings_.bugs;
                           auto make_ledger = [](const std::vector<io::InputSpec>& inputs) {
                             return std::make_unique<io::LedgerCore>(inputs);
                           };
                           const JobId job = record.id;
                           jobs_[job] = std::make_unique<JobHost>(
                               JobHost{JobCore(record, std::move(settings), tokens_, make_ledger), std::nullopt});
                           perform_job(job, jobs_[job]->core.start(loop_.now()));
                         });
            },
            [&](ToJob& e) {
              loop_.post("to " + to_string(e.job), loop_.between(microseconds(1), milliseconds(1)),
                         [this, life = life_, job = e.job, input = std::move(e.input)] {
                           const auto it = jobs_.find(job);
                           if (life == life_ && it != jobs_.end())
                             perform_job(job, it->second->core.on_input(input, loop_.now()));
                         });
            },
            [&](EndJob& e) {
              loop_.post("to " + to_string(e.job), microseconds(1), [this, life = life_, job = e.job] {
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
                            perform_job(id, status ? it->second->core.on_persisted(persist, loop_.now())
                                                   : it->second->core.on_persist_failed(persist, status.error(),
                                                                                        loop_.now()));
                          });
                        },
                        [&](SendToAgent& e) { send_to_agent(e); },
                        [&](JobToCoordinator& e) {
                          loop_.post("from " + to_string(id), loop_.between(microseconds(1), milliseconds(1)),
                                     [this, life = life_, message = std::move(e)] {
                                       if (life == life_) perform(coordinator_->on_job(message, loop_.now()));
                                     });
                        }},
               effect);
  arm_job(id);
}

void World::arm() {
  if (!coordinator_) return;
  const auto wake = coordinator_->next_wake();
  if (!wake || (armed_ && *armed_ <= *wake)) return;
  const TimePoint at = std::max(*wake, loop_.now().at + milliseconds(1));
  armed_ = at;
  loop_.at(at, [this, life = life_, at] {
    if (life != life_ || armed_ != at) return;
    armed_.reset();
    perform(coordinator_->on_tick(loop_.now()));
  });
}

void World::arm_job(JobId id) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return;
  JobHost& host = *it->second;
  const auto wake = host.core.next_wake();
  if (!wake || (host.armed && *host.armed <= *wake)) return;
  const TimePoint at = std::max(*wake, loop_.now().at + milliseconds(1));
  host.armed = at;
  loop_.at(at, [this, life = life_, id, at] {
    const auto found = jobs_.find(id);
    if (life != life_ || found == jobs_.end() || found->second->armed != at) return;
    found->second->armed.reset();
    perform_job(id, found->second->core.on_tick(loop_.now()));
  });
}

// ---- messages ------------------------------------------------------------------------------------------------------

void World::send_to_agent(const SendToAgent& effect) {
  const auto it = nodes_.find(effect.node);
  if (it == nodes_.end()) return;
  if (const auto* lease = std::get_if<LeaseReply>(&effect.message); lease && lease->error == Errc{})
    checker_.on_lease_answered(lease->task, lease->epoch);
  SimNode& node = *it->second;
  if (settings_.keep_trace) trace("to " + effect.node.value + ": " + describe(effect.message));
  network_.send(kCoordinatorNode, effect.node, [&node, to = node.life(), message = effect.message] {
    if (node.life() == to) node.deliver(message);
  });
}

void World::to_coordinator(const NodeId& from, Incarnation life_of_agent, FromAgent message) {
  if (const auto* m = std::get_if<Register>(&message)) agent_incarnations_[from] = m->incarnation;
  const Incarnation incarnation = agent_incarnations_[from];
  if (settings_.keep_trace) trace("from " + from.value + ": " + describe(message));
  const SimNode& node = *nodes_.at(from);
  network_.send(from, kCoordinatorNode,
                [this, &node, life = life_, life_of_agent, from, incarnation, message = std::move(message)] {
                  if (life == life_ && coordinator_ && node.life() == life_of_agent.value)
                    perform(coordinator_->on_agent(from, incarnation, message, loop_.now()));
                });
}

void World::to_shard(const NodeId& from, const std::string& endpoint, ps::RequestHeader request,
                     std::vector<std::uint64_t> keys, std::vector<float> values,
                     std::function<void(const ps::ReplyHeader&)> reply) {
  const std::size_t slash = endpoint.find('/', 6);
  if (endpoint.size() < 7 || slash == std::string::npos) return;
  const NodeId to{endpoint.substr(6, slash - 6)};
  network_.send(from, to, [this, from, to, endpoint, request, keys, values, reply] {
    TaskId task;
    Epoch epoch;
    ps::ShardCore* shard = nodes_.at(to)->shard_at(endpoint, task, epoch);
    if (shard == nullptr) return;
    ps::Effects effects;
    shard->on_request(++last_asker_, request, keys, values, loop_.now().at, effects);
    for (const ps::Effect& effect : effects) {
      const ps::ReplyHeader header = std::get<ps::Reply>(effect).header;
      if (request.kind == ps::Kind::kPush && header.error == 0)
        checker_.on_push_accepted(task, request.client, request.sequence, keys.at(0), request.epoch, epoch);
      network_.send(to, from, [reply, header] { reply(header); });
    }
  });
}

}  // namespace dlrun::sim

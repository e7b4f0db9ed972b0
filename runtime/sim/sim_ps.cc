#include "runtime/sim/sim_ps.h"

#include <algorithm>
#include <cstring>

#include "runtime/wire/ps_codec.h"

namespace dlrun::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr std::uint64_t kKeys = 48;
constexpr Duration kTimeout = seconds(90);

/// One turn of a client that nobody waits for: sends what is due, takes what has come. (A wait for
/// something that never is, until now.)
void turn_of(ps::Engine& engine) {
  const auto nothing = engine.make_call("turn", "", Duration{0});
  nothing->open = 1;
  nothing->deadline = engine.now() - milliseconds(200);
  (void)engine.wait(nothing);
}

std::span<const std::uint64_t> keys_in(const transport::Message& message,
                                       std::vector<std::uint64_t>& copy) {
  copy.clear();
  if (message.size() < 2) return copy;
  copy.resize(message[1].size / sizeof(std::uint64_t));
  std::memcpy(copy.data(), message[1].data, copy.size() * sizeof(std::uint64_t));
  return copy;
}

}  // namespace

// ---- worker

PsWorker::PsWorker(PsWorld& world, const NodeId& node, std::shared_ptr<const SimClock> clock,
                   const cluster::StartTask& start, const SimProgram& program,
                   std::function<void(int)> ended)
    : world_(world),
      node_(node),
      task_(start.task),
      program_(program),
      ended_(std::move(ended)),
      clock_(std::move(clock)) {
  schema_.name = "counts";
  schema_.id = ps::table_id(schema_.name);
  schema_.learning_rate = 1.0f;  // SGD: a gradient of -1 adds 1
  schema_.consistency = static_cast<ps::Consistency>(program_.consistency);
  schema_.staleness = schema_.consistency == ps::Consistency::kSsp ? program_.staleness : 0;
  world_.ps_checker().on_schema(ps_job(task_), schema_);

  ps::ClientOptions options;
  options.worker = ps::worker_id(task_);
  options.client = ClientId{world_.loop().rng().next() | 1};
  options.clock = clock_;
  options.segment_bytes_max = 48;  // four keys: a push is several requests
  options.refresh = [this, alive = std::weak_ptr(alive_)]() -> Result<ps::PsView> {
    world_.ask_view(node_, ps_job(task_), [this, alive](ps::PsView view) {
      if (alive.expired()) return;
      newest_ = view;
      (void)engine_->set_view(std::move(view));
      turn_soon();
    });
    if (newest_) return *newest_;
    return fail(Errc::kUnavailable, "the newer view is on its way");
  };
  auto channel = std::make_unique<SimChannel>(world_.sockets(), node_, "", [this] { turn_soon(); });
  engine_ = std::make_unique<ps::Engine>(start.ps, std::move(options), std::move(channel));
  begin(Step::kOpen);
}

PsWorker::~PsWorker() = default;

std::vector<std::uint64_t> PsWorker::some_keys() {
  std::set<std::uint64_t> keys;
  for (std::uint64_t n = 1 + world_.loop().rng().below(8); n > 0; --n)
    keys.insert(world_.loop().rng().below(kKeys));
  return {keys.begin(), keys.end()};
}

void PsWorker::begin(Step step) {
  step_ = step;
  const std::uint64_t clock = engine_->clock_of(schema_.id);
  switch (step) {
    case Step::kOpen:
      call_ = engine_->make_call("opening", schema_.name, kTimeout);
      engine_->tell(call_,
                    ps::RequestHeader{
                        .kind = ps::Kind::kCreateTable, .table = schema_.id, .schema = schema_});
      break;
    case Step::kPull:
      keys_ = some_keys();
      out_.assign(keys_.size(), -1.0f);
      before_ = world_.ps_checker().on_pull(ps_job(task_), keys_);
      call_ = engine_->make_call("pull", schema_.name, kTimeout);
      call_->out = out_;
      engine_->pull(call_, schema_, keys_, true);
      break;
    case Step::kPush:
      keys_ = some_keys();
      grads_.assign(keys_.size(), -1.0f);
      call_ = engine_->make_call("push", schema_.name, kTimeout);
      engine_->push(call_, schema_, keys_, grads_);
      break;
    case Step::kClock:
      call_ = engine_->make_call("clock", schema_.name, kTimeout);
      world_.ps_checker().on_clock_told(task_, clock + 1);
      engine_->tell(call_, ps::RequestHeader{
                               .kind = ps::Kind::kClock, .table = schema_.id, .clock = clock + 1});
      break;
    case Step::kLeave:
      call_ = engine_->make_call("leaving", "", kTimeout);
      world_.ps_checker().on_worker_over(task_);
      engine_->tell(call_, ps::RequestHeader{.kind = ps::Kind::kLeave});
      break;
    case Step::kOver:
      return over(0);
  }
  turn_soon();
}

void PsWorker::turn_soon() {
  if (turning_) return;
  turning_ = true;
  world_.loop().after(Duration{0}, [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    turning_ = false;
    turn();
  });
}

void PsWorker::turn() {
  if (step_ == Step::kOver) return;
  turn_of(*engine_);
  if (!call_->done()) {
    world_.loop().after(milliseconds(120), [this, alive = std::weak_ptr(alive_), call = call_] {
      if (!alive.expired() && call == call_) turn_soon();
    });
    return;
  }
  if (call_->error) {
    check_error(*call_->error);
    return over(9);
  }
  switch (step_) {
    case Step::kOpen:
      return begin(Step::kPull);
    case Step::kPull:
      world_.ps_checker().on_pulled(task_, engine_->clock_of(schema_.id), keys_, out_, before_);
      return begin(Step::kPush);
    case Step::kPush:
    case Step::kClock:
      if (step_ == Step::kPush && schema_.consistency != ps::Consistency::kAsp)
        return begin(Step::kClock);
      if (step_ == Step::kClock) {
        engine_->set_clock(schema_.id, engine_->clock_of(schema_.id) + 1);
        world_.ps_checker().on_clock_done(task_, engine_->clock_of(schema_.id));
      }
      if (++iteration_ < program_.pushes) return begin(Step::kPull);
      return begin(program_.leave ? Step::kLeave : Step::kOver);
    case Step::kLeave:
      world_.ps_checker().on_left(task_);
      return over(0);
    case Step::kOver:
      return over(0);
  }
}

void PsWorker::over(int code) {
  step_ = Step::kOver;
  ended_(code);  // may end this
}

/// Refusals that a cluster in a storm explains: nobody answers, or this worker was declared gone.
void PsWorker::check_error(const Error& error) {
  if (error.code == Errc::kDeadlineExceeded) return;
  if (error.code == Errc::kFailedPrecondition && world_.ps_checker().is_over(task_)) return;
  world_.violated(to_string(task_) + " was refused by its shards: " + error.to_string());
}

// ---- shard

ShardHost::ShardHost(PsWorld& world, const NodeId& node, std::shared_ptr<const SimClock> clock,
                     const cluster::StartTask& start, std::string endpoint)
    : world_(world),
      node_(node),
      task_(start.task),
      endpoint_(std::move(endpoint)),
      clock_(std::move(clock)),
      shard_(ShardId{start.task.rank}),
      token_(start.ps.token),
      view_(start.ps) {
  ps::ShardSettings settings;
  settings.shard = shard_;
  settings.token = token_;
  settings.workers = start.ps.workers;
  settings.bugs = world_.bugs();
  auto channel =
      std::make_unique<SimChannel>(world_.sockets(), node_, endpoint_, [this] { turn_soon(); });
  std::vector<std::uint64_t> keys;
  channel->watch(
      [this, keys](transport::PeerId peer, const transport::Message& message) mutable {
        if (message.empty()) return;
        replica_->on_message(message);
        const auto header = wire::decode_ps_request({message[0].data, message[0].size});
        if (!header || header->kind != ps::Kind::kPush) return;
        const auto taken = keys_in(message, keys);
        pushes_[{peer, header->request}] = {*header, {taken.begin(), taken.end()}};
      },
      [this](transport::PeerId peer, const transport::Message& message) {
        const auto reply = wire::decode_ps_reply({message[0].data, message[0].size});
        if (!reply || reply->kind != ps::Kind::kPush) return;
        const auto push = pushes_.find({peer, reply->request});
        if (push == pushes_.end()) return;
        if (reply->error == 0)
          world_.ps_checker().on_push_accepted(task_, push->second.first, push->second.second);
        pushes_.erase(push);
      });
  world_.ps_checker().on_map(task_, view_.map.epoch);
  replica_ = std::make_unique<SimReplica>(settings, view_.map, clock_);
  shard_loop_ = std::make_unique<ps::ShardLoop>(ps::ShardCore(settings, view_.map),
                                                std::move(channel), clock_);
}

ShardHost::~ShardHost() = default;

void ShardHost::turn_soon() {
  if (turning_) return;
  turning_ = true;
  world_.loop().after(Duration{0}, [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    turning_ = false;
    turn();
  });
}

void ShardHost::turn() {
  const std::uint64_t before = shard_loop_->stats().requests;
  (void)shard_loop_->step(Duration{0});
  if (shard_loop_->stats().requests != before) turn_soon();  // there may be more
  arm();
}

void ShardHost::arm() {
  const auto due = shard_loop_->core().next_deadline();
  if (!due) return;
  const TimePoint at = std::max(clock_->true_time_of(*due), world_.loop().now() + milliseconds(1));
  if (armed_ && *armed_ <= at) return;
  armed_ = at;
  world_.loop().at(at, [this, alive = std::weak_ptr(alive_), at] {
    if (alive.expired() || armed_ != at) return;
    armed_.reset();
    turn();
  });
}

void ShardHost::worker_gone(const TaskId& worker) {
  world_.ps_checker().on_worker_gone_told(task_, ps::worker_id(worker));
  shard_loop_->worker_left(ps::worker_id(worker));
  replica_->on_worker_left(ps::worker_id(worker));
}

bool ShardHost::on_view(const ps::PsView& view) {
  if (view.map.epoch > view_.map.epoch) {
    for (std::uint32_t slot = 0; slot < ps::kSlots; ++slot) {
      const bool was = view_.map.owner[slot] == shard_;
      const bool is = view.map.owner[slot] == shard_;
      if (was && !is) leaving_.emplace(slot, shard_loop_->core().export_slot(slot));
      if (!was && is) awaited_.insert(slot);
    }
    view_ = view;
    world_.ps_checker().on_map(task_, view_.map.epoch);
    (void)shard_loop_->install_map(view_.map);
    replica_->on_map(view_.map);
    turn_soon();
    send_slots();
  }
  return view.map.epoch == view_.map.epoch && leaving_.empty() && awaited_.empty();
}

bool ShardHost::on_slot(const ps::PsView& view, const ps::SlotImage& image) {
  if (view.map.epoch > view_.map.epoch) on_view(view);
  if (view.map.epoch < view_.map.epoch || !awaited_.contains(image.slot)) return true;
  ps::Effects effects;
  if (const Status taken = shard_loop_->core().import_slot(image, clock_->now(), effects); !taken) {
    world_.violated(to_string(task_) + " cannot take slot " + std::to_string(image.slot) + ": " +
                    taken.error().to_string());
    return true;
  }
  replica_->on_slot(image);
  awaited_.erase(image.slot);
  turn_soon();
  return true;
}

void ShardHost::send_slots() {
  if (sending_ || leaving_.empty()) return;
  sending_ = true;
  for (const auto& [slot, image] : leaving_) {
    const std::string& to = view_.shards[view_.map.owner[slot].value].tcp;
    world_.network().send(
        node_, node_of_endpoint(to),
        [&world = world_, to, from = endpoint_, here = node_, view = view_, image] {
          ShardHost* host = world.host_at(to);
          if (host == nullptr || !host->on_slot(view, image)) return;
          world.network().send(host->node_, here, [&world, from, epoch = view.map.epoch, image] {
            ShardHost* back = world.host_at(from);
            if (back != nullptr && back->view_.map.epoch == epoch) back->leaving_.erase(image.slot);
          });
        });
  }
  world_.loop().after(milliseconds(300), [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    sending_ = false;
    send_slots();
  });
}

void ShardHost::read_back() {
  const std::string differs = replica_->difference(shard_loop_->core());
  if (!differs.empty()) world_.violated(to_string(task_) + " at its end: " + differs);
  for (const std::uint64_t key : world_.ps_checker().keys_of(ps_job(task_))) {
    const std::uint32_t slot = ps::slot_of(ps::table_id("counts"), key);
    if (view_.map.owner[slot] != shard_ || awaited_.contains(slot)) continue;
    const ps::RequestHeader request{.kind = ps::Kind::kPull,
                                    .request = 1,
                                    .token = token_,
                                    .epoch = view_.map.epoch,
                                    .client = ClientId{1},
                                    .table = ps::table_id("counts"),
                                    .budget = seconds(5),
                                    .n = 1,
                                    .dim = 1};
    const std::uint64_t keys[] = {key};
    ps::Effects effects;
    shard_loop_->core().on_request(1, request, keys, {}, clock_->now(), effects);
    const auto* reply = effects.empty() ? nullptr : std::get_if<ps::Reply>(&effects.front());
    if (reply == nullptr || reply->header.error != 0 || reply->values.size() != 1)
      world_.violated(to_string(task_) + " does not answer a pull of its own key " +
                      std::to_string(key));
    else
      world_.ps_checker().on_row(task_, key, reply->values[0]);
  }
}

}  // namespace dlrun::sim

#include "runtime/cluster/actor/feeders.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "runtime/security/secret.h"
#include "runtime/shim/log_files.h"

namespace dlrun::cluster {
namespace {

constexpr int kDeathsMax = 3;

Token token_of(std::string_view bytes) {
  Token out{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), out.size()), out.begin());
  return out;
}

}  // namespace

Feeders::Feeders(FeedersOptions options) : options_(std::move(options)) {}
Feeders::~Feeders() = default;

void Feeders::sweep() {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(options_.run_dir, ec)) {
    const std::string name = entry.path().filename().string();
    if (name.size() < 2 || name[0] != 'f' ||
        name.find_first_not_of("0123456789", 1) != std::string::npos)
      continue;
    const std::string dir = entry.path().string();
    if (options_.shims->attach(dir)) (void)options_.shims->kill(dir, Cause::kUserKill);
    last_number_ =
        std::max(last_number_, static_cast<std::uint32_t>(std::stoul(name.substr(1, 9))));
  }
}

Status Feeders::spawn(Feeder& feeder) {
  DLRUN_ASSIGN(const std::string secret, security::random_bytes(32));
  feeder.token = token_of(secret);
  feeder.id = TaskId{JobId(0), "feeder", ++last_number_, Generation(0)};
  feeder.dir = options_.run_dir + "/f" + std::to_string(feeder.id.rank);
  feeder.started = options_.clock->now();
  if (::mkdir(feeder.dir.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("make folder " + feeder.dir);
  task::Welcome welcome;
  welcome.task = feeder.id;
  DLRUN_ASSIGN(const std::string socket, options_.server->open(feeder.id, feeder.token, welcome));
  shim::Spec spec;
  spec.argv = {options_.self_program, "feeder"};
  spec.env = {"PATH=/usr/local/bin:/usr/bin:/bin", "DLRUN_SOCKET=" + socket,
              "DLRUN_TOKEN=" + security::to_hex(feeder.token)};
  spec.cwd = feeder.dir;
  spec.log_segment_bytes = 1u << 20;
  spec.log_retained_bytes = 4u << 20;
  if (Status ok = options_.shims->spawn(feeder.dir, std::move(spec)); !ok) {
    options_.server->close(feeder.id);
    return fail_as("start the feeder", ok);
  }
  return {};
}

Result<Feeders::Feeder*> Feeders::ensure(const std::string& owner) {
  if (const auto it = by_owner_.find(owner); it != by_owner_.end()) return it->second.get();
  if (const auto it = deaths_.find(owner); it != deaths_.end() && it->second.count >= kDeathsMax &&
                                           options_.clock->now() < it->second.until)
    return fail(Errc::kUnavailable, "the feeder does not stay up: " + it->second.reason);
  auto feeder = std::make_unique<Feeder>();
  feeder->owner = owner;
  DLRUN_TRY(spawn(*feeder));
  return by_owner_.emplace(owner, std::move(feeder)).first->second.get();
}

void Feeders::open_input(const PrepareTask& consumer, const task::OpenInput& request) {
  const auto spec = std::find_if(consumer.inputs.begin(), consumer.inputs.end(),
                                 [&](const io::InputSpec& i) { return i.name == request.input; });
  if (spec == consumer.inputs.end())
    return refuse(consumer.task, request.request,
                  {Errc::kNotFound, "the job has no input named \"" + request.input + "\""});
  const Result<Feeder*> ensured = ensure(consumer.owner);
  if (!ensured) return refuse(consumer.task, request.request, ensured.error());
  Feeder& feeder = **ensured;
  ++feeder.idle_number;  // it feeds somebody again
  const auto key = std::pair(consumer.task, request.input);
  if (!feeder.consumers.contains(key)) {
    // The same consumer gets the same token however often it asks.
    const std::string secret(reinterpret_cast<const char*>(feeder.token.data()),
                             feeder.token.size());
    const Token token =
        security::hmac_sha256(secret, to_string(consumer.task) + "\n" + request.input);
    feeder.consumers.emplace(key, Consumer{{token, consumer.task, consumer.epoch, *spec}});
    if (!feeder.socket.empty())
      (void)options_.server->send(feeder.id, task::PeerKind::kFeeder,
                                  feeder.consumers.at(key).admit);
  }
  if (!feeder.socket.empty()) return answer(feeder, {consumer.task, request});
  if (feeder.waiting.size() >= options_.waiting_max)
    return refuse(consumer.task, request.request,
                  {Errc::kOverloaded, "too many processes wait for the feeder"});
  feeder.waiting.push_back({consumer.task, request});
}

void Feeders::answer(const Feeder& feeder, const Waiting& waiting) {
  const auto it = feeder.consumers.find({waiting.task, waiting.request.input});
  if (it == feeder.consumers.end()) return;  // it left meanwhile
  task::InputAt at;
  at.request = waiting.request.request;
  at.feeder_socket = feeder.socket;
  at.consumer_token = it->second.admit.token;
  (void)options_.server->send(waiting.task, std::move(at));
}

void Feeders::refuse(const TaskId& task, std::uint64_t request, const Error& error) {
  task::InputAt at;
  at.request = request;
  at.error = error.code;
  at.error_context = error.context;
  (void)options_.server->send(task, std::move(at));
}

void Feeders::on_ready(const TaskId& id, const TaskReadyInfo& info) {
  for (auto& [owner, feeder] : by_owner_) {
    if (feeder->id != id) continue;
    feeder->socket = info.ipc;
    for (const auto& [key, consumer] : feeder->consumers)
      (void)options_.server->send(id, task::PeerKind::kFeeder, consumer.admit);
    for (const Waiting& waiting : std::exchange(feeder->waiting, {})) answer(*feeder, waiting);
  }
}

bool Feeders::on_shim(const shim::ShimEvent& event) {
  if (event.task_dir.rfind(options_.run_dir + "/f", 0) != 0) return false;
  if (event.phase != shim::Phase::kEnded) return true;
  for (auto it = by_owner_.begin(); it != by_owner_.end(); ++it) {
    Feeder& feeder = *it->second;
    if (feeder.dir != event.task_dir) continue;
    const TimePoint now = options_.clock->now();
    Deaths& deaths = deaths_[feeder.owner];
    deaths.count = now - feeder.started < options_.spawn_quiet ? deaths.count + 1 : 0;
    deaths.until = now + options_.spawn_quiet;
    deaths.reason = event.end.detail.empty()
                        ? "it ended with code " + std::to_string(exit_code(event.end))
                        : event.end.detail;
    if (!event.end.ok() && options_.log) {
      const auto said = shim::read_log(event.task_dir + "/logs", "stderr", 0, 2000);
      options_.log("the feeder of " + feeder.owner + " ended: " + deaths.reason +
                   (said && !said->bytes.empty() ? "; it said: " + said->bytes : ""));
    }
    if (event.end.ok() || feeder.consumers.empty()) deaths_.erase(feeder.owner);
    for (const Waiting& waiting : feeder.waiting)
      refuse(waiting.task, waiting.request.request, {Errc::kUnavailable, "the feeder ended"});
    options_.server->close(feeder.id);
    std::erase_if(leaving_, [&](const auto& entry) { return entry.second == feeder.id; });
    by_owner_.erase(it);
    break;
  }
  std::error_code ec;
  std::filesystem::remove_all(event.task_dir, ec);
  return true;
}

const TaskId* Feeders::feeder_of(const TaskId& consumer) const {
  for (const auto& [owner, feeder] : by_owner_) {
    const auto it = feeder->consumers.lower_bound({consumer, std::string()});
    if (it != feeder->consumers.end() && it->first.first == consumer) return &feeder->id;
  }
  const auto it = leaving_.find(consumer);
  return it == leaving_.end() ? nullptr : &it->second;
}

bool Feeders::drop_consumer(const TaskId& consumer) {
  for (auto& [owner, feeder] : by_owner_) {
    const std::size_t dropped = std::erase_if(
        feeder->consumers, [&](const auto& entry) { return entry.first.first == consumer; });
    if (dropped == 0) continue;
    if (feeder->consumers.empty()) arm_linger(*feeder);
    if (feeder->socket.empty()) return false;  // it is starting: nobody has read
    (void)options_.server->send(feeder->id, task::PeerKind::kFeeder, task::DropConsumer{consumer});
    leaving_[consumer] = feeder->id;
    return true;
  }
  return false;
}

void Feeders::arm_linger(Feeder& feeder) {
  const std::uint64_t number = ++feeder.idle_number;
  options_.after(options_.linger, [this, owner = feeder.owner, id = feeder.id, number] {
    const auto it = by_owner_.find(owner);
    if (it == by_owner_.end() || it->second->id != id || it->second->idle_number != number) return;
    (void)options_.server->send(id, task::PeerKind::kFeeder, task::StopNow{});
    (void)options_.shims->stop(it->second->dir, std::chrono::seconds(2), Cause::kUserKill);
  });
}

void Feeders::stop_idle() {
  for (auto& [owner, feeder] : by_owner_)
    if (feeder->consumers.empty()) (void)options_.shims->kill(feeder->dir, Cause::kUserKill);
}

std::size_t Feeders::idle_running() const {
  return static_cast<std::size_t>(
      std::count_if(by_owner_.begin(), by_owner_.end(),
                    [](const auto& entry) { return entry.second->consumers.empty(); }));
}

}  // namespace dlrun::cluster

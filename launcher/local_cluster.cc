#include "launcher/local_cluster.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "launcher/left_tasks.h"
#include "runtime/base/hash.h"

namespace dlrun::launcher {
namespace {

using SteadyClock = std::chrono::steady_clock;
using nlohmann::json;

constexpr auto kPoll = std::chrono::milliseconds(5);
// The guardian kills jobs that still run (their own grace first) before it ends the daemons.
constexpr Duration kStopLimit = std::chrono::seconds(60);
constexpr Duration kLeftGrace = std::chrono::seconds(2), kLeftLimit = std::chrono::seconds(40);
constexpr std::uint32_t kPortsFirst = 10240, kPortsEnd = 32000;

struct GuardianState {
  ProcessMark guardian;
  bool standing = false, ready = false, stopping = false;
  std::uint32_t nodes = 0;
  std::string error;
  std::vector<ProcessMark> daemons;
};

std::string state_path(const std::string& folder) { return folder + "/guardian.json"; }

std::optional<GuardianState> read_state(const std::string& folder) {
  const auto text = read_file(state_path(folder));
  if (!text) return std::nullopt;
  const json in = json::parse(*text, nullptr, false);
  if (!in.is_object()) return std::nullopt;
  GuardianState out;
  try {
    out.guardian = {in.at("pid").get<pid_t>(), in.at("start").get<std::uint64_t>()};
    out.standing = in.at("standing").get<bool>();
    out.ready = in.at("ready").get<bool>();
    out.stopping = in.at("stopping").get<bool>();
    out.nodes = in.at("nodes").get<std::uint32_t>();
    out.error = in.at("error").get<std::string>();
    for (const auto& d : in.at("daemons"))
      out.daemons.push_back({d.at("pid").get<pid_t>(), d.at("start").get<std::uint64_t>()});
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return out;
}

/// " (the coordinator was killed by signal 9)": what its guardian said last.
std::string last_words(const std::string& folder) {
  const std::string log = tail_of(folder + "/guardian.log", 4000);
  const auto at = log.rfind(kGuardianSays);
  if (at == std::string::npos) return " (see " + folder + "/guardian.log)";
  std::string words = log.substr(at + kGuardianSays.size());
  words.resize(std::min(words.find('\n'), words.size()));
  return words == kGuardianBegins ? " (its guardian was killed)" : " (" + words + ")";
}

/// Whether <home>/cluster.json is of a local cluster.
bool names_local(const World& world) {
  const auto text = read_file(world.home + "/cluster.json");
  const json info = text ? json::parse(*text, nullptr, false) : json();
  return info.is_object() && info.contains("local");
}

/// After a guardian that did not end by itself: what it left, unless another is in its place.
void clean_up_after(const std::string& folder, const ProcessMark& guardian) {
  auto starting = FileLock::open(folder + "/start.lock");
  if (!starting || !starting->lock_within(FileLock::Mode::kExclusive, kStopLimit)) return;
  const auto state = read_state(folder);
  if (!state || state->standing || state->guardian.pid != guardian.pid || alive(state->guardian))
    return;
  for (auto daemon = state->daemons.rbegin(); daemon != state->daemons.rend(); ++daemon)
    end_process(*daemon, std::chrono::seconds(5));
  (void)end_left_tasks(folder, kLeftGrace, kLeftLimit);
  ::unlink(state_path(folder).c_str());
}

Result<ProcessMark> spawn_guardian(const World& world, const std::string& folder,
                                   const LocalOptions& options, bool standing) {
  const std::int64_t cpus =
      options.cpu_milli > 0 ? options.cpu_milli : std::int64_t{1000} * world.cores;
  const std::int64_t memory = options.memory_bytes > 0
                                  ? options.memory_bytes
                                  : world.memory_bytes / std::max(1u, options.nodes);
  ::unlink(state_path(folder).c_str());
  return spawn(
      {.argv = {world.self_exe, "local-guardian", "--data", folder, "--nodes",
                std::to_string(options.nodes), "--cpus",
                fmt::format("{}.{:03}", cpus / 1000, cpus % 1000), "--memory",
                std::to_string(memory), "--mode", standing ? "standing" : "embedded", "--listen",
                options.listen, "--as-root", options.tasks_as_root ? "yes" : "no"},
       .log_path = folder + "/guardian.log",
       .own_session = true});
}

/// Waits until the guardian says that its daemons run and REST counts the nodes.
Status wait_ready(const World& world, const std::string& folder, const ProcessMark& guardian,
                  std::uint32_t nodes, Duration limit) {
  const auto until = SteadyClock::now() + limit;
  const auto late = [&] { return SteadyClock::now() > until; };
  for (;;) {
    const auto state = read_state(folder);
    const bool ours = state && state->guardian.pid == guardian.pid;
    if (ours && !state->error.empty()) return fail(Errc::kUnavailable, state->error);
    if (ours && state->ready) break;
    ::waitpid(guardian.pid, nullptr, WNOHANG);
    if (!alive(guardian)) {
      const auto last = read_state(folder);
      if (last && !last->error.empty()) return fail(Errc::kUnavailable, last->error);
      return fail(Errc::kUnavailable, "the local cluster did not start" + last_words(folder));
    }
    if (late())
      return fail(Errc::kDeadlineExceeded,
                  "the local cluster did not start in time; see " + folder + "/*.log");
    std::this_thread::sleep_for(kPoll);
  }
  RestClient client([&] { return read_cluster_info(coordinator_folder(world)); });
  for (;;) {
    std::uint32_t up = 0;
    const auto body = client.call({.target = "/api/v1/nodes"});
    if (body) {
      const json list = json::parse(*body, nullptr, false);
      if (list.is_object() && list.contains("nodes"))
        for (const auto& node : list["nodes"]) up += node.value("state", "") == "up" ? 1 : 0;
      if (up >= nodes) return {};
    }
    // In the order of their start: the coordinator, node-0, node-1, ...
    if (const auto state = read_state(folder); state && !state->stopping)
      for (std::size_t i = 0; i < state->daemons.size(); ++i) {
        if (alive(state->daemons[i])) continue;
        const std::string name = i == 0 ? "coordinator" : fmt::format("node-{}", i - 1);
        return fail(Errc::kUnavailable,
                    fmt::format("{} of the local cluster ended: {}", name,
                                tail_of(fmt::format("{}/{}.log", folder, name), 1500)));
      }
    if (!alive(guardian))
      return fail(Errc::kUnavailable, "the local cluster ended" + last_words(folder));
    if (late()) {
      std::string logs = tail_of(folder + "/node-0.log", 1000);
      return fail(Errc::kDeadlineExceeded, fmt::format("{} of {} local nodes are up{}{}", up, nodes,
                                                       logs.empty() ? "" : ": ", logs));
    }
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

std::string local_folder(const World& world) { return world.home + "/local"; }
std::string coordinator_folder(const World& world) { return local_folder(world) + "/coordinator"; }

std::pair<std::uint16_t, std::uint16_t> port_range(const std::string& folder, std::uint32_t index,
                                                   std::uint32_t nodes) {
  const std::uint32_t all = kPortsEnd - kPortsFirst;
  const std::uint32_t each = std::clamp(all / 4 / std::max(1u, nodes), 16u, 500u);
  const std::uint32_t places = all / each;
  const std::uint32_t place = static_cast<std::uint32_t>((fnv1a(folder) + index) % places);
  const std::uint32_t first = kPortsFirst + place * each;
  return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(first + each - 1)};
}

EmbeddedCluster::EmbeddedCluster(FileLock users, ProcessMark guardian, std::string folder,
                                 bool brought_up)
    : users_(std::move(users)),
      guardian_(guardian),
      folder_(std::move(folder)),
      brought_up_(brought_up) {}

Result<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::start(const World& world,
                                                                const LocalOptions& options) {
  const std::string folder = local_folder(world);
  DLRUN_TRY(make_folders(folder));
  const auto until = SteadyClock::now() + options.start_limit;
  for (;;) {
    DLRUN_ASSIGN(FileLock users, FileLock::open(folder + "/users.lock"));
    // Shared is refused while a guardian takes its cluster down.
    if (!users.lock_within(FileLock::Mode::kShared, kStopLimit))
      return fail(Errc::kUnavailable,
                  "the last local cluster does not end; see " + folder + "/guardian.log");
    DLRUN_ASSIGN(FileLock starting, FileLock::open(folder + "/start.lock"));
    if (!starting.lock_within(FileLock::Mode::kExclusive, options.start_limit))
      return fail(Errc::kUnavailable, "another dlrun is bringing up a local cluster for too long");
    const auto state = read_state(folder);
    const bool running = state && alive(state->guardian) && !state->stopping;
    if (running && state->standing && names_local(world))
      return fail(Errc::kAlreadyExists, "dlrun up has brought up a local cluster meanwhile");
    if (running && state->standing)
      return fail(
          Errc::kFailedPrecondition,
          "a local cluster stands, but its cluster.json is gone: dlrun down, then dlrun up");
    if (running && state->nodes < options.nodes) {
      // A coordinator alone, for somebody's short question.
      users.unlock();
      if (SteadyClock::now() > until)
        return fail(Errc::kUnavailable, "a local cluster without nodes is in use");
      std::this_thread::sleep_for(kPoll * 4);
      continue;
    }
    ProcessMark guardian;
    if (running) {
      guardian = state->guardian;
    } else {
      DLRUN_ASSIGN(guardian, spawn_guardian(world, folder, options, false));
    }
    std::unique_ptr<EmbeddedCluster> out(
        new EmbeddedCluster(std::move(users), guardian, folder, !running));
    const Status ready = wait_ready(world, folder, guardian, options.nodes, options.start_limit);
    starting.unlock();  // before `out` leaves: it may have to clean up
    if (!ready) return tl::unexpected(ready.error());
    return out;
  }
}

EmbeddedCluster::~EmbeddedCluster() {
  users_.unlock();
  const auto begin = SteadyClock::now();
  for (;;) {
    ::waitpid(guardian_.pid, nullptr, WNOHANG);
    if (!alive(guardian_)) {
      clean_up_after(folder_, guardian_);
      return;
    }
    const auto waited = SteadyClock::now() - begin;
    const auto state = read_state(folder_);
    const bool stopping = state && state->stopping;
    // Not stopping a moment after we left: others use it.
    if (waited > kStopLimit || (!stopping && waited > std::chrono::milliseconds(500))) return;
    std::this_thread::sleep_for(kPoll);
  }
}

Status start_standing(const World& world, const LocalOptions& options) {
  const std::string folder = local_folder(world);
  DLRUN_TRY(make_folders(folder));
  DLRUN_ASSIGN(FileLock starting, FileLock::open(folder + "/start.lock"));
  if (!starting.lock_within(FileLock::Mode::kExclusive, options.start_limit))
    return fail(Errc::kUnavailable, "another dlrun is bringing up a local cluster");
  if (const auto state = read_state(folder); state && alive(state->guardian)) {
    if (state->standing)
      return fail(Errc::kAlreadyExists, "a local cluster stands already: dlrun nodes, dlrun down");
    return fail(Errc::kFailedPrecondition,
                "an embedded cluster is in use by a dlrun run; wait for it to end");
  }
  if (::access((world.home + "/cluster.json").c_str(), F_OK) == 0 && !standing_is_stale(world))
    return fail(Errc::kAlreadyExists,
                world.home + "/cluster.json names a cluster already; remove it, or set DLRUN_HOME");
  DLRUN_ASSIGN(const ProcessMark guardian, spawn_guardian(world, folder, options, true));
  if (const Status ready = wait_ready(world, folder, guardian, options.nodes, options.start_limit);
      !ready) {
    end_process(guardian, kStopLimit);
    return ready;
  }
  DLRUN_ASSIGN(const std::string text, read_file(coordinator_folder(world) + "/cluster.json"));
  json info = json::parse(text, nullptr, false);
  if (!info.is_object()) return fail(Errc::kCorrupt, "the coordinator's cluster.json is not JSON");
  info["local"] = folder;
  if (info.contains("token_file") && info["token_file"].is_string() &&
      !info["token_file"].get<std::string>().starts_with('/'))
    info["token_file"] = coordinator_folder(world) + "/" + info["token_file"].get<std::string>();
  return write_file(world.home + "/cluster.json", info.dump(1) + "\n");
}

Status EmbeddedCluster::stands() const {
  const auto state = read_state(folder_);
  if (alive(guardian_) && !(state && state->guardian.pid == guardian_.pid && state->stopping))
    return {};
  return fail(Errc::kUnavailable,
              "the local cluster of this command has ended" + last_words(folder_));
}

Status standing_stands(const World& world) {
  const auto state = read_state(local_folder(world));
  if (!names_local(world) || (state && alive(state->guardian) && !state->stopping)) return {};
  return fail(Errc::kUnavailable, "the local cluster that dlrun up started is gone" +
                                      last_words(local_folder(world)) +
                                      "; dlrun down cleans up, dlrun up starts it again");
}

bool standing_is_stale(const World& world) {
  if (!names_local(world)) return false;
  const auto state = read_state(local_folder(world));
  return !state || !alive(state->guardian);
}

Status stop_standing(const World& world) {
  const std::string folder = local_folder(world);
  const auto state = read_state(folder);
  const bool stale = standing_is_stale(world);
  if (!state || !state->standing || !alive(state->guardian)) {
    if (stale) {
      // Its guardian is gone without its daemons: end those that are still the ones it started.
      if (state && state->standing)
        for (auto daemon = state->daemons.rbegin(); daemon != state->daemons.rend(); ++daemon)
          end_process(*daemon, std::chrono::seconds(5));
      // Its tasks ran on for the next `up`.
      DLRUN_TRY(end_left_tasks(folder, kLeftGrace, kLeftLimit));
      ::unlink((world.home + "/cluster.json").c_str());
      return {};
    }
    return fail(Errc::kNotFound, "no local cluster stands here");
  }
  bool gone = end_process(state->guardian, kStopLimit);
  // Agents before the coordinator, as the guardian does it.
  for (auto daemon = state->daemons.rbegin(); daemon != state->daemons.rend(); ++daemon)
    gone = end_process(*daemon, std::chrono::seconds(5)) && gone;
  DLRUN_TRY(end_left_tasks(folder, kLeftGrace, kLeftLimit));
  ::unlink((world.home + "/cluster.json").c_str());
  if (!gone)
    return fail(Errc::kInternal, "a process of the local cluster does not end; see " + folder);
  return {};
}

std::string join_line(const World& world) {
  const auto text = read_file(coordinator_folder(world) + "/cluster.json");
  const json info = text ? json::parse(*text, nullptr, false) : json();
  const auto field = [&](const char* name) {
    return info.is_object() && info.contains(name) && info[name].is_string()
               ? info[name].get<std::string>()
               : std::string();
  };
  if (field("join").empty()) return "";
  return fmt::format("dlrun agent --join {} --token-file {} --ca-fingerprint {}", field("join"),
                     field("join_token_file"), field("ca_fingerprint"));
}

}  // namespace dlrun::launcher

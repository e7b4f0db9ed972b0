// Commands that start, change or follow jobs.
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "launcher/command_cluster.h"
#include "launcher/job_follower.h"
#include "launcher/terminal.h"
#include "runtime/jobspec/json.h"
#include "runtime/jobspec/units.h"

namespace dlrun::launcher {
namespace {

using nlohmann::json;

/// Without one, a submit that is tried again after a lost answer would be a second job.
Result<std::string> random_key() {
  unsigned char bytes[16];
  ssize_t n = 0;
  do {
    n = ::getrandom(bytes, sizeof bytes, 0);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof bytes) return fail_errno("no random bytes for the submit's key");
  std::string out;
  for (const unsigned char b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

std::string job_path(const std::string& job) { return "/api/v1/jobs/" + url_encode(job); }

/// ": ..." where the server has something to say about an order.
std::string note_of(const std::string& body) {
  const json reply = json::parse(body, nullptr, false);
  if (!reply.is_object() || !reply.contains("note") || !reply["note"].is_string()) return "";
  return ": " + harmless(reply["note"].get<std::string>());
}

}  // namespace

int Commands::run(const RunFlags& flags, bool quiet) {
  const auto spec = make_spec(flags, world_);
  if (!spec) return fail_with(spec.error(), flags.file.empty() ? kUsage : kBadJob);
  std::int64_t cpus = 0, memory = 0;
  for (const auto& role : spec->roles) {
    cpus += role.resources.cpu_milli * role.count_min;
    memory += role.resources.memory_bytes * role.count_min;
  }
  StatusLine status(world_, quiet || common_.json);
  // A virtual node large enough for the job: on one machine the processes share it anyway.
  auto cluster = Cluster::open(world_, 1, std::max(cpus, std::int64_t{1000} * world_.cores),
                               std::max(memory, world_.memory_bytes),
                               [&](std::string text) { status.say(text); });
  if (!cluster) return fail_with(cluster.error());
  const auto key = random_key();
  if (!key) return fail_with(key.error());
  const auto body = (*cluster)->client().call({.method = "POST",
                                               .target = "/api/v1/jobs",
                                               .body = jobspec::dump(jobspec::to_json(*spec)),
                                               .idempotency_key = *key});
  if (!body) return fail_with(body.error(), kBadJob);
  const json ack = json::parse(*body, nullptr, false);
  if (!ack.is_object() || !ack.contains("id"))
    return fail_with({Errc::kInternal, "the server's answer to the submit makes no sense"});
  FollowOptions options;
  options.quiet = quiet;
  options.json = common_.json;
  options.kill_on_interrupt = true;
  JobFollower follower(world_, (*cluster)->client(), ack["id"].get<std::string>(),
                       std::move(options));
  const auto code = follower.run();
  if (!code) return fail_with(code.error());
  return *code;
}

int Commands::submit(const RunFlags& flags) {
  const auto spec = make_spec(flags, world_);
  if (!spec) return fail_with(spec.error(), flags.file.empty() ? kUsage : kBadJob);
  const auto info = read_cluster_info(world_.home);
  if (!info && info.error().code == Errc::kNotFound)
    return fail_with({Errc::kUnavailable,
                      "a submitted job needs a cluster that stays: dlrun up starts one here, dlrun "
                      "run works without"});
  auto cluster = Cluster::open(world_);
  if (!cluster) return fail_with(cluster.error());
  const auto key = random_key();
  if (!key) return fail_with(key.error());
  const auto body = (*cluster)->client().call({.method = "POST",
                                               .target = "/api/v1/jobs",
                                               .body = jobspec::dump(jobspec::to_json(*spec)),
                                               .idempotency_key = *key});
  if (!body) return fail_with(body.error(), kBadJob);
  if (common_.json) return print_json(*body), kOk;
  const json ack = json::parse(*body, nullptr, false);
  if (!ack.is_object() || !ack.contains("id"))
    return fail_with({Errc::kInternal, "the server's answer to the submit makes no sense"});
  world_.out(ack["id"].get<std::string>() + "\n");
  return kOk;
}

int Commands::logs(const LogFlags& flags) {
  auto cluster = Cluster::open(world_);
  if (!cluster) return fail_with(cluster.error());
  FollowOptions options;
  options.states = false;
  options.follow = flags.follow;
  options.shard_logs = true;
  options.raw = flags.raw;
  options.json_logs = common_.json;
  options.filter = true;
  options.role = flags.role;
  options.stream = flags.stream;
  options.rank = flags.rank;
  options.tail = flags.tail;
  const auto code = JobFollower(world_, (*cluster)->client(), flags.job, std::move(options)).run();
  if (!code) return fail_with(code.error());
  return *code == 130 || *code == 141 ? *code : kOk;
}

int Commands::order(const std::vector<std::string>& jobs, const std::string& order,
                    const std::string& reason, bool hold, const std::string& said) {
  auto cluster = Cluster::open(world_);
  if (!cluster) return fail_with(cluster.error());
  int code = kOk;
  for (const std::string& job : jobs) {
    json body = json::object();
    if (!reason.empty()) body["reason"] = reason;
    if (hold) body["hold"] = true;
    const auto reply = (*cluster)->client().call(
        {.method = "POST",
         .target = job_path(job) + "/" + order,
         .body = body.dump(-1, ' ', false, json::error_handler_t::replace)});
    if (!reply)
      code = fail_with(reply.error());
    else if (common_.json)
      print_json(*reply);
    else
      world_.err(fmt::format("dlrun: {} {}{}\n", job, said, note_of(*reply)));
  }
  return code;
}

int Commands::wait(const std::string& job, const std::string& timeout) {
  FollowOptions options;
  options.logs = false;
  options.states = false;
  if (!timeout.empty()) {
    const auto limit = jobspec::parse_duration(timeout);
    if (!limit)
      return fail_with({Errc::kInvalidArgument, "--timeout: " + limit.error().context}, kUsage);
    options.limit = std::max<Duration>(*limit, std::chrono::milliseconds(1));
  }
  auto cluster = Cluster::open(world_);
  if (!cluster) return fail_with(cluster.error());
  const bool limited = options.limit.count() > 0;
  const auto code = JobFollower(world_, (*cluster)->client(), job, std::move(options)).run();
  if (!code) return fail_with(code.error());
  if (common_.json) {
    const auto body = (*cluster)->client().call({.target = job_path(job)});
    if (body) print_json(*body);
  } else if (limited && *code == kTimedOut) {
    world_.err(fmt::format("dlrun: {} is not over after {}\n", job, timeout));
  }
  return *code;
}

}  // namespace dlrun::launcher

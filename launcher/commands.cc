#include "launcher/commands.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/job_follower.h"
#include "launcher/local_cluster.h"
#include "launcher/rest_client.h"
#include "launcher/terminal.h"
#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "runtime/jobspec/units.h"

namespace dlrun::launcher {
namespace {

using nlohmann::json;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return "-";
  if (found->is_string())
    return found->get<std::string>().empty() ? "-" : found->get<std::string>();
  return found->dump();
}

/// "2026-01-02T03:04:05.123456789Z" -> "2026-01-02 03:04:05"
std::string short_time(const json& object, const char* name) {
  std::string text = text_of(object, name);
  if (text.size() < 19) return text;
  text.resize(19);
  text[10] = ' ';
  return text;
}

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

std::string percent(const json& progress) {
  return progress.is_number() ? fmt::format("{:.0f} %", progress.get<double>() * 100) : "-";
}

}  // namespace

/// The cluster that a command talks to: the configured one, or an embedded one for as long as this
/// lives.
class Commands::Cluster {
 public:
  /// `nodes` 0: a question about what was: a coordinator alone will do. kNotFound when there is
  /// nothing to ask.
  static Result<std::unique_ptr<Cluster>> open(const World& world, std::uint32_t nodes,
                                               std::int64_t cpu_milli, std::int64_t memory,
                                               const std::function<void(std::string)>& say) {
    auto out = std::unique_ptr<Cluster>(new Cluster);
    std::string folder = world.home;
    const auto configured = read_cluster_info(world.home);
    if (!configured && configured.error().code != Errc::kNotFound)
      return tl::unexpected(configured.error());
    if (configured && standing_is_stale(world))
      return fail(Errc::kUnavailable,
                  "the local cluster that dlrun up started is gone; dlrun down cleans up, dlrun up "
                  "starts it again");
    if (!configured) {
      if (nodes == 0 && ::access(coordinator_folder(world).c_str(), F_OK) != 0)
        return fail(Errc::kNotFound, fmt::format("no cluster: {}/cluster.json does not exist, and "
                                                 "nothing ran here yet (dlrun up, or dlrun run)",
                                                 world.home));
      if (nodes > 0)
        say("no cluster is configured: bringing up one on this machine for the length of the job");
      DLRUN_ASSIGN(out->embedded_,
                   EmbeddedCluster::start(
                       world, {.nodes = nodes, .cpu_milli = cpu_milli, .memory_bytes = memory}));
      folder = coordinator_folder(world);
    }
    out->client_ = std::make_unique<RestClient>([folder] { return read_cluster_info(folder); });
    return out;
  }
  RestClient& client() { return *client_; }
  bool embedded() const { return embedded_ != nullptr; }

 private:
  Cluster() = default;
  std::unique_ptr<EmbeddedCluster> embedded_;  // ends last
  std::unique_ptr<RestClient> client_;
};

int Commands::fail_with(const Error& error, int usual) const {
  std::string text = error.context.empty() ? std::string(errc_name(error.code)) : error.context;
  if (common_.json) {
    world_.err(jobspec::dump(
                   jobspec::Json{{"error", std::string(errc_name(error.code))}, {"detail", text}}) +
               "\n");
  } else {
    world_.err("dlrun: " + harmless(text) + "\n");
  }
  switch (error.code) {
    case Errc::kUnavailable:
    case Errc::kDeadlineExceeded:
      return kUnreachable;
    case Errc::kPermissionDenied:
      return kNoPermission;
    case Errc::kInvalidArgument:
      return usual != 0 ? usual : kUsage;
    case Errc::kNotFound:
      return usual == kBadJob ? kBadJob : kRefused;
    case Errc::kInternal:
    case Errc::kCorrupt:
      return kInternal;
    default:
      return kRefused;
  }
}

void Commands::print_json(std::string_view body) const {
  std::string text(body);
  if (!text.ends_with('\n')) text += "\n";
  world_.out(text);
}

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
  auto cluster = Cluster::open(world_, 0, 0, 0, [](std::string) {});
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

int Commands::ask(const std::string& target,
                  const std::function<std::string(const std::string&)>& show) {
  auto cluster = Cluster::open(world_, 0, 0, 0, [](std::string) {});
  if (!cluster) return fail_with(cluster.error());
  const auto body = (*cluster)->client().call({.target = target});
  if (!body) return fail_with(body.error());
  if (common_.json) return print_json(*body), kOk;
  try {
    world_.out(harmless(show(*body)));
  } catch (const json::exception& error) {
    return fail_with(
        {Errc::kInternal, std::string("the server's answer makes no sense: ") + error.what()});
  }
  return kOk;
}

int Commands::list(const ListFlags& flags) {
  std::string target = fmt::format("/api/v1/jobs?limit={}", flags.limit);
  if (!flags.state.empty()) target += "&state=" + url_encode(flags.state);
  if (!flags.owner.empty()) target += "&owner=" + url_encode(flags.owner);
  return ask(target, [](const std::string& body) {
    std::vector<std::vector<std::string>> rows{
        {"JOB", "STATE", "EXIT", "NAME", "OWNER", "SUBMITTED", "PROGRESS"}};
    const json list = json::parse(body).at("jobs");
    for (const auto& job : list)
      rows.push_back({text_of(job, "id"), text_of(job, "state"), text_of(job, "exit_code"),
                      text_of(job, "name"), text_of(job, "owner"), short_time(job, "submitted"),
                      percent(job.at("progress"))});
    return table(rows);
  });
}

int Commands::show(const std::string& job) {
  return ask(job_path(job), [](const std::string& body) {
    const json view = json::parse(body);
    std::vector<std::vector<std::string>> head{{"job", text_of(view, "id")},
                                               {"name", text_of(view, "name")},
                                               {"owner", text_of(view, "owner")},
                                               {"project", text_of(view, "project")},
                                               {"state", text_of(view, "state")},
                                               {"reason", text_of(view, "reason")},
                                               {"exit code", text_of(view, "exit_code")},
                                               {"first failed", text_of(view, "first_failed")},
                                               {"start", text_of(view, "generation")},
                                               {"submitted", short_time(view, "submitted")},
                                               {"started", short_time(view, "started")},
                                               {"ended", short_time(view, "ended")},
                                               {"progress", percent(view.at("progress"))}};
    std::erase_if(head, [](const auto& row) { return row[1] == "-"; });
    std::vector<std::vector<std::string>> rows{{"TASK", "STATE", "NODE", "PID", "END"}};
    for (const auto& task : view.at("tasks")) {
      std::string end = "-";
      if (const json& e = task.at("end"); e.is_object()) {
        end = text_of(e, "cause");
        if (end == "exit") end += " " + text_of(e, "code");
        if (end == "signal") end += " " + text_of(e, "signal");
        if (e.value("limit_bytes", std::uint64_t{0}) > 0)
          end += fmt::format(" (peak {}, limit {})",
                             jobspec::format_size(e.value("peak_bytes", std::uint64_t{0})),
                             jobspec::format_size(e.value("limit_bytes", std::uint64_t{0})));
        if (text_of(e, "detail") != "-") end += ": " + text_of(e, "detail");
      }
      const std::string id = text_of(task, "task");
      rows.push_back({id.substr(id.find(':') + 1), text_of(task, "state"), text_of(task, "node"),
                      text_of(task, "pid"), end});
    }
    return table(head) + (rows.size() > 1 ? "\n" + table(rows) : "");
  });
}

int Commands::status(const std::string& job) {
  if (!job.empty())
    return ask(job_path(job), [](const std::string& body) { return describe_job(body) + "\n"; });
  return ask("/api/v1/health", [](const std::string& body) {
    const json health = json::parse(body);
    return fmt::format("cluster {}: {} nodes up, {} jobs running, {} waiting, {} finished\n",
                       text_of(health, "status"), text_of(health, "nodes_up"),
                       text_of(health, "jobs_running"), text_of(health, "jobs_pending"),
                       text_of(health, "jobs_finished"));
  });
}

int Commands::logs(const LogFlags& flags) {
  auto cluster = Cluster::open(world_, 0, 0, 0, [](std::string) {});
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
  auto cluster = Cluster::open(world_, 0, 0, 0, [](std::string) {});
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
      world_.err(fmt::format("dlrun: {} {}\n", job, said));
  }
  return code;
}

int Commands::kill(const std::vector<std::string>& jobs, const std::string& reason) {
  return order(jobs, "kill", reason, false, "will be killed");
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
  auto cluster = Cluster::open(world_, 0, 0, 0, [](std::string) {});
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

int Commands::nodes() {
  return ask("/api/v1/nodes", [](const std::string& body) {
    std::vector<std::vector<std::string>> rows{
        {"NODE", "STATE", "ADDRESS", "CPUS", "MEMORY", "GPUS", "VERSION"}};
    const json list = json::parse(body).at("nodes");
    for (const auto& node : list) {
      const json& all = node.at("capacity");
      const json& used = node.at("used");
      rows.push_back(
          {text_of(node, "id"), text_of(node, "state"), text_of(node, "address"),
           fmt::format("{:g}/{:g}", used.at("cpus").get<double>(), all.at("cpus").get<double>()),
           fmt::format("{}/{}", jobspec::format_size(used.at("memory").get<std::uint64_t>()),
                       jobspec::format_size(all.at("memory").get<std::uint64_t>())),
           fmt::format("{}/{}", used.at("gpus").get<int>(), all.at("gpus").size()),
           text_of(node, "version")});
    }
    return table(rows);
  });
}

namespace {

std::string event_line(const json& event) {
  return fmt::format("{} {} {} {} {}\n", text_of(event, "sequence"), short_time(event, "at"),
                     text_of(event, "job"), text_of(event, "kind"), text_of(event, "text"));
}

}  // namespace

int Commands::events(const EventFlags& flags) {
  auto cluster = Cluster::open(world_, 0, 0, 0, [](std::string) {});
  if (!cluster) return fail_with(cluster.error());
  RestClient& client = (*cluster)->client();
  const std::string of_job = flags.job.empty() ? "" : "&job=" + url_encode(flags.job);
  return flags.follow ? follow_events(client, flags.after, of_job)
                      : list_events(client, flags.after, of_job);
}

/// Page by page: one answer looks through a bounded part of the log, and may hold no event at all.
int Commands::list_events(RestClient& client, std::uint64_t after, const std::string& of_job) {
  std::string out = common_.json ? "{\"events\":[" : "";
  const char* between = "";
  for (bool more = true; more; out.clear()) {
    const auto body =
        client.call({.target = fmt::format("/api/v1/events?limit=1000&after={}{}", after, of_job)});
    if (!body) return fail_with(body.error());
    const json page = json::parse(*body, nullptr, false);
    if (!page.is_object() || !page.contains("events") || !page["events"].is_array())
      return fail_with({Errc::kInternal, "the server's answer makes no sense"});
    for (const json& event : page["events"])
      out += common_.json ? std::exchange(between, ",\n") + jobspec::dump(event)
                          : harmless(event_line(event));
    const std::uint64_t last = page.value("last", after);
    more = last > after;
    after = std::max(after, last);
    if (common_.json && !more) out += fmt::format("],\"last\":{}}}\n", after);
    if (!world_.out(out)) return 141;
  }
  return kOk;
}

int Commands::follow_events(RestClient& client, std::uint64_t after, const std::string& of_job) {
  bool gone = false;
  client.follow(
      {.target = [&] { return fmt::format("/api/v1/events?follow=1&after={}{}", after, of_job); },
       .on_event =
           [&](const SseEvent& event) {
             if (event.name != "event") return;
             const json data = json::parse(event.data, nullptr, false);
             if (!data.is_object()) return;
             after = std::max(after, data.value("sequence", std::uint64_t{0}));
             if (!world_.out(common_.json ? event.data + "\n" : harmless(event_line(data))))
               gone = true;
           },
       .finished = [&] { return gone; }});
  while (!client.idle() && !gone) {
    const auto interrupted = client.pump(std::chrono::seconds(10), world_.interrupt_fd);
    if (!interrupted) return fail_with(interrupted.error());
    if (*interrupted) return 130;
  }
  return 141;
}

int Commands::why(const std::string& job) {
  return ask(job_path(job) + "/why", [](const std::string& body) {
    const json why = json::parse(body);
    std::string out = fmt::format("{} {}: {}\n", text_of(why, "job"), text_of(why, "state"),
                                  text_of(why, "summary"));
    for (const auto& l : why.at("lines"))
      out +=
          fmt::format("  {}: {} of {} nodes fail it: {}\n", text_of(l, "constraint"),
                      text_of(l, "nodes_failing"), text_of(l, "nodes_total"), text_of(l, "detail"));
    return out;
  });
}

int Commands::check(const std::string& file) {
  const auto spec = jobspec::load_job_file(file);
  if (!spec) {
    if (common_.json) return fail_with(spec.error(), kBadJob);
    world_.err(harmless(spec.error().context) + "\n");
    return spec.error().code == Errc::kPermissionDenied ? kNoPermission : kBadJob;
  }
  if (common_.json) return print_json(jobspec::dump(jobspec::to_json(*spec))), kOk;
  std::string out = fmt::format("{} is good:", file);
  for (const auto& role : spec->roles)
    out += fmt::format(" {}{}", role.name,
                       role.count_min == role.count_max
                           ? fmt::format(" x{}", role.count_min)
                           : fmt::format(" x{}..{}", role.count_min, role.count_max));
  world_.out(harmless(out) + "\n");
  return kOk;
}

int Commands::up(const UpFlags& flags) {
  const std::uint32_t nodes = flags.nodes;
  LocalOptions options{
      .nodes = nodes, .listen = flags.listen, .tasks_as_root = flags.tasks_as_root};
  if (!flags.cpus.empty()) {
    const auto parsed = jobspec::parse_cpus(flags.cpus);
    if (!parsed)
      return fail_with({Errc::kInvalidArgument, "--cpus: " + parsed.error().context}, kUsage);
    options.cpu_milli = *parsed;
  }
  if (!flags.memory.empty()) {
    const auto parsed = jobspec::parse_size(flags.memory);
    if (!parsed)
      return fail_with({Errc::kInvalidArgument, "--memory: " + parsed.error().context}, kUsage);
    options.memory_bytes = *parsed;
  }
  const Status started = start_standing(world_, options);
  if (!started) return fail_with(started.error());
  const auto info = read_cluster_info(world_.home);
  if (common_.json) {
    print_json(jobspec::dump(jobspec::Json{
        {"nodes", nodes}, {"rest", info ? info->rest : ""}, {"join", join_line(world_)}}));
    return kOk;
  }
  world_.out(fmt::format("a cluster of {} node{} is up at {}\n", nodes, nodes == 1 ? "" : "s",
                         info ? info->rest : "?"));
  if (const std::string line = join_line(world_); !line.empty())
    world_.out("to join another machine: " + line + "\n");
  world_.out("try: dlrun nodes; dlrun run -n 2 -- hostname; dlrun down\n");
  return kOk;
}

int Commands::down() {
  const Status stopped = stop_standing(world_);
  if (!stopped) return fail_with(stopped.error());
  if (common_.json)
    print_json("{}");
  else
    world_.out("the local cluster is down; its data stays in " + local_folder(world_) + "\n");
  return kOk;
}

int Commands::version() {
  if (common_.json)
    print_json(jobspec::dump(jobspec::Json{{"version", DLRUN_VERSION_TEXT}}));
  else
    world_.out("dlrun " DLRUN_VERSION_TEXT "\n");
  return kOk;
}

}  // namespace dlrun::launcher

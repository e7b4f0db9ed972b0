#include "web/handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "runtime/jobspec/units.h"
#include "web/call.h"
#include "web/control_metrics.h"
#include "web/event_pumps.h"
#include "web/log_pumps.h"
#include "web/metrics.h"
#include "web/problem.h"

namespace dlrun::web {
namespace {

using jobspec::Json;

constexpr std::uint32_t kListMax = 1000;

std::optional<jobspec::Syntax> syntax_of_content_type(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  if (type == "application/json" || type.empty()) return jobspec::Syntax::kJson;
  if (type == "application/toml") return jobspec::Syntax::kToml;
  if (type == "application/yaml") return jobspec::Syntax::kYaml;
  return std::nullopt;
}

std::optional<cluster::JobState> parse_state(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(cluster::JobState::kPreempted); ++i)
    if (text == cluster::to_string(static_cast<cluster::JobState>(i)))
      return static_cast<cluster::JobState>(i);
  return std::nullopt;
}

std::optional<LogStream> parse_stream(std::string_view text) {
  if (text == "stdout") return LogStream::kStdout;
  if (text == "stderr") return LogStream::kStderr;
  return std::nullopt;
}

bool truthy(std::optional<std::string_view> value) {
  return value && *value != "0" && *value != "false";
}

/// "worker/0#1/stdout:1234,worker/1#1/stderr:99"
Result<std::map<LogRef, std::uint64_t>> parse_from(JobId job, std::string_view text) {
  std::map<LogRef, std::uint64_t> out;
  const auto wrong = [] {
    return fail(Errc::kInvalidArgument,
                "from must be like worker/0#1/stdout:1234, several with commas");
  };
  while (!text.empty()) {
    const auto comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const auto colon = item.rfind(':');
    const auto slash = item.rfind('/');
    if (colon == std::string_view::npos || slash == std::string_view::npos || slash > colon)
      return wrong();
    const auto offset = parse_u64(item.substr(colon + 1));
    const auto stream = parse_stream(item.substr(slash + 1, colon - slash - 1));
    const auto task = parse_task_id(to_string(job) + ":" + std::string(item.substr(0, slash)));
    if (!offset || !stream || !task) return wrong();
    out[{*task, *stream}] = *offset;
  }
  return out;
}

/// A role or a rank that the job never has would be an empty log for ever.
std::optional<Response> no_such_rank(const cluster::JobView& view, const LogFilter& filter) {
  if (filter.role.empty() && !filter.rank) return std::nullopt;
  std::vector<std::string_view> names;
  bool role = false, rank = false;
  for (const auto& r : view.spec.roles) {
    names.push_back(r.name);
    if (!filter.role.empty() && filter.role != r.name) continue;
    role = true;
    rank = rank || !filter.rank || *filter.rank < r.count_max;
  }
  if (role && rank) return std::nullopt;
  const std::string near = role ? "" : jobspec::nearest(filter.role, names);
  return problem(404, Errc::kNotFound,
                 role
                     ? fmt::format("{} has no rank {}{}{}", to_string(view.id), filter.role,
                                   filter.role.empty() ? "" : "/", *filter.rank)
                     : fmt::format("{} has no role '{}'{}", to_string(view.id), filter.role,
                                   near.empty() ? fmt::format("; it has {}", fmt::join(names, ", "))
                                                : fmt::format("; did you mean '{}'?", near)));
}

}  // namespace

struct Handlers::Endpoint {
  std::string_view method;
  std::string_view path;  ///< {x} stands for any one segment
  std::vector<std::string_view> params;
  void (Handlers::*handle)(Call);
};

const std::vector<Handlers::Endpoint>& Handlers::table() {
  static const std::vector<Endpoint> endpoints = {
      {"POST", "/api/v1/jobs", {}, &Handlers::submit},
      {"GET", "/api/v1/jobs", {"state", "owner", "before", "limit"}, &Handlers::list_jobs},
      {"GET", "/api/v1/jobs/{id}", {"follow"}, &Handlers::get_job},
      {"GET", "/api/v1/jobs/{id}/tasks", {}, &Handlers::tasks},
      {"POST", "/api/v1/jobs/{id}/kill", {}, &Handlers::kill},
      {"POST", "/api/v1/jobs/{id}/hold", {}, &Handlers::hold},
      {"POST", "/api/v1/jobs/{id}/release", {}, &Handlers::release},
      {"POST", "/api/v1/jobs/{id}/requeue", {}, &Handlers::requeue},
      {"GET", "/api/v1/jobs/{id}/why", {}, &Handlers::why},
      {"GET",
       "/api/v1/jobs/{id}/logs",
       {"follow", "role", "rank", "stream", "generation", "from", "tail"},
       &Handlers::job_logs},
      {"GET",
       "/api/v1/jobs/{id}/logs/{role}/{rank}/{stream}",
       {"follow", "generation", "offset"},
       &Handlers::log},
      {"GET", "/api/v1/events", {"after", "job", "limit", "follow"}, &Handlers::events},
      {"GET", "/api/v1/nodes", {}, &Handlers::nodes},
      {"POST", "/api/v1/nodes/{id}/revoke", {}, &Handlers::revoke},
      {"GET", "/api/v1/certificates", {}, &Handlers::certificates},
      {"POST", "/api/v1/join-tokens", {}, &Handlers::join_token},
      {"GET", "/api/v1/health", {}, &Handlers::health},
      {"GET", "/api/v1/version", {}, &Handlers::version},
      {"GET", "/metrics", {}, &Handlers::metrics},
      {"GET", "/openapi.json", {}, &Handlers::openapi},
  };
  return endpoints;
}

std::vector<std::string> Handlers::endpoints() {
  std::vector<std::string> out;
  for (const auto& endpoint : table())
    out.push_back(fmt::format("{} {}", endpoint.method, endpoint.path));
  return out;
}

Handlers::Handlers(Context context, MetricsSource& metrics, std::string version)
    : context_(std::move(context)), metrics_(metrics), version_(std::move(version)) {}

const Handlers::Endpoint* Handlers::find(const Target& target, std::string_view method,
                                         std::string* allow) {
  for (const Endpoint& endpoint : table()) {
    const auto pattern = parse_target(endpoint.path);
    if (pattern->segments.size() != target.segments.size()) continue;
    bool match = true;
    for (std::size_t i = 0; i < target.segments.size() && match; ++i)
      match = pattern->segments[i].starts_with('{') ? !target.segments[i].empty()
                                                    : pattern->segments[i] == target.segments[i];
    if (!match) continue;
    if (endpoint.method == method || (method == "HEAD" && endpoint.method == "GET"))
      return &endpoint;
    if (allow) allow->append(allow->empty() ? "" : ", ").append(endpoint.method);
  }
  return nullptr;
}

bool Handlers::host_allowed(std::string_view name) const {
  if (name.empty()) return false;
  if (name == context_.options.listen_address) return true;
  if (is_loopback(context_.options.listen_address) && (name == "localhost" || is_loopback(name)))
    return true;
  const auto& hosts = context_.options.allowed_hosts;
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return host_name(host) == name || host == name;
  });
}

std::optional<Response> Handlers::refuse(const Request& head) const {
  if (head.header_count("Host") != 1) return bad("exactly one Host header is needed");
  if (!host_allowed(host_name(*head.header("Host"))))
    return problem(421, Errc::kPermissionDenied, "this server does not answer for that Host");
  if (const auto origin = head.header("Origin");
      origin && (head.header_count("Origin") != 1 || !host_allowed(origin_host(*origin))))
    return problem(403, Errc::kPermissionDenied, "requests from that Origin are refused");
  const auto authorization = head.header("Authorization");
  if (!authorization || head.header_count("Authorization") != 1 ||
      !bearer_matches(*authorization, context_.options.bearer_token))
    return problem(401, Errc::kPermissionDenied,
                   "a valid bearer token is needed: Authorization: Bearer <token>");
  const auto target = parse_target(head.target);
  if (!target) return bad(target.error().context);
  std::string allow;
  const Endpoint* endpoint = find(*target, head.method, &allow);
  if (endpoint == nullptr) {
    if (allow.empty())
      return problem(404, Errc::kNotFound, "no such path; GET /openapi.json lists them");
    Response out =
        problem(405, Errc::kUnsupported,
                fmt::format("{} is not possible here; possible: {}", head.method, allow));
    out.headers.emplace_back("Allow", allow);
    return out;
  }
  for (const auto& [name, value] : target->query) {
    if (std::find(endpoint->params.begin(), endpoint->params.end(), name) != endpoint->params.end())
      continue;
    const std::string near = jobspec::nearest(name, endpoint->params);
    return bad(fmt::format("unknown parameter '{}'{}", name,
                           near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
  }
  if (head.method == "POST" && !syntax_of_content_type(head.header("Content-Type").value_or("")))
    return problem(
        415, Errc::kUnsupported,
        "Content-Type must be application/json (a job also application/toml or application/yaml)");
  return std::nullopt;
}

void Handlers::handle(const Request& request, Reply reply) {
  auto target = parse_target(request.target);
  const Endpoint* endpoint = target ? find(*target, request.method, nullptr) : nullptr;
  if (endpoint == nullptr) return reply(problem(404, Errc::kNotFound, "no such path"));
  Call call{.request = &request, .target = std::move(*target), .reply = std::move(reply)};
  const auto pattern = parse_target(endpoint->path);
  for (std::size_t i = 0; i < pattern->segments.size(); ++i)
    if (pattern->segments[i].starts_with('{')) call.args.push_back(call.target.segments[i]);
  call.reply = [this, began = std::chrono::steady_clock::now(),
                reply = std::move(call.reply)](Answer answer) {
    request_seconds_.add(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    reply(std::move(answer));
  };
  (this->*endpoint->handle)(std::move(call));
}

void Handlers::submit(Call call) {
  const auto syntax = syntax_of_content_type(call.request->header("Content-Type").value_or(""));
  const std::string key(call.request->header("Idempotency-Key").value_or(""));
  const std::size_t keys = call.request->header_count("Idempotency-Key");
  if (keys > 1 || (keys == 1 && key.empty()) || key.size() > 128 ||
      !std::all_of(key.begin(), key.end(), [](unsigned char c) { return c > 0x20 && c < 0x7F; }))
    return call.reply(bad("Idempotency-Key must be one of 1 to 128 visible ASCII characters"));
  auto spec =
      jobspec::parse_job(call.request->body, syntax.value_or(jobspec::Syntax::kJson), "body");
  if (!spec) return call.reply(problem(spec.error()));
  ask<cluster::SubmitAck>(
      std::move(call), cluster::SubmitJob{std::move(*spec), key},
      [](Call& c, cluster::SubmitAck& ack) {
        Response out = json_response(ack.existed ? 200 : 201,
                                     Json{{"id", to_string(ack.job)}, {"existed", ack.existed}});
        out.headers.emplace_back("Location", "/api/v1/jobs/" + to_string(ack.job));
        c.reply(std::move(out));
      });
}

void Handlers::list_jobs(Call call) {
  cluster::ListJobs list;
  if (const auto text = call.target.param("state")) {
    list.state = parse_state(*text);
    if (!list.state) return call.reply(bad("state must be one like RUNNING or FAILED"));
  }
  list.owner = call.target.param("owner").value_or("");
  if (const auto text = call.target.param("before")) {
    const auto id = parse_job_id(*text);
    if (!id) return call.reply(bad("before: " + id.error().context));
    list.before = *id;
  }
  if (!call.number("limit", list.limit, 1, kListMax)) return;
  ask<cluster::JobList>(std::move(call), std::move(list), [](Call& c, cluster::JobList& reply) {
    Json jobs = Json::array();
    for (const auto& job : reply.jobs) jobs.push_back(jobspec::to_json(job));
    c.reply(json_response(200, Json{{"jobs", std::move(jobs)}}));
  });
}

void Handlers::get_job(Call call) {
  const auto id = call.job();
  if (!id) return;
  const bool follow = truthy(call.target.param("follow"));
  ask<cluster::JobView>(std::move(call), cluster::GetJob{*id},
                        [this, follow](Call& c, cluster::JobView& view) {
                          if (!follow) return c.reply(json_response(200, jobspec::to_json(view)));
                          StreamStart start;
                          start.pump = std::make_shared<JobPump>(context_, std::move(view));
                          c.reply(std::move(start));
                        });
}

void Handlers::tasks(Call call) {
  const auto id = call.job();
  if (!id) return;
  ask<cluster::JobView>(std::move(call), cluster::GetJob{*id}, [](Call& c, cluster::JobView& view) {
    Json tasks = Json::array();
    for (const auto& task : view.tasks) tasks.push_back(jobspec::to_json(task));
    c.reply(json_response(200, Json{{"job", to_string(view.id)}, {"tasks", std::move(tasks)}}));
  });
}

/// The body of kill, hold, release and requeue; nullopt when it was wrong, and the call is
/// answered.
std::optional<Handlers::Order> Handlers::order(Call& call, bool with_hold) {
  Order out;
  if (call.request->body.empty()) return out;
  const Json body = Json::parse(call.request->body, nullptr, false);
  bool ok = body.is_object();
  for (auto it = body.begin(); ok && it != body.end(); ++it) {
    if (it.key() == "reason" && it->is_string())
      out.reason = it->get<std::string>();
    else if (with_hold && it.key() == "hold" && it->is_boolean())
      out.hold = it->get<bool>();
    else
      ok = false;
  }
  if (!ok)
    return call.reply(bad(with_hold ? "the body is empty or {\"reason\": \"...\", \"hold\": true}"
                                    : "the body is empty or {\"reason\": \"...\"}")),
           std::nullopt;
  if (out.reason.size() > 1024) return call.reply(bad("reason may have 1024 bytes")), std::nullopt;
  return out;
}

void Handlers::kill(Call call) {
  const auto id = call.job();
  if (!id) return;
  const auto what = order(call, false);
  if (!what) return;
  ask<cluster::KillAck>(std::move(call), cluster::KillJob{*id, what->reason},
                        [id = *id](Call& c, cluster::KillAck& ack) {
                          Json body{{"id", to_string(id)}};
                          if (!ack.note.empty()) body["note"] = ack.note;
                          c.reply(json_response(202, body));
                        });
}

void Handlers::hold_or_release(Call call, bool hold) {
  const auto id = call.job();
  if (!id) return;
  const auto what = order(call, false);
  if (!what) return;
  ask<cluster::JobAck>(std::move(call), cluster::HoldJob{*id, hold, what->reason},
                       [id = *id](Call& c, cluster::JobAck&) {
                         c.reply(json_response(200, Json{{"id", to_string(id)}}));
                       });
}

void Handlers::hold(Call call) { hold_or_release(std::move(call), true); }
void Handlers::release(Call call) { hold_or_release(std::move(call), false); }

void Handlers::requeue(Call call) {
  const auto id = call.job();
  if (!id) return;
  const auto what = order(call, true);
  if (!what) return;
  ask<cluster::JobAck>(std::move(call), cluster::RequeueJob{*id, what->hold, what->reason},
                       [id = *id](Call& c, cluster::JobAck&) {
                         c.reply(json_response(202, Json{{"id", to_string(id)}}));
                       });
}

void Handlers::why(Call call) {
  const auto id = call.job();
  if (!id) return;
  ask<cluster::WhyAnswer>(std::move(call), cluster::WhyJob{*id},
                          [](Call& c, cluster::WhyAnswer& answer) {
                            c.reply(json_response(200, jobspec::to_json(answer)));
                          });
}

void Handlers::job_logs(Call call) {
  const auto id = call.job();
  if (!id) return;
  LogFilter filter;
  filter.follow = truthy(call.target.param("follow"));
  filter.role = call.target.param("role").value_or("");
  std::uint32_t number = 0;
  if (!call.number("rank", number, 0, 65535)) return;
  if (call.target.param("rank")) filter.rank = number;
  if (!call.number("generation", number, 1, ~std::uint32_t{0})) return;
  if (call.target.param("generation")) filter.generation = number;
  if (const auto text = call.target.param("stream")) {
    filter.stream = parse_stream(*text);
    if (!filter.stream) return call.reply(bad("stream must be stdout or stderr"));
  }
  std::uint64_t tail = 0;
  if (!call.number("tail", tail, 0, ~std::uint64_t{0})) return;
  if (call.target.param("tail")) filter.tail_bytes = tail;
  if (const auto text = call.target.param("from")) {
    auto from = parse_from(*id, *text);
    if (!from) return call.reply(bad(from.error().context));
    filter.from = std::move(*from);
  }
  ask<cluster::JobView>(std::move(call), cluster::GetJob{*id},
                        [this, filter = std::move(filter)](Call& c, cluster::JobView& view) {
                          if (auto missing = no_such_rank(view, filter))
                            return c.reply(std::move(*missing));
                          StreamStart start;
                          start.pump =
                              std::make_shared<LogFollowPump>(context_, std::move(view), filter);
                          c.reply(std::move(start));
                        });
}

void Handlers::log(Call call) {
  const auto id = call.job();
  if (!id) return;
  const auto rank = parse_u64(call.args[2]);
  if (!rank || *rank > 65535)
    return call.reply(bad(fmt::format("'{}' is not a rank", call.args[2])));
  if (!parse_stream(call.args[3]))
    return call.reply(problem(404, Errc::kNotFound, "a log is stdout or stderr"));
  std::uint32_t generation = 0;
  std::uint64_t offset = 0;
  if (!call.number("generation", generation, 1, ~std::uint32_t{0})) return;
  if (!call.number("offset", offset, 0, ~std::uint64_t{0})) return;
  call.range = call.request->header("Range");
  call.last_event_id = call.request->header("Last-Event-ID");
  ask<cluster::JobView>(std::move(call), cluster::GetJob{*id},
                        [this](Call& c, cluster::JobView& view) { log_of(std::move(c), view); });
}

void Handlers::log_of(Call call, const cluster::JobView& view) {
  LogRef ref;
  ref.task = TaskId{.job = view.id,
                    .role = call.args[1],
                    .rank = static_cast<std::uint32_t>(*parse_u64(call.args[2])),
                    .generation = view.generation};
  ref.stream = *parse_stream(call.args[3]);
  if (!call.number("generation", ref.task.generation.value, 1, ~std::uint32_t{0})) return;
  const auto role = std::find_if(view.spec.roles.begin(), view.spec.roles.end(),
                                 [&](const auto& r) { return r.name == ref.task.role; });
  if (role == view.spec.roles.end() || ref.task.rank >= role->count_max)
    return call.reply(problem(
        404, Errc::kNotFound,
        fmt::format("{} has no rank {}/{}", to_string(view.id), ref.task.role, ref.task.rank)));

  if (truthy(call.target.param("follow"))) {
    std::uint64_t offset = 0;
    if (!call.number("offset", offset, 0, ~std::uint64_t{0}) ||
        !call.number("Last-Event-ID", call.last_event_id, offset, 0, ~std::uint64_t{0}))
      return;
    LogFilter filter{.role = ref.task.role,
                     .rank = ref.task.rank,
                     .stream = ref.stream,
                     .generation = ref.task.generation.value,
                     .from = {{ref, offset}},
                     .single = true};
    StreamStart start;
    start.pump = std::make_shared<LogFollowPump>(context_, view, std::move(filter));
    return call.reply(std::move(start));
  }

  LogSlice info;
  auto probe = context_.logs.read(ref.task, ref.stream, ~std::uint64_t{0}, 0);
  if (probe)
    info = std::move(*probe);
  else if (probe.error().code != Errc::kNotFound)
    return call.reply(problem(probe.error()));
  std::uint64_t begin = info.first, end = info.size;
  int status = 200;
  if (call.range) {
    const auto range = parse_range(*call.range);
    if (!range) return call.reply(bad(range.error().context));
    if (range->first)
      begin = std::max(begin, *range->first);
    else
      begin = std::max(begin, end - std::min(end, *range->last));
    if (range->first && range->last && *range->last < end) end = *range->last + 1;
    status = 206;
    if (begin >= end) {
      Response out = problem(416, Errc::kInvalidArgument,
                             fmt::format("bytes {} to {} are kept", info.first, info.size));
      out.headers.emplace_back("Content-Range", fmt::format("bytes */{}", info.size));
      return call.reply(std::move(out));
    }
  }
  StreamStart start;
  start.status = status;
  start.content_type = "application/octet-stream";
  start.content_length = end - begin;
  start.events = false;
  start.headers.emplace_back("Accept-Ranges", "bytes");
  start.headers.emplace_back("Dlrun-Log-First", std::to_string(info.first));
  start.headers.emplace_back("Dlrun-Log-Complete", info.complete ? "true" : "false");
  if (status == 206)
    start.headers.emplace_back("Content-Range",
                               fmt::format("bytes {}-{}/{}", begin, end - 1, info.size));
  start.pump = std::make_shared<LogBodyPump>(context_, ref, begin, end);
  call.reply(std::move(start));
}

void Handlers::events(Call call) {
  cluster::ListEvents list;
  if (!call.number("after", list.after, 0, ~std::uint64_t{0}) ||
      !call.number("limit", list.limit, 1, kListMax))
    return;
  if (const auto text = call.target.param("job")) {
    const auto id = parse_job_id(*text);
    if (!id) return call.reply(bad("job: " + id.error().context));
    list.job = *id;
  }
  if (truthy(call.target.param("follow")) ||
      call.request->header("Accept").value_or("") == "text/event-stream") {
    if (const auto last = call.request->header("Last-Event-ID")) {
      const auto value = parse_u64(*last);
      if (!value) return call.reply(bad("Last-Event-ID: " + value.error().context));
      list.after = *value;
    }
    StreamStart start;
    start.pump = std::make_shared<EventsPump>(context_, list.job, list.after);
    return call.reply(std::move(start));
  }
  ask<cluster::EventList>(std::move(call), list, [](Call& c, cluster::EventList& reply) {
    Json events = Json::array();
    for (const auto& event : reply.events) events.push_back(jobspec::to_json(event));
    c.reply(json_response(200, Json{{"events", std::move(events)}, {"last", reply.last}}));
  });
}

void Handlers::nodes(Call call) {
  ask<cluster::NodeList>(std::move(call), cluster::ListNodes{},
                         [](Call& c, cluster::NodeList& reply) {
                           Json nodes = Json::array();
                           for (const auto& node : reply.nodes)
                             nodes.push_back(jobspec::to_json(node));
                           c.reply(json_response(200, Json{{"nodes", std::move(nodes)}}));
                         });
}

void Handlers::health(Call call) {
  ask<cluster::Health>(std::move(call), cluster::GetHealth{}, [](Call& c, cluster::Health& health) {
    c.reply(json_response(200, jobspec::to_json(health)));
  });
}

void Handlers::version(Call call) {
  call.reply(json_response(200, Json{{"version", version_}, {"api", "v1"}}));
}

void Handlers::metrics(Call call) {
  context_.ask(cluster::GetHealth{}, [this, call = std::move(call)](
                                         Result<cluster::ApiReply> health) mutable {
    context_.ask(cluster::ListNodes{}, [this, call = std::move(call), health = std::move(health)](
                                           Result<cluster::ApiReply> nodes) mutable {
      std::vector<Metric> all = metrics_.collect();
      add_control_metrics(health ? std::get_if<cluster::Health>(&*health) : nullptr,
                          nodes ? std::get_if<cluster::NodeList>(&*nodes) : nullptr, all);
      add_own_metrics(all);
      Response out;
      out.content_type = "text/plain; version=0.0.4; charset=utf-8";
      out.body = prometheus_text(all);
      call.reply(std::move(out));
    });
  });
}

void Handlers::add_own_metrics(std::vector<Metric>& all) {
  const auto gauge = [&](const char* name, const char* help, double value) {
    all.push_back({.name = name, .help = help, .samples = {{.labels = {}, .value = value}}});
  };
  if (gauges_) {
    const auto [connections, streams] = gauges_();
    gauge("dlrun_http_connections", "Open connections of the REST server.",
          static_cast<double>(connections));
    gauge("dlrun_http_streams", "Event streams among them.", static_cast<double>(streams));
  }
  Metric answers{.name = "dlrun_http_responses_total",
                 .help = "Responses of the REST server by status.",
                 .counter = true};
  for (const auto& [status, n] : answers_)
    answers.samples.push_back({{{"status", std::to_string(status)}}, static_cast<double>(n)});
  all.push_back(std::move(answers));
  all.push_back({.name = "dlrun_http_request_seconds",
                 .help = "From a whole request to its answer, or to the start of its stream.",
                 .histogram = {request_seconds_.values()}});
}

void Handlers::openapi(Call call) {
  Response out;
  out.body = std::string(kOpenApi);
  call.reply(std::move(out));
}

}  // namespace dlrun::web

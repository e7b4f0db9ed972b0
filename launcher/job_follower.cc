#include "launcher/job_follower.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/jobspec/json.h"
#include "runtime/jobspec/units.h"

namespace dlrun::launcher {
namespace {

using SteadyClock = std::chrono::steady_clock;
using nlohmann::json;

constexpr Duration kWhyAfter = std::chrono::seconds(2);
// a longer request line would be refused; offsets keep it right without it
constexpr std::size_t kFromBytesMax = 20u << 10;

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Reads "…T12:34:56.123456789Z" pairs only to tell a difference of seconds.
double seconds_between(const std::string& from, const std::string& to) {
  const auto parse = [](const std::string& text) {
    std::tm utc{};
    double seconds = 0;
    if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%lf", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
                    &utc.tm_hour, &utc.tm_min, &seconds) != 6)
      return -1.0;
    utc.tm_year -= 1900, --utc.tm_mon;
    return static_cast<double>(timegm(&utc)) + seconds;
  };
  const double a = parse(from), b = parse(to);
  return a < 0 || b < a ? -1 : b - a;
}

std::string where(const json& view) {
  std::map<std::string, std::pair<int, std::set<std::string>>> roles;
  for (const auto& task : view.value("tasks", json::array())) {
    auto& [count, nodes] = roles[text_of(task, "role")];
    ++count;
    if (const std::string node = text_of(task, "node"); !node.empty()) nodes.insert(node);
  }
  std::string out;
  for (const auto& [role, placed] : roles) {
    const auto& [count, nodes] = placed;
    out += fmt::format("{}{}{}", out.empty() ? "" : "; ", role,
                       count > 1 ? fmt::format(" x{}", count) : "");
    if (nodes.empty()) continue;
    std::vector<std::string> some(nodes.begin(), nodes.end());
    const std::size_t more = some.size() > 4 ? some.size() - 4 : 0;
    some.resize(some.size() - more);
    out += fmt::format(" on {}{}", fmt::join(some, ", "),
                       more > 0 ? fmt::format(" and {} more", more) : "");
  }
  return out;
}

}  // namespace

std::string describe_job(const std::string& view_json) {
  const json view = json::parse(view_json, nullptr, false);
  if (!view.is_object()) return "unreadable job";
  const std::string state = text_of(view, "state");
  std::string out = fmt::format("{} {}", text_of(view, "id"), state);
  if (!view.value("final", false)) {
    const std::string places = where(view);
    if (view.value("generation", 0) > 1)
      out += fmt::format(" (start {})", view.value("generation", 0));
    if (const std::string reason = text_of(view, "reason"); state == "PENDING" && !reason.empty())
      out += ": " + reason;  // of the last start
    return (state == "RUNNING" || state == "STARTING") && !places.empty() ? out + ": " + places
                                                                          : out;
  }
  const double seconds = seconds_between(text_of(view, "started"), text_of(view, "ended"));
  if (seconds >= 0)
    out += " after " + jobspec::format_duration(Duration(static_cast<std::int64_t>(seconds * 1e9)));
  if (state == "SUCCEEDED") return out;
  const std::string reason = text_of(view, "reason");
  if (!reason.empty()) out += ": " + reason;
  const std::string first = text_of(view, "first_failed");
  if (!first.empty()) out += fmt::format("; first failed {}", first.substr(first.find(':') + 1));
  if (view["exit_code"].is_number_integer())
    out += fmt::format(" (exit code {})", view["exit_code"].get<int>());
  return out;
}

JobFollower::JobFollower(const World& world, RestClient& client, std::string job,
                         FollowOptions options)
    : world_(world),
      client_(client),
      job_(std::move(job)),
      options_(std::move(options)),
      printer_(world, OutputStyle::kRaw, false, false),
      status_(world, options_.quiet || !options_.states) {}

std::string JobFollower::log_target() const {
  std::string out =
      fmt::format("/api/v1/jobs/{}/logs?follow={}", url_encode(job_), options_.follow ? 1 : 0);
  if (!options_.role.empty()) out += "&role=" + url_encode(options_.role);
  if (options_.rank >= 0) out += fmt::format("&rank={}", options_.rank);
  if (!options_.stream.empty()) out += "&stream=" + options_.stream;
  if (options_.tail >= 0 && offsets_.empty()) out += fmt::format("&tail={}", options_.tail);
  std::string from;
  for (const auto& [key, offset] : offsets_)
    from += (from.empty() ? "" : ",") + url_encode(key) + ":" + std::to_string(offset);
  if (!from.empty() && from.size() < kFromBytesMax) out += "&from=" + from;
  return out;
}

void JobFollower::say(const std::string& text, bool now) {
  const bool mid_line = world_.err_tty && world_.out_tty && !printer_.at_line_start();
  if (mid_line && !now) return void(waiting_line_ = text);
  if (mid_line && !options_.quiet) world_.err("\n");
  waiting_line_.clear();
  status_.say(text);
}

void JobFollower::say_what_waits() {
  if (waiting_line_.empty() || !printer_.at_line_start()) return;
  status_.say(std::exchange(waiting_line_, {}));
}

void JobFollower::on_log(const SseEvent& event) {
  if (event.name == "end") return void(logs_over_ = true);
  json data = json::parse(event.data, nullptr, false);
  if (!data.is_object()) return;
  const std::string role = text_of(data, "role"), stream = text_of(data, "stream");
  const auto rank = data.value("rank", 0u), generation = data.value("generation", 0u);
  const std::string key = fmt::format("{}/{}#{}/{}", role, rank, generation, stream);
  if (options_.json_logs && (event.name == "gap" || event.name == "log") && !gone_) {
    data["event"] = event.name;
    if (!world_.out(jobspec::dump(data) + "\n")) gone_ = true;
  }
  if (event.name == "gap") {
    const auto from = data.value("from", std::uint64_t{0}), to = data.value("to", std::uint64_t{0});
    offsets_[key] = std::max(offsets_[key], to);
    say(fmt::format("{} {}: {} of output are no longer kept", role, rank,
                    jobspec::format_size(to - std::min(from, to))));
    return;
  }
  if (event.name != "log") return;
  auto bytes = jobspec::base64_decode(text_of(data, "bytes"));
  if (!bytes) return;
  const auto offset = data.value("offset", std::uint64_t{0});
  const auto known = offsets_.find(key);
  const std::uint64_t next = known == offsets_.end() ? offset : known->second;
  offsets_[key] = std::max(next, offset + bytes->size());
  if (offset + bytes->size() <= next) return;
  const std::string_view fresh = std::string_view(*bytes).substr(offset < next ? next - offset : 0);
  if (gone_ || options_.json_logs || (!options_.shard_logs && shard_roles_[role])) return;
  status_.hide();
  if (!printer_.print(role, rank, generation, stream == "stderr", fresh)) gone_ = true;
  say_what_waits();
}

void JobFollower::show_state(const std::string& view_json) {
  const json view = json::parse(view_json, nullptr, false);
  if (!view.is_object()) return;
  if (!style_known_) {
    // One rank is raw; of several, each line says whose it is.
    style_known_ = true;
    std::uint64_t ranks = 0;
    const json spec = view.value("spec", json::object());
    const json roles = spec.value("role", json::object());
    for (const auto& [name, role] : roles.items()) {
      const bool shard = text_of(role, "program") == "shard-host";
      shard_roles_[name] = shard;
      if ((shard && !options_.shard_logs) || (!options_.role.empty() && options_.role != name))
        continue;
      std::uint64_t count = 1;
      if (role.contains("count") && role["count"].is_number_unsigned())
        count = role["count"].get<std::uint64_t>();
      else if (role.contains("count") && role["count"].is_string())
        count = 2;
      ranks += options_.rank >= 0 ? 1 : count;
    }
    const bool prefixed = ranks > 1 && !options_.raw;
    const bool filter = !options_.raw && (options_.filter || prefixed);
    printer_ = LogPrinter(world_, prefixed ? OutputStyle::kPrefixed : OutputStyle::kRaw,
                          filter && world_.out_tty, filter && world_.err_tty);
  }
  const std::string state = text_of(view, "state") + std::to_string(view.value("generation", 0));
  if (state != state_) {
    state_ = state;
    if (options_.json && options_.states && !options_.quiet)
      world_.err(view_json + "\n");
    else if (!view.value("final", false))
      say(describe_job(view_json));
  }
  if (view.contains("progress") && view["progress"].is_number() && !options_.json &&
      options_.states && (!view.value("final", false) || !world_.err_tty))
    status_.progress(view["progress"].get<double>(), text_of(view, "progress_text"),
                     printer_.at_line_start());
  if (view.value("final", false) && view["exit_code"].is_number_integer())
    exit_code_ = view["exit_code"].get<int>();
}

void JobFollower::on_job(const SseEvent& event) {
  if (event.name == "end") job_over_ = true;
  if (event.name == "error") {
    const json problem = json::parse(event.data, nullptr, false);
    if (problem.is_object() && text_of(problem, "code") == "kNotFound") {
      failed_ = true;
      error_ = {Errc::kNotFound, text_of(problem, "detail")};
    }
  }
  if (event.name != "job") return;
  last_view_ = event.data;
  show_state(event.data);
}

void JobFollower::say_why() {
  const auto body = client_.call({.target = "/api/v1/jobs/" + url_encode(job_) + "/why"});
  const json why = body ? json::parse(*body, nullptr, false) : json();
  if (!why.is_object()) return;
  status_.say(fmt::format("{} waits: {}", job_, text_of(why, "summary")));
  for (const auto& line : why.value("lines", json::array()))
    status_.say(fmt::format("  {}: {} of {} nodes: {}", text_of(line, "constraint"),
                            line.value("nodes_failing", 0), line.value("nodes_total", 0),
                            text_of(line, "detail")));
}

Result<bool> JobFollower::on_interrupt() {
  char what = 0;
  if (::read(world_.interrupt_fd, &what, 1) != 1) return false;
  if (!options_.kill_on_interrupt) return true;
  if (killing_) return true;
  const bool ctrl_c = what == 'I';  // only a person at a terminal is asked
  if (ctrl_c && !std::exchange(asked_, true)) {
    say(fmt::format("Ctrl-C again to kill the job {}", job_), true);
    return false;
  }
  killing_ = true;
  const std::string cause = ctrl_c        ? "Ctrl-C"
                            : what == 'T' ? "SIGTERM"
                                          : "SIGHUP (its terminal is gone)";
  say(ctrl_c ? fmt::format("killing {}; once more to leave without waiting", job_)
             : fmt::format("{}: killing {}", cause, job_),
      true);
  const auto killed =
      client_.call({.method = "POST",
                    .target = "/api/v1/jobs/" + url_encode(job_) + "/kill",
                    .body = jobspec::dump(jobspec::Json{{"reason", cause + " in dlrun run"}})});
  if (!killed && killed.error().code != Errc::kFailedPrecondition)
    say("kill: " + killed.error().context, true);
  return false;
}

Result<int> JobFollower::run() {
  // The first view by a plain question: an unknown job is told at once, and the style is known
  // before the first byte.
  DLRUN_ASSIGN(const std::string first,
               client_.call({.target = "/api/v1/jobs/" + url_encode(job_)}));
  last_view_ = first;
  while (last_view_.ends_with('\n')) last_view_.pop_back();
  if (options_.states || options_.logs) show_state(last_view_);
  const json view = json::parse(last_view_, nullptr, false);
  if (view.is_object() && view.value("final", false)) {
    job_over_ = true;
    show_state(last_view_);
  }
  if (options_.follow && !job_over_)
    client_.follow({.target = [this] { return "/api/v1/jobs/" + url_encode(job_) + "?follow=1"; },
                    .on_event = [this](const SseEvent& e) { on_job(e); },
                    .finished = [this] { return job_over_; }});
  if (!options_.follow) job_over_ = true;
  if (options_.logs)
    client_.follow({.target = [this] { return log_target(); },
                    .on_event = [this](const SseEvent& e) { on_log(e); },
                    .finished = [this] { return logs_over_; }});
  else
    logs_over_ = true;

  const auto begin = SteadyClock::now();
  bool why_said = !options_.states || options_.quiet || options_.json;
  while (!(job_over_ && logs_over_)) {
    const auto waited = SteadyClock::now() - begin;
    if (options_.limit.count() > 0 && waited > options_.limit) return kTimedOut;
    if (!why_said && waited > kWhyAfter) {
      why_said = true;
      if (state_.starts_with("PENDING") || state_.starts_with("HELD")) say_why();
    }
    Duration wait =
        why_said ? std::chrono::seconds(10) : std::chrono::duration_cast<Duration>(kWhyAfter);
    if (options_.limit.count() > 0)
      wait = std::min<Duration>(
          wait, std::max<Duration>(options_.limit - waited, std::chrono::milliseconds(1)));
    DLRUN_ASSIGN(const bool interrupted, client_.pump(wait, world_.interrupt_fd));
    if (failed_) return tl::unexpected(error_);
    if (interrupted) {
      DLRUN_ASSIGN(const bool leave, on_interrupt());
      if (leave) {
        printer_.flush();
        return 130;
      }
    }
    if (gone_ && !options_.kill_on_interrupt) return 141;  // as SIGPIPE would have ended a program
  }
  printer_.flush();
  status_.hide();
  if (!options_.follow) return kOk;
  if (!options_.json) say(describe_job(last_view_), true);
  // Who wants none of our lines wants to know all the same why it failed.
  if (options_.quiet && exit_code_ != 0) {
    if (world_.err_tty && world_.out_tty && !printer_.at_line_start()) world_.err("\n");
    world_.err(options_.json ? last_view_ + "\n"
                             : "dlrun: " + harmless(describe_job(last_view_)) + "\n");
  }
  return exit_code_;
}

}  // namespace dlrun::launcher

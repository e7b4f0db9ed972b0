// Commands that show: jobs, nodes, events.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/command_cluster.h"
#include "launcher/job_follower.h"
#include "launcher/terminal.h"
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

std::string job_path(const std::string& job) { return "/api/v1/jobs/" + url_encode(job); }

std::string percent(const json& progress) {
  return progress.is_number() ? fmt::format("{:.0f} %", progress.get<double>() * 100) : "-";
}

std::string event_line(const json& event) {
  return fmt::format("{} {} {} {} {}\n", text_of(event, "sequence"), short_time(event, "at"),
                     text_of(event, "job"), text_of(event, "kind"), text_of(event, "text"));
}

}  // namespace

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

int Commands::events(const EventFlags& flags) {
  auto cluster = Cluster::open(world_);
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

}  // namespace dlrun::launcher

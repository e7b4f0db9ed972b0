// Commands about this machine alone: its cluster, a job file, the version.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "launcher/commands.h"
#include "launcher/local_cluster.h"
#include "launcher/rest_client.h"
#include "launcher/terminal.h"
#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "runtime/jobspec/units.h"

namespace dlrun::launcher {

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
  if (const std::string line = join_line(world_); !line.empty() && flags.listen.empty())
    world_.out("another agent on this machine: " + line +
               "\nother machines can join when it listens where they reach it: dlrun up --listen "
               "ADDRESS\n");
  else if (!line.empty())
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

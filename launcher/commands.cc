// What the commands share: the cluster they talk to, questions, errors and exit codes.
#include "launcher/commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launcher/command_cluster.h"
#include "launcher/terminal.h"
#include "runtime/jobspec/json.h"

namespace dlrun::launcher {

Result<std::unique_ptr<Commands::Cluster>> Commands::Cluster::open(
    const World& world, std::uint32_t nodes, std::int64_t cpu_milli, std::int64_t memory,
    const std::function<void(std::string)>& say) {
  auto out = std::unique_ptr<Cluster>(new Cluster);
  std::string folder = world.home;
  const auto configured = read_cluster_info(world.home);
  if (!configured && configured.error().code != Errc::kNotFound)
    return tl::unexpected(configured.error());
  if (configured && standing_is_stale(world)) DLRUN_TRY(standing_stands(world));
  if (!configured) {
    if (nodes == 0 && ::access(coordinator_folder(world).c_str(), F_OK) != 0)
      return fail(Errc::kNotFound, fmt::format("no cluster: {}/cluster.json does not exist, and "
                                               "nothing ran here yet (dlrun up, or dlrun run)",
                                               world.home));
    if (nodes > 0)
      say("no cluster is configured: bringing up one on this machine for the length of the job");
    auto embedded = EmbeddedCluster::start(
        world, {.nodes = nodes, .cpu_milli = cpu_milli, .memory_bytes = memory});
    if (!embedded && embedded.error().code == Errc::kAlreadyExists)
      return open(world, nodes, cpu_milli, memory, say);
    if (!embedded) return tl::unexpected(embedded.error());
    out->embedded_ = std::move(*embedded);
    folder = coordinator_folder(world);
  }
  out->client_ = std::make_unique<RestClient>([folder] { return read_cluster_info(folder); },
                                              [&world, embedded = out->embedded_.get()] {
                                                return embedded != nullptr ? embedded->stands()
                                                                           : standing_stands(world);
                                              });
  return out;
}

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

int Commands::ask(const std::string& target,
                  const std::function<std::string(const std::string&)>& show) {
  auto cluster = Cluster::open(world_);
  if (!cluster) return fail_with(cluster.error());
  const auto body = (*cluster)->client().call({.target = target});
  if (!body) return fail_with(body.error());
  if (common_.json) return print_json(*body), kOk;
  try {
    world_.out(harmless(show(*body)));
  } catch (const nlohmann::json::exception& error) {
    return fail_with(
        {Errc::kInternal, std::string("the server's answer makes no sense: ") + error.what()});
  }
  return kOk;
}

}  // namespace dlrun::launcher

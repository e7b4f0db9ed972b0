#pragma once
/// launcher/command_cluster.h: the cluster that a command talks to: the configured one, or an
/// embedded one for as long as this lives. Private to the files of Commands.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/commands.h"
#include "launcher/local_cluster.h"
#include "launcher/rest_client.h"

namespace dlrun::launcher {

class Commands::Cluster {
 public:
  /// `nodes` 0: a question about what was: a coordinator alone will do. kNotFound when there is
  /// nothing to ask. `say` gets the line that an embedded cluster is brought up.
  static Result<std::unique_ptr<Cluster>> open(const World& world, std::uint32_t nodes,
                                               std::int64_t cpu_milli, std::int64_t memory,
                                               const std::function<void(std::string)>& say);
  /// Without nodes, silently.
  static Result<std::unique_ptr<Cluster>> open(const World& world) {
    return open(world, 0, 0, 0, [](std::string) {});
  }
  RestClient& client() { return *client_; }

 private:
  Cluster() = default;
  std::unique_ptr<EmbeddedCluster> embedded_;  // ends last
  std::unique_ptr<RestClient> client_;
};

}  // namespace dlrun::launcher

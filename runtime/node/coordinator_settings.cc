#include "runtime/node/coordinator_settings.h"

#include <CLI/CLI.hpp>

namespace dlrun::node {

std::variant<CoordinatorFlags, int> parse_coordinator_flags(int argc, char** argv) {
  CoordinatorFlags f;
  CLI::App app("The coordinator of a dlrun cluster: one per cluster.", "dlrun coordinator");
  app.add_option(
         "--data", f.data,
         "folder for the log, the keys and the files of the cluster; made (0700) when missing")
      ->required();
  app.add_option("--listen", f.listen, "literal address where agents connect")
      ->capture_default_str();
  app.add_option("--port", f.port, "port where agents register; 0 = as last time, or any free one")
      ->capture_default_str();
  app.add_option("--join-port", f.join_port,
                 "port where machines join; 0 = as last time, or any free one")
      ->capture_default_str();
  app.add_option("--rest", f.rest, "ADDRESS:PORT of the REST server; TLS beyond loopback")
      ->capture_default_str();
  app.add_option("--advertise", f.advertise,
                 "host name or address under which agents reach this machine");
  app.add_option("--rest-host", f.rest_hosts, "further host name under which REST is reached");
  app.add_option("--join-token-minutes", f.join_token_minutes,
                 "life of a join token; a new one is made before it ends")
      ->capture_default_str()
      ->check(CLI::Range(1, 60 * 24 * 7));
  app.add_option("--heartbeat-ms", f.heartbeat_ms, "how often an agent is heard")
      ->capture_default_str()
      ->check(CLI::Range(20, 60'000));
  app.add_option("--suspect-ms", f.suspect_ms, "not heard for so long: no new work")
      ->capture_default_str()
      ->check(CLI::Range(100, 600'000));
  app.add_option("--lost-ms", f.lost_ms, "not heard for so long: its tasks are lost")
      ->capture_default_str()
      ->check(CLI::Range(200, 3'600'000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return f;
}

}  // namespace dlrun::node

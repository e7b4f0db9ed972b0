#include "runtime/node/agent_settings.h"

#include <CLI/CLI.hpp>

namespace dlrun::node {

std::variant<AgentFlags, int> parse_agent_flags(int argc, char** argv) {
  AgentFlags f;
  std::vector<std::string> labels;
  CLI::App app("The agent of a dlrun cluster: one per machine.", "dlrun agent");
  app.add_option("--data", f.data, "folder for keys and tasks; made (0700) when missing")
      ->required();
  app.add_option("--join", f.join, "HOST:PORT of the coordinator's join line; needed once");
  app.add_option("--token-file", f.token_file, "file with the join token");
  app.add_option("--ca-fingerprint", f.ca_fingerprint, "sha256:... of the join line");
  app.add_option("--name", f.name, "name of the node; default: the host name");
  app.add_option("--cpus", f.cpus, "CPUs to offer; default: those of the machine")
      ->check(CLI::Range(0.0, 100'000.0));
  app.add_option("--memory", f.memory_bytes,
                 "bytes of memory to offer; default: that of the machine")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--ports", f.ports, "ports to lease to tasks, outside the kernel's own range")
      ->capture_default_str();
  app.add_option("--labels", labels, "key=value, repeated or separated by commas")->delimiter(',');
  app.add_option("--gpus", f.gpus, "auto: those that the driver lists; none")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "none"}));
  app.add_flag("--tasks-as-root", f.tasks_as_root,
               "a root agent of a coordinator beyond loopback runs tasks as root");
  try {
    app.parse(argc, argv);
    for (const std::string& label : labels) {
      const auto equals = label.find('=');
      if (equals == std::string::npos || equals == 0)
        throw CLI::ValidationError("--labels", "\"" + label + "\" is not key=value");
      f.labels[label.substr(0, equals)] = label.substr(equals + 1);
    }
    if (!f.join.empty() && (f.token_file.empty() || f.ca_fingerprint.empty()))
      throw CLI::ValidationError("--join", "wants --token-file and --ca-fingerprint too");
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return f;
}

}  // namespace dlrun::node

#include "runtime/node/agent_settings.h"

#include <cstdio>

namespace dlrun::node {
namespace {

constexpr const char* kExamples =
    "  dlrun agent --join 10.0.0.1:7441 --token-file join.token --ca-fingerprint sha256:1f2e...\n"
    "  dlrun agent                                   a machine that has joined before\n"
    "  dlrun agent --cpus 8 --memory 32GiB --labels disk=ssd --ports 20000-20999\n";

}  // namespace

std::vector<Setting> agent_settings(AgentFlags& f) {
  return {
      text_setting("data", &f.data,
                   "folder for keys and tasks; made (0700) when missing; none: $DLRUN_HOME/agent, "
                   "else /var/lib/dlrun/agent (root) or ~/.dlrun/agent"),
      text_setting("join", &f.join, "HOST:PORT of the coordinator's join line; needed once"),
      text_setting("token-file", &f.token_file, "file with the join token"),
      text_setting("ca-fingerprint", &f.ca_fingerprint, "sha256:... of the join line"),
      text_setting("name", &f.name, "name of the node; none: the host name"),
      number_setting("cpus", &f.cpus, 0, 100'000, "cores",
                     "CPUs to offer; 0: those of the machine"),
      bytes_setting("memory", &f.memory_bytes, std::int64_t{1} << 20, std::int64_t{1} << 50,
                    "memory to offer; none: that of the machine"),
      text_setting("ports", &f.ports, "ports to lease to tasks, outside the kernel's own range"),
      labels_setting("labels", &f.labels, "what jobs may ask of their nodes"),
      choice_setting("gpus", &f.gpus, {"auto", "none"}, "auto: those that the driver lists"),
      flag_setting("tasks-as-root", &f.tasks_as_root,
                   "a root agent of a coordinator beyond loopback runs tasks as root"),
  };
}

std::variant<AgentFlags, int> parse_agent_flags(int argc, char** argv,
                                                const std::string& default_data) {
  AgentFlags flags;
  const auto code =
      take_command_line("dlrun agent", "The agent of a dlrun cluster: one per machine.",
                        agent_settings(flags), kExamples, argc, argv);
  if (code) return *code;
  if (flags.data.empty()) flags.data = default_data;
  if (!flags.join.empty() && (flags.token_file.empty() || flags.ca_fingerprint.empty())) {
    std::fputs("dlrun agent: --join wants --token-file and --ca-fingerprint too\n", stderr);
    return 2;
  }
  return flags;
}

}  // namespace dlrun::node

#pragma once
/// runtime/node/agent_settings.h: the command line of `dlrun agent`.

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace dlrun::node {

struct AgentFlags {
  std::string data;
  std::string join;  ///< HOST:PORT; "" = has joined before
  std::string token_file;
  std::string ca_fingerprint;
  std::string name;               ///< "" = the host name
  double cpus = 0;                ///< 0 = those of the machine
  std::int64_t memory_bytes = 0;  ///< 0 = that of the machine
  std::string ports = "20000-20999";
  std::map<std::string, std::string> labels;
  std::string gpus = "auto";  ///< auto | none
  bool tasks_as_root = false;
};

/// The flags, or the exit code of --help and of wrong usage.
std::variant<AgentFlags, int> parse_agent_flags(int argc, char** argv);

}  // namespace dlrun::node

#pragma once
/// runtime/node/agent_settings.h: what can be set of `dlrun agent` (docs/settings.md is made from
/// the same table).

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "runtime/node/settings.h"

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

/// Bound to `flags`, whose values are the defaults.
std::vector<Setting> agent_settings(AgentFlags& flags);

/// The flags, or the exit code of --help and of wrong usage. `default_data`: of --data.
std::variant<AgentFlags, int> parse_agent_flags(int argc, char** argv,
                                                const std::string& default_data);

}  // namespace dlrun::node

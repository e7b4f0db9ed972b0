#pragma once
/// runtime/node/coordinator_settings.h: the command line of `dlrun coordinator`.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/time.h"

namespace dlrun::node {

struct CoordinatorFlags {
  std::string data;
  std::string listen = "127.0.0.1";  ///< literal address of the cluster, join and log ports
  std::uint16_t port = 0;  ///< agents register here; 0 = the port of the last run, or any free one
  std::uint16_t join_port = 0;       ///< same
  std::string rest = "127.0.0.1:0";  ///< ADDR:PORT
  std::string
      advertise;  ///< host that agents use; "" = the listen address, or of the outgoing route
  std::vector<std::string> rest_hosts;  ///< further names in Host and Origin
  std::int64_t join_token_minutes = 60;
  std::int64_t heartbeat_ms = 2000;
  std::int64_t suspect_ms = 10'000;
  std::int64_t lost_ms = 30'000;
};

/// The flags, or the exit code of --help and of wrong usage.
std::variant<CoordinatorFlags, int> parse_coordinator_flags(int argc, char** argv);

}  // namespace dlrun::node

#pragma once
/// runtime/node/coordinator_settings.h: what can be set of `dlrun coordinator` (docs/settings.md is
/// made from the same table).

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "runtime/node/settings.h"

namespace dlrun::node {

struct CoordinatorFlags {
  std::string data;
  std::string listen = "127.0.0.1";  ///< literal address of the cluster, join and log ports
  std::uint16_t port = 0;  ///< agents register here; 0 = the port of the last run, or any free one
  std::uint16_t join_port = 0;       ///< same
  std::uint16_t log_port = 0;        ///< same
  std::string rest = "127.0.0.1:0";  ///< ADDR:PORT
  /// host that agents use; "" = the listen address, or of the outgoing route
  std::string advertise;
  std::vector<std::string> rest_hosts;  ///< further names in Host and Origin
  std::int64_t join_token_minutes = 60;
  std::int64_t certificate_life_s = 90 * 86'400;
  std::int64_t heartbeat_ms = 2000;
  std::int64_t suspect_ms = 10'000;
  std::int64_t lost_ms = 30'000;
  std::int64_t commit_stall_s = 1800;
  std::int64_t jobs_max = 10'000;
  std::int64_t retention_days = 30;
  std::int64_t log_job_bytes = std::int64_t{1} << 30;
  std::int64_t log_total_bytes = std::int64_t{16} << 30;
};

/// Bound to `flags`, whose values are the defaults.
std::vector<Setting> coordinator_settings(CoordinatorFlags& flags);

/// kInvalidArgument names two settings that contradict each other.
Status check_coordinator_flags(const CoordinatorFlags& flags);

/// The flags, or the exit code of --help and of wrong usage.
std::variant<CoordinatorFlags, int> parse_coordinator_flags(int argc, char** argv);

}  // namespace dlrun::node

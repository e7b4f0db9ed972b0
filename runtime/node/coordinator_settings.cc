#include "runtime/node/coordinator_settings.h"

#include <cstdio>

namespace dlrun::node {
namespace {

constexpr std::int64_t kLogBytesMin = std::int64_t{1} << 20;
constexpr std::int64_t kLogBytesMax = std::int64_t{1} << 50;

constexpr const char* kExamples =
    "  dlrun coordinator --data ~/cluster\n"
    "  dlrun coordinator --data /var/lib/dlrun/coordinator --listen 10.0.0.1 --rest "
    "10.0.0.1:7443\n";

}  // namespace

std::vector<Setting> coordinator_settings(CoordinatorFlags& f) {
  return {
      required_setting(
          "data", &f.data,
          "folder for the log, the keys and the files of the cluster; made (0700) when missing"),
      address_setting("listen", &f.listen,
                      "literal address where agents connect, join and ship logs"),
      port_setting("port", &f.port,
                   "port where agents register; 0 = as last time, or any free one"),
      port_setting("join-port", &f.join_port,
                   "port where machines join; 0 = as last time, or any free one"),
      port_setting("log-port", &f.log_port,
                   "port where agents ship logs; 0 = as last time, or any free one"),
      endpoint_setting("rest", &f.rest, "of the REST server; TLS beyond loopback"),
      text_setting("advertise", &f.advertise,
                   "host name or address under which agents reach this machine; none: the listen "
                   "address, or that of the route out"),
      list_setting("rest-host", &f.rest_hosts, "further host name under which REST is reached"),
      whole_setting("join-token-minutes", &f.join_token_minutes, 1, 60 * 24 * 7, "min",
                    "life of a join token; a new one is made before it ends"),
      whole_setting("certificate-life-s", &f.certificate_life_s, 5, 10 * 365 * 86'400, "s",
                    "life of the certificates given out; renewed when a third of it is left"),
      whole_setting("heartbeat-ms", &f.heartbeat_ms, 20, 60'000, "ms",
                    "how often an agent is heard"),
      whole_setting("suspect-ms", &f.suspect_ms, 100, 600'000, "ms",
                    "a node not heard for so long gets no new work"),
      whole_setting("lost-ms", &f.lost_ms, 200, 3'600'000, "ms",
                    "a node not heard for so long is lost, and its tasks with it"),
      whole_setting("commit-stall-s", &f.commit_stall_s, 10, 7 * 86'400, "s",
                    "a job fails whose outputs take their places and do not get on for so long"),
      whole_setting("jobs-max", &f.jobs_max, 1, 1'000'000, "",
                    "jobs that wait or run; a submit beyond is refused"),
      whole_setting("retention-days", &f.retention_days, 1, 36'500, "days",
                    "how long finished jobs and their events are kept"),
      bytes_setting("log-job-bytes", &f.log_job_bytes, kLogBytesMin, kLogBytesMax,
                    "task output kept of one job"),
      bytes_setting("log-total-bytes", &f.log_total_bytes, kLogBytesMin, kLogBytesMax,
                    "task output kept in all"),
  };
}

Status check_coordinator_flags(const CoordinatorFlags& f) {
  const auto above = [](const char* name, std::int64_t value, const char* least_name,
                        std::int64_t least) -> Status {
    if (value > least) return {};
    return fail(Errc::kInvalidArgument, std::string("--") + name + " (" + std::to_string(value) +
                                            ") must be above --" + least_name + " (" +
                                            std::to_string(least) + ")");
  };
  DLRUN_TRY(above("suspect-ms", f.suspect_ms, "heartbeat-ms", f.heartbeat_ms));
  return above("lost-ms", f.lost_ms, "suspect-ms", f.suspect_ms);
}

std::variant<CoordinatorFlags, int> parse_coordinator_flags(int argc, char** argv) {
  CoordinatorFlags flags;
  const auto code =
      take_command_line("dlrun coordinator", "The coordinator of a dlrun cluster: one per cluster.",
                        coordinator_settings(flags), kExamples, argc, argv);
  if (code) return *code;
  if (const Status ok = check_coordinator_flags(flags); !ok) {
    std::fprintf(stderr, "dlrun coordinator: %s\n", ok.error().context.c_str());
    return 2;
  }
  return flags;
}

}  // namespace dlrun::node

#pragma once
/// launcher/job_follower.h: watches one job to its end: its state and its logs, live, on one
/// thread, without polling. Two event streams of REST feed it; each resumes where it was cut, and
/// bytes that come twice are dropped by their offset.

#include <cstdint>
#include <map>
#include <string>

#include "launcher/rest_client.h"
#include "launcher/terminal.h"
#include "launcher/world.h"

namespace dlrun::launcher {

struct FollowOptions {
  bool states = true;  ///< a line per change of state, and the progress bar
  bool logs = true;
  bool follow = true;      ///< false: the logs as they stand, then the end
  bool json = false;       ///< dlrun's own lines are the job as JSON, one a line
  bool quiet = false;      ///< none of dlrun's own lines, but the end of a job that failed
  bool json_logs = false;  ///< each piece of output as one JSON line on stdout, its bytes in base64
  bool shard_logs = false;  ///< of roles that run dlrun's own shard host
  bool raw = false;         ///< never filter, never prefix
  bool filter = false;      ///< make output harmless where it goes to a terminal
  bool kill_on_interrupt = false;
  Duration limit{0};         ///< 0 = none; then kTimedOut
  std::string role, stream;  ///< only these; "" = all
  int rank = -1;
  std::int64_t tail = -1;  ///< bytes before the end to begin at; -1 = from the start
};

class JobFollower {
 public:
  JobFollower(const World& world, RestClient& client, std::string job, FollowOptions options);
  /// The job's exit code once it is over; kTimedOut; or the error that made following impossible.
  Result<int> run();

 private:
  void on_job(const SseEvent& event);
  void on_log(const SseEvent& event);
  void show_state(const std::string& view_json);
  void say_why();
  /// A line of our own. Where the user's own line stands unfinished on the same terminal it waits,
  /// the latest only, or, when `now`, begins a line of its own.
  void say(const std::string& text, bool now = false);
  void say_what_waits();
  Result<bool> on_interrupt();  ///< true: leave now
  std::string log_target() const;

  const World& world_;
  RestClient& client_;
  std::string job_;
  FollowOptions options_;
  LogPrinter printer_;
  StatusLine status_;
  std::map<std::string, std::uint64_t> offsets_;  ///< "worker/0#1/stdout" -> next byte
  std::map<std::string, bool> shard_roles_;
  std::string state_, last_view_, waiting_line_;
  Error error_;
  bool job_over_ = false, logs_over_ = false, gone_ = false, style_known_ = false, failed_ = false;
  bool asked_ = false, killing_ = false;  ///< whether to kill the job; it is being killed
  int exit_code_ = kInternal;
};

/// One line for a person: "j12 RUNNING: worker x2 on node-0, node-1".
std::string describe_job(const std::string& view_json);

}  // namespace dlrun::launcher

#pragma once
/// launcher/local_cluster.h: clusters on this machine: the standing one of `dlrun up`, and the
/// embedded one that lives as long as a command needs it. Both are children of a *guardian* (`dlrun
/// local-guardian`), a process of its own session:
///
///   launcher --spawn--> guardian --spawn--> coordinator, agents (embedded: with PR_SET_PDEATHSIG)
///      | flock(users.lock,           | flock(users.lock, exclusive): got when the last user is
///      |       shared)               | gone, kill -9 included; then it
///      '--- REST --> coordinator     '--> kills what still runs, ends the agents, the coordinator
///                                         and itself
///
/// Folders: <home>/local/{users.lock, start.lock, guardian.json, guardian.log, coordinator/,
/// node-N/, *.log}. The data stays, so that list, show and logs answer later: they bring up the
/// coordinator alone.
/// Errors: kUnavailable with the end of the log of what did not start.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process.h"
#include "launcher/rest_client.h"
#include "launcher/world.h"

namespace dlrun::launcher {

/// How each line of the guardian's own begins in guardian.log, and its first.
inline constexpr std::string_view kGuardianSays = "dlrun guardian: ";
inline constexpr std::string_view kGuardianBegins = "begins";

struct LocalOptions {
  std::uint32_t nodes = 1;
  std::int64_t cpu_milli = 0;     ///< per node, virtual; 0 = what the machine has
  std::int64_t memory_bytes = 0;  ///< per node; 0 = a share of the machine's
  std::string listen;             ///< address of the ports for other machines; "" = loopback only
  bool tasks_as_root = false;     ///< a root agent beyond loopback wants to be told
  Duration start_limit = std::chrono::seconds(30);
};

std::string local_folder(const World& world);        ///< <home>/local
std::string coordinator_folder(const World& world);  ///< <home>/local/coordinator

/// First and last port of node `index` of `nodes`: outside the kernel's ephemeral range, apart for
/// each node, and at a place that depends on the folder, so that clusters of two users seldom meet.
std::pair<std::uint16_t, std::uint16_t> port_range(const std::string& folder, std::uint32_t index,
                                                   std::uint32_t nodes);

class EmbeddedCluster {
 public:
  /// Joins the one that another command brought up, or brings one up; returns when `nodes` agents
  /// are in. kAlreadyExists: there is a standing one by now.
  static Result<std::unique_ptr<EmbeddedCluster>> start(const World& world,
                                                        const LocalOptions& options);
  /// Leaves; when nobody else uses it, waits until its processes are gone.
  ~EmbeddedCluster();
  bool brought_up() const { return brought_up_; }
  /// kUnavailable when it has ended, though we use it: the coordinator or the guardian was killed.
  Status stands() const;

 private:
  EmbeddedCluster(FileLock users, ProcessMark guardian, std::string folder, bool brought_up);
  FileLock users_;
  ProcessMark guardian_;
  std::string folder_;
  bool brought_up_;
};

/// kAlreadyExists when one stands, kFailedPrecondition while an embedded one is in use.
Status start_standing(const World& world, const LocalOptions& options);
/// Ends it, and what it runs. kNotFound when none stands.
Status stop_standing(const World& world);
/// Whether <home>/cluster.json is of a standing local cluster whose guardian is gone.
bool standing_is_stale(const World& world);
/// kUnavailable when that is so, or about to be.
Status standing_stands(const World& world);
/// "dlrun agent --join ..." for other machines, from the coordinator's cluster.json; "" when it has
/// none.
std::string join_line(const World& world);

/// `dlrun local-guardian ...`: hidden; started by the two above only.
int guardian_main(const std::vector<std::string>& args, const World& world);

}  // namespace dlrun::launcher

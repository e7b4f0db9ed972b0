#pragma once
/// runtime/shim/spec.h: what the agent tells a shim, and what the shim leaves behind. Files of a
/// task directory:
///   spec   written by the agent before the shim starts
///   lock   flock'd by the shim as long as it lives
///   tree   written by the shim before the program starts: how to find the task's processes without
///          the shim
///   exit   written by the shim when the task's tree is empty; absent = it did not get there
///   shim.sock, shim.log, logs/<stream>.<offset, 20 digits>
/// Format of spec, tree, exit and of the socket's messages: magic "DLS1", u32 kind, then fields
/// {u16 tag, u16 0, u32 length, bytes}, then tag 0xffff with the CRC-32 of all before. Little
/// endian. Readers skip tags they don't know.
/// Units: ms, bytes. Strings hold any bytes (argv, cwd and env: any but NUL).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/os/files.h"

namespace dlrun::shim {

struct Rlimit {
  std::uint32_t resource = 0;  ///< RLIMIT_x
  std::uint64_t soft = 0, hard = 0;
  friend bool operator==(const Rlimit&, const Rlimit&) = default;
};

/// "nofile" for RLIMIT_NOFILE; nullopt for a name that a job cannot set.
std::optional<std::uint32_t> rlimit_of(std::string_view name);
std::string rlimit_name(std::uint32_t resource);  ///< "nofile"; its number when it has no name here

struct Spec {
  std::vector<std::string> argv;  ///< not empty; elements may be
  std::vector<std::string> env;   ///< complete: "NAME=value"; the shim adds DLRUN_MARK
  std::string cwd;                ///< "" = the task directory
  std::vector<Rlimit> rlimits;
  std::uint64_t memory_bytes = 0;          ///< 0 = no limit
  std::uint64_t time_limit_ms = 0;         ///< 0 = none
  std::uint64_t grace_ms = 30000;          ///< TERM to KILL at the time limit
  std::uint64_t leftover_grace_ms = 1000;  ///< TERM to KILL for processes that outlive the program
  /// after KILL: how long the tree may stay (uninterruptible processes)
  std::uint64_t give_up_ms = 30000;
  std::uint64_t log_segment_bytes = 16u << 20;
  std::uint64_t log_retained_bytes = 256u << 20;  ///< per stream; the oldest segments go
  /// random, not 0: names the cgroup and DLRUN_MARK; 0 = ShimClient chooses
  std::uint64_t mark = 0;
  bool no_new_privs = true;
  bool use_cgroup = true;  ///< false: best effort by subreaper and mark only
  friend bool operator==(const Spec&, const Spec&) = default;
};

/// The numbers are cluster::Cause's.
enum class EndCause : std::uint8_t {
  kNone = 0,
  kExit = 1,
  kSignal = 2,
  kOom = 3,
  kTimeLimit = 4,
  kUserKill = 5,
  kSibling = 6,
  kNodeLost = 7,
  kShimLost = 8,
  kStartFailed = 9,
  kPreempted = 10,
  kCoordinator = 11,
  kStopped = 12,
};

struct Exit {
  EndCause cause = EndCause::kNone;
  std::int32_t code = 0;
  std::int32_t signal = 0;
  std::uint64_t peak_bytes = 0;  ///< of the memory cgroup; without one, of the largest process
  std::uint64_t limit_bytes = 0;
  std::string detail;
  friend bool operator==(const Exit&, const Exit&) = default;
};

/// How the task's processes are found.
struct Tree {
  std::uint64_t mark = 0;
  std::vector<std::string> cgroups;  ///< paths; the first is the one that is killed
  std::string isolation;             ///< "cgroup v2", "cgroup v1", "best effort"
  std::string boot_id;               ///< another boot: nothing of it is left
  std::int64_t shim_pid = 0;         ///< valid while the lock is held
  friend bool operator==(const Tree&, const Tree&) = default;
};

enum class Phase : std::uint8_t { kStarting = 0, kRunning = 1, kStopping = 2, kEnded = 3 };

/// Shim -> agent, on connect and at each change.
struct Report {
  Phase phase = Phase::kStarting;
  std::int64_t pid = 0;  ///< of the program
  std::int64_t shim_pid = 0;
  std::string isolation;
  Exit exit;            ///< when kEnded
  std::string warning;  ///< what could not be done as the spec asks; "" = nothing
  friend bool operator==(const Report&, const Report&) = default;
};

/// Agent -> shim. A later, shorter grace shortens the wait; the first cause stays.
struct Command {
  enum class Kind : std::uint8_t { kStatus = 0, kStop = 1, kKill = 2 } kind = Kind::kStatus;
  std::uint64_t grace_ms = 0;
  EndCause cause = EndCause::kUserKill;
  friend bool operator==(const Command&, const Command&) = default;
};

std::string encode(const Spec&);
std::string encode(const Exit&);
std::string encode(const Tree&);
std::string encode(const Report&);
std::string encode(const Command&);
// kCorrupt names the field; kUnsupported for another kind or magic. Never reads outside `bytes`.
Result<Spec> decode_spec(std::string_view bytes);
Result<Exit> decode_exit(std::string_view bytes);
Result<Tree> decode_tree(std::string_view bytes);
Result<Report> decode_report(std::string_view bytes);
Result<Command> decode_command(std::string_view bytes);

inline constexpr std::size_t kSpecBytesMax = 32u << 20;

using os::read_file;
using os::write_file;

}  // namespace dlrun::shim

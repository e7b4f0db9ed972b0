#pragma once
/// runtime/task/msg.h: what a task's process and its agent say over the per-task Unix socket
/// (runtime/wire/task.capnp). Client = the process (user program through libdlrun, shard host,
/// feeder); server = the agent. The process finds the socket and the token in DLRUN_SOCKET and
/// DLRUN_TOKEN (hex).
/// First message Hello; the server answers Welcome, or Refused and closes. Versions: both send
/// theirs, the lower one holds.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "io/core/msg.h"
#include "ps/core/msg.h"
#include "runtime/base/ids.h"
#include "runtime/cluster/core/msg.h"

namespace dlrun::task {

inline constexpr std::uint32_t kProtocolVersion = 1;

enum class PeerKind : std::uint8_t { kUser = 0, kShardHost = 1, kFeeder = 2 };

// ---- process -> agent
struct Hello {
  std::uint32_t version = kProtocolVersion;
  PeerKind kind{};
  cluster::Token token{};
  std::int64_t pid = 0;
};
/// native: listening; service: serving
struct Ready {
  cluster::TaskReadyInfo info;
};
struct ReportProgress {
  double fraction = 0;
  std::string text;
};
/// round: entries of this name by this process, from 1
struct EnterBarrier {
  std::string name;
  std::uint64_t round = 0;
};
/// user -> agent: where is my feeder?
struct OpenInput {
  std::uint64_t request = 0;
  std::string input;
};
// feeder -> agent, on behalf of a consumer task of its node
struct FeederFiles {
  std::uint64_t request = 0;
  TaskId consumer;
  std::string input;
  std::vector<io::FileEntry> files;
};
struct FeederLease {
  std::uint64_t request = 0;
  TaskId consumer;
  std::string input;
  std::uint32_t splits_max = 1;
  bool resync = false;
  std::vector<io::SplitKey> held;  ///< resync, held: io::Ledger::resync
  std::vector<io::SplitKey> done;
  std::vector<io::StepReport> steps;  ///< lanes
};                                    ///< done: read and released; with splits_max 0 the news alone
struct FeederGone {
  TaskId consumer;
};  ///< after DropConsumer: all that it did has been said
/// Shard host -> whoever calls a checkpoint; the agent does not look into it.
struct PsReport {
  std::string report;  ///< wire::encode(ps::CutReport)
};
/// user -> agent: all that was taken of these inputs, as one with the other ranks
struct CommitInputs {
  std::uint64_t request = 0;
  std::string tag;
  std::vector<io::InputCursor> inputs;
};
using ToServer = std::variant<Hello, Ready, ReportProgress, EnterBarrier, OpenInput, FeederFiles,
                              FeederLease, FeederGone, PsReport, CommitInputs>;

// ---- agent -> process
/// To a shard host: begin with this checkpoint. folder "" = with empty tables.
struct RestoreFrom {
  std::string folder;
  std::uint64_t digest = 0;  ///< of its manifest, as committed; 0: any
};
struct Welcome {
  std::uint32_t version = kProtocolVersion;
  TaskId task;
  Epoch epoch;
  std::uint32_t world = 1;
  std::string job_name;
  ps::PsView ps;  ///< shards of the job, empty when it has none
  std::vector<io::InputSpec> inputs;
  RestoreFrom restore;
  std::uint64_t commit_number = 0;  ///< the role's last, of an earlier generation; 0 = none
  std::string commit_tag;
};
struct Refused {
  Errc code{};
  std::string reason;
};
struct BarrierPassed {
  std::string name;
  std::uint64_t round = 0;
};
struct InputAt {
  std::uint64_t request = 0;
  Errc error{};
  std::string error_context;
  std::string feeder_socket;
  cluster::Token consumer_token{};
};
struct WorkerLeft {
  TaskId worker;
};  ///< to a shard host: its clocks leave the set
/// To a feeder: this token may attach as this consumer.
struct AdmitConsumer {
  cluster::Token token{};
  TaskId consumer;
  Epoch epoch;
  io::InputSpec input;
};
struct DropConsumer {
  TaskId consumer;
};
/// to Files and Lease
struct FeederReply {
  std::uint64_t request = 0;
  Errc error{};
  std::string error_context;
  io::LeaseAnswer answer;
};
struct Committed {
  std::uint64_t request = 0;
  std::uint64_t number = 0;  ///< of the job's commits
  Errc error{};
  std::string error_context;
};
/// end in good order: a TERM follows after the grace
struct StopNow {};
/// Whoever calls a checkpoint -> shard host.
struct PsOrder {
  std::string order;  ///< wire::encode(ps::CutOrder)
};
using ToClient = std::variant<Welcome, Refused, BarrierPassed, InputAt, WorkerLeft, AdmitConsumer,
                              DropConsumer, FeederReply, StopNow, PsOrder, Committed>;

}  // namespace dlrun::task

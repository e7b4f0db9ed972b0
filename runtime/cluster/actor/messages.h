#pragma once
/// runtime/cluster/actor/messages.h: what the actors of one process say to each other. Nothing of
/// this crosses machines.

#include <memory>
#include <variant>

#include "runtime/actor/envelope.h"
#include "runtime/cluster/actor/host_event.h"
#include "runtime/cluster/core/agent_core.h"
#include "runtime/cluster/core/coordinator_core.h"

namespace dlrun::cluster {

// ---- store actor: answers the sender
struct StoreEvents {
  Persist persist;
};
struct StoreDone {
  std::uint64_t id = 0;
  Status status;
  std::vector<JobId> jobs;  ///< what the events were of, each once
};
struct StoreRead {
  std::variant<ReadJob, ReadJobs, ReadEvents> query;
};
struct StoreAnswer {
  std::uint64_t call = 0;
  Result<ApiReply> reply;
};
struct StoreFlush {};
struct StoreRetire {};
struct StoreForget {};
struct StoreTerm {
  std::uint64_t term = 0;
};  ///< stands in the records from now on

// ---- coordinator actor
/// Calls its function exactly once: with the answer, or with kUnavailable when it is dropped
/// unanswered.
class ApiAnswer {
 public:
  explicit ApiAnswer(ControlApi::Reply reply) : reply_(std::move(reply)) {}
  ~ApiAnswer() { give(fail(Errc::kUnavailable, "the coordinator is stopping")); }
  ApiAnswer(const ApiAnswer&) = delete;
  ApiAnswer& operator=(const ApiAnswer&) = delete;
  void give(Result<ApiReply> result) {
    if (auto reply = std::exchange(reply_, nullptr)) reply(std::move(result));
  }

 private:
  ControlApi::Reply reply_;
};
struct ApiRequest {
  ApiCall request;
  Duration timeout{0};
  std::shared_ptr<ApiAnswer> answer;
};
struct ApiSweep {};
/// What a job reports; none: only that what it recorded shows in what it reported before.
struct FromJob {
  JobId job;
  std::optional<JobToCoordinator> message;
};
struct StartCoordinator {};

// ---- job actor
struct ForJob {
  JobInput input;
};

// ---- agent actor
struct FromHost {
  HostEvent event;
};

/// A timer of an actor; `number` tells the last one armed from earlier ones.
struct Wake {
  std::uint64_t number = 0;
};

}  // namespace dlrun::cluster

DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreEvents)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreDone)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreRead)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreAnswer)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreFlush)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreRetire)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreForget)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StoreTerm)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::ApiRequest)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::ApiSweep)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::FromJob)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::StartCoordinator)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::ForJob)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::FromHost)
DLRUN_LOCAL_MESSAGE(dlrun::cluster::Wake)

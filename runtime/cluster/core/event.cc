#include "runtime/cluster/core/event.h"

#include "runtime/base/overload.h"

namespace dlrun::cluster {

namespace {

std::string end_text(const TaskEnd& end) {
  std::string text{to_string(end.cause)};
  if (end.cause == Cause::kExit) text += " " + std::to_string(end.code);
  if (end.cause == Cause::kSignal) text += " " + std::to_string(end.signal);
  if (end.cause == Cause::kOom)
    text += " (peak " + std::to_string(end.peak_bytes) + " bytes, limit " +
            std::to_string(end.limit_bytes) + ")";
  if (!end.detail.empty()) text += ": " + end.detail;
  return text;
}

}  // namespace

JobId job_of(const Event& event) {
  return std::visit(
      Overload{[](const TermStarted&) { return JobId{}; }, [](const Baseline&) { return JobId{}; },
               [](const NodeJoined&) { return JobId{}; },
               [](const NodeStateChanged&) { return JobId{}; },
               [](const TaskEnded& e) { return e.task.job; },
               [](const TaskWarned& e) { return e.task.job; },
               [](const JobEnded& e) { return e.view.id; },
               [](const SplitsLeased& e) { return e.consumer.job; },
               [](const auto& e) { return e.job; }},
      event);
}

std::string_view kind_of(const Event& event) {
  static constexpr std::string_view kNames[] = {
      "term_started",   "baseline",    "node_joined",   "node_state_changed", "job_submitted",
      "job_placed",     "job_state",   "task_ended",    "job_kill_requested", "generation_ended",
      "job_ended",      "input_files", "splits_leased", "barrier_met",        "job_held",
      "commit_granted", "task_warned", "job_snapshot",  "inputs_committed"};
  static_assert(std::size(kNames) == std::variant_size_v<Event>);
  return kNames[event.index()];
}

std::string text_of(const Event& event) {
  return std::visit(
      Overload{[](const TermStarted& e) { return "coordinator term " + std::to_string(e.term); },
               [](const Baseline& e) {
                 return std::to_string(e.jobs_finished) + " finished jobs up to " +
                        to_string(e.last_job);
               },
               [](const NodeJoined& e) { return e.node.value + " joined from " + e.address; },
               [](const NodeStateChanged& e) {
                 return e.node.value + " is " + std::string(to_string(e.state)) +
                        (e.reason.empty() ? "" : ": " + e.reason);
               },
               [](const JobSubmitted& e) {
                 return to_string(e.job) + " (" + e.spec.name + ") submitted by " + e.spec.owner;
               },
               [](const JobPlaced& e) {
                 std::string nodes;
                 std::string last;
                 for (const PlacedTask& t : e.tasks) {
                   if (t.slot.node.value == last) continue;
                   last = t.slot.node.value;
                   if (nodes.size() < 80) nodes += (nodes.empty() ? "" : ", ") + last;
                 }
                 return std::to_string(e.tasks.size()) + " tasks placed on " + nodes +
                        " under epoch " + to_string(e.epoch);
               },
               [](const JobStateChanged& e) {
                 return std::string(to_string(e.state)) + (e.reason.empty() ? "" : ": " + e.reason);
               },
               [](const TaskEnded& e) { return to_string(e.task) + " ended: " + end_text(e.end); },
               [](const JobKillRequested& e) {
                 return "kill requested" + (e.reason.empty() ? "" : ": " + e.reason);
               },
               [](const GenerationEnded& e) {
                 return "generation " + std::to_string(e.generation.value) +
                        " ended, restarting: " + e.reason;
               },
               [](const JobEnded& e) {
                 return std::string(to_string(e.view.state)) +
                        (e.view.reason.empty() ? "" : ": " + e.view.reason);
               },
               [](const InputFilesSet& e) {
                 return "input " + e.input + " has " + std::to_string(e.files.size()) + " files";
               },
               [](const SplitsLeased& e) {
                 return to_string(e.consumer) + " leases splits of " + e.input;
               },
               [](const BarrierMet& e) {
                 return "role " + e.role + " met at " + e.name + ", round " +
                        std::to_string(e.round);
               },
               [](const JobHeld& e) {
                 return std::string(e.held ? "held" : "released") +
                        (e.reason.empty() ? "" : ": " + e.reason);
               },
               [](const CommitGranted& e) {
                 return "the outputs of generation " + std::to_string(e.generation.value) +
                        " may take their places";
               },
               [](const TaskWarned& e) { return to_string(e.task) + ": " + e.text; },
               [](const InputsCommitted& e) {
                 return "role " + e.role + " committed its inputs, commit " +
                        std::to_string(e.number) + (e.tag.empty() ? "" : ": " + e.tag);
               },
               [](const JobSnapshot& e) {
                 return "inputs and barriers of generation " + std::to_string(e.generation.value);
               }},
      event);
}

bool is_for_people(const Event& event) {
  return !std::holds_alternative<Baseline>(event) &&
         !std::holds_alternative<InputFilesSet>(event) &&
         !std::holds_alternative<SplitsLeased>(event) &&
         !std::holds_alternative<BarrierMet>(event) &&
         !std::holds_alternative<JobSnapshot>(event) &&
         !std::holds_alternative<InputsCommitted>(event);
}

bool supersedes(const Event& event) {
  return std::holds_alternative<JobSnapshot>(event) ||
         std::holds_alternative<GenerationEnded>(event) ||
         std::holds_alternative<JobEnded>(event) || std::holds_alternative<InputsCommitted>(event);
}

bool is_superseded(const Event& earlier, const Event& later) {
  if (!supersedes(later) || job_of(earlier) != job_of(later)) return false;
  const auto* commit = std::get_if<InputsCommitted>(&earlier);
  const auto* next = std::get_if<InputsCommitted>(&later);
  if (commit != nullptr)  // outlives snapshots and generations
    return std::holds_alternative<JobEnded>(later) ||
           (next != nullptr && next->role == commit->role);
  if (next != nullptr) return false;
  if (std::holds_alternative<InputFilesSet>(earlier))  // a snapshot leaves the files out
    return !std::holds_alternative<JobSnapshot>(later);
  return std::holds_alternative<SplitsLeased>(earlier) ||
         std::holds_alternative<BarrierMet>(earlier) ||
         std::holds_alternative<JobSnapshot>(earlier);
}

}  // namespace dlrun::cluster

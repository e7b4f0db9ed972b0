#pragma once
/// tests/cluster/job_inputs_fixture.h: a job with an input, its ledger and two workers that run.

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "io/core/ledger_core.h"
#include "runtime/cluster/core/job_core.h"
#include "tests/cluster/harness.h"

namespace dlrun::cluster {

inline constexpr Epoch kEpoch{1, 1};

/// Two running workers and an input of 64 splits.
class JobInputs : public ::testing::Test {
 protected:
  using Keys = std::set<std::pair<std::uint32_t, std::uint64_t>>;
  explicit JobInputs(JobSettings settings = {}, JobSpec job = spec())
      : h(
            std::move(job),
            [](const auto& inputs) { return std::make_unique<io::LedgerCore>(inputs); }, settings) {
    h.place();
    h.run_all_workers(2);
    h.from("n0", InputFiles{h.task("worker", 0), kEpoch, "train", {{"f", 64u << 20, "e"}}, 1});
    h.sent.clear();
    records = h.log.size();
  }
  static JobSpec spec() {
    JobSpec spec = spec_of(2);
    io::InputSpec input;
    input.name = "train";
    input.uris = {"x"};
    input.split_bytes = 1u << 20;
    spec.inputs = {input};
    return spec;
  }
  /// The answer; none = no answer.
  std::optional<LeaseReply> ask(std::uint32_t rank, std::uint64_t request, std::uint32_t splits,
                                std::vector<io::SplitKey> done = {}, bool resync = false,
                                std::vector<io::SplitKey> held = {}) {
    h.sent.clear();
    h.from("n" + std::to_string(rank),
           LeaseSplits{h.task("worker", rank), kEpoch, "train", splits, request, resync,
                       std::move(held), std::move(done)});
    const auto replies = h.take_of<LeaseReply>();
    if (replies.empty()) return std::nullopt;
    return replies.front();
  }
  static std::vector<io::SplitKey> keys(const LeaseReply& reply) {
    std::vector<io::SplitKey> out;
    for (const io::Split& split : reply.answer.splits) out.push_back({split.id, split.pass});
    return out;
  }
  /// Reads everything that is left, as `rank`.
  Keys rest(std::uint32_t rank, std::uint64_t request) {
    Keys out;
    std::vector<io::SplitKey> done;
    for (;; ++request) {
      const auto reply = ask(rank, request, 16, done);
      done = keys(*reply);
      for (const io::SplitKey& key : done) out.insert({key.pass, key.split_id});
      if (reply->answer.state != io::LeaseState::kGranted) return out;
    }
  }
  JobHarness h;
  std::size_t records = 0;
};

}  // namespace dlrun::cluster

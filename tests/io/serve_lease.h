#pragma once
/// tests/io/serve_lease.h: what a job does with a feeder's request, for tests that stand in for it.

#include "io/core/msg.h"
#include "runtime/task/msg.h"

namespace dlrun::io {

inline Result<LeaseAnswer> serve_lease(Ledger& ledger, const task::FeederLease& request,
                                       std::uint32_t world = 1) {
  for (const SplitKey& key : request.done)  // a repeat is refused
    (void)ledger.done(request.input, request.consumer, key.split_id, key.pass);
  if (request.resync) ledger.resync(request.input, request.consumer, request.held);
  if (!request.steps.empty()) {
    LeaseAnswer answer;
    DLRUN_ASSIGN(answer.steps, ledger.steps(request.input, request.consumer, world, request.steps));
    return answer;
  }
  if (request.splits_max == 0) return LeaseAnswer{};
  return ledger.lease(request.input, request.consumer,
                      ledger.share(request.input, request.consumer, request.splits_max));
}

}  // namespace dlrun::io

#pragma once
/// launcher/left_tasks.h: the end of what runs on under its shims after the agents of a local
/// cluster are gone. A shim outlives its agent, so a cluster whose agent, coordinator or guardian
/// was killed leaves its tasks behind; they are found by the task directories under
/// FOLDER/node-N/tasks.
/// Precondition: no agent of FOLDER lives (it would fight for the shims).
/// The shims record the end (user-kill); the next agent of the node reports it.
/// Errors: kDeadlineExceeded names a directory whose processes do not end.
/// Threads: plain function; blocks for `limit` at most.

#include <string>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::launcher {

/// TERM, `grace`, KILL to every task; returns when all their processes are gone.
Status end_left_tasks(const std::string& folder, Duration grace, Duration limit);

}  // namespace dlrun::launcher

#pragma once
/// runtime/cluster/core/framework/complete.h: at submit, what a job's framework adds to its spec:
/// ports, end rules and their grace, the order of the roles, extra tasks, what runs the programs.
/// What the job says itself stays: a rule, a grace, more ports, an extra role written out, any
/// `after` (then the order is the job's alone). Doing it again changes nothing, so a spec may be
/// completed where it is written, where it is sent and where it is taken.
/// Threads: pure.

#include <vector>

#include "runtime/cluster/core/msg.h"
#include "runtime/cluster/core/spec_check.h"

namespace dlrun::cluster::framework {

/// What does not go together with the framework; then `spec` may be half completed. Nothing for a
/// job without one.
std::vector<SpecProblem> complete(JobSpec& spec);

}  // namespace dlrun::cluster::framework

#pragma once
/// runtime/cluster/core/rendezvous.h: what a task learns about its gang through its environment, so
/// that programs that never heard of dlrun find their peers. Pure: record in, variables out.
///
///   DLRUN_JOB DLRUN_ROLE DLRUN_RANK DLRUN_WORLD DLRUN_GENERATION DLRUN_PORTS   ours
///   DLRUN_OUTPUT_<NAME>                                                        where it writes an
///                                                                              output
///   INDEX                                                                      the rank, as
///                                                                              XLearning names it
///   RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT                         as
///                                                                              torch.distributed
///                                                                                reads them
///
/// and what its framework adds (framework/adapter.h); where both name a variable, the framework's
/// wins (it stands behind).
///
/// World and ranks are those of the task's role. LOCAL_RANK counts within role and node. MASTER_*
/// are rank 0's address (an IPv6 literal stays bare: frameworks that read MASTER_ADDR take it so)
/// and first port; without a leased port there is no MASTER_PORT, and no DLRUN_PORTS.

#include "runtime/cluster/core/job_record.h"

namespace dlrun::cluster {

/// Of record.tasks[index], which must be placed. O(outputs) without a framework.
EnvList rendezvous_of(const JobRecord& record, std::size_t index);
/// The files that its framework wants in its work directory.
std::vector<TaskFile> files_of(const JobRecord& record, std::size_t index);

}  // namespace dlrun::cluster

#pragma once
/// runtime/cluster/actor/outputs.h: the folders of a task's outputs on its node. The task writes
/// into staging_path(); at the end the job actor grants a commit, and one rename puts the folder in
/// its place. `_SUCCESS` in it names job, generation and epoch, so that a repeated commit finds
/// that it is done.
/// Errors: kAlreadyExists (something lies at the path), kNotFound (what the task wrote is gone),
/// kIo, kPermissionDenied, kResourceExhausted.
/// Threads: plain functions.

#include <functional>
#include <vector>

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

/// Makes the staging folders, each generation's its own. A path that is taken is refused now, not
/// at the end.
Status make_output_dirs(const TaskId& task, const std::vector<OutputSpec>& outputs);
/// What earlier generations of the job left in theirs; takes as long as that is large.
void remove_earlier_outputs(const TaskId& task, const std::vector<OutputSpec>& outputs);

/// All of them or none: each is checked and synced before the first takes its place, and when a
/// later rename fails the earlier ones are taken back; the error names what could not be. Durable
/// when it returns well. Idempotent. `step` after each file or folder that was looked at, synced or
/// renamed: whoever waits sees that it gets on.
Status publish_outputs(
    const CommitOutputs& commit, const std::function<void()>& step = [] {});

}  // namespace dlrun::cluster

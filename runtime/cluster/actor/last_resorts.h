#pragma once
/// runtime/cluster/actor/last_resorts.h: a folder of programs at the end of every task's PATH, for
/// what scripts count on and a machine may lack: `python`, which runs python3. What the job's PATH
/// finds before goes first.
/// Errors: those of the file system.
/// Threads: plain functions.

#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun::cluster {

/// Makes `dir` and what belongs into it; again changes nothing for those who run it meanwhile.
Status make_last_resorts(const std::string& dir);

/// `path` with `dir` behind it; an empty element of PATH would be the working directory.
std::string path_with_last_resorts(std::string_view path, const std::string& dir);

}  // namespace dlrun::cluster

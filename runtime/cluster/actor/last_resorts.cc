#include "runtime/cluster/actor/last_resorts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/os/files.h"
#include "runtime/security/secret.h"

namespace dlrun::cluster {

namespace {

constexpr std::string_view kPython = "#!/bin/sh\nexec python3 \"$@\"\n";

}  // namespace

Status make_last_resorts(const std::string& dir) {
  DLRUN_TRY(security::make_private_folder(dir));
  // Whole and executable before it has its name: a task of an earlier agent may run it now.
  const std::string path = dir + "/python", made = path + ".new";
  DLRUN_TRY(os::write_file(made, kPython));
  if (::chmod(made.c_str(), 0755) != 0) return fail_errno("make executable " + made);
  if (::rename(made.c_str(), path.c_str()) != 0) return fail_errno("make " + path);
  return {};
}

std::string path_with_last_resorts(std::string_view path, const std::string& dir) {
  return path.empty() ? dir : std::string(path) + ":" + dir;
}

}  // namespace dlrun::cluster

#pragma once
/// launcher/spec_from_flags.h: `dlrun run -n 4 --ps 2 ... -- python3 train.py`, and what flags add
/// to a job file, as a JobSpec. Pure.
/// Errors: kInvalidArgument that names the flag.

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/world.h"
#include "runtime/base/result.h"

namespace dlrun::launcher {

struct RunFlags {
  std::vector<std::string> argv;  ///< after "--"
  std::string framework;          ///< --as
  std::string file;               ///< a job file instead
  std::string workers = "1";      ///< a count or a range
  bool workers_given = false;
  std::uint32_t shards = 0;          ///< role `ps`: dlrun's shards; with --as, processes
  std::vector<std::string> inputs;   ///< name=PATH[,key=value...]
  std::vector<std::string> outputs;  ///< name=FOLDER
  std::vector<std::string> env;      ///< K=V, or K: taken from here
  std::vector<std::string> labels;   ///< K=V
  std::string name, project, time_limit, grace, cpus, memory, gpus, ports, cwd, priority,
      env_policy;
  std::uint32_t restarts = 0;
  bool hold = false;
  bool shell = false;  ///< argv joined by spaces runs under /bin/sh -c
};

Result<cluster::JobSpec> make_spec(const RunFlags& flags, const World& world);

/// "train.py" of {"python3", "-u", "train.py"}; "main" when there is nothing better.
std::string default_name(const std::vector<std::string>& argv);

}  // namespace dlrun::launcher

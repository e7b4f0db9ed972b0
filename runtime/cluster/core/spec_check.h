#pragma once
/// runtime/cluster/core/spec_check.h: whether a job's spec makes sense by itself. What a job file,
/// REST or a client sends passes here before anything is recorded.

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

/// What a job may ask for: the one place; job files and docs/jobfile.md go by these defaults.
struct SpecLimits {
  std::uint32_t tasks_max = 65'536;
  std::uint32_t roles_max = 256;
  std::uint32_t inputs_max = 256;
  std::uint32_t outputs_max = 256;
  std::uint32_t env_max = 4096;  ///< variables of one list
  std::uint32_t argv_bytes_max = 1u << 20;
  std::uint32_t env_bytes_max = 1u << 20;
  std::uint32_t restarts_max = 1000;
};
inline constexpr SpecLimits kSpecLimits{};

/// 1 to 64 of A-Z a-z 0-9 . _ - that does not begin with '-' or '.': a job's, an input's, an
/// output's name.
bool is_name(const std::string& name);

/// kInvalidArgument with the place first: "roles[1].argv: a process role needs a program". First
/// error only.
Status validate(const JobSpec& spec, const SpecLimits& limits = {});

}  // namespace dlrun::cluster

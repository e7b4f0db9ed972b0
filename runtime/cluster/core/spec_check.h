#pragma once
/// runtime/cluster/core/spec_check.h: whether a job's spec makes sense by itself. What a job file,
/// REST or a client sends passes here before anything is recorded.

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

struct SpecLimits {
  std::uint32_t tasks_max = 10'000;
  std::uint32_t roles_max = 64;
  std::uint32_t argv_bytes_max = 1u << 20;
  std::uint32_t env_bytes_max = 1u << 20;
};

/// kInvalidArgument with the place first: "roles[1].argv: a process role needs a program". First
/// error only.
Status validate(const JobSpec& spec, const SpecLimits& limits = {});

}  // namespace dlrun::cluster

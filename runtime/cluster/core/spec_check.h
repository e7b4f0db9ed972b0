#pragma once
/// runtime/cluster/core/spec_check.h: the rules of a job's spec, once for all who take one. What a
/// job file, REST or a client sends passes here before anything is recorded; who knows the place of
/// a field in a text (runtime/jobspec) puts it before what is said here. The rules of an input are
/// those of io/core/input_rules.h.
/// Bounds: kSpecProblemsMax problems; time linear in the spec, but for `after` (roles x roles).
/// Threads: pure functions.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

/// What a job may ask for: the one place; job files and docs/jobfile.md go by these defaults.
struct SpecLimits {
  std::uint32_t tasks_max = 65'536;
  std::uint32_t roles_max = 256;
  std::uint32_t inputs_max = 256;
  std::uint32_t outputs_max = 256;
  std::uint32_t env_max = 4096;              ///< variables of one list
  std::uint32_t arg_bytes_max = 128u << 10;  ///< of one; MAX_ARG_STRLEN of Linux
  std::uint32_t argv_bytes_max = 1u << 20;
  std::uint32_t env_bytes_max = 1u << 20;
  std::uint32_t restarts_max = 1000;
};
inline constexpr SpecLimits kSpecLimits{};
inline constexpr std::size_t kSpecProblemsMax = 20;

struct SpecProblem {
  enum class Part : std::uint8_t { kJob, kRole, kInput, kOutput };
  Part part = Part::kJob;
  std::size_t index = 0;  ///< among the spec's roles, inputs or outputs
  std::string field;      ///< its key in a job file: "argv", "after"; "" = the part itself
  std::string text;       ///< what is wrong
};

/// Everything that is wrong, the first kSpecProblemsMax. An empty name, owner or project is none:
/// the launcher fills them in.
std::vector<SpecProblem> problems_of(const JobSpec& spec, const SpecLimits& limits = {});

/// "role 'ps': argv: dlrun's own shard host takes none".
std::string to_string(const SpecProblem& problem, const JobSpec& spec);

/// The first problem as kInvalidArgument; here name, owner and project must be there.
Status validate(const JobSpec& spec, const SpecLimits& limits = {});

// Single fields: what is wrong, as a sentence that names the value, or nothing.

/// A job's, an input's, an output's name: 1 to 64 of A-Z a-z 0-9 . _ - that does not begin with '-'
/// or '.'.
std::optional<std::string> check_name(std::string_view name);
/// UTF-8, not empty, no '=' and no NUL.
std::optional<std::string> check_env_name(std::string_view name);
/// An owner, a project: at most 256 bytes of UTF-8 without control characters.
std::optional<std::string> check_label_text(std::string_view text);

}  // namespace dlrun::cluster

#pragma once
/// runtime/jobspec/job_file.h: job files (TOML, YAML, JSON; docs/jobfile.md) -> JobSpec. The body
/// of POST /api/v1/jobs is the JSON form.
/// Errors: kInvalidArgument whose context has one line per problem, at most kProblemsMax of them:
///   "job.toml:4:1: unknown key 'cuont' in [role.worker]; did you mean 'count'?"
/// Bounds: kJobBytesMax, nesting 32, 256 roles, 65536 tasks, 256 inputs. Never throws, whatever the
/// bytes.
/// Threads: no state.

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/cluster/core/msg.h"

namespace dlrun::jobspec {

inline constexpr std::size_t kJobBytesMax = 4u << 20;
inline constexpr std::size_t kProblemsMax = 20;

enum class Syntax { kToml, kYaml, kJson };

/// By extension: .toml, .yaml/.yml, .json; kInvalidArgument otherwise.
Result<Syntax> syntax_of(std::string_view path);

/// `file` is only for messages.
Result<cluster::JobSpec> parse_job(std::string_view text, Syntax syntax, std::string_view file);

/// Reads and parses. kNotFound, kPermissionDenied, kIo, and what parse_job returns.
Result<cluster::JobSpec> load_job_file(const std::string& path);

}  // namespace dlrun::jobspec

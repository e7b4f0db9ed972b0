#pragma once
/// tests/jobspec/problem.h: what is wrong with a job file, "" when nothing is.

#include <string>
#include <string_view>

#include "runtime/jobspec/job_file.h"

namespace dlrun::jobspec {

inline std::string problem_of(std::string_view text, Syntax syntax, std::string_view file) {
  const auto spec = parse_job(text, syntax, file);
  return spec ? "" : spec.error().context;
}

}  // namespace dlrun::jobspec

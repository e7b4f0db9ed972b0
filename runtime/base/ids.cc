#include "runtime/base/ids.h"

#include <charconv>

namespace dlrun {
namespace {

template <class T>
bool parse_number(std::string_view text, T& out) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  return ec == std::errc{} && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string to_string(JobId id) { return "j" + std::to_string(id.value); }

std::string to_string(const TaskId& id) {
  return to_string(id.job) + ":" + id.role + "/" + std::to_string(id.rank) + "#" +
         std::to_string(id.generation.value);
}

std::string to_string(Epoch epoch) {
  return std::to_string(epoch.term) + "." + std::to_string(epoch.counter);
}

Result<JobId> parse_job_id(std::string_view text) {
  const std::string_view digits = text.starts_with('j') ? text.substr(1) : text;
  JobId id;
  if (!parse_number(digits, id.value) || id.value == 0)
    return fail(Errc::kInvalidArgument, "'" + std::string(text) + "' is not a job id (like j12)");
  return id;
}

Result<TaskId> parse_task_id(std::string_view text) {
  const auto bad = [&] {
    return fail(Errc::kInvalidArgument,
                "'" + std::string(text) + "' is not a task id (like j12:worker/0)");
  };
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return bad();
  DLRUN_ASSIGN(const JobId job, parse_job_id(text.substr(0, colon)));
  std::string_view rest = text.substr(colon + 1);
  TaskId id{.job = job};
  if (const auto hash = rest.find('#'); hash != std::string_view::npos) {
    if (!parse_number(rest.substr(hash + 1), id.generation.value)) return bad();
    rest = rest.substr(0, hash);
  }
  const auto slash = rest.find('/');
  if (slash == std::string_view::npos || slash == 0) return bad();
  id.role = std::string(rest.substr(0, slash));
  if (!parse_number(rest.substr(slash + 1), id.rank)) return bad();
  return id;
}

}  // namespace dlrun

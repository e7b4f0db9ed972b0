#include "runtime/cluster/core/spec_check.h"

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>

namespace dlrun::cluster {

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name[0] != '-' && name[0] != '.' &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

namespace {

constexpr std::uint64_t kRecordBytesMost = 64u << 20;

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

tl::unexpected<Error> bad(const std::string& place, const std::string& why) {
  return fail(Errc::kInvalidArgument, place + ": " + why);
}

Status check_env(const EnvList& env, const std::string& place, const SpecLimits& limits) {
  if (env.size() > limits.env_max)
    return bad(place, "more than " + std::to_string(limits.env_max) + " variables");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < env.size(); ++i) {
    const auto& [name, value] = env[i];
    const std::string at = place + "[" + std::to_string(i) + "]";
    if (name.empty()) return bad(at, "the name of a variable is empty");
    if (name.find('=') != std::string::npos) return bad(at, "the name '" + name + "' holds '='");
    if (has_nul(name) || has_nul(value))
      return bad(at, "a NUL byte in '" + name.substr(0, 64) + "'");
    bytes += name.size() + value.size() + 2;
  }
  if (bytes > limits.env_bytes_max)
    return bad(place, "together more than " + std::to_string(limits.env_bytes_max) + " bytes");
  return {};
}

Status check_resources(const sched::Resources& r, const std::string& place) {
  if (r.cpu_milli < 0) return bad(place + ".cpu", "is negative");
  if (r.memory_bytes < 0) return bad(place + ".memory", "is negative");
  if (r.gpus < 0) return bad(place + ".gpus", "is negative");
  if (r.ports < 0 || r.ports > 1024) return bad(place + ".ports", "must be 0 to 1024");
  return {};
}

Status check_role(const RoleSpec& role, const std::string& at, const SpecLimits& limits) {
  if (!is_name(role.name))
    return bad(at + ".name",
               "'" + role.name.substr(0, 64) +
                   "' must be 1 to 64 of A-Z a-z 0-9 . _ - and not begin with '-' or '.'");
  if (role.count_min < 1) return bad(at + ".count", "must be at least 1");
  if (role.count_max < role.count_min)
    return bad(at + ".count", "the range " + std::to_string(role.count_min) + " to " +
                                  std::to_string(role.count_max) + " is empty");
  if (role.program == RoleProgram::kProcess) {
    if (role.argv.empty()) return bad(at + ".argv", "a process role needs a program");
    if (role.argv[0].empty()) return bad(at + ".argv[0]", "the program is an empty string");
  } else if (!role.argv.empty()) {
    return bad(at + ".argv", "a shard-host role takes no program");
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < role.argv.size(); ++i) {
    if (has_nul(role.argv[i])) return bad(at + ".argv[" + std::to_string(i) + "]", "a NUL byte");
    bytes += role.argv[i].size() + 1;
  }
  if (bytes > limits.argv_bytes_max)
    return bad(at + ".argv", "more than " + std::to_string(limits.argv_bytes_max) + " bytes");
  if (has_nul(role.cwd)) return bad(at + ".cwd", "a NUL byte");
  if (role.ready == ReadyWhen::kPort && role.resources.ports == 0)
    return bad(at + ".ready", "\"port\" wants a leased port: ports = 1");
  for (const auto& [name, value] : role.rlimits)
    if (std::find(kRlimitNames.begin(), kRlimitNames.end(), name) == kRlimitNames.end())
      return bad(at + ".rlimits", "'" + name.substr(0, 64) + "' is no limit of a process");
  if (role.time_limit < Duration::zero()) return bad(at + ".time_limit", "is negative");
  DLRUN_TRY(check_env(role.env, at + ".env", limits));
  return check_resources(role.resources, at + ".resources");
}

/// Depth-first over `after`; kInvalidArgument names the first cycle found.
Status check_after(const JobSpec& spec) {
  std::map<std::string, const RoleSpec*> by_name;
  for (const RoleSpec& role : spec.roles) by_name[role.name] = &role;
  std::map<std::string, int> mark;  // 1 = on the path, 2 = done
  std::function<Status(const RoleSpec&)> visit = [&](const RoleSpec& role) -> Status {
    mark[role.name] = 1;
    for (const std::string& name : role.after) {
      const std::string place = "role '" + role.name + "'.after";
      auto it = by_name.find(name);
      if (it == by_name.end()) return bad(place, "there is no role '" + name + "'");
      if (mark[name] == 1) return bad(place, "a cycle through '" + name + "'");
      if (mark[name] == 0) DLRUN_TRY(visit(*it->second));
    }
    mark[role.name] = 2;
    return {};
  };
  for (const RoleSpec& role : spec.roles)
    if (mark[role.name] == 0) DLRUN_TRY(visit(role));
  return {};
}

Status check_input(const io::InputSpec& input, const std::string& at) {
  if (!is_name(input.name))
    return bad(at + ".name", "must be 1 to 64 of A-Z a-z 0-9 . _ - and not begin with '-' or '.'");
  if (input.uris.empty()) return bad(at + ".uris", "names no file");
  if (input.batch_rows == 0) return bad(at + ".batch_rows", "must be at least 1");
  if (input.split_bytes == 0) return bad(at + ".split_bytes", "must be at least 1");
  if (input.index_base > 1) return bad(at + ".index_base", "must be 0 or 1");
  if (input.record_bytes_max == 0 || input.record_bytes_max > kRecordBytesMost)
    return bad(at + ".record_bytes_max", "must be 1 byte to 64 MiB");
  if (input.quarantine.empty() == (input.on_bad_record == io::OnBadRecord::kQuarantine))
    return bad(at + ".quarantine", "and on_bad_record = quarantine belong together");
  if (!input.quarantine.empty() && (input.quarantine[0] != '/' || has_nul(input.quarantine)))
    return bad(at + ".quarantine", "must be the absolute path of a file");
  if (!input.columns.empty() && !io::has_schema(input.format))
    return bad(at + ".columns", "this format has none");
  if (input.columns.size() > io::kFieldsMax) return bad(at + ".columns", "more than 65536");
  std::set<std::string_view> names;
  for (const io::FieldSpec& column : input.columns) {
    if (column.name.empty() || !names.insert(column.name).second)
      return bad(at + ".columns", "a name is empty or used twice: '" + column.name + "'");
    if (column.width > io::kFieldWidthMax) return bad(at + ".columns", "too wide");
  }
  return {};
}

Status check_output(const JobSpec& spec, const OutputSpec& output, const std::string& at) {
  if (!is_name(output.name))
    return bad(at + ".name", "must be 1 to 64 of A-Z a-z 0-9 . _ - and not begin with '-' or '.'");
  if (output.path.size() < 2 || output.path[0] != '/' || has_nul(output.path))
    return bad(at + ".path", "must be the absolute path of a folder");
  for (const RoleSpec& role : spec.roles)
    if (role.name == output.role) return {};
  return bad(at + ".role", "there is no role '" + output.role + "'");
}

}  // namespace

Status validate(const JobSpec& spec, const SpecLimits& limits) {
  if (!is_name(spec.name))
    return bad("name", "'" + spec.name.substr(0, 64) +
                           "' must be 1 to 64 of A-Z a-z 0-9 . _ - and not begin with '-' or '.'");
  if (spec.owner.empty()) return bad("owner", "is empty");
  if (spec.project.empty()) return bad("project", "is empty");
  if (spec.roles.empty()) return bad("roles", "a job needs at least one role");
  if (spec.roles.size() > limits.roles_max)
    return bad("roles", "more than " + std::to_string(limits.roles_max));
  std::set<std::string> names;
  std::uint64_t tasks = 0;
  bool any_process = false;
  for (std::size_t i = 0; i < spec.roles.size(); ++i) {
    const std::string at = "roles[" + std::to_string(i) + "]";
    DLRUN_TRY(check_role(spec.roles[i], at, limits));
    if (!names.insert(spec.roles[i].name).second)
      return bad(at + ".name", "'" + spec.roles[i].name + "' is used twice");
    tasks += spec.roles[i].count_max;
    any_process = any_process || spec.roles[i].program == RoleProgram::kProcess;
  }
  if (tasks > limits.tasks_max)
    return bad("roles",
               std::to_string(tasks) + " tasks are more than " + std::to_string(limits.tasks_max));
  if (!any_process) return bad("roles", "shard hosts alone do nothing: add a process role");
  DLRUN_TRY(check_after(spec));
  if (spec.inputs.size() > limits.inputs_max)
    return bad("inputs", "more than " + std::to_string(limits.inputs_max));
  if (spec.outputs.size() > limits.outputs_max)
    return bad("outputs", "more than " + std::to_string(limits.outputs_max));
  std::set<std::string> outputs, paths;
  for (std::size_t i = 0; i < spec.outputs.size(); ++i) {
    const std::string at = "outputs[" + std::to_string(i) + "]";
    DLRUN_TRY(check_output(spec, spec.outputs[i], at));
    if (!outputs.insert(spec.outputs[i].name).second)
      return bad(at + ".name", "'" + spec.outputs[i].name + "' is used twice");
    if (!paths.insert(spec.outputs[i].path).second)
      return bad(at + ".path", "'" + spec.outputs[i].path + "' is used twice");
  }
  std::set<std::string> inputs;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const std::string at = "inputs[" + std::to_string(i) + "]";
    DLRUN_TRY(check_input(spec.inputs[i], at));
    if (!inputs.insert(spec.inputs[i].name).second)
      return bad(at + ".name", "'" + spec.inputs[i].name + "' is used twice");
  }
  DLRUN_TRY(check_env(spec.submit_env, "submit_env", limits));
  if (spec.time_limit < Duration::zero()) return bad("time_limit", "is negative");
  if (spec.grace < Duration::zero()) return bad("grace", "is negative");
  if (spec.failure_grace < Duration::zero()) return bad("failure_grace", "is negative");
  if (spec.restart.restarts_max > limits.restarts_max)
    return bad("restart.restarts_max", "must be at most " + std::to_string(limits.restarts_max));
  return {};
}

}  // namespace dlrun::cluster

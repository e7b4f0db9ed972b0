#include "runtime/cluster/core/spec_check.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "io/core/input_rules.h"
#include "runtime/base/utf8.h"
#include "runtime/cluster/core/end_rules.h"
#include "runtime/cluster/core/framework/adapter.h"

namespace dlrun::cluster {
namespace {

using Part = SpecProblem::Part;

constexpr const char* kNameRule =
    "must be 1 to 64 of A-Z a-z 0-9 . _ - and not begin with '-' or '.', not ";

bool has_nul(std::string_view text) { return text.find('\0') != std::string_view::npos; }

std::string bytes(std::uint64_t n) { return std::to_string(n) + " bytes"; }

bool lower_or_digit(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// Stricter than other names: it is part of a folder's name, of environment variables and of
/// hosts' names.
std::optional<std::string> check_role_name(std::string_view name) {
  if (!name.empty() && name.size() <= 32 && name[0] >= 'a' && name[0] <= 'z' &&
      std::all_of(name.begin(), name.end(),
                  [](unsigned char c) { return lower_or_digit(c) || c == '_' || c == '-'; }))
    return std::nullopt;
  return "the name must be a lower-case letter and up to 31 of a-z 0-9 _ -, not " + in_quotes(name);
}

class Check {
 public:
  Check(const JobSpec& spec, const SpecLimits& limits) : spec_(spec), limits_(limits) {}

  std::vector<SpecProblem> run() {
    job();
    each(Part::kRole, spec_.roles, limits_.roles_max, "role", [&](const RoleSpec& r) { role(r); });
    each(Part::kInput, spec_.inputs, limits_.inputs_max, "input",
         [&](const io::InputSpec& i) { input(i); });
    std::set<std::string_view> paths;
    each(Part::kOutput, spec_.outputs, limits_.outputs_max, "output", [&](const OutputSpec& o) {
      output(o);
      if (!paths.insert(o.path).second)
        wrong("path", in_quotes(o.path) + " is the path of another output, too");
    });
    if (!full()) order();
    return std::move(out_);
  }

 private:
  bool full() const { return out_.size() >= kSpecProblemsMax; }
  void wrong(std::string field, std::string text) {
    if (!full()) out_.push_back({part_, index_, std::move(field), std::move(text)});
  }
  void wrong_if(std::string field, std::optional<std::string> text) {
    if (text) wrong(std::move(field), std::move(*text));
  }

  template <class Parts, class CheckOne>
  void each(Part part, const Parts& parts, std::size_t most, const char* key, CheckOne check) {
    part_ = Part::kJob;
    index_ = 0;
    if (parts.size() > most) return wrong(key, "more than " + std::to_string(most));
    part_ = part;
    std::set<std::string_view> names;
    for (index_ = 0; index_ < parts.size() && !full(); ++index_) {
      check(parts[index_]);
      if (!names.insert(parts[index_].name).second)
        wrong("", std::string("two ") + key + "s have this name");
    }
  }

  void job() {
    if (!spec_.name.empty()) wrong_if("name", check_name(spec_.name));
    wrong_if("owner", check_label_text(spec_.owner));
    wrong_if("project", check_label_text(spec_.project));
    if (spec_.roles.empty()) wrong("role", "a job needs at least one role, like [role.worker]");
    std::uint64_t tasks = 0;
    for (const RoleSpec& role : spec_.roles) tasks += role.count_max;
    if (tasks > limits_.tasks_max)
      wrong("role",
            std::to_string(tasks) + " tasks, a job may have " + std::to_string(limits_.tasks_max));
    if (!spec_.roles.empty() &&
        std::all_of(spec_.roles.begin(), spec_.roles.end(),
                    [](const RoleSpec& r) { return r.program == RoleProgram::kShardHost; }))
      wrong("role", "shard hosts alone do nothing: add a role with a program");
    else if (!spec_.roles.empty() && !can_be_done(spec_))
      wrong("role",
            "no role's end ends the job: one at least must be all, decides, quorum or tolerant");
    if (!spec_.framework.empty() && framework::find(spec_.framework) == nullptr)
      wrong("framework", in_quotes(spec_.framework) + " is none of " + framework::names());
    env(spec_.submit_env, "submit_env");
    if (has_nul(spec_.cwd)) wrong("cwd", "holds a NUL byte");
    for (const auto& [key, time] :
         {std::pair<const char*, Duration>{"time_limit", spec_.time_limit},
          {"grace", spec_.grace},
          {"failure_grace", spec_.failure_grace}})
      if (time < Duration::zero()) wrong(key, "is negative");
    if (spec_.restart.restarts_max > limits_.restarts_max)
      wrong("restart", "max must be at most " + std::to_string(limits_.restarts_max));
  }

  void env(const EnvList& list, const std::string& field) {
    if (list.size() > limits_.env_max)
      return wrong(field, "more than " + std::to_string(limits_.env_max) + " variables");
    std::vector<std::string_view> names;
    std::size_t sum = 0;
    for (const auto& [name, value] : list) {
      if (auto bad = check_env_name(name)) return wrong(field, std::move(*bad));
      if (has_nul(value))
        return wrong(field, "the value of " + in_quotes(name) + " holds a NUL byte");
      names.push_back(name);
      sum += name.size() + value.size() + 2;
    }
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) wrong(field, in_quotes(*twice) + " is set twice");
    if (sum > limits_.env_bytes_max)
      wrong(field, "together more than " + bytes(limits_.env_bytes_max));
  }

  void role(const RoleSpec& role) {
    wrong_if("", check_role_name(role.name));
    if (role.count_min < 1)
      wrong("count", "must be at least 1");
    else if (role.count_max < role.count_min)
      wrong("count", "the range " + std::to_string(role.count_min) + " to " +
                         std::to_string(role.count_max) + " is empty");
    argv(role);
    if (has_nul(role.cwd)) wrong("cwd", "holds a NUL byte");
    if (role.ready == ReadyWhen::kPort && role.resources.ports == 0)
      wrong("ready", "\"port\" wants a leased port: ports = 1");
    for (const auto& [name, value] : role.rlimits)
      if (std::find(kRlimitNames.begin(), kRlimitNames.end(), name) == kRlimitNames.end())
        wrong("rlimits", in_quotes(name) + " is no limit of a process");
    if (role.time_limit < Duration::zero()) wrong("time_limit", "is negative");
    end(role);
    env(role.env, "env");
    const sched::Resources& need = role.resources;
    if (need.cpu_milli < 0) wrong("cpus", "is negative");
    if (need.memory_bytes < 0) wrong("memory", "is negative");
    if (need.gpus < 0) wrong("gpus", "is negative");
    if (need.ports < 0 || need.ports > 1024) wrong("ports", "must be 0 to 1024");
  }

  void end(const RoleSpec& role) {
    if (role.program == RoleProgram::kShardHost && role.end != EndRule::kByKind &&
        role.end != EndRule::kOutlives)
      wrong("end", "a shard host outlives its job's other roles");
    if (role.quorum > 0 && role.end != EndRule::kQuorum)
      wrong("quorum", "belongs to end = \"quorum\"");
    else if (role.quorum > role.count_min && role.count_min > 0)
      wrong("quorum",
            "is more than the " + std::to_string(role.count_min) + " tasks that the role may have");
    if (role.failures_permille > 0 && role.end != EndRule::kTolerant)
      wrong("failures", "belongs to end = \"tolerant\"");
    else if (role.failures_permille > 1000)
      wrong("failures", "is more than all");
    if (role.linger && *role.linger < Duration::zero()) wrong("linger", "is negative");
  }

  void argv(const RoleSpec& role) {
    if (role.program == RoleProgram::kShardHost) {
      if (!role.argv.empty()) wrong("argv", "dlrun's own shard host takes none");
      return;
    }
    if (role.argv.empty())
      return wrong("argv", "a program is needed, like argv = [\"python3\", \"train.py\"]");
    if (role.argv[0].empty()) wrong("argv", "the first element names the program and is empty");
    std::size_t sum = 0;
    for (const std::string& argument : role.argv) {
      if (has_nul(argument)) return wrong("argv", "holds a NUL byte");
      if (argument.size() >= limits_.arg_bytes_max)
        return wrong("argv", "an argument of " + bytes(limits_.arg_bytes_max) + " or more");
      sum += argument.size() + 1;
    }
    if (sum > limits_.argv_bytes_max) wrong("argv", "more than " + bytes(limits_.argv_bytes_max));
  }

  void input(const io::InputSpec& input) {
    if (auto bad = check_name(input.name)) wrong("", "the name " + *bad);
    for (io::InputProblem& problem : io::problems_of(input))
      wrong(std::move(problem.field), std::move(problem.text));
  }

  void output(const OutputSpec& output) {
    if (auto bad = check_name(output.name)) wrong("", "the name " + *bad);
    if (output.path.size() < 2 || output.path[0] != '/' || has_nul(output.path))
      wrong("path", "must be the absolute path of a folder");
    if (std::none_of(spec_.roles.begin(), spec_.roles.end(),
                     [&](const RoleSpec& role) { return role.name == output.role; }))
      wrong("role", "there is no role " + in_quotes(output.role));
  }

  /// Depth-first over `after`: names that no role has, and the first circle.
  void order() {
    std::map<std::string_view, std::size_t> index;
    for (std::size_t i = 0; i < spec_.roles.size(); ++i) index.emplace(spec_.roles[i].name, i);
    std::vector<std::size_t> path;
    std::vector<char> mark(spec_.roles.size(), 0);  // 1 = on the path, 2 = done
    const std::function<bool(std::size_t)> visit = [&](std::size_t i) {
      mark[i] = 1;
      path.push_back(i);
      for (const std::string& name : spec_.roles[i].after) {
        const auto next = index.find(name);
        if (next == index.end() || mark[next->second] == 2) continue;
        if (mark[next->second] == 0) {
          if (!visit(next->second)) return false;
          continue;
        }
        std::string circle;
        for (auto at = std::find(path.begin(), path.end(), next->second); at != path.end(); ++at)
          circle += spec_.roles[*at].name + ", ";
        index_ = i;
        wrong("after", "goes in a circle: " + circle + name);
        return false;
      }
      mark[i] = 2;
      path.pop_back();
      return true;
    };
    part_ = Part::kRole;
    for (std::size_t i = 0; i < spec_.roles.size(); ++i)
      for (const std::string& name : spec_.roles[i].after) {
        index_ = i;
        if (index.find(name) == index.end()) wrong("after", "there is no role " + in_quotes(name));
      }
    for (std::size_t i = 0; i < spec_.roles.size(); ++i)
      if (mark[i] == 0 && !visit(i)) return;
  }

  const JobSpec& spec_;
  const SpecLimits& limits_;
  Part part_ = Part::kJob;
  std::size_t index_ = 0;
  std::vector<SpecProblem> out_;
};

}  // namespace

std::optional<std::string> check_name(std::string_view name) {
  if (!name.empty() && name.size() <= 64 && name[0] != '-' && name[0] != '.' &&
      std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return lower_or_digit(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
      }))
    return std::nullopt;
  return kNameRule + in_quotes(name);
}

std::optional<std::string> check_env_name(std::string_view name) {
  if (name.empty()) return "the name of a variable is empty";
  if (name.find('=') != std::string_view::npos)
    return "the variable name " + in_quotes(name) + " holds '='";
  if (has_nul(name)) return "the variable name " + in_quotes(name) + " holds a NUL byte";
  if (!is_utf8(name)) return "the variable name " + in_quotes(name) + " is not UTF-8";
  return std::nullopt;
}

std::optional<std::string> check_label_text(std::string_view text) {
  if (text.size() > 256) return "is longer than 256 bytes";
  if (!is_utf8(text)) return "is not UTF-8";
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
    return "holds a control character: " + in_quotes(text);
  return std::nullopt;
}

std::vector<SpecProblem> problems_of(const JobSpec& spec, const SpecLimits& limits) {
  return Check(spec, limits).run();
}

std::string to_string(const SpecProblem& problem, const JobSpec& spec) {
  std::string out;
  if (problem.part == Part::kRole) out = "role " + in_quotes(spec.roles[problem.index].name) + ": ";
  if (problem.part == Part::kInput)
    out = "input " + in_quotes(spec.inputs[problem.index].name) + ": ";
  if (problem.part == Part::kOutput)
    out = "output " + in_quotes(spec.outputs[problem.index].name) + ": ";
  return out + (problem.field.empty() ? "" : problem.field + ": ") + problem.text;
}

Status validate(const JobSpec& spec, const SpecLimits& limits) {
  for (const auto& [key, text] : {std::pair<const char*, const std::string&>{"name", spec.name},
                                  {"owner", spec.owner},
                                  {"project", spec.project}})
    if (text.empty())
      return fail(Errc::kInvalidArgument, std::string(key) +
                                              ": a job sent to REST needs one (dlrun's command "
                                              "line fills it in where a job file has none)");
  const std::vector<SpecProblem> problems = problems_of(spec, limits);
  if (problems.empty()) return {};
  return fail(Errc::kInvalidArgument, to_string(problems[0], spec));
}

}  // namespace dlrun::cluster

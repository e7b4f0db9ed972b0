#include "runtime/jobspec/spec_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"

namespace dlrun::jobspec {
namespace {

constexpr std::size_t kArgBytesMax = 128u << 10;  // MAX_ARG_STRLEN of Linux
constexpr std::uint64_t kTasksMax = cluster::kSpecLimits.tasks_max;

bool word(std::string_view text, std::size_t length_max, std::string_view extra) {
  return !text.empty() && text.size() <= length_max &&
         std::all_of(text.begin(), text.end(), [&](unsigned char c) {
           return std::isalnum(c) || extra.find(static_cast<char>(c)) != std::string_view::npos;
         });
}

std::string escaped(std::string_view text) {
  return dump(Json(std::string(text.substr(0, 80))));  // quoted, control characters escaped
}

Status check_env(const cluster::EnvList& env, std::string_view where) {
  if (env.size() > kEnvMax)
    return fail(Errc::kInvalidArgument, fmt::format("{}: more than {} variables", where, kEnvMax));
  std::vector<std::string_view> names;
  for (const auto& [name, value] : env) {
    if (const auto bad = check_env_name(name))
      return fail(Errc::kInvalidArgument, fmt::format("{}: {}", where, *bad));
    if (value.find('\0') != std::string::npos)
      return fail(Errc::kInvalidArgument,
                  fmt::format("{}: the value of {} holds a NUL byte", where, escaped(name)));
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return fail(Errc::kInvalidArgument, fmt::format("{}: {} is set twice", where, escaped(*twice)));
  return {};
}

/// Kahn: roles whose `after` are all gone are removed until none is left, or a circle is. Every
/// name in `after` exists.
Status check_order(const std::vector<cluster::RoleSpec>& roles) {
  std::map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < roles.size(); ++i) index.emplace(roles[i].name, i);
  std::vector<std::set<std::size_t>> after(roles.size());
  for (std::size_t i = 0; i < roles.size(); ++i)
    for (const auto& name : roles[i].after) after[i].insert(index.at(name));
  std::vector<bool> gone(roles.size(), false);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t i = 0; i < roles.size(); ++i) {
      if (gone[i] || !std::all_of(after[i].begin(), after[i].end(),
                                  [&](std::size_t j) { return static_cast<bool>(gone[j]); }))
        continue;
      gone[i] = moved = true;
    }
  }
  std::vector<std::string_view> left;
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (!gone[i]) left.push_back(roles[i].name);
  if (!left.empty())
    return fail(Errc::kInvalidArgument,
                fmt::format("'after' goes in a circle: {}", fmt::join(left, ", ")));
  return {};
}

}  // namespace

std::optional<std::string> check_role_name(std::string_view name) {
  if (word(name, 32, "_-") && std::islower(static_cast<unsigned char>(name[0])) &&
      std::none_of(name.begin(), name.end(), [](unsigned char c) { return std::isupper(c); }))
    return std::nullopt;
  return fmt::format("a role's name is a lower-case letter and up to 31 of a-z 0-9 _ -, not {}",
                     escaped(name));
}

std::optional<std::string> check_input_name(std::string_view name) {
  if (word(name, 64, "_.-")) return std::nullopt;
  return fmt::format("an input's name is up to 64 of A-Z a-z 0-9 _ . -, not {}", escaped(name));
}

std::optional<std::string> check_env_name(std::string_view name) {
  if (name.empty()) return "an environment variable without a name";
  if (name.find('=') != std::string_view::npos)
    return fmt::format("the variable name {} holds '='", escaped(name));
  if (name.find('\0') != std::string_view::npos)
    return fmt::format("the variable name {} holds a NUL byte", escaped(name));
  if (!is_utf8(name)) return fmt::format("the variable name {} is not UTF-8", escaped(name));
  return std::nullopt;
}

std::optional<std::string> check_label_text(std::string_view what, std::string_view text) {
  if (text.size() > 256) return fmt::format("{} is longer than 256 bytes", what);
  if (!is_utf8(text)) return fmt::format("{} is not UTF-8", what);
  if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
    return fmt::format("{} holds a control character: {}", what, escaped(text));
  return std::nullopt;
}

std::optional<std::string> check_role_program(const cluster::RoleSpec& role) {
  if (role.program == cluster::RoleProgram::kShardHost) {
    if (!role.argv.empty())
      return fmt::format("role '{}' runs dlrun's own shard host: it takes no argv", role.name);
    return std::nullopt;
  }
  if (role.argv.empty())
    return fmt::format("role '{}' needs argv, like argv = [\"python3\", \"train.py\"]", role.name);
  if (role.argv[0].empty())
    return fmt::format("role '{}': the first element of argv names the program and is empty",
                       role.name);
  return std::nullopt;
}

std::string_view format_of_name(std::string_view path) {
  static constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {"libsvm", "libsvm"}, {"svm", "libsvm"}, {"svmlight", "libsvm"},   {"libffm", "libffm"},
      {"ffm", "libffm"},    {"csv", "csv"},    {"tsv", "tsv"},           {"jsonl", "jsonl"},
      {"ndjson", "jsonl"},  {"npy", "npy"},    {"tfrecord", "tfrecord"}, {"tfrecords", "tfrecord"}};
  static constexpr std::string_view kPacked[] = {"gz", "zst", "xz", "bz2"};
  for (bool packed = false;; packed = true) {
    const auto dot = path.find_last_of("./");
    if (dot == std::string_view::npos || path[dot] == '/') return {};
    std::string ending(path.substr(dot + 1));
    for (char& c : ending)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    for (const auto& [name, format] : kEndings)
      if (ending == name) return format;
    if (packed || std::find(std::begin(kPacked), std::end(kPacked), ending) == std::end(kPacked))
      return {};
    path = path.substr(0, dot);
  }
}

std::string cause_name(cluster::Cause cause) {
  std::string out(cluster::to_string(cause));
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::vector<std::pair<std::string, cluster::Cause>> cause_names() {
  using cluster::Cause;
  std::vector<std::pair<std::string, Cause>> out;
  for (const Cause cause :
       {Cause::kExit, Cause::kSignal, Cause::kOom, Cause::kTimeLimit, Cause::kNodeLost,
        Cause::kShimLost, Cause::kStartFailed, Cause::kPreempted})
    out.emplace_back(cause_name(cause), cause);
  return out;
}

Status validate(const cluster::JobSpec& spec) {
  const auto wrong = [](std::string text) { return fail(Errc::kInvalidArgument, std::move(text)); };
  for (const auto& [what, text] : {std::pair<const char*, const std::string&>{"name", spec.name},
                                   {"owner", spec.owner},
                                   {"project", spec.project}})
    if (const auto bad = check_label_text(what, text)) return wrong(*bad);
  if (spec.roles.empty()) return wrong("a job needs at least one role");
  if (spec.roles.size() > kRolesMax) return wrong(fmt::format("more than {} roles", kRolesMax));
  if (spec.inputs.size() > kInputsMax) return wrong(fmt::format("more than {} inputs", kInputsMax));
  std::uint64_t tasks = 0;
  for (const auto& role : spec.roles) {
    if (const auto bad = check_role_name(role.name)) return wrong(*bad);
    if (const auto bad = check_role_program(role)) return wrong(*bad);
    if (std::count_if(spec.roles.begin(), spec.roles.end(),
                      [&](const auto& r) { return r.name == role.name; }) > 1)
      return wrong(fmt::format("two roles are named '{}'", role.name));
    if (role.count_min < 1 || role.count_max < role.count_min)
      return wrong(fmt::format("role '{}': bad count", role.name));
    tasks += role.count_max;
    const auto& need = role.resources;
    if (need.cpu_milli < 0 || need.memory_bytes < 0 || need.gpus < 0 || need.ports < 0)
      return wrong(fmt::format("role '{}' asks for less than nothing", role.name));
    std::size_t argument_bytes = 0;
    for (const auto& argument : role.argv) {
      if (argument.find('\0') != std::string::npos)
        return wrong(fmt::format("role '{}': argv holds a NUL byte", role.name));
      if (argument.size() >= kArgBytesMax)
        return wrong(fmt::format("role '{}': an argument of 128 KiB or more", role.name));
      argument_bytes += argument.size() + 1;
    }
    if (argument_bytes > 1u << 20)
      return wrong(fmt::format("role '{}': argv of more than 1 MiB", role.name));
    if (role.cwd.find('\0') != std::string::npos)
      return wrong(fmt::format("role '{}': cwd holds a NUL byte", role.name));
    DLRUN_TRY(check_env(role.env, fmt::format("role '{}'", role.name)));
    if (role.after.size() > kRolesMax)
      return wrong(
          fmt::format("role '{}': 'after' names more than {} roles", role.name, kRolesMax));
    for (const auto& other : role.after)
      if (std::none_of(spec.roles.begin(), spec.roles.end(),
                       [&](const auto& r) { return r.name == other; }))
        return wrong(fmt::format("role '{}': after names no role: '{}'", role.name, other));
  }
  if (tasks > kTasksMax) return wrong(fmt::format("{} tasks, a job may have {}", tasks, kTasksMax));
  if (spec.cwd.find('\0') != std::string::npos) return wrong("cwd holds a NUL byte");
  DLRUN_TRY(check_env(spec.submit_env, "the submitter's environment"));
  for (const auto& input : spec.inputs) {
    if (const auto bad = check_input_name(input.name)) return wrong(*bad);
    if (input.uris.empty()) return wrong(fmt::format("input '{}' has no uri", input.name));
    if (input.batch_rows == 0 || input.split_bytes == 0)
      return wrong(fmt::format("input '{}': batch_rows and split_bytes must not be 0", input.name));
  }
  DLRUN_TRY(check_order(spec.roles));
  // What the coordinator will say; the launcher fills in name and owner where a file has none.
  cluster::JobSpec whole = spec;
  if (whole.name.empty()) whole.name = "job";
  if (whole.owner.empty()) whole.owner = "nobody";
  if (whole.project.empty()) whole.project = "default";
  return cluster::validate(whole);
}

}  // namespace dlrun::jobspec

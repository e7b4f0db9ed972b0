#include "launcher/spec_from_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "runtime/base/utf8.h"
#include "runtime/cluster/core/framework/adapter.h"
#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "runtime/jobspec/units.h"

namespace dlrun::launcher {
namespace {

using jobspec::Json;

tl::unexpected<Error> wrong(std::string text) {
  return fail(Errc::kInvalidArgument, std::move(text));
}

/// "job:1:52: text" -> "text": a place within the command line helps nobody.
std::string without_places(std::string_view context) {
  std::string out;
  while (!context.empty()) {
    const auto newline = context.find('\n');
    std::string_view line = context.substr(0, newline);
    context = newline == std::string_view::npos ? std::string_view{} : context.substr(newline + 1);
    for (int i = 0; i < 2; ++i) {
      const auto colon = line.find(':');
      const auto digits = line.substr(0, colon);
      if (colon != std::string_view::npos && !digits.empty() &&
          std::all_of(digits.begin(), digits.end(),
                      [](unsigned char c) { return std::isdigit(c); }))
        line.remove_prefix(colon + 1);
      else if (i == 0 && line.starts_with("flags:"))
        line.remove_prefix(6), --i;
    }
    while (line.starts_with(' ')) line.remove_prefix(1);
    out += (out.empty() ? "" : "\n") + std::string(line);
  }
  return out;
}

Json scalar(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  if (!text.empty() &&
      text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == std::string::npos &&
      text != "-" && text.size() < 19)
    return std::stoll(text);
  return text;
}

std::string absolute(const std::string& uri, const std::string& cwd) {
  if (uri.empty() || uri.starts_with('/') || uri.find("://") != std::string::npos) return uri;
  return cwd + "/" + (uri.starts_with("./") ? uri.substr(2) : uri);
}

/// train=data/a.txt,data/b.txt,format=libsvm: what has no known key before '=' is a path.
Status add_input(Json& inputs, const std::string& flag) {
  static constexpr std::string_view kKeys[] = {
      "format",      "index_base",       "delimiter",
      "header",      "label_column",     "batch_rows",
      "passes",      "shuffle",          "seed",
      "split_bytes", "on_bad_record",    "bad_records_max",
      "quarantine",  "record_bytes_max", "column",
      "columns",     "missing",          "newlines_in_quotes",
      "token_type",  "sequence_length",  "tail",
      "separator",   "padding",          "vocabulary",
      "mode",        "static",           "lanes",
      "ends",        "skip_batches",     "take_batches",
      "weight"};
  /// Words, also where they look like numbers; `column`, `missing` and `weight` may come again and
  /// again.
  static constexpr std::string_view kWords[] = {
      "delimiter",  "format", "on_bad_record", "quarantine", "columns", "record_bytes_max",
      "token_type", "tail",   "mode",          "static",     "ends"};
  const auto equals = flag.find('=');
  if (equals == std::string::npos || equals == 0)
    return wrong(fmt::format("--input {}: write name=PATH[,format=csv,...]", flag));
  const std::string name = flag.substr(0, equals);
  if (inputs.contains(name)) return wrong(fmt::format("--input: two inputs are named '{}'", name));
  Json input = Json::object();
  input["uris"] = Json::array();
  std::string_view rest = std::string_view(flag).substr(equals + 1);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string item(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto eq = item.find('=');
    const std::string key = item.substr(0, eq);
    const bool wordy = eq != std::string::npos && !key.empty() &&
                       key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string::npos;
    if (!wordy) {
      input["uris"].push_back(jobspec::bytes_to_json(item));
      continue;
    }
    if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      const std::string near = jobspec::nearest(key, {std::begin(kKeys), std::end(kKeys)});
      return wrong(fmt::format("--input {}: unknown key '{}'{}", name, key,
                               near.empty() ? fmt::format("; known are {}", fmt::join(kKeys, ", "))
                                            : fmt::format("; did you mean '{}'?", near)));
    }
    const std::string value = item.substr(eq + 1);
    if (key == "column" || key == "missing") {
      Json& list = input[key == "column" ? "columns" : "missing"];
      if (!list.is_null() && !list.is_array())
        return wrong(
            fmt::format("--input {}: column=... and columns=... exclude each other", name));
      list.push_back(jobspec::bytes_to_json(value));
      continue;
    }
    if (key == "weight") {
      input["weights"].push_back(scalar(value));
      continue;
    }
    if (key == "columns" && input.contains(key))
      return wrong(fmt::format("--input {}: column=... and columns=... exclude each other", name));
    const bool word = std::find(std::begin(kWords), std::end(kWords), key) != std::end(kWords);
    input[key] = word ? jobspec::bytes_to_json(value) : scalar(value);
  }
  inputs[name] = std::move(input);
  return {};
}

Result<Json> env_json(const std::vector<std::string>& flags, const World& world) {
  Json out = Json::object();
  for (const std::string& flag : flags) {
    const auto equals = flag.find('=');
    const std::string name = flag.substr(0, equals);
    if (name.empty())
      return wrong(fmt::format("--env {}: write NAME=VALUE, or NAME to take it from here", flag));
    if (!is_utf8(name))
      return wrong(fmt::format("--env {}: the name of a variable must be UTF-8", flag));
    if (equals != std::string::npos) {
      out[name] = jobspec::bytes_to_json(flag.substr(equals + 1));
      continue;
    }
    const auto found = std::find_if(world.environment.begin(), world.environment.end(),
                                    [&](const auto& e) { return e.first == name; });
    if (found == world.environment.end())
      return wrong(fmt::format("--env {}: it is not set here", name));
    out[name] = jobspec::bytes_to_json(found->second);
  }
  return out;
}

Result<Json> role_json(const RunFlags& flags, const World& world) {
  Json role;
  role["count"] = flags.workers;
  role["argv"] = Json::array();
  if (flags.shell) {
    role["argv"] = {"/bin/sh", "-c",
                    jobspec::bytes_to_json(fmt::format("{}", fmt::join(flags.argv, " ")))};
  } else {
    for (const auto& argument : flags.argv)
      role["argv"].push_back(jobspec::bytes_to_json(argument));
  }
  DLRUN_ASSIGN(Json env, env_json(flags.env, world));
  role["env"] = std::move(env);
  if (!flags.cpus.empty()) role["cpus"] = flags.cpus;
  if (!flags.memory.empty()) role["memory"] = flags.memory;
  for (const auto& [key, text] :
       {std::pair<const char*, const std::string&>{"gpus", flags.gpus}, {"ports", flags.ports}})
    if (!text.empty()) role[key] = scalar(text);
  Json labels = Json::object();
  for (const std::string& flag : flags.labels) {
    const auto equals = flag.find('=');
    if (equals == std::string::npos || equals == 0)
      return wrong(fmt::format("--label {}: write NAME=VALUE", flag));
    labels[flag.substr(0, equals)] = flag.substr(equals + 1);
  }
  role["labels"] = std::move(labels);
  if (flags.shards > 0 && flags.framework.empty()) role["after"] = "ps";
  return role;
}

/// One less of a count or of both ends of a range, for the one that has a role of its own.
Result<Json> count_without_leader(const std::string& workers, const std::string& framework,
                                  std::string_view leader) {
  const auto range = jobspec::parse_count(workers);
  if (!range) return wrong("count: " + range.error().context);
  const auto [least, most] = *range;
  if (most == 1) return Json();
  if (least == 1)
    return wrong(fmt::format("-n {}: of --as {} one is the {}, so a range begins at 2", workers,
                             framework, leader));
  if (least == most) return Json(most - 1);
  return Json(fmt::format("{}..{}", least - 1, most - 1));
}

/// Roles that all run `role`'s program: workers, among them the leader when the framework has one,
/// and servers.
Status add_framework_roles(const RunFlags& flags, const Json& role, Json& job) {
  const cluster::framework::Adapter* adapter = cluster::framework::find(flags.framework);
  if (adapter == nullptr) {
    std::vector<std::string_view> known;
    for (const auto& one : cluster::framework::adapters()) known.push_back(one.name);
    const std::string near = jobspec::nearest(flags.framework, known);
    return wrong(near.empty() ? fmt::format("--as is one of {}, not '{}'",
                                            cluster::framework::names(), flags.framework)
                              : fmt::format("--as {}: did you mean '{}'?", flags.framework, near));
  }
  job["framework"] = flags.framework;
  Json workers = role;
  if (!adapter->leader.empty()) {
    Json leader = role;
    leader["count"] = 1;
    job["role"][std::string(adapter->leader)] = std::move(leader);
    DLRUN_ASSIGN(workers["count"],
                 count_without_leader(flags.workers, flags.framework, adapter->leader));
  }
  if (!workers["count"].is_null()) job["role"][std::string(adapter->workers)] = std::move(workers);
  if (flags.shards == 0) return {};
  if (adapter->servers.empty())
    return wrong(fmt::format(
        "--ps: {} has no servers; shards of dlrun beside it are a role of a job file, with program "
        "= \"shard-host\"",
        flags.framework));
  Json servers = role;
  servers["count"] = flags.shards;
  servers.erase("gpus");
  // Of a framework that knows no roles nobody else says that its servers do not count.
  if (adapter->roles.empty()) servers["end"] = "serves";
  job["role"][std::string(adapter->servers)] = std::move(servers);
  return {};
}

/// The submitter's environment, as far as it can be sent: names that are not UTF-8 or come twice
/// are left out.
cluster::EnvList sendable(const cluster::EnvList& environment) {
  cluster::EnvList out;
  for (const auto& entry : environment) {
    if (entry.first.empty() || !is_utf8(entry.first)) continue;
    if (std::any_of(out.begin(), out.end(), [&](const auto& e) { return e.first == entry.first; }))
      continue;
    out.push_back(entry);
  }
  return out;
}

}  // namespace

std::string default_name(const std::vector<std::string>& argv) {
  const auto base = [](const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
  };
  if (argv.empty()) return "main";
  std::string name = base(argv[0]);
  if (name.starts_with("python") || name == "bash" || name == "sh" || name == "env") {
    for (std::size_t i = 1; i < argv.size(); ++i) {
      if (argv[i] == "-c") break;  // what follows is a program's text, not its name
      if (argv[i].empty() || argv[i][0] == '-') continue;
      name = base(argv[i]);
      break;
    }
  }
  // What the control plane takes as a name; anything else becomes '-'.
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_') c = '-';
  name.erase(0, name.find_first_not_of("-."));
  name.resize(std::min<std::size_t>(name.size(), 64));
  return name.empty() ? "main" : name;
}

Result<cluster::JobSpec> make_spec(const RunFlags& flags, const World& world) {
  cluster::JobSpec spec;
  Json job = Json::object();
  if (!flags.name.empty()) job["name"] = flags.name;
  if (!flags.project.empty()) job["project"] = flags.project;
  if (!flags.priority.empty()) job["priority"] = scalar(flags.priority);
  if (!flags.time_limit.empty()) job["time_limit"] = flags.time_limit;
  if (!flags.grace.empty()) job["grace"] = flags.grace;
  if (!flags.env_policy.empty()) job["env_policy"] = flags.env_policy;
  if (flags.restarts > 0) job["restart"] = Json{{"max", flags.restarts}};
  if (flags.file.empty()) {
    if (flags.argv.empty())
      return wrong("what should run? dlrun run [options] -- PROGRAM [ARGUMENTS...]");
    DLRUN_ASSIGN(Json worker, role_json(flags, world));
    if (!flags.framework.empty()) {
      DLRUN_TRY(add_framework_roles(flags, worker, job));
    } else {
      job["role"]["worker"] = std::move(worker);
      if (flags.shards > 0)
        job["role"]["ps"] = Json{{"program", "shard-host"}, {"count", flags.shards}};
    }
    job["input"] = Json::object();
    for (const auto& input : flags.inputs) DLRUN_TRY(add_input(job["input"], input));
    for (const std::string& flag : flags.outputs) {
      const auto equals = flag.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == flag.size())
        return wrong(fmt::format("--output {}: write name=FOLDER", flag));
      job["output"][flag.substr(0, equals)] =
          Json{{"path", jobspec::bytes_to_json(absolute(flag.substr(equals + 1), world.cwd))}};
    }
    if (flags.name.empty()) job["name"] = default_name(flags.argv);
    auto parsed = jobspec::parse_job(jobspec::dump(job), jobspec::Syntax::kJson, "flags");
    if (!parsed) return wrong(without_places(parsed.error().context));
    spec = std::move(*parsed);
  } else {
    if (!flags.argv.empty()) return wrong("either a job file or a program after --, not both");
    if (flags.workers_given || flags.shards > 0 || !flags.framework.empty() ||
        !flags.inputs.empty() || !flags.outputs.empty() || !flags.cpus.empty() ||
        !flags.memory.empty() || !flags.gpus.empty() || !flags.ports.empty() ||
        !flags.labels.empty() || flags.shell)
      return wrong(
          "-n, --as (its key is framework), --ps, --input, --output, --cpus, --memory, --gpus, "
          "--ports, --label and --shell "
          "belong into "
          "the job file");
    DLRUN_ASSIGN(spec, jobspec::load_job_file(flags.file));
    // The flags that change a file go through the same rules: a job of their own, with a program
    // that never runs.
    job["role"]["worker"] = Json{{"argv", {"true"}}};
    DLRUN_ASSIGN(job["role"]["worker"]["env"], env_json(flags.env, world));
    auto parsed = jobspec::parse_job(jobspec::dump(job), jobspec::Syntax::kJson, "flags");
    if (!parsed) return wrong(without_places(parsed.error().context));
    if (!flags.name.empty()) spec.name = parsed->name;
    if (!flags.project.empty()) spec.project = parsed->project;
    if (!flags.priority.empty()) spec.priority = parsed->priority;
    if (!flags.time_limit.empty()) spec.time_limit = parsed->time_limit;
    if (!flags.grace.empty()) spec.grace = parsed->grace;
    if (!flags.env_policy.empty()) spec.env_policy = parsed->env_policy;
    if (flags.restarts > 0) spec.restart.restarts_max = flags.restarts;
    for (const auto& [name, value] : parsed->roles[0].env)
      for (auto& role : spec.roles) {
        std::erase_if(role.env, [&n = name](const auto& e) { return e.first == n; });
        role.env.emplace_back(name, value);
      }
    if (spec.name.empty()) {
      // without its ending, which it has: load_job_file took it
      spec.name = default_name({flags.file.substr(0, flags.file.rfind('.'))});
    }
  }
  // The directory of the submit is used where a node has it; one that was asked for must be there.
  const std::string asked = flags.cwd.empty() ? spec.cwd : flags.cwd;
  for (auto& role : spec.roles) {
    if (role.program != cluster::RoleProgram::kProcess) continue;
    if (!flags.cwd.empty() || role.cwd.empty()) role.cwd = asked;
    role.cwd = absolute(role.cwd, world.cwd);
  }
  spec.cwd = world.cwd;
  spec.hold = spec.hold || flags.hold;
  if (spec.owner.empty()) spec.owner = world.user;
  for (auto& input : spec.inputs)
    for (auto& uri : input.uris) uri = absolute(uri, world.cwd);
  if (spec.env_policy == cluster::EnvPolicy::kInherit && spec.submit_env.empty())
    spec.submit_env = sendable(world.environment);
  return spec;
}

}  // namespace dlrun::launcher

#include "runtime/jobspec/job_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "runtime/base/utf8.h"
#include "runtime/cluster/core/end_rules.h"
#include "runtime/cluster/core/framework/adapter.h"
#include "runtime/cluster/core/framework/complete.h"
#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "runtime/jobspec/units.h"
#include "runtime/jobspec/words.h"

namespace dlrun::jobspec {
namespace {

constexpr cluster::SpecLimits kLimits = cluster::kSpecLimits;

}  // namespace

std::string shown(const Node& node) {
  if (node.kind == Node::Kind::kInt || node.kind == Node::Kind::kFloat) return node.text;
  return node.kind == Node::Kind::kString ? in_quotes(node.text, 40)
                                          : std::string(kind_name(node.kind));
}

JobReader::Place& JobReader::place(PartId part, std::string_view field) {
  return places_[{part, std::string(field)}];
}

bool JobReader::told(PartId part, std::string_view field) const {
  const auto found = places_.find({part, std::string(field)});
  return found != places_.end() && found->second.bad;
}

void JobReader::problem(Mark at, std::string text) {
  if (problems_.size() >= kProblemsMax) {
    more_ = true;
    return;
  }
  problems_.push_back(at_place(file_, at, text));
}

bool JobReader::want(const Node& node, Node::Kind kind, std::string_view what) {
  if (node.kind == kind) return true;
  problem(node.at,
          fmt::format("{} must be {}, not {}", what, kind_name(kind), kind_name(node.kind)));
  return false;
}

bool JobReader::at_most(const Node& node, std::size_t most, std::string_view what) {
  const std::size_t n = node.members.size() + node.items.size();
  if (n <= most) return true;
  problem(node.at, fmt::format("{} has {} entries, at most {} are possible", what, n, most));
  return false;
}

void JobReader::table(const Node& node, std::string_view where, const std::vector<Field>& fields,
                      std::optional<PartId> part) {
  if (!want(node, Node::Kind::kTable, where)) {
    if (part) place(*part, "").bad = true;
    return;
  }
  std::vector<std::string_view> seen;
  for (const Node::Member& member : node.members) {
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const Field& f) { return f.first == member.key; });
    if (field == fields.end()) {
      if (problems_.size() >= kProblemsMax) return void(more_ = true);
      std::vector<std::string_view> known;
      for (const Field& f : fields) known.push_back(f.first);
      const std::string near = nearest(member.key, known);
      problem(member.at, near.empty() ? fmt::format("unknown key '{}' in {}; known are {}",
                                                    member.key, where, fmt::join(known, ", "))
                                      : fmt::format("unknown key '{}' in {}; did you mean '{}'?",
                                                    member.key, where, near));
      continue;
    }
    if (std::find(seen.begin(), seen.end(), member.key) != seen.end()) {
      problem(member.at, fmt::format("'{}' stands twice in {}", member.key, where));
      continue;
    }
    seen.push_back(member.key);
    const std::size_t before = problems_.size();
    field->second(member.value);
    if (part) place(*part, member.key) = {member.value.at, problems_.size() > before || more_};
  }
}

std::string JobReader::text(const Node& node, std::string_view what) {
  return want(node, Node::Kind::kString, what) ? node.text : std::string();
}

std::string JobReader::bytes(const Node& node, std::string_view what) {
  std::string out;
  if (node.kind == Node::Kind::kTable && node.members.size() == 1 &&
      node.members[0].key == "base64") {
    const Node& value = node.members[0].value;
    auto decoded = base64_decode(text(value, "base64"));
    if (decoded)
      out = std::move(*decoded);
    else
      problem(value.at, fmt::format("{}: {}", what, decoded.error().context));
  } else {
    out = text(node, what);
  }
  if (out.find('\0') != std::string::npos) {
    problem(node.at, fmt::format("{} holds a NUL byte, which no program can receive", what));
    out.clear();
  }
  return out;
}

std::vector<std::string> JobReader::bytes_list(const Node& node, std::string_view what) {
  std::vector<std::string> out;
  if (!want(node, Node::Kind::kList, what)) return out;
  for (const Node& item : node.items) out.push_back(bytes(item, what));
  return out;
}

bool JobReader::written_as(const Node& node, std::string_view what, std::string_view like,
                           std::initializer_list<Node::Kind> also) {
  if (node.kind == Node::Kind::kString ||
      std::find(also.begin(), also.end(), node.kind) != also.end())
    return true;
  problem(node.at, fmt::format("{} must be {}, not {}", what, like, shown(node)));
  return false;
}

bool JobReader::boolean(const Node& node, std::string_view what) {
  return want(node, Node::Kind::kBool, what) && node.text == "true";
}

Duration JobReader::duration(const Node& node, std::string_view what) {
  if (node.kind == Node::Kind::kInt || node.kind == Node::Kind::kFloat) {
    double seconds = -1;
    std::from_chars(node.text.data(), node.text.data() + node.text.size(), seconds);
    if (seconds >= 0 && seconds <= 3.2e8) return Duration(std::llround(seconds * 1e9));
    problem(node.at, fmt::format("{} must be between 0 seconds and ten years", what));
    return Duration{0};
  }
  if (!written_as(node, what, "a duration, like \"90s\" or seconds", {})) return Duration{0};
  const auto parsed = parse_duration(node.text);
  if (!parsed) problem(node.at, fmt::format("{}: {}", what, parsed.error().context));
  return parsed ? *parsed : Duration{0};
}

std::int64_t JobReader::size(const Node& node, std::string_view what) {
  if (node.kind == Node::Kind::kInt)
    return integer<std::int64_t>(node, what, 0, std::numeric_limits<std::int64_t>::max());
  if (!written_as(node, what, "a size, like \"2GiB\" or bytes", {})) return 0;
  const auto parsed = parse_size(node.text);
  if (!parsed) problem(node.at, fmt::format("{}: {}", what, parsed.error().context));
  return parsed ? *parsed : 0;
}

std::size_t JobReader::choice(const Node& node, std::string_view what,
                              const std::vector<std::string_view>& names) {
  const std::string value = text(node, what);
  if (node.kind != Node::Kind::kString) return 0;
  const auto found = std::find(names.begin(), names.end(), value);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::string near = nearest(value, names);
  problem(node.at, near.empty() ? fmt::format("{} is one of {}, not '{}'", what,
                                              fmt::join(names, ", "), value)
                                : fmt::format("{} is one of {}; did you mean '{}'?", what,
                                              fmt::join(names, ", "), near));
  return 0;
}

cluster::EnvList JobReader::env(const Node& node, std::string_view where) {
  cluster::EnvList out;
  if (!want(node, Node::Kind::kTable, where) || !at_most(node, kLimits.env_max, where)) return out;
  for (const Node::Member& member : node.members) {
    if (const auto bad = cluster::check_env_name(member.key)) problem(member.at, *bad);
    if (std::any_of(out.begin(), out.end(), [&](const auto& e) { return e.first == member.key; }))
      problem(member.at, fmt::format("'{}' stands twice in {}", member.key, where));
    // Numbers and booleans are plain text to a program; writing them without quotes is no reason to
    // refuse.
    const bool scalar = member.value.kind == Node::Kind::kInt ||
                        member.value.kind == Node::Kind::kFloat ||
                        member.value.kind == Node::Kind::kBool;
    out.emplace_back(member.key, scalar ? member.value.text
                                        : bytes(member.value, fmt::format("env '{}'", member.key)));
  }
  return out;
}

sched::Labels JobReader::labels(const Node& node, std::string_view where) {
  sched::Labels out;
  if (!want(node, Node::Kind::kTable, where)) return out;
  for (const Node::Member& member : node.members)
    if (!out.emplace(member.key, text(member.value, member.key)).second)
      problem(member.at, fmt::format("'{}' stands twice in {}", member.key, where));
  return out;
}

void JobReader::role(const Node::Member& member, const cluster::EnvList& common) {
  const std::string where = fmt::format("[role.{}]", member.key);
  cluster::RoleSpec role;
  role.name = member.key;
  const PartId part{Part::kRole, spec_.roles.size()};
  place(part, "").at = member.at;
  std::vector<Mark> after_marks;
  table(
      member.value, where,
      {
          {"kind",
           [&](const Node& n) {
             role.kind = choice(n, "kind", {"batch", "service"}) == 1 ? cluster::RoleKind::kService
                                                                      : cluster::RoleKind::kBatch;
           }},
          {"program",
           [&](const Node& n) {
             role.program = choice(n, "program", {"process", "shard-host"}) == 1
                                ? cluster::RoleProgram::kShardHost
                                : cluster::RoleProgram::kProcess;
           }},
          {"count",
           [&](const Node& n) {
             if (!written_as(n, "count", "a count, like 4 or \"1..4\"", {Node::Kind::kInt})) return;
             const auto parsed = parse_count(n.text);
             if (!parsed) return problem(n.at, "count: " + parsed.error().context);
             std::tie(role.count_min, role.count_max) = *parsed;
           }},
          {"argv", [&](const Node& n) { role.argv = bytes_list(n, "argv"); }},
          {"env", [&](const Node& n) { role.env = env(n, "env"); }},
          {"cwd", [&](const Node& n) { role.cwd = bytes(n, "cwd"); }},
          {"cpus",
           [&](const Node& n) {
             if (!written_as(n, "cpus", "a number of cores, like 2 or 0.5",
                             {Node::Kind::kInt, Node::Kind::kFloat}))
               return;
             const auto parsed = parse_cpus(n.text);
             if (!parsed) return problem(n.at, "cpus: " + parsed.error().context);
             role.resources.cpu_milli = *parsed;
           }},
          {"memory", [&](const Node& n) { role.resources.memory_bytes = size(n, "memory"); }},
          {"gpus",
           [&](const Node& n) { role.resources.gpus = integer<std::int32_t>(n, "gpus", 0, 1024); }},
          {"ports",
           [&](const Node& n) {
             role.resources.ports = integer<std::int32_t>(n, "ports", 0, 1024);
           }},
          {"labels", [&](const Node& n) { role.require = labels(n, "labels"); }},
          {"ready",
           [&](const Node& n) {
             role.ready =
                 static_cast<cluster::ReadyWhen>(choice(n, "ready", {"running", "told", "port"}));
           }},
          {"time_limit", [&](const Node& n) { role.time_limit = duration(n, "time_limit"); }},
          {"rlimits", [&](const Node& n) { role.rlimits = rlimits(n); }},
          {"restart_on", [&](const Node& n) { role.restart_on = causes(n, "restart_on"); }},
          {"end", [&](const Node& n) { end_rule(n, role); }},
          {"quorum",
           [&](const Node& n) { role.quorum = integer<std::uint32_t>(n, "quorum", 1, 65'536); }},
          {"failures", [&](const Node& n) { role.failures_permille = failures(n); }},
          {"linger", [&](const Node& n) { role.linger = duration(n, "linger"); }},
          {"after",
           [&](const Node& n) {
             if (n.kind == Node::Kind::kString) {
               role.after = {n.text};
               after_marks = {n.at};
             } else if (want(n, Node::Kind::kList, "after") &&
                        at_most(n, kLimits.roles_max, "after")) {
               for (const Node& item : n.items) {
                 role.after.push_back(text(item, "after"));
                 after_marks.push_back(item.at);
               }
             }
           }},
      },
      part);
  for (const auto& entry : common)
    if (std::none_of(role.env.begin(), role.env.end(),
                     [&](const auto& e) { return e.first == entry.first; }))
      role.env.push_back(entry);
  spec_.roles.push_back(std::move(role));
  after_marks_.push_back(std::move(after_marks));
}

void JobReader::output(const Node::Member& member) {
  const std::string where = fmt::format("[output.{}]", member.key);
  cluster::OutputSpec output;
  output.name = member.key;
  const PartId part{Part::kOutput, spec_.outputs.size()};
  place(part, "").at = member.at;
  table(member.value, where,
        {
            {"path", [&](const Node& n) { output.path = bytes(n, "path"); }},
            {"role", [&](const Node& n) { output.role = text(n, "role"); }},
        },
        part);
  spec_.outputs.push_back(std::move(output));
}

/// An output without a role is of the first batch role that trains.
void JobReader::default_outputs() {
  std::vector<std::string_view> names;
  std::string first;
  for (const auto& role : spec_.roles) {
    names.push_back(role.name);
    if (first.empty() && role.kind == cluster::RoleKind::kBatch && cluster::trains(spec_, role))
      first = role.name;
  }
  for (std::size_t i = 0; i < spec_.outputs.size() && !names.empty(); ++i) {
    auto& output = spec_.outputs[i];
    if (output.role.empty()) output.role = first.empty() ? std::string(names[0]) : first;
    const std::string near = nearest(output.role, names);
    Place& at = place({Part::kOutput, i}, "role");
    if (near.empty() || near == output.role || at.bad) continue;
    at.bad = true;
    problem(at.at, fmt::format("output '{}': role: there is no role '{}'; did you mean '{}'?",
                               output.name, output.role, near));
  }
}

cluster::Rlimits JobReader::rlimits(const Node& node) {
  cluster::Rlimits out;
  if (!want(node, Node::Kind::kTable, "rlimits")) return out;
  std::vector<Field> fields;
  for (const std::string_view name : cluster::kRlimitNames)
    fields.emplace_back(name, [this, &out, name](const Node& n) {
      constexpr auto kUnlimited = std::numeric_limits<std::uint64_t>::max();
      std::uint64_t& value = out[std::string(name)];
      if (n.kind == Node::Kind::kInt)
        value = integer<std::uint64_t>(n, name, 0, kUnlimited);
      else if (n.kind == Node::Kind::kString && n.text == "unlimited")
        value = kUnlimited;
      else
        value = static_cast<std::uint64_t>(size(n, name));
    });
  table(node, "rlimits", fields);
  return out;
}

std::vector<cluster::Cause> JobReader::causes(const Node& node, std::string_view what) {
  std::vector<cluster::Cause> out;
  if (!want(node, Node::Kind::kList, what)) return out;
  const auto known = cause_names();
  if (!at_most(node, known.size(), what)) return out;
  std::vector<std::string_view> names;
  for (const auto& [name, cause] : known) names.push_back(name);
  for (Node item : node.items) {
    std::replace(item.text.begin(), item.text.end(), '_', '-');
    const std::size_t before = problems_.size();
    const std::size_t i = choice(item, what, names);
    if (problems_.size() == before) out.push_back(known[i].second);
  }
  return out;
}

void JobReader::restart(const Node& node) {
  table(node, "[restart]",
        {
            {"max",
             [&](const Node& n) {
               spec_.restart.restarts_max =
                   integer<std::uint32_t>(n, "max", 0, kLimits.restarts_max);
             }},
            {"on", [&](const Node& n) { spec_.restart.on = causes(n, "on"); }},
        });
}

void JobReader::check_after() {
  for (std::size_t i = 0; i < spec_.roles.size(); ++i) {
    const auto& role = spec_.roles[i];
    Place& at = place({Part::kRole, i}, "after");
    for (std::size_t k = 0; k < role.after.size(); ++k) {
      if (std::any_of(spec_.roles.begin(), spec_.roles.end(),
                      [&](const auto& r) { return r.name == role.after[k]; }))
        continue;
      std::vector<std::string_view> names;
      for (const auto& r : spec_.roles) names.push_back(r.name);
      const std::string near = nearest(role.after[k], names);
      problem(k < after_marks_[i].size() ? after_marks_[i][k] : at.at,
              fmt::format("after: no role '{}'{}", role.after[k],
                          near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
      at.bad = true;
    }
  }
}

void JobReader::end_rule(const Node& node, cluster::RoleSpec& role) {
  std::vector<std::string_view> words;
  for (const cluster::EndRow& row : cluster::kEndRows) words.push_back(row.word);
  const std::size_t before = problems_.size();
  const std::size_t i = choice(node, "end", words);
  if (problems_.size() == before) role.end = cluster::kEndRows[i].rule;
}

/// 0.25 -> 250; a share that would be rounded to nothing is no share.
std::uint32_t JobReader::failures(const Node& node) {
  double share = -1;
  if (!written_as(node, "failures", "a share, like 0.5", {Node::Kind::kInt, Node::Kind::kFloat}))
    return 0;
  std::from_chars(node.text.data(), node.text.data() + node.text.size(), share);
  if (share >= 0.001 && share <= 1) return static_cast<std::uint32_t>(std::lround(share * 1000));
  problem(node.at, fmt::format("failures must be a share from 0.001 to 1, not {}", shown(node)));
  return 0;
}

void JobReader::complete() {
  const PartId job{Part::kJob, 0};
  if (told(job, "framework") || told(job, "role")) return;
  for (std::size_t i = 0; i < spec_.roles.size(); ++i)
    if (told({Part::kRole, i}, "") || told({Part::kRole, i}, "count") ||
        told({Part::kRole, i}, "end") || told({Part::kRole, i}, "program"))
      return;
  for (const cluster::SpecProblem& wrong : cluster::framework::complete(spec_)) {
    tell(wrong);
    place({wrong.part, wrong.index}, wrong.field).bad = true;
  }
}

void JobReader::tell(const cluster::SpecProblem& wrong) {
  const PartId part{wrong.part, wrong.index};
  Mark at = root_;
  for (const std::string_view field : {std::string_view(wrong.field), std::string_view()})
    if (const auto found = places_.find({part, std::string(field)});
        found != places_.end() && found->second.at.line != 0) {
      at = found->second.at;
      break;
    }
  problem(at, cluster::to_string(wrong, spec_));
}

void JobReader::check_spec() {
  const PartId job{Part::kJob, 0};
  for (const cluster::SpecProblem& wrong : cluster::problems_of(spec_)) {
    const PartId part{wrong.part, wrong.index};
    const bool follows = told(part, "") || told(part, wrong.field) ||
                         (wrong.field == "argv" && told(part, "program")) ||
                         (wrong.field == "ready" && told(part, "ports")) ||
                         (wrong.field == "quorum" && told(part, "end")) ||
                         (wrong.field == "failures" && told(part, "end")) ||
                         (wrong.field == "env" && told(job, "env"));
    if (!follows) tell(wrong);
  }
}

Result<cluster::JobSpec> JobReader::read(const Node& root) {
  constexpr auto kI32Min = std::numeric_limits<std::int32_t>::min();
  constexpr auto kI32Max = std::numeric_limits<std::int32_t>::max();
  root_ = root.at;
  const Node* roles = nullptr;
  cluster::EnvList common;
  table(
      root, "the job",
      {
          {"name", [&](const Node& n) { spec_.name = text(n, "name"); }},
          {"hold", [&](const Node& n) { spec_.hold = boolean(n, "hold"); }},
          {"framework",
           [&](const Node& n) {
             std::vector<std::string_view> known;
             for (const auto& adapter : cluster::framework::adapters())
               known.push_back(adapter.name);
             const std::size_t before = problems_.size();
             const std::size_t i = choice(n, "framework", known);
             if (problems_.size() == before) spec_.framework = std::string(known[i]);
           }},
          {"owner", [&](const Node& n) { spec_.owner = text(n, "owner"); }},
          {"project", [&](const Node& n) { spec_.project = text(n, "project"); }},
          {"priority",
           [&](const Node& n) {
             spec_.priority = integer<std::int32_t>(n, "priority", kI32Min, kI32Max);
           }},
          {"time_limit", [&](const Node& n) { spec_.time_limit = duration(n, "time_limit"); }},
          {"grace", [&](const Node& n) { spec_.grace = duration(n, "grace"); }},
          {"failure_grace",
           [&](const Node& n) { spec_.failure_grace = duration(n, "failure_grace"); }},
          {"cwd", [&](const Node& n) { spec_.cwd = bytes(n, "cwd"); }},
          {"env", [&](const Node& n) { common = env(n, "env"); }},
          {"env_policy",
           [&](const Node& n) {
             spec_.env_policy = choice(n, "env_policy", {"clean", "inherit"}) == 0
                                    ? cluster::EnvPolicy::kClean
                                    : cluster::EnvPolicy::kInherit;
           }},
          {"submit_env", [&](const Node& n) { spec_.submit_env = env(n, "submit_env"); }},
          {"role", [&](const Node& n) { roles = &n; }},
          {"input",
           [&](const Node& n) {
             if (!want(n, Node::Kind::kTable, "input") || !at_most(n, kLimits.inputs_max, "input"))
               return;
             for (const Node::Member& member : n.members) input(member);
           }},
          {"output",
           [&](const Node& n) {
             if (!want(n, Node::Kind::kTable, "output") ||
                 !at_most(n, kLimits.outputs_max, "output"))
               return;
             for (const Node::Member& member : n.members) output(member);
           }},
          {"restart", [&](const Node& n) { restart(n); }},
      },
      PartId{Part::kJob, 0});
  if (roles != nullptr) {
    const bool good =
        want(*roles, Node::Kind::kTable, "role") && at_most(*roles, kLimits.roles_max, "role");
    place({Part::kJob, 0}, "role").bad = !good;
    if (good)
      for (const Node::Member& member : roles->members) role(member, common);
  }
  check_after();
  complete();
  default_outputs();
  check_spec();
  if (problems_.empty()) return std::move(spec_);
  if (more_) problems_.push_back(fmt::format("{}: and more problems like these", file_));
  return fail(Errc::kInvalidArgument, fmt::format("{}", fmt::join(problems_, "\n")));
}

}  // namespace dlrun::jobspec

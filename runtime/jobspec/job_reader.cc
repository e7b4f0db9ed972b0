#include "runtime/jobspec/job_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "io/core/column_text.h"
#include "runtime/jobspec/job_file.h"
#include "runtime/jobspec/json.h"
#include "runtime/jobspec/spec_rules.h"
#include "runtime/jobspec/units.h"

namespace dlrun::jobspec {
namespace {

constexpr std::array<std::string_view, 11> kFormats = {
    "libsvm",    "libffm",   "csv", "tsv", "jsonl", "tfrecord",
    "tfexample", "recordio", "npy", "idx", "tokens"};
constexpr std::uint64_t kRecordBytesMost = 64u << 20;

io::Format format_of(std::string_view word, bool columns) {
  if (word == "libffm") return io::Format::kLibffm;
  if (word == "csv" || word == "tsv") return columns ? io::Format::kTable : io::Format::kCsv;
  if (word == "jsonl") return io::Format::kJsonLines;
  if (word == "tfrecord") return io::Format::kTfRecord;
  if (word == "tfexample") return io::Format::kTfExample;
  if (word == "recordio") return io::Format::kRecordIo;
  if (word == "npy") return io::Format::kNpy;
  if (word == "idx") return io::Format::kIdx;
  if (word == "tokens") return io::Format::kTokens;
  return io::Format::kLibsvm;
}

}  // namespace

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

void JobReader::table(const Node& node, std::string_view where, const std::vector<Field>& fields) {
  if (!want(node, Node::Kind::kTable, where)) return;
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
    field->second(member.value);
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

bool JobReader::boolean(const Node& node, std::string_view what) {
  return want(node, Node::Kind::kBool, what) && node.text == "true";
}

template <class T>
T JobReader::integer(const Node& node, std::string_view what, T low, T high) {
  if (!want(node, Node::Kind::kInt, what)) return low;
  T value{};
  const auto [end, error] =
      std::from_chars(node.text.data(), node.text.data() + node.text.size(), value);
  if (error != std::errc{} || end != node.text.data() + node.text.size() || value < low ||
      value > high) {
    problem(node.at,
            fmt::format("{} must be between {} and {}, not {}", what, low, high, node.text));
    return low;
  }
  return value;
}

Duration JobReader::duration(const Node& node, std::string_view what) {
  if (node.kind == Node::Kind::kInt || node.kind == Node::Kind::kFloat) {
    double seconds = -1;
    std::from_chars(node.text.data(), node.text.data() + node.text.size(), seconds);
    if (seconds >= 0 && seconds <= 3.2e8) return Duration(std::llround(seconds * 1e9));
    problem(node.at, fmt::format("{} must be between 0 seconds and ten years", what));
    return Duration{0};
  }
  if (!want(node, Node::Kind::kString, what)) return Duration{0};
  const auto parsed = parse_duration(node.text);
  if (!parsed) problem(node.at, fmt::format("{}: {}", what, parsed.error().context));
  return parsed ? *parsed : Duration{0};
}

std::int64_t JobReader::size(const Node& node, std::string_view what) {
  if (node.kind == Node::Kind::kInt)
    return integer<std::int64_t>(node, what, 0, std::numeric_limits<std::int64_t>::max());
  if (!want(node, Node::Kind::kString, what)) return 0;
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
  if (!want(node, Node::Kind::kTable, where) || !at_most(node, kEnvMax, where)) return out;
  for (const Node::Member& member : node.members) {
    if (const auto bad = check_env_name(member.key)) problem(member.at, *bad);
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
  if (const auto bad = check_role_name(member.key)) problem(member.at, *bad);
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
             if (n.kind != Node::Kind::kInt && !want(n, Node::Kind::kString, "count")) return;
             const auto parsed = parse_count(n.text);
             if (!parsed) return problem(n.at, "count: " + parsed.error().context);
             std::tie(role.count_min, role.count_max) = *parsed;
           }},
          {"argv", [&](const Node& n) { role.argv = bytes_list(n, "argv"); }},
          {"env", [&](const Node& n) { role.env = env(n, "env"); }},
          {"cwd", [&](const Node& n) { role.cwd = bytes(n, "cwd"); }},
          {"cpus",
           [&](const Node& n) {
             if (n.kind != Node::Kind::kInt && n.kind != Node::Kind::kFloat &&
                 !want(n, Node::Kind::kString, "cpus"))
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
          {"after",
           [&](const Node& n) {
             if (n.kind == Node::Kind::kString) {
               role.after = {n.text};
               after_marks = {n.at};
             } else if (want(n, Node::Kind::kList, "after") && at_most(n, kRolesMax, "after")) {
               for (const Node& item : n.items) {
                 role.after.push_back(text(item, "after"));
                 after_marks.push_back(item.at);
               }
             }
           }},
      });
  for (const auto& entry : common)
    if (std::none_of(role.env.begin(), role.env.end(),
                     [&](const auto& e) { return e.first == entry.first; }))
      role.env.push_back(entry);
  if (const auto bad = check_role_program(role)) problem(member.at, *bad);
  spec_.roles.push_back(std::move(role));
  role_marks_.emplace_back(member.at, std::move(after_marks));
}

/// What the names of the files tell when `format` is not given: a guess of libsvm would fail at the
/// first line of anything else, long after the submit.
std::string JobReader::format_of_names(const io::InputSpec& input, Mark at) {
  std::string_view format;
  for (const std::string& uri : input.uris) {
    const std::string_view one = format_of_name(uri);
    const std::string_view shown = std::string_view(uri).substr(0, 200);
    if (one.empty() || (!format.empty() && one != format)) {
      problem(at, fmt::format("input '{}': {} its format; add format = one of {}", input.name,
                              one.empty() ? fmt::format("the name '{}' does not tell", shown)
                                          : fmt::format("'{}' differs from the first in", shown),
                              fmt::join(kFormats, ", ")));
      return {};
    }
    format = one;
  }
  return std::string(format);
}

void JobReader::input(const Node::Member& member) {
  const std::string where = fmt::format("[input.{}]", member.key);
  io::InputSpec input;
  input.name = member.key;
  if (const auto bad = check_input_name(member.key)) problem(member.at, *bad);
  bool delimiter = false;
  std::optional<Mark> columns, of_csv, of_tokens;  ///< where a key that suits few formats stands
  std::string format;
  constexpr auto kU64Max = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kI32Max = std::numeric_limits<std::int32_t>::max();
  table(member.value, where,
        {
            {"uri", [&](const Node& n) { input.uris.insert(input.uris.begin(), bytes(n, "uri")); }},
            {"uris",
             [&](const Node& n) {
               for (auto& uri : bytes_list(n, "uris")) input.uris.push_back(std::move(uri));
             }},
            {"format",
             [&](const Node& n) {
               format = kFormats[choice(n, "format", {kFormats.begin(), kFormats.end()})];
             }},
            {"index_base",
             [&](const Node& n) {
               input.index_base = integer<std::uint32_t>(n, "index_base", 0, 1);
             }},
            {"delimiter",
             [&](const Node& n) {
               const std::string value = text(n, "delimiter");
               delimiter = true;
               if (value == "tab")
                 input.delimiter = '\t';
               else if (value.size() == 1 && value[0] != '\n' && value[0] != '\0')
                 input.delimiter = value[0];
               else
                 problem(n.at, "delimiter must be one character, or \"tab\"");
             }},
            {"header", [&](const Node& n) { input.header = boolean(n, "header"); }},
            {"label_column",
             [&](const Node& n) {
               input.label_column = integer<std::int32_t>(n, "label_column", -1, 1'000'000);
             }},
            {"batch_rows",
             [&](const Node& n) {
               input.batch_rows = integer<std::uint32_t>(n, "batch_rows", 1, 1u << 20);
             }},
            {"passes",
             [&](const Node& n) {
               input.passes = integer<std::uint32_t>(n, "passes", 0, 1'000'000'000);
             }},
            {"shuffle", [&](const Node& n) { input.shuffle = boolean(n, "shuffle"); }},
            {"seed",
             [&](const Node& n) { input.seed = integer<std::uint64_t>(n, "seed", 0, kU64Max); }},
            {"split_bytes",
             [&](const Node& n) {
               const std::int64_t value = size(n, "split_bytes");
               if (value < 1) return problem(n.at, "split_bytes must be at least 1");
               input.split_bytes = static_cast<std::uint64_t>(value);
             }},
            {"on_bad_record",
             [&](const Node& n) {
               input.on_bad_record = static_cast<io::OnBadRecord>(
                   choice(n, "on_bad_record", {"fail", "skip", "quarantine"}));
             }},
            {"bad_records_max",
             [&](const Node& n) {
               input.bad_records_max = integer<std::uint64_t>(n, "bad_records_max", 0, kU64Max);
             }},
            {"quarantine",
             [&](const Node& n) {
               input.quarantine = bytes(n, "quarantine");
               if (!input.quarantine.starts_with('/'))
                 problem(n.at, "quarantine must be the absolute path of a file");
             }},
            {"record_bytes_max",
             [&](const Node& n) {
               const std::int64_t value = size(n, "record_bytes_max");
               if (value < 1 || static_cast<std::uint64_t>(value) > kRecordBytesMost)
                 return problem(n.at, "record_bytes_max must be 1 byte to 64MiB");
               input.record_bytes_max = static_cast<std::uint64_t>(value);
             }},
            {"columns",
             [&](const Node& n) {
               columns = n.at;
               read_columns(n, input);
             }},
            {"missing",
             [&](const Node& n) {
               of_csv = n.at;
               input.missing = bytes_list(n, "missing");
             }},
            {"newlines_in_quotes",
             [&](const Node& n) {
               of_csv = n.at;
               input.newlines_in_quotes = boolean(n, "newlines_in_quotes");
             }},
            {"token_type",
             [&](const Node& n) {
               of_tokens = n.at;
               input.tokens.type = static_cast<io::TokenOptions::Type>(
                   choice(n, "token_type", {"u16", "u32", "i32"}));
             }},
            {"sequence_length",
             [&](const Node& n) {
               of_tokens = n.at;
               input.tokens.sequence_length =
                   integer<std::uint64_t>(n, "sequence_length", 0, io::kFieldWidthMax);
             }},
            {"tail",
             [&](const Node& n) {
               of_tokens = n.at;
               input.tokens.tail =
                   static_cast<io::TokenOptions::Tail>(choice(n, "tail", {"drop", "pad", "fail"}));
             }},
            {"separator",
             [&](const Node& n) {
               of_tokens = n.at;
               input.tokens.separator = integer<std::int32_t>(n, "separator", 0, kI32Max);
             }},
            {"padding",
             [&](const Node& n) {
               of_tokens = n.at;
               input.tokens.padding = integer<std::int32_t>(n, "padding", 0, kI32Max);
             }},
            {"vocabulary",
             [&](const Node& n) {
               of_tokens = n.at;
               input.tokens.vocabulary =
                   integer<std::uint32_t>(n, "vocabulary", 1, static_cast<std::uint32_t>(kI32Max));
             }},
        });
  if (input.uris.empty() ||
      std::any_of(input.uris.begin(), input.uris.end(), [](const auto& u) { return u.empty(); }))
    problem(member.at, fmt::format("{} needs a 'uri' or 'uris'", where));
  else if (format.empty())
    format = format_of_names(input, member.at);
  input.format = format_of(format, columns.has_value());
  if (columns && !io::has_schema(input.format))
    problem(*columns, "columns belongs to csv, tsv, jsonl and tfexample");
  if (of_csv && input.format != io::Format::kTable)
    problem(*of_csv, "missing and newlines_in_quotes belong to csv and tsv with columns");
  if (of_tokens && input.format != io::Format::kTokens)
    problem(*of_tokens, "this key belongs to format = \"tokens\"");
  if (input.quarantine.empty() == (input.on_bad_record == io::OnBadRecord::kQuarantine))
    problem(member.at, "on_bad_record = \"quarantine\" and quarantine = \"/FILE\" belong together");
  if (format == "tsv" && !delimiter) input.delimiter = '\t';
  spec_.inputs.push_back(std::move(input));
}

/// ["price: float32", ...] or "infer".
void JobReader::read_columns(const Node& node, io::InputSpec& input) {
  if (node.kind == Node::Kind::kString) {
    if (text(node, "columns") != "infer")
      problem(node.at, "columns must be a list, as in [\"price: float32\"], or \"infer\"");
    return;
  }
  if (!want(node, Node::Kind::kList, "columns") || !at_most(node, io::kFieldsMax, "columns"))
    return;
  if (node.items.empty()) problem(node.at, "columns names none; \"infer\" leaves it to the data");
  for (const Node& item : node.items) {
    auto field = io::read_column(text(item, "a column"));
    if (!field) {
      problem(item.at, field.error().context);
      continue;
    }
    const auto same = [&](const io::FieldSpec& other) { return other.name == field->name; };
    if (std::any_of(input.columns.begin(), input.columns.end(), same))
      problem(item.at, fmt::format("two columns are named '{}'", field->name));
    input.columns.push_back(std::move(*field));
  }
}

void JobReader::output(const Node::Member& member) {
  const std::string where = fmt::format("[output.{}]", member.key);
  cluster::OutputSpec output;
  output.name = member.key;
  if (!cluster::is_name(member.key))
    problem(member.at,
            "an output's name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with '-' or '.'");
  Mark role_at = member.at;
  table(member.value, where,
        {
            {"path",
             [&](const Node& n) {
               output.path = bytes(n, "path");
               if (!output.path.starts_with('/') || output.path.size() < 2)
                 problem(n.at, "path must be the absolute path of a folder");
             }},
            {"role",
             [&](const Node& n) {
               output.role = text(n, "role");
               role_at = n.at;
             }},
        });
  if (output.path.empty()) problem(member.at, fmt::format("{} needs a 'path'", where));
  spec_.outputs.push_back(std::move(output));
  output_marks_.push_back(role_at);
}

/// An output without a role is of the first role whose end counts.
void JobReader::check_outputs() {
  for (std::size_t i = 0; i < spec_.outputs.size(); ++i) {
    auto& output = spec_.outputs[i];
    std::vector<std::string_view> names;
    for (const auto& role : spec_.roles) {
      names.push_back(role.name);
      if (output.role.empty() && role.program == cluster::RoleProgram::kProcess &&
          role.kind == cluster::RoleKind::kBatch)
        output.role = role.name;
    }
    if (output.role.empty() && !spec_.roles.empty()) output.role = spec_.roles[0].name;
    if (std::find(names.begin(), names.end(), output.role) != names.end() || names.empty())
      continue;
    const std::string near = nearest(output.role, names);
    problem(output_marks_[i],
            fmt::format("output '{}': no role '{}'{}", output.name, output.role,
                        near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
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
                   integer<std::uint32_t>(n, "max", 0, cluster::kSpecLimits.restarts_max);
             }},
            {"on", [&](const Node& n) { spec_.restart.on = causes(n, "on"); }},
        });
}

void JobReader::check_roles() {
  for (std::size_t i = 0; i < spec_.roles.size(); ++i) {
    const auto& role = spec_.roles[i];
    for (std::size_t j = 0; j < i; ++j)
      if (spec_.roles[j].name == role.name)
        problem(role_marks_[i].first, fmt::format("two roles are named '{}'", role.name));
    for (std::size_t k = 0; k < role.after.size(); ++k) {
      if (std::any_of(spec_.roles.begin(), spec_.roles.end(),
                      [&](const auto& r) { return r.name == role.after[k]; }))
        continue;
      std::vector<std::string_view> names;
      for (const auto& r : spec_.roles) names.push_back(r.name);
      const std::string near = nearest(role.after[k], names);
      problem(k < role_marks_[i].second.size() ? role_marks_[i].second[k] : role_marks_[i].first,
              fmt::format("after: no role '{}'{}", role.after[k],
                          near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
  }
}

Result<cluster::JobSpec> JobReader::read(const Node& root) {
  constexpr auto kI32Min = std::numeric_limits<std::int32_t>::min();
  constexpr auto kI32Max = std::numeric_limits<std::int32_t>::max();
  const Node* roles = nullptr;
  cluster::EnvList common;
  table(root, "the job",
        {
            {"name",
             [&](const Node& n) {
               spec_.name = text(n, "name");
               if (!spec_.name.empty() && !cluster::is_name(spec_.name))
                 problem(n.at,
                         "a job's name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with "
                         "'-' or '.'");
             }},
            {"hold", [&](const Node& n) { spec_.hold = boolean(n, "hold"); }},
            {"owner",
             [&](const Node& n) {
               spec_.owner = text(n, "owner");
               if (const auto bad = check_label_text("owner", spec_.owner)) problem(n.at, *bad);
             }},
            {"project",
             [&](const Node& n) {
               spec_.project = text(n, "project");
               if (const auto bad = check_label_text("project", spec_.project)) problem(n.at, *bad);
             }},
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
               if (!want(n, Node::Kind::kTable, "input") || !at_most(n, kInputsMax, "input"))
                 return;
               for (const Node::Member& member : n.members) {
                 if (std::any_of(spec_.inputs.begin(), spec_.inputs.end(),
                                 [&](const auto& i) { return i.name == member.key; }))
                   problem(member.at, fmt::format("two inputs are named '{}'", member.key));
                 input(member);
               }
             }},
            {"output",
             [&](const Node& n) {
               if (!want(n, Node::Kind::kTable, "output") || !at_most(n, kOutputsMax, "output"))
                 return;
               for (const Node::Member& member : n.members) output(member);
             }},
            {"restart", [&](const Node& n) { restart(n); }},
        });
  if (roles && want(*roles, Node::Kind::kTable, "role") && at_most(*roles, kRolesMax, "role"))
    for (const Node::Member& member : roles->members) role(member, common);
  if (root.kind == Node::Kind::kTable &&
      (!roles || (roles->kind == Node::Kind::kTable && roles->members.empty())))
    problem(roles ? roles->at : root.at, "a job needs at least one role, like [role.worker]");
  check_roles();
  check_outputs();
  if (problems_.empty())
    if (const Status valid = jobspec::validate(spec_); !valid)
      problem(root.at, valid.error().context);
  if (problems_.empty()) return std::move(spec_);
  if (more_) problems_.push_back(fmt::format("{}: and more problems like these", file_));
  return fail(Errc::kInvalidArgument, fmt::format("{}", fmt::join(problems_, "\n")));
}

}  // namespace dlrun::jobspec

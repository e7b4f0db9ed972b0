#include "runtime/jobspec/json.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "io/core/column_text.h"
#include "runtime/base/utf8.h"
#include "runtime/cluster/core/end_rules.h"
#include "runtime/jobspec/words.h"

namespace dlrun::jobspec {
namespace {

Json time_or_null(WallTime time) { return time.ns == 0 ? Json(nullptr) : Json(rfc3339(time)); }
Json fraction_or_null(double fraction) { return fraction < 0 ? Json(nullptr) : Json(fraction); }

Json duration(Duration d) {
  const auto ns = d.count();
  if (ns % 1'000'000'000 == 0) return ns / 1'000'000'000;
  return static_cast<double>(ns) / 1e9;
}

Json bytes_list(const std::vector<std::string>& list) {
  Json out = Json::array();
  for (const auto& item : list) out.push_back(bytes_to_json(item));
  return out;
}

Json env_object(const cluster::EnvList& env) {
  Json out = Json::object();
  for (const auto& [name, value] : env) out[name] = bytes_to_json(value);
  return out;
}

Json labels_object(const sched::Labels& labels) {
  Json out = Json::object();
  for (const auto& [name, value] : labels) out[name] = value;
  return out;
}

Json cores(std::int64_t milli) {
  if (milli % 1000 == 0) return milli / 1000;
  return static_cast<double>(milli) / 1000;
}

Json causes_json(const std::vector<cluster::Cause>& causes) {
  Json out = Json::array();
  for (const auto cause : causes) out.push_back(cause_name(cause));
  return out;
}

Json role_json(const cluster::RoleSpec& role) {
  Json out;
  out["kind"] = role.kind == cluster::RoleKind::kService ? "service" : "batch";
  out["program"] = role.program == cluster::RoleProgram::kShardHost ? "shard-host" : "process";
  if (role.count_min == role.count_max)
    out["count"] = role.count_min;
  else
    out["count"] = fmt::format("{}..{}", role.count_min, role.count_max);
  out["argv"] = bytes_list(role.argv);
  out["env"] = env_object(role.env);
  out["cwd"] = bytes_to_json(role.cwd);
  out["cpus"] = cores(role.resources.cpu_milli);
  out["memory"] = role.resources.memory_bytes;
  out["gpus"] = role.resources.gpus;
  out["ports"] = role.resources.ports;
  out["labels"] = labels_object(role.require);
  out["after"] = role.after;
  out["ready"] = role.ready == cluster::ReadyWhen::kTold   ? "told"
                 : role.ready == cluster::ReadyWhen::kPort ? "port"
                                                           : "running";
  out["time_limit"] = duration(role.time_limit);
  out["rlimits"] = Json::object();
  for (const auto& [name, value] : role.rlimits) out["rlimits"][name] = value;
  if (role.restart_on) out["restart_on"] = causes_json(*role.restart_on);
  if (role.end != cluster::EndRule::kByKind) out["end"] = cluster::end_row(role.end).word;
  if (role.quorum > 0) out["quorum"] = role.quorum;
  if (role.failures_permille > 0) out["failures"] = role.failures_permille / 1000.0;
  if (role.linger) out["linger"] = duration(*role.linger);
  return out;
}

std::string_view format_name(io::Format format) {
  switch (format) {
    case io::Format::kLibsvm:
      return "libsvm";
    case io::Format::kLibffm:
      return "libffm";
    case io::Format::kCsv:
    case io::Format::kTable:
      return "csv";
    case io::Format::kJsonLines:
      return "jsonl";
    case io::Format::kTfRecord:
      return "tfrecord";
    case io::Format::kTfExample:
      return "tfexample";
    case io::Format::kRecordIo:
      return "recordio";
    case io::Format::kNpy:
      return "npy";
    case io::Format::kIdx:
      return "idx";
    case io::Format::kTokens:
      return "tokens";
  }
  return "libsvm";
}

Json input_json(const io::InputSpec& input) {
  Json out;
  out["uris"] = bytes_list(input.uris);
  out["format"] = format_name(input.format);
  out["index_base"] = input.index_base;
  out["delimiter"] = std::string(1, input.delimiter);
  out["header"] = input.header;
  out["label_column"] = input.label_column;
  out["batch_rows"] = input.batch_rows;
  out["passes"] = input.passes;
  out["shuffle"] = input.shuffle;
  out["seed"] = input.seed;
  out["split_bytes"] = input.split_bytes;
  static constexpr const char* kPolicies[] = {"fail", "skip", "quarantine"};
  out["on_bad_record"] = kPolicies[static_cast<std::size_t>(input.on_bad_record)];
  out["bad_records_max"] = input.bad_records_max;
  static constexpr const char* kModes[] = {"dynamic", "deterministic", "static"};
  static constexpr const char* kEnds[] = {"uneven", "drop", "pad", "wrap"};
  if (input.mode != io::Mode::kDynamic) {
    out["mode"] = kModes[static_cast<std::size_t>(input.mode)];
    out["ends"] = kEnds[static_cast<std::size_t>(input.ends)];
  }
  if (input.mode == io::Mode::kStatic)
    out["static"] = input.static_by == io::StaticBy::kBytes ? "bytes" : "files";
  if (input.mode == io::Mode::kDeterministic) {
    out["lanes"] = input.lanes;
    out["skip_batches"] = input.skip_batches;
    out["take_batches"] = input.take_batches;
  }
  if (!input.weights.empty()) out["weights"] = input.weights;
  if (!input.quarantine.empty()) out["quarantine"] = bytes_to_json(input.quarantine);
  if (io::is_table(input.format)) out["record_bytes_max"] = input.record_bytes_max;
  if (io::has_schema(input.format)) {
    if (input.columns.empty()) out["columns"] = "infer";
    for (const io::FieldSpec& field : input.columns)
      out["columns"].push_back(io::column_text(field));
  }
  if (input.format == io::Format::kTable) {
    out["missing"] = bytes_list(input.missing);
    out["newlines_in_quotes"] = input.newlines_in_quotes;
  }
  if (input.format == io::Format::kTokens) {
    static constexpr const char* kTypes[] = {"u16", "u32", "i32"};
    static constexpr const char* kTails[] = {"drop", "pad", "fail"};
    out["token_type"] = kTypes[static_cast<std::size_t>(input.tokens.type)];
    out["sequence_length"] = input.tokens.sequence_length;
    out["tail"] = kTails[static_cast<std::size_t>(input.tokens.tail)];
    out["separator"] = input.tokens.separator;
    out["padding"] = input.tokens.padding;
    out["vocabulary"] = input.tokens.vocabulary;
  }
  return out;
}

}  // namespace

std::string rfc3339(WallTime time) {
  std::int64_t seconds = time.ns / 1'000'000'000;
  std::int64_t ns = time.ns % 1'000'000'000;
  if (ns < 0) ns += 1'000'000'000, --seconds;
  const auto t = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&t, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:09}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ns);
}

Json bytes_to_json(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  return Json{{"base64", base64_encode(bytes)}};
}

Result<std::string> bytes_from_json(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  if (value.is_object() && value.size() == 1 && value.contains("base64") &&
      value["base64"].is_string())
    return base64_decode(value["base64"].get_ref<const std::string&>());
  return fail(Errc::kInvalidArgument, "a string or {\"base64\": \"...\"} expected");
}

std::string dump(const Json& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const cluster::JobSpec& spec) {
  Json out;
  out["name"] = spec.name;
  out["owner"] = spec.owner;
  out["project"] = spec.project;
  out["priority"] = spec.priority;
  out["time_limit"] = duration(spec.time_limit);
  out["grace"] = duration(spec.grace);
  out["failure_grace"] = duration(spec.failure_grace);
  out["env_policy"] = spec.env_policy == cluster::EnvPolicy::kClean ? "clean" : "inherit";
  out["cwd"] = bytes_to_json(spec.cwd);
  out["role"] = Json::object();
  for (const auto& role : spec.roles) out["role"][role.name] = role_json(role);
  out["input"] = Json::object();
  for (const auto& input : spec.inputs) out["input"][input.name] = input_json(input);
  out["restart"] = Json{{"max", spec.restart.restarts_max}, {"on", causes_json(spec.restart.on)}};
  out["hold"] = spec.hold;
  if (!spec.framework.empty()) out["framework"] = spec.framework;
  out["output"] = Json::object();
  for (const auto& output : spec.outputs)
    out["output"][output.name] = Json{{"path", bytes_to_json(output.path)}, {"role", output.role}};
  out["submit_env"] = env_object(spec.submit_env);
  return out;
}

Json to_json(const cluster::TaskEnd& end) {
  Json out;
  out["cause"] = cause_name(end.cause);
  out["code"] = end.code;
  out["signal"] = end.signal;
  out["peak_bytes"] = end.peak_bytes;
  out["limit_bytes"] = end.limit_bytes;
  out["detail"] = end.detail;
  return out;
}

Json to_json(const cluster::TaskView& view) {
  Json out;
  out["task"] = to_string(view.task);
  out["role"] = view.task.role;
  out["rank"] = view.task.rank;
  out["generation"] = view.task.generation.value;
  out["node"] = view.node.value.empty() ? Json(nullptr) : Json(view.node.value);
  out["state"] = std::string(cluster::to_string(view.state));
  out["end"] = view.state == cluster::TaskState::kEnded ? to_json(view.end) : Json(nullptr);
  out["pid"] = view.pid;
  out["ports"] = view.ports;
  out["progress"] = fraction_or_null(view.progress);
  out["started"] = time_or_null(view.started);
  out["ended"] = time_or_null(view.ended);
  return out;
}

Json to_json(const cluster::JobView& view) {
  const bool final = cluster::is_final(view.state);
  Json out;
  out["id"] = to_string(view.id);
  out["name"] = view.spec.name;
  out["owner"] = view.spec.owner;
  out["project"] = view.spec.project;
  out["state"] = std::string(cluster::to_string(view.state));
  out["final"] = final;
  out["exit_code"] = final ? Json(view.exit_code) : Json(nullptr);
  out["reason"] = view.reason;
  out["generation"] = view.generation.value;
  out["epoch"] = to_string(view.epoch);
  out["submitted"] = time_or_null(view.submitted);
  out["started"] = time_or_null(view.started);
  out["ended"] = time_or_null(view.ended);
  out["progress"] = fraction_or_null(view.progress);
  out["progress_text"] = view.progress_text;
  out["end"] = final ? to_json(view.end) : Json(nullptr);
  out["first_failed"] = view.first_failed ? Json(to_string(*view.first_failed)) : Json(nullptr);
  out["tasks"] = Json::array();
  for (const auto& task : view.tasks) out["tasks"].push_back(to_json(task));
  // The submitter's whole environment may hold secrets and serves no reader.
  out["spec"] = to_json(view.spec);
  out["spec"].erase("submit_env");
  return out;
}

Json to_json(const cluster::NodeView& view) {
  Json out;
  out["id"] = view.id.value;
  out["state"] = std::string(cluster::to_string(view.state));
  out["incarnation"] = fmt::format("{:016x}", view.incarnation.value);
  out["address"] = view.address;
  out["version"] = view.version;
  out["last_heard"] = time_or_null(view.last_heard);
  out["capacity"] = Json{
      {"cpus", cores(view.capacity.cpu_milli)},
      {"memory", view.capacity.memory_bytes},
      {"gpus", view.capacity.gpu_uuids},
      {"ports", Json{{"first", view.capacity.ports.first}, {"count", view.capacity.ports.count}}},
      {"labels", labels_object(view.capacity.labels)}};
  out["used"] = Json{{"cpus", cores(view.used.cpu_milli_used)},
                     {"memory", view.used.memory_bytes_used},
                     {"gpus", view.used.gpus_used},
                     {"ports", view.used.ports_used}};
  return out;
}

Json to_json(const cluster::EventView& view) {
  return Json{{"sequence", view.sequence},
              {"at", time_or_null(view.at)},
              {"job", view.job.value == 0 ? Json(nullptr) : Json(to_string(view.job))},
              {"kind", view.kind},
              {"text", view.text}};
}

Json to_json(const cluster::WhyAnswer& answer) {
  Json lines = Json::array();
  for (const auto& line : answer.lines)
    lines.push_back(Json{{"constraint", line.constraint},
                         {"nodes_failing", line.nodes_failing},
                         {"nodes_total", line.nodes_total},
                         {"detail", line.detail}});
  return Json{{"job", to_string(answer.job)},
              {"state", std::string(cluster::to_string(answer.state))},
              {"summary", answer.summary},
              {"lines", std::move(lines)}};
}

Json to_json(const cluster::Health& health) {
  return Json{{"status", health.reconciling ? "reconciling" : "ok"},
              {"term", health.term},
              {"nodes_up", health.nodes_up},
              {"jobs_running", health.jobs_running},
              {"jobs_pending", health.jobs_pending},
              {"jobs_finished", health.jobs_finished},
              {"version", health.version}};
}

}  // namespace dlrun::jobspec

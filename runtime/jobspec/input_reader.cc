// What a job file says of an input. See job_reader.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "io/core/column_text.h"
#include "io/core/input_rules.h"
#include "runtime/jobspec/job_reader.h"
#include "runtime/jobspec/units.h"
#include "runtime/jobspec/words.h"

namespace dlrun::jobspec {
namespace {

constexpr std::array<std::string_view, 11> kFormats = {
    "libsvm",    "libffm",   "csv", "tsv", "jsonl", "tfrecord",
    "tfexample", "recordio", "npy", "idx", "tokens"};

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
  const PartId part{Part::kInput, spec_.inputs.size()};
  place(part, "").at = member.at;
  bool delimiter = false;
  std::optional<Mark> of_static, of_deterministic, of_lanes;
  std::optional<Mark> columns, of_csv, of_tokens;  ///< where a key that suits few formats stands
  std::string format;
  constexpr auto kU64Max = std::numeric_limits<std::uint64_t>::max();
  constexpr auto kI32Max = std::numeric_limits<std::int32_t>::max();
  constexpr io::InputLimits kMost = io::kInputLimits;
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
               input.index_base = integer<std::uint32_t>(n, "index_base", 0, kMost.index_base_max);
             }},
            {"delimiter",
             [&](const Node& n) {
               const std::string value = text(n, "delimiter");
               delimiter = true;
               if (value == "tab")
                 input.delimiter = '\t';
               else if (value.size() == 1)
                 input.delimiter = value[0];
               else
                 problem(n.at, "delimiter must be one character, or \"tab\"");
             }},
            {"header", [&](const Node& n) { input.header = boolean(n, "header"); }},
            {"label_column",
             [&](const Node& n) {
               input.label_column =
                   integer<std::int32_t>(n, "label_column", -1, kMost.label_column_max);
             }},
            {"batch_rows",
             [&](const Node& n) {
               input.batch_rows = integer<std::uint32_t>(n, "batch_rows", 1, kMost.batch_rows_max);
             }},
            {"passes",
             [&](const Node& n) {
               input.passes = integer<std::uint32_t>(n, "passes", 0, kMost.passes_max);
             }},
            {"shuffle", [&](const Node& n) { input.shuffle = boolean(n, "shuffle"); }},
            {"seed",
             [&](const Node& n) { input.seed = integer<std::uint64_t>(n, "seed", 0, kU64Max); }},
            {"split_bytes",
             [&](const Node& n) {
               input.split_bytes = static_cast<std::uint64_t>(size(n, "split_bytes"));
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
            {"quarantine", [&](const Node& n) { input.quarantine = bytes(n, "quarantine"); }},
            {"mode",
             [&](const Node& n) {
               input.mode =
                   static_cast<io::Mode>(choice(n, "mode", {"dynamic", "deterministic", "static"}));
             }},
            {"static",
             [&](const Node& n) {
               of_static = n.at;
               input.static_by = static_cast<io::StaticBy>(choice(n, "static", {"files", "bytes"}));
             }},
            {"lanes",
             [&](const Node& n) {
               of_deterministic = n.at;
               input.lanes = integer<std::uint32_t>(n, "lanes", 1, kMost.lanes_max);
             }},
            {"ends",
             [&](const Node& n) {
               of_lanes = n.at;
               input.ends =
                   static_cast<io::Ends>(choice(n, "ends", {"uneven", "drop", "pad", "wrap"}));
             }},
            {"skip_batches",
             [&](const Node& n) {
               of_deterministic = n.at;
               input.skip_batches = integer<std::uint64_t>(n, "skip_batches", 0, kMost.batches_max);
             }},
            {"take_batches",
             [&](const Node& n) {
               of_deterministic = n.at;
               input.take_batches = integer<std::uint64_t>(n, "take_batches", 0, kMost.batches_max);
             }},
            {"weights",
             [&](const Node& n) {
               if (!want(n, Node::Kind::kList, "weights") ||
                   !at_most(n, kMost.weights_max, "weights"))
                 return;
               for (const Node& item : n.items)
                 input.weights.push_back(
                     integer<std::uint32_t>(item, "a weight", 1, kMost.weight_max));
             }},
            {"record_bytes_max",
             [&](const Node& n) {
               input.record_bytes_max = static_cast<std::uint64_t>(size(n, "record_bytes_max"));
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
                   integer<std::uint32_t>(n, "vocabulary", 1, kMost.vocabulary_max);
             }},
        },
        part);
  if (told(part, "uri")) place(part, "uris").bad = true;
  const bool named =
      !input.uris.empty() && !told(part, "uris") &&
      std::none_of(input.uris.begin(), input.uris.end(), [](const auto& u) { return u.empty(); });
  if (named && format.empty() && !told(part, "format")) format = format_of_names(input, member.at);
  input.format = format_of(format, columns.has_value());
  const auto unfit = [&](std::string_view field, Mark at, std::string text) {
    problem(at, fmt::format("input '{}': {}", input.name, text));
    place(part, field).bad = true;
  };
  if (columns && !io::has_schema(input.format))
    unfit("columns", *columns, "columns belongs to csv, tsv, jsonl and tfexample");
  if (of_csv && input.format != io::Format::kTable)
    unfit("missing", *of_csv, "missing and newlines_in_quotes belong to csv and tsv with columns");
  if (of_tokens && input.format != io::Format::kTokens)
    unfit("token_type", *of_tokens, "this key belongs to format = \"tokens\"");
  if (of_static && input.mode != io::Mode::kStatic)
    unfit("static", *of_static, "static belongs to mode = \"static\"");
  if (of_deterministic && input.mode != io::Mode::kDeterministic)
    unfit("lanes", *of_deterministic,
          "lanes, skip_batches and take_batches belong to mode = \"deterministic\"");
  if (of_lanes && !io::has_lanes(input.mode))
    unfit("ends", *of_lanes, "ends belongs to mode = \"deterministic\" or \"static\"");
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
    input.columns.push_back(std::move(*field));
  }
}

}  // namespace dlrun::jobspec

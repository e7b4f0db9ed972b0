#include "io/core/input_rules.h"

#include <algorithm>
#include <utility>

#include "io/core/schema.h"
#include "runtime/base/utf8.h"

namespace dlrun::io {

namespace {

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

std::optional<InputProblem> delimiter_problem(char delimiter) {
  if (delimiter != '"' && delimiter != '\r' && delimiter != '\n' && delimiter != 0)
    return std::nullopt;
  return InputProblem{"delimiter", "must not be a quote, CR, LF or NUL"};
}

/// Of declared columns, whatever the format.
std::optional<InputProblem> columns_problem(const InputSpec& spec) {
  if (spec.columns.empty()) return std::nullopt;
  if (!has_schema(spec.format)) return InputProblem{"columns", "this format has none"};
  if (const Status checked = check_schema(spec.columns); !checked)
    return InputProblem{"columns", checked.error().context};
  for (const FieldSpec& column : spec.columns) {
    if (column.name.empty()) return InputProblem{"columns", "a name is empty"};
    if (column.width > kFieldWidthMax)
      return InputProblem{"columns", in_quotes(column.name) + " is too wide"};
  }
  return std::nullopt;
}

/// Of the order of an input and of shares of its sources.
std::vector<InputProblem> mode_problems(const InputSpec& spec) {
  std::vector<InputProblem> out;
  const auto wrong = [&](const char* field, std::string text) {
    out.push_back({field, std::move(text)});
  };
  const bool ordered = spec.mode == Mode::kDeterministic;
  if (ordered && (spec.lanes == 0 || spec.lanes > kInputLimits.lanes_max))
    wrong("lanes", "must be 1 to " + std::to_string(kInputLimits.lanes_max));
  if (!ordered && (spec.skip_batches != 0 || spec.take_batches != 0))
    wrong("skip_batches", "there is no n-th batch but in mode = \"deterministic\"");
  if (spec.skip_batches > kInputLimits.batches_max || spec.take_batches > kInputLimits.batches_max)
    wrong(spec.skip_batches > kInputLimits.batches_max ? "skip_batches" : "take_batches",
          "must be 0 to " + std::to_string(kInputLimits.batches_max));
  if (!has_lanes(spec.mode) && spec.ends != Ends::kUneven)
    wrong("ends", "belongs to mode = \"deterministic\" or \"static\"");
  if (spec.weights.empty()) return out;
  if (spec.weights.size() != spec.uris.size())
    wrong("weights", "there are " + std::to_string(spec.weights.size()) + " for " +
                         std::to_string(spec.uris.size()) + " uris: one for each");
  if (spec.weights.size() > kInputLimits.weights_max)
    wrong("weights", "more than " + std::to_string(kInputLimits.weights_max));
  if (std::any_of(spec.weights.begin(), spec.weights.end(), [](std::uint32_t weight) {
        return weight == 0 || weight > kInputLimits.weight_max;
      }))
    wrong("weights", "must be 1 to " + std::to_string(kInputLimits.weight_max));
  if (spec.mode == Mode::kStatic && spec.static_by == StaticBy::kFiles)
    wrong("weights", "do not go with static = \"files\"");
  return out;
}

}  // namespace

std::optional<InputProblem> csv_problem(const Schema& columns, char delimiter) {
  for (const FieldSpec& column : columns)
    if (column.width != 1)
      return InputProblem{"columns", in_quotes(column.name) + ": csv has no lists"};
  return delimiter_problem(delimiter);
}

std::optional<InputProblem> tokens_problem(const TokenOptions& options) {
  if (options.vocabulary == 0 || options.vocabulary > kInputLimits.vocabulary_max)
    return InputProblem{"vocabulary",
                        "must be 1 to " + std::to_string(kInputLimits.vocabulary_max)};
  if (options.sequence_length > kFieldWidthMax)
    return InputProblem{"sequence_length", "must be 0 to " + std::to_string(kFieldWidthMax)};
  const auto outside = [&](const char* field, std::int32_t id) -> std::optional<InputProblem> {
    if (id >= 0 && static_cast<std::uint32_t>(id) < options.vocabulary) return std::nullopt;
    return InputProblem{field, std::to_string(id) + " is outside the vocabulary of " +
                                   std::to_string(options.vocabulary)};
  };
  if (options.sequence_length == 0)
    if (auto bad = outside("separator", options.separator)) return bad;
  if (options.tail == TokenOptions::Tail::kPad) return outside("padding", options.padding);
  return std::nullopt;
}

std::vector<InputProblem> problems_of(const InputSpec& spec) {
  std::vector<InputProblem> out;
  const auto wrong = [&](const char* field, std::string text) {
    out.push_back({field, std::move(text)});
  };
  const auto wrong_if = [&](std::optional<InputProblem> problem) {
    if (problem) out.push_back(std::move(*problem));
    return problem.has_value();
  };
  if (spec.uris.empty() || std::any_of(spec.uris.begin(), spec.uris.end(),
                                       [](const std::string& uri) { return uri.empty(); }))
    wrong("uris", "a file is needed: uri = \"...\", or uris = [...]");
  if (std::any_of(spec.uris.begin(), spec.uris.end(), has_nul)) wrong("uris", "holds a NUL byte");
  if (spec.batch_rows == 0 || spec.batch_rows > kInputLimits.batch_rows_max)
    wrong("batch_rows", "must be 1 to " + std::to_string(kInputLimits.batch_rows_max));
  if (spec.passes > kInputLimits.passes_max)
    wrong("passes", "must be 0 to " + std::to_string(kInputLimits.passes_max));
  if (spec.split_bytes == 0) wrong("split_bytes", "must be at least 1");
  if (spec.index_base > kInputLimits.index_base_max) wrong("index_base", "must be 0 or 1");
  if (spec.label_column < -1 || spec.label_column > kInputLimits.label_column_max)
    wrong("label_column", "must be -1 to " + std::to_string(kInputLimits.label_column_max));
  if (spec.record_bytes_max == 0 || spec.record_bytes_max > kInputLimits.record_bytes_max)
    wrong("record_bytes_max", "must be 1 byte to 64MiB");
  if (spec.quarantine.empty() == (spec.on_bad_record == OnBadRecord::kQuarantine))
    wrong("quarantine",
          "on_bad_record = \"quarantine\" and quarantine = \"/FILE\" belong together");
  if (!spec.quarantine.empty() && (spec.quarantine[0] != '/' || has_nul(spec.quarantine)))
    wrong("quarantine", "must be the absolute path of a file");
  for (InputProblem& problem : mode_problems(spec)) out.push_back(std::move(problem));
  const bool columns_wrong = wrong_if(columns_problem(spec));
  if (spec.format == Format::kTable)
    wrong_if(columns_wrong ? delimiter_problem(spec.delimiter)
                           : csv_problem(spec.columns, spec.delimiter));
  if (spec.format == Format::kCsv) wrong_if(delimiter_problem(spec.delimiter));
  if (spec.format == Format::kTokens) wrong_if(tokens_problem(spec.tokens));
  return out;
}

}  // namespace dlrun::io

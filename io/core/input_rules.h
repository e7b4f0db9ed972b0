#pragma once
/// io/core/input_rules.h: what the declaration of an input must hold to, in one place. Who takes a
/// job asks here before anything is recorded, so that no feeder finds out after the job was placed;
/// the parsers ask the rules of their format again. Not here: what only the data or a node can tell
/// (a file that is missing, types that cannot be inferred).
/// Complexity: O(columns log columns). Threads: pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/core/msg.h"

namespace dlrun::io {

struct InputLimits {
  std::uint32_t batch_rows_max = 1u << 20;
  std::uint32_t passes_max = 1'000'000'000;
  std::uint32_t index_base_max = 1;
  std::int32_t label_column_max = 1'000'000;
  std::uint64_t record_bytes_max = 64u << 20;
  std::uint32_t vocabulary_max = 0x7fffffff;
  std::uint32_t lanes_max = kLanesMax;
  std::uint64_t batches_max = std::uint64_t{1} << 48;  ///< skip_batches, take_batches
  std::uint32_t weights_max = 256;                     ///< how many
  std::uint32_t weight_max = 1'000'000;
};
inline constexpr InputLimits kInputLimits{};

struct InputProblem {
  std::string field;  ///< its key in a job file
  std::string text;   ///< what is wrong, without the key
};

/// Everything that is wrong, but for the name.
std::vector<InputProblem> problems_of(const InputSpec& spec);

// Of one format, as its parser asks: the first problem.

/// Of CSV with typed columns; an empty schema is one that is inferred.
std::optional<InputProblem> csv_problem(const Schema& columns, char delimiter);
std::optional<InputProblem> tokens_problem(const TokenOptions& options);

}  // namespace dlrun::io

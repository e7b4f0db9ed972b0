#pragma once
/// runtime/jobspec/document.h: one tree for the three syntaxes of a job file, each value with its
/// place in the text. JSON is parsed here (RFC 8259, strict; nlohmann's parser does not tell where
/// a value stood), TOML by toml++, YAML by yaml-cpp.
/// Errors: kInvalidArgument "file:line:column: reason".
/// Bounds: nesting 32, kNodesMax values (YAML aliases count each time they are used). Never throws.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/jobspec/job_file.h"

namespace dlrun::jobspec {

inline constexpr int kDepthMax = 32;
inline constexpr std::size_t kNodesMax = 500'000;

struct Mark {
  std::uint32_t line = 0;    ///< from 1; 0 = unknown
  std::uint32_t column = 0;  ///< from 1, in characters
};

struct Node {
  enum class Kind : std::uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kTable };
  struct Member;
  Kind kind = Kind::kNull;
  Mark at;
  /// kString: the value; kInt, kFloat: as from_chars reads it; kBool: "true" or "false"
  std::string text;
  std::vector<Node> items;      ///< kList
  std::vector<Member> members;  ///< kTable, in the order of the text; a key may come twice
};

struct Node::Member {
  std::string key;
  Mark at;
  Node value;
};

/// "a table", "a string": for messages.
std::string_view kind_name(Node::Kind kind);
/// "file:line:column: text"
std::string at_place(std::string_view file, Mark at, std::string_view text);

Result<Node> parse_document(std::string_view text, Syntax syntax, std::string_view file);
Result<Node> parse_json_document(std::string_view text, std::string_view file);

}  // namespace dlrun::jobspec

#include "runtime/jobspec/document.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>

// toml++ 3.3 takes some malformed keys ("[=") for impossible: an abort in a debug build, undefined in a release build. Here
// such a place is an error like any other.
namespace dlrun::jobspec {
struct TomlImpossible {};
[[noreturn]] void toml_impossible() { throw TomlImpossible{}; }
}  // namespace dlrun::jobspec
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT(expression) ((expression) ? void(0) : ::dlrun::jobspec::toml_impossible())
#define TOML_ASSERT_ASSUME(expression) TOML_ASSERT(expression)
#include <toml++/toml.h>

#include "runtime/jobspec/json.h"

namespace dlrun::jobspec {
namespace {

struct TooBig {
  Mark at;
  const char* why;
};

void count(std::size_t& nodes, int depth, Mark at) {
  if (++nodes > kNodesMax) throw TooBig{at, "too many values"};
  if (depth > kDepthMax) throw TooBig{at, "nested too deeply"};
}

Mark mark_of(const toml::source_region& region) { return {region.begin.line, region.begin.column}; }

Node from_toml(const toml::node& in, int depth, std::size_t& nodes) {
  Node out;
  out.at = mark_of(in.source());
  count(nodes, depth, out.at);
  if (const auto* table = in.as_table()) {
    out.kind = Node::Kind::kTable;
    for (auto&& [key, value] : *table)
      out.members.push_back(
          {std::string(key.str()), mark_of(key.source()), from_toml(value, depth + 1, nodes)});
    std::stable_sort(out.members.begin(), out.members.end(),
                     [](const Node::Member& a, const Node::Member& b) {
                       return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
                     });
  } else if (const auto* list = in.as_array()) {
    out.kind = Node::Kind::kList;
    for (const auto& item : *list) out.items.push_back(from_toml(item, depth + 1, nodes));
  } else if (const auto* text = in.as_string()) {
    out.kind = Node::Kind::kString;
    out.text = text->get();
  } else if (const auto* integer = in.as_integer()) {
    out.kind = Node::Kind::kInt;
    out.text = std::to_string(integer->get());
  } else if (const auto* real = in.as_floating_point()) {
    out.kind = Node::Kind::kFloat;
    out.text = fmt::format("{}", real->get());
  } else if (const auto* boolean = in.as_boolean()) {
    out.kind = Node::Kind::kBool;
    out.text = boolean->get() ? "true" : "false";
  } else {
    throw TooBig{out.at, "dates and times have no meaning in a job file; write a string"};
  }
  return out;
}

/// Whether the first `lines` lines of `text` already hold the malformed key.
bool impossible_within(std::string_view text, std::size_t lines) {
  std::size_t end = 0;
  for (; lines > 0 && end != std::string_view::npos; --lines)
    end = text.find('\n', end == 0 ? 0 : end + 1);
  try {
    (void)toml::parse(text.substr(0, end));
  } catch (const TomlImpossible&) {
    return true;
  } catch (const std::exception&) {
  }
  return false;
}

/// toml++ gives no place for these: the first line up to which the text fails is it.
Mark find_impossible(std::string_view text) {
  std::size_t low = 1,
              high = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (impossible_within(text, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return {static_cast<std::uint32_t>(low), 1};
}

Mark mark_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {static_cast<std::uint32_t>(mark.line + 1), static_cast<std::uint32_t>(mark.column + 1)};
}

/// YAML 1.2 core schema, for plain scalars.
Node::Kind plain_kind(std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL")
    return Node::Kind::kNull;
  if (text == "true" || text == "True" || text == "TRUE") return text = "true", Node::Kind::kBool;
  if (text == "false" || text == "False" || text == "FALSE")
    return text = "false", Node::Kind::kBool;
  const std::string_view body =
      text.front() == '+' ? std::string_view(text).substr(1) : std::string_view(text);
  if (body.empty() || body.find_first_not_of("0123456789+-.eE") != std::string_view::npos)
    return Node::Kind::kString;
  double real = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), real);
  if (error != std::errc{} || end != body.data() + body.size()) return Node::Kind::kString;
  const bool integer = body.find_first_of(".eE") == std::string_view::npos;
  text = std::string(body);
  return integer ? Node::Kind::kInt : Node::Kind::kFloat;
}

Node from_yaml(const YAML::Node& in, int depth, std::size_t& nodes) {
  Node out;
  out.at = mark_of(in.Mark());
  count(nodes, depth, out.at);
  switch (in.Type()) {
    case YAML::NodeType::Map:
      out.kind = Node::Kind::kTable;
      for (const auto& pair : in) {
        const Mark at = mark_of(pair.first.Mark());
        if (!pair.first.IsScalar()) throw TooBig{at, "a key must be a plain word"};
        out.members.push_back({pair.first.Scalar(), at, from_yaml(pair.second, depth + 1, nodes)});
      }
      break;
    case YAML::NodeType::Sequence:
      out.kind = Node::Kind::kList;
      for (const auto& item : in) out.items.push_back(from_yaml(item, depth + 1, nodes));
      break;
    case YAML::NodeType::Scalar:
      out.text = in.Scalar();
      // "?" = a plain scalar without a tag; "!" = quoted.
      out.kind = in.Tag() == "?" || in.Tag().empty() ? plain_kind(out.text) : Node::Kind::kString;
      break;
    default:
      break;
  }
  return out;
}

}  // namespace

std::string_view kind_name(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kBool:
      return "true or false";
    case Node::Kind::kInt:
      return "an integer";
    case Node::Kind::kFloat:
      return "a number";
    case Node::Kind::kString:
      return "a string";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kTable:
      return "a table";
  }
  return "something else";
}

std::string at_place(std::string_view file, Mark at, std::string_view text) {
  if (at.line == 0) return fmt::format("{}: {}", file, text);
  return fmt::format("{}:{}:{}: {}", file, at.line, at.column, text);
}

Result<Node> parse_document(std::string_view text, Syntax syntax, std::string_view file) {
  if (text.size() > kJobBytesMax)
    return fail(Errc::kInvalidArgument, fmt::format("{}: {} bytes, a job file may have {}", file,
                                                    text.size(), kJobBytesMax));
  try {
    std::size_t nodes = 0;
    switch (syntax) {
      case Syntax::kJson:
        return parse_json_document(text, file);
      case Syntax::kToml: {
        const toml::table table = toml::parse(text, std::string(file));
        return from_toml(table, 0, nodes);
      }
      case Syntax::kYaml: {
        if (!is_utf8(text)) return fail(Errc::kInvalidArgument, fmt::format("{}: not UTF-8", file));
        return from_yaml(YAML::Load(std::string(text)), 0, nodes);
      }
    }
    return fail(Errc::kInternal, "unknown syntax");
  } catch (const toml::parse_error& e) {
    return fail(Errc::kInvalidArgument, at_place(file, mark_of(e.source()), e.description()));
  } catch (const TomlImpossible&) {
    return fail(Errc::kInvalidArgument,
                at_place(file, find_impossible(text), "a key or a table header is malformed"));
  } catch (const YAML::Exception& e) {
    return fail(Errc::kInvalidArgument, at_place(file, mark_of(e.mark), e.msg));
  } catch (const TooBig& e) {
    return fail(Errc::kInvalidArgument, at_place(file, e.at, e.why));
  } catch (const std::exception& e) {
    return fail(Errc::kInvalidArgument, fmt::format("{}: {}", file, e.what()));
  }
}

}  // namespace dlrun::jobspec

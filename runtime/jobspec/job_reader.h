#pragma once
/// runtime/jobspec/job_reader.h: walks a document's tree into a JobSpec and collects what is wrong
/// with it, each problem with its place. Private to this folder. Single use.

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cluster/core/spec_check.h"
#include "runtime/jobspec/document.h"

namespace dlrun::jobspec {

/// For a message: a number or a text as it stands, of others the kind.
std::string shown(const Node& node);

class JobReader {
 public:
  explicit JobReader(std::string_view file) : file_(file) {}
  Result<cluster::JobSpec> read(const Node& root);

 private:
  using Part = cluster::SpecProblem::Part;
  using PartId = std::pair<Part, std::size_t>;
  struct Place {
    Mark at;
    bool bad = false;  ///< it was told what is wrong with it
  };
  using Field = std::pair<std::string_view, std::function<void(const Node&)>>;

  void problem(Mark at, std::string text);
  /// Calls the field of each member; an unknown or repeated key is a problem. `where` is
  /// "[role.worker]" or "the job"; a table that is a part of the job keeps the place of each field.
  void table(const Node& node, std::string_view where, const std::vector<Field>& fields,
             std::optional<PartId> part = {});
  bool at_most(const Node& node, std::size_t most, std::string_view what);
  bool want(const Node& node, Node::Kind kind, std::string_view what);

  std::string text(const Node& node, std::string_view what);  ///< a string
  /// a string or {base64}, without NUL
  std::string bytes(const Node& node, std::string_view what);
  std::vector<std::string> bytes_list(const Node& node, std::string_view what);
  /// A string or one of `also`; `like` is how it is written: "a count, like 4 or \"1..4\"".
  bool written_as(const Node& node, std::string_view what, std::string_view like,
                  std::initializer_list<Node::Kind> also);
  bool boolean(const Node& node, std::string_view what);
  template <class T>
  T integer(const Node& node, std::string_view what, T low, T high);
  Duration duration(const Node& node, std::string_view what);
  std::int64_t size(const Node& node, std::string_view what);
  /// Index of the string among `names`.
  std::size_t choice(const Node& node, std::string_view what,
                     const std::vector<std::string_view>& names);

  cluster::EnvList env(const Node& node, std::string_view where);
  sched::Labels labels(const Node& node, std::string_view where);
  void role(const Node::Member& member, const cluster::EnvList& common);
  void input(const Node::Member& member);
  void read_columns(const Node& node, io::InputSpec& input);
  cluster::Rlimits rlimits(const Node& node);
  std::vector<cluster::Cause> causes(const Node& node, std::string_view what);
  std::string format_of_names(const io::InputSpec& input, Mark at);
  void output(const Node::Member& member);
  void restart(const Node& node);
  void end_rule(const Node& node, cluster::RoleSpec& role);
  std::uint32_t failures(const Node& node);
  void complete();  ///< with what the job's framework adds
  void check_after();
  void default_outputs();
  /// What the control plane would say of the spec, at its place; not what follows from a problem
  /// that was told.
  void check_spec();
  void tell(const cluster::SpecProblem& wrong);
  Place& place(PartId part, std::string_view field);
  bool told(PartId part, std::string_view field) const;

  std::string file_;
  Mark root_;
  cluster::JobSpec spec_;
  std::vector<std::string> problems_;
  bool more_ = false;
  /// Of every field that stands in the text; "" is the name of the part itself.
  std::map<std::pair<PartId, std::string>, Place> places_;
  std::vector<std::vector<Mark>> after_marks_;  ///< of each role
};

template <class T>
T JobReader::integer(const Node& node, std::string_view what, T low, T high) {
  if (node.kind != Node::Kind::kInt) {
    problem(node.at, fmt::format("{} must be a whole number, not {}", what, shown(node)));
    return low;
  }
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

}  // namespace dlrun::jobspec

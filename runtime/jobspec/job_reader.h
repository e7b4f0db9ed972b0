#pragma once
/// runtime/jobspec/job_reader.h: walks a document's tree into a JobSpec and collects what is wrong
/// with it, each problem with its place. Private to this folder. Single use.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cluster/core/msg.h"
#include "runtime/jobspec/document.h"

namespace dlrun::jobspec {

class JobReader {
 public:
  explicit JobReader(std::string_view file) : file_(file) {}
  Result<cluster::JobSpec> read(const Node& root);

 private:
  using Field = std::pair<std::string_view, std::function<void(const Node&)>>;

  void problem(Mark at, std::string text);
  /// Calls the field of each member; an unknown or repeated key is a problem. `where` is
  /// "[role.worker]" or "the job".
  void table(const Node& node, std::string_view where, const std::vector<Field>& fields);
  bool at_most(const Node& node, std::size_t most, std::string_view what);
  bool want(const Node& node, Node::Kind kind, std::string_view what);

  std::string text(const Node& node, std::string_view what);  ///< a string
  /// a string or {base64}, without NUL
  std::string bytes(const Node& node, std::string_view what);
  std::vector<std::string> bytes_list(const Node& node, std::string_view what);
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
  void check_roles();
  void check_outputs();

  std::string file_;
  cluster::JobSpec spec_;
  std::vector<std::string> problems_;
  bool more_ = false;
  std::vector<Mark> output_marks_;  ///< of an output's role, or its name
  /// of a role's name, and of its `after` items
  std::vector<std::pair<Mark, std::vector<Mark>>> role_marks_;
};

}  // namespace dlrun::jobspec

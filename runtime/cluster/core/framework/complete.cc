#include "runtime/cluster/core/framework/complete.h"

#include <algorithm>

#include "runtime/base/utf8.h"
#include "runtime/cluster/core/framework/adapter.h"

namespace dlrun::cluster::framework {

namespace {

using Part = SpecProblem::Part;

constexpr std::int64_t kExtraCpuMilli = 100;  ///< a scheduler or a tracker mostly waits

class Completion {
 public:
  Completion(JobSpec& spec, const Adapter& adapter) : spec_(spec), adapter_(adapter) {}

  std::vector<SpecProblem> run() {
    if (adapter_.roles.empty()) return {};
    refuse_strangers();
    const RoleSpec* workers = process(adapter_.workers);
    if (workers == nullptr && process(adapter_.leader) == nullptr)
      wrong(Part::kJob, 0, "role",
            std::string(adapter_.name) + " needs a role '" + std::string(adapter_.workers) + "'");
    if (!problems_.empty()) return std::move(problems_);
    const bool ordered = std::any_of(spec_.roles.begin(), spec_.roles.end(),
                                     [](const RoleSpec& role) { return !role.after.empty(); });
    for (const RoleRow& row : adapter_.roles) add_extra(row);
    for (RoleSpec& role : spec_.roles)
      if (const RoleRow* row = row_of(role)) {
        if (role.end == EndRule::kByKind && role.kind == RoleKind::kBatch) {
          role.end = row->end;
          if (!role.linger) role.linger = row->linger;
        }
        role.resources.ports = std::max(role.resources.ports, row->ports);
        if (role.name == adapter_.workers) add_runner(role);
        if (!ordered) add_order(role, *row);
      }
    return std::move(problems_);
  }

 private:
  void wrong(Part part, std::size_t index, std::string field, std::string text) {
    problems_.push_back({part, index, std::move(field), std::move(text)});
  }
  const RoleRow* row_of(const RoleSpec& role) const {
    return role.program == RoleProgram::kProcess ? adapter_.row_of(role.name) : nullptr;
  }
  RoleSpec* process(std::string_view name) {
    for (RoleSpec& role : spec_.roles)
      if (role.name == name && role.program == RoleProgram::kProcess) return &role;
    return nullptr;
  }

  void refuse_strangers() {
    std::string known;
    for (const RoleRow& row : adapter_.roles)
      known += (known.empty() ? "" : ", ") + std::string(row.role);
    std::uint64_t tasks = 0;
    for (std::size_t i = 0; i < spec_.roles.size(); ++i) {
      const RoleSpec& role = spec_.roles[i];
      if (role.program == RoleProgram::kShardHost) continue;
      const RoleRow* row = row_of(role);
      if (row != nullptr) {
        tasks += role.count_max;
        if (role.count_max > row->count_max)
          wrong(Part::kRole, i, "count",
                std::string(adapter_.name) + " has at most " + std::to_string(row->count_max));
      } else if (role.kind == RoleKind::kBatch && role.end == EndRule::kByKind) {
        wrong(Part::kRole, i, "",
              std::string(adapter_.name) + " knows the roles " + known +
                  "; another one is kind = \"service\", or says what its end means: end = \"...\"");
      }
    }
    if (tasks > adapter_.tasks_max)
      wrong(Part::kJob, 0, "role",
            std::to_string(tasks) + " tasks, each of which learns of all others in one variable: " +
                std::string(adapter_.name) + " may have " + std::to_string(adapter_.tasks_max));
  }

  bool has_servers() { return !adapter_.servers.empty() && process(adapter_.servers) != nullptr; }

  void add_extra(const RoleRow& row) {
    if (row.extra == Extra::kNo || process(row.role) != nullptr) return;
    if ((row.extra == Extra::kScheduler) != has_servers()) return;
    const RoleSpec* workers = process(adapter_.workers);
    if (workers == nullptr) return;
    RoleSpec extra;
    extra.name = std::string(row.role);
    extra.env = workers->env;
    extra.cwd = workers->cwd;
    extra.require = workers->require;
    extra.resources.cpu_milli = std::min(kExtraCpuMilli, workers->resources.cpu_milli);
    if (row.extra == Extra::kTracker) {
      extra.argv = {"python3", "-m", "dlrun.tracker", std::string(adapter_.name)};
      extra.ready = ReadyWhen::kTold;
    } else {
      extra.argv = workers->argv;
      extra.resources.memory_bytes = workers->resources.memory_bytes;
    }
    spec_.roles.push_back(std::move(extra));
  }

  void add_runner(RoleSpec& role) {
    if (adapter_.runner.empty()) return;
    const std::string runner[] = {"python3", "-m", std::string(adapter_.runner)};
    if (role.argv.size() < std::size(runner) ||
        !std::equal(std::begin(runner), std::end(runner), role.argv.begin()))
      role.argv.insert(role.argv.begin(), std::begin(runner), std::end(runner));
  }

  void add_order(RoleSpec& role, const RoleRow& row) {
    for (const std::string_view before : row.after)
      if (!before.empty() && process(before) != nullptr) role.after.emplace_back(before);
  }

  JobSpec& spec_;
  const Adapter& adapter_;
  std::vector<SpecProblem> problems_;
};

}  // namespace

std::vector<SpecProblem> complete(JobSpec& spec) {
  if (spec.framework.empty()) return {};
  const Adapter* adapter = find(spec.framework);
  if (adapter == nullptr)
    return {{Part::kJob, 0, "framework", in_quotes(spec.framework) + " is none of " + names()}};
  return Completion(spec, *adapter).run();
}

}  // namespace dlrun::cluster::framework

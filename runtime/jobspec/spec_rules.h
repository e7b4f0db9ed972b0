#pragma once
/// runtime/jobspec/spec_rules.h: the rules of single fields, shared by the reader of job files
/// (which knows the place) and validate() (which does not). Each answers what is wrong, as a
/// sentence, or nothing.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cluster/core/msg.h"
#include "runtime/cluster/core/spec_check.h"

namespace dlrun::jobspec {

inline constexpr std::size_t kRolesMax = cluster::kSpecLimits.roles_max;
inline constexpr std::size_t kInputsMax = cluster::kSpecLimits.inputs_max;
inline constexpr std::size_t kOutputsMax = cluster::kSpecLimits.outputs_max;
inline constexpr std::size_t kEnvMax = cluster::kSpecLimits.env_max;

std::optional<std::string> check_role_name(std::string_view name);   ///< [a-z][a-z0-9_-]{0,31}
std::optional<std::string> check_input_name(std::string_view name);  ///< [A-Za-z0-9_.-]{1,64}
/// UTF-8, not empty, no '=' and no NUL
std::optional<std::string> check_env_name(std::string_view name);
/// <= 256, no control characters
std::optional<std::string> check_label_text(std::string_view what, std::string_view text);
/// argv against program
std::optional<std::string> check_role_program(const cluster::RoleSpec& role);

/// The word for `format` that the ending of a path tells (.libsvm .svm .ffm .libffm .csv .tsv, in
/// any case), before one of .gz .zst .xz .bz2 too; empty when it tells none. Globs too:
/// "day-*.csv".
std::string_view format_of_name(std::string_view path);

std::string cause_name(cluster::Cause cause);  ///< "node-lost"
/// Every cause that a job can be restarted on, as people write it; '_' for '-' is understood too.
std::vector<std::pair<std::string, cluster::Cause>> cause_names();

}  // namespace dlrun::jobspec

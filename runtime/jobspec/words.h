#pragma once
/// runtime/jobspec/words.h: words of job files that stand for values: formats by the names of
/// files, causes of an end.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cluster/core/msg.h"

namespace dlrun::jobspec {

/// The word for `format` that the ending of a path tells (.libsvm .svm .ffm .libffm .csv .tsv, in
/// any case), before one of .gz .zst .xz .bz2 too; empty when it tells none. Globs too:
/// "day-*.csv".
std::string_view format_of_name(std::string_view path);

std::string cause_name(cluster::Cause cause);  ///< "node-lost"
/// Every cause that a job can be restarted on, as people write it; '_' for '-' is understood too.
std::vector<std::pair<std::string, cluster::Cause>> cause_names();

}  // namespace dlrun::jobspec

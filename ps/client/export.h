#pragma once
/// ps/client/export.h: rows of a table, collected, as files for numpy.

#include <cstdint>
#include <string>
#include <vector>

#include "ps/core/msg.h"
#include "runtime/base/result.h"

namespace dlrun::ps {

/// keys [n] in any order, distinct; values [n, dim].
struct Rows {
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
};

/// As Client::export_table says.
Status write_rows(const TableSchema& schema, const Rows& rows, const std::string& path_prefix);

}  // namespace dlrun::ps

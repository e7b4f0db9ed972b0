#include "ps/client/export.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ps/client/npy.h"
#include "ps/core/optimizer.h"

namespace dlrun::ps {
namespace {

Status write_dense(const TableSchema& schema, const Rows& rows, const std::string& path_prefix) {
  const std::size_t dim = schema.dim;
  std::vector<float> tensor(schema.rows * dim);
  for (std::uint64_t row = 0; row < schema.rows; ++row)
    init_weights(schema, row, tensor.data() + row * dim);
  for (std::size_t i = 0; i < rows.keys.size(); ++i) {
    if (rows.keys[i] >= schema.rows)
      return fail(Errc::kCorrupt, "a dense table with row " + std::to_string(rows.keys[i]));
    std::memcpy(tensor.data() + rows.keys[i] * dim, rows.values.data() + i * dim,
                dim * sizeof(float));
  }
  return write_npy(path_prefix + ".npy", "<f4", {schema.rows, dim},
                   std::as_bytes(std::span(tensor)));
}

}  // namespace

Status write_rows(const TableSchema& schema, const Rows& rows, const std::string& path_prefix) {
  if (schema.kind == KeyKind::kDense) return write_dense(schema, rows, path_prefix);
  const std::size_t dim = schema.dim;
  std::vector<std::size_t> order(rows.keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return rows.keys[a] < rows.keys[b]; });
  std::vector<std::uint64_t> keys(order.size());
  std::vector<float> values(order.size() * dim);
  for (std::size_t i = 0; i < order.size(); ++i) {
    keys[i] = rows.keys[order[i]];
    std::memcpy(values.data() + i * dim, rows.values.data() + order[i] * dim, dim * sizeof(float));
  }
  DLRUN_TRY(
      write_npy(path_prefix + ".keys.npy", "<u8", {keys.size()}, std::as_bytes(std::span(keys))));
  return write_npy(path_prefix + ".values.npy", "<f4", {keys.size(), dim},
                   std::as_bytes(std::span(values)));
}

}  // namespace dlrun::ps

#include "runtime/device/device.h"

#include <algorithm>
#include <unordered_map>

namespace dlrun::device {
namespace {

Status check(const RowTable& table, std::span<const std::uint32_t> ids, std::size_t values) {
  if (values != ids.size() * table.dim())
    return fail(Errc::kInvalidArgument, std::to_string(ids.size()) + " rows of " +
                                            std::to_string(table.dim()) + " values asked, " +
                                            std::to_string(values) + " values given");
  for (const std::uint32_t id : ids)
    if (id >= table.rows())
      return fail(Errc::kInvalidArgument,
                  "row " + std::to_string(id) + " of a table of " + std::to_string(table.rows()));
  return {};
}

enum class Combine { kSum, kLast };

/// Distinct ids in order of first sight, with their values combined.
struct Distinct {
  std::vector<std::uint32_t> ids;
  std::vector<float> values;
};

bool all_distinct(std::span<const std::uint32_t> ids) {
  std::vector<std::uint32_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

Distinct distinct(std::span<const std::uint32_t> ids, std::span<const float> values,
                  std::uint32_t dim, Combine combine) {
  Distinct d;
  std::unordered_map<std::uint32_t, std::size_t> at;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const float* row = values.data() + i * dim;
    const auto [found, fresh] = at.try_emplace(ids[i], d.ids.size());
    if (fresh) {
      d.ids.push_back(ids[i]);
      d.values.insert(d.values.end(), row, row + dim);
      continue;
    }
    float* into = d.values.data() + found->second * dim;
    for (std::uint32_t c = 0; c < dim; ++c)
      into[c] = combine == Combine::kSum ? into[c] + row[c] : row[c];
  }
  return d;
}

}  // namespace

Status Device::assign(RowTable& table, std::span<const std::uint32_t> ids,
                      std::span<const float> values) {
  DLRUN_TRY(check(table, ids, values.size()));
  if (ids.empty()) return {};
  if (all_distinct(ids)) return do_assign(table, ids, values);
  const Distinct d = distinct(ids, values, table.dim(), Combine::kLast);
  return do_assign(table, d.ids, d.values);
}

Status Device::gather(const RowTable& table, std::span<const std::uint32_t> ids,
                      std::span<float> out) {
  DLRUN_TRY(check(table, ids, out.size()));
  if (ids.empty()) return {};
  return do_gather(table, ids, out);
}

Status Device::update(RowTable& table, std::span<const std::uint32_t> ids,
                      std::span<const float> grads) {
  DLRUN_TRY(check(table, ids, grads.size()));
  if (ids.empty()) return {};
  if (all_distinct(ids)) return do_update(table, ids, grads);
  const Distinct d = distinct(ids, grads, table.dim(), Combine::kSum);
  return do_update(table, d.ids, d.values);
}

}  // namespace dlrun::device

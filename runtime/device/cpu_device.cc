#include <Eigen/Core>
#include <algorithm>
#include <new>

#include "runtime/device/device.h"

namespace dlrun::device {
namespace {

/// A row is its weights, then (Adagrad) its accumulators.
class CpuRows final : public RowTable {
 public:
  CpuRows(std::uint64_t rows, std::uint32_t dim, UpdateSpec spec, std::unique_ptr<float[]> data)
      : RowTable(rows, dim, spec), data_(std::move(data)) {}
  std::uint32_t stride() const { return spec().rule == UpdateRule::kAdagrad ? 2 * dim() : dim(); }
  float* row(std::uint32_t id) { return data_.get() + std::size_t{id} * stride(); }
  const float* row(std::uint32_t id) const { return data_.get() + std::size_t{id} * stride(); }

 private:
  std::unique_ptr<float[]> data_;
};

class CpuDevice final : public Device {
 public:
  std::string name() const override { return "cpu"; }

  Result<std::unique_ptr<RowTable>> make_rows(std::uint64_t rows, std::uint32_t dim,
                                              UpdateSpec spec) override {
    if (dim == 0 || rows > (std::uint64_t{1} << 32) || rows > (std::uint64_t{1} << 40) / dim)
      return fail(Errc::kInvalidArgument,
                  "a table of " + std::to_string(rows) + " rows of " + std::to_string(dim));
    const std::size_t stride = spec.rule == UpdateRule::kAdagrad ? 2 * std::size_t{dim} : dim;
    std::unique_ptr<float[]> data(new (std::nothrow) float[rows * stride]());
    if (!data)
      return fail(Errc::kResourceExhausted,
                  std::to_string(rows * stride * 4) + " bytes for a table");
    if (spec.rule == UpdateRule::kAdagrad && spec.accumulator != 0)
      for (std::uint64_t r = 0; r < rows; ++r)
        std::fill_n(data.get() + r * stride + dim, dim, spec.accumulator);
    return std::make_unique<CpuRows>(rows, dim, spec, std::move(data));
  }

 private:
  Status do_assign(RowTable& table, std::span<const std::uint32_t> ids,
                   std::span<const float> values) override {
    auto& rows = static_cast<CpuRows&>(table);
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(values.data() + i * rows.dim(), rows.dim(), rows.row(ids[i]));
    return {};
  }

  Status do_gather(const RowTable& table, std::span<const std::uint32_t> ids,
                   std::span<float> out) override {
    const auto& rows = static_cast<const CpuRows&>(table);
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(rows.row(ids[i]), rows.dim(), out.data() + i * rows.dim());
    return {};
  }

  Status do_update(RowTable& table, std::span<const std::uint32_t> ids,
                   std::span<const float> grads) override {
    auto& rows = static_cast<CpuRows&>(table);
    const UpdateSpec& s = rows.spec();
    const std::uint32_t dim = rows.dim();
    using Row = Eigen::Map<Eigen::ArrayXf>;
    using Grad = Eigen::Map<const Eigen::ArrayXf>;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Row w(rows.row(ids[i]), dim);
      const Grad g(grads.data() + i * dim, dim);
      if (s.rule == UpdateRule::kSgd) {
        w -= s.learning_rate * (g + s.l2 * w);
      } else {
        Row a(rows.row(ids[i]) + dim, dim);
        a += (g + s.l2 * w).square();
        w -= s.learning_rate * (g + s.l2 * w) / (a.sqrt() + s.epsilon);
      }
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace dlrun::device

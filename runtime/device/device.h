#pragma once
/// runtime/device/device.h: rows of weights in a device's memory, with the two kernels that
/// training needs: gather rows, and update rows by gradients. One interface, two twins: CpuDevice
/// always, CudaDevice when built with CUDA and a GPU is there.
/// Shapes: a table is [rows, dim] f32; ids [n] u32; grads and gathered values [n, dim] f32
/// row-major, in host memory.
/// Source of the rules: SGD; Adagrad (Duchi, Hazan, Singer, JMLR 2011), element-wise, as PyTorch
/// writes it.
/// Errors: kInvalidArgument (an id >= rows, spans that do not match; nothing is changed),
/// kResourceExhausted (device memory), kNoDevice, kIo (the driver refused; the context has its
/// words). Never throws.
/// Threads: a Device and its tables belong to one thread.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace dlrun::device {

enum class UpdateRule : std::uint8_t { kSgd = 0, kAdagrad = 1 };

/// g' = g + l2 * w. SGD: w -= rate * g'. Adagrad: a += g'^2; w -= rate * g' / (sqrt(a) + epsilon).
struct UpdateSpec {
  UpdateRule rule = UpdateRule::kSgd;
  float learning_rate = 0.1f;
  float l2 = 0.0f;
  float epsilon = 1e-10f;
  float accumulator = 0.0f;  ///< Adagrad: initial value
};

/// Owns the rows, all zero at first. Made by a Device and valid with that Device only, which must
/// outlive it.
class RowTable {
 public:
  virtual ~RowTable() = default;
  std::uint64_t rows() const { return rows_; }
  std::uint32_t dim() const { return dim_; }
  const UpdateSpec& spec() const { return spec_; }

 protected:
  RowTable(std::uint64_t rows, std::uint32_t dim, UpdateSpec spec)
      : rows_(rows), dim_(dim), spec_(spec) {}

 private:
  std::uint64_t rows_;
  std::uint32_t dim_;
  UpdateSpec spec_;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  ///< "cpu", "cuda:0 NVIDIA H100"
  virtual Result<std::unique_ptr<RowTable>> make_rows(std::uint64_t rows, std::uint32_t dim,
                                                      UpdateSpec spec) = 0;

  /// Sets rows `ids` to `values`; an id that comes twice: the last one holds.
  Status assign(RowTable& table, std::span<const std::uint32_t> ids, std::span<const float> values);
  /// out[i] = weights of row ids[i].
  Status gather(const RowTable& table, std::span<const std::uint32_t> ids, std::span<float> out);
  /// One step of the table's rule for each distinct id; the gradients of an id that comes several
  /// times are summed first, in order.
  Status update(RowTable& table, std::span<const std::uint32_t> ids, std::span<const float> grads);

 private:
  // The ids below are checked; those of update and assign are distinct.
  virtual Status do_assign(RowTable& table, std::span<const std::uint32_t> ids,
                           std::span<const float> values) = 0;
  virtual Status do_gather(const RowTable& table, std::span<const std::uint32_t> ids,
                           std::span<float> out) = 0;
  virtual Status do_update(RowTable& table, std::span<const std::uint32_t> ids,
                           std::span<const float> grads) = 0;
};

std::unique_ptr<Device> make_cpu_device();
/// GPU `index` as the driver counts. kNoDevice when this build has no CUDA, or there is no driver,
/// or no such GPU.
Result<std::unique_ptr<Device>> make_cuda_device(int index);

}  // namespace dlrun::device

#include <algorithm>
#include <utility>

#include "runtime/device/cuda/cuda_error.h"
#include "runtime/device/cuda/row_kernels.h"
#include "runtime/device/device.h"

namespace dlrun::device {
namespace {

/// Device memory that grows and is kept.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() { cudaFree(data_); }

  Status reserve(std::size_t bytes) {
    if (bytes <= bytes_) return {};
    cudaFree(std::exchange(data_, nullptr));
    bytes_ = 0;
    DLRUN_TRY(
        cuda_status(cudaMalloc(&data_, bytes), std::to_string(bytes) + " bytes of device memory"));
    bytes_ = bytes;
    return {};
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class CudaRows final : public RowTable {
 public:
  CudaRows(std::uint64_t rows, std::uint32_t dim, UpdateSpec spec, Buffer memory)
      : RowTable(rows, dim, spec), memory_(std::move(memory)) {}
  kernels::Rows kernel_rows() const {
    return {memory_.as<float>(), dim(), spec().rule == UpdateRule::kAdagrad ? 2 * dim() : dim()};
  }

 private:
  Buffer memory_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(int index, std::string model, cudaStream_t stream)
      : index_(index), model_(std::move(model)), stream_(stream) {}
  ~CudaDevice() override { cudaStreamDestroy(stream_); }

  std::string name() const override { return "cuda:" + std::to_string(index_) + " " + model_; }

  Result<std::unique_ptr<RowTable>> make_rows(std::uint64_t rows, std::uint32_t dim,
                                              UpdateSpec spec) override {
    if (dim == 0 || rows > (std::uint64_t{1} << 32) || rows > (std::uint64_t{1} << 40) / dim)
      return fail(Errc::kInvalidArgument,
                  "a table of " + std::to_string(rows) + " rows of " + std::to_string(dim));
    DLRUN_TRY(here());
    const std::size_t stride = spec.rule == UpdateRule::kAdagrad ? 2 * std::size_t{dim} : dim;
    const std::size_t bytes = rows * stride * sizeof(float);
    Buffer memory;
    DLRUN_TRY(memory.reserve(std::max<std::size_t>(bytes, 4)));
    DLRUN_TRY(cuda_status(cudaMemsetAsync(memory.as<void>(), 0, bytes, stream_), "clear a table"));
    auto table = std::make_unique<CudaRows>(rows, dim, spec, std::move(memory));
    if (spec.rule == UpdateRule::kAdagrad)
      DLRUN_TRY(
          launched(kernels::fill_state(table->kernel_rows(), rows, spec.accumulator, stream_)));
    DLRUN_TRY(finish());
    return table;
  }

 private:
  Status do_assign(RowTable& table, std::span<const std::uint32_t> ids,
                   std::span<const float> values) override {
    DLRUN_TRY(send(ids, values));
    const kernels::Rows rows = static_cast<CudaRows&>(table).kernel_rows();
    DLRUN_TRY(launched(kernels::scatter(rows, ids_.as<std::uint32_t>(), ids.size(),
                                        values_.as<float>(), stream_)));
    return finish();
  }

  Status do_gather(const RowTable& table, std::span<const std::uint32_t> ids,
                   std::span<float> out) override {
    DLRUN_TRY(send(ids, {}));
    DLRUN_TRY(values_.reserve(out.size_bytes()));
    const kernels::Rows rows = static_cast<const CudaRows&>(table).kernel_rows();
    DLRUN_TRY(launched(
        kernels::gather(rows, ids_.as<std::uint32_t>(), ids.size(), values_.as<float>(), stream_)));
    DLRUN_TRY(cuda_status(cudaMemcpyAsync(out.data(), values_.as<float>(), out.size_bytes(),
                                          cudaMemcpyDeviceToHost, stream_),
                          "copy from the device"));
    return finish();
  }

  Status do_update(RowTable& table, std::span<const std::uint32_t> ids,
                   std::span<const float> grads) override {
    DLRUN_TRY(send(ids, grads));
    const kernels::Rows rows = static_cast<CudaRows&>(table).kernel_rows();
    const UpdateSpec& s = table.spec();
    const auto* id = ids_.as<std::uint32_t>();
    const auto* g = values_.as<float>();
    DLRUN_TRY(
        launched(s.rule == UpdateRule::kSgd
                     ? kernels::update_sgd(rows, id, ids.size(), g, s.learning_rate, s.l2, stream_)
                     : kernels::update_adagrad(rows, id, ids.size(), g, s.learning_rate, s.l2,
                                               s.epsilon, stream_)));
    return finish();
  }

  Status here() { return cuda_status(cudaSetDevice(index_), "choose " + name()); }
  Status finish() { return cuda_status(cudaStreamSynchronize(stream_), "wait for " + name()); }
  Status launched(int error) {
    return cuda_status(static_cast<cudaError_t>(error), "launch on " + name());
  }

  Status send(std::span<const std::uint32_t> ids, std::span<const float> values) {
    DLRUN_TRY(here());
    DLRUN_TRY(ids_.reserve(ids.size_bytes()));
    DLRUN_TRY(values_.reserve(values.size_bytes()));
    DLRUN_TRY(cuda_status(cudaMemcpyAsync(ids_.as<void>(), ids.data(), ids.size_bytes(),
                                          cudaMemcpyHostToDevice, stream_),
                          "copy to the device"));
    if (values.empty()) return {};
    return cuda_status(cudaMemcpyAsync(values_.as<void>(), values.data(), values.size_bytes(),
                                       cudaMemcpyHostToDevice, stream_),
                       "copy to the device");
  }

  int index_;
  std::string model_;
  cudaStream_t stream_;
  Buffer ids_, values_;
};

}  // namespace

Result<std::unique_ptr<Device>> make_cuda_device(int index) {
  int count = 0;
  DLRUN_TRY(cuda_status(cudaGetDeviceCount(&count), "count the GPUs"));
  if (index < 0 || index >= count)
    return fail(Errc::kNoDevice,
                "no GPU " + std::to_string(index) + ": this machine has " + std::to_string(count));
  cudaDeviceProp properties{};
  DLRUN_TRY(cuda_status(cudaGetDeviceProperties(&properties, index), "ask the GPU"));
  DLRUN_TRY(cuda_status(cudaSetDevice(index), "choose the GPU"));
  cudaStream_t stream = nullptr;
  DLRUN_TRY(
      cuda_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "make a stream"));
  return std::make_unique<CudaDevice>(index, properties.name, stream);
}

}  // namespace dlrun::device

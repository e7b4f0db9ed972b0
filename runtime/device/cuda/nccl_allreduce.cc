#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "runtime/device/allreduce.h"
#include "runtime/device/cuda/cuda_error.h"

namespace dlrun::device {
namespace {

Status nccl_status(ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return {};
  return fail(Errc::kUnavailable, what + ": " + ncclGetErrorString(result));
}

class NcclAllreduce final : public Allreduce {
 public:
  NcclAllreduce(std::uint32_t rank, std::uint32_t world, ncclComm_t communicator)
      : rank_(rank), world_(world), communicator_(communicator) {}
  ~NcclAllreduce() override {
    cudaSetDevice(static_cast<int>(rank_));
    // abort, not destroy: destroy waits for ranks that may be gone.
    if (communicator_ != nullptr) ncclCommAbort(communicator_);
    cudaFree(data_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t world() const override { return world_; }

  /// Each rank's length travels first: NCCL itself hangs or writes beyond a buffer when the ranks'
  /// lengths differ.
  Status sum(std::span<float> data, Duration timeout) override {
    if (communicator_ == nullptr) return fail(Errc::kUnavailable, "a rank has left the group");
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    DLRUN_TRY(cuda_status(cudaSetDevice(static_cast<int>(rank_)), "choose the GPU"));
    if (stream_ == nullptr)
      DLRUN_TRY(
          cuda_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream"));
    DLRUN_TRY(reserve(std::max(data.size_bytes(), std::size_t{16})));

    std::uint64_t lengths[2] = {// the minima of n and ~n agree only when all n do
                                data.size(), ~std::uint64_t{data.size()}};
    DLRUN_TRY(copy(data_, lengths, sizeof lengths, cudaMemcpyHostToDevice));
    DLRUN_TRY(nccl_status(
        ncclAllReduce(data_, data_, 2, ncclUint64, ncclMin, communicator_, stream_), "allreduce"));
    DLRUN_TRY(wait_until(deadline));
    DLRUN_TRY(copy(lengths, data_, sizeof lengths, cudaMemcpyDeviceToHost));
    DLRUN_TRY(wait_until(deadline));
    if (lengths[0] != ~lengths[1])
      return fail(Errc::kInvalidArgument, "the ranks' vectors differ in length");
    if (data.empty()) return {};

    DLRUN_TRY(copy(data_, data.data(), data.size_bytes(), cudaMemcpyHostToDevice));
    DLRUN_TRY(nccl_status(
        ncclAllReduce(data_, data_, data.size(), ncclFloat32, ncclSum, communicator_, stream_),
        "allreduce"));
    DLRUN_TRY(wait_until(deadline));
    DLRUN_TRY(copy(data.data(), data_, data.size_bytes(), cudaMemcpyDeviceToHost));
    return wait_until(deadline);
  }

 private:
  Status copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return cuda_status(cudaMemcpyAsync(to, from, bytes, kind, stream_), "copy");
  }

  Status reserve(std::size_t bytes) {
    if (bytes <= bytes_) return {};
    cudaFree(data_);
    data_ = nullptr;
    bytes_ = 0;
    DLRUN_TRY(
        cuda_status(cudaMalloc(&data_, bytes), std::to_string(bytes) + " bytes of device memory"));
    bytes_ = bytes;
    return {};
  }

  Status wait_until(std::chrono::steady_clock::time_point deadline) {
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state != cudaErrorNotReady) return cuda_status(state, "allreduce");
      if (std::chrono::steady_clock::now() >= deadline) {
        ncclCommAbort(communicator_);
        communicator_ = nullptr;
        return fail(Errc::kDeadlineExceeded,
                    "not all of " + std::to_string(world_) + " ranks came to the sum");
      }
      std::this_thread::yield();
    }
  }

  std::uint32_t rank_;
  std::uint32_t world_;
  ncclComm_t communicator_;
  cudaStream_t stream_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

Result<AllreduceGroup> make_nccl_allreduce(std::uint32_t world) {
  if (world == 0 || world > kRanksMax)
    return fail(Errc::kInvalidArgument, "a group of " + std::to_string(world) + " ranks");
  int count = 0;
  DLRUN_TRY(cuda_status(cudaGetDeviceCount(&count), "count the GPUs"));
  if (static_cast<std::uint32_t>(count) < world)
    return fail(Errc::kNoDevice, "no GPU for each of " + std::to_string(world) +
                                     " ranks: this machine has " + std::to_string(count));
  std::vector<ncclComm_t> communicators(world);
  DLRUN_TRY(nccl_status(ncclCommInitAll(communicators.data(), static_cast<int>(world), nullptr),
                        "join the ranks"));
  AllreduceGroup ranks;
  for (std::uint32_t r = 0; r < world; ++r)
    ranks.push_back(std::make_unique<NcclAllreduce>(r, world, communicators[r]));
  return ranks;
}

}  // namespace dlrun::device

// What the CUDA entry points answer in a build without CUDA.
#include "runtime/device/allreduce.h"
#include "runtime/device/device.h"

namespace dlrun::device {

Result<std::unique_ptr<Device>> make_cuda_device(int) {
  return fail(Errc::kNoDevice, "no GPU: this build has no CUDA");
}

Result<AllreduceGroup> make_nccl_allreduce(std::uint32_t) {
  return fail(Errc::kNoDevice, "no GPU: this build has no CUDA");
}

}  // namespace dlrun::device

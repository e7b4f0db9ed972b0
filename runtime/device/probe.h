#pragma once
/// runtime/device/probe.h: which GPUs this machine has, from what NVIDIA's driver says under /proc:
/// no CUDA library is needed to ask.

#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace dlrun::device {

struct GpuInfo {
  std::string uuid;   ///< "GPU-2f6b...": the name that survives a reboot and a reordering
  std::string model;  ///< "NVIDIA A100-SXM4-80GB"
  std::string bus;    ///< "0000:07:00.0"
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

/// In order of the bus address. kNoDevice ("no GPU: ...") when there is no driver or it lists none;
/// kCorrupt when an entry has no UUID. `driver_root` is a parameter for the tests.
Result<std::vector<GpuInfo>> probe_devices(const std::string& driver_root = "/proc/driver/nvidia");

}  // namespace dlrun::device

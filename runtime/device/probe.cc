#include "runtime/device/probe.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace dlrun::device {
namespace {

std::string trimmed(std::string text) {
  const auto begin = text.find_first_not_of(" \t");
  const auto end = text.find_last_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

}  // namespace

Result<std::vector<GpuInfo>> probe_devices(const std::string& driver_root) {
  std::error_code error;
  std::filesystem::directory_iterator entries(std::filesystem::path(driver_root) / "gpus", error);
  if (error)
    return fail(Errc::kNoDevice, "no GPU: no NVIDIA driver is loaded (" + driver_root + ")");
  std::vector<GpuInfo> found;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    GpuInfo gpu;
    gpu.bus = entries->path().filename();
    const std::string path = entries->path() / "information";
    std::ifstream information(path);
    for (std::string line; std::getline(information, line);) {
      const auto colon = line.find(':');
      if (colon == std::string::npos) continue;
      const std::string key = trimmed(line.substr(0, colon));
      if (key == "Model") gpu.model = trimmed(line.substr(colon + 1));
      if (key == "GPU UUID") gpu.uuid = trimmed(line.substr(colon + 1));
    }
    if (gpu.uuid.empty()) return fail(Errc::kCorrupt, path + " names no GPU UUID");
    found.push_back(std::move(gpu));
  }
  if (error) return fail_errno("list " + driver_root + "/gpus", error.value());
  if (found.empty()) return fail(Errc::kNoDevice, "no GPU: the NVIDIA driver lists none");
  std::sort(found.begin(), found.end(),
            [](const GpuInfo& a, const GpuInfo& b) { return a.bus < b.bus; });
  return found;
}

}  // namespace dlrun::device

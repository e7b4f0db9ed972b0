#include "runtime/device/probe.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dlrun::device {
namespace {

namespace fs = std::filesystem;

class ProbeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "dlrun-probe-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void gpu(const std::string& bus, const std::string& text) {
    fs::create_directories(root_ / "gpus" / bus);
    std::ofstream(root_ / "gpus" / bus / "information") << text;
  }

  fs::path root_;
};

TEST_F(ProbeTest, ReadsWhatTheDriverSaysInOrderOfTheBus) {
  gpu("0000:81:00.0",
      "Model: \t\t NVIDIA A100\nIRQ:   \t\t 12\nGPU UUID: \t GPU-b\nBus Type: \t PCIe\n");
  gpu("0000:07:00.0", "Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-a\n");
  const auto found = probe_devices(root_);
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(*found, (std::vector<GpuInfo>{{"GPU-a", "NVIDIA A100", "0000:07:00.0"},
                                          {"GPU-b", "NVIDIA A100", "0000:81:00.0"}}));
}

TEST_F(ProbeTest, SaysNoGpuWithoutADriverAndWithoutADevice) {
  for (const bool driver : {false, true}) {
    if (driver) fs::create_directories(root_ / "gpus");
    const auto found = probe_devices(root_);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Errc::kNoDevice);
    EXPECT_TRUE(found.error().context.starts_with("no GPU")) << found.error().context;
  }
}

TEST_F(ProbeTest, RefusesAnEntryWithoutAUuid) {
  gpu("0000:07:00.0", "Model: NVIDIA A100\n");
  EXPECT_EQ(probe_devices(root_).error().code, Errc::kCorrupt);
}

}  // namespace
}  // namespace dlrun::device

// One suite for all devices. Where there is no GPU the CUDA half says so and checks that asking for
// one is answered, not fatal.
#include "runtime/device/device.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "runtime/base/rng.h"

namespace dlrun::device {
namespace {

enum class Kind { kCpu, kCuda };

class DeviceTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == Kind::kCpu) {
      device_ = make_cpu_device();
      return;
    }
    auto made = make_cuda_device(0);
    if (!made) {
      ASSERT_EQ(made.error().code, Errc::kNoDevice) << made.error().to_string();
      ASSERT_TRUE(made.error().context.starts_with("no GPU")) << made.error().context;
      GTEST_SKIP() << made.error().context;
    }
    device_ = std::move(*made);
  }

  std::unique_ptr<RowTable> table(std::uint64_t rows, std::uint32_t dim, UpdateSpec spec) {
    auto made = device_->make_rows(rows, dim, spec);
    EXPECT_TRUE(made) << made.error().to_string();
    return std::move(*made);
  }

  std::vector<float> read(const RowTable& t) {
    std::vector<std::uint32_t> ids(t.rows());
    for (std::uint32_t i = 0; i < ids.size(); ++i) ids[i] = i;
    std::vector<float> out(ids.size() * t.dim());
    EXPECT_TRUE(device_->gather(t, ids, out));
    return out;
  }

  std::unique_ptr<Device> device_;
};

// The rules in double precision, row by row, with a plain map from row to state.
void reference_step(const UpdateSpec& s, std::vector<double>& w, std::vector<double>& a,
                    std::uint32_t dim, const std::vector<std::uint32_t>& ids,
                    const std::vector<float>& grads) {
  std::vector<double> summed(w.size(), 0.0);
  std::vector<bool> touched(w.size() / dim, false);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    touched[ids[i]] = true;
    for (std::uint32_t c = 0; c < dim; ++c)
      summed[ids[i] * dim + c] += static_cast<double>(grads[i * dim + c]);
  }
  for (std::size_t k = 0; k < w.size(); ++k) {
    if (!touched[k / dim]) continue;
    const double g = summed[k] + static_cast<double>(s.l2) * w[k];
    if (s.rule == UpdateRule::kAdagrad) {
      a[k] += g * g;
      w[k] -= static_cast<double>(s.learning_rate) * g /
              (std::sqrt(a[k]) + static_cast<double>(s.epsilon));
    } else {
      w[k] -= static_cast<double>(s.learning_rate) * g;
    }
  }
}

TEST_P(DeviceTest, UpdatesAgreeWithTheFormulas) {
  SplitMix64 rng(11);
  for (const UpdateRule rule : {UpdateRule::kSgd, UpdateRule::kAdagrad}) {
    for (const std::uint32_t dim : {1u, 3u, 16u, 129u}) {
      const UpdateSpec spec{
          .rule = rule, .learning_rate = 0.05f, .l2 = 0.01f, .epsilon = 1e-8f, .accumulator = 0.1f};
      const std::uint64_t rows = 37;
      auto t = table(rows, dim, spec);
      std::vector<double> w(rows * dim, 0.0);
      std::vector<double> a(rows * dim, static_cast<double>(spec.accumulator));
      for (int step = 0; step < 20; ++step) {
        std::vector<std::uint32_t> ids(1 + rng.below(60));  // duplicates are frequent
        for (auto& id : ids) id = static_cast<std::uint32_t>(rng.below(rows));
        std::vector<float> grads(ids.size() * dim);
        for (auto& g : grads) g = static_cast<float>(rng.uniform() * 2 - 1);
        ASSERT_TRUE(device_->update(*t, ids, grads));
        reference_step(spec, w, a, dim, ids, grads);
      }
      const std::vector<float> got = read(*t);
      for (std::size_t k = 0; k < w.size(); ++k)
        ASSERT_NEAR(static_cast<double>(got[k]), w[k], 1e-4) << "dim " << dim << " value " << k;
    }
  }
}

TEST_P(DeviceTest, GathersWhatWasAssignedInAnyOrder) {
  auto t = table(5, 2, {});
  const std::vector<std::uint32_t> ids = {4, 0, 4};
  ASSERT_TRUE(device_->assign(*t, ids, std::vector<float>{1, 2, 3, 4, 5, 6}));
  std::vector<float> out(6);
  ASSERT_TRUE(device_->gather(*t, std::vector<std::uint32_t>{0, 4, 1}, out));
  EXPECT_EQ(out, (std::vector<float>{3, 4, 5, 6, 0, 0}));
}

TEST_P(DeviceTest, RefusesRowsAndSizesThatAreWrongAndChangesNothing) {
  auto t = table(4, 2, {});
  const std::vector<std::uint32_t> bad = {0, 4};
  EXPECT_EQ(device_->update(*t, bad, std::vector<float>{1, 1, 1, 1}).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(device_->update(*t, std::vector<std::uint32_t>{0}, std::vector<float>{1}).error().code,
            Errc::kInvalidArgument);
  std::vector<float> out(3);
  EXPECT_EQ(device_->gather(*t, std::vector<std::uint32_t>{0}, out).error().code,
            Errc::kInvalidArgument);
  EXPECT_EQ(read(*t), std::vector<float>(8, 0.0f));
}

TEST_P(DeviceTest, TakesEmptyRequestsAndRefusesTablesWithoutColumns) {
  auto t = table(4, 2, {});
  EXPECT_TRUE(device_->update(*t, {}, {}));
  EXPECT_TRUE(device_->gather(*t, {}, {}));
  EXPECT_EQ(device_->make_rows(4, 0, {}).error().code, Errc::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(All, DeviceTest, ::testing::Values(Kind::kCpu, Kind::kCuda),
                         [](const auto& info) {
                           return info.param == Kind::kCpu ? "Cpu" : "Cuda";
                         });

TEST(CudaDevice, AsksForAGpuThatIsNotThereAndIsToldSo) {
  for (const int index : {-1, 4096}) {
    const auto made = make_cuda_device(index);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::kNoDevice);
    EXPECT_TRUE(made.error().context.starts_with("no GPU")) << made.error().context;
  }
}

}  // namespace
}  // namespace dlrun::device

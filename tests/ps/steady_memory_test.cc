// Requests in a steady state ask the system for no memory, on either side.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "tests/ps/cluster_helper.h"

namespace {
std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* block =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(bytes == 0 ? 1 : bytes)
          : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) std::abort();
  return block;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes, 0); }
void* operator new[](std::size_t bytes) { return counted(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes, 0); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes, 0);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

namespace dlrun::ps {
namespace {

TEST(SteadyMemory, PullsAndPushesOverSharedMemoryAllocateNothing) {
  Cluster cluster("shm", 1, 1);
  const auto client = cluster.client(WorkerId{1});
  TableSchema schema = sum_schema("a table whose name has no room in a short string", 16);
  const Table table = client->open_table(schema, kLong).value();
  std::vector<std::uint64_t> keys(1000);
  std::iota(keys.begin(), keys.end(), std::uint64_t{5});
  std::vector<float> values(keys.size() * 16, 1.0f);
  const auto requests = [&](int n) {
    for (int i = 0; i < n; ++i) {
      const std::size_t rows = i % 3 == 0 ? keys.size() : 1;
      const std::span<const std::uint64_t> some(keys.data(), rows);
      ASSERT_TRUE(client->push(table, some, {values.data(), rows * 16}, kLong));
      ASSERT_TRUE(client->pull(table, some, {values.data(), rows * 16}, kLong));
    }
  };
  requests(200);
  const std::uint64_t before = allocations.load();
  EXPECT_GT(before, 100u) << "nothing is counted";
  requests(1000);
  EXPECT_EQ(allocations.load() - before, 0u) << "in 2000 requests";
}

}  // namespace
}  // namespace dlrun::ps

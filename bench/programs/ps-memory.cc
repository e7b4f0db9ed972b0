// What a shard's rows of dim 32 under Adagrad cost: 10 million of them, pushed by a client over
// shared memory, client and shard in this process.
//   bytes_per_row  resident bytes a row, against weights and state alone (256 bytes)
//   rss_growth     how much more is resident after 1e7 further operations on a table with a byte
//                  budget (lru): ever new keys, so that each one that comes evicts another
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

#include "bench/ps/shard_thread.h"
#include "bench/report/report.h"

namespace dlrun::bench {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kDim = 32;
constexpr double kPayload = 2.0 * kDim * sizeof(float);
constexpr std::size_t kBatch = 10'000;

double rss() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

ps::TableSchema schema_of(std::uint64_t budget) {
  return {.id = 3,
          .name = "t",
          .dim = kDim,
          .optimizer = ps::Optimizer::kAdagrad,
          .learning_rate = 0.05f,
          .consistency = ps::Consistency::kAsp,
          .eviction = budget > 0 ? ps::Eviction::kLru : ps::Eviction::kNone,
          .budget_bytes = budget};
}

struct Loader {
  std::vector<std::uint64_t> keys = std::vector<std::uint64_t>(kBatch);
  std::vector<float> grads = std::vector<float>(kBatch * kDim, 0.5f);
  std::uint64_t next = 1;  ///< no key comes twice

  void push(ps::Client& client, const ps::Table& table, std::uint64_t rows) {
    for (std::uint64_t done = 0; done < rows; done += kBatch) {
      for (auto& key : keys) key = mix64(next++);
      if (const Status pushed = client.push(table, keys, grads, 60s); !pushed) {
        std::fprintf(stderr, "ps-memory: %s\n", pushed.error().to_string().c_str());
        std::exit(1);
      }
    }
  }
};

int measure(bool quick) {
  const std::uint64_t rows = quick ? 1'000'000 : 10'000'000;
  const int rounds = quick ? 1 : 3;
  Figure bytes{"ps-memory", "bytes_per_row", "bytes", Better::kLess, {}, "weights and state", {},
               "",          Must{0.8, {}}};
  Figure growth{"ps-memory", "rss_growth", "MiB", Better::kLess,
                {},          "none",       {},    "an absolute bound: 2 % of the budget",
                Must{}};
  const std::uint64_t budget = quick ? 64u << 20 : 512u << 20;
  growth.must.value_at_most = static_cast<double>(budget) * 0.02 / (1 << 20);
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    {
      const ShardThread shard("shm://*");
      const auto client = shard.client();
      const ps::Table table = client->open_table(schema_of(0), 60s).value();
      Loader loader;
      // Buffers and the ring are there before the first figure is taken.
      ps::TableSchema other = schema_of(0);
      other.id = 4, other.name = "warm";
      loader.push(*client, client->open_table(other, 60s).value(), 2 * kBatch);
      const double before = rss();
      loader.push(*client, table, rows);
      bytes.values.push_back((rss() - before) / static_cast<double>(rows));
      bytes.baselines.push_back(kPayload);
    }
    {
      const ShardThread shard("shm://*");
      const auto client = shard.client();
      const ps::Table table = client->open_table(schema_of(budget), 60s).value();
      Loader loader;
      loader.push(*client, table, budget / 256 * 2);  // twice what fits
      const double before = rss();
      loader.push(*client, table, quick ? 1'000'000 : 10'000'000);
      growth.values.push_back((rss() - before) / (1 << 20));
    }
  }
  print(bytes);
  print(growth);
  return 0;
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  return dlrun::bench::measure(argc > 1 && std::string_view(argv[1]) == "--quick");
}

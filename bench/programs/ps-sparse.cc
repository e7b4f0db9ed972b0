// Sparse rows of dim 16 under Adagrad. Roof (bench/roofs/sparse.h): the same work on one core with
// nothing around it.
//   {push,pull}_100k              100,000 random sorted keys a request, 0.8 M rows resident: client
//                                 and shard, over shared memory
//   core_{push,pull}_100k         the same keys, straight into the shard's table: what the protocol
//                                 has to come near to
//   {push,pull}_4GiB_{uniform,zipf}  a table of 4 GiB (weights, state, index), straight into the
//                                    shard's table
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "bench/ps/shard_thread.h"
#include "bench/ps/zipf.h"
#include "bench/report/report.h"
#include "bench/roofs/sparse.h"
#include "ps/core/table.h"

namespace dlrun::bench {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kDim = 16;
constexpr float kRate = 0.05f;
constexpr float kEpsilon = 1e-6f;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ps::TableSchema table_schema() {
  return {.id = 11,
          .name = "t",
          .dim = kDim,
          .optimizer = ps::Optimizer::kAdagrad,
          .learning_rate = kRate,
          .epsilon = kEpsilon,
          .consistency = ps::Consistency::kAsp};
}

std::uint64_t key_of(std::uint64_t rank) { return mix64(rank + 1); }

/// Requests drawn beforehand: sorted, distinct keys and gradients, more of them than any cache
/// holds.
struct Requests {
  std::vector<std::vector<std::uint64_t>> keys;
  std::vector<std::vector<float>> grads;
  std::size_t total = 0;
};

template <class Draw>
Requests draw_requests(std::size_t n, std::size_t size, Draw draw) {
  Requests r;
  SplitMix64 rng(3);
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::uint64_t> keys(size);
    for (auto& key : keys) key = key_of(draw(rng));
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<float> grads(keys.size() * kDim);
    for (std::size_t j = 0; j < grads.size(); ++j) grads[j] = static_cast<float>(j % 7) - 3.0f;
    r.total += keys.size();
    r.keys.push_back(std::move(keys));
    r.grads.push_back(std::move(grads));
  }
  return r;
}

/// Keys per second of `once(i)` for every request i, in millions.
template <class Once>
double rate_of(const Requests& requests, Once once) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < requests.keys.size(); ++i) once(i);
  return static_cast<double>(requests.total) / seconds_since(start) * 1e-6;
}

struct Pair {
  Figure push;
  Figure pull;
};

Pair figures(const std::string& push, const std::string& pull, std::optional<double> must) {
  const auto one = [&](const std::string& metric) {
    return Figure{"ps-sparse",
                  metric,
                  "M keys/s",
                  Better::kMore,
                  {},
                  "index + rows in process, one core",
                  {},
                  "",
                  Must{.ratio_at_least = must, .value_at_most = {}}};
  };
  return {one(push), one(pull)};
}

template <class Push, class Pull>
void round_of(Pair& f, const Requests& requests, SparseRoof& roof, std::vector<float>& out,
              Push push, Pull pull) {
  f.push.baselines.push_back(rate_of(requests, [&](std::size_t i) {
    roof.push(requests.keys[i], requests.grads[i].data(), kRate, kEpsilon);
  }));
  f.push.values.push_back(rate_of(requests, push));
  f.pull.baselines.push_back(
      rate_of(requests, [&](std::size_t i) { roof.pull(requests.keys[i], out.data()); }));
  f.pull.values.push_back(rate_of(requests, pull));
}

void fill(ps::TableState& table, std::uint64_t rows) {
  std::vector<std::uint64_t> keys;
  const std::vector<float> zeros(65536 * kDim, 0.0f);
  for (std::uint64_t rank = 0; rank < rows;) {
    keys.clear();
    while (keys.size() < 65536 && rank < rows) keys.push_back(key_of(rank++));
    table.apply(keys, zeros.data(), 1, 1);
  }
}

std::vector<std::uint64_t> all_keys(std::uint64_t rows) {
  std::vector<std::uint64_t> keys(rows);
  for (std::uint64_t rank = 0; rank < rows; ++rank) keys[rank] = key_of(rank);
  return keys;
}

void print(const Pair& f) {
  bench::print(f.push);
  bench::print(f.pull);
}

void requests_100k(int rounds) {
  constexpr std::uint64_t kRows = 800'000;
  const Requests requests =
      draw_requests(24, 100'000, [](SplitMix64& rng) { return rng.below(kRows); });
  std::vector<float> out(100'000 * kDim);
  SparseRoof roof(all_keys(kRows));
  ps::TableState table(table_schema());
  fill(table, kRows);

  {
    const ShardThread shard("shm://*");
    const auto client = shard.client();
    const ps::Table t = client->open_table(table_schema(), 60s).value();
    const auto keys = all_keys(kRows);
    const std::vector<float> zeros(100'000 * kDim, 0.0f);
    for (std::size_t i = 0; i < kRows; i += 100'000) {
      if (!client->push(t, {keys.data() + i, 100'000}, zeros, 60s)) std::exit(1);
    }
    Pair whole = figures("push_100k", "pull_100k", 0.8);
    Pair core = figures("core_push_100k", "core_pull_100k", {});
    std::uint64_t version = 1;
    for (int round = 0; round < rounds; ++round) {
      std::fprintf(stderr, "100k: round %d\n", round + 1);
      round_of(
          whole, requests, roof, out,
          [&](std::size_t i) { (void)client->push(t, requests.keys[i], requests.grads[i], 60s); },
          [&](std::size_t i) {
            (void)client->pull(t, requests.keys[i], {out.data(), requests.keys[i].size() * kDim},
                               60s);
          });
      round_of(
          core, requests, roof, out,
          [&](std::size_t i) {
            table.apply(requests.keys[i], requests.grads[i].data(), ++version, 1);
          },
          [&](std::size_t i) { table.read(requests.keys[i], out.data(), 1); });
    }
    print(whole);
    print(core);
  }
}

void table_of_4gib(int rounds, bool zipf) {
  constexpr std::uint64_t kRows = (4ull << 30) / 160;
  const Zipf law(kRows, 0.99);
  const Requests requests = draw_requests(
      40, 65'536, [&](SplitMix64& rng) { return zipf ? law(rng) : rng.below(kRows); });
  std::vector<float> out(65'536 * kDim);
  const std::string kind = zipf ? "zipf" : "uniform";
  Pair f = figures("push_4GiB_" + kind, "pull_4GiB_" + kind, 0.8);
  SparseRoof roof(all_keys(kRows));
  ps::TableState table(table_schema());
  fill(table, kRows);
  std::uint64_t version = 1;
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "4 GiB %s: round %d\n", kind.c_str(), round + 1);
    round_of(
        f, requests, roof, out,
        [&](std::size_t i) {
          table.apply(requests.keys[i], requests.grads[i].data(), ++version, 1);
        },
        [&](std::size_t i) { table.read(requests.keys[i], out.data(), 1); });
  }
  print(f);
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const bool small = argc > 1 && std::string_view(argv[argc - 1]) == "--only-100k";
  const int rounds = quick ? 2 : 5;
  dlrun::bench::requests_100k(rounds);
  if (small) return 0;
  dlrun::bench::table_of_4gib(rounds, false);
  dlrun::bench::table_of_4gib(rounds, true);
  return 0;
}

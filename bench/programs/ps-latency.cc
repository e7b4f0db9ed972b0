// A pull of one row of 64 bytes, from call to return.
//   shm_busy_{p50,p99}_us  one after the other over shared memory; baseline: 64 bytes there and
//                          back
//                          through two lines of shared memory, both sides looking without end
//   shm_block_p50_us       1 ms apart, so that the shard sleeps; baseline: a futex ping-pong 1 ms
//                          apart
//   tcp_p50_us             over TCP on loopback; baseline: a DEALER and a ROUTER
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/ps/shard_thread.h"
#include "bench/report/report.h"
#include "bench/roofs/ring.h"
#include "bench/roofs/tcp.h"

namespace dlrun::bench {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kDim = 16;

class Puller {
 public:
  explicit Puller(const std::string& bind) : shard_(bind), client_(shard_.client()) {
    table_ =
        client_->open_table({.name = "t", .dim = kDim, .consistency = ps::Consistency::kAsp}, 60s)
            .value();
    std::vector<std::uint64_t> keys(kKeys);
    for (std::size_t i = 0; i < kKeys; ++i) keys[i] = i;
    if (!client_->push(table_, keys, std::vector<float>(kKeys * kDim, 1.0f), 60s)) std::exit(1);
  }
  /// ns of each of `n` pulls.
  std::vector<double> pulls(std::size_t n, std::chrono::microseconds pause) {
    std::vector<double> ns;
    std::vector<float> out(kDim);
    for (std::size_t i = 0; i < n; ++i) {
      if (pause > 0us) std::this_thread::sleep_for(pause);
      const std::uint64_t key = i % kKeys;
      const auto start = std::chrono::steady_clock::now();
      if (!client_->pull(table_, {&key, 1}, out, 60s)) std::exit(1);
      ns.push_back(
          std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
              .count());
    }
    return ns;
  }

 private:
  static constexpr std::size_t kKeys = 1000;
  ShardThread shard_;
  std::unique_ptr<ps::Client> client_;
  ps::Table table_;
};

Figure figure(const char* metric, const char* baseline, Must must) {
  return Figure{"ps-latency", metric, "us", Better::kLess, {}, baseline, {}, "", must};
}

void add(Figure& f, double p, const std::vector<double>& values,
         const std::vector<double>& baselines) {
  f.values.push_back(quantile(values, p) * 1e-3);
  f.baselines.push_back(quantile(baselines, p) * 1e-3);
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const int rounds = quick ? 2 : 5;
  const std::size_t busy = quick ? 20'000 : 200'000;
  const std::size_t blocking = quick ? 200 : 1000;
  const std::size_t tcp = quick ? 2000 : 10'000;
  Figure p50 = figure("shm_busy_p50_us", "bare ring, both spin",
                      {.ratio_at_least = {}, .value_at_most = 1.5});
  Figure p99 = figure("shm_busy_p99_us", "bare ring, both spin",
                      {.ratio_at_least = 1 / 1.5, .value_at_most = {}});
  Figure block = figure("shm_block_p50_us", "futex ping-pong, both sleep",
                        {.ratio_at_least = 1 / 1.3, .value_at_most = {}});
  Figure over_tcp = figure("tcp_p50_us", "zmq DEALER and ROUTER",
                           {.ratio_at_least = 1 / 1.5, .value_at_most = {}});
  Puller shm("shm://*"), sockets("tcp://127.0.0.1:*");
  shm.pulls(busy / 10, {});
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "round %d\n", round + 1);
    const auto ring = ring_round_trips(busy);
    const auto pulls = shm.pulls(busy, {});
    add(p50, 0.5, pulls, ring);
    add(p99, 0.99, pulls, ring);
    add(block, 0.5, shm.pulls(blocking, std::chrono::milliseconds(1)),
        futex_round_trips(blocking, 1000));
    add(over_tcp, 0.5, sockets.pulls(tcp, {}), zmq_round_trips(tcp));
  }
  for (const Figure& f : {p50, p99, block, over_tcp}) print(f);
  return 0;
}

// A dense tensor in rows of 1024 floats: push adds to it, pull reads it, messages of a size, a few
// of them under way. One client, one shard.
//   shm_{push,pull}_SIZE   over shared memory; baseline: a bare ring of 2 MiB and the same work
//   tcp_{push,pull}_SIZE   over TCP on loopback; baseline: one bare connection, the better of an
//                          acknowledgement each and cumulative ones
//   roof_{push,pull}_SIZE  the bare ring against memcpy by one thread
//   pull_over_push_SIZE    over shared memory
#include <algorithm>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ps/shard_thread.h"
#include "bench/report/report.h"
#include "bench/roofs/ring.h"
#include "bench/roofs/tcp.h"

namespace dlrun::bench {
namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kDim = 1024;

struct Size {
  const char* name;
  std::size_t bytes;
  std::size_t window;
};
constexpr Size kSizes[] = {{"4KiB", 4u << 10, 16},
                           {"64KiB", 64u << 10, 8},
                           {"1MiB", 1u << 20, 4},
                           {"16MiB", 16u << 20, 2}};

class Tensor {
 public:
  explicit Tensor(const std::string& bind) : shard_(bind), client_(shard_.client()) {
    table_ = client_
                 ->open_table({.name = "tensor",
                               .kind = ps::KeyKind::kDense,
                               .rows = kRowsMax,
                               .dim = kDim,
                               .learning_rate = -1.0f,
                               .consistency = ps::Consistency::kAsp},
                              60s)
                 .value();
    for (std::size_t i = 0; i < kRowsMax; ++i) keys_.push_back(i);
    grads_.assign(kRowsMax * kDim, 1.0f);
    outs_.resize(16);
    push({16u << 20, 4, 2});
  }
  double push(const MoveJob& job) {
    return run(job, [&](std::size_t, std::span<const std::uint64_t> keys) {
      return client_->push_async(table_, keys, {grads_.data(), keys.size() * kDim}, 60s);
    });
  }
  double pull(const MoveJob& job) {
    for (std::size_t i = 0; i < job.window; ++i)
      outs_[i].resize(std::max(outs_[i].size(), job.message_bytes / 4));
    return run(job, [&](std::size_t i, std::span<const std::uint64_t> keys) {
      return client_->pull_async(table_, keys, {outs_[i % job.window].data(), keys.size() * kDim},
                                 60s);
    });
  }

 private:
  static constexpr std::size_t kRowsMax = (16u << 20) / (kDim * 4);

  template <class Start>
  double run(const MoveJob& job, Start start_one) {
    const std::span keys(keys_.data(), job.message_bytes / (kDim * 4));
    std::deque<ps::PendingCall> window;
    const auto finish = [&] {
      if (!window.front().wait()) std::exit(1);
      window.pop_front();
    };
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < job.messages; ++i) {
      if (window.size() == job.window) finish();
      window.push_back(start_one(i, keys).value());
    }
    while (!window.empty()) finish();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return static_cast<double>(job.message_bytes) * static_cast<double>(job.messages) / seconds *
           1e-9;
  }

  ShardThread shard_;
  std::unique_ptr<ps::Client> client_;
  ps::Table table_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> grads_;
  std::vector<std::vector<float>> outs_;
};

Figure figure(const std::string& metric, const char* baseline, std::optional<double> must) {
  return Figure{"ps-dense",
                metric,
                "GB/s",
                Better::kMore,
                {},
                baseline,
                {},
                "",
                Must{.ratio_at_least = must, .value_at_most = {}}};
}

std::optional<double> shm_must(std::size_t bytes) {
  if (bytes >= 1u << 20) return 0.8;
  return std::nullopt;
}
std::optional<double> tcp_must(std::size_t bytes) {
  if (bytes == 4u << 10) return 1.3;
  if (bytes == 64u << 10) return 1.0;
  if (bytes == 1u << 20) return 0.85;
  return std::nullopt;
}

/// The better of two sizes of chunks, half of the work each.
double best_of(double (*roof)(const MoveJob&), MoveJob job) {
  job.messages = std::max<std::size_t>(2, job.messages / 2);
  double best = 0;
  for (const std::size_t chunk : {64u << 10, 256u << 10}) {
    job.chunk_bytes = chunk;
    best = std::max(best, roof(job));
  }
  return best;
}

void measure(const Size& size, Tensor& shm, Tensor& tcp, int rounds, bool quick) {
  const std::size_t bytes_a_round = quick ? 64u << 20 : 512u << 20;
  const auto job = [&](std::size_t total) {
    return MoveJob{size.bytes, std::max<std::size_t>(4, total / size.bytes), size.window};
  };
  const MoveJob ring = job(bytes_a_round),
                sockets = job(bytes_a_round / (size.bytes < 65536 ? 8 : 2));
  const std::string name = size.name;
  Figure shm_push = figure("shm_push_" + name, "shm ring + add", shm_must(size.bytes));
  Figure shm_pull = figure("shm_pull_" + name, "shm ring, copied in and out", shm_must(size.bytes));
  Figure tcp_pushed = figure("tcp_push_" + name, "raw TCP + add", tcp_must(size.bytes));
  Figure tcp_pulled = figure("tcp_pull_" + name, "raw TCP", tcp_must(size.bytes));
  Figure roof_push = figure("roof_push_" + name, "memcpy, one thread", {});
  Figure roof_pull = figure("roof_pull_" + name, "memcpy, one thread", {});
  Figure even = figure("pull_over_push_" + name, "push",
                       size.bytes >= 1u << 20 ? std::optional(0.9) : std::nullopt);
  for (int round = 0; round < rounds; ++round) {
    std::fprintf(stderr, "%s: round %d\n", size.name, round + 1);
    roof_push.values.push_back(best_of(ring_push, ring));
    shm_push.values.push_back(shm.push(ring));
    roof_pull.values.push_back(best_of(ring_pull, ring));
    shm_pull.values.push_back(shm.pull(ring));
    const double copy = plain_copy(ring);
    roof_push.baselines.push_back(copy);
    roof_pull.baselines.push_back(copy);
    tcp_pushed.baselines.push_back(
        std::max(tcp_push(sockets, Acks::kEach), tcp_push(sockets, Acks::kCumulative)));
    tcp_pushed.values.push_back(tcp.push(sockets));
    tcp_pulled.baselines.push_back(
        std::max(tcp_pull(sockets, Acks::kEach), tcp_pull(sockets, Acks::kCumulative)));
    tcp_pulled.values.push_back(tcp.pull(sockets));
  }
  shm_push.baselines = roof_push.values;
  shm_pull.baselines = roof_pull.values;
  even.values = shm_pull.values;
  even.baselines = shm_push.values;
  for (const Figure& f : {roof_push, roof_pull, shm_push, shm_pull, even, tcp_pushed, tcp_pulled})
    print(f);
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  Tensor shm("shm://*"), tcp("tcp://127.0.0.1:*");
  for (const Size& size : kSizes) measure(size, shm, tcp, quick ? 2 : 5, quick);
  return 0;
}

/// hosts_worker MS: counts what it reads. Each batch adds its rows to kKeys counters on the shards;
/// after the barrier of all ranks, rank 0 prints "counted N rows" when every counter says N. Sums
/// of integers in float32: exact, so that one row too many or too few shows. MS: how long a batch
/// takes.

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "dlrun/dlrun.hpp"

int main(int argc, char** argv) {
  using namespace dlrun::api;
  constexpr std::size_t kKeys = 64;
  const std::chrono::milliseconds pause(argc > 1 ? std::atoi(argv[1]) : 0);
  try {
    Session task;
    std::vector<std::uint64_t> keys;
    for (std::size_t k = 0; k < kKeys; ++k) keys.push_back(k * 1'000'003);
    Table counters = task.table(
        {.name = "counters", .dim = 1, .learning_rate = 1, .consistency = Consistency::kAsp});
    Input input = task.input("train");
    int batches = 0;
    while (auto batch = input.next()) {
      counters.push(keys, std::vector<float>(kKeys, -static_cast<float>((*batch)->rows)));
      std::printf("generation %u rank %u batch %d\n", task.info().generation, task.rank(),
                  ++batches);
      std::fflush(stdout);
      std::this_thread::sleep_for(pause);
    }
    counters.clock();
    task.barrier("read");
    if (task.rank() != 0) return 0;
    const std::vector<float> sums = counters.pull(keys);
    for (const float sum : sums) {
      if (sum == sums[0]) continue;
      std::fprintf(stderr, "the counters differ: %.0f and %.0f\n", sums[0], sum);
      return 1;
    }
    std::printf("counted %.0f rows\n", sums[0]);
    return 0;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "rank failed: %s\n", failure.what());
    return 1;
  }
}

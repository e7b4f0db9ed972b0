#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "runtime/sim/world.h"
#include "tests/sim/options.h"

namespace dlrun::sim {
namespace {

WorldSettings settings_of(std::uint64_t seed) {
  WorldSettings settings;
  settings.seed = seed;
  settings.nodes = 2 + static_cast<std::uint32_t>(mix64(seed) % 4);
  return settings;
}

void print(std::uint64_t seed, const WorldResult& r) {
  std::printf("seed %llu: digest %016llx, %llu records, %llu steps, %zu acknowledged, %zu succeeded, %zu failed, "
              "%zu cancelled, %zu lost; crashes: coordinator %llu, agent %llu, machine %llu; partitions %llu%s%s\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(r.log_digest),
              static_cast<unsigned long long>(r.log_records), static_cast<unsigned long long>(r.steps), r.acked,
              r.succeeded, r.failed, r.cancelled, r.lost, static_cast<unsigned long long>(r.coordinator_crashes),
              static_cast<unsigned long long>(r.agent_crashes), static_cast<unsigned long long>(r.machine_crashes),
              static_cast<unsigned long long>(r.partitions), r.violation ? "\n  VIOLATED: " : "",
              r.violation ? r.violation->c_str() : "");
}

TEST(Sim, HoldsItsInvariantsUnderFaults) {
  const Options& want = options();
  if (want.seed) {
    WorldSettings settings = settings_of(*want.seed);
    settings.keep_trace = true;
    const WorldResult result = World(settings).run();
    for (const std::string& line : result.trace) std::puts(line.c_str());
    print(*want.seed, result);
    EXPECT_FALSE(result.violation.has_value());
    return;
  }
  const auto begun = std::chrono::steady_clock::now();
  std::uint64_t played = 0;
  std::uint64_t violated = 0;
  WorldResult sum;
  while (violated < 5) {
    const bool enough = want.seeds != 0 ? played >= want.seeds
                                        : std::chrono::steady_clock::now() - begun >= std::chrono::seconds(want.seconds);
    if (enough) break;
    const std::uint64_t seed = want.from + played++;
    const WorldResult result = World(settings_of(seed)).run();
    sum.acked += result.acked;
    sum.succeeded += result.succeeded;
    sum.failed += result.failed;
    sum.cancelled += result.cancelled;
    sum.lost += result.lost;
    sum.steps += result.steps;
    if (!result.violation) continue;
    ++violated;
    print(seed, result);
    ADD_FAILURE() << *result.violation << "\n  replay: sim_test --seed " << seed;
  }
  std::printf("%llu seeds from %llu: %zu jobs acknowledged, %zu succeeded, %zu failed, %zu cancelled, %zu lost, "
              "%llu steps\n",
              static_cast<unsigned long long>(played), static_cast<unsigned long long>(want.from), sum.acked,
              sum.succeeded, sum.failed, sum.cancelled, sum.lost, static_cast<unsigned long long>(sum.steps));
  EXPECT_GT(played, 0u);
  EXPECT_GT(sum.succeeded, played) << "a storm in which hardly anything succeeds tests little";
}

TEST(Sim, TheSameSeedGivesTheSameLog) {
  for (std::uint64_t seed : {7u, 8u, 9u}) {
    const WorldResult first = World(settings_of(seed)).run();
    const WorldResult second = World(settings_of(seed)).run();
    EXPECT_EQ(first.log_digest, second.log_digest);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_NE(first.log_digest, World(settings_of(seed + 100)).run().log_digest);
  }
}

TEST(Sim, WithoutFaultsEveryJobEndsAsItsProgramSays) {
  WorldSettings settings = settings_of(3);
  settings.faults = false;
  const WorldResult result = World(settings).run();
  EXPECT_EQ(result.violation.value_or(""), "");
  EXPECT_EQ(result.acked, settings.jobs);
  EXPECT_EQ(result.lost, 0u);
  EXPECT_GT(result.succeeded, 0u);
}

}  // namespace
}  // namespace dlrun::sim

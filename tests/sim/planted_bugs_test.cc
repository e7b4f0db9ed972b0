// The simulator must be able to fail: each planted bug is found within a bounded number of seeds.

#include <gtest/gtest.h>

#include <cstdio>

#include "runtime/sim/world.h"

namespace dlrun::sim {
namespace {

struct Planted {
  const char* name;
  std::uint64_t seeds_max;
};

void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }

class PlantedBug : public testing::TestWithParam<Planted> {};

TEST_P(PlantedBug, IsFound) {
  for (std::uint64_t seed = 1; seed <= GetParam().seeds_max; ++seed) {
    WorldSettings settings;
    settings.seed = seed;
    settings.nodes = 2 + static_cast<std::uint32_t>(mix64(seed) % 4);
    settings.bugs.name = GetParam().name;
    const WorldResult result = World(settings).run();
    if (!result.violation) continue;
    std::printf("%s: found by seed %llu: %s\n", GetParam().name,
                static_cast<unsigned long long>(seed), result.violation->c_str());
    std::printf("  replay: sim_test --seed %llu --bug %s\n", static_cast<unsigned long long>(seed),
                GetParam().name);
    return;
  }
  FAIL() << GetParam().name << " was not found in " << GetParam().seeds_max << " seeds";
}

// What each does: docs/planted-bugs.md.
INSTANTIATE_TEST_SUITE_P(
    Sim, PlantedBug,
    testing::Values(
        // coordinator and agents
        Planted{"term_not_raised", 300}, Planted{"submit_acked_before_durable", 300},
        Planted{"ack_end_before_durable", 300}, Planted{"finish_before_all_ended", 300},
        Planted{"no_tombstones", 300}, Planted{"unknown_tasks_left_running", 300},
        Planted{"returning_node_not_fenced", 300}, Planted{"accept_stale_lease", 300},
        Planted{"accept_stale_update", 300}, Planted{"lease_repeat_granted_again", 300},
        Planted{"split_done_not_recorded", 300}, Planted{"barrier_counts_repeats", 300},
        Planted{"slots_released_early", 300}, Planted{"shard_loss_ignored", 300},
        Planted{"restart_on_ignored", 300},
        // clocks and disks
        Planted{"lease_on_wall_clock", 300}, Planted{"store_acks_before_durable", 300},
        // parameters
        Planted{"slot_moves_without_window", 300}, Planted{"ps_version_ignored", 300},
        Planted{"ps_stale_epoch_accepted", 300}, Planted{"worker_gone_ignored", 300},
        Planted{"reads_one_clock_early", 300}, Planted{"pull_takes_a_place", 300},
        Planted{"gone_told_before_durable", 1000}, Planted{"snapshot_forgets_position", 300},
        Planted{"commit_forgets_leases", 300}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace dlrun::sim

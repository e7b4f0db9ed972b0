#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "runtime/sim/world.h"
#include "tests/sim/options.h"

namespace dlrun::sim {
namespace {

WorldSettings settings_of(std::uint64_t seed) {
  WorldSettings settings;
  settings.seed = seed;
  settings.bugs.name = options().bug;
  settings.nodes = 2 + static_cast<std::uint32_t>(mix64(seed) % 4);
  return settings;
}

using Number = std::uint64_t WorldResult::*;
struct Counter {
  const char* name;
  Number value;
};
constexpr Counter kCounters[] = {{"records", &WorldResult::log_records},
                                 {"steps", &WorldResult::steps},
                                 {"crashes of the coordinator", &WorldResult::coordinator_crashes},
                                 {"of agents", &WorldResult::agent_crashes},
                                 {"of machines", &WorldResult::machine_crashes},
                                 {"of feeders", &WorldResult::feeder_crashes},
                                 {"of processes", &WorldResult::process_crashes},
                                 {"shards lost", &WorldResult::shards_lost},
                                 {"partitions", &WorldResult::partitions},
                                 {"slow disks", &WorldResult::stores_slow},
                                 {"full disks", &WorldResult::stores_full},
                                 {"clocks set", &WorldResult::clocks_set},
                                 {"pushes", &WorldResult::pushes},
                                 {"pulls", &WorldResult::pulls},
                                 {"slots moved", &WorldResult::slots_moved},
                                 {"splits", &WorldResult::splits},
                                 {"commits of inputs", &WorldResult::commits},
                                 {"packets lost", &WorldResult::packets_lost},
                                 {"doubled", &WorldResult::packets_doubled},
                                 {"late", &WorldResult::packets_late},
                                 {"cut off", &WorldResult::packets_cut},
                                 {"damaged", &WorldResult::packets_damaged},
                                 {"refused by their decoder", &WorldResult::packets_refused}};

std::string describe(const WorldResult& r) {
  std::string text = std::to_string(r.acked) + " jobs acknowledged, " +
                     std::to_string(r.succeeded) + " succeeded, " + std::to_string(r.failed) +
                     " failed, " + std::to_string(r.cancelled) + " cancelled, " +
                     std::to_string(r.lost) + " lost";
  for (const Counter& c : kCounters) text += ", " + std::to_string(r.*c.value) + " " + c.name;
  return text;
}

void add(WorldResult& sum, const WorldResult& r) {
  sum.acked += r.acked;
  sum.succeeded += r.succeeded;
  sum.failed += r.failed;
  sum.cancelled += r.cancelled;
  sum.lost += r.lost;
  for (const Counter& c : kCounters) sum.*c.value += r.*c.value;
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::string digest_line(std::uint64_t seed) {
  const WorldResult r = World(settings_of(seed)).run();
  char line[80];
  std::snprintf(line, sizeof line, "%016llx %llu\n", static_cast<unsigned long long>(r.log_digest),
                static_cast<unsigned long long>(r.steps));
  return line;
}

TEST(Sim, HoldsItsInvariantsUnderFaults) {
  const Options& want = options();
  if (want.seed) {
    WorldSettings settings = settings_of(*want.seed);
    settings.keep_trace = true;
    const WorldResult result = World(settings).run();
    for (const std::string& line : result.trace) std::puts(line.c_str());
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(*want.seed),
                describe(result).c_str());
    EXPECT_EQ(result.violation.value_or(""), "");
    return;
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::steady_clock::now() - begun; };
  std::uint64_t played = 0;
  std::uint64_t violated = 0;
  WorldResult sum;
  while (violated < 5) {
    const bool enough =
        want.seeds != 0 ? played >= want.seeds : elapsed() >= std::chrono::seconds(want.seconds);
    if (enough) break;
    const std::uint64_t seed = want.from + played++;
    const WorldResult result = World(settings_of(seed)).run();
    add(sum, result);
    if (!result.violation) continue;
    ++violated;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), describe(result).c_str());
    ADD_FAILURE() << *result.violation << "\n  replay: " << this_program() << " --seed " << seed;
  }
  std::printf("%llu seeds from %llu in %.0f s: %s\n", static_cast<unsigned long long>(played),
              static_cast<unsigned long long>(want.from),
              std::chrono::duration<double>(elapsed()).count(), describe(sum).c_str());
  EXPECT_GT(played, 0u);
  if (violated != 0 || played < 20) return;
  EXPECT_GT(sum.succeeded, played) << "a storm in which hardly anything succeeds tests little";
  for (const Counter& c : kCounters) EXPECT_GT(sum.*c.value, 0u) << c.name << ": none in all seeds";
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

TEST(Sim, AnotherProcessGivesTheSameLog) {
  const std::uint64_t seed = options().from + 3;
  const std::string command = this_program() + " --digest " + std::to_string(seed);
  const std::unique_ptr<FILE, int (*)(FILE*)> other(::popen(command.c_str(), "r"), ::pclose);
  ASSERT_NE(other, nullptr);
  std::string said;
  char line[256];
  while (std::fgets(line, sizeof line, other.get()) != nullptr) said += line;
  EXPECT_EQ(said, digest_line(seed)) << command;
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

void print_digest(std::uint64_t seed) { std::fputs(digest_line(seed).c_str(), stdout); }

}  // namespace dlrun::sim

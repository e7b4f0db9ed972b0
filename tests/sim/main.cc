// sim_test [--seed N | --from N --seeds COUNT | --seconds S | --digest N] [--bug NAME]
//          [gtest flags]
// DLRUN_LONG=1: 20,000 seeds.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/sim/options.h"

namespace dlrun::sim {

namespace {
Options& mutable_options() {
  static Options options;
  return options;
}
}  // namespace

const Options& options() { return mutable_options(); }

}  // namespace dlrun::sim

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  dlrun::sim::Options& options = dlrun::sim::mutable_options();
  // A new stretch of seeds every day: the base is printed, a failure prints its seed.
  options.from = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                                            std::chrono::hours(24)) *
                 1'000'000;
  if (const char* is_long = std::getenv("DLRUN_LONG");
      is_long != nullptr && std::string(is_long) == "1")
    options.seeds = 20'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seed") options.seed = value;
    if (name == "--from") options.from = value;
    if (name == "--seeds") options.seeds = value;
    if (name == "--seconds") options.seconds = value;
    if (name == "--bug") options.bug = argv[i + 1];
    if (name == "--digest") {
      dlrun::sim::print_digest(value);
      return 0;
    }
  }
  std::printf("seeds from %llu\n", static_cast<unsigned long long>(options.from));
  return RUN_ALL_TESTS();
}

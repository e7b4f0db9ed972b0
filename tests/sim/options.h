#pragma once
/// tests/sim/options.h: what a run of the simulator's tests was asked for; set by main() from argv
/// and DLRUN_LONG.

#include <cstdint>
#include <optional>
#include <string>

namespace dlrun::sim {

struct Options {
  std::optional<std::uint64_t> seed;  ///< replay this one only, and print what happened
  std::uint64_t from = 1;             ///< first seed
  std::uint64_t seeds = 0;            ///< how many; 0 = as many as fit in `seconds`
  std::uint64_t seconds = 60;
  std::string bug;  ///< a planted bug that is on; "" = none
};

const Options& options();

/// Plays the seed and prints its digest and steps: what another process must get too.
void print_digest(std::uint64_t seed);

}  // namespace dlrun::sim

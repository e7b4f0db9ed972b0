#pragma once
/// runtime/sim/sim_program.h: what a simulated program does, written in its argv so that it travels
/// as a real one's would: {"sim", "run_ms=400", "code=3", "signal=11", "hang", "ignore_term",
/// "barriers=2", "input=train", "commit_every=3", "pushes=20", "consistency=1", "staleness=2",
/// "leave"}. In order: barriers, input to its end, pushes, run_ms, then the end.

#include <cstdint>
#include <string>
#include <vector>

namespace dlrun::sim {

struct SimProgram {
  std::uint64_t run_ms = 100;
  int code = 0;
  int signal = 0;  ///< ends by this signal instead
  bool hang = false;
  bool ignore_term = false;
  std::uint64_t barriers = 0;
  std::string input;
  std::uint64_t commit_every = 0;  ///< splits taken; 0 = never
  std::uint64_t pushes = 0;
  std::uint32_t consistency = 2;  ///< ps::Consistency of the table
  std::uint32_t staleness = 0;
  bool leave = false;  ///< the clocks, before it ends
};

std::vector<std::string> to_argv(const SimProgram& program);
SimProgram program_of(const std::vector<std::string>& argv);

}  // namespace dlrun::sim

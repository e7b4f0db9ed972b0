#include "runtime/sim/sim_program.h"

namespace dlrun::sim {

std::vector<std::string> to_argv(const SimProgram& p) {
  std::vector<std::string> argv{"sim",
                                "run_ms=" + std::to_string(p.run_ms),
                                "code=" + std::to_string(p.code),
                                "signal=" + std::to_string(p.signal),
                                "barriers=" + std::to_string(p.barriers),
                                "pushes=" + std::to_string(p.pushes),
                                "consistency=" + std::to_string(p.consistency),
                                "staleness=" + std::to_string(p.staleness)};
  if (p.leave) argv.push_back("leave");
  if (p.hang) argv.push_back("hang");
  if (p.ignore_term) argv.push_back("ignore_term");
  if (!p.input.empty()) argv.push_back("input=" + p.input);
  if (p.commit_every != 0) argv.push_back("commit_every=" + std::to_string(p.commit_every));
  return argv;
}

SimProgram program_of(const std::vector<std::string>& argv) {
  SimProgram p;
  for (const std::string& word : argv) {
    const std::size_t eq = word.find('=');
    const std::string name = word.substr(0, eq);
    const std::string value = eq == std::string::npos ? "" : word.substr(eq + 1);
    if (name == "run_ms") p.run_ms = std::stoull(value);
    if (name == "code") p.code = std::stoi(value);
    if (name == "signal") p.signal = std::stoi(value);
    if (name == "barriers") p.barriers = std::stoull(value);
    if (name == "pushes") p.pushes = std::stoull(value);
    if (name == "consistency") p.consistency = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "staleness") p.staleness = static_cast<std::uint32_t>(std::stoul(value));
    if (name == "leave") p.leave = true;
    if (name == "input") p.input = value;
    if (name == "commit_every") p.commit_every = std::stoull(value);
    if (name == "hang") p.hang = true;
    if (name == "ignore_term") p.ignore_term = true;
  }
  return p;
}

}  // namespace dlrun::sim

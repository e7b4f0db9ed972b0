/// kill_worker OUT GATE: a worker of the kill test. Reads its share of "train", pushes one row to
/// the shards for every batch, and at its end leaves what it read in OUT.<rank>: pass and first id
/// of each row. Slow until the file GATE is there.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "dlrun/dlrun.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  using namespace dlrun::api;
  try {
    Session task;
    Table table = task.table({.name = "rows", .dim = 1, .consistency = Consistency::kAsp});
    Input train = task.input("train");
    std::vector<std::pair<unsigned, unsigned long long>> rows;
    while (auto batch = train.next()) {
      for (std::uint64_t row = 0; row < (*batch)->rows; ++row)
        rows.emplace_back((*batch)->pass, (*batch)->ids[(*batch)->offsets[row]]);
      table.push({rows.back().second}, {1.0f});
      if (::access(argv[2], F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(60));
    }
    const std::string path = std::string(argv[1]) + "." + std::to_string(task.rank());
    std::FILE* out = std::fopen(path.c_str(), "w");
    if (out == nullptr) return 3;
    for (const auto& [pass, id] : rows) std::fprintf(out, "%u %llu\n", pass, id);
    return std::fclose(out) == 0 ? 0 : 3;
  } catch (const Failure& failure) {
    std::fprintf(stderr, "kill_worker: %s\n", failure.what());
    return 1;
  }
}

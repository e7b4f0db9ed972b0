/// hpp_worker: a worker through dlrun/dlrun.hpp, alone, with one shard and the input "dense". Exit
/// code 0: all held.

#include <cstdio>

#include "dlrun/dlrun.hpp"

namespace {
int failures = 0;
void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  ++failures;
}
}  // namespace

int main() {
  using namespace dlrun::api;
  Session task;
  expect(task.rank() == 0 && task.world() == 1, "alone");
  Table table = task.table({.name = "w",
                            .dim = 2,
                            .optimizer = Optimizer::kSgd,
                            .learning_rate = 1,
                            .timeout = std::chrono::seconds(60)});
  table.push({5, 9}, {1, 2, 3, 4});
  table.clock();
  expect(table.pull({9, 5, 1}) == std::vector<float>({-3, -4, -1, -2, 0, 0}),
         "pull in the order of the keys");
  TableOptions options{.name = "heavy", .optimizer = Optimizer::kMomentum, .learning_rate = 1};
  options.more.momentum = 0.5F;
  options.more.learning_rate = 100;  // it has a name of its own
  Table heavy = task.table(options);
  for (const float want : {-1.0F, -2.5F, -2.5F - 0.5F * 1.75F}) {
    if (want < -3) heavy.set_learning_rate(0.5F);
    heavy.push({3}, {1});
    heavy.clock();
    expect(heavy.pull({3}) == std::vector<float>({want}), "momentum, and another rate");
  }
  auto before = heavy.pull_async({3, 4});
  auto push = heavy.push_async({4}, {2});
  heavy.clock();
  expect(before.wait_for({}) && push.wait_for({}), "clock() waits for what is under way");
  expect(before.get() == std::vector<float>({-2.5F - 0.5F * 1.75F, 0}), "as it was when it began");
  Pending after = heavy.pull_async({4}), none = heavy.pull_async({});
  Pending moved_pull = std::move(after);
  expect(moved_pull.get() == std::vector<float>({-1}) && none.get().empty(), "pull_async");
  std::uint64_t rows = 0;
  {
    Input input = task.input("dense");
    while (auto batch = input.next()) rows += (*batch)->rows;
  }
  expect(rows == 2000, "every row in both passes");
  expect(!task.committed(), "nothing was committed before");
  expect(task.commit("all") == 1, "the first commit");
  try {
    task.input("none");
    expect(false, "no such input");
  } catch (const Failure& failure) {
    expect(failure.code() == DLRUN_NOT_FOUND, "kNotFound");
  }
  try {
    table.push({1}, {1, 2, 3});
    expect(false, "wrong shape");
  } catch (const Failure& failure) {
    expect(failure.code() == DLRUN_INVALID_ARGUMENT, "kInvalidArgument");
  }
  Table moved = std::move(table);
  moved.push({5}, {1, 1});
  task.progress(1.0, "done");
  task.barrier("end");
  return failures == 0 ? 0 : 1;
}

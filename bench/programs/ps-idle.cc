// What a shard and its client cost that have nothing to do: processor time of this process, in
// which both are, over 10 s, connected over shared memory, after a push.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/ps/shard_thread.h"
#include "bench/report/report.h"

namespace dlrun::bench {
namespace {

using namespace std::chrono_literals;

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

int measure(bool quick) {
  const ShardThread shard("shm://*");
  const auto client = shard.client();
  ps::TableSchema schema{.id = 3, .name = "t", .dim = 16, .consistency = ps::Consistency::kAsp};
  const ps::Table table = client->open_table(schema, 60s).value();
  const std::vector<std::uint64_t> keys{1, 2, 3};
  const std::vector<float> grads(keys.size() * 16, 1.0f);
  Figure core{"ps-idle", "core_percent",      "%",          Better::kLess, {}, "none",
              {},        "an absolute bound", Must{{}, 1.0}};
  const std::chrono::duration<double> span(quick ? 2 : 10);
  for (int round = 0; round < (quick ? 1 : 3); ++round) {
    if (!client->push(table, keys, grads, 60s)) std::exit(1);
    std::this_thread::sleep_for(1s);
    const double before = cpu_seconds();
    std::this_thread::sleep_for(span);
    core.values.push_back((cpu_seconds() - before) / span.count() * 100);
  }
  print(core);
  return 0;
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  return dlrun::bench::measure(argc > 1 && std::string_view(argv[1]) == "--quick");
}

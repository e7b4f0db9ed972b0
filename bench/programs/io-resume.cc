// A commit of an input of a million splits, and a restart from it.
//   snapshot_ms   the ledger's commit of 8 consumers that hold 256 splits each, every fourth begun,
//                 and its record as bytes. Baseline: the same of a thousand splits a consumer
//   snapshot_KiB  those bytes
//   restart_s     the record read, a ledger made of the files and put there, a feeder started, and
//                 a consumer attached, to its first batch. Baseline: the first batch of an input
//                 that begins anew
// Left out of restart_s: what starts the job's processes.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "bench/io/input_feeder.h"
#include "bench/report/report.h"
#include "runtime/cluster/core/event.h"
#include "runtime/wire/event_codec.h"

namespace dlrun::bench {
namespace {

using namespace io;

constexpr std::uint64_t kSplits = 1'000'000;
constexpr std::uint64_t kSplitBytes = 64;
constexpr std::uint32_t kConsumers = 8;
constexpr std::uint32_t kHeld = 256;
constexpr std::string_view kRow =
    "1 123456:0.25 234567:0.5 345678:0.75 456789:1.0 567890:1.5 67:1\n";

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

InputSpec spec_of(const std::string& path) {
  InputSpec spec;
  spec.name = "train";
  spec.uris = {path};
  spec.split_bytes = kSplitBytes;
  return spec;
}

/// Half of the pass is done; every consumer holds as many splits as it may.
struct Halfway {
  explicit Halfway(std::uint64_t splits) : ledger({spec_of("/data")}) {
    if (const Status set = ledger.set_files("train", {{"/data", splits * kSplitBytes, "etag"}});
        !set)
      fail_bench(set.error());
    for (std::uint64_t n = 0; n < splits / 2;) {
      const LeaseAnswer answer = get(ledger.lease("train", InputFeeder::consumer(0), kHeld));
      for (const Split& split : answer.splits)
        if (!ledger.done("train", InputFeeder::consumer(0), split.id, split.pass))
          fail_bench({Errc::kCorrupt, "a lease that cannot be done"});
      n += answer.splits.size();
    }
    for (std::uint32_t rank = 0; rank < kConsumers; ++rank) {
      const LeaseAnswer answer = get(ledger.lease("train", InputFeeder::consumer(rank), kHeld));
      InputCursor cursor;
      cursor.input = "train";
      for (std::size_t i = 0; i < answer.splits.size(); i += 4)
        cursor.splits.push_back({answer.splits[i].id, 7, answer.splits[i].pass, 0});
      cursors.push_back({InputFeeder::consumer(rank), {cursor}});
    }
  }
  std::string record() const {
    cluster::InputsCommitted event{JobId(1), Generation(1), "worker", 1, "/checkpoints/1", {}, {},
                                   {}};
    for (std::uint32_t rank = 0; rank < kConsumers; ++rank) event.ranks.push_back({rank, rank});
    event.inputs = get(ledger.commit(cursors, kConsumers));
    return wire::encode(cluster::Event(std::move(event)));
  }
  LedgerCore ledger;
  std::vector<ConsumerCursor> cursors;
};

void snapshots(int rounds) {
  const Halfway large(kSplits), small(kConsumers * 1000);
  Figure time{"io-resume", "snapshot_ms", "ms", Better::kLess, {}, "of 8,000 splits", {},
              "",          Must{{}, 1}};
  Figure size{"io-resume", "snapshot_KiB", "KiB", Better::kLess, {}, "of 8,000 splits", {},
              "",          Must{{}, 64}};
  for (int round = 0; round < rounds; ++round)
    for (const Halfway* one : {&large, &small}) {
      const auto start = std::chrono::steady_clock::now();
      const std::string record = one->record();
      const double ms = seconds_since(start) * 1e3;
      (one == &large ? time.values : time.baselines).push_back(ms);
      (one == &large ? size.values : size.baselines)
          .push_back(static_cast<double>(record.size()) / 1024);
    }
  print(time);
  print(size);
}

/// Seconds to the first batch.
double begin(const InputSpec& spec, const Folder& folder, const std::string& record) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<LedgerState> from;
  if (!record.empty())
    from = std::get<cluster::InputsCommitted>(get(wire::decode_event(record))).inputs.at(0);
  InputFeeder feeder(spec, folder, 1, from);
  const auto reader = feeder.attach(0);
  for (;;) {
    const BatchView batch = get(reader->next(std::chrono::seconds(20)));
    if (!batch.pass_ended) break;
  }
  return seconds_since(start);
}

void restarts(int rounds) {
  const Folder folder;
  {
    std::ofstream file(folder / "data.libsvm", std::ios::binary);
    for (std::uint64_t i = 0; i < kSplits; ++i) file << kRow;
  }
  const InputSpec spec = spec_of(folder / "data.libsvm");
  cluster::InputsCommitted commit{JobId(1), Generation(1), "worker", 1, "/checkpoints/1", {}, {},
                                  {}};
  {
    // Half of the pass by hand, then a consumer that reads a little.
    LocalSource source;
    const auto files = get(source.list(spec.uris, 1));
    LedgerState half;
    half.input = "train";
    half.position = half.done = kSplits / 2;
    half.files_digest = digest_of(files);
    InputFeeder feeder(spec, folder, 1, half);
    const auto reader = feeder.attach(0);
    const BatchView batch = get(reader->next(std::chrono::seconds(20)));
    InputCursor cursor;
    cursor.input = "train";
    for (const SplitPiece& piece : batch.pieces)
      cursor.splits.push_back({piece.split_id, piece.rows, piece.pass, piece.last != 0 ? 1u : 0u});
    commit.inputs = {feeder.commit({{InputFeeder::consumer(0), {cursor}}})};
  }
  const std::string record = wire::encode(cluster::Event(commit));
  Figure figure{"io-resume", "restart_s",  "s", Better::kLess, {}, "an input that begins anew", {},
                "",          Must{{}, 1.0}};
  for (int round = -1; round < rounds; ++round) {
    const double value = begin(spec, folder, record), baseline = begin(spec, folder, "");
    if (round < 0) continue;  // the file is in the page cache now
    figure.values.push_back(value);
    figure.baselines.push_back(baseline);
  }
  print(figure);
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  static_assert(dlrun::bench::kRow.size() == dlrun::bench::kSplitBytes);
  dlrun::bench::snapshots(quick ? 5 : 30);
  dlrun::bench::restarts(quick ? 2 : 7);
}

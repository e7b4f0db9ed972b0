// From an attach to the first batch, the feeder there and the file in the page cache:
// first_batch_ms for each of three formats. Baseline: a thread that opens the file and parses the
// rows of one batch, without a ring, a job or another process.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "bench/io/input_feeder.h"
#include "bench/report/report.h"
#include "io/feeder/batcher.h"
#include "io/feeder/row_reader.h"
#include "io/feeder/shape.h"
#include "runtime/base/rng.h"

namespace dlrun::bench {
namespace {

using namespace io;

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

void write_rows(const std::string& path, Format format, std::uint64_t bytes) {
  std::ofstream file(path, std::ios::binary);
  SplitMix64 rng(1);
  for (std::uint64_t at = 0; at < bytes;) {
    std::string row = std::to_string(rng.below(2));
    for (int i = 0; i < 20; ++i) {
      const std::string value = "0." + std::to_string(100000 + rng.below(900000));
      row +=
          format == Format::kCsv ? "," + value : " " + std::to_string(50'000 * i + 7) + ":" + value;
    }
    row += '\n';
    file << row;
    at += row.size();
  }
}

double attach(const InputSpec& spec, const Folder& folder) {
  InputFeeder feeder(spec, folder);
  const auto start = std::chrono::steady_clock::now();
  const auto reader = feeder.attach(0);
  for (;;)
    if (!get(reader->next(std::chrono::seconds(20))).pass_ended) return ms_since(start);
}

double by_hand(const InputSpec& spec) {
  const auto start = std::chrono::steady_clock::now();
  LocalSource source;
  const auto files = get(source.list(spec.uris, 1));
  const InputShape shape = get(look_at(source, files, spec));
  std::vector<std::byte> slot(geometry_for(spec, shape, 16u << 20).slot_bytes + kColumnAlign);
  const auto at = reinterpret_cast<std::uintptr_t>(slot.data()) % kColumnAlign;
  Batcher batcher(spec, make_store(spec, shape), slot.size() - kColumnAlign);
  BadRecordPolicy policy(OnBadRecord::kFail, 0);
  batcher.begin_split({0, 0});
  const Split split{
      0, 0, files[0].uri, files[0].etag, 0, std::min<std::uint64_t>(4u << 20, files[0].size_bytes)};
  const auto reader = get(open_rows(source, split, spec, shape, batcher.store(), policy));
  while (get(reader->read())) {
  }
  batcher.close_window();
  batcher.end_split();
  (void)batcher.write(std::span(slot).subspan(at == 0 ? 0 : kColumnAlign - at));
  return ms_since(start);
}

void measure(const std::string& name, Format format, bool shuffle, int rounds) {
  const Folder folder;
  InputSpec spec;
  spec.name = "train";
  spec.format = format;
  spec.uris = {folder / "data"};
  spec.shuffle = shuffle;
  write_rows(spec.uris[0], format, 64u << 20);
  Figure figure{
      "io-first", name, "ms",          Better::kLess, {}, "list, parse one split and batch by hand",
      {},         "",   Must{{}, 50.0}};
  for (int round = -1; round < rounds; ++round) {
    const double value = attach(spec, folder), baseline = by_hand(spec);
    if (round < 0) continue;
    figure.values.push_back(value);
    figure.baselines.push_back(baseline);
  }
  print(figure);
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 && std::string_view(argv[1]) == "--quick" ? 3 : 15;
  using dlrun::io::Format;
  dlrun::bench::measure("first_batch_ms", Format::kLibsvm, true, rounds);
  dlrun::bench::measure("first_batch_in_order_ms", Format::kLibsvm, false, rounds);
  dlrun::bench::measure("first_batch_csv_ms", Format::kCsv, true, rounds);
}

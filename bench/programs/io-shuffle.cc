// How well rows are mixed, and whether a pass is a permutation of them.
//   permutation_exact  1: in each of three passes of a deterministic input, over three consumers,
//                      every row came once, the passes in different orders. Baseline: 1
//   runs_p_value       of Wald and Wolfowitz's test for runs above and below the median, over the
//                      order in which one consumer gets the rows of a pass. Baseline: a row of
//                      random numbers as long. Of a good mix it is anything between 0 and 1
//   neighbours_apart   the median distance, in the file, of rows that come one after the other, as
//                      a share of that of random order (0.29 of the rows)
//   order_correlation  of a row's place in the file and in the pass; 0 of random order
// Twice: splits as they are by default, and as small as they get. Nothing is asked of the last
// three: rows of one split come together, so they say how much a split mixes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bench/io/input_feeder.h"
#include "bench/report/report.h"
#include "runtime/base/rng.h"

namespace dlrun::bench {
namespace {

using namespace io;
using Rows = std::vector<std::uint64_t>;

std::uint64_t rows_in_file = 1'000'000;

InputSpec spec_of(const std::string& path) {
  InputSpec spec;
  spec.name = "train";
  spec.uris = {path};
  spec.shuffle = true;
  return spec;
}

/// The first id of each row, pass by pass, of all consumers together: step by step where they have
/// as many.
std::vector<Rows> read_all(InputSpec spec, const Folder& folder, std::uint32_t world) {
  std::vector<Rows> passes(spec.passes);
  InputFeeder feeder(spec, folder, world);
  std::vector<std::unique_ptr<PipeReader>> readers;
  for (std::uint32_t rank = 0; rank < world; ++rank) readers.push_back(feeder.attach(rank));
  for (std::size_t left = readers.size(); left > 0;) {
    for (auto& reader : readers) {
      if (!reader) continue;
      const auto batch = reader->next(std::chrono::seconds(20));
      if (!batch) {
        if (batch.error().code != Errc::kEndOfData) fail_bench(batch.error());
        reader.reset();
        --left;
        continue;
      }
      if (batch->pass_ended) continue;
      for (std::size_t row = 0; row < batch->rows; ++row)
        passes.at(batch->pass).push_back(batch->ids[static_cast<std::size_t>(batch->offsets[row])]);
      reader->release(*batch);
    }
  }
  return passes;
}

bool is_permutation(Rows rows) {
  std::sort(rows.begin(), rows.end());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] != i) return false;
  return rows.size() == rows_in_file;
}

/// Two-sided, by the normal approximation.
double runs_p_value(const Rows& rows) {
  const double middle = static_cast<double>(rows_in_file - 1) / 2;
  double above = 0, below = 0, runs = 0;
  bool last = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool up = static_cast<double>(rows[i]) > middle;
    (up ? above : below) += 1;
    if (i == 0 || up != last) runs += 1;
    last = up;
  }
  const double n = above + below, mean = 2 * above * below / n + 1;
  const double variance = (mean - 1) * (mean - 2) / (n - 1);
  return std::erfc(std::fabs(runs - mean) / std::sqrt(2 * variance));
}

double neighbours_apart(const Rows& rows) {
  std::vector<double> apart;
  for (std::size_t i = 1; i < rows.size(); ++i)
    apart.push_back(std::fabs(static_cast<double>(rows[i]) - static_cast<double>(rows[i - 1])));
  // Of two random places the median distance is 1 - sqrt(1/2).
  return quantile(apart, 0.5) / (static_cast<double>(rows_in_file) * (1 - std::sqrt(0.5)));
}

double order_correlation(const Rows& rows) {
  const double n = static_cast<double>(rows.size()), mean = (n - 1) / 2;
  double together = 0, square = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double place = static_cast<double>(i) - mean;
    together += place * (static_cast<double>(rows[i]) - mean);
    square += place * place;
  }
  return std::fabs(together / square);
}

Rows random_rows(std::uint64_t seed) {
  Rows rows(rows_in_file);
  std::iota(rows.begin(), rows.end(), std::uint64_t{0});
  SplitMix64 rng(seed);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[rng.below(i)]);
  return rows;
}

void mixing(const std::string& suffix, const InputSpec& spec, const Folder& folder, int rounds) {
  Figure runs{
      "io-shuffle", "runs_p_value" + suffix, "", Better::kMore, {}, "random order", {}, "", {}};
  Figure apart{
      "io-shuffle", "neighbours_apart" + suffix, "", Better::kMore, {}, "random order", {}, "", {}};
  Figure order{"io-shuffle",
               "order_correlation" + suffix,
               "",
               Better::kLess,
               {},
               "random order",
               {},
               "",
               {}};
  for (int round = 0; round < rounds; ++round) {
    InputSpec one = spec;
    one.seed = static_cast<std::uint64_t>(round) + 1;
    const Rows rows = read_all(one, folder, 1).at(0), random = random_rows(one.seed);
    if (!is_permutation(rows)) fail_bench({Errc::kCorrupt, "a pass that is no permutation"});
    runs.values.push_back(runs_p_value(rows));
    runs.baselines.push_back(runs_p_value(random));
    apart.values.push_back(neighbours_apart(rows));
    apart.baselines.push_back(neighbours_apart(random));
    order.values.push_back(order_correlation(rows));
    order.baselines.push_back(order_correlation(random));
  }
  for (const Figure* figure : {&runs, &apart, &order}) print(*figure);
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  using namespace dlrun::bench;
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  if (quick) rows_in_file = 100'000;
  const Folder folder;
  {
    std::ofstream file(folder / "data.libsvm", std::ios::binary);
    for (std::uint64_t row = 0; row < rows_in_file; ++row)
      file << row % 2 << ' ' << row << ":1 " << 2'000'000 + row % 9973 << ":0.25\n";
  }
  const int rounds = quick ? 1 : 5;
  InputSpec spec = spec_of(folder / "data.libsvm");
  spec.mode = Mode::kDeterministic;
  spec.passes = 3;
  Figure exact{"io-shuffle", "permutation_exact", "", Better::kMore, {}, "exact", {},
               "",           Must{1.0, {}}};
  for (int round = 0; round < rounds; ++round) {
    spec.seed = static_cast<std::uint64_t>(round) + 1;
    const auto passes = read_all(spec, folder, 3);
    bool good = true;
    for (const Rows& pass : passes) good = good && is_permutation(pass);
    good = good && passes[0] != passes[1] && passes[1] != passes[2] && passes[0] != passes[2];
    exact.values.push_back(good ? 1 : 0);
    exact.baselines.push_back(1);
  }
  print(exact);
  spec.passes = 1;
  mixing("", spec, folder, rounds);
  spec.mode = Mode::kDynamic;
  mixing("_dynamic", spec, folder, rounds);
  spec.split_bytes = 4096;
  mixing("_dynamic_4KiB", spec, folder, rounds);
}

/// ctr_gen: click data with planted weights, and the best AUC that any model can reach on it.
///   ctr_gen FOLDER [--rows 1000000] [--test-rows 100000] [--ids 10000] [--ids-per-row 12]
///       [--zipf 1.1] [--seed 1]
/// Writes FOLDER/train.libsvm and FOLDER/test.libsvm (label, then rising ids with value 1; id 0 is
/// in every row, so that its weight is the intercept) and prints
/// "best_auc 0.xxxx": the AUC, on the test file, of the probabilities that drew its labels.
/// Ids of a row are drawn by Zipf's law without repetition; weights are N(0, 1), scaled so that a
/// row's logit has standard deviation 1.5; an intercept makes clicks the rarer class. Same
/// arguments, same files.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numbers>
#include <string>
#include <vector>

#include "examples/ctr_gen/auc.h"
#include "runtime/base/rng.h"

namespace {

struct Options {
  std::string folder;
  std::uint64_t rows = 1'000'000, test_rows = 100'000, ids = 10'000, ids_per_row = 12, seed = 1;
  double zipf = 1.1;
};

struct Model {
  std::vector<double> cumulative;    // of Zipf's law, [ids]
  std::vector<double> weights;       // [ids]
  std::vector<std::uint64_t> names;  // popularity rank -> id, so that hot ids are not neighbours
};

Model plant(const Options& options) {
  dlrun::SplitMix64 rng(options.seed);
  Model model;
  double total = 0;
  for (std::uint64_t i = 0; i < options.ids; ++i) {
    total += std::pow(static_cast<double>(i + 1), -options.zipf);
    model.cumulative.push_back(total);
    const double radius = std::sqrt(-2 * std::log(1 - rng.uniform()));
    model.weights.push_back(radius * std::cos(2 * std::numbers::pi * rng.uniform()) * 1.5 /
                            std::sqrt(static_cast<double>(options.ids_per_row)));
    model.names.push_back(i + 1);
  }
  for (double& c : model.cumulative) c /= total;
  for (std::uint64_t i = options.ids; i > 1; --i)
    std::swap(model.names[i - 1], model.names[rng.below(i)]);
  return model;
}

/// The AUC of the true probabilities on what was written; < 0 on an I/O error.
double write_rows(const Options& options, const Model& model, const std::string& path,
                  std::uint64_t rows, std::uint64_t seed) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return -1;
  dlrun::SplitMix64 rng(seed);
  std::vector<float> scores, labels;
  std::vector<std::uint64_t> ranks, ids;
  std::string line;
  for (std::uint64_t row = 0; row < rows; ++row) {
    ranks.clear();
    ids.clear();
    double logit = -1;
    while (ranks.size() < options.ids_per_row) {
      const auto at =
          std::lower_bound(model.cumulative.begin(), model.cumulative.end(), rng.uniform());
      const auto rank = std::min<std::uint64_t>(at - model.cumulative.begin(), options.ids - 1);
      if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) continue;
      ranks.push_back(rank);
      ids.push_back(model.names[rank]);
      logit += model.weights[rank];
    }
    const bool click = rng.uniform() < 1 / (1 + std::exp(-logit));
    scores.push_back(static_cast<float>(logit));
    labels.push_back(click ? 1.0f : 0.0f);
    std::sort(ids.begin(), ids.end());
    line = click ? "1 0:1" : "0 0:1";
    for (const auto id : ids) line += " " + std::to_string(id) + ":1";
    line += "\n";
    if (std::fwrite(line.data(), 1, line.size(), file) != line.size()) {
      std::fclose(file);
      return -1;
    }
  }
  return std::fclose(file) == 0 ? dlrun::examples::auc(scores, labels) : -1;
}

int usage() {
  std::fprintf(stderr,
               "usage: ctr_gen FOLDER [--rows N] [--test-rows N] [--ids N] [--ids-per-row N] "
               "[--zipf S] [--seed N]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name.rfind("--", 0) != 0) {
      options.folder = name;
      continue;
    }
    if (++i == argc) return usage();
    char* end = nullptr;
    const double value = std::strtod(argv[i], &end);
    if (*end != '\0' || !(value >= 0)) return usage();
    const auto count = static_cast<std::uint64_t>(value);
    if (name == "--rows")
      options.rows = count;
    else if (name == "--test-rows")
      options.test_rows = count;
    else if (name == "--ids")
      options.ids = count;
    else if (name == "--ids-per-row")
      options.ids_per_row = count;
    else if (name == "--zipf")
      options.zipf = value;
    else if (name == "--seed")
      options.seed = count;
    else
      return usage();
  }
  if (options.folder.empty() || options.ids < options.ids_per_row * 2 || options.ids_per_row == 0)
    return usage();
  std::error_code failed;
  std::filesystem::create_directories(options.folder, failed);
  const Model model = plant(options);
  const std::string train = options.folder + "/train.libsvm",
                    test = options.folder + "/test.libsvm";
  if (write_rows(options, model, train, options.rows, options.seed * 2 + 1) < 0) {
    std::perror(train.c_str());
    return 1;
  }
  const double best = write_rows(options, model, test, options.test_rows, options.seed * 2 + 2);
  if (best < 0) {
    std::perror(test.c_str());
    return 1;
  }
  std::printf("best_auc %.4f\n", best);
  return 0;
}

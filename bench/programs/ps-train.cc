// Logistic regression and a factorization machine (8 factors) on a click log of 1e7 samples, parsed
// beforehand for all, one pass, Adagrad: a worker and a shard, a thread each, over shared memory.
//   {lr,fm}_samples_per_s   against PyTorch with sparse embeddings, its fastest batch and threads
//                           (peers/ps_train.py)
//   {lr,fm}_auc_gap         by how much PyTorch's AUC on the test rows is above dlrun's
//   {lr,fm}_in_process      against the limit: one thread that updates arrays of its own, sample by
//                           sample, without any server
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ps/click_data.h"
#include "bench/ps/shard_thread.h"
#include "bench/report/report.h"
#include "examples/ctr_gen/auc.h"

namespace dlrun::bench {
namespace {

using namespace std::chrono_literals;
constexpr float kRate = 0.05f, kEpsilon = 1e-10f;
constexpr std::size_t kBatch = 4096;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Trained {
  double samples_per_s = 0;
  double auc = 0;
};

/// A sample's logit and, in `grad` [kColumns, kDim], the gradient of its log loss by its rows.
/// kDim 1: logistic regression; 1 + kFactors: factorization machine.
template <std::size_t kDim, class RowOf>
float forward(RowOf row_of, float* sums) {
  float sum = 0, squares = 0;
  for (std::size_t f = 1; f < kDim; ++f) sums[f] = 0;
  for (std::size_t c = 0; c < kColumns; ++c) {
    const float* row = row_of(c);
    sum += row[0];
    for (std::size_t f = 1; f < kDim; ++f) {
      sums[f] += row[f];
      squares += row[f] * row[f];
    }
  }
  float crossed = -squares;
  for (std::size_t f = 1; f < kDim; ++f) crossed += sums[f] * sums[f];
  return sum + 0.5f * crossed;
}

float error_of(float logit, float label) { return 1 / (1 + std::exp(-logit)) - label; }

/// Which distinct ids a batch has, and where each of its ids is among them.
class Distinct {
 public:
  void take(const std::int64_t* ids, std::size_t n) {
    keys.clear();
    index.resize(n);
    ++stamp_;
    for (std::size_t i = 0; i < n; ++i) {
      const auto id = static_cast<std::size_t>(ids[i]);
      if (seen_[id].stamp != stamp_) {
        seen_[id] = {stamp_, static_cast<std::uint32_t>(keys.size())};
        keys.push_back(id);
      }
      index[i] = seen_[id].at;
    }
  }
  std::vector<std::uint64_t> keys;
  std::vector<std::uint32_t> index;

 private:
  struct Seen {
    std::uint32_t stamp = 0, at = 0;
  };
  std::vector<Seen> seen_ = std::vector<Seen>(kIds);
  std::uint32_t stamp_ = 0;
};

ps::TableSchema schema_of(std::uint32_t dim) {
  ps::TableSchema schema{.id = 5,
                         .name = "rows",
                         .dim = dim,
                         .optimizer = ps::Optimizer::kAdagrad,
                         .learning_rate = kRate,
                         .epsilon = kEpsilon,
                         .consistency = ps::Consistency::kAsp};
  if (dim > 1) {
    schema.initializer = ps::Initializer::kNormal;
    schema.init_b = 0.01f;
  }
  return schema;
}

template <class T>
T need(dlrun::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "ps-train: %s\n", result.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*result);
}
void need(const Status& status) {
  if (!status) {
    std::fprintf(stderr, "ps-train: %s\n", status.error().to_string().c_str());
    std::exit(1);
  }
}

template <std::size_t kDim>
double auc_of(const ClickLog& test, const std::vector<float>& model) {
  std::vector<float> scores(test.rows());
  float sums[kDim];
  for (std::size_t i = 0; i < test.rows(); ++i) {
    const std::int64_t* ids = test.ids.data() + i * kColumns;
    scores[i] = forward<kDim>(
        [&](std::size_t c) { return model.data() + static_cast<std::size_t>(ids[c]) * kDim; },
        sums);
  }
  return examples::auc(scores, test.labels);
}

/// The rows of the next batch are pulled, and the gradients of the last ones pushed, while this one
/// is trained on.
template <std::size_t kDim>
Trained train_dlrun(const ClickLog& log, const ClickLog& test) {
  const ShardThread shard("shm://*");
  const auto client = shard.client();
  const ps::Table table = need(client->open_table(schema_of(kDim), 60s));
  struct Step {
    Distinct ids;
    std::vector<float> rows;
    std::vector<float> grads;
    std::optional<ps::PendingCall> pull, push;
    std::size_t n = 0;
  };
  Step steps[3];
  const auto begin = [&](Step& step, std::size_t first) {
    if (step.push) need(step.push->wait());
    step.n = std::min(kBatch, log.rows() - first);
    step.ids.take(log.ids.data() + first * kColumns, step.n * kColumns);
    step.rows.resize(step.ids.keys.size() * kDim);
    step.pull.emplace(need(client->pull_async(table, step.ids.keys, step.rows, 60s)));
  };
  const auto start = std::chrono::steady_clock::now();
  begin(steps[0], 0);
  std::size_t turn = 0;
  float sums[kDim];
  for (std::size_t first = 0; first < log.rows(); first += kBatch, ++turn) {
    Step& step = steps[turn % 3];
    need(step.pull->wait());
    if (first + kBatch < log.rows()) begin(steps[(turn + 1) % 3], first + kBatch);
    step.grads.assign(step.rows.size(), 0.0f);
    for (std::size_t i = 0; i < step.n; ++i) {
      const std::uint32_t* at = step.ids.index.data() + i * kColumns;
      const float logit =
          forward<kDim>([&](std::size_t c) { return step.rows.data() + at[c] * kDim; }, sums);
      const float error = error_of(logit, log.labels[first + i]);
      for (std::size_t c = 0; c < kColumns; ++c) {
        float* g = step.grads.data() + at[c] * kDim;
        const float* row = step.rows.data() + at[c] * kDim;
        g[0] += error;
        for (std::size_t f = 1; f < kDim; ++f) g[f] += error * (sums[f] - row[f]);
      }
    }
    step.push.emplace(need(client->push_async(table, step.ids.keys, step.grads, 60s)));
  }
  for (Step& step : steps)
    if (step.push) need(step.push->wait());
  const double seconds = seconds_since(start);
  std::vector<float> model(kIds * kDim);
  std::vector<std::uint64_t> keys(kIds);
  for (std::size_t i = 0; i < kIds; ++i) keys[i] = i;
  need(client->pull(table, keys, model, 60s));
  return {static_cast<double>(log.rows()) / seconds, auc_of<kDim>(test, model)};
}

template <std::size_t kDim>
Trained train_in_process(const ClickLog& log, const ClickLog& test) {
  std::vector<float> model(kIds * kDim), state(kIds * kDim);
  SplitMix64 rng(9);
  for (std::size_t i = 0; i < model.size(); ++i)
    model[i] = i % kDim == 0 ? 0.0f : static_cast<float>(rng.uniform() - 0.5) * 0.02f;
  float sums[kDim];
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < log.rows(); ++i) {
    const std::int64_t* ids = log.ids.data() + i * kColumns;
    const auto at = [&](std::size_t c) { return static_cast<std::size_t>(ids[c]) * kDim; };
    const float error = error_of(
        forward<kDim>([&](std::size_t c) { return model.data() + at(c); }, sums), log.labels[i]);
    for (std::size_t c = 0; c < kColumns; ++c) {
      float* row = model.data() + at(c);
      float* sum = state.data() + at(c);
      for (std::size_t f = 0; f < kDim; ++f) {
        const float g = f == 0 ? error : error * (sums[f] - row[f]);
        sum[f] += g * g;
        row[f] -= kRate * g / (std::sqrt(sum[f]) + kEpsilon);
      }
    }
  }
  const double seconds = seconds_since(start);
  return {static_cast<double>(log.rows()) / seconds, auc_of<kDim>(test, model)};
}

struct Peer {
  std::string kind, folder;
  long batch = 0, threads = 0;  ///< 0: to be found
  std::optional<Trained> run() {
    const char* python = std::getenv("DLRUN_TORCH_PYTHON");
    const char* source = std::getenv("DLRUN_SOURCE_DIR");
    if (source == nullptr) return {};
    std::string command = "'" + std::string(python != nullptr ? python : "/usr/bin/python3") +
                          "' '" + source + "/bench/peers/ps_train.py' " + kind + " '" + folder +
                          "'";
    if (batch > 0) command += " " + std::to_string(batch) + " " + std::to_string(threads);
    std::FILE* out = ::popen(command.c_str(), "r");
    if (out == nullptr) return {};
    Trained result;
    const bool told = std::fscanf(out, "%lf %lf %ld %ld", &result.samples_per_s, &result.auc,
                                  &batch, &threads) == 4;
    if (::pclose(out) != 0 || !told) return {};
    std::fprintf(stderr, "%s: PyTorch %.0f samples/s, AUC %.4f, batch %ld, %ld threads\n",
                 kind.c_str(), result.samples_per_s, result.auc, batch, threads);
    return result;
  }
};

template <std::size_t kDim>
void compare(const std::string& kind, const ClickLog& log, const ClickLog& test,
             const std::string& folder, int rounds) {
  const auto figure = [&](const std::string& metric, const std::string& unit, Better better,
                          const std::string& baseline, Must must) {
    return Figure{"ps-train", kind + metric, unit, better, {}, baseline, {}, "", must};
  };
  Figure rate = figure("_samples_per_s", "samples/s", Better::kMore,
                       "PyTorch, sparse embeddings and Adagrad", {5.0, {}});
  Figure gap = figure("_auc_gap", "AUC", Better::kLess, "none", {{}, 0.002});
  Figure limit = figure("_in_process", "samples/s", Better::kMore,
                        "one thread in process, sample by sample", {});
  gap.reason = "an absolute bound";
  Peer peer{kind, folder};
  for (int round = 0; round < rounds; ++round) {
    const Trained ours = train_dlrun<kDim>(log, test);
    const Trained alone = train_in_process<kDim>(log, test);
    std::fprintf(stderr,
                 "%s round %d: %.0f samples/s, AUC %.4f; in process %.0f, %.4f; best %.4f\n",
                 kind.c_str(), round + 1, ours.samples_per_s, ours.auc, alone.samples_per_s,
                 alone.auc, examples::auc(test.truth, test.labels));
    rate.values.push_back(ours.samples_per_s);
    limit.values.push_back(ours.samples_per_s);
    limit.baselines.push_back(alone.samples_per_s);
    const auto theirs = peer.run();
    if (theirs && rate.baselines.size() + 1 == rate.values.size()) {
      rate.baselines.push_back(theirs->samples_per_s);
      gap.values.push_back(theirs->auc - ours.auc);
    }
  }
  if (rate.baselines.size() != rate.values.size()) {
    rate.baselines.clear();
    rate.reason = "no PyTorch in the Python of DLRUN_TORCH_PYTHON (else /usr/bin/python3)";
  }
  print(rate);
  if (!gap.values.empty()) print(gap);
  print(limit);
}

int measure(bool quick) {
  std::string folder = (std::filesystem::temp_directory_path() / "dlrun-bench-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  std::fprintf(stderr, "drawing the log\n");
  const ClickLog log = draw_clicks(quick ? 1'000'000 : 10'000'000, 1);
  const ClickLog test = draw_clicks(200'000, 2);
  Status written = write_clicks(log, folder + "/train");
  if (written) written = write_clicks(test, folder + "/test");
  if (!written) std::fprintf(stderr, "%s\n", written.error().to_string().c_str());
  if (written) {
    compare<1>("lr", log, test, folder, quick ? 2 : 5);
    compare<1 + kFactors>("fm", log, test, folder, quick ? 2 : 5);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return written ? 0 : 1;
}

}  // namespace
}  // namespace dlrun::bench

int main(int argc, char** argv) {
  return dlrun::bench::measure(argc > 1 && std::string_view(argv[1]) == "--quick");
}

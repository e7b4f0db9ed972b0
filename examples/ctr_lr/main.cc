/// ctr_lr: logistic regression on click data: FTRL-proximal on the shards, the loop an actor.
///   dlrun run -n 2 --ps 2 --input train=... --input test=... -- ctr_lr [MODEL.npy]
/// Trains on "train"; then rank 0 measures the AUC on "test", prints it and exports the weights.

#include <cmath>
#include <cstdio>

#include "examples/ctr_gen/auc.h"
#include "runtime/client/actor/training_loop.h"

namespace loop = dlrun::loop;

/// Logits [rows] of a batch whose keys have the weights `w`.
static std::vector<float> logits(const loop::Batch& batch, const std::vector<float>& w) {
  std::vector<float> z(batch.rows());
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    for (auto e = batch.begin_of(row); e < batch.end_of(row); ++e)
      z[row] += batch.values()[e] * w[batch.index()[e]];
  }
  return z;
}

/// Gradient [keys] of the log loss, summed over the rows.
static std::vector<float> gradient(const loop::Batch& batch, const std::vector<float>& w) {
  const auto z = logits(batch, w);
  std::vector<float> g(batch.keys().size());
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const float error = 1 / (1 + std::exp(-z[row])) - batch.labels()[row];
    for (auto e = batch.begin_of(row); e < batch.end_of(row); ++e)
      g[batch.index()[e]] += error * batch.values()[e];
  }
  return g;
}

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : "ctr_lr.npy";
  return loop::run([&](caf::event_based_actor*, loop::Job job) -> caf::behavior {
    dlrun::ps::TableSchema schema;
    schema.name = "weights";
    schema.optimizer = dlrun::ps::Optimizer::kFtrl;
    schema.learning_rate = 0.15f;
    schema.l2 = 5.0f;  // the planted weights have variance 0.19: 1 / 0.19
    schema.consistency = dlrun::ps::Consistency::kSsp;
    schema.staleness = 4;
    const auto table = job.table(schema);
    auto scores = std::make_shared<std::vector<float>>();
    auto labels = std::make_shared<std::vector<float>>();
    job.read("train");
    return {
        [=](const loop::BatchReady& m) { job.pull(table, m.batch); },
        [=](const loop::RowsReady& m) {
          if (m.batch->input() == "train") {
            job.push(table, m.batch, gradient(*m.batch, m.rows));
            job.clock(table);
          } else {
            const auto z = logits(*m.batch, m.rows);
            scores->insert(scores->end(), z.begin(), z.end());
            labels->insert(labels->end(), m.batch->labels().begin(), m.batch->labels().end());
          }
        },
        [=](const loop::PassEnded& m) {
          if (m.input == "train") job.progress((m.pass + 1.0) / job.input("train")->passes);
        },
        [=](const loop::InputEnded& m) {
          if (m.input == "train") {
            job.leave();  // the ranks that still train must not wait for this one
            return job.barrier("trained");
          }
          std::printf("test auc %.4f on %zu rows, model %s\n",
                      dlrun::examples::auc(*scores, *labels), labels->size(), model.c_str());
          job.export_npy(table, model);
          job.finish();
        },
        [=](const loop::BarrierPassed&) { job.rank() == 0 ? job.read("test") : job.finish(); },
    };
  });
}

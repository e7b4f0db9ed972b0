// Logistic regression with asynchronous SGD, written to ps-lite's interface: it compiles against
// ps-lite, too. Servers hold the weights and step them; workers draw their part of the data from
// planted weights, so that the best accuracy there is is known. README.md beside this file.
#include <cmath>
#include <cstdio>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ps/ps.h"

namespace {

using ps::Key;

const int kFeatures = 2000;
const int kActive = 20;  // of them in a row
const int kRows = 20000;
const int kTestRows = 10000;
const int kBatch = 200;
const int kPasses = 3;
const float kRate = 0.1f;

struct Row {
  std::vector<int> features;
  float label;
};

/// Keys lie apart, so that every server has its share.
Key KeyOf(int feature) { return ps::kMaxKey / kFeatures * feature; }

std::vector<float> PlantedWeights() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> weights(kFeatures);
  for (float& weight : weights) weight = normal(random);
  return weights;
}

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

std::vector<Row> Draw(const std::vector<float>& planted, int n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> feature(0, kFeatures - 1);
  std::uniform_real_distribution<float> coin(0, 1);
  std::vector<Row> rows(n);
  for (Row& row : rows) {
    float sum = 0;
    for (int k = 0; k < kActive; ++k) {
      row.features.push_back(feature(random));
      sum += planted[row.features.back()];
    }
    row.label = coin(random) < Sigmoid(sum) ? 1.0f : 0.0f;
  }
  return rows;
}

/// A server's part: what is pushed is a gradient, what is pulled are weights.
struct Step {
  std::unordered_map<Key, float> weights;
  void operator()(const ps::KVMeta& meta, const ps::KVPairs<float>& data,
                  ps::KVServer<float>* server) {
    ps::KVPairs<float> res;
    if (meta.pull) {
      res.keys = data.keys;
      res.vals.resize(data.keys.size());
    }
    for (size_t i = 0; i < data.keys.size(); ++i) {
      float& weight = weights[data.keys[i]];
      if (meta.push) weight -= kRate * data.vals[i];
      if (meta.pull) res.vals[i] = weight;
    }
    server->Response(meta, res);
  }
};

/// The keys of a batch, rising, and where each feature's weight is among them.
std::vector<Key> KeysOf(const Row* rows, int n, std::unordered_map<int, size_t>* place) {
  std::vector<bool> used(kFeatures);
  for (int i = 0; i < n; ++i)
    for (const int feature : rows[i].features) used[feature] = true;
  std::vector<Key> keys;
  for (int feature = 0; feature < kFeatures; ++feature) {
    if (!used[feature]) continue;
    (*place)[feature] = keys.size();
    keys.push_back(KeyOf(feature));
  }
  return keys;
}

void Train() {
  ps::KVWorker<float> kv(0, 0);
  const std::vector<float> planted = PlantedWeights();
  const std::vector<Row> rows = Draw(planted, kRows, 100 + ps::MyRank());
  for (int pass = 0; pass < kPasses; ++pass) {
    for (int begin = 0; begin < kRows; begin += kBatch) {
      std::unordered_map<int, size_t> place;
      const std::vector<Key> keys = KeysOf(&rows[begin], kBatch, &place);
      std::vector<float> weights;
      kv.Wait(kv.Pull(keys, &weights));
      std::vector<float> gradient(keys.size());
      for (int i = begin; i < begin + kBatch; ++i) {
        float sum = 0;
        for (const int feature : rows[i].features) sum += weights[place[feature]];
        const float error = Sigmoid(sum) - rows[i].label;
        for (const int feature : rows[i].features) gradient[place[feature]] += error;
      }
      kv.Wait(kv.Push(keys, gradient));
    }
  }
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
  if (ps::MyRank() != 0) return;
  std::vector<Key> keys;
  for (int i = 0; i < kFeatures; ++i) keys.push_back(KeyOf(i));
  std::vector<float> weights;
  kv.Wait(kv.Pull(keys, &weights));
  int right = 0, best = 0;
  for (const Row& row : Draw(planted, kTestRows, 7)) {
    float sum = 0, known = 0;
    for (const int feature : row.features) {
      sum += weights[feature];
      known += planted[feature];
    }
    right += (sum > 0) == (row.label > 0.5f);
    best += (known > 0) == (row.label > 0.5f);
  }
  std::printf("test accuracy %.4f, of the planted weights %.4f\n",
              static_cast<double>(right) / kTestRows, static_cast<double>(best) / kTestRows);
  CHECK_GT(right, 0.95 * best) << "it has not learned";
}

}  // namespace

int main() {
  ps::Start(0);
  if (ps::IsServer()) {
    auto* server = new ps::KVServer<float>(0);
    server->set_request_handle(Step());
    ps::RegisterExitCallback([server] { delete server; });
  }
  if (ps::IsWorker()) Train();
  ps::Finalize(0, true);
  return 0;
}

// Whole histories of several workers against one shard, in random interleavings with reordered,
// lost and repeated messages. Oracles: what BSP and SSP promise, computed from the program alone;
// never from the shard.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/ps/shard_helper.h"

namespace dlrun::ps {
namespace {

constexpr std::uint64_t kKeyCount = 12;

struct Push {
  std::uint64_t sequence = 0;
  std::vector<std::uint64_t> keys;
  std::vector<float> grads;
};
/// What each worker pushes in each clock: fixed by the seed, whatever the network does.
struct Program {
  std::uint32_t workers;
  std::uint64_t clocks;
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<Push>> pushes;
};

Program make_program(std::uint64_t seed, std::uint32_t workers, std::uint64_t clocks) {
  SplitMix64 rng(seed);
  Program p{workers, clocks, {}};
  for (std::uint32_t w = 0; w < workers; ++w) {
    std::uint64_t sequence = 0;
    for (std::uint64_t c = 0; c < clocks; ++c) {
      for (std::uint64_t n = rng.below(3); n > 0; --n) {
        Push push{++sequence, {}, {}};
        for (std::uint64_t k = rng.below(6); k > 0; --k) {
          push.keys.push_back(rng.below(kKeyCount));
          push.grads.push_back(static_cast<float>(rng.uniform() * 2 - 1));
        }
        p.pushes[{w, c}].push_back(std::move(push));
      }
    }
  }
  return p;
}

/// Rows after each clock: sums in double, in any order, then the optimizer's formula in double.
class Oracle {
 public:
  Oracle(const Program& program, const TableSchema& schema) {
    std::vector<double> w(kKeyCount), n(kKeyCount, schema.accumulator);
    rows_.push_back(w);
    for (std::uint64_t c = 0; c < program.clocks; ++c) {
      std::map<std::uint64_t, double> sum;
      for (std::uint32_t worker = 0; worker < program.workers; ++worker) {
        const auto it = program.pushes.find({worker, c});
        if (it == program.pushes.end()) continue;
        for (const Push& push : it->second) {
          for (std::size_t i = 0; i < push.keys.size(); ++i) sum[push.keys[i]] += push.grads[i];
        }
      }
      for (const auto& [key, g] : sum) {
        if (schema.optimizer == Optimizer::kAdagrad) {
          n[key] += g * g;
          w[key] -= schema.learning_rate * g / (std::sqrt(n[key]) + schema.epsilon);
        } else {
          w[key] -= schema.learning_rate * g;
        }
      }
      rows_.push_back(w);
    }
  }
  /// Rows that hold exactly the pushes of clocks < clock.
  const std::vector<double>& at_clock(std::uint64_t clock) const { return rows_.at(clock); }

 private:
  std::vector<std::vector<double>> rows_;
};

std::vector<std::uint64_t> all_keys() {
  std::vector<std::uint64_t> keys(kKeyCount);
  for (std::uint64_t i = 0; i < kKeyCount; ++i) keys[i] = i;
  return keys;
}

struct Pulled {
  std::uint32_t worker;
  std::uint64_t clock;
  std::vector<float> values;
};

/// Runs the program: each worker pulls, pushes all, and when everything is acknowledged advances,
/// with messages delivered in random order, lost (then sent again) or delivered twice. Returns
/// every pull's answer.
std::vector<Pulled> run(HandShard& shard, const Program& program, std::uint64_t seed) {
  struct Message {
    std::uint32_t worker;
    RequestHeader header;
    std::vector<std::uint64_t> keys;
    std::vector<float> grads;
  };
  struct Worker {
    std::uint64_t clock = 0;
    int stage = 0;                          // 0: to ask, 1: pull and pushes open, 2: clock open
    std::map<std::uint64_t, Message> open;  // by request
  };
  SplitMix64 rng(seed);
  std::vector<Worker> workers(program.workers);
  std::vector<Message> network;
  std::vector<Pulled> pulled;
  std::uint64_t request = 0;
  const auto issue = [&](std::uint32_t w, RequestHeader header, std::vector<std::uint64_t> keys,
                         std::vector<float> grads) {
    header.request = ++request;
    Message m{w, header, std::move(keys), std::move(grads)};
    network.push_back(m);
    workers[w].open[header.request] = std::move(m);
  };
  const auto finished = [&](const Worker& w) { return w.clock > program.clocks; };
  for (std::uint64_t step = 0;; ++step) {
    if (step > 2'000'000) {
      ADD_FAILURE() << "no progress, seed " << seed;
      return pulled;
    }
    if (std::all_of(workers.begin(), workers.end(), finished)) return pulled;
    const auto w = static_cast<std::uint32_t>(rng.below(workers.size()));
    Worker& me = workers[w];
    const WorkerId id = worker_id("worker", w);
    if (me.stage == 0 && !finished(me)) {
      issue(w, shard.pull_header(id, me.clock), all_keys(), {});
      const auto it = program.pushes.find({w, me.clock});
      if (it != program.pushes.end()) {
        for (const Push& p : it->second)
          issue(w, shard.push_header(p.sequence, id, me.clock), p.keys, p.grads);
      }
      me.stage = 1;
    } else if (me.stage == 1 && me.open.empty()) {
      issue(w, shard.clock_header(id, me.clock + 1), {}, {});
      me.stage = 2;
    } else if (me.stage == 2 && me.open.empty()) {
      ++me.clock;
      me.stage = 0;
    } else if (!me.open.empty() && rng.below(10) == 0) {  // out of patience: send one again
      auto it = me.open.begin();
      std::advance(it, rng.below(me.open.size()));
      if (network.size() < 100) network.push_back(it->second);
    }
    for (int n = 0; n < 2 && !network.empty(); ++n) {
      const std::size_t at = rng.below(network.size());
      const Message m = network[at];
      const std::uint64_t fate = rng.below(20);
      // 0: it will come once more
      if (fate != 0) network.erase(network.begin() + static_cast<std::ptrdiff_t>(at));
      if (fate == 1) continue;  // lost on the way there
      for (const Reply& reply : shard.ask(m.header, m.keys, m.grads, m.worker,
                                          ps::at(static_cast<std::int64_t>(step / 1000)))) {
        if (rng.below(20) == 0) continue;  // lost on the way back
        Worker& to = workers[reply.asker];
        const auto open = to.open.find(reply.header.request);
        if (open == to.open.end()) continue;
        if (reply.header.error != 0) {
          ADD_FAILURE() << reply.header.context << ", seed " << seed;
          return pulled;
        }
        if (reply.header.kind == Kind::kPull) {
          pulled.push_back({static_cast<std::uint32_t>(reply.asker), to.clock, reply.values});
        }
        to.open.erase(open);
      }
    }
  }
}

class Bsp : public testing::TestWithParam<Optimizer> {};
INSTANTIATE_TEST_SUITE_P(Optimizers, Bsp, testing::Values(Optimizer::kSgd, Optimizer::kAdagrad));

TableSchema bsp_table(Optimizer optimizer) {
  TableSchema schema = sum_table(Consistency::kBsp);
  schema.optimizer = optimizer;
  schema.learning_rate = 0.1f;
  schema.accumulator = 0.01f;
  return schema;
}

TEST_P(Bsp, EveryPullSeesExactlyTheClocksBeforeIt) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Program program = make_program(seed, 1 + seed % 4, 8);
    const Oracle oracle(program, bsp_table(GetParam()));
    HandShard shard(program.workers);
    shard.create(bsp_table(GetParam()));
    const auto pulled = run(shard, program, seed * 31);
    EXPECT_EQ(pulled.size(), program.workers * (program.clocks + 1));
    for (const Pulled& p : pulled) {
      for (std::uint64_t k = 0; k < kKeyCount; ++k) {
        ASSERT_NEAR(p.values[k], oracle.at_clock(p.clock)[k], 1e-4)
            << "seed " << seed << " clock " << p.clock << " key " << k;
      }
    }
  }
}

TEST_P(Bsp, TheOrderOfArrivalChangesNoBit) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Program program = make_program(seed, 3, 6);
    std::vector<float> first;
    for (std::uint64_t network = 1; network <= 5; ++network) {
      HandShard shard(3);
      shard.create(bsp_table(GetParam()));
      run(shard, program, network * 1000 + seed);
      std::vector<float> state;
      for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
        for (const TableImage& t : shard.core.export_slot(slot).tables)
          state.insert(state.end(), t.data.begin(), t.data.end());
      }
      if (network == 1) {
        first = state;
        ASSERT_FALSE(first.empty());
      } else {
        ASSERT_EQ(state, first) << "seed " << seed << " network " << network;
      }
    }
  }
}

/// Worker w adds 1 to key w in each clock; so the value of key v in an answer is how many clocks of
/// v it has seen.
Program counting_program(std::uint32_t workers, std::uint64_t clocks) {
  Program p{workers, clocks, {}};
  for (std::uint32_t w = 0; w < workers; ++w) {
    for (std::uint64_t c = 0; c < clocks; ++c) p.pushes[{w, c}] = {Push{c + 1, {w}, {1.0f}}};
  }
  return p;
}

/// The largest (clock of the reader - clocks of a worker that it saw).
std::int64_t worst_staleness(const std::vector<Pulled>& pulled, const Program& program) {
  std::int64_t worst = -1000;
  for (const Pulled& p : pulled) {
    for (std::uint32_t v = 0; v < program.workers; ++v) {
      const auto must = static_cast<std::int64_t>(std::min(p.clock, program.clocks));
      worst = std::max(worst, must - static_cast<std::int64_t>(p.values[v]));
    }
  }
  return worst;
}

TEST(Ssp, NoPullIsStalerThanTheBound) {
  std::int64_t seen = 0;
  for (std::uint32_t staleness : {0u, 1u, 3u}) {
    for (std::uint64_t seed = 1; seed <= 25; ++seed) {
      const Program program = counting_program(3, 12);
      HandShard shard(3);
      shard.create(sum_table(Consistency::kSsp, 1, staleness));
      const auto worst = worst_staleness(run(shard, program, seed * 7 + staleness), program);
      ASSERT_LE(worst, static_cast<std::int64_t>(staleness)) << "seed " << seed;
      if (staleness == 3) seen = std::max(seen, worst);
    }
  }
  EXPECT_GT(seen, 1) << "the workers never drifted apart: the test shows nothing";
}

TEST(Ssp, TheOracleFindsAsp) {
  std::int64_t worst = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const Program program = counting_program(3, 12);
    HandShard shard(3);
    shard.create(sum_table(Consistency::kAsp));
    worst = std::max(worst, worst_staleness(run(shard, program, seed), program));
  }
  EXPECT_GT(worst, 3);
}

TEST(ShardCoreModel, AgreesWithAMapUnderRandomPushesPullsAndRetries) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    SplitMix64 rng(seed);
    const std::uint32_t dim = std::array{1u, 2u, 5u, 16u}[seed % 4];
    HandShard shard(1);
    shard.create(sum_table(Consistency::kAsp, dim));
    std::map<std::uint64_t, std::vector<float>> model;
    std::vector<std::pair<RequestHeader, std::pair<std::vector<std::uint64_t>, std::vector<float>>>>
        sent;
    std::uint64_t sequence = 0;
    const auto key = [&] {
      const std::uint64_t k = rng.below(400);
      return rng.below(3) == 0 ? ~k : k << rng.below(3) * 20;
    };
    for (int step = 0; step < 600; ++step) {
      std::vector<std::uint64_t> keys(rng.below(40));
      for (auto& k : keys) k = key();
      if (rng.below(2) == 0) {
        std::vector<float> grads(keys.size() * dim);
        for (auto& g : grads) g = static_cast<float>(rng.below(9)) - 4;
        const RequestHeader h = shard.push_header(++sequence, WorkerId{1}, 0, dim);
        ASSERT_EQ(shard.one(h, keys, grads).header.error, 0);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          auto& row = model.try_emplace(keys[i], dim, 0.0f).first->second;
          for (std::uint32_t d = 0; d < dim; ++d) row[d] += grads[i * dim + d];
        }
        sent.push_back({h, {keys, grads}});
      } else if (rng.below(3) == 0 && !sent.empty()) {
        const auto& again =
            sent[sent.size() - 1 - rng.below(std::min<std::size_t>(sent.size(), 200))];
        ASSERT_EQ(shard.one(again.first, again.second.first, again.second.second).header.error, 0);
      } else {
        const auto values = shard.one(shard.pull_header(kNoWorker, 0, dim), keys).values;
        ASSERT_EQ(values.size(), keys.size() * dim);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          const auto it = model.find(keys[i]);
          for (std::uint32_t d = 0; d < dim; ++d) {
            ASSERT_EQ(values[i * dim + d], it == model.end() ? 0.0f : it->second[d])
                << "seed " << seed;
          }
        }
      }
      ASSERT_EQ(shard.core.stats().rows, model.size());
    }
  }
}

TEST(ShardCoreLog, TheSameLogGivesTheSameBytes) {
  const Program program = make_program(3, 3, 10);
  const auto play = [&](bool one_more) {
    HandShard shard(3);
    shard.create(bsp_table(Optimizer::kAdagrad));
    run(shard, program, 99);
    if (one_more) {
      RequestHeader h = shard.clock_header(worker_id("worker", 0), 500);
      shard.ask(h);
    }
    std::vector<SlotImage> images;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot)
      images.push_back(shard.core.export_slot(slot));
    return std::pair{shard.core.digest(), images};
  };
  const auto a = play(false);
  const auto b = play(false);
  EXPECT_EQ(a.first, b.first);
  EXPECT_TRUE(a.second == b.second);
  EXPECT_NE(a.first, play(true).first);
}

}  // namespace
}  // namespace dlrun::ps

#pragma once
/// tests/ps/shard_helper.h: a ShardCore driven by hand: requests as function calls, replies by
/// value.

#include <gtest/gtest.h>

#include <optional>

#include "ps/core/shard_core.h"

namespace dlrun::ps {

inline constexpr std::array<std::uint8_t, 32> kToken = {1, 2, 3};
inline constexpr Epoch kEpoch{1, 1};
inline constexpr ClientId kClient{77};

inline TimePoint at(std::int64_t seconds) { return TimePoint{std::chrono::seconds(seconds)}; }

inline TableSchema sum_table(Consistency consistency, std::uint32_t dim = 1,
                             std::uint32_t staleness = 0) {
  // Learning rate -1 and zero rows: a weight is the sum of its gradients.
  return {.id = 5,
          .name = "sum",
          .dim = dim,
          .learning_rate = -1.0f,
          .consistency = consistency,
          .staleness = staleness};
}

class HandShard {
 public:
  explicit HandShard(std::uint32_t workers, SlotMap map = SlotMap::even(1, kEpoch),
                     ShardId shard = ShardId{0}, ShardSettings settings = {})
      : core([&] {
          settings.shard = shard;
          settings.token = kToken;
          settings.workers = workers;
          return ShardCore(settings, std::move(map));
        }()) {}

  static RequestHeader header(Kind kind, std::uint32_t table = 5) {
    return {.kind = kind,
            .token = kToken,
            .epoch = kEpoch,
            .client = kClient,
            .table = table,
            .budget = std::chrono::seconds(60)};
  }

  /// All replies that one request causes.
  std::vector<Reply> ask(RequestHeader header, std::vector<std::uint64_t> keys = {},
                         std::vector<float> values = {}, Asker asker = 0, TimePoint now = at(1)) {
    header.n = header.kind == Kind::kScan ? header.n : static_cast<std::uint32_t>(keys.size());
    Effects effects;
    core.on_request(asker, header, keys, values, now, effects);
    return replies(effects);
  }
  /// The one reply of a request that is answered at once.
  Reply one(RequestHeader header, std::vector<std::uint64_t> keys = {},
            std::vector<float> values = {}) {
    auto all = ask(std::move(header), std::move(keys), std::move(values));
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Reply{} : all[0];
  }

  Reply create(const TableSchema& schema) {
    RequestHeader h = header(Kind::kCreateTable, schema.id);
    h.schema = schema;
    return one(h);
  }
  RequestHeader push_header(std::uint64_t sequence, WorkerId worker, std::uint64_t clock,
                            std::uint32_t dim = 1) {
    RequestHeader h = header(Kind::kPush);
    h.sequence = sequence;
    h.worker = worker;
    h.client = ClientId{worker.value + 1000};
    h.clock = clock;
    h.dim = dim;
    return h;
  }
  RequestHeader pull_header(WorkerId worker, std::uint64_t clock, std::uint32_t dim = 1) {
    RequestHeader h = header(Kind::kPull);
    h.request = ++last_request;
    h.worker = worker;
    h.client = ClientId{worker.value + 1000};
    h.clock = clock;
    h.dim = dim;
    return h;
  }
  RequestHeader clock_header(WorkerId worker, std::uint64_t clock) {
    RequestHeader h = header(Kind::kClock);
    h.worker = worker;
    h.client = ClientId{worker.value + 1000};
    h.clock = clock;
    return h;
  }
  /// What is applied of a row.
  std::vector<float> row(std::uint64_t key, std::uint32_t dim = 1) {
    RequestHeader h = pull_header(kNoWorker, 0, dim);
    return one(h, {key}).values;
  }

  static std::vector<Reply> replies(const Effects& effects) {
    std::vector<Reply> out;
    for (const Effect& e : effects) out.push_back(std::get<Reply>(e));
    return out;
  }

  ShardCore core;
  std::uint64_t last_request = 0;
};

inline Errc code(const Reply& reply) { return static_cast<Errc>(reply.header.error); }

}  // namespace dlrun::ps

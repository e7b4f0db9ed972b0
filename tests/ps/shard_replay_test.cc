// A shard as a log machine: two shards live through random requests of every kind, many of them to
// be refused, while slots move between them. What changed the first one is written down; a second
// core that applies this log and nothing else must be the same, and stay the same from there on.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <variant>

#include "tests/ps/shard_helper.h"

namespace dlrun::ps {
namespace {

struct Request {
  RequestHeader header;
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
};
using Operation = std::variant<Request, WorkerId, SlotMap, SlotImage>;
struct Entry {
  Operation operation;
  TimePoint now;
};

constexpr Asker kMe = 1;

std::vector<Reply> apply(ShardCore& core, const Entry& entry) {
  Effects effects;
  if (const auto* request = std::get_if<Request>(&entry.operation)) {
    core.on_request(kMe, request->header, request->keys, request->values, entry.now, effects);
  } else if (const auto* worker = std::get_if<WorkerId>(&entry.operation)) {
    core.on_worker_left(*worker, entry.now, effects);
  } else if (const auto* map = std::get_if<SlotMap>(&entry.operation)) {
    EXPECT_TRUE(core.install_map(*map, entry.now, effects));
  } else {
    // Refused when a table here has another schema: that must change nothing either.
    (void)core.import_slot(std::get<SlotImage>(entry.operation), entry.now, effects);
  }
  return HandShard::replies(effects);
}

/// Of every consistency, and every policy that remembers something.
std::vector<TableSchema> schemas() {
  std::vector<TableSchema> all;
  const auto add = [&](Consistency consistency, std::uint32_t dim) -> TableSchema& {
    TableSchema schema = sum_table(consistency, dim, 1);
    schema.id = static_cast<std::uint32_t>(all.size()) + 1;
    schema.name = "t" + std::to_string(schema.id);
    return all.emplace_back(schema);
  };
  add(Consistency::kBsp, 1).optimizer = Optimizer::kAdagrad;
  add(Consistency::kSsp, 3);
  TableSchema& chance = add(Consistency::kAsp, 1);
  chance.admission = Admission::kProbability;
  chance.admission_p = 0.5f;
  TableSchema& lru = add(Consistency::kAsp, 2);
  lru.eviction = Eviction::kLru;
  lru.budget_bytes = 400;
  TableSchema& seen = add(Consistency::kBsp, 2);
  seen.admission = Admission::kSightings;
  seen.admission_n = 2;
  seen.eviction = Eviction::kTtl;
  seen.ttl_s = 20;
  return all;
}

constexpr std::uint64_t kKeys = 24;
constexpr std::uint32_t kPlaces = 6;

ShardSettings small_bounds() {
  ShardSettings settings;
  settings.tables_max = 5;
  settings.clients_max = 7;
  settings.parked_max = 4;
  settings.kept_bytes_max = 400;
  return settings;
}

/// What clients, workers and the owner of the slot map do, right and wrong.
class Storm {
 public:
  explicit Storm(std::uint64_t seed) : rng_(seed) {}

  void advance_time() { now_ += std::chrono::milliseconds(rng_.below(2500)); }
  TimePoint now() const { return now_; }
  bool chance(std::uint64_t one_in) { return rng_.below(one_in) == 0; }

  Request next() {
    if (!sent_.empty() && chance(6)) {  // once more, as it was, under the map of today
      Request again = sent_[rng_.below(sent_.size())];
      again.header.epoch = map.epoch;
      return again;
    }
    Request r;
    r.header = HandShard::header(Kind::kPull, 1 + static_cast<std::uint32_t>(rng_.below(5)));
    RequestHeader& h = r.header;
    const std::uint64_t who = rng_.below(9);  // more than there are places and clients
    h.worker = who == 8 ? kNoWorker : WorkerId{who + 1};
    h.client = ClientId{100 + who * 2 + rng_.below(2)};
    h.request = ++request_;
    h.epoch = map.epoch;
    h.clock = clocks_[{h.table, who}];
    h.dim = all_.at(h.table - 1).dim;
    switch (rng_.below(20)) {
      case 0:
        h.kind = Kind::kScan;
        h.n = 5;
        break;
      case 1:
      case 2:
      case 3:
        h.kind = Kind::kClock;
        h.clock = clocks_[{h.table, who}] += rng_.below(2);
        break;
      case 4:
        h.kind = Kind::kTune;
        h.rate = chance(4) ? std::numeric_limits<float>::quiet_NaN() : -2.0f;
        h.sequence = ++sequences_[h.client.value];
        break;
      case 5:
        h.kind = Kind::kCreateTable;
        h.schema = all_.at(h.table - 1);
        if (chance(3)) h.schema->dim += 1;
        if (chance(3)) h.schema->id = h.table + 50;
        break;
      case 6:
        if (!chance(4)) break;
        h.kind = Kind::kLeave;
        if (chance(2)) h.worker = kNoWorker;
        break;
      case 7:
      case 8:
      case 9:
      case 10:
        break;
      default:
        h.kind = Kind::kPush;
        h.sequence = ++sequences_[h.client.value];
        break;
    }
    if (h.kind == Kind::kPull || h.kind == Kind::kPush) fill(r);
    spoil(r);
    sent_.push_back(r);
    return r;
  }

  WorkerId someone() { return WorkerId{1 + rng_.below(8)}; }
  std::uint32_t slot() {
    return slot_of(1 + static_cast<std::uint32_t>(rng_.below(5)), rng_.below(kKeys));
  }

  SlotMap map = SlotMap::even(2, kEpoch);

 private:
  void fill(Request& r) {
    const std::uint32_t shard = rng_.below(8) == 0 ? 1 : 0;
    for (std::uint64_t n = rng_.below(12); n > 0; --n) {
      const std::uint64_t key = rng_.below(kKeys);
      // Mostly whole, else the parts that belong elsewhere would have all of it refused.
      if (map.owner[slot_of(r.header.table, key)].value == shard) r.keys.push_back(key);
    }
    r.header.n = static_cast<std::uint32_t>(r.keys.size());
    if (r.header.kind == Kind::kPull) return;
    for (std::size_t i = 0; i < r.keys.size() * r.header.dim; ++i)
      r.values.push_back(static_cast<float>(rng_.below(7)) - 3);
  }

  void spoil(Request& r) {
    RequestHeader& h = r.header;
    switch (rng_.below(60)) {
      case 0:
        h.token[0] ^= 1;
        break;
      case 1:
        h.epoch = {0, 1};
        break;
      case 2:
        ++h.epoch.counter;
        break;
      case 3:
        h.budget = Duration{0};
        break;
      case 4:
        ++h.dim;
        break;
      case 5:
        ++h.clock;
        break;
      case 6:
        h.sequence = 0;
        break;
      case 7:
        h.table = 99;
        break;
      case 8:
        h.sequence += 300;
        sequences_[h.client.value] = h.sequence;
        break;
      default:
        break;
    }
  }

  SplitMix64 rng_;
  const std::vector<TableSchema> all_ = schemas();
  TimePoint now_ = at(100);
  std::uint64_t request_ = 0;
  std::map<std::uint64_t, std::uint64_t> sequences_;  // by client
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> clocks_;
  std::vector<Request> sent_;
};

/// Calls by what became of them: a storm in which one of these hardly happens shows nothing.
struct Seen {
  int logged = 0, refused = 0, repeated_or_read = 0, parked = 0, moved = 0;
};

class Replay {
 public:
  explicit Replay(std::uint64_t seed) : storm_(seed) {
    for (const TableSchema& schema : schemas()) {
      if (schema.id == 5) continue;  // the storm makes this one
      RequestHeader h = HandShard::header(Kind::kCreateTable, schema.id);
      h.schema = schema;
      first_call({Request{h, {}, {}}, storm_.now()});
      other_.one(h);
    }
  }

  /// One thing that happens to the first shard.
  void step() {
    storm_.advance_time();
    if (storm_.chance(150)) {
      first_call({storm_.someone(), storm_.now()});
    } else if (storm_.chance(12)) {
      move();
    } else {
      const Request request = storm_.next();
      apply(other_.core, {request, storm_.now()});
      first_call({request, storm_.now()});
    }
    if (storm_.chance(10)) {
      Effects effects;
      first_.core.on_tick(storm_.now(), effects);
      if (both_) second_.core.on_tick(storm_.now(), effects);
    }
  }

  void play_log_on_second() {
    for (const Entry& entry : log_) apply(second_.core, entry);
    log_.clear();
  }

  /// Steps of both together, each reply compared.
  void step_both(int n) {
    Effects expired;  // what is parked is no part of the state: away with it
    first_.core.on_tick(storm_.now() + std::chrono::hours(1), expired);
    both_ = true;
    for (int i = 0; i < n && !testing::Test::HasFailure(); ++i) step();
  }

  void expect_equal(std::uint64_t seed) {
    EXPECT_EQ(first_.core.stats().log_sequence, second_.core.stats().log_sequence) << seed;
    EXPECT_EQ(first_.core.digest(), second_.core.digest()) << "seed " << seed;
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) {
      ASSERT_TRUE(first_.core.export_slot(slot) == second_.core.export_slot(slot))
          << "seed " << seed << " slot " << slot;
    }
  }
  const Seen& seen() const { return seen_; }

 private:
  void first_call(Entry entry) {
    ShardCore& core = first_.core;
    const std::uint64_t before = core.stats().log_sequence;
    const std::uint64_t state = digest_;
    const std::vector<Reply> replies = apply(core, entry);
    digest_ = core.digest();
    const std::uint64_t after = core.stats().log_sequence;
    ASSERT_LE(after, before + 1) << "one call, one number";
    if (both_) compare(replies, apply(second_.core, entry));
    const auto* request = std::get_if<Request>(&entry.operation);
    if (after == before) {
      ASSERT_EQ(digest_, state) << "changed without a number: kind "
                                << (request ? static_cast<int>(request->header.kind) : -1) << ": "
                                << (replies.empty() ? "" : replies[0].header.context);
    } else {
      ++seen_.logged;
      log_.push_back(entry);
    }
    if (request == nullptr) {
      ++seen_.moved;
      return;
    }
    const auto mine = std::find_if(replies.begin(), replies.end(), [&](const Reply& reply) {
      return reply.header.kind == request->header.kind &&
             reply.header.request == request->header.request;
    });
    if (mine == replies.end()) {
      ++seen_.parked;
    } else if (mine->header.error != 0) {
      ++seen_.refused;
      ASSERT_EQ(after, before) << "refused and changed: " << mine->header.context;
    } else if (after == before) {
      ++seen_.repeated_or_read;
    }
  }

  static void compare(const std::vector<Reply>& a, const std::vector<Reply>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(a[i].header, b[i].header) << a[i].header.context << " / " << b[i].header.context;
      ASSERT_EQ(a[i].keys, b[i].keys);
      ASSERT_EQ(a[i].values, b[i].values);
    }
  }

  void move() {
    SlotMap& map = storm_.map;
    const std::uint32_t slot = storm_.slot();
    const bool to_first = map.owner[slot].value == 1;
    const SlotImage image = (to_first ? other_ : first_).core.export_slot(slot);
    map.owner[slot] = ShardId{to_first ? 0u : 1u};
    ++map.epoch.counter;
    first_call({map, storm_.now()});
    apply(other_.core, {map, storm_.now()});
    if (to_first) {
      first_call({image, storm_.now()});
      first_call({image, storm_.now()});  // twice: no longer awaited
    } else {
      apply(other_.core, {image, storm_.now()});
    }
  }

  Storm storm_;
  HandShard first_{kPlaces, SlotMap::even(2, kEpoch), ShardId{0}, small_bounds()};
  HandShard second_{kPlaces, SlotMap::even(2, kEpoch), ShardId{0}, small_bounds()};
  HandShard other_{kPlaces, SlotMap::even(2, kEpoch), ShardId{1}, small_bounds()};
  std::vector<Entry> log_;
  std::uint64_t digest_ = first_.core.digest();
  bool both_ = false;
  Seen seen_;
};

TEST(ShardCoreLog, TheLogAloneGivesTheSameShardWhateverElseWasAsked) {
  Seen all;
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    Replay replay(seed);
    for (int i = 0; i < 500 && !HasFailure(); ++i) replay.step();
    replay.play_log_on_second();
    replay.expect_equal(seed);
    replay.step_both(150);
    replay.expect_equal(seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    all.logged += replay.seen().logged;
    all.refused += replay.seen().refused;
    all.repeated_or_read += replay.seen().repeated_or_read;
    all.parked += replay.seen().parked;
    all.moved += replay.seen().moved;
  }
  for (const int n : {all.logged, all.refused, all.repeated_or_read, all.moved})
    EXPECT_GT(n, 100) << "too rare to show anything";
  EXPECT_GT(all.parked, 10);
}

// What was found when the shard was read for this: a refused request took a worker's place.
TEST(ShardCoreLog, ReadsAndRefusalsTakeNoPlaceAmongTheWorkers) {
  constexpr WorkerId kA{1}, kB{2};
  HandShard shard(1);
  shard.create(sum_table(Consistency::kBsp));
  EXPECT_EQ(shard.one(shard.pull_header(kB, 0), {1}).header.error, 0);
  EXPECT_EQ(code(shard.one(shard.push_header(1, kB, 7), {1}, {1})), Errc::kFailedPrecondition);
  EXPECT_EQ(shard.one(shard.clock_header(kB, 0)).header.error, 0);
  EXPECT_EQ(shard.one(shard.push_header(1, kA, 0), {1}, {1}).header.error, 0);
  EXPECT_EQ(code(shard.one(shard.pull_header(kB, 0), {1})), Errc::kFailedPrecondition);
}

// A retry must not say whose client it is: the worker's leaving goes by that.
TEST(ShardCoreLog, ARetriedChangeOfRateUnderAnotherWorkersNameChangesNothing) {
  HandShard shard(2);
  shard.create(sum_table(Consistency::kAsp));
  RequestHeader tune = shard.push_header(1, WorkerId{1}, 0);
  tune.kind = Kind::kTune;
  tune.rate = -2;
  shard.one(tune);
  const std::uint64_t before = shard.core.digest();
  tune.worker = WorkerId{2};
  EXPECT_EQ(shard.one(tune).header.error, 0);
  EXPECT_EQ(shard.core.digest(), before);
}

}  // namespace
}  // namespace dlrun::ps

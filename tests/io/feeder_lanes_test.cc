// Inputs with lanes: the order of a pass, its ends, and where a commit goes on.

#include "tests/io/feeder_fixture.h"

namespace dlrun::io {
namespace {

/// The ids of a batch's rows.
using Batch = std::vector<std::uint64_t>;

/// A consumer as libdlrun is one.
struct Reader {
  std::unique_ptr<PipeReader> pipe;
  InputCursor cursor;
  std::vector<std::pair<std::uint32_t, Batch>> batches;  ///< pass, rows
  bool ended = false;

  /// One more batch, or step without rows; false at the end of the pass or of all.
  bool step() {
    for (;;) {
      const auto view = pipe->next(20s);
      if (!view) {
        EXPECT_EQ(view.error().code, Errc::kEndOfData) << view.error().to_string();
        ended = true;
        return false;
      }
      cursor.begun = true;
      if (view->pass_ended) {
        if (view->pass + 1 <= cursor.pass) continue;  // of a pass that is behind it
        cursor.pass = view->pass + 1;
        cursor.step = 0;
        return false;
      }
      EXPECT_TRUE(view->lane);
      if (!view->lane) return false;
      cursor.pass = view->lane->pass;
      cursor.step = view->lane->step;
      Batch rows;
      if (!view->no_rows) {
        std::erase_if(cursor.lanes,
                      [&](const LanePosition& at) { return at.lane == view->lane->lane; });
        cursor.lanes.push_back(*view->lane);
        for (std::size_t row = 0; row < view->rows; ++row)
          rows.push_back(view->ids[static_cast<std::size_t>(view->offsets[row])]);
      }
      batches.emplace_back(cursor.pass, std::move(rows));
      pipe->release(*view);
      return true;
    }
  }
};

class FeederLanes : public FeederTest {
 protected:
  void SetUp() override {
    FeederTest::SetUp();
    spec_.mode = Mode::kDeterministic;
    spec_.lanes = 6;
    spec_.split_bytes = 300;
    spec_.batch_rows = 7;
  }
  void serve(std::uint32_t world, const std::optional<LedgerState>& from = {}) {
    feeder_.reset();
    start();
    link_->set_world(world);
    if (from) link_->begin_from(*from);
    readers_.clear();
    readers_.resize(world);
    for (std::uint32_t rank = 0; rank < world; ++rank) {
      feeder_->admit({token_of(rank), worker(static_cast<std::uint8_t>(rank)), {}, spec_});
      attach_again(rank);
    }
  }
  static cluster::Token token_of(std::uint32_t rank) {
    return token(static_cast<std::uint8_t>(rank + 1));
  }
  void attach_again(std::uint32_t rank) {
    Reader& reader = readers_[rank];
    reader.cursor.input = "train";
    std::vector<LanePosition> lanes;
    if (reader.cursor.begun)
      lanes.push_back({pipe::kNoLane, reader.cursor.pass, reader.cursor.step, 0, 0});
    lanes.insert(lanes.end(), reader.cursor.lanes.begin(), reader.cursor.lanes.end());
    auto opened =
        PipeReader::attach((dir_ / "feeder.sock").string(), token_of(rank), 20s, {}, lanes);
    ASSERT_TRUE(opened) << opened.error().to_string();
    reader.pipe = std::move(*opened);
  }
  /// In lockstep, as a gang trains: the batches in the order of the steps, then ranks.
  std::vector<Batch> lockstep(int steps_max = 1 << 20) {
    std::vector<Batch> all;
    for (int step = 0; step < steps_max; ++step) {
      bool any = false;
      for (Reader& reader : readers_) {
        if (reader.ended || !reader.step()) continue;
        any = true;
        all.push_back(reader.batches.back().second);
      }
      if (!any &&
          std::all_of(readers_.begin(), readers_.end(), [](const Reader& r) { return r.ended; }))
        break;
    }
    return all;
  }
  Result<LedgerState> commit() {
    std::vector<ConsumerCursor> cursors;
    for (std::uint32_t rank = 0; rank < readers_.size(); ++rank)
      cursors.push_back({worker(static_cast<std::uint8_t>(rank)), {readers_[rank].cursor}});
    return link_->commit(cursors);
  }
  static std::multiset<std::uint64_t> rows_of(const std::vector<Batch>& batches) {
    std::multiset<std::uint64_t> rows;
    for (const Batch& batch : batches) rows.insert(batch.begin(), batch.end());
    return rows;
  }
  std::vector<Reader> readers_;
};

TEST_F(FeederLanes, TheOrderOfAPassIsTheSameForEveryNumberOfConsumers) {
  write_rows({300, 0, 211, 90});
  std::vector<Batch> expected;
  for (const std::uint32_t world : {1u, 2u, 3u, 6u}) {
    serve(world);
    const auto got = lockstep();
    EXPECT_EQ(rows_of(got), every_row());
    if (expected.empty()) expected = got;
    // Where lanes have ended, ranks that have some left step alone: the order of those is by rank.
    constexpr std::size_t whole = 48;  // eight rounds, which every lane has
    ASSERT_GT(got.size(), whole);
    for (std::size_t i = 0; i < whole; ++i) ASSERT_EQ(got[i], expected[i]) << world << " " << i;
  }
  spec_.seed = 2;
  serve(1);
  EXPECT_NE(lockstep(), expected);
}

TEST_F(FeederLanes, AfterACommitTheOrderGoesOnBitByBitWithAnyNumberOfConsumers) {
  write_rows({300, 0, 211, 90});
  spec_.passes = 2;
  serve(1);
  const auto expected = lockstep();
  std::multiset<std::uint64_t> twice = every_row();
  twice.merge(every_row());
  ASSERT_EQ(rows_of(expected), twice);
  for (int stop = 0; stop < 30; stop += 3) {
    serve(3);
    auto got = lockstep(stop);
    const auto state = commit();
    ASSERT_TRUE(state) << state.error().to_string();
    (void)lockstep(2);  // not committed
    serve(stop % 2 == 0 ? 2 : 6, *state);
    const std::size_t before = got.size(), world = readers_.size();
    const auto rest = lockstep();
    got.insert(got.end(), rest.begin(), rest.end());
    EXPECT_EQ(rows_of(got), rows_of(expected)) << "after " << stop << " steps";
    // Each step is the next batches of the order, whoever gets which.
    for (std::size_t at = 0; at + world <= 48; at += at < before ? 1 : world) {
      const std::size_t n = at < before ? 1 : world;
      const auto place = static_cast<std::ptrdiff_t>(at),
                 end = place + static_cast<std::ptrdiff_t>(n);
      EXPECT_EQ(std::set(got.begin() + place, got.begin() + end),
                std::set(expected.begin() + place, expected.begin() + end))
          << "after " << stop << " steps, batch " << at;
    }
  }
}

TEST_F(FeederLanes, AFeederThatFollowsAnotherGoesOnAtTheStep) {
  write_rows({300, 0, 211, 90});
  serve(2);
  const auto expected = lockstep();
  serve(2);
  std::vector<Batch> got;
  for (int life = 0; life < 200; ++life) {
    const auto some = lockstep(3);
    got.insert(got.end(), some.begin(), some.end());
    if (readers_[0].ended && readers_[1].ended) break;
    FeederOptions options;
    options.socket_path = (dir_ / "feeder.sock").string();
    feeder_.reset();
    feeder_ = std::make_unique<Feeder>(options, source_, *link_);
    ASSERT_TRUE(feeder_->start());
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      feeder_->admit({token_of(rank), worker(static_cast<std::uint8_t>(rank)), {}, spec_});
      attach_again(rank);
    }
  }
  EXPECT_EQ(got, expected);
}

TEST_F(FeederLanes, EndsAreEqualAsTheRuleSays) {
  write_rows({300, 0, 211, 90});
  spec_.passes = 2;
  for (const Ends ends : {Ends::kDrop, Ends::kPad, Ends::kWrap}) {
    spec_.ends = ends;
    serve(3);
    (void)lockstep();
    const auto all = every_row();
    std::multiset<std::uint64_t> twice = all;
    twice.insert(all.begin(), all.end());
    std::multiset<std::uint64_t> rows;
    std::map<std::uint32_t, std::set<std::size_t>> steps;  // of each pass, over the ranks
    bool padded = false;
    for (const Reader& reader : readers_) {
      std::map<std::uint32_t, std::size_t> mine;
      for (const auto& [pass, batch] : reader.batches) {
        ++mine[pass];
        rows.insert(batch.begin(), batch.end());
        padded = padded || batch.empty();
        if (ends == Ends::kDrop) {
          EXPECT_EQ(batch.size(), 7u) << "full ones only";
        }
      }
      for (const auto& [pass, n] : mine) steps[pass].insert(n);
    }
    for (std::uint32_t pass = 0; pass < 2; ++pass) EXPECT_EQ(steps[pass].size(), 1u);
    if (ends == Ends::kPad) {
      EXPECT_EQ(rows, twice);
      EXPECT_TRUE(padded);
    } else if (ends == Ends::kDrop) {
      EXPECT_LT(rows.size(), twice.size());
      EXPECT_GT(rows.size(), twice.size() / 2);
      for (const std::uint64_t id : std::set(rows.begin(), rows.end()))
        EXPECT_LE(rows.count(id), 2u);
    } else {
      EXPECT_FALSE(padded);
      for (const std::uint64_t id : all) EXPECT_GE(rows.count(id), 2u);
    }
  }
}

TEST_F(FeederLanes, SkipAndTakeCutEveryPass) {
  write_rows({300, 0, 211, 90});
  serve(1);
  const auto expected = lockstep();
  spec_.skip_batches = 10;
  spec_.take_batches = 24;
  spec_.passes = 2;
  for (const std::uint32_t world : {1u, 2u, 3u}) {
    serve(world);
    const auto got = lockstep();
    ASSERT_EQ(got.size(), 48u) << world;
    if (world == 1) {
      for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(got[i], expected[10 + i]);
    }
    const std::vector<Batch> first(got.begin(), got.begin() + 24);
    EXPECT_EQ(rows_of(first), rows_of({expected.begin() + 10, expected.begin() + 34})) << world;
  }
}

TEST_F(FeederLanes, PassesEndTogetherAlsoWhereLanesEndWithinWhatIsSkipped) {
  write_rows({300, 0, 211, 90});
  serve(1);
  const std::size_t batches = lockstep().size();
  ASSERT_GT(batches, 80u);
  for (const std::uint64_t skip : {batches - 20, batches - 8, batches - 1, batches + 30}) {
    spec_.skip_batches = skip;
    spec_.ends = Ends::kUneven;
    serve(1);
    const auto expected = rows_of(lockstep());
    for (const Ends ends : {Ends::kDrop, Ends::kPad, Ends::kWrap})
      for (const std::uint32_t world : {1u, 3u}) {
        spec_.ends = ends;
        serve(world);
        const auto got = rows_of(lockstep());
        std::set<std::size_t> steps;
        for (const Reader& reader : readers_) {
          EXPECT_TRUE(reader.ended) << "skip " << skip;
          steps.insert(reader.batches.size());
        }
        EXPECT_EQ(steps.size(), 1u) << "skip " << skip << " of " << world;
        if (ends == Ends::kPad) {
          EXPECT_EQ(got, expected) << "skip " << skip << " of " << world;
        }
      }
  }
}

TEST_F(FeederLanes, ACommitAmongStepsThatWrapMakesNoPassLonger) {
  write_rows({10, 100, 60});  // a file each: the first begins anew seven times
  spec_.mode = Mode::kStatic;
  spec_.static_by = StaticBy::kFiles;
  spec_.ends = Ends::kWrap;
  serve(3);
  (void)lockstep();
  std::vector<std::vector<std::pair<std::uint32_t, Batch>>> expected;
  for (const Reader& reader : readers_) {
    EXPECT_EQ(reader.batches.size(), 15u);
    expected.push_back(reader.batches);
  }
  for (const int stop : {0, 3, 7, 12, 15}) {
    serve(3);
    (void)lockstep(stop);
    const auto state = commit();
    ASSERT_TRUE(state) << state.error().to_string();
    const auto before = std::move(readers_);
    serve(3, *state);
    (void)lockstep();
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      auto all = before[rank].batches;
      all.insert(all.end(), readers_[rank].batches.begin(), readers_[rank].batches.end());
      EXPECT_EQ(all, expected[rank]) << "rank " << rank << " after " << stop << " steps";
    }
  }
}

TEST_F(FeederLanes, StaticPartsAreTheSameInEveryPassAndGoOnAfterACommit) {
  write_rows({120, 80, 200, 40});
  spec_.mode = Mode::kStatic;
  spec_.passes = 2;
  for (const StaticBy by : {StaticBy::kFiles, StaticBy::kBytes}) {
    spec_.static_by = by;
    serve(3);
    (void)lockstep();
    std::vector<std::vector<std::pair<std::uint32_t, Batch>>> expected;
    std::multiset<std::uint64_t> first;
    for (const Reader& reader : readers_) {
      std::set<std::uint64_t> part[2];
      for (const auto& [pass, batch] : reader.batches)
        part[pass].insert(batch.begin(), batch.end());
      EXPECT_EQ(part[0], part[1]);
      first.insert(part[0].begin(), part[0].end());
      expected.push_back(reader.batches);
    }
    EXPECT_EQ(first, every_row());
    serve(3);
    (void)lockstep(5);
    (void)readers_[1].step();  // each for itself
    const auto state = commit();
    ASSERT_TRUE(state) << state.error().to_string();
    auto before = std::move(readers_);
    serve(3, *state);
    (void)lockstep();
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      auto all = before[rank].batches;
      all.insert(all.end(), readers_[rank].batches.begin(), readers_[rank].batches.end());
      EXPECT_EQ(all, expected[rank]);
    }
  }
}

TEST_F(FeederLanes, ConsumersThatCannotShareTheLanesAreToldAtAttach) {
  write_rows({300});
  start();
  link_->set_world(4);
  feeder_->admit({token_of(0), worker(0), {}, spec_});
  const auto opened = PipeReader::attach((dir_ / "feeder.sock").string(), token_of(0), 20s);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(opened.error().context, HasSubstr("6 lanes cannot be dealt to 4 consumers"));
}

TEST_F(FeederLanes, ADynamicCommitIsNotGivenAgainAndNothingIsLeftOut) {
  write_rows({300, 0, 211, 90});
  spec_.mode = Mode::kDynamic;
  for (const bool shuffle : {false, true}) {
    spec_.shuffle = shuffle;
    for (int stop = 0; stop < 40; stop += 3) {
      std::multiset<std::uint64_t> rows;
      std::optional<LedgerState> state;
      for (const int batches : {stop, 5, 1 << 20}) {
        feeder_.reset();
        start();
        if (state) link_->begin_from(*state);
        admit(1);
        TakenSplits taken;
        auto pipe = attach(1);
        ASSERT_TRUE(pipe) << pipe.error().to_string();
        for (int i = 0; i < batches;) {
          const auto view = (*pipe)->next(20s);
          if (!view) {
            ASSERT_EQ(view.error().code, Errc::kEndOfData) << view.error().to_string();
            break;
          }
          if (view->pass_ended) continue;
          ++i;
          taken.take(view->pieces);
          taken.release(view->pieces);
          for (std::size_t row = 0; row < view->rows; ++row)
            rows.insert(view->ids[static_cast<std::size_t>(view->offsets[row])]);
          (*pipe)->release(*view);
        }
        InputCursor cursor;
        cursor.input = "train";
        cursor.splits = taken.progress();
        const auto made = link_->commit({{worker(1), {cursor}}});
        ASSERT_TRUE(made) << made.error().to_string();
        state = *made;
      }
      EXPECT_EQ(rows, every_row()) << "after " << stop << " batches";
    }
  }
}

TEST_F(FeederLanes, SourcesWithWeightsAreMixedInTheirShares) {
  write_rows({400, 400});
  spec_.mode = Mode::kDynamic;
  spec_.uris = {dir_.string() + "/data/part-0", dir_.string() + "/data/part-1"};
  spec_.weights = {3, 1};
  spec_.passes = 3;
  start();
  admit(1);
  const Seen seen = read_all(1);
  EXPECT_EQ(seen.end.code, Errc::kEndOfData);
  std::size_t of_first = 0, all = 0;
  for (const auto& [pass, rows] : seen.rows)
    for (const std::uint64_t id : rows) {
      of_first += id < 400 ? 1 : 0;
      ++all;
    }
  EXPECT_NEAR(static_cast<double>(of_first) / static_cast<double>(all), 0.75, 0.03);
}

}  // namespace
}  // namespace dlrun::io

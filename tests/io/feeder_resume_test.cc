// What a consumer took survives whoever fed it: the next feeder goes on at the row.

#include "tests/io/feeder_fixture.h"

namespace dlrun::io {
namespace {

/// A consumer as libdlrun is one: it attaches again with what it has, and may hold a batch over
/// that.
struct Reader {
  struct Held {
    std::shared_ptr<PipeReader> pipe;
    BatchView view;
    std::vector<SplitPiece> pieces;
  };
  TakenSplits taken;
  Rows rows;
  std::shared_ptr<PipeReader> pipe;
  std::optional<Held> held;
  bool ended = false;

  void release() {
    if (!held) return;
    taken.release(held->pieces);
    held->pipe->release(held->view);
    held.reset();
  }
  /// At most `batches` more, each released before the next; true at the end of the data.
  bool read(int batches) {
    for (int i = 0; i < batches; ++i) {
      release();
      const auto view = pipe->next(20s);
      if (!view) {
        ended = view.error().code == Errc::kEndOfData;
        EXPECT_TRUE(ended || view.error().code == Errc::kUnavailable) << view.error().to_string();
        return ended;
      }
      if (view->pass_ended) continue;
      std::uint64_t said = 0;
      for (const SplitPiece& piece : view->pieces) said += piece.rows;
      EXPECT_EQ(said, view->rows);
      held = Held{pipe, *view, {view->pieces.begin(), view->pieces.end()}};
      taken.take(held->pieces);
      for (std::size_t row = 0; row < view->rows; ++row)
        rows[view->pass].insert(view->ids[static_cast<std::size_t>(view->offsets[row])]);
    }
    return false;
  }
};

class FeederResume : public FeederTest {
 protected:
  void attach_again(Reader& reader, std::uint8_t n) {
    auto pipe =
        PipeReader::attach((dir_ / "feeder.sock").string(), token(n), 20s, reader.taken.progress());
    ASSERT_TRUE(pipe) << pipe.error().to_string();
    reader.pipe = std::move(*pipe);
  }
  /// The ledger stays; the feeder is another one.
  void next_feeder(std::uint8_t consumers) {
    feeder_.reset();
    FeederOptions options;
    options.socket_path = (dir_ / "feeder.sock").string();
    feeder_ = std::make_unique<Feeder>(options, source_, *link_);
    ASSERT_TRUE(feeder_->start());
    for (std::uint8_t n = 1; n <= consumers; ++n) admit(n);
  }
};

TEST_F(FeederResume, NoRowComesTwiceAndNoneIsLeftOutHoweverOftenTheFeederDies) {
  write_rows({700, 0, 333, 1});
  for (const bool shuffle : {false, true}) {
    spec_.shuffle = shuffle;
    spec_.passes = 2;
    spec_.split_bytes = 700;  // several batches a split, several splits a feeder
    start();
    admit(1);
    admit(2);
    Reader one, two;
    for (int life = 0; !(one.ended && two.ended); ++life) {
      ASSERT_LT(life, 200);
      for (Reader* reader : {&one, &two})
        if (!reader->ended) attach_again(*reader, reader == &one ? 1 : 2);
      for (Reader* reader : {&one, &two})
        if (!reader->ended) reader->read(1 + life % 7);
      if (life % 2 == 0) one.release();
      if (life % 3 == 2) link_->lose_every(2);  // the news of it is lost on the way, too
      next_feeder(2);
      link_->lose_every(0);
      for (Reader* reader : {&one, &two})
        if (!reader->ended) reader->read(100);  // what the dead one had published
    }
    for (std::uint32_t pass = 0; pass < 2; ++pass) {
      auto all = one.rows[pass];
      all.merge(two.rows[pass]);
      EXPECT_EQ(all, every_row()) << "pass " << pass << (shuffle ? ", shuffled" : "");
    }
    const auto counts = link_->counts("train");
    EXPECT_TRUE(link_->wait_done("train", 2 * counts.splits, 10s));
    EXPECT_EQ(link_->counts("train").leased, 0u);
    feeder_.reset();
  }
}

TEST_F(FeederResume, WhatWasReleasedIsOnRecordWhenTheEndIsTold) {
  write_rows({300});
  start();
  admit(1);
  Reader reader;
  attach_again(reader, 1);
  while (!reader.read(1)) {
  }
  const auto counts = link_->counts("train");
  EXPECT_EQ(counts.done, counts.splits) << "without waiting";
}

TEST_F(FeederResume, ManySmallSplitsCostFewRequests) {
  write_rows({20000});
  spec_.split_bytes = 60;  // about two rows
  start();
  admit(1);
  Reader reader;
  attach_again(reader, 1);
  while (!reader.read(100)) {
  }
  EXPECT_EQ(reader.rows.at(0), every_row());
  EXPECT_GT(link_->counts("train").splits, 8000u);
  EXPECT_LT(link_->requests(), 400);
}

TEST_F(FeederResume, ADroppedConsumerIsReportedGoneAfterItsLastNews) {
  write_rows({500});
  start();
  admit(1);
  Reader reader;
  attach_again(reader, 1);
  reader.read(20);
  reader.release();
  reader.pipe.reset();  // its process ended
  feeder_->drop(worker(1));
  ASSERT_TRUE(link_->wait_gone(worker(1), 10s));
  std::uint64_t whole = 0;
  for (const SplitProgress& at : reader.taken.progress()) whole += at.whole;
  EXPECT_GT(whole, 10u);
  EXPECT_EQ(link_->counts("train").done, whole);
  feeder_->drop(worker(7));
  EXPECT_TRUE(link_->wait_gone(worker(7), 10s)) << "also one that it does not know";
}

TEST_F(FeederResume, AnAttachWaitsAsLongAsItsConsumerForACoordinatorThatIsAway) {
  write_rows({50});
  FeederOptions options;
  options.limits.request_timeout = 5ms;
  start(options);
  admit(1);
  admit(2);
  link_->close(true);
  Reader reader;
  std::thread back([&] {
    EXPECT_TRUE(link_->wait_files_told(4, 20s));
    link_->close(false);
  });
  attach_again(reader, 1);
  back.join();
  while (!reader.read(100)) {
  }
  EXPECT_EQ(reader.rows.at(0), every_row());
  reader.pipe.reset();
  // One that went is waited for no longer.
  link_->close(true);
  auto impatient = PipeReader::attach((dir_ / "feeder.sock").string(), token(2), 50ms);
  ASSERT_FALSE(impatient);
  EXPECT_EQ(impatient.error().code, Errc::kDeadlineExceeded);
  EXPECT_TRUE(eventually([&] { return feeder_->attached() == 0; }));
}

TEST_F(FeederResume, ProgressThatCannotBeIsIgnored) {
  write_rows({50});
  start();
  admit(1);
  Reader reader;
  const SplitPiece nonsense[] = {{1u << 30, 5, 0, 0}, {~0ull, 1, 7, 1}, {0, ~0ull, 900, 0}};
  reader.taken.take(nonsense);
  attach_again(reader, 1);
  while (!reader.read(100)) {
  }
  EXPECT_EQ(reader.rows.at(0), every_row());
}

TEST(TakenSplits, ForgetsOnlyWhatWasReleasedLongAgo) {
  TakenSplits taken;
  const SplitPiece held[] = {{7, 3, 0, 1}};
  taken.take(held);
  for (std::uint64_t i = 100; i < 100 + 3 * TakenSplits::kKept; ++i) {
    const SplitPiece piece[] = {{i, 1, 0, 1}};
    taken.take(piece);
    taken.release(piece);
  }
  const auto progress = taken.progress();
  EXPECT_EQ(progress.size(), TakenSplits::kKept + 1);
  EXPECT_EQ(progress.front(), (SplitProgress{7, 3, 0, 1})) << "held all the time";
  EXPECT_EQ(progress.back().split_id, 99 + 3 * TakenSplits::kKept);
}

}  // namespace
}  // namespace dlrun::io

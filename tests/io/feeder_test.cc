#include "tests/io/feeder_fixture.h"

namespace dlrun::io {
namespace {

TEST_F(FeederTest, GivesOneConsumerEveryRowOfEveryPassAndTellsWhatIsDone) {
  write_rows({300, 0, 57, 1});
  spec_.passes = 3;
  start();
  admit(1);
  const Seen seen = read_all(1);
  EXPECT_EQ(seen.end.code, Errc::kEndOfData) << seen.end.to_string();
  EXPECT_EQ(seen.marks, (std::vector<std::uint32_t>{0, 1, 2}));
  for (std::uint32_t pass = 0; pass < 3; ++pass) EXPECT_EQ(seen.rows.at(pass), every_row());
  const auto counts = link_->counts("train");
  EXPECT_TRUE(link_->wait_done("train", 3 * counts.splits, 10s));
}

TEST_F(FeederTest, FillsBatchesAcrossSplitsSoThatOnlyTheLastOfAPassIsShort) {
  write_rows({333});
  spec_.passes = 2;
  start();
  admit(1);
  const Seen seen = read_all(1);
  std::vector<std::uint64_t> expected;
  for (int pass = 0; pass < 2; ++pass) {
    expected.insert(expected.end(), 33, 10);
    expected.push_back(3);
  }
  EXPECT_EQ(seen.batch_rows, expected);
}

TEST_F(FeederTest, ShufflesRowsBySeedAndPassAndKeepsTheirOrderWithoutShuffle) {
  write_rows({400});
  spec_.split_bytes = 4000;
  spec_.passes = 2;
  const auto order = [&](bool shuffle, std::uint64_t seed) {
    spec_.shuffle = shuffle;
    spec_.seed = seed;
    start();
    admit(1);
    const Seen seen = read_all(1);
    feeder_.reset();
    return seen.order;
  };
  std::vector<std::uint64_t> plain;
  for (int pass = 0; pass < 2; ++pass)
    for (std::uint64_t id = 0; id < rows_; ++id) plain.push_back(id);
  EXPECT_EQ(order(false, 1), plain);
  const auto first = order(true, 1);
  EXPECT_EQ(order(true, 1), first);
  EXPECT_NE(order(true, 2), first);
  EXPECT_NE(std::vector(first.begin(), first.begin() + 400),
            std::vector(first.begin() + 400, first.end()));
  std::size_t neighbours = 0;  // rows of one split are shuffled too, not only the splits
  for (std::size_t i = 1; i < first.size(); ++i) neighbours += first[i] == first[i - 1] + 1;
  EXPECT_LT(neighbours, 40u);
}

TEST_F(FeederTest, DealsSplitsToWhoeverIsIdleSoThatASlowConsumerHoldsUpNobody) {
  write_rows({2000, 1000});
  spec_.passes = 2;
  start();
  Seen fast, slow;
  admit(1);
  admit(2);
  std::thread a([&] { fast = read_all(1); });
  std::thread b([&] { slow = read_all(2, 10ms); });
  a.join();
  b.join();
  EXPECT_EQ(fast.end.code, Errc::kEndOfData);
  EXPECT_EQ(slow.end.code, Errc::kEndOfData);
  EXPECT_GT(fast.order.size(), slow.order.size());
  EXPECT_EQ(fast.marks, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(slow.marks, (std::vector<std::uint32_t>{0, 1}));
  for (std::uint32_t pass = 0; pass < 2; ++pass) {
    auto all = fast.rows[pass];
    all.merge(slow.rows[pass]);
    EXPECT_EQ(all, every_row());
  }
  EXPECT_TRUE(link_->wait_done("train", 2 * link_->counts("train").splits, 10s));
}

TEST_F(FeederTest, ReadsNothingTwiceWhenAnswersAreLost) {
  write_rows({2000});
  start();
  link_->lose_every(3);
  admit(1);
  const Seen seen = read_all(1);
  EXPECT_EQ(seen.end.code, Errc::kEndOfData) << seen.end.to_string();
  EXPECT_EQ(seen.rows.at(0), every_row());
  EXPECT_GT(link_->resyncs(), 1);
  EXPECT_TRUE(link_->wait_done("train", link_->counts("train").splits, 10s));
}

TEST_F(FeederTest, GoesOnWithWhatIsLeasedWhileTheCoordinatorIsAway) {
  write_rows({400});
  spec_.split_bytes = 2000;
  start();
  admit(1);
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  const auto first = (*reader)->next(20s);
  ASSERT_TRUE(first);
  EXPECT_TRUE(eventually([&] { return link_->counts("train").leased >= 3; }));
  link_->close(true);
  std::uint64_t rows = first->rows;
  (*reader)->release(*first);
  while (rows < 150) {  // two splits of about 80 rows lie ahead
    const auto view = (*reader)->next(5s);
    ASSERT_TRUE(view) << view.error().to_string();
    rows += view->rows;
    (*reader)->release(*view);
  }
  link_->close(false);
  for (;;) {
    const auto view = (*reader)->next(20s);
    if (!view) {
      EXPECT_EQ(view.error().code, Errc::kEndOfData);
      break;
    }
    rows += view->rows;
    (*reader)->release(*view);
  }
  EXPECT_EQ(rows, rows_);
}

TEST_F(FeederTest, CountsASplitAsDoneOnlyWhenItsBatchesWereReleased) {
  write_rows({10});
  spec_.split_bytes = 100000;
  start();
  admit(1);
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  const auto view = (*reader)->next(20s);
  ASSERT_TRUE(view);
  EXPECT_TRUE((*reader)->next(20s)->pass_ended);
  EXPECT_EQ((*reader)->next(20s).error().code, Errc::kEndOfData);
  EXPECT_EQ(link_->counts("train").done, 0u);
  (*reader)->release(*view);
  EXPECT_TRUE(link_->wait_done("train", 1, 10s));
}

TEST_F(FeederTest, GivesAReattachedConsumerAgainWhatItHadNotReleased) {
  write_rows({500});
  start();
  admit(1);
  Rows released;
  {
    auto reader = attach(1);
    ASSERT_TRUE(reader);
    for (int i = 0; i < 12; ++i) {
      const auto view = (*reader)->next(20s);
      ASSERT_TRUE(view);
      (*reader)->release(*view);
    }
    ASSERT_TRUE((*reader)->next(20s));  // held when it goes
  }
  ASSERT_TRUE(eventually([&] { return feeder_->attached() == 0; }));
  const std::uint64_t done = link_->counts("train").done;
  EXPECT_GT(done, 0u);
  const Seen again = read_all(1);
  EXPECT_EQ(again.end.code, Errc::kEndOfData);
  EXPECT_TRUE(link_->wait_done("train", link_->counts("train").splits, 10s));
  // the second reader saw the rows of exactly the splits that were not done
  EXPECT_LT(again.order.size(), rows_);
  EXPECT_GE(again.order.size(), rows_ - 120);
  EXPECT_EQ(std::set(again.order.begin(), again.order.end()).size(), again.order.size());
}

// ---- who may attach

TEST_F(FeederTest, LetsInOnlyAdmittedTokensOnceAtATime) {
  write_rows({10});
  FeederOptions options;
  options.admit_wait = 100ms;
  start(options);
  admit(1);
  EXPECT_EQ(attach(9).error().code, Errc::kPermissionDenied);
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  EXPECT_EQ(attach(1).error().code, Errc::kAlreadyExists);
  EXPECT_TRUE((*reader)->next(20s)) << "the first one is not disturbed";
}

TEST_F(FeederTest, WaitsForAnAdmissionThatComesAfterTheConsumer) {
  write_rows({10});
  start();
  Seen seen;
  std::thread early([&] { seen = read_all(1); });
  std::this_thread::sleep_for(50ms);  // whichever comes first, it must work
  admit(1);
  early.join();
  EXPECT_EQ(seen.rows.at(0), every_row());
}

TEST_F(FeederTest, BoundsHowManyConsumersItServes) {
  write_rows({10});
  FeederOptions options;
  options.consumers_max = 1;
  start(options);
  admit(1);
  admit(2);
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  EXPECT_EQ(attach(2).error().code, Errc::kResourceExhausted);
}

TEST_F(FeederTest, ADroppedConsumerIsCutOffAndMayNotComeBack) {
  write_rows({1000});
  FeederOptions options;
  options.admit_wait = 50ms;
  start(options);
  admit(1);
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  ASSERT_TRUE((*reader)->next(20s));
  feeder_->drop(worker(1));
  for (;;) {
    const auto view = (*reader)->next(20s);
    if (view) continue;
    EXPECT_EQ(view.error().code, Errc::kUnavailable);
    break;
  }
  EXPECT_EQ(attach(1).error().code, Errc::kPermissionDenied);
}

TEST_F(FeederTest, StrangersThatTalkNonsenseAreTurnedAway) {
  write_rows({10});
  FeederOptions options;
  options.admit_wait = 200ms;
  start(options);
  admit(1);
  std::vector<pipe::Fd> silent;
  for (int i = 0; i < 50; ++i) {
    auto socket = pipe::connect_unix((dir_ / "feeder.sock").string());
    ASSERT_TRUE(socket);
    if (i % 2 == 0) {
      const std::string noise(static_cast<std::size_t>(1 + i), 'x');
      (void)pipe::send_message(socket->get(), std::as_bytes(std::span(noise)), {});
    }
    silent.push_back(std::move(*socket));
  }
  EXPECT_EQ(read_all(1).rows.at(0), every_row());
}

// ---- input that cannot be read

TEST_F(FeederTest, AttachSaysWhatIsWrongWithTheInput) {
  start();
  admit(1);
  const auto nothing = attach(1);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Errc::kNotFound);
  ASSERT_TRUE(eventually([&] { return feeder_->attached() == 0; }));
  write_rows({10});
  ASSERT_TRUE(attach(1));
  ASSERT_TRUE(eventually([&] { return feeder_->attached() == 0; }));
  write_rows({10, 10});
  const auto changed = attach(1);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Errc::kFailedPrecondition);
  EXPECT_THAT(changed.error().context, HasSubstr("part-"));
}

TEST_F(FeederTest, ABadRecordEndsTheInputWithItsPlace) {
  write_rows({100});
  std::ofstream(dir_ / "data" / "part-0", std::ios::app) << "1 5:1 7:nan\n";
  spec_.shuffle = false;
  start();
  admit(1);
  const Seen seen = read_all(1);
  EXPECT_EQ(seen.end.code, Errc::kInvalidArgument);
  EXPECT_THAT(seen.end.context, HasSubstr((dir_ / "data/part-0").string() + ": offset "));
  EXPECT_THAT(seen.end.context, HasSubstr(", line 101, column 9: value: not finite"));
}

TEST_F(FeederTest, SkipsAtMostAsManyBadRecordsAsTheJobAllows) {
  write_rows({100});
  {
    std::ofstream out(dir_ / "data" / "part-0", std::ios::app);
    out << "1 5:1 7:inf\n" << std::string(700 * 1024, 'x') << "\n1 100:1 1000100:100.5\n";
  }
  spec_.on_bad_record = OnBadRecord::kSkip;
  spec_.bad_records_max = 2;
  rows_ = 100;
  start();
  admit(1);
  // the row after the bad ones has id 100 and label 1: read it without the checks of read_all
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  std::uint64_t rows = 0;
  for (;;) {
    const auto view = (*reader)->next(20s);
    if (!view) {
      EXPECT_EQ(view.error().code, Errc::kEndOfData) << view.error().to_string();
      break;
    }
    rows += view->rows;
    (*reader)->release(*view);
  }
  EXPECT_EQ(rows, 101u);
  feeder_.reset();
  spec_.bad_records_max = 1;
  start();
  admit(1);
  const Seen seen = read_all(1);
  EXPECT_EQ(seen.end.code, Errc::kInvalidArgument);
  EXPECT_THAT(seen.end.context, HasSubstr("more than 1 bad records"));
}

TEST_F(FeederTest, ReadsCompressedFilesByTheirContentEachWholeInOneSplit) {
  write_rows({400, 300, 50});
  pack("part-0", "part-0");
  pack("part-1", "part-1.txt");  // the name tells nothing
  start();
  admit(1);
  admit(2);
  Seen seen, other;
  std::thread second([&] { other = read_all(2); });
  seen = read_all(1);
  second.join();
  EXPECT_EQ(seen.end.code, Errc::kEndOfData) << seen.end.to_string();
  std::multiset<std::uint64_t> rows = seen.rows[0];
  rows.insert(other.rows[0].begin(), other.rows[0].end());
  EXPECT_EQ(rows, every_row());
}

TEST_F(FeederTest, ADamagedCompressedFileIsAnErrorOrOneBadRecordThatTakesItsRest) {
  write_rows({4000, 50});
  pack("part-0", "part-0");
  const fs::path damaged = dir_ / "data" / "part-0";
  const std::uint64_t half = fs::file_size(damaged) / 2;
  fs::resize_file(damaged, half);
  spec_.shuffle = false;
  start();
  admit(1);
  const Seen fails = read_all(1);
  EXPECT_EQ(fails.end.code, Errc::kInvalidArgument);
  EXPECT_THAT(fails.end.context, HasSubstr(damaged.string() + ": offset "));
  EXPECT_THAT(fails.end.context, HasSubstr("column 1: gzip, byte " + std::to_string(half) +
                                           " of the file: the file ends"));
  feeder_.reset();
  spec_.on_bad_record = OnBadRecord::kSkip;
  spec_.bad_records_max = 1;
  start();
  admit(1);
  Seen skips = read_all(1);
  EXPECT_EQ(skips.end.code, Errc::kEndOfData) << skips.end.to_string();
  const std::multiset<std::uint64_t>& rows = skips.rows[0];
  EXPECT_GT(rows.size(), 1000u);
  EXPECT_LT(rows.size(), 4050u);
  EXPECT_EQ(rows.count(0), 1u);
  EXPECT_EQ(rows.count(4049), 1u);  // the next file is read whole
  EXPECT_EQ(rows.count(4000), 1u);
}

TEST_F(FeederTest, AFileThatChangesWhileItIsReadIsAnError) {
  write_rows({5000});
  start();
  admit(1);
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  ASSERT_TRUE((*reader)->next(20s));
  std::ofstream(dir_ / "data" / "part-0", std::ios::app) << "1 1:1\n";
  for (;;) {
    const auto view = (*reader)->next(20s);
    if (view) {
      (*reader)->release(*view);
      continue;
    }
    EXPECT_EQ(view.error().code, Errc::kFailedPrecondition);
    EXPECT_THAT(view.error().context, HasSubstr("part-0"));
    break;
  }
}

TEST_F(FeederTest, ARefusedLeaseReachesTheConsumer) {
  write_rows({10});
  start();
  link_->refuse_with(Errc::kStaleEpoch);
  admit(1);
  EXPECT_EQ(read_all(1).end.code, Errc::kStaleEpoch);
}

TEST_F(FeederTest, DenseRowsKeepTheWidthOfTheFirstRecordOfTheInput) {
  std::ofstream(dir_ / "data" / "a.csv") << "y,a,b\n1,2,3\n0,4,5\n";
  std::ofstream(dir_ / "data" / "b.csv") << "y,a\n1,2\n";
  spec_.format = Format::kCsv;
  spec_.header = true;
  spec_.shuffle = false;
  start();
  admit(1);
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  Result<BatchView> view = (*reader)->next(20s);
  EXPECT_EQ(view.error().code, Errc::kInvalidArgument);
  EXPECT_THAT(view.error().context,
              HasSubstr("b.csv: offset 4, line 2, column 1: 2 columns; the first record of the "
                        "input has 3"));
}

}  // namespace
}  // namespace dlrun::io

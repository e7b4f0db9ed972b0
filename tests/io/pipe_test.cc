#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "io/core/record_block.h"
#include "io/pipe/protocol.h"
#include "io/pipe/reader.h"
#include "io/pipe/segment.h"
#include "io/pipe/writer.h"
#include "runtime/base/rng.h"

namespace dlrun::io {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::size_t open_fds() {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

RecordBlock block_of(std::uint64_t first, std::uint32_t rows) {
  RecordBlock block;
  for (std::uint32_t i = 0; i < rows; ++i) {
    block.labels.push_back(static_cast<float>(i));
    block.ids.push_back(first + i);
    block.values.push_back(1);
    block.offsets.push_back(static_cast<std::int64_t>(block.values.size()));
  }
  return block;
}

class PipeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "dlrun-pipe-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    path_ = pattern + "/feeder.sock";
    auto listener = pipe::listen_unix(path_);
    ASSERT_TRUE(listener) << listener.error().to_string();
    listener_ = std::move(*listener);
  }
  void TearDown() override { fs::remove_all(dir_); }

  /// The socket of the next consumer, its hello taken in.
  pipe::Fd accept_hello() {
    pipe::PollItem item{listener_.get()};
    EXPECT_TRUE(pipe::poll_until({&item, 1}, pipe::now() + 10s).value());
    pipe::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    pipe::Hello hello;
    EXPECT_TRUE(pipe::receive_message(socket.get(), std::as_writable_bytes(std::span(&hello, 1)), 0,
                                      pipe::now() + 10s));
    EXPECT_EQ(hello.token, token_);
    return socket;
  }
  void attach(PipeGeometry geometry) {
    std::thread feeder([&] {
      auto writer = PipeWriter::create(accept_hello(), "test", geometry);
      ASSERT_TRUE(writer) << writer.error().to_string();
      writer_ = std::move(*writer);
    });
    auto reader = PipeReader::attach(path_, token_, 10s);
    feeder.join();
    ASSERT_TRUE(reader) << reader.error().to_string();
    reader_ = std::move(*reader);
  }
  bool publish(std::uint64_t first, std::uint32_t rows = 3, std::uint32_t pass = 0) {
    const auto slot = writer_->acquire();
    if (!slot) return false;
    const RecordBlock block = block_of(first, rows);
    std::vector<std::uint32_t> order(rows);
    for (std::uint32_t i = 0; i < rows; ++i) order[i] = i;
    writer_->publish(write_batch(block, order, pass, {}, *slot), pass);
    return true;
  }

  cluster::Token token_{1, 2, 3};
  fs::path dir_;
  std::string path_;
  pipe::Fd listener_;
  std::unique_ptr<PipeWriter> writer_;
  std::unique_ptr<PipeReader> reader_;
};

TEST_F(PipeTest, CarriesBatchesMarksAndTheEndInOrder) {
  attach({.slots = 4, .slot_bytes = 4096});
  ASSERT_TRUE(publish(100));
  ASSERT_TRUE(writer_->publish_pass_end(0));
  ASSERT_TRUE(publish(200, 2, 1));
  ASSERT_TRUE(writer_->publish_end_of_data());
  const auto first = reader_->next(5s);
  ASSERT_TRUE(first);
  EXPECT_THAT(first->ids, ElementsAre(100, 101, 102));
  EXPECT_THAT(first->offsets, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first->ids.data()) % 64, 0u);
  const auto mark = reader_->next(5s);
  EXPECT_TRUE(mark->pass_ended);
  EXPECT_EQ(mark->rows, 0u);
  const auto second = reader_->next(5s);
  EXPECT_EQ(second->pass, 1u);
  EXPECT_EQ(second->rows, 2u);
  EXPECT_EQ(reader_->next(5s).error().code, Errc::kEndOfData);
  EXPECT_EQ(reader_->next(0s).error().code, Errc::kEndOfData);
}

TEST_F(PipeTest, TellsTheWriterWhichBatchesWereReleasedInAnyOrder) {
  attach({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(publish(1));
  ASSERT_TRUE(publish(2));
  EXPECT_FALSE(publish(3)) << "no slot is free";
  const BatchView a = *reader_->next(5s);
  const BatchView b = *reader_->next(5s);
  EXPECT_EQ(reader_->next(0s).error().code, Errc::kOverloaded);
  std::vector<std::uint64_t> released;
  ASSERT_TRUE(writer_->collect(released));
  EXPECT_TRUE(released.empty());
  reader_->release(b);
  reader_->release(b);
  EXPECT_EQ(reader_->next(10ms).error().code, Errc::kDeadlineExceeded);
  reader_->release(a);
  ASSERT_TRUE(writer_->collect(released));
  EXPECT_THAT(released, ElementsAre(1, 0));
  EXPECT_TRUE(publish(3));
  EXPECT_THAT(reader_->next(5s)->ids, ElementsAre(3, 4, 5));
}

TEST_F(PipeTest, MovesManyBatchesBetweenTwoThreadsThatSleepAndWake) {
  attach({.slots = 3, .slot_bytes = 8192});
  constexpr std::uint64_t kBatches = 20000;
  std::thread feeder([&] {
    std::vector<std::uint64_t> released;
    for (std::uint64_t i = 0; i < kBatches;) {
      ASSERT_TRUE(writer_->collect(released));
      if (publish(i, 1 + static_cast<std::uint32_t>(i % 5), static_cast<std::uint32_t>(i)))
        ++i;
      else if (!writer_->wait(PipeWriter::WaitFor::kSlot, -1, pipe::now() + 10s))
        FAIL() << "the consumer is gone";
    }
    while (released.size() < kBatches) {
      ASSERT_TRUE(writer_->wait(PipeWriter::WaitFor::kRelease, -1, pipe::now() + 10s));
      ASSERT_TRUE(writer_->collect(released));
    }
    for (std::uint64_t i = 0; i < kBatches; ++i) ASSERT_EQ(released[i], i);
  });
  for (std::uint64_t i = 0; i < kBatches; ++i) {
    const auto view = reader_->next(10s);
    ASSERT_TRUE(view) << view.error().to_string();
    ASSERT_EQ(view->pass, i);
    ASSERT_EQ(view->rows, 1 + i % 5);
    ASSERT_EQ(view->ids[0], i);
    reader_->release(*view);
  }
  feeder.join();
}

TEST_F(PipeTest, SaysWhyTheFeederStopped) {
  attach({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(publish(1));
  ASSERT_TRUE(writer_->acquire());
  writer_->publish_error({Errc::kInvalidArgument, "/f: offset 3, line 1, column 2: not a number"});
  EXPECT_TRUE(reader_->next(5s));
  const auto end = reader_->next(5s);
  EXPECT_EQ(end.error().code, Errc::kInvalidArgument);
  EXPECT_EQ(end.error().context, "/f: offset 3, line 1, column 2: not a number");
}

TEST_F(PipeTest, DeliversWhatWasPublishedBeforeTheFeederDiedAndThenSaysSo) {
  attach({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(publish(1));
  writer_.reset();
  EXPECT_THAT(reader_->next(5s)->ids, ElementsAre(1, 2, 3));
  EXPECT_EQ(reader_->next(5s).error().code, Errc::kUnavailable);
}

TEST_F(PipeTest, WakesASleepingReaderWhenTheFeederDies) {
  attach({.slots = 2, .slot_bytes = 4096});
  std::thread killer([&] {
    std::this_thread::sleep_for(50ms);  // the reader sleeps by now, or not: both must work
    writer_.reset();
  });
  EXPECT_EQ(reader_->next(20s).error().code, Errc::kUnavailable);
  killer.join();
}

TEST_F(PipeTest, TellsTheWriterThatTheConsumerIsGoneAfterItsLastRelease) {
  attach({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(publish(1));
  reader_->release(*reader_->next(5s));
  reader_.reset();
  Status status;
  std::vector<std::uint64_t> released;
  while (status) {
    status = writer_->wait(PipeWriter::WaitFor::kRelease, -1, pipe::now() + 5s);
    ASSERT_TRUE(writer_->collect(released));
  }
  EXPECT_THAT(released, ElementsAre(0));
  EXPECT_EQ(status.error().code, Errc::kUnavailable);
}

TEST_F(PipeTest, AForkedChildNeitherEndsTheConsumerNorKeepsItAlive) {
  attach({.slots = 2, .slot_bytes = 4096});
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pipe::Fd in(ends[0]);
  pipe::Fd out(ends[1]);
  const auto fork_child = [&](bool destroys) {
    const pid_t child = ::fork();
    if (child < 0) std::abort();  // kill(-1) would end every process
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (destroys) reader_.reset();
      (void)!::write(out.get(), "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(in.get(), &byte, 1), 1);
    return child;
  };
  const pid_t destroyer = fork_child(true);
  ASSERT_TRUE(publish(1));
  const auto batch = reader_->next(5s);
  ASSERT_TRUE(batch) << "the child's end was taken for the parent's";
  reader_->release(*batch);
  EXPECT_TRUE(writer_->wait(PipeWriter::WaitFor::kRelease, -1, pipe::now() + 5s));
  std::vector<std::uint64_t> released;
  ASSERT_TRUE(writer_->collect(released));
  const pid_t keeper = fork_child(false);
  reader_.reset();
  const Status gone = writer_->wait(PipeWriter::WaitFor::kRelease, -1, pipe::now() + 5s);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::kUnavailable) << gone.error().to_string();
  for (const pid_t child : {destroyer, keeper}) {
    ::kill(child, SIGKILL);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  }
}

TEST_F(PipeTest, GivesTheConsumerNoWayToWriteOrResizeTheData) {
  std::thread feeder([&] {
    auto writer = PipeWriter::create(accept_hello(), "test", {.slots = 2, .slot_bytes = 4096});
    ASSERT_TRUE(writer);
    writer_ = std::move(*writer);
  });
  auto socket = pipe::connect_unix(path_);
  ASSERT_TRUE(socket);
  pipe::Hello hello;
  hello.token = token_;
  ASSERT_TRUE(pipe::send_message(socket->get(), std::as_bytes(std::span(&hello, 1)), {}));
  pipe::Answer answer;
  auto got = pipe::receive_message(socket->get(), std::as_writable_bytes(std::span(&answer, 1)), 4,
                                   pipe::now() + 10s);
  feeder.join();
  ASSERT_TRUE(got);
  ASSERT_EQ(got->fds.size(), 4u);
  const int data = got->fds[0].get();
  EXPECT_EQ(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, data, 0), MAP_FAILED);
  EXPECT_LT(::pwrite(data, "x", 1, 0), 0);
  EXPECT_NE(::ftruncate(data, 0), 0);
  EXPECT_NE(::ftruncate(data, 1 << 20), 0);
  EXPECT_NE(::fcntl(data, F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(::ftruncate(got->fds[1].get(), 0), 0);
  void* const read_only = ::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, data, 0);
  ASSERT_NE(read_only, MAP_FAILED);
  EXPECT_NE(::mprotect(read_only, 8192, PROT_READ | PROT_WRITE), 0);
  ::munmap(read_only, 8192);
}

/// A consumer that writes what it likes into the control segment.
class HostileConsumer : public PipeTest {
 protected:
  void SetUp() override {
    PipeTest::SetUp();
    std::thread feeder([&] {
      auto writer = PipeWriter::create(accept_hello(), "test", {.slots = 2, .slot_bytes = 4096});
      ASSERT_TRUE(writer);
      writer_ = std::move(*writer);
    });
    auto socket = pipe::connect_unix(path_);
    ASSERT_TRUE(socket);
    socket_ = std::move(*socket);
    pipe::Hello hello;
    hello.token = token_;
    ASSERT_TRUE(pipe::send_message(socket_.get(), std::as_bytes(std::span(&hello, 1)), {}));
    auto got = pipe::receive_message(socket_.get(), std::as_writable_bytes(std::span(&answer_, 1)),
                                     4, pipe::now() + 10s);
    feeder.join();
    ASSERT_TRUE(got);
    auto control =
        pipe::Mapping::map(got->fds[1].get(), pipe::ControlLayout::bytes(answer_.entries), true);
    ASSERT_TRUE(control);
    control_ = std::move(*control);
  }
  pipe::ControlHeader& header() { return *reinterpret_cast<pipe::ControlHeader*>(control_.data()); }
  void give_back(std::uint32_t slot) {
    auto* returns = reinterpret_cast<std::atomic<std::uint32_t>*>(
        control_.data() + pipe::ControlLayout::returns(answer_.entries));
    const std::uint64_t n = header().returned.load();
    returns[n % answer_.entries] = slot;
    header().returned = n + 1;
  }
  Errc collect() {
    std::vector<std::uint64_t> released;
    const Status status = writer_->collect(released);
    return status ? Errc{} : status.error().code;
  }
  pipe::Fd socket_;
  pipe::Answer answer_;
  pipe::Mapping control_;
};

TEST_F(HostileConsumer, CannotReturnASlotItWasNotGiven) {
  ASSERT_TRUE(publish(1));
  give_back(1);
  EXPECT_EQ(collect(), Errc::kCorrupt);
  EXPECT_FALSE(writer_->acquire());
  EXPECT_EQ(writer_->wait(PipeWriter::WaitFor::kSlot, -1, pipe::now()).error().code,
            Errc::kCorrupt);
}
TEST_F(HostileConsumer, CannotReturnASlotTwice) {
  ASSERT_TRUE(publish(1));
  give_back(0);
  EXPECT_EQ(collect(), Errc{});
  give_back(0);
  EXPECT_EQ(collect(), Errc::kCorrupt);
}
TEST_F(HostileConsumer, CannotReturnASlotBeyondTheRing) {
  ASSERT_TRUE(publish(1));
  give_back(0xffffffffu);
  EXPECT_EQ(collect(), Errc::kCorrupt);
}
TEST_F(HostileConsumer, CannotClaimMoreReturnsThanThereAreSlots) {
  ASSERT_TRUE(publish(1));
  header().returned = ~std::uint64_t{0};
  EXPECT_EQ(collect(), Errc::kCorrupt);
}
TEST_F(HostileConsumer, CannotTakeWhatWasNotPublishedOrUntake) {
  ASSERT_TRUE(publish(1));
  header().taken = 2;
  EXPECT_EQ(collect(), Errc::kCorrupt);
}
TEST_F(HostileConsumer, CannotMisleadTheWriterByScribblingOverEverything) {
  std::uint64_t state = 12345;
  for (int round = 0; round < 2000; ++round) {
    if (round % 50 == 0) {  // a fresh pair, since a caught consumer stays caught
      writer_.reset();
      TearDown();
      SetUp();
    }
    for (std::size_t i = 0; i < control_.size(); i += 8) {
      state = mix64(state + 1);
      if (state % 3 == 0) continue;
      const std::uint64_t value = state % 2 == 0 ? state % 5 : state;
      std::memcpy(control_.data() + i, &value, 8);
    }
    (void)publish(1);
    (void)collect();
    (void)writer_->publish_pass_end(0);
  }
}

/// A feeder that writes what it likes.
class HostileFeeder : public PipeTest {
 protected:
  static constexpr std::uint32_t kSlots = 2, kEntries = 4;
  void serve(const std::function<void(pipe::Answer&, std::vector<int>&)>& twist,
             std::size_t data_bytes = kSlots * 4096, bool read_only = true) {
    std::thread feeder([&] {
      socket_ = accept_hello();
      data_ = std::move(*pipe::make_segment("data", data_bytes, read_only));
      control_ =
          std::move(*pipe::make_segment("control", pipe::ControlLayout::bytes(kEntries), false));
      events_[0] = std::move(*pipe::make_eventfd());
      events_[1] = std::move(*pipe::make_eventfd());
      pipe::Answer answer;
      answer.slots = kSlots;
      answer.entries = kEntries;
      answer.slot_bytes = 4096;
      std::vector<int> fds{data_.fd.get(), control_.fd.get(), events_[0].get(), events_[1].get()};
      twist(answer, fds);
      ASSERT_TRUE(pipe::send_message(socket_.get(), std::as_bytes(std::span(&answer, 1)), fds));
    });
    auto reader = PipeReader::attach(path_, token_, 10s);
    feeder.join();
    attached_ = reader ? Errc{} : reader.error().code;
    if (reader) reader_ = std::move(*reader);
  }
  void serve() {
    serve([](pipe::Answer&, std::vector<int>&) {});
    ASSERT_EQ(attached_, Errc{});
  }
  void announce(pipe::Descriptor entry) {
    auto& header = *reinterpret_cast<pipe::ControlHeader*>(control_.mapping.data());
    const std::uint64_t n = header.published.load();
    std::memcpy(control_.mapping.data() + pipe::ControlLayout::descriptors() +
                    (n % kEntries) * sizeof entry,
                &entry, sizeof entry);
    header.published = n + 1;
  }
  pipe::Descriptor good_batch(std::uint32_t slot) {
    pipe::Descriptor entry;
    entry.kind = pipe::EntryKind::kBatch;
    entry.slot = slot;
    entry.sequence = slot;
    entry.bytes = write_batch(block_of(1, 2), std::vector<std::uint32_t>{0, 1}, 0, {},
                              {data_.mapping.data() + slot * 4096, 4096});
    return entry;
  }
  BatchHeader* batch(std::uint32_t slot) {
    return reinterpret_cast<BatchHeader*>(data_.mapping.data() + slot * 4096);
  }
  Errc next() {
    const auto view = reader_->next(1s);
    return view ? Errc{} : view.error().code;
  }
  pipe::Fd socket_;
  pipe::Segment data_, control_;
  pipe::Fd events_[2];
  Errc attached_{};
};

TEST_F(HostileFeeder, IsReadWhenItBehaves) {
  serve();
  announce(good_batch(1));
  EXPECT_EQ(next(), Errc{});
}
TEST_F(HostileFeeder, CannotHandOverSegmentsThatShrinkOrHaveAnotherSize) {
  serve([](pipe::Answer&, std::vector<int>&) {}, 4096);
  EXPECT_EQ(attached_, Errc::kCorrupt);
  serve([](pipe::Answer&, std::vector<int>&) {}, kSlots * 4096, false);
  EXPECT_EQ(attached_, Errc::kCorrupt);
  const pipe::Fd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), kSlots * 4096), 0);
  serve([&](pipe::Answer&, std::vector<int>& fds) { fds[0] = loose.get(); });
  EXPECT_EQ(attached_, Errc::kCorrupt);
}
TEST_F(HostileFeeder, CannotDescribeARingThatOverflows) {
  for (const auto& twist : std::vector<std::function<void(pipe::Answer&, std::vector<int>&)>>{
           [](pipe::Answer&a, std::vector<int>&) { a.slots = 0; },
           [](pipe::Answer&a, std::vector<int>&) { a.slots = 1u << 31; },
           [](pipe::Answer&a, std::vector<int>&) { a.entries = 3; },
           [](pipe::Answer&a, std::vector<int>&) { a.slot_bytes = ~std::uint64_t{0} - 4095; },
           [](pipe::Answer&a, std::vector<int>&) { a.slot_bytes = 100; },
           [](pipe::Answer&, std::vector<int>&fds) { fds.pop_back(); },
           [](pipe::Answer&, std::vector<int>&fds) { fds.push_back(fds[0]); },
           [](pipe::Answer&a, std::vector<int>&) { a.magic = 1; }}) {
    serve(twist);
    EXPECT_EQ(attached_, Errc::kCorrupt);
  }
  serve([](pipe::Answer& a, std::vector<int>&) { a.version = 9; });
  EXPECT_EQ(attached_, Errc::kUnsupported);
}
TEST_F(HostileFeeder, CannotPointOutsideTheSegment) {
  for (const auto& twist : std::vector<std::function<void(pipe::Descriptor&)>>{
           [](pipe::Descriptor& d) { d.slot = 2; }, [](pipe::Descriptor& d) { d.bytes = 4097; },
           [](pipe::Descriptor& d) { d.bytes = 10; },
           [](pipe::Descriptor& d) { d.kind = static_cast<pipe::EntryKind>(77); }}) {
    serve();
    pipe::Descriptor entry = good_batch(0);
    twist(entry);
    announce(entry);
    EXPECT_EQ(next(), Errc::kCorrupt);
    EXPECT_EQ(next(), Errc::kCorrupt) << "sticky";
  }
}
TEST_F(HostileFeeder, CannotGiveASlotTwice) {
  serve();
  announce(good_batch(0));
  announce(good_batch(0));
  EXPECT_EQ(next(), Errc{});
  EXPECT_EQ(next(), Errc::kCorrupt);
}
TEST_F(HostileFeeder, CannotClaimMoreEntriesThanTheRingHas) {
  serve();
  reinterpret_cast<pipe::ControlHeader*>(control_.mapping.data())->published = kEntries + 1;
  EXPECT_EQ(next(), Errc::kCorrupt);
}
TEST_F(HostileFeeder, CannotMakeAColumnReachOutOfItsBatch) {
  for (const auto& twist : std::vector<std::function<void(BatchHeader&)>>{
           [](BatchHeader& h) { h.magic = 0; }, [](BatchHeader& h) { h.bytes = 5000; },
           [](BatchHeader& h) { h.rows = 0; }, [](BatchHeader& h) { h.rows = 3; },
           [](BatchHeader& h) { h.rows = ~std::uint64_t{0}; },
           [](BatchHeader& h) { h.labels.offset_bytes = 64 * 200; },
           [](BatchHeader& h) { h.labels.offset_bytes += 1; },
           [](BatchHeader& h) { h.ids.offset_bytes = 0; },
           [](BatchHeader& h) { h.ids.count = h.values.count = ~std::uint64_t{0} / 8 + 1; },
           [](BatchHeader& h) { h.ids.count = 3; },
           [](BatchHeader& h) { h.kind = static_cast<BatchKind>(9); },
           [](BatchHeader& h) {
             h.kind = BatchKind::kDense;
             h.cols = std::uint64_t{1} << 63;
           },
           [](BatchHeader& h) {  // offsets that fall, inside their column
             auto* offsets = reinterpret_cast<std::int64_t*>(reinterpret_cast<std::byte*>(&h) +
                                                             h.offsets.offset_bytes);
             offsets[1] = -1;
           },
           [](BatchHeader& h) {
             auto* offsets = reinterpret_cast<std::int64_t*>(reinterpret_cast<std::byte*>(&h) +
                                                             h.offsets.offset_bytes);
             offsets[2] = 1000;
           }}) {
    serve();
    const pipe::Descriptor entry = good_batch(0);
    twist(*batch(0));
    announce(entry);
    EXPECT_EQ(next(), Errc::kCorrupt);
  }
}

TEST_F(PipeTest, NamesTheSegmentThatCannotBeAllocated) {
  const auto segment = pipe::make_segment("dlrun-data-train", std::size_t{1} << 62, true);
  ASSERT_FALSE(segment);
  EXPECT_EQ(segment.error().code, Errc::kResourceExhausted);
  EXPECT_THAT(segment.error().context, HasSubstr("dlrun-data-train"));
}

TEST_F(PipeTest, RefusalsCarryTheirReason) {
  std::thread feeder([&] {
    const pipe::Fd socket = accept_hello();
    PipeWriter::refuse(socket.get(), {Errc::kNotFound, std::string(5000, 'x')});
  });
  const auto reader = PipeReader::attach(path_, token_, 10s);
  feeder.join();
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Errc::kNotFound);
  EXPECT_EQ(reader.error().context.size(), pipe::kTextBytes - 1);
}

TEST_F(PipeTest, AttachToNobodyOrToSilenceEndsWithAnError) {
  EXPECT_EQ(PipeReader::attach(path_ + "x", token_, 1s).error().code, Errc::kUnavailable);
  EXPECT_EQ(PipeReader::attach(path_, token_, 50ms).error().code, Errc::kDeadlineExceeded);
}

TEST_F(PipeTest, WorksInADirectoryWithALongName) {
  const fs::path deep = dir_ / std::string(120, 'd');
  fs::create_directory(deep);
  path_ = (deep / "feeder.sock").string();
  auto listener = pipe::listen_unix(path_);
  ASSERT_TRUE(listener) << listener.error().to_string();
  listener_ = std::move(*listener);
  attach({.slots = 2, .slot_bytes = 4096});
  ASSERT_TRUE(publish(1));
  EXPECT_TRUE(reader_->next(5s));
}

TEST_F(PipeTest, NeedsThreeDescriptorsOnEachSideAndLeavesNone) {
  const std::size_t before = open_fds();
  attach({.slots = 4, .slot_bytes = 4096});
  EXPECT_EQ(open_fds(), before + 6);
  reader_.reset();
  writer_.reset();
  EXPECT_EQ(open_fds(), before);
}

}  // namespace
}  // namespace dlrun::io

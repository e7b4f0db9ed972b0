// What a feeder does when descriptors run out, a consumer stalls or scribbles, or a side dies.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <ctime>
#include <mutex>

#include "tests/io/feeder_fixture.h"

namespace dlrun::io {
namespace {

/// The soft limit on descriptors for a while: `room` more than there are now, or none at all.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t limit) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit now{limit, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  static rlim_t none_left() {
    const int lowest = ::dup(0);
    ::close(lowest);
    return static_cast<rlim_t>(lowest);
  }

 private:
  rlimit before_{};
};

TEST_F(FeederTest, WaitsQuietlyWhileThereAreNoDescriptorsAndThenTakesWhoWaits) {
  write_rows({10});
  std::mutex mutex;
  std::vector<std::pair<std::string, TimePoint>> lines;
  FeederOptions options;
  options.log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line, pipe::now());
  };
  start(options);
  admit(1);
  const pipe::Fd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (dir_ / "feeder.sock").string();
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  {
    // UBSan's first look at a clock's type takes descriptors: it is had before.
    const TimePoint begin = pipe::now();
    const DescriptorLimit none(DescriptorLimit::none_left());
    const std::clock_t busy = std::clock();
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0)
        << std::strerror(errno);
    ASSERT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex);
      return lines.size() >= 3;
    })) << "the 1st, 2nd and 4th failure are told";
    const std::chrono::duration<double> busy_s(static_cast<double>(std::clock() - busy) /
                                               CLOCKS_PER_SEC);
    EXPECT_LT(busy_s, (pipe::now() - begin) / 3.0) << "it spins between them";
  }
  EXPECT_EQ(read_all(1).rows[0], every_row());
  EXPECT_TRUE(feeder_->failure());
  feeder_->shutdown();  // from here on nobody writes a line
  EXPECT_LE(lines.size(), 5u);
  EXPECT_THAT(lines[0].first, HasSubstr("Too many open files"));
  EXPECT_THAT(lines[2].first, HasSubstr("(4 times so far)"));
  EXPECT_GT(lines[2].second - lines[1].second, 150ms) << "two pauses lie between them";
}

TEST_F(FeederTest, EndsWithTheReasonWhenItCannotPoll) {
  std::string said;
  FeederOptions options;
  options.log = [&](const std::string& line) { said = line; };
  start(options);
  {
    // More descriptors than the process may have are no valid poll.
    const DescriptorLimit one(1);
    admit(1);  // wakes the thread
    pollfd stopped{feeder_->stopped_fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&stopped, 1, 20'000), 1);
  }
  EXPECT_FALSE(feeder_->failure());
  feeder_->shutdown();
  EXPECT_THAT(said, HasSubstr("this feeder ends"));
}

TEST_F(FeederTest, AStalledConsumerCostsBoundedMemoryAndThreeDescriptors) {
  write_rows({20000});
  start();
  admit(1);
  const std::size_t before = open_fds();
  auto reader = attach(1);
  ASSERT_TRUE(reader);
  // both ends live here: 3 of the consumer; 3, a mailbox and a file of the feeder
  ASSERT_TRUE(eventually([&] { return link_->counts("train").leased >= 3; }));
  EXPECT_LE(open_fds(), before + 8);
  EXPECT_EQ((*reader)->slots() * (*reader)->slot_bytes(), 4u << 20);
  std::vector<BatchView> held;
  for (std::uint32_t i = 0; i < (*reader)->slots(); ++i) {
    const auto view = (*reader)->next(20s);
    ASSERT_TRUE(view);
    held.push_back(*view);
  }
  EXPECT_EQ((*reader)->next(10ms).error().code, Errc::kOverloaded);
  EXPECT_LE(link_->counts("train").leased, 40u);
  (*reader)->release(held[2]);
  EXPECT_TRUE((*reader)->next(20s));
}

TEST_F(FeederTest, LeavesNothingBehindWhenConsumersAndFeederEnd) {
  write_rows({300});
  const std::size_t fds = open_fds(), maps = memfd_maps();
  start();
  for (std::uint8_t round = 1; round <= 3; ++round) {
    admit(round);
    auto reader = attach(round);
    ASSERT_TRUE(reader);
    ASSERT_TRUE((*reader)->next(20s));
  }
  feeder_.reset();
  EXPECT_EQ(open_fds(), fds);
  EXPECT_EQ(memfd_maps(), maps);
  EXPECT_FALSE(fs::exists(dir_ / "feeder.sock"));
}

TEST_F(FeederTest, AKilledConsumerLeavesNothingAndItsSplitsGoToAnother) {
  write_rows({3000});
  start();
  const std::size_t fds = open_fds(), maps = memfd_maps();
  admit(1);
  int out = -1;
  const pid_t pid = spawn({"read", (dir_ / "feeder.sock").string(), "1", "3"}, &out);
  ASSERT_GT(pid, 0);  // kill(-1) would end every process
  const std::string printed = read_until(out, "holding");
  EXPECT_THAT(printed, HasSubstr("holding"));
  EXPECT_EQ(feeder_->attached(), 1u);
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  ::close(out);
  EXPECT_TRUE(eventually([&] { return feeder_->attached() == 0 && open_fds() == fds; }));
  EXPECT_EQ(memfd_maps(), maps);
  // the agent sees the task end: the job gives back, the feeder forgets
  link_->drop(worker(1));
  feeder_->drop(worker(1));
  admit(2);
  const Seen seen = read_all(2);
  EXPECT_EQ(seen.end.code, Errc::kEndOfData);
  EXPECT_EQ(seen.rows.at(0), every_row());
}

TEST_F(FeederTest, AProcessReadsTheSameRowsAsAThread) {
  write_rows({1000});
  start();
  admit(1);
  int out = -1;
  const pid_t pid = spawn({"read", (dir_ / "feeder.sock").string(), "1"}, &out);
  ASSERT_GT(pid, 0);  // kill(-1) would end every process
  std::istringstream printed(read_until(out, "no such word"));
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  ::close(out);
  EXPECT_EQ(status, 0);
  std::multiset<std::uint64_t> rows;
  for (std::uint64_t pass, id; printed >> pass >> id;) rows.insert(id);
  EXPECT_EQ(rows, every_row());
  EXPECT_TRUE(link_->wait_done("train", link_->counts("train").splits, 10s));
}

TEST_F(FeederTest, AKilledFeederLeavesNothingAtTheConsumer) {
  write_rows({3000});
  const std::size_t fds = open_fds(), maps = memfd_maps();
  int out = -1;
  const std::string socket = (dir_ / "feeder.sock").string();
  const pid_t pid = spawn({"feed", socket, (dir_ / "data").string()}, &out);
  ASSERT_GT(pid, 0);  // kill(-1) would end every process
  EXPECT_THAT(read_until(out, "ready"), HasSubstr("ready"));
  auto reader = PipeReader::attach(socket, token(1), 20s);
  ASSERT_TRUE(reader) << reader.error().to_string();
  ASSERT_TRUE((*reader)->next(20s));
  ASSERT_EQ(::kill(pid, SIGKILL), 0);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  ::close(out);
  int more = 0;
  for (;; ++more) {  // what was published before is still good
    const auto view = (*reader)->next(20s);
    if (view) continue;
    EXPECT_EQ(view.error().code, Errc::kUnavailable);
    break;
  }
  EXPECT_LE(more, 4);
  reader->reset();
  EXPECT_EQ(open_fds(), fds);
  EXPECT_EQ(memfd_maps(), maps);
  // a new feeder takes the same place at once
  start();
  admit(1);
  EXPECT_EQ(read_all(1).rows.at(0), every_row());
}

TEST_F(FeederTest, AConsumerThatScribblesIsCutOffAndOthersGoOn) {
  write_rows({3000});
  start();
  admit(1);
  admit(2);
  auto socket = pipe::connect_unix((dir_ / "feeder.sock").string());
  ASSERT_TRUE(socket);
  pipe::Hello hello;
  hello.token = token(1);
  ASSERT_TRUE(pipe::send_message(socket->get(), std::as_bytes(std::span(&hello, 1)), {}));
  pipe::Answer answer;
  auto got = pipe::receive_message(socket->get(), std::as_writable_bytes(std::span(&answer, 1)), 4,
                                   pipe::now() + 20s);
  ASSERT_TRUE(got);
  auto control =
      pipe::Mapping::map(got->fds[1].get(), pipe::ControlLayout::bytes(answer.entries), true);
  ASSERT_TRUE(control);
  std::fill(control->data(), control->data() + control->size(), std::byte{0xee});
  pipe::ring_eventfd(got->fds[3].get());
  EXPECT_TRUE(eventually([&] { return feeder_->attached() == 0; }));
  link_->drop(worker(1));
  EXPECT_EQ(read_all(2).rows.at(0), every_row());
}

}  // namespace
}  // namespace dlrun::io

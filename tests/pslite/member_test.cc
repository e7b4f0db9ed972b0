// A scheduler, servers and workers in one process, over each transport: the same code as between
// processes, threads and all.
#include "ps/pslite/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "runtime/transport/loopback_transport.h"
#include "runtime/transport/zmq_transport.h"

namespace dlrun::pslite {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr Duration kSoon = seconds(30);

/// Keeps what comes; answers requests when told to.
class Box : public Mailbox {
 public:
  void put(Letter letter) override {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
    changed_.notify_all();
  }
  void on_failure() override {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }
  std::optional<Letter> next(Duration limit = kSoon) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, limit, [&] { return !letters_.empty() || failed_; }) ||
        letters_.empty())
      return std::nullopt;
    Letter letter = std::move(letters_.front());
    letters_.pop_front();
    return letter;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return letters_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Letter> letters_;
  bool failed_ = false;
};

struct Node {
  explicit Node(std::unique_ptr<Member> m) : member(std::move(m)) {}
  Box box;  // outlives the member that fills it
  std::unique_ptr<Member> member;
};

class AnyJob : public testing::TestWithParam<std::string> {
 protected:
  /// "loop", "tcp", "shm"; "lossy" is loop with a fifth of all packets dropped.
  std::string kind() const { return GetParam(); }
  std::shared_ptr<transport::Transport> transport() {
    if (kind() == "tcp" || kind() == "shm") return std::make_shared<transport::ZmqTransport>();
    if (!loop_) loop_ = std::make_shared<transport::LoopbackTransport>();
    return loop_;
  }
  MemberOptions options(Role role, std::uint32_t workers, std::uint32_t servers) {
    MemberOptions o;
    o.role = role;
    o.workers = workers;
    o.servers = servers;
    o.name = "test";
    o.seed = ++seed_ * 7919;
    o.root = root_;
    o.start_within = seconds(20);
    if (kind() == "lossy") {
      o.post.drop_percent = 20;
      o.post.link.resend_after = milliseconds(20);
    }
    const std::string listen = kind() == "tcp"   ? "tcp://127.0.0.1:*"
                               : kind() == "shm" ? "shm://*"
                                                 : "loop://*";
    if (role == Role::kScheduler)
      o.bind = {{root_}};
    else if (role == Role::kServer)
      o.bind = {{listen}};
    return o;
  }
  void start(std::uint32_t workers, std::uint32_t servers,
             const std::function<void(MemberOptions&)>& change = {}) {
    const std::string unique = std::to_string(::getpid()) + "-" + std::to_string(counter_++);
    root_ = kind() == "tcp"   ? "tcp://127.0.0.1:" + std::to_string(free_port())
            : kind() == "shm" ? "shm://@pslite-test-" + unique
                              : "loop://root" + unique;
    const auto add = [&](Role role) {
      MemberOptions o = options(role, workers, servers);
      if (change) change(o);
      nodes_.push_back(std::make_unique<Node>(std::make_unique<Member>(o, transport(), clock_)));
      ASSERT_TRUE(nodes_.back()->member->attach(0, 0, &nodes_.back()->box));
    };
    add(Role::kScheduler);
    for (std::uint32_t i = 0; i < servers; ++i) add(Role::kServer);
    for (std::uint32_t i = 0; i < workers; ++i) add(Role::kWorker);
    std::vector<Status> started(nodes_.size());
    each([&](Member& member, std::size_t i) { started[i] = member.start(0); });
    for (const Status& status : started) ASSERT_TRUE(status) << status.error().to_string();
    for (auto& node : nodes_) by_id_[node->member->id()] = node.get();
  }
  void each(const std::function<void(Member&, std::size_t)>& what) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      threads.emplace_back([&, i] { what(*nodes_[i]->member, i); });
    for (std::thread& thread : threads) thread.join();
  }
  void leave_all() {
    each([](Member& member, std::size_t) {
      member.about_to_leave();
      EXPECT_TRUE(member.barrier(7));
      member.leave(true);
    });
  }
  static std::uint16_t free_port() {
    transport::ZmqTransport zmq;
    const auto channel = zmq.listen({{"tcp://127.0.0.1:*"}});
    const std::string endpoint = (*channel)->endpoints()[0];
    return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  }
  Member& at(int id) { return *by_id_.at(id)->member; }
  Box& box(int id) { return by_id_.at(id)->box; }

  static Mail mail(int to, int timestamp, bool request = true) {
    Mail m;
    m.recver = to;
    m.timestamp = timestamp;
    m.request = request;
    return m;
  }
  /// An array whose bytes depend on where they stand.
  static transport::Frame pattern(std::size_t bytes, unsigned salt) {
    std::vector<std::uint8_t> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::uint8_t>(i * 31 + (i >> 8) * 7 + salt);
    return transport::Frame::take(std::move(data));
  }
  static bool same(const transport::Frame& a, const transport::Frame& b) {
    return a.size == b.size && (a.size == 0 || std::memcmp(a.data, b.data, a.size) == 0);
  }
  static void put(Mail& m, std::vector<transport::Frame>& arrays, transport::Frame frame) {
    m.bytes[m.arrays++] = frame.size;
    arrays.push_back(std::move(frame));
  }

  SystemClock clock_;
  std::shared_ptr<transport::Transport> loop_;
  std::string root_;
  std::uint64_t seed_ = 0;
  static inline std::atomic<int> counter_{0};
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<int, Node*> by_id_;
};
#ifdef DLRUN_LOOPBACK_ONLY
INSTANTIATE_TEST_SUITE_P(Transports, AnyJob, testing::Values("loop", "lossy", "shm"));
#else
INSTANTIATE_TEST_SUITE_P(Transports, AnyJob, testing::Values("loop", "lossy", "shm", "tcp"));
#endif

TEST_P(AnyJob, StartsHasRanksPassesBarriersAndEnds) {
  start(3, 2);
  EXPECT_EQ(by_id_.size(), 6u);
  for (const int id : {1, 8, 10, 9, 11, 13}) EXPECT_TRUE(by_id_.contains(id)) << id;
  std::atomic<int> entered{0};
  each([&](Member& member, std::size_t) {
    if (member.options().role != Role::kWorker) return;
    for (int round = 1; round <= 5; ++round) {
      ++entered;
      ASSERT_TRUE(member.barrier(kWorkerBit));
      ASSERT_GE(entered.load(), 3 * round) << "passed before all had entered";
    }
  });
  leave_all();
}

TEST_P(AnyJob, MailOfAnySizeComesWholeOnceAndInOrder) {
  start(2, 1);
  const std::vector<std::size_t> sizes = {0, 1, 1000, 256u << 10, (256u << 10) + 1, 3000001};
  for (const int worker : {9, 11})
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      Mail m = mail(8, static_cast<int>(i));
      std::vector<transport::Frame> arrays;
      put(m, arrays, pattern(3, 1));
      put(m, arrays, pattern(sizes[i], static_cast<unsigned>(worker + i)));
      put(m, arrays, pattern(sizes[i] / 3, 5));
      ASSERT_TRUE(at(worker).send(m, arrays));
    }
  std::map<int, int> next;
  for (std::size_t i = 0; i < 2 * sizes.size(); ++i) {
    auto letter = box(8).next();
    ASSERT_TRUE(letter);
    const int worker = letter->mail.sender;
    const auto n = static_cast<std::size_t>(next[worker]++);
    ASSERT_EQ(letter->mail.timestamp, static_cast<int>(n)) << "of " << worker;
    ASSERT_EQ(letter->arrays.size(), 3u);
    EXPECT_TRUE(same(letter->arrays[0], pattern(3, 1)));
    EXPECT_TRUE(same(letter->arrays[1], pattern(sizes[n], static_cast<unsigned>(worker + n))));
    EXPECT_TRUE(same(letter->arrays[2], pattern(sizes[n] / 3, 5)));
    for (const auto& array : letter->arrays)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data) % 8, 0u);
    at(8).took(*letter);
    Mail answer = mail(worker, letter->mail.timestamp, false);
    std::vector<transport::Frame> arrays;
    put(answer, arrays, letter->arrays[1]);
    ASSERT_TRUE(at(8).send(answer, arrays));
  }
  for (const int worker : {9, 11})
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto letter = box(worker).next();
      ASSERT_TRUE(letter);
      EXPECT_EQ(letter->mail.timestamp, static_cast<int>(i));
      EXPECT_TRUE(same(letter->arrays[0], pattern(sizes[i], static_cast<unsigned>(worker + i))));
    }
  leave_all();
}

// A packet that was lost on the way through would come ten minutes later.
TEST_P(AnyJob, AFloodOfSmallMailIsSentOnce) {
  start(2, 1, [&](MemberOptions& o) {
    if (kind() != "lossy") o.post.link.resend_after = std::chrono::minutes(10);
  });
  const int kAll = kind() == "lossy" ? 100 : 2000;
  std::vector<std::thread> threads;
  for (const int worker : {9, 11})
    threads.emplace_back([&, worker] {
      for (int i = 0; i < kAll; ++i) ASSERT_TRUE(at(worker).send(mail(8, i), {}));
    });
  for (int i = 0; i < 2 * kAll; ++i) {
    auto letter = box(8).next();
    ASSERT_TRUE(letter) << i;
    at(8).took(*letter);
    ASSERT_TRUE(at(8).send(mail(letter->mail.sender, letter->mail.timestamp, false), {}));
  }
  for (std::thread& thread : threads) thread.join();
  for (const int worker : {9, 11})
    for (int i = 0; i < kAll; ++i) {
      auto letter = box(worker).next();
      ASSERT_TRUE(letter) << i;
      ASSERT_EQ(letter->mail.timestamp, i);
    }
  leave_all();
}

TEST_P(AnyJob, AServerThatTakesNothingHoldsBackItsWorkersAndAnswersStillCome) {
  start(1, 1, [](MemberOptions& o) {
    o.post.link.credit_bytes = 64u << 10;
    o.post.queue_bytes = 256u << 10;
  });
  std::atomic<int> sent{0};
  constexpr int kAll = 200;
  std::thread pusher([&] {
    for (int i = 0; i < kAll; ++i) {
      Mail m = mail(8, i);
      std::vector<transport::Frame> arrays;
      put(m, arrays, pattern(8u << 10, 0));
      ASSERT_TRUE(at(9).send(m, arrays));
      ++sent;
    }
  });
  // At most what queue and credit hold, and what is on its way into them.
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LE(sent.load(), 45);
  EXPECT_LE(box(8).size(), 8u);
  Mail other = mail(9, 1000);
  ASSERT_TRUE(at(8).send(other, {}));
  auto letter = box(9).next();
  ASSERT_TRUE(letter) << "the other direction has a credit of its own";
  for (int i = 0; i < kAll; ++i) {
    auto pushed = box(8).next();
    ASSERT_TRUE(pushed) << i;
    EXPECT_EQ(pushed->mail.timestamp, i);
    at(8).took(*pushed);
    ASSERT_TRUE(at(8).send(mail(9, i, false), {}));
  }
  pusher.join();
  for (int i = 0; i < kAll; ++i) ASSERT_TRUE(box(9).next());
  leave_all();
}

TEST_P(AnyJob, MailForAnAppThatComesLateWaitsForIt) {
  start(1, 1);
  Mail m = mail(8, 5);
  m.app = 4;
  ASSERT_TRUE(at(9).send(m, {}));
  std::this_thread::sleep_for(milliseconds(50));
  Box late;
  ASSERT_TRUE(at(8).attach(4, 4, &late));
  auto letter = late.next();
  ASSERT_TRUE(letter);
  EXPECT_EQ(letter->mail.timestamp, 5);
  at(8).took(*letter);
  ASSERT_TRUE(at(8).send(mail(9, 5, false), {}));
  ASSERT_TRUE(box(9).next());
  at(8).detach(4, 4);
  leave_all();
}

TEST_P(AnyJob, WhatOneNodeSaysFailsReachesEverybodyThatWaits) {
  start(2, 1);
  std::vector<Status> ends(nodes_.size());
  std::thread failing([&] {
    std::this_thread::sleep_for(milliseconds(100));
    at(8).fail_here("a handler threw: oh");
  });
  each([&](Member& member, std::size_t i) {
    if (member.options().role != Role::kServer)
      ends[i] = member.barrier(kWorkerBit + kSchedulerBit + kServerBit);
  });
  failing.join();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i]->member->options().role == Role::kServer) continue;
    ASSERT_FALSE(ends[i]);
    EXPECT_THAT(ends[i].error().context, HasSubstr("server 0 (test): a handler threw: oh"));
  }
  EXPECT_FALSE(at(9).send(mail(8, 1), {}));
}

TEST_P(AnyJob, AMemberThatEndsWithoutLeavingIsTold) {
  start(2, 1);
  Node* gone = by_id_.at(11);
  gone->member.reset();
  const Status status = at(9).barrier(kWorkerBit);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().context, HasSubstr("worker 1 (test): it ended without Finalize"));
  std::erase_if(nodes_, [&](const auto& node) { return node.get() == gone; });
}

TEST_P(AnyJob, ANodeThatIsMissingAndOneTooManyAreTold) {
  start(1, 1);
  Member extra(options(Role::kWorker, 1, 1), transport(), clock_);
  const Status refused = extra.start(0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().context, HasSubstr("the job has its 1 worker already"));
  leave_all();
}

TEST_P(AnyJob, WhoLeavesWithoutABarrierIsNotLost) {
  start(1, 1);
  at(9).leave(false);
  EXPECT_FALSE(at(8).barrier(kWorkerBit + kServerBit)) << "it can never be passed";
}

TEST_P(AnyJob, ThereIsNoWayBetweenWorkersNorToNobody) {
  start(2, 1);
  EXPECT_EQ(at(9).send(mail(11, 1), {}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(at(9).send(mail(99, 1), {}).error().code, Errc::kInvalidArgument);
  EXPECT_EQ(at(9).barrier(kServerBit).error().code, Errc::kInvalidArgument);
  ASSERT_TRUE(at(9).send(mail(9, 3), {})) << "to itself there is";
  EXPECT_EQ(box(9).next()->mail.timestamp, 3);
  leave_all();
}

}  // namespace
}  // namespace dlrun::pslite

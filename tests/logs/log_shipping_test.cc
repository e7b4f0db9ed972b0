// LogShipper to LogReceiver over loopback: exact bytes, restarts of both sides, strangers.
#include <gtest/gtest.h>
#include <zmq.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "runtime/base/rng.h"
#include "runtime/logs/log_receiver.h"
#include "runtime/logs/log_shipper.h"
#include "runtime/shim/log_files.h"
#include "runtime/wire/logs_codec.h"

namespace dlrun::logs {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TaskId kTask{JobId{3}, "worker", 0, Generation{1}};
const NodeId kNode{"n0"};
const ShipPass kPass{Epoch{1, 2}, "n0's"};
const StreamId kOut{kTask, Stream::kStdout}, kErr{kTask, Stream::kStderr};

class Shipping : public testing::Test {
 protected:
  Shipping() {
    char name[] = "/tmp/dlrun-ship-XXXXXX";
    root_ = ::mkdtemp(name);
    logs_ = root_ + "/logs";
    std::filesystem::create_directories(logs_);
    agent_ = make_curve_keys().value();
    coordinator_ = make_curve_keys().value();
    start_coordinator("tcp://127.0.0.1:*");
    start_agent();
  }
  ~Shipping() override {
    shipper_.reset();
    receiver_.reset();
    store_.reset();
    std::filesystem::remove_all(root_);
  }
  void start_coordinator(const std::string& bind) {
    auto store = LogStore::open(root_ + "/store", {});
    ASSERT_TRUE(store);
    store_ = std::move(*store);
    auto receiver = LogReceiver::start(
        {bind, coordinator_,
         [](const NodeId& node, const TaskId& task, Epoch epoch, std::string_view proof) {
           return node == kNode && task == kTask && epoch == kPass.epoch && proof == kPass.proof;
         }},
        *store_);
    ASSERT_TRUE(receiver) << receiver.error().to_string();
    receiver_ = std::move(*receiver);
    receiver_->allow(agent_.public_key, kNode);
  }
  void start_agent(Duration answer_timeout = milliseconds(300)) {
    ShipperOptions options;
    options.keys = agent_;
    options.answer_timeout = answer_timeout;
    shipper_ = LogShipper::start(options).value();
    shipper_->connect(receiver_->endpoint(), receiver_->public_key());
    shipper_->add(kTask, logs_, kPass);
  }
  template <class Done>
  static bool eventually(Done done) {
    const auto until = std::chrono::steady_clock::now() + seconds(30);
    while (!done()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }
  std::string all(const StreamId& id) {
    std::string bytes;
    std::uint64_t from = 0;
    for (;;) {
      const auto chunk = store_->read(id, from, 1 << 20);
      if (!chunk || chunk->bytes.empty()) return bytes;
      bytes += chunk->bytes;
      from = chunk->next;
    }
  }
  bool has(const StreamId& id, std::uint64_t end) {
    return eventually([&] { return store_->end_of(id).value_or(0) == end; });
  }
  bool finish(Duration give_up = seconds(30)) {
    std::mutex mutex;
    std::condition_variable changed;
    int calls = 0;
    bool ok = false;
    shipper_->finish(kTask, give_up, [&](bool o) {
      const std::lock_guard lock(mutex);
      ok = o;
      ++calls;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, seconds(60), [&] { return calls > 0; }));
    EXPECT_EQ(calls, 1);
    return ok;
  }
  static std::string noise(std::size_t n) {
    SplitMix64 rng(n);
    std::string s;
    while (s.size() < n) s.push_back(static_cast<char>(rng.next() >> 7));
    return s;
  }

  std::string root_, logs_;
  CurveKeys agent_, coordinator_;
  std::unique_ptr<LogStore> store_;
  std::unique_ptr<LogReceiver> receiver_;
  std::unique_ptr<LogShipper> shipper_;
};

TEST_F(Shipping, ShipsBytesExactlyAndTellsTheEnd) {
  shim::LogWriter out(logs_, "stdout", 100'000, 1 << 30), err(logs_, "stderr", 1 << 20, 1 << 30);
  ASSERT_TRUE(out.open());
  ASSERT_TRUE(err.open());
  std::string want = noise(3'000'000);
  want += std::string(1'000'000, 'x') + "\n" + std::string(3, '\0') + "half \xe2\x82";
  for (std::size_t at = 0; at < want.size(); at += 70'001)
    out.write(std::string_view(want).substr(at, 70'001));
  err.write("oops");
  ASSERT_TRUE(finish());
  EXPECT_TRUE(all(kOut) == want);
  EXPECT_EQ(all(kErr), "oops");
  EXPECT_TRUE(store_->info(kOut)->finished);
  EXPECT_TRUE(store_->info(kErr)->finished);
}

TEST_F(Shipping, EachLineComesAsItIsWrittenNotWithATimeOut) {
  shipper_.reset();
  start_agent(std::chrono::hours(1));
  shim::LogWriter out(logs_, "stdout", 1 << 20, 1 << 30);
  ASSERT_TRUE(out.open());
  for (std::uint64_t i = 1; i <= 20; ++i) {
    out.write("line");
    ASSERT_TRUE(has(kOut, i * 4)) << "line " << i;
  }
}

TEST_F(Shipping, ADirectoryThatComesLaterIsFound) {
  shipper_->remove(kTask);
  const std::string later = root_ + "/later";
  shipper_->add(kTask, later, kPass);
  std::this_thread::sleep_for(milliseconds(50));
  std::filesystem::create_directories(later);
  std::ofstream(later + "/stdout.00000000000000000000") << "hi";
  EXPECT_TRUE(has(kOut, 2));
}

TEST_F(Shipping, ARestartedAgentGoesOnWhereTheStoreIs) {
  shim::LogWriter out(logs_, "stdout", 1 << 20, 1 << 30);
  ASSERT_TRUE(out.open());
  out.write("before ");
  ASSERT_TRUE(has(kOut, 7));
  shipper_.reset();
  out.write("meanwhile ");
  start_agent();
  out.write("after");
  ASSERT_TRUE(finish());
  EXPECT_EQ(all(kOut), "before meanwhile after");
}

TEST_F(Shipping, ARestartedCoordinatorGetsTheRestAlsoWhenItsLastBytesWereLost) {
  shim::LogWriter out(logs_, "stdout", 1 << 20, 1 << 30);
  ASSERT_TRUE(out.open());
  out.write("before ");
  ASSERT_TRUE(has(kOut, 7));
  const std::string endpoint = receiver_->endpoint();
  receiver_.reset();
  store_.reset();
  // a power cut
  std::filesystem::resize_file(root_ + "/store/j3/1.worker.0.out.00000000000000000000", 3);
  out.write("meanwhile ");
  start_coordinator(endpoint);
  out.write("after");
  ASSERT_TRUE(finish());
  EXPECT_EQ(all(kOut), "before meanwhile after");
}

TEST_F(Shipping, BytesThatTheShimDroppedLeaveAHoleAndNotAStall) {
  receiver_->forbid(agent_.public_key);
  shipper_.reset();
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  const std::string bytes = noise(50'000);
  out.write(bytes);
  receiver_->allow(agent_.public_key, kNode);
  start_agent();
  ASSERT_TRUE(finish());
  const auto chunk = store_->read(kOut, 0, 1 << 20).value();
  EXPECT_GT(chunk.offset, 30'000u);
  EXPECT_EQ(store_->end_of(kOut).value(), bytes.size());
  EXPECT_TRUE(all(kOut) == bytes.substr(chunk.offset));
}

TEST_F(Shipping, AnAgentThatIsRegisteredAfterItsFirstTryGetsThrough) {
  shipper_.reset();
  receiver_->forbid(agent_.public_key);
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  out.write("early");
  start_agent();
  ASSERT_TRUE(eventually([&] { return receiver_->refused() > 0; }));
  receiver_->allow(agent_.public_key, kNode);
  EXPECT_TRUE(has(kOut, 5));
}

TEST_F(Shipping, GivingUpIsTold) {
  receiver_.reset();
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  out.write("x");
  EXPECT_FALSE(finish(milliseconds(200)));
}

TEST_F(Shipping, AStrangerGetsNothingIn) {
  shipper_.reset();
  agent_ = make_curve_keys().value();  // never allowed
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  out.write("evil");
  start_agent();
  ASSERT_TRUE(eventually([&] { return receiver_->refused() > 0; }));
  EXPECT_FALSE(finish(milliseconds(300)));
  EXPECT_EQ(store_->read(kOut, 0, 10).error().code, Errc::kNotFound);
}

TEST_F(Shipping, HostileBytesOfARegisteredAgentAreDroppedAndCounted) {
  void* context = zmq_ctx_new();
  void* socket = zmq_socket(context, ZMQ_DEALER);
  const int zero = 0;
  zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
  zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, receiver_->public_key().c_str(), 41);
  zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, agent_.public_key.c_str(), 41);
  zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, agent_.secret_key.c_str(), 41);
  ASSERT_EQ(zmq_connect(socket, receiver_->endpoint().c_str()), 0);
  wire::LogHeader header;
  header.kind = wire::LogKind::kAsk;
  header.task = kTask;
  header.epoch = kPass.epoch;
  header.proof = kPass.proof;
  const std::string good = wire::encode(header);
  SplitMix64 rng(3);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    for (int k = 0; k < 3; ++k) bytes[rng.below(bytes.size())] = static_cast<char>(rng.next());
    const bool two = rng.below(2) == 0;
    zmq_send(socket, bytes.data(), bytes.size(), two ? ZMQ_SNDMORE : 0);
    if (two) zmq_send(socket, bytes.data(), bytes.size(), 0);
  }
  ASSERT_TRUE(eventually([&] { return receiver_->refused() > 50; }));
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  out.write("still here");
  EXPECT_TRUE(has(kOut, 10));
  zmq_close(socket);
  zmq_ctx_term(context);
}

TEST_F(Shipping, ANodeShipsNothingForATaskThatWasGivenToAnother) {
  shipper_.reset();
  agent_ = make_curve_keys().value();
  receiver_->allow(agent_.public_key,
                   NodeId{"n1"});  // a member of the cluster, but not the task's node
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  out.write("forged");
  start_agent();  // with what n0 would show
  ASSERT_TRUE(eventually([&] { return receiver_->refused() > 0; }));
  EXPECT_FALSE(finish(milliseconds(300)));
  EXPECT_EQ(store_->read(kOut, 0, 10).error().code, Errc::kNotFound);
}

TEST_F(Shipping, AWrongProofShipsNothing) {
  shipper_.reset();
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  out.write("forged");
  for (const ShipPass& pass :
       {ShipPass{kPass.epoch, "guessed"}, ShipPass{Epoch{1, 3}, kPass.proof}}) {
    const std::uint64_t before = receiver_->refused();
    ShipperOptions options;
    options.keys = agent_;
    shipper_ = LogShipper::start(options).value();
    shipper_->connect(receiver_->endpoint(), receiver_->public_key());
    shipper_->add(kTask, logs_, pass);
    ASSERT_TRUE(eventually([&] { return receiver_->refused() > before; }));
    EXPECT_EQ(store_->read(kOut, 0, 10).error().code, Errc::kNotFound);
  }
}

TEST_F(Shipping, AForbiddenKeyLosesItsOpenConnection) {
  shim::LogWriter out(logs_, "stdout", 4096, 8192);
  ASSERT_TRUE(out.open());
  out.write("good");
  ASSERT_TRUE(has(kOut, 4));
  receiver_->forbid(agent_.public_key);
  const std::uint64_t before = receiver_->refused();
  out.write("late");
  ASSERT_TRUE(eventually([&] { return receiver_->refused() > before; }));
  EXPECT_EQ(all(kOut), "good");
}

}  // namespace
}  // namespace dlrun::logs

#pragma once
/// tests/ps/cluster_helper.h: shards on threads of the test, reached over any transport; and a
/// transport that loses, repeats and reorders what a client sends and receives.

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "ps/client/client.h"
#include "ps/shard/shard_loop.h"
#include "runtime/transport/loopback_transport.h"
#include "runtime/transport/zmq_transport.h"

namespace dlrun::ps {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// Two cores, sanitizers, neighbours: generous where a test waits for success.
inline constexpr Duration kLong = seconds(60);

inline constexpr std::array<std::uint8_t, 32> kToken = {9, 9, 9};

class Cluster {
 public:
  /// kind: loop | tcp | ipc | shm
  Cluster(std::string kind, std::uint32_t shards, std::uint32_t workers,
          ShardSettings settings = {})
      : kind_(std::move(kind)) {
    if (kind_ == "loop") {
      transport = std::make_shared<transport::LoopbackTransport>();
    } else {
      transport = std::make_shared<transport::ZmqTransport>();
    }
    if (kind_ == "ipc") {
      char name[] = "/tmp/dlrun-ps-XXXXXX";
      folder_ = ::mkdtemp(name);
    }
    view.map = SlotMap::even(shards, Epoch{1, 1});
    view.token = kToken;
    view.workers = workers;
    for (std::uint32_t i = 0; i < shards; ++i) {
      settings.shard = ShardId{i};
      settings.token = kToken;
      settings.workers = workers;
      auto channel = transport->listen({.bind = {bind(i)}}).value();
      ShardEndpoint endpoint{.shard = ShardId{i}};
      (kind_ == "ipc" ? endpoint.ipc : endpoint.tcp) =
          kind_ == "ipc" ? channel->endpoints()[0].substr(6) : channel->endpoints()[0];
      view.shards.push_back(endpoint);
      loops.push_back(
          std::make_unique<ShardLoop>(ShardCore(settings, view.map), std::move(channel), clock));
      threads_.emplace_back();
      stop_.push_back(std::make_unique<std::atomic<bool>>(false));
      resume(i);
    }
  }
  ~Cluster() {
    for (std::size_t i = 0; i < threads_.size(); ++i) stall(i);
    loops.clear();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  /// The shard stops reading; its sockets stay.
  void stall(std::size_t i) {
    *stop_[i] = true;
    loops[i]->wake();
    if (threads_[i].joinable()) threads_[i].join();
  }
  void resume(std::size_t i) {
    *stop_[i] = false;
    // By pointer: the vectors still grow while the first shards run.
    threads_[i] = std::thread([loop = loops[i].get(), stop = stop_[i].get()] {
      while (!*stop) ASSERT_TRUE(loop->step(Duration{-1}));
    });
  }
  /// Runs on the shard's behalf while it stands still.
  template <class F>
  void with_shard(std::size_t i, F f) {
    stall(i);
    f(*loops[i]);
    resume(i);
  }
  void worker_left(WorkerId worker) {
    for (std::size_t i = 0; i < loops.size(); ++i) {
      with_shard(i, [&](ShardLoop& loop) { loop.worker_left(worker); });
    }
  }

  ClientOptions options(WorkerId worker = kNoWorker) const {
    return {.worker = worker, .retry_first = seconds(2), .transport = transport};
  }
  std::unique_ptr<Client> client(WorkerId worker = kNoWorker) const {
    return Client::connect(view, options(worker)).value();
  }

  std::shared_ptr<transport::Transport> transport;
  std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>();
  PsView view;
  std::vector<std::unique_ptr<ShardLoop>> loops;

 private:
  std::string bind(std::uint32_t i) const {
    if (kind_ == "loop") return "loop://*";
    if (kind_ == "shm") return "shm://*";
    if (kind_ == "ipc") return "ipc://" + folder_ + "/" + std::to_string(i);
    return "tcp://127.0.0.1:*";
  }
  std::string kind_;
  std::string folder_;
  std::vector<std::thread> threads_;
  std::vector<std::unique_ptr<std::atomic<bool>>> stop_;
};

/// Loses, repeats and reorders, each with the given chance in 100, on both ways of the channels it
/// dials.
class FaultyTransport final : public transport::Transport {
 public:
  struct Faults {
    std::uint64_t lose = 0;
    std::uint64_t repeat = 0;
    std::uint64_t reorder = 0;
    std::uint64_t seed = 1;
  };
  FaultyTransport(std::shared_ptr<Transport> inner, Faults faults)
      : inner_(std::move(inner)), faults_(faults) {}
  Result<std::unique_ptr<transport::Channel>> listen(
      const transport::ListenOptions& options) override {
    return inner_->listen(options);
  }
  Result<std::unique_ptr<transport::Channel>> dial(const transport::DialOptions& options) override {
    DLRUN_ASSIGN(auto channel, inner_->dial(options));
    return std::unique_ptr<transport::Channel>(
        std::make_unique<FaultyChannel>(std::move(channel), faults_));
  }

 private:
  class FaultyChannel final : public transport::Channel {
   public:
    FaultyChannel(std::unique_ptr<Channel> inner, Faults faults)
        : inner_(std::move(inner)), faults_(faults), rng_(faults.seed) {}
    Result<transport::PeerId> connect(const std::string& endpoint) override {
      return inner_->connect(endpoint);
    }
    void disconnect(transport::PeerId peer) override { inner_->disconnect(peer); }
    Status send(transport::PeerId peer, const transport::Message& message) override {
      if (rng_.below(100) < faults_.lose) return {};
      if (held_.empty() && rng_.below(100) < faults_.reorder) {
        held_.emplace_back(peer, transport::owned(message));
        return {};
      }
      Status status = inner_->send(peer, message);
      if (rng_.below(100) < faults_.repeat) (void)inner_->send(peer, message);
      for (auto& [to, late] : held_) (void)inner_->send(to, late);
      held_.clear();
      return status;
    }
    Result<std::optional<transport::Incoming>> receive(Duration timeout) override {
      if (!again_.empty()) {
        auto next = std::move(again_.front());
        again_.pop_front();
        return std::optional(std::move(next));
      }
      auto got = inner_->receive(timeout);
      if (!got || !*got) return got;
      if (rng_.below(100) < faults_.lose) return std::optional<transport::Incoming>{};
      if (rng_.below(100) < faults_.repeat) again_.push_back(**got);
      if (rng_.below(100) < faults_.reorder) {
        again_.push_back(std::move(**got));
        return std::optional<transport::Incoming>{};
      }
      return got;
    }
    void wake() noexcept override { inner_->wake(); }
    std::vector<std::string> endpoints() const override { return inner_->endpoints(); }

   private:
    std::unique_ptr<Channel> inner_;
    Faults faults_;
    SplitMix64 rng_;
    std::vector<std::pair<transport::PeerId, transport::Message>> held_;
    std::deque<transport::Incoming> again_;
  };
  std::shared_ptr<Transport> inner_;
  Faults faults_;
};

inline TableSchema sum_schema(std::string name, std::uint32_t dim,
                              Consistency consistency = Consistency::kAsp) {
  return {.name = std::move(name), .dim = dim, .learning_rate = -1.0f, .consistency = consistency};
}

}  // namespace dlrun::ps

#pragma once
/// bench/ps/shard_thread.h: one shard on a thread of its own, as in a shard host, and clients of
/// it. Ends the program when the shard cannot listen.
/// Threads: clients belong to who made them; they must be gone before the shard.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "ps/client/client.h"
#include "ps/shard/shard_loop.h"
#include "runtime/transport/zmq_transport.h"

namespace dlrun::bench {

class ShardThread {
 public:
  /// bind: "shm://*", "tcp://127.0.0.1:*".
  explicit ShardThread(const std::string& bind)
      : transport_(std::make_shared<transport::ZmqTransport>()) {
    auto channel = transport_->listen({.bind = {bind}});
    if (!channel) {
      std::fprintf(stderr, "shard: %s\n", channel.error().to_string().c_str());
      std::exit(1);
    }
    view_ = {.map = ps::SlotMap::even(1, {1, 1}),
             .shards = {{.shard = ShardId{0}, .tcp = (*channel)->endpoints()[0]}},
             .workers = 1};
    loop_ = std::make_unique<ps::ShardLoop>(ps::ShardCore({.workers = 1}, view_.map),
                                            std::move(*channel), std::make_shared<SystemClock>());
    thread_ = std::thread([this] {
      while (!stop_) {
        (void)loop_->step(Duration{-1});
        run_errand();
      }
    });
  }
  ~ShardThread() {
    stop_ = true;
    loop_->wake();
    thread_.join();
  }
  ShardThread(const ShardThread&) = delete;
  ShardThread& operator=(const ShardThread&) = delete;

  std::unique_ptr<ps::Client> client(ps::WorkerId worker = ps::kNoWorker) const {
    return ps::Client::connect(view_, {.worker = worker, .transport = transport_}).value();
  }
  /// Runs on the shard's thread, between two turns; soon, not before it returns.
  void post(std::function<void(ps::ShardLoop&)> errand) {
    {
      const std::lock_guard lock(mutex_);
      errand_ = std::move(errand);
    }
    loop_->wake();
  }

 private:
  void run_errand() {
    std::function<void(ps::ShardLoop&)> errand;
    {
      const std::lock_guard lock(mutex_);
      errand = std::exchange(errand_, nullptr);
    }
    if (errand) errand(*loop_);
  }

  std::shared_ptr<transport::Transport> transport_;
  ps::PsView view_;
  std::unique_ptr<ps::ShardLoop> loop_;
  std::mutex mutex_;
  std::function<void(ps::ShardLoop&)> errand_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace dlrun::bench

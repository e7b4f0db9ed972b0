#pragma once
/// runtime/transport/zmq_transport.h: the Transport between processes. Over ZeroMQ: a ROUTER
/// listens, one DEALER per link dials; tcp (IPv4, IPv6) and ipc. Over shared memory on one host:
/// shm (runtime/transport/shm_end.h); whoever waits on a channel with such links looks for up to
/// 50 us before it sleeps. Frames are handed to zmq without a copy; received ones stay in zmq's
/// memory, or in the ring, until dropped. A link that is not up takes nothing (kUnavailable), so
/// nothing piles up for a dead peer; zmq's heartbeats find one within about 6 s, shared memory at
/// once. A listener closes within 1 s after sending what is queued; a dialling channel drops what
/// is queued.
/// Threads: as Channel says; each transport has one zmq context with one I/O thread, which starts
/// with the first tcp or ipc endpoint.

#include "runtime/transport/transport.h"

namespace dlrun::transport {

class ZmqTransport final : public Transport {
 public:
  ZmqTransport();
  ~ZmqTransport() override;
  Result<std::unique_ptr<Channel>> listen(const ListenOptions& options) override;
  Result<std::unique_ptr<Channel>> dial(const DialOptions& options = {}) override;

 private:
  struct Context;
  std::shared_ptr<Context> context_;
};

}  // namespace dlrun::transport

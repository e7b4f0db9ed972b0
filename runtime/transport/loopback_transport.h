#pragma once
/// runtime/transport/loopback_transport.h: Transport within one process, for tests and for clients
/// beside their shard. Endpoints "loop://NAME"; bind "loop://*" picks a name. Frames are shared,
/// not copied; nothing is lost. No threads of its own.

#include "runtime/transport/transport.h"

namespace dlrun::transport {

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport();
  ~LoopbackTransport() override;
  Result<std::unique_ptr<Channel>> listen(const ListenOptions& options) override;
  Result<std::unique_ptr<Channel>> dial(const DialOptions& options = {}) override;

 private:
  struct Hub;
  std::shared_ptr<Hub> hub_;
};

}  // namespace dlrun::transport

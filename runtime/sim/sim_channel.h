#pragma once
/// runtime/sim/sim_channel.h: transport::Channel over a SimNetwork: the real client (ps::Engine)
/// and the real data loop of a shard (ps::ShardLoop) send their real bytes. Delivery as the network
/// will: lost, late, twice, out of order. A channel never blocks: receive() takes what is there,
/// whatever timeout it is given; `arrived` says that something came. Endpoints: sim://NODE/NAME.
/// Threads: the loop's.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/sim/sim_network.h"
#include "runtime/transport/transport.h"

namespace dlrun::sim {

std::string pack_frames(const transport::Message& message);
/// nullopt: not such bytes, or cut short. The frames are copies.
std::optional<transport::Message> unpack_frames(std::string_view bytes);

class SimChannel;

/// Who listens where, and whom answers go to. Outlives its channels.
class SimSockets {
 public:
  explicit SimSockets(SimNetwork& network) : network_(network) {}

 private:
  friend class SimChannel;
  SimNetwork& network_;
  std::map<std::string, SimChannel*> listening_;
  std::map<std::uint64_t, SimChannel*> channels_;
  std::uint64_t last_ = 0;
};

class SimChannel final : public transport::Channel {
 public:
  /// `endpoint`: where it listens; "" = it dials.
  SimChannel(SimSockets& sockets, NodeId node, std::string endpoint, std::function<void()> arrived);
  ~SimChannel() override;
  SimChannel(const SimChannel&) = delete;
  SimChannel& operator=(const SimChannel&) = delete;

  Result<transport::PeerId> connect(const std::string& endpoint) override;
  void disconnect(transport::PeerId peer) override;
  Status send(transport::PeerId peer, const transport::Message& message) override;
  Result<std::optional<transport::Incoming>> receive(Duration timeout) override;
  void wake() noexcept override {}
  std::vector<std::string> endpoints() const override { return {endpoint_}; }

  /// Sees, before anybody else, each message that a listening channel takes in and sends.
  using Watch = std::function<void(transport::PeerId, const transport::Message&)>;
  void watch(Watch in, Watch out) {
    in_ = std::move(in);
    out_ = std::move(out);
  }

 private:
  void put(transport::PeerId from, std::string_view bytes);

  SimSockets& sockets_;
  const NodeId node_;
  const std::string endpoint_;
  const std::function<void()> arrived_;
  const std::uint64_t id_;
  std::map<transport::PeerId, std::string> dialled_;
  std::map<transport::PeerId, NodeId> peers_;  ///< of a listening channel, by the dialler's id
  std::deque<transport::Incoming> queue_;
  Watch in_, out_;
  std::uint64_t last_peer_ = 0;
};

/// The node of "sim://NODE/NAME"; "" when it is no such endpoint.
NodeId node_of_endpoint(std::string_view endpoint);

}  // namespace dlrun::sim

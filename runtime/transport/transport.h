#pragma once
/// runtime/transport/transport.h: messages of several frames between a listener and the peers that
/// dial it. One Channel is one end: a listening one (a shard) or a dialling one with a link to each
/// shard (a client). Delivery is at most once and, per peer, in order; a link that breaks is
/// redialled in the background and may lose what was under way, without saying so. Retry and
/// duplicates are the user's matter (ps/client).
/// Errors: zmq's and errno's, as Errc, with the endpoint in the context.
/// Bounds: ListenOptions, DialOptions.
/// Threads: a Channel has one owner at a time (hand it over under a lock); only wake() may come
/// from any thread.

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::transport {

/// Bytes that somebody keeps alive: shared, never written after they were sent. Without an owner
/// they are there during a send() alone, which copies them. Alignment is not promised.
struct Frame {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;

  static Frame copy(const void* data, std::size_t size);
  /// Takes a vector over without copying.
  template <class T>
  static Frame take(std::vector<T> values) {
    auto held = std::make_shared<std::vector<T>>(std::move(values));
    return Frame{held, reinterpret_cast<const std::byte*>(held->data()), held->size() * sizeof(T)};
  }
};
/// Few frames take no memory of their own.
using Message = boost::container::small_vector<Frame, 4>;
/// The same bytes, with owners for all of them.
Message owned(Message message);

/// A link of this channel: given by connect() on a dialling one, by the first message on a
/// listening one.
using PeerId = std::uint64_t;

struct Incoming {
  PeerId peer = 0;
  Message message;
};

class Channel {
 public:
  virtual ~Channel() = default;
  /// Dialling channels. Returns at once: the link comes up in the background. kInvalidArgument: not
  /// an endpoint.
  virtual Result<PeerId> connect(const std::string& endpoint) = 0;
  /// Drops the link and what it still held. Unknown: nothing.
  virtual void disconnect(PeerId peer) = 0;
  /// Never blocks. kUnavailable: the link is not up (or the peer went); kOverloaded: its queue is
  /// full. Then nothing was sent.
  virtual Status send(PeerId peer, const Message& message) = 0;
  /// As send(), but it may be held back to go together with others: until receive() has nothing
  /// more to give, or a few are together. What then cannot be sent is lost without a word.
  virtual Status send_later(PeerId peer, const Message& message) { return send(peer, message); }
  /// Begins a message of two frames: `head`, copied, and `bytes` that the caller writes to where
  /// this points (64-byte aligned) before commit(), the next call to this channel. nullptr: not to
  /// be had here and now; send() says why.
  virtual std::byte* reserve(PeerId /*peer*/, const Frame& /*head*/, std::size_t /*bytes*/) {
    return nullptr;
  }
  virtual void commit(PeerId /*peer*/) {}
  /// The next message. nullopt: `timeout` is over, or wake() was called, or something came that is
  /// no message (a bell, a peer's end, what was broken), at any time: whoever waits for a message
  /// calls again. A negative timeout has no end. Zero only looks, and not everywhere: where
  /// there are links in shared memory the sockets get one look in 16. A blocked call burns no CPU.
  virtual Result<std::optional<Incoming>> receive(Duration timeout) = 0;
  /// Makes the current receive, or else the next one that would block, return nullopt. Any thread.
  virtual void wake() noexcept = 0;
  /// Where a listening channel is reached, in the order of ListenOptions::bind, with real ports and
  /// the advertised host.
  virtual std::vector<std::string> endpoints() const = 0;
};

struct ListenOptions {
  /// "tcp://127.0.0.1:*", "tcp://[::1]:*" (* or 0 = a free port), "ipc:///path", "shm://@name" or
  /// "shm://*"; loopback: "loop://name".
  std::vector<std::string> bind;
  std::string advertise_host;  ///< in endpoints() in place of tcp's bind address; "" = the bind
                               ///< address itself
  std::uint32_t queue_messages_max = 4096;      ///< per peer and direction
  std::uint64_t message_bytes_max = 64u << 20;  ///< one frame; a peer that sends more is cut off
};
struct DialOptions {
  std::uint32_t queue_messages_max = 4096;
  std::uint64_t message_bytes_max = 64u << 20;
};

/// Thread safe. Channels may outlive it.
class Transport {
 public:
  virtual ~Transport() = default;
  /// kResourceExhausted: port or path taken, no descriptors; kInvalidArgument: no such address
  /// here.
  virtual Result<std::unique_ptr<Channel>> listen(const ListenOptions& options) = 0;
  virtual Result<std::unique_ptr<Channel>> dial(const DialOptions& options = {}) = 0;
};

}  // namespace dlrun::transport

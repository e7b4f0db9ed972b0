#pragma once
/// runtime/transport/shm_end.h: one end of the shared-memory transport: the links of a channel to
/// peers on the same host. Endpoint "shm://@name": an abstract Unix socket, over which the dialling
/// side hands a ShmLink's memory file. The socket stays open: a byte on it is a bell for a sleeping
/// peer, its end is the peer's end, by whatever cause; so nothing has a name in a file system and
/// nothing stays when a process is killed. Only processes of the same user (or root's) are linked.
///
///   dialler                                    listener
///     connect, Hello + memory file   ------->    accept, check, map
///     kUp                            <-------    kWelcome
///     put -> ring; bell if it sleeps ------->    take
///
/// Peer: Idle -1-> Greeting -2-> Up -3-> Gone -4-> Idle (dialled) or forgotten (accepted)
///   1: dialled, or accepted. 2: the welcome came; the hello was right. 3: the socket ended.
///   4: what it had sent has been taken. Greeting -> Idle or forgotten when the socket ends.
/// A dialled link takes messages while it is greeted, for a second and in the hope of a welcome;
/// after a greeting in vain not before the welcome: a listener that refuses swallows little. Each
/// greeting in vain also doubles the time to the next: it costs the memory of two rings.
/// fork(): an end belongs to the process that made it. It ends its links for both sides, whoever
/// has copies of the descriptors; a child's copy of it may only be destroyed, which ends nothing.
/// Who ends without closing, while a child of his lives on, is gone for the peer when the child is.
/// Errors: kUnavailable (nobody there, not welcome, or gone), kOverloaded (no room), and ShmLink's.
/// Bounds: kHelloWithin for the hello of an accepted peer; kLinksMax links at a listener; ring
/// bytes per link; ShmLink::kBigMax large messages.
/// Threads: one owner at a time.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/time.h"
#include "runtime/os/fd.h"
#include "runtime/transport/shm_link.h"
#include "runtime/transport/transport.h"

namespace dlrun::transport {

class ShmEnd {
 public:
  static constexpr std::size_t kLinksMax = 1024;
  /// An accepted peer without a hello is dropped after this.
  static constexpr Duration kHelloWithin = std::chrono::seconds(5);
  /// From one dial to the next: where nobody is, or a link broke; and at most, where none is
  /// welcome.
  static constexpr Duration kRedial = std::chrono::milliseconds(20);
  static constexpr Duration kRedialMax = std::chrono::seconds(1);
  /// In every PeerId of this transport.
  static constexpr PeerId kPeerBit = PeerId{1} << 62;

  static bool is_endpoint(const std::string& endpoint) { return endpoint.rfind("shm://", 0) == 0; }

  static Result<std::unique_ptr<ShmEnd>> make(std::uint64_t message_bytes_max);
  ~ShmEnd();
  ShmEnd(const ShmEnd&) = delete;
  ShmEnd& operator=(const ShmEnd&) = delete;

  /// "shm://@name" or "shm://*"; returns the endpoint. kResourceExhausted: taken.
  Result<std::string> bind(const std::string& endpoint);
  /// Returns at once; send() says when the link is up, and dials again what is down.
  /// kResourceExhausted: no memory for the rings.
  Result<PeerId> connect(const std::string& endpoint);
  void disconnect(PeerId peer);
  Status send(PeerId peer, const Message& message);
  /// As Channel has them.
  std::byte* reserve(PeerId peer, const Frame& head, std::size_t bytes);
  void commit(PeerId peer);
  /// Looks at the rings only. Round robin over the peers.
  std::optional<Incoming> try_receive();

  /// Before sleeping on fd(). false: do not, a message is there.
  bool arm() noexcept;
  void disarm() noexcept;
  /// Readable: look() has something to do.
  int fd() const noexcept { return epoll_.get(); }
  /// New peers, bells, peers that have gone. Never blocks.
  void look();
  bool empty() const noexcept { return peers_.empty(); }

 private:
  enum class State : std::uint8_t { kIdle, kGreeting, kUp, kGone };
  struct Peer {
    State state = State::kIdle;
    std::string endpoint;  ///< of one that was dialled
    TimePoint tried;       ///< when it was dialled last, or accepted
    bool hopeful = true;   ///< dialled: the last greeting was not in vain
    Duration pause = kRedial;
    os::Fd socket;
    std::unique_ptr<ShmLink> link;
    std::deque<os::Fd> files;  ///< of large messages, not taken yet
  };
  using Peers = std::map<PeerId, Peer>;

  ShmEnd(os::Fd epoll, std::uint64_t message_bytes_max);
  Status watch(int fd, PeerId id);
  Status dial(PeerId id, Peer& peer);
  void accept_all();
  void wake_in(Duration time);
  void on_timer();
  bool welcome(Peer& peer);
  void read_socket(Peer& peer);
  void close(Peer& peer) const;
  Peers::iterator drop(Peers::iterator it);

  os::Fd epoll_;
  const int owner_;  ///< process
  const std::uint64_t message_bytes_max_;
  os::Fd listener_;
  /// Of a listener: runs while somebody accepted has not said hello, or nobody can be accepted.
  os::Fd timer_;
  bool timer_runs_ = false;
  bool accepts_ = true;  ///< false: out of descriptors, until the timer
  Peers peers_;
  PeerId last_ = kPeerBit;
  PeerId served_ = 0;
  SystemClock clock_;
};

}  // namespace dlrun::transport

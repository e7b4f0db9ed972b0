#pragma once
/// ps/pslite/post.h: one thread with a channel and reliable links over it: every payload arrives
/// once, in the order of its lane, as long as both processes live. Lanes: requests, which wait for
/// credit, and everything else. A mail's arrays are cut into segments and put together again.
///
///   send() --outbox--> thread: link's lanes -> LinkCore numbers, keeps -> channel
///   channel -> LinkCore: next one? -> arrays together -> User::on_packet
///
/// Session: the number of a link, chosen at random by the side that dials. A dialled link has
/// several endpoints, the best first, and takes the next one after kSwitchAfter of silence; the
/// other side answers where it was last spoken to from.
/// Errors: send(): kOverloaded never (it waits), kUnavailable (no such link, or it was closed),
/// kCancelled (abandon()). A peer that breaks the format is lost.
/// Bounds: Options; kLinksMax links of a listener; two mails of a link being put together.
/// Threads: the user's methods run on the post's thread; send, took, flush and close from any.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ps/pslite/core/link_core.h"
#include "ps/pslite/core/msg.h"
#include "runtime/base/result.h"
#include "runtime/base/rng.h"
#include "runtime/transport/transport.h"

namespace dlrun::pslite {

class Post {
 public:
  using Session = std::uint64_t;
  static constexpr std::size_t kSegmentBytes = 256u << 10;  ///< several are in a ring
  static constexpr std::size_t kLinksMax = 8192;
  static constexpr Duration kSwitchAfter = std::chrono::seconds(3);
  static constexpr Duration kTurn = std::chrono::milliseconds(100);  ///< on_turn at least so often

  struct Options {
    LinkCore::Limits link;
    std::uint64_t queue_bytes = 1u << 30;  ///< of one link, not numbered yet; or one mail
    std::uint32_t drop_percent = 0;        ///< of what comes in: for tests
    std::uint64_t seed = 0;
  };
  /// What came. `credit`: to be handed to took() when the mail, a request, has been taken.
  struct Arrived {
    Session session = 0;
    Payload payload;
    std::vector<transport::Frame> arrays;  ///< 8-byte aligned, to be kept as long as one likes
    std::uint64_t credit = 0;
  };
  class User {
   public:
    virtual ~User() = default;
    virtual void on_packet(Post& post, Arrived arrived) = 0;
    /// Once, and not after a Goodbye of the peer or close().
    virtual void on_lost(Post& post, Session session, const std::string& why) = 0;
    virtual void on_turn(Post& post, TimePoint now) = 0;
  };

  Post(std::unique_ptr<transport::Channel> channel, const Options& options, User& user,
       const Clock& clock);
  ~Post() { stop(); }
  Post(const Post&) = delete;
  Post& operator=(const Post&) = delete;
  void start();
  /// Ends the thread; what is queued is dropped. Not from the thread.
  void stop();

  Session dial(std::vector<std::string> endpoints);
  /// `arrays`: of a mail, with owners, or there until it was answered. Waits for room.
  Status send(Session session, Payload payload, std::vector<transport::Frame> arrays = {});
  void took(Session session, std::uint64_t credit);
  /// Nothing more is sent, and its silence means nothing; what comes is still acknowledged.
  void close(Session session);
  /// Until all that was sent over links that are not closed is acknowledged. false: not within
  /// `limit`.
  bool flush(Duration limit);
  /// Whoever waits for room gets kCancelled, now and later.
  void abandon();
  std::vector<std::string> endpoints() const { return channel_->endpoints(); }

 private:
  struct Outgoing {
    Payload payload;
    std::vector<transport::Frame> arrays;
    std::uint64_t bytes = 0;
    std::uint64_t done = 0;  ///< of them, in packets already
  };
  struct Kept {
    Payload payload;
    transport::Message frames;  ///< after the header
    bool went = false;          ///< before
  };
  struct Assembly {
    std::vector<std::shared_ptr<std::byte>> buffers;
    std::uint64_t came = 0;
    std::uint64_t counted = 0;
  };
  struct Link {
    Link(const LinkCore::Limits& limits, TimePoint now) : core(limits, now) {}
    LinkCore core;
    transport::PeerId peer = 0;
    std::vector<std::string> endpoints;  ///< of a dialled one
    std::size_t choice = 0;
    TimePoint dialled;
    std::deque<Outgoing> free, requests;
    std::deque<Kept> kept;  ///< kept[0] has number core.base(), after drop_acked()
    std::uint64_t kept_base = 1;
    std::uint64_t queued = 0;  ///< bytes in the lanes
    std::uint64_t mails = 0;
    std::map<std::uint64_t, Assembly> assemblies;
    bool quiet = false;    ///< closed, or the peer said goodbye
    bool blocked = false;  ///< the channel takes nothing now

    /// Nothing more is to be said to it.
    bool gone(Duration lost_after, TimePoint now) const noexcept {
      return quiet && core.silence(now) > lost_after;
    }
    void drop_queued() {
      free.clear();
      requests.clear();
      queued = 0;
    }
  };
  /// What other threads have for the thread.
  struct Commands {
    struct Send {
      Session session;
      Outgoing what;
    };
    std::vector<Send> sends;
    std::vector<std::pair<Session, std::vector<std::string>>> dials;
    std::vector<Session> closes;
    std::vector<std::pair<Session, std::uint64_t>> taken;
    bool empty() const { return sends.empty() && dials.empty() && closes.empty() && taken.empty(); }
  };

  void run();
  void obey(TimePoint now);
  void pump(Session session, Link& link, TimePoint now);
  void number(Link& link);
  static Kept next_packet(Outgoing& out);
  bool transmit(Session session, Link& link, const Kept& kept, std::uint64_t sequence,
                TimePoint now);
  void drop_acked(Link& link);
  void receive(transport::Incoming incoming, TimePoint now);
  Status on_mail(Session session, Link& link, const Mail& mail,
                 std::span<const transport::Frame> frames, bool in_ring);
  void look_after(Session session, Link& link, TimePoint now);
  void lose(Session session, Link& link, const std::string& why);
  void redial(Link& link, TimePoint now);
  void settle();

  std::unique_ptr<transport::Channel> channel_;
  const Options options_;
  User& user_;
  const Clock& clock_;
  SplitMix64 rng_, drop_rng_;                       ///< under mutex_; the thread's
  std::map<Session, std::unique_ptr<Link>> links_;  ///< the thread's

  std::mutex mutex_;
  std::condition_variable room_, settled_;
  Commands commands_;
  std::unordered_map<Session, std::uint64_t> queued_;  ///< bytes, of open links
  std::uint64_t taken_unsaid_ = 0;
  std::uint64_t unsettled_ = 0;  ///< payloads given to send() and not acknowledged; of open links
  bool stop_ = false;
  bool abandoned_ = false;
  std::thread thread_;
};

}  // namespace dlrun::pslite

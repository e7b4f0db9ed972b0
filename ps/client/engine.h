#pragma once
/// ps/client/engine.h: the requests of one client that are under way: credit, sequences, retries,
/// replies. A Call is what the user asked; it is made of Ops, one segment to one shard each.
///
/// Op: Queued -1-> Sent -2-> Done;  Sent -3-> Queued;  any -4-> Done (with an error, which ends the
/// whole call)
///   1: credit and a sequence were free, the link took it. 2: an OK reply. 3: no reply within the
///   backoff, kOverloaded or kUnavailable; or the slot map changed (then it may be cut in several
///   with the same sequence). 4: another refusal, or the deadline.
/// Waiting: one of the waiting threads leads (it alone touches the channel, outside the lock while
/// it blocks); the others wait for it.
/// Bounds: bytes of sent ops per shard <= ShardLink::credit (credit_bytes; less over shared
/// memory), or one op that is larger by itself; open sequences < kSequencesOpenMax.
/// Threads: all methods lock.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ps/client/client.h"
#include "ps/client/partition.h"
#include "ps/client/shard_link.h"
#include "ps/core/value_codec.h"
#include "runtime/base/rng.h"
#include "runtime/transport/recycler.h"
#include "runtime/transport/transport.h"
#include "runtime/wire/ps_codec.h"

namespace dlrun::ps {

/// What requests are made of, kept from one to the next.
struct RequestMemory {
  transport::Recycler& recycler() noexcept { return recycled; }
  transport::Recycler recycled;
};
template <class T>
using RequestAllocator = transport::RecyclingAllocator<T, RequestMemory>;
template <class Key, class T>
using RequestMap = std::map<Key, T, std::less<Key>, RequestAllocator<std::pair<const Key, T>>>;

struct Call {
  explicit Call(const RequestAllocator<char>& memory) : table(memory) {}
  const char* verb = "";  ///< what() for errors: "pull of table 'w'"
  std::basic_string<char, std::char_traits<char>, RequestAllocator<char>> table;
  TimePoint made;
  TimePoint deadline;
  std::size_t open = 0;    ///< ops not done
  std::size_t unsent = 0;  ///< ops never sent
  std::optional<Error> error;
  std::span<float> out;  ///< pull
  // scan: the last page
  ReplyHeader page;
  std::vector<std::uint64_t> page_keys;
  std::vector<float> page_values;
  bool done() const noexcept { return open == 0 || error.has_value(); }
  std::string what() const {
    if (table.empty()) return verb;
    return std::string(verb).append(" of table '").append(table).append("'");
  }
};

class Engine {
 public:
  Engine(PsView view, ClientOptions options, std::unique_ptr<transport::Channel> channel);

  /// A call whose deadline is `timeout` (at most a day) from now.
  /// `verb` lives for ever; `table`: a name, or "".
  std::shared_ptr<Call> make_call(const char* verb, const std::string& table,
                                  Duration timeout) const;

  // Each adds ops to the call and sends what credit allows.
  /// `keys_stay`: they live as long as the call.
  void pull(const std::shared_ptr<Call>& call, const TableSchema& schema,
            std::span<const std::uint64_t> keys, bool keys_stay);
  /// Keys and gradients live as long as the call.
  void push(const std::shared_ptr<Call>& call, const TableSchema& schema,
            std::span<const std::uint64_t> keys, std::span<const float> grads);
  /// One op to each shard, or to one.
  void tell(const std::shared_ptr<Call>& call, RequestHeader header,
            std::optional<ShardId> shard = {});

  /// Drives the traffic until the call is done.
  Status wait(const std::shared_ptr<Call>& call);
  /// The same for at most `timeout`: false when it is not done then.
  Result<bool> wait_for(const std::shared_ptr<Call>& call, Duration timeout);
  /// Until every op of it was sent once, or it is done.
  void wait_sent(const std::shared_ptr<Call>& call);
  /// Until nothing is open on the tables (all tables when empty). kDeadlineExceeded.
  Status wait_quiet(const std::vector<std::uint32_t>& tables, TimePoint deadline);
  /// Drops its ops; replies still to come are ignored.
  void abandon(const std::shared_ptr<Call>& call);

  // A mark (docs/ps.md): pushes and changes of rates that are begun from now on wait until
  // release_pushes(); one that is under way is finished.
  void hold_pushes();
  void release_pushes();
  /// Until those under way are done. kDeadlineExceeded.
  Status wait_pushes(TimePoint deadline);
  /// The last number that was given to a push.
  std::uint64_t last_sequence() const;
  CheckpointCall called(std::uint32_t table) const;
  /// What called() told of is done with.
  void set_marked(std::uint64_t checkpoint);

  Status set_view(PsView view);
  /// Of pushes and pulls from now on.
  void set_codecs(const TableSchema& schema, CodecSpec push, CodecSpec pull);
  std::uint32_t shards() const;
  /// Of one request or reply: what suits the links.
  std::uint32_t segment_bytes() const;
  std::uint64_t clock_of(std::uint32_t table) const;
  void set_clock(std::uint32_t table, std::uint64_t clock);
  Client::Stats stats() const;
  TimePoint now() const { return clock_->now(); }
  const ClientOptions& options() const noexcept { return options_; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Op {
    std::shared_ptr<Call> call;
    RequestHeader header;
    std::shared_ptr<const Segment> segment;
    ShardId shard;
    std::uint64_t bytes = 0;  ///< that it holds of the shard's credit when sent
    bool sent = false;
    bool held = true;  ///< waits for its turn, credit or a sequence, not for next_send
    std::uint32_t attempts = 0;
    TimePoint next_send;
    Duration backoff{0};
    std::string refusal;
  };
  struct Codecs {
    CodecSpec push;
    CodecSpec pull;
    std::unique_ptr<ErrorFeedback> feedback;
  };
  using Ops = RequestMap<std::uint64_t, Op>;  ///< by request: oldest first

  void add(const std::shared_ptr<Call>& call, const RequestHeader& header, Segment segment);
  CutRule rule(bool borrow) const;
  void encode(const Codecs& codecs, const TableSchema& schema, Segment& segment);
  Result<bool> wait_until(const std::shared_ptr<Call>& call, TimePoint end);
  static Status accept_pull(const Op& op, const ReplyHeader& reply,
                            const transport::Message& message);
  void note_call(const RequestHeader& request, const ReplyHeader& reply);
  void kick();
  bool drive(Lock& lock, const std::function<bool()>& done, TimePoint deadline);
  void pump(TimePoint start);
  bool admit(Op& op);
  void send(Op& op, TimePoint start);
  void retry_and_expire(TimePoint start);
  void send_queued(TimePoint start);
  void handle(Lock& lock, transport::Incoming incoming);
  void refuse(Lock& lock, Ops::iterator op, const ReplyHeader& reply);
  Status accept(Op& op, const ReplyHeader& reply, const transport::Message& message);
  void finish(Ops::iterator op);
  void fail_call(Call& call, Error error);
  void drop_ops(const Call& call);
  void install(PsView view);
  void connect_links();
  void suit_links();
  void resend(ShardId shard, TimePoint start);
  void release(Op& op);
  Duration jittered(Duration d) {
    return Duration{
        static_cast<std::int64_t>(static_cast<double>(d.count()) * (0.75 + 0.5 * rng_.uniform()))};
  }

  const ClientOptions options_;
  const std::shared_ptr<const Clock> clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool leading_ = false;
  PsView view_;
  std::optional<PsView> next_view_;
  std::unique_ptr<transport::Channel> channel_;
  std::vector<ShardLink> links_;  ///< by shard
  std::uint32_t segment_bytes_ = 0;
  std::vector<char> blocked_;  ///< by shard, in pump()
  std::shared_ptr<RequestMemory> memory_ = std::make_shared<RequestMemory>();
  wire::HeaderWriter writer_;
  Ops ops_{Ops::allocator_type(memory_)};
  TimePoint due_ = TimePoint::max();  ///< nothing is to be done before, but what credit holds
  std::uint64_t first_queued_ = 0;    ///< all ops below it were sent
  std::uint64_t last_request_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::optional<std::uint64_t> held_from_;  ///< pushes of requests from here on wait
  std::uint64_t called_ = 0;                ///< the last checkpoint that a shard told of
  std::uint64_t marked_ = 0;
  std::unordered_map<std::uint32_t, CheckpointCall> cuts_;  ///< by table
  /// sequence -> ops that carry it
  RequestMap<std::uint64_t, std::uint32_t> open_sequences_{
      RequestAllocator<std::pair<const std::uint64_t, std::uint32_t>>(memory_)};
  std::unordered_map<std::uint32_t, std::uint64_t> clocks_;
  std::unordered_map<std::uint32_t, Codecs> codecs_;  ///< by table; none: f32 both ways
  SplitMix64 rng_;
  Client::Stats stats_;
};

/// kInvalidArgument when a client could not work with it.
Status check_view(const PsView& view);

}  // namespace dlrun::ps

#include "ps/client/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps/core/dedup_window.h"

namespace dlrun::ps {
namespace {

constexpr Duration kTimeoutMax = std::chrono::hours(24);
constexpr Duration kLinkRetryFirst = std::chrono::milliseconds(2);
constexpr Duration kLinkRetryMax = std::chrono::milliseconds(100);
constexpr std::uint64_t kOpOverheadBytes = 512;
constexpr int kRepliesPerTurn = 64;

/// Without an owner when the caller's array was borrowed: it may go once the call has ended.
template <class T>
transport::Frame frame_of(const std::shared_ptr<const Segment>& segment, std::span<const T> array,
                          const std::vector<T>& own) {
  return {own.empty() ? nullptr : segment, reinterpret_cast<const std::byte*>(array.data()),
          array.size_bytes()};
}

}  // namespace

Status check_view(const PsView& view) {
  if (view.shards.empty()) return fail(Errc::kInvalidArgument, "the job has no parameter shards");
  if (view.map.owner.size() != kSlots)
    return fail(Errc::kInvalidArgument, "the slot map is not complete");
  for (const ShardId owner : view.map.owner) {
    if (owner.value >= view.shards.size()) {
      return fail(Errc::kInvalidArgument, "the slot map names shard " +
                                              std::to_string(owner.value) + " of " +
                                              std::to_string(view.shards.size()));
    }
  }
  for (std::size_t i = 0; i < view.shards.size(); ++i) {
    if (view.shards[i].shard.value != i)
      return fail(Errc::kInvalidArgument, "the shards are not listed by number");
  }
  return {};
}

Engine::Engine(PsView view, ClientOptions options, std::unique_ptr<transport::Channel> channel)
    : options_(std::move(options)),
      clock_(options_.clock),
      view_(std::move(view)),
      channel_(std::move(channel)),
      links_(view_.shards.size()),
      rng_(options_.client.value) {
  connect_links();
}

void Engine::connect_links() {
  for (std::size_t i = 0; i < links_.size(); ++i)
    links_[i].place(*channel_, view_.shards[i], options_.credit_bytes, now());
  suit_links();
  due_ = now();  // a better link may be there
}

void Engine::suit_links() {
  const bool any =
      std::any_of(links_.begin(), links_.end(), [](const ShardLink& link) { return link.shm(); });
  segment_bytes_ =
      any ? std::min(options_.segment_bytes_max, kShmSegmentBytes) : options_.segment_bytes_max;
}

/// Another link leads to the shard: what the one before had taken goes again, at once.
void Engine::resend(ShardId shard, TimePoint start) {
  suit_links();
  for (auto& [request, op] : ops_) {
    if (op.sent && op.shard == shard && op.next_send != TimePoint::max()) op.next_send = start;
  }
  due_ = std::min(due_, start);
}

std::shared_ptr<Call> Engine::make_call(const char* verb, const std::string& table,
                                        Duration timeout) const {
  auto call =
      std::allocate_shared<Call>(RequestAllocator<Call>(memory_), RequestAllocator<char>(memory_));
  call->verb = verb;
  call->table = table;
  call->made = now();
  call->deadline = call->made + std::clamp(timeout, Duration::zero(), kTimeoutMax);
  return call;
}

void Engine::add(const std::shared_ptr<Call>& call, const RequestHeader& header, Segment segment) {
  Op& op = ops_.try_emplace(ops_.end(), ++last_request_)->second;
  op.call = call;
  op.header = header;
  op.shard = segment.shard;
  op.header.request = last_request_;
  op.header.token = view_.token;
  op.header.client = options_.client;
  op.header.worker = options_.worker;
  op.header.n =
      op.header.kind == Kind::kScan ? op.header.n : static_cast<std::uint32_t>(segment.keys.size());
  const std::uint64_t values = op.header.kind == Kind::kScan
                                   ? segment_bytes_
                                   : segment.keys.size() * 4 * std::uint64_t{op.header.dim};
  op.bytes = kOpOverheadBytes + segment.keys.size() * 8 + values;
  op.segment =
      std::allocate_shared<Segment>(RequestAllocator<Segment>(memory_), std::move(segment));
  op.backoff = kLinkRetryFirst;
  op.next_send = call->made;
  due_ = std::min(due_, call->deadline);
  if (op.header.sequence != 0) ++open_sequences_[op.header.sequence];
  ++call->open;
  ++call->unsent;
}

CutRule Engine::rule(bool borrow) const {
  CutRule rule{.segment_bytes_max = segment_bytes_, .borrow = borrow};
  if (links_.size() == 1) rule.only = ShardId{0};
  return rule;
}

void Engine::pull(const std::shared_ptr<Call>& call, const TableSchema& schema,
                  std::span<const std::uint64_t> keys, bool keys_stay) {
  const Lock lock(mutex_);
  RequestHeader header{
      .kind = Kind::kPull, .table = schema.id, .clock = clocks_[schema.id], .dim = schema.dim};
  if (const auto codecs = codecs_.find(schema.id); codecs != codecs_.end())
    header.codec = codecs->second.pull;
  for (Segment& s : cut_pull(schema, view_.map, keys, rule(keys_stay)))
    add(call, header, std::move(s));
  kick();
}

void Engine::push(const std::shared_ptr<Call>& call, const TableSchema& schema,
                  std::span<const std::uint64_t> keys, std::span<const float> grads) {
  const Lock lock(mutex_);
  RequestHeader header{
      .kind = Kind::kPush, .table = schema.id, .clock = clocks_[schema.id], .dim = schema.dim};
  const auto codecs = codecs_.find(schema.id);
  const bool coded = codecs != codecs_.end() && codecs->second.push.codec != Codec::kF32;
  if (coded) header.codec = codecs->second.push;
  for (Segment& s : cut_push(schema, view_.map, keys, grads, rule(true))) {
    if (coded) encode(codecs->second, schema, s);
    add(call, header, std::move(s));
  }
  kick();
}

/// Once for a push, not once a try: what is lost now is owed from now on.
void Engine::encode(const Codecs& codecs, const TableSchema& schema, Segment& s) {
  s.row_bytes = encoded_row_bytes(codecs.push, schema.dim);
  s.encoded.resize(s.keys.size() * s.row_bytes);
  if (codecs.feedback != nullptr) {
    codecs.feedback->encode(codecs.push, s.keys, s.values, s.encoded.data());
  } else {
    encode_rows(codecs.push, s.values, schema.dim, s.encoded.data());
  }
  s.values = {};
  s.own_values = {};
}

void Engine::set_codecs(const TableSchema& schema, CodecSpec push, CodecSpec pull) {
  const Lock lock(mutex_);
  Codecs& codecs = codecs_[schema.id];
  codecs.push = push;
  codecs.pull = {pull.codec, 0};
  // What is owed stays owed when the codec changes.
  if (codecs.feedback == nullptr && (push.codec == Codec::kOneBit || push.codec == Codec::kTopK)) {
    const std::size_t row_bytes = 64 + 4 * std::size_t{schema.dim};
    codecs.feedback =
        std::make_unique<ErrorFeedback>(schema.dim, options_.feedback_bytes_max / row_bytes);
  }
}

void Engine::tell(const std::shared_ptr<Call>& call, RequestHeader header,
                  std::optional<ShardId> shard) {
  const Lock lock(mutex_);
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    if (!shard || shard->value == i) add(call, header, Segment(ShardId{i}));
  }
  kick();
}

// New ops are there: send them, or have the leader do it.
void Engine::kick() {
  if (leading_) {
    channel_->wake();
  } else {
    pump(now());
  }
}

Status Engine::wait(const std::shared_ptr<Call>& call) {
  DLRUN_TRY(wait_until(call, TimePoint::max()));
  return {};
}

Result<bool> Engine::wait_for(const std::shared_ptr<Call>& call, Duration timeout) {
  return wait_until(call, now() + std::clamp(timeout, Duration::zero(), kTimeoutMax));
}

Result<bool> Engine::wait_until(const std::shared_ptr<Call>& call, TimePoint end) {
  const TimePoint last = call->deadline + std::chrono::milliseconds(100);
  Lock lock(mutex_);
  if (!drive(
          lock, [&] { return call->done(); }, std::min(end, last))) {
    if (end < last) return false;
    // the leader is held up
    fail_call(*call, Error{Errc::kDeadlineExceeded, call->what() + ": no answer in time"});
  }
  if (call->error) return tl::unexpected(*call->error);
  return true;
}

void Engine::wait_sent(const std::shared_ptr<Call>& call) {
  Lock lock(mutex_);
  drive(
      lock, [&] { return call->done() || call->unsent == 0; },
      call->deadline + std::chrono::seconds(1));
}

Status Engine::wait_quiet(const std::vector<std::uint32_t>& tables, TimePoint deadline) {
  Lock lock(mutex_);
  const auto quiet = [&] {
    return std::none_of(ops_.begin(), ops_.end(), [&](const auto& entry) {
      const RequestHeader& h = entry.second.header;
      if (h.kind != Kind::kPull && h.kind != Kind::kPush) return false;
      return tables.empty() || std::find(tables.begin(), tables.end(), h.table) != tables.end();
    });
  };
  if (!drive(lock, quiet, deadline)) {
    return fail(Errc::kDeadlineExceeded,
                "this worker's own pulls and pushes were not answered in time");
  }
  return {};
}

void Engine::hold_pushes() {
  const Lock lock(mutex_);
  held_from_ = last_request_ + 1;
}

void Engine::release_pushes() {
  const Lock lock(mutex_);
  held_from_.reset();
  kick();
}

Status Engine::wait_pushes(TimePoint deadline) {
  Lock lock(mutex_);
  const auto done = [&] {
    if (!open_sequences_.empty()) return false;
    return std::none_of(ops_.begin(), ops_.lower_bound(*held_from_), [](const auto& entry) {
      const Kind kind = entry.second.header.kind;
      return kind == Kind::kPush || kind == Kind::kTune;
    });
  };
  if (!drive(lock, done, deadline))
    return fail(Errc::kDeadlineExceeded, "this client's own pushes were not answered in time");
  return {};
}

std::uint64_t Engine::last_sequence() const {
  const Lock lock(mutex_);
  return last_sequence_;
}

CheckpointCall Engine::called(std::uint32_t table) const {
  const Lock lock(mutex_);
  if (called_ <= marked_) return {};
  const auto cut = cuts_.find(table);
  if (cut == cuts_.end() || cut->second.checkpoint != called_) return {called_, 0};
  return cut->second;
}

void Engine::set_marked(std::uint64_t checkpoint) {
  const Lock lock(mutex_);
  marked_ = std::max(marked_, checkpoint);
}

void Engine::abandon(const std::shared_ptr<Call>& call) {
  const Lock lock(mutex_);
  if (!call->done()) fail_call(*call, Error{Errc::kCancelled, call->what() + ": given up"});
}

bool Engine::drive(Lock& lock, const std::function<bool()>& done, TimePoint deadline) {
  while (!done()) {
    const TimePoint start = now();
    if (leading_) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
    } else {
      leading_ = true;
      pump(start);
      if (!done()) {
        const Duration pause =
            std::clamp(std::min(due_, deadline) - start, Duration::zero(), kTimeoutMax);
        lock.unlock();
        auto incoming = channel_->receive(pause);
        lock.lock();
        for (int i = 0; incoming && *incoming && i < kRepliesPerTurn; ++i) {
          handle(lock, std::move(**incoming));
          incoming = std::optional<transport::Incoming>{};  // never one that is not handled
          if (i + 1 < kRepliesPerTurn) incoming = channel_->receive(Duration::zero());
        }
        // no descriptors, say: not a busy loop
        if (!incoming) changed_.wait_for(lock, std::chrono::milliseconds(10));
      }
      leading_ = false;
      changed_.notify_all();
    }
    if (done()) break;
    if (const TimePoint end = now(); end >= deadline) {
      if (!leading_) pump(end);
      return done();
    }
  }
  return true;
}

void Engine::pump(TimePoint start) {
  if (next_view_) install(std::move(*std::exchange(next_view_, std::nullopt)));
  if (start >= due_) retry_and_expire(start);
  send_queued(start);
}

void Engine::retry_and_expire(TimePoint start) {
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    if (links_[i].try_best(*channel_, start)) resend(ShardId{i}, start);
  }
  due_ = TimePoint::max();
  for (auto it = ops_.begin(); it != ops_.end();) {
    Op& op = it->second;
    if (op.call->deadline <= start) {
      const std::shared_ptr<Call> call = op.call;
      const ShardLink& link = links_[op.shard.value];
      std::string text = call->what() + ": no answer from shard " + std::to_string(op.shard.value) +
                         " (" + link.endpoint() + ") in time, sent " + std::to_string(op.attempts) +
                         " times";
      if (!op.refusal.empty()) text += "; last: " + op.refusal;
      fail_call(*call, Error{Errc::kDeadlineExceeded, std::move(text)});
      it = ops_.begin();  // the other ops of the call are gone too
      continue;
    }
    if (op.next_send <= start) {
      if (op.sent) {
        send(op, start);
      } else {
        op.held = true;  // its turn in the queue comes
      }
    }
    due_ = std::min(due_, op.call->deadline);
    if (!op.held) due_ = std::min(due_, op.next_send);
    ++it;
  }
}

// What was never sent, oldest first; looks no further than credit goes.
void Engine::send_queued(TimePoint start) {
  if (first_queued_ > last_request_) return;
  blocked_.assign(links_.size(), 0);
  std::size_t open = links_.size();
  std::optional<std::uint64_t> left;
  auto it = ops_.lower_bound(first_queued_);
  for (; it != ops_.end() && (open > 0 || held_from_); ++it) {
    Op& op = it->second;
    if (op.sent) continue;
    if (op.next_send <= start) {
      char& shard_blocked = blocked_[op.shard.value];
      const bool mark = op.header.kind == Kind::kMark;  // what is held waits for it
      op.held = (shard_blocked != 0 && !mark) || !admit(op);
      if (!op.held) {
        send(op, start);
      } else if (shard_blocked == 0) {
        shard_blocked = 1;  // later ones do not overtake it
        --open;
      }
    }
    if (!op.sent && !left) left = it->first;
  }
  first_queued_ = left.value_or(last_request_ + 1);
}

// Credit, and for a push a sequence: both or nothing.
bool Engine::admit(Op& op) {
  const ShardLink& link = links_[op.shard.value];
  if (link.bytes != 0 && link.bytes + op.bytes > link.credit) return false;
  const bool numbered = op.header.kind == Kind::kPush || op.header.kind == Kind::kTune;
  if (!numbered || op.header.sequence != 0) return true;
  if (held_from_ && op.header.request >= *held_from_) return false;
  const std::uint64_t next = last_sequence_ + 1;
  if (!open_sequences_.empty() && next - open_sequences_.begin()->first >= kSequencesOpenMax)
    return false;
  op.header.sequence = last_sequence_ = next;
  open_sequences_[next] = 1;
  return true;
}

void Engine::send(Op& op, TimePoint start) {
  op.header.budget = op.call->deadline - start;
  op.header.epoch = view_.map.epoch;
  const Segment& s = *op.segment;
  const std::span<const std::byte> head = writer_.write(op.header);
  transport::Message message{transport::Frame{nullptr, head.data(), head.size()}};
  if (!s.keys.empty()) message.push_back(frame_of(op.segment, s.keys, s.own_keys));
  if (!s.values.empty()) message.push_back(frame_of(op.segment, s.values, s.own_values));
  if (!s.encoded.empty())
    message.push_back(frame_of(op.segment, std::span<const std::byte>(s.encoded), s.encoded));
  ShardLink& link = links_[op.shard.value];
  if (const Status sent = channel_->send(link.peer, message); !sent) {
    op.refusal = sent.error().to_string();
    if (sent.error().code == Errc::kUnavailable && link.refused(*channel_, start))
      resend(op.shard, start);
    // Nobody was bothered: the pace of links, not that of retries.
    op.next_send = start + jittered(std::min(op.backoff, kLinkRetryMax));
    if (op.backoff < kLinkRetryMax) op.backoff *= 2;
    due_ = std::min(due_, op.next_send);
    return;
  }
  link.took();
  for (const transport::Frame& frame : message) stats_.bytes_sent += frame.size;
  if (!op.sent) {
    op.sent = true;
    link.bytes += op.bytes;
    --op.call->unsent;
    op.backoff = options_.retry_first;
    ++stats_.requests;
  } else {
    ++stats_.retries;
  }
  ++op.attempts;
  op.next_send =
      op.attempts >= options_.attempts_max ? TimePoint::max() : start + jittered(op.backoff);
  op.backoff = std::min(op.backoff * 2, options_.retry_max);
  due_ = std::min(due_, op.next_send);
}

void Engine::handle(Lock& lock, transport::Incoming incoming) {
  if (incoming.message.empty()) return;
  for (const transport::Frame& frame : incoming.message) stats_.bytes_received += frame.size;
  const auto reply = wire::decode_ps_reply({incoming.message[0].data, incoming.message[0].size});
  if (!reply) return;  // not one of ours; what it should have answered is sent again
  const auto it = ops_.find(reply->request);
  if (it == ops_.end() || it->second.header.kind != reply->kind ||
      links_[it->second.shard.value].peer != incoming.peer) {
    return;  // a second answer, or one to what was given up
  }
  if (reply->error == 0) note_call(it->second.header, *reply);
  if (reply->error != 0) {
    refuse(lock, it, *reply);
  } else if (Status ok = accept(it->second, *reply, incoming.message); !ok) {
    fail_call(*std::shared_ptr(it->second.call), std::move(ok.error()));
  } else {
    finish(it);
  }
}

void Engine::note_call(const RequestHeader& request, const ReplyHeader& reply) {
  // Of a restored table all clocks begin where it was cut.
  if (request.kind == Kind::kCreateTable && reply.clock != ~std::uint64_t{0}) {
    std::uint64_t& clock = clocks_[request.table];
    clock = std::max(clock, reply.clock);
  }
  if (reply.checkpoint == 0) return;
  called_ = std::max(called_, reply.checkpoint);
  if (request.kind != Kind::kMark && reply.checkpoint >= cuts_[request.table].checkpoint)
    cuts_[request.table] = {reply.checkpoint, reply.cut_clock};
}

Status Engine::accept_pull(const Op& op, const ReplyHeader& reply,
                           const transport::Message& message) {
  const std::size_t dim = op.header.dim;
  const bool coded = reply.codec.codec != Codec::kF32;
  const std::size_t frame_bytes = message.size() > 1 ? message[1].size : 0;
  const Segment& s = *op.segment;
  if (reply.n != op.header.n || reply.dim != dim || (coded && reply.codec != op.header.codec) ||
      frame_bytes != reply.n * encoded_row_bytes(reply.codec, op.header.dim)) {
    return fail(Errc::kCorrupt, op.call->what() + ": a reply of another shape");
  }
  if (reply.n == 0) return {};
  const std::byte* rows = message[1].data;
  float* out = op.call->out.data();
  std::vector<float> decoded;
  if (coded) {
    const std::span<const std::byte> bytes(rows, frame_bytes);
    if (s.targets.empty())
      return decode_rows(reply.codec, bytes, op.header.dim,
                         {out + s.first_row * dim, reply.n * dim});
    decoded.resize(reply.n * dim);
    DLRUN_TRY(decode_rows(reply.codec, bytes, op.header.dim, decoded));
    rows = reinterpret_cast<const std::byte*>(decoded.data());
  }
  if (s.targets.empty()) std::memcpy(out + s.first_row * dim, rows, frame_bytes);
  for (const auto& [key, target] : s.targets)
    std::memcpy(out + target * dim, rows + key * dim * sizeof(float), dim * sizeof(float));
  return {};
}

Status Engine::accept(Op& op, const ReplyHeader& reply, const transport::Message& message) {
  const auto frame_bytes = [&](std::size_t i) { return i < message.size() ? message[i].size : 0; };
  if (op.header.kind == Kind::kPull) {
    return accept_pull(op, reply, message);
  }
  if (op.header.kind == Kind::kScan) {
    if (frame_bytes(1) != std::size_t{reply.n} * 8 ||
        frame_bytes(2) != std::size_t{reply.n} * 4 * reply.dim) {
      return fail(Errc::kCorrupt, op.call->what() + ": a page of another shape");
    }
    op.call->page = reply;
    op.call->page_keys.resize(reply.n);
    op.call->page_values.resize(std::size_t{reply.n} * reply.dim);
    if (reply.n > 0) {
      std::memcpy(op.call->page_keys.data(), message[1].data, message[1].size);
      std::memcpy(op.call->page_values.data(), message[2].data, message[2].size);
    }
  }
  return {};
}

void Engine::refuse(Lock& lock, Ops::iterator it, const ReplyHeader& reply) {
  Op& op = it->second;
  const auto code = static_cast<Errc>(reply.error);
  op.refusal = std::string(errc_name(code)) + ": " + reply.context;
  const auto later = [&](Op& o) {
    o.next_send =
        o.attempts >= options_.attempts_max ? TimePoint::max() : now() + jittered(o.backoff) / 4;
    due_ = std::min(due_, o.next_send);
  };
  if (code == Errc::kOverloaded || code == Errc::kUnavailable) {
    later(op);
    return;
  }
  if (code == Errc::kStaleEpoch) {
    if (reply.epoch < view_.map.epoch) {  // an answer from before our last refresh
      later(op);
      return;
    }
    if (options_.refresh) {
      const std::uint64_t request = it->first;
      lock.unlock();
      auto fresh = options_.refresh();
      lock.lock();
      if (fresh && fresh->map.epoch > view_.map.epoch && check_view(*fresh) &&
          fresh->shards.size() == links_.size()) {
        install(std::move(*fresh));
      } else if (const auto still = ops_.find(request); still != ops_.end()) {
        later(still->second);
      }
      return;
    }
  }
  fail_call(*std::shared_ptr(op.call), Error{code, op.call->what() + ": " + reply.context});
}

void Engine::release(Op& op) {
  if (op.sent) links_[op.shard.value].bytes -= op.bytes;
  if (op.header.sequence != 0) {
    const auto open = open_sequences_.find(op.header.sequence);
    if (--open->second == 0) open_sequences_.erase(open);
  }
  if (!op.sent) --op.call->unsent;
  --op.call->open;
}

void Engine::finish(Ops::iterator it) {
  links_[it->second.shard.value].answered();
  release(it->second);
  ops_.erase(it);
}

void Engine::fail_call(Call& call, Error error) {
  call.error = std::move(error);
  drop_ops(call);
}

void Engine::drop_ops(const Call& call) {
  for (auto it = ops_.begin(); it != ops_.end();) {
    if (it->second.call.get() == &call) {
      release(it->second);
      it = ops_.erase(it);
    } else {
      ++it;
    }
  }
}

Status Engine::set_view(PsView view) {
  DLRUN_TRY(check_view(view));
  const Lock lock(mutex_);
  if (view.shards.size() != links_.size()) {
    return fail(Errc::kUnsupported, "a view with another number of shards: open a new client");
  }
  if (leading_) {
    if (!next_view_ || next_view_->map.epoch < view.map.epoch) next_view_ = std::move(view);
    channel_->wake();
  } else {
    install(std::move(view));
    pump(now());
  }
  return {};
}

// Requests under way go to the owners in the new map: same sequence, so that what was applied is
// not applied again.
void Engine::install(PsView view) {
  if (view.map.epoch <= view_.map.epoch) return;
  view_ = std::move(view);
  connect_links();
  Ops old = std::move(ops_);
  ops_.clear();
  first_queued_ = 0;
  for (auto& [request, op] : old) {
    Segments parts;
    if (op.segment->keys.empty()) {
      parts.emplace_back(op.shard);
    } else {
      parts = recut(op.header.table, op.header.dim, view_.map, *op.segment);
    }
    for (Segment& part : parts) add(op.call, op.header, std::move(part));
    release(op);
  }
}

std::uint32_t Engine::segment_bytes() const {
  const Lock lock(mutex_);
  return segment_bytes_;
}

std::uint32_t Engine::shards() const {
  const Lock lock(mutex_);
  return static_cast<std::uint32_t>(links_.size());
}

std::uint64_t Engine::clock_of(std::uint32_t table) const {
  const Lock lock(mutex_);
  const auto it = clocks_.find(table);
  return it == clocks_.end() ? 0 : it->second;
}

void Engine::set_clock(std::uint32_t table, std::uint64_t clock) {
  const Lock lock(mutex_);
  clocks_[table] = std::max(clocks_[table], clock);
}

Client::Stats Engine::stats() const {
  const Lock lock(mutex_);
  Client::Stats stats = stats_;
  for (const ShardLink& link : links_) ++(link.shm() ? stats.links_shm : stats.links_socket);
  for (const auto& [table, codecs] : codecs_) {
    if (codecs.feedback != nullptr) stats.forgotten += codecs.feedback->forgotten();
  }
  return stats;
}

}  // namespace dlrun::ps

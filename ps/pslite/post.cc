#include "ps/pslite/post.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>

#include "runtime/base/assert.h"
#include "runtime/transport/shm_end.h"
#include "runtime/wire/pslite_codec.h"

namespace dlrun::pslite {
namespace {

using transport::Frame;

constexpr std::size_t kAlignment = 64;
/// What a packet of a request counts beside its bytes, so that empty ones are bounded too.
constexpr std::uint64_t kPacketCost = 256;
constexpr std::size_t kAssembliesMax = 2;
/// After a longer time between two turns this process did not run: nobody is late for it.
constexpr Duration kStoodStill = std::chrono::seconds(1);
/// Packets that are received before what there is to send has a turn.
constexpr int kBurst = 64;
/// When a link that took nothing is tried again.
constexpr Duration kBlockedAgain = std::chrono::milliseconds(1);

std::uint64_t bytes_of(std::span<const Frame> frames) {
  std::uint64_t sum = 0;
  for (const Frame& frame : frames) sum += frame.size;
  return sum;
}

bool counts(const Payload& payload) {
  const Mail* mail = std::get_if<Mail>(&payload);
  return mail != nullptr && mail->request;
}

/// nullptr: no memory.
std::shared_ptr<std::byte> buffer_of(std::uint64_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new (
      std::max<std::uint64_t>(bytes, 1), std::align_val_t{kAlignment}, std::nothrow));
  if (memory == nullptr) return nullptr;
  return {memory, [](std::byte* p) { ::operator delete (p, std::align_val_t{kAlignment}); }};
}

Frame frame_of(const std::shared_ptr<std::byte>& buffer, std::uint64_t bytes) {
  return Frame{buffer, buffer.get(), bytes};
}

bool aligned(const Frame& frame) {
  return reinterpret_cast<std::uintptr_t>(frame.data) % alignof(std::uint64_t) == 0;
}

}  // namespace

Post::Post(std::unique_ptr<transport::Channel> channel, const Options& options, User& user,
           const Clock& clock)
    : channel_(std::move(channel)),
      options_(options),
      user_(user),
      clock_(clock),
      rng_(options.seed),
      drop_rng_(options.seed + 1) {}

void Post::start() {
  thread_ = std::thread([this] { run(); });
}

void Post::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = abandoned_ = true;
  }
  room_.notify_all();
  settled_.notify_all();
  channel_->wake();
  if (thread_.joinable()) thread_.join();
}

Post::Session Post::dial(std::vector<std::string> endpoints) {
  const std::lock_guard lock(mutex_);
  Session session = 0;
  while (session == 0) session = rng_.next();
  queued_[session] = 0;
  commands_.dials.emplace_back(session, std::move(endpoints));
  channel_->wake();
  return session;
}

Status Post::send(Session session, Payload payload, std::vector<Frame> arrays) {
  std::uint64_t bytes = bytes_of(arrays);
  std::unique_lock lock(mutex_);
  const auto find = [&] { return queued_.find(session); };
  if (!counts(payload) && !std::holds_alternative<Mail>(payload)) {
    if (find() == queued_.end()) return fail(Errc::kUnavailable, "no such link");
  } else {
    // The thread itself never sends mail.
    room_.wait(lock, [&] {
      const auto at = find();
      return abandoned_ || at == queued_.end() || at->second == 0 ||
             at->second + bytes <= options_.queue_bytes;
    });
    if (abandoned_) return fail(Errc::kCancelled, "given up");
    if (find() == queued_.end()) return fail(Errc::kUnavailable, "the link is closed");
  }
  queued_[session] += bytes;
  ++unsettled_;
  commands_.sends.push_back({session, {std::move(payload), std::move(arrays), bytes, 0}});
  lock.unlock();
  channel_->wake();
  return {};
}

void Post::took(Session session, std::uint64_t credit) {
  if (credit == 0) return;
  const std::lock_guard lock(mutex_);
  commands_.taken.emplace_back(session, credit);
  taken_unsaid_ += credit;
  if (taken_unsaid_ >= options_.link.credit_bytes / 8) channel_->wake();
}

void Post::close(Session session) {
  const std::lock_guard lock(mutex_);
  queued_.erase(session);
  commands_.closes.push_back(session);
  room_.notify_all();
  channel_->wake();
}

bool Post::flush(Duration limit) {
  std::unique_lock lock(mutex_);
  return settled_.wait_for(lock, limit, [&] { return stop_ || unsettled_ == 0; }) &&
         unsettled_ == 0;
}

void Post::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  room_.notify_all();
}

// From here on: the thread.

void Post::run() {
  TimePoint last = clock_.now();
  TimePoint turn = last;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) break;
    }
    TimePoint now = clock_.now();
    if (now - last > kStoodStill)
      for (auto& [session, link] : links_) link->core.stood_still(now - last);
    last = now;
    obey(now);
    TimePoint until = now + kTurn;
    for (auto& [session, link] : links_) {
      look_after(session, *link, now);
      if (link->blocked)
        until = std::min(until, now + kBlockedAgain);
      else if (!link->gone(options_.link.lost_after, now))
        until = std::min(until, link->core.next_time());
    }
    settle();
    if (now >= turn) {
      user_.on_turn(*this, now);
      turn = now + kTurn;
    }
    Duration wait = std::max<Duration>(until - now, Duration{1});
    for (int i = 0; i < kBurst; ++i) {
      auto incoming = channel_->receive(wait);
      if (!incoming || !*incoming) break;
      receive(std::move(**incoming), clock_.now());
      wait = Duration::zero();
    }
  }
}

void Post::obey(TimePoint now) {
  Commands commands;
  {
    const std::lock_guard lock(mutex_);
    std::swap(commands, commands_);
    taken_unsaid_ = 0;
  }
  for (auto& [session, endpoints] : commands.dials) {
    auto link = std::make_unique<Link>(options_.link, now);
    link->endpoints = std::move(endpoints);
    link->choice = link->endpoints.size() - 1;  // redial() takes the next: the first
    redial(*link, now);
    links_.emplace(session, std::move(link));
  }
  for (auto& send : commands.sends) {
    const auto at = links_.find(send.session);
    if (at == links_.end()) continue;  // settle() does not count it
    auto& lane = counts(send.what.payload) ? at->second->requests : at->second->free;
    if (std::holds_alternative<Mail>(send.what.payload))
      std::get<Mail>(send.what.payload).number = ++at->second->mails;
    at->second->queued += send.what.bytes;
    lane.push_back(std::move(send.what));
  }
  for (const auto& [session, credit] : commands.taken) {
    const auto at = links_.find(session);
    if (at != links_.end()) at->second->core.on_taken(credit);
  }
  for (const Session session : commands.closes) {
    const auto at = links_.find(session);
    if (at == links_.end()) continue;
    Link& link = *at->second;
    link.quiet = true;
    link.drop_queued();
  }
}

/// The next endpoint that can be dialled.
void Post::redial(Link& link, TimePoint now) {
  if (link.peer != 0) channel_->disconnect(link.peer);
  link.peer = 0;
  for (std::size_t i = 0; i < link.endpoints.size() && link.peer == 0; ++i) {
    link.choice = (link.choice + 1) % link.endpoints.size();
    if (const auto peer = channel_->connect(link.endpoints[link.choice])) link.peer = *peer;
  }
  link.dialled = now;
}

void Post::look_after(Session session, Link& link, TimePoint now) {
  if (!link.quiet && link.core.lost(now)) {
    const auto seconds = link.core.silence(now) / std::chrono::seconds(1);
    lose(session, link, "nothing heard for " + std::to_string(seconds) + " s");
    return;
  }
  link.core.on_time(now);
  if (!link.quiet && !link.endpoints.empty() && link.core.silence(now) > kSwitchAfter &&
      now - link.dialled > kSwitchAfter && (link.endpoints.size() > 1 || link.peer == 0))
    redial(link, now);
  link.blocked = false;
  if (link.gone(options_.link.lost_after, now)) return;
  pump(session, link, now);
  if (link.core.must_tell(now) && !link.blocked)
    link.blocked = !transmit(session, link, {}, 0, now);
}

void Post::pump(Session session, Link& link, TimePoint now) {
  drop_acked(link);
  while (true) {
    std::uint64_t sequence = link.core.to_send();
    if (sequence == 0) {
      number(link);
      sequence = link.core.to_send();
      if (sequence == 0) return;
    }
    Kept& kept = link.kept[sequence - link.kept_base];
    if (!transmit(session, link, kept, sequence, now)) {
      link.blocked = true;
      return;
    }
    kept.went = true;
    link.core.sent(now);
  }
}

/// Numbers one packet, if there is one and it may go.
void Post::number(Link& link) {
  for (auto* lane : {&link.free, &link.requests}) {
    if (lane->empty()) continue;
    Outgoing& out = lane->front();
    const bool counted = lane == &link.requests;
    const std::uint64_t bytes = std::min<std::uint64_t>(out.bytes - out.done, kSegmentBytes);
    const std::uint64_t cost = counted ? bytes + kPacketCost : 0;
    if (!link.core.may_number(cost)) continue;
    (void)link.core.number(cost);
    const std::uint64_t before = out.done;
    link.kept.push_back(next_packet(out));
    link.queued -= out.done - before;
    if (out.done == out.bytes) lane->pop_front();
    return;
  }
}

Post::Kept Post::next_packet(Outgoing& out) {
  Kept kept{out.payload, {}, false};
  if (Mail* mail = std::get_if<Mail>(&kept.payload)) mail->offset = out.done;
  if (out.bytes <= kSegmentBytes) {
    for (Frame& frame : out.arrays) kept.frames.push_back(std::move(frame));
    out.done = out.bytes;
    return kept;
  }
  std::uint64_t skip = out.done;
  std::uint64_t left = std::min<std::uint64_t>(out.bytes - out.done, kSegmentBytes);
  for (const Frame& frame : out.arrays) {
    if (skip >= frame.size) {
      skip -= frame.size;
      continue;
    }
    const std::uint64_t part = std::min<std::uint64_t>(frame.size - skip, left);
    if (part == 0) break;
    kept.frames.push_back({frame.owner, frame.data + skip, part});
    out.done += part;
    left -= part;
    skip = 0;
  }
  return kept;
}

bool Post::transmit(Session session, Link& link, const Kept& kept, std::uint64_t sequence,
                    TimePoint now) {
  if (link.peer == 0) return false;
  const std::vector<std::byte> header =
      wire::encode_pslite({session, sequence, link.core.ack(), link.core.taken(), kept.payload});
  transport::Message message;
  message.push_back(Frame{nullptr, header.data(), header.size()});
  for (const Frame& frame : kept.frames) {
    message.push_back(frame);
    // Sent again it is copied: its user's memory is sure to be there until the acknowledgement, not
    // longer, and two copies may be under way.
    if (kept.went) message.back().owner = nullptr;
  }
  if (!channel_->send(link.peer, message)) return false;
  link.core.told(now);
  return true;
}

void Post::drop_acked(Link& link) {
  while (link.kept_base < link.core.base()) {
    link.kept.pop_front();
    ++link.kept_base;
  }
}

/// Counts anew what is not acknowledged, and lets go whoever waits for that or for room.
void Post::settle() {
  const std::lock_guard lock(mutex_);
  std::uint64_t open = commands_.sends.size();
  for (auto& [session, bytes] : queued_) bytes = 0;
  for (const auto& send : commands_.sends) {
    const auto at = queued_.find(send.session);
    if (at != queued_.end()) at->second += send.what.bytes;
  }
  for (const auto& [session, link] : links_) {
    // Who has left does not acknowledge for long: that it went is enough.
    if (link->quiet && (link->core.silence(clock_.now()) > options_.link.keepalive ||
                        (link->core.unsent() == 0 && link->free.empty() && link->requests.empty())))
      continue;
    open += link->free.size() + link->requests.size() + (link->core.idle() ? 0 : 1);
    const auto at = queued_.find(session);
    if (at != queued_.end()) at->second += link->queued;
  }
  unsettled_ = open;
  if (open == 0) settled_.notify_all();
  room_.notify_all();
}

void Post::lose(Session session, Link& link, const std::string& why) {
  link.quiet = true;
  link.drop_queued();
  {
    const std::lock_guard lock(mutex_);
    queued_.erase(session);
  }
  user_.on_lost(*this, session, why);
}

void Post::receive(transport::Incoming incoming, TimePoint now) {
  if (options_.drop_percent > 0 && drop_rng_.below(100) < options_.drop_percent) return;
  if (incoming.message.empty()) return;
  const Frame& head = incoming.message[0];
  auto packet = wire::decode_pslite({head.data, head.size});
  if (!packet) return;  // a stranger; a peer that speaks so will be lost
  auto at = links_.find(packet->session);
  if (at == links_.end()) {
    const bool opens = std::holds_alternative<Register>(packet->payload) ||
                       std::holds_alternative<Hello>(packet->payload);
    if (!opens || packet->sequence != 1 || packet->session == 0 || links_.size() >= kLinksMax)
      return;
    at = links_.emplace(packet->session, std::make_unique<Link>(options_.link, now)).first;
    const std::lock_guard lock(mutex_);
    queued_[packet->session] = 0;
  }
  Link& link = *at->second;
  if (link.endpoints.empty()) link.peer = incoming.peer;
  const bool next = link.core.on_packet(packet->sequence, packet->ack, packet->taken, now);
  if (!next) return;
  if (std::holds_alternative<Goodbye>(packet->payload)) link.quiet = true;
  if (const Mail* mail = std::get_if<Mail>(&packet->payload)) {
    const bool in_ring = (incoming.peer & transport::ShmEnd::kPeerBit) != 0;
    const Status status =
        on_mail(at->first, link, *mail, {incoming.message.data() + 1, incoming.message.size() - 1},
                in_ring);
    if (!status && !link.quiet) lose(at->first, link, status.error().context);
    return;
  }
  user_.on_packet(*this, {at->first, std::move(packet->payload), {}, 0});
}

Status Post::on_mail(Session session, Link& link, const Mail& mail, std::span<const Frame> frames,
                     bool in_ring) {
  const std::uint64_t bytes = bytes_of(frames);
  const std::uint64_t cost = mail.request ? bytes + kPacketCost : 0;
  const std::uint64_t total = mail.total();
  if (bytes > total - mail.offset) return fail(Errc::kCorrupt, "it sent more than it announced");
  if (bytes == 0 && total != 0) return fail(Errc::kCorrupt, "it sent a packet without bytes");

  Arrived arrived{session, mail, {}, cost};
  const bool whole = mail.offset == 0 && bytes == total && frames.size() == mail.arrays &&
                     std::equal(frames.begin(), frames.end(), mail.bytes.begin(),
                                [](const Frame& f, std::uint64_t n) { return f.size == n; });
  if (whole && !in_ring && std::all_of(frames.begin(), frames.end(), aligned)) {
    arrived.arrays.assign(frames.begin(), frames.end());
    user_.on_packet(*this, std::move(arrived));
    return {};
  }

  // In memory of their own: rings want their room back, and values their alignment.
  Assembly& assembly = link.assemblies[mail.number];
  if (assembly.came != mail.offset) return fail(Errc::kCorrupt, "it sent parts out of order");
  if (link.assemblies.size() > kAssembliesMax)
    return fail(Errc::kCorrupt, "it sent parts of too many mails at a time");
  if (assembly.buffers.empty()) {
    for (std::uint32_t i = 0; i < mail.arrays; ++i) {
      auto buffer = buffer_of(mail.bytes[i]);
      if (buffer == nullptr)
        return fail(Errc::kResourceExhausted,
                    "no memory here for a mail of " + std::to_string(total) + " bytes");
      assembly.buffers.push_back(std::move(buffer));
    }
  }
  if (assembly.buffers.size() != mail.arrays)
    return fail(Errc::kCorrupt, "it sent parts that do not fit");
  std::uint64_t array = 0;
  std::uint64_t skip = mail.offset;
  for (const Frame& frame : frames) {
    std::uint64_t done = 0;
    while (done < frame.size) {
      while (array < mail.arrays && skip >= mail.bytes[array]) skip -= mail.bytes[array++];
      DLRUN_ASSERT(array < mail.arrays);
      const std::uint64_t part =
          std::min<std::uint64_t>(frame.size - done, mail.bytes[array] - skip);
      std::memcpy(assembly.buffers[array].get() + skip, frame.data + done, part);
      done += part;
      skip += part;
    }
  }
  assembly.came += bytes;
  assembly.counted += cost;
  if (assembly.came < total) {
    if (cost > 0) link.core.on_part(cost);
    return {};
  }
  for (std::uint32_t i = 0; i < mail.arrays; ++i)
    arrived.arrays.push_back(frame_of(assembly.buffers[i], mail.bytes[i]));
  arrived.credit = assembly.counted;
  if (mail.request) link.core.on_whole(assembly.counted - cost);
  link.assemblies.erase(mail.number);
  user_.on_packet(*this, std::move(arrived));
  return {};
}

}  // namespace dlrun::pslite

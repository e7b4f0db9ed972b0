#include "ps/pslite/member.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "runtime/base/assert.h"

namespace dlrun::pslite {
namespace {

/// How long a failure may take to reach the others before the program hears of it.
constexpr Duration kTellWithin = std::chrono::seconds(2);
/// Between the last message and the end of the threads, which drop what they have; or the end of
/// the process, which a failure is told to and which still has to acknowledge it.
constexpr Duration kLastWords = std::chrono::milliseconds(50);

Post::Options post_options(const MemberOptions& options, std::uint64_t salt) {
  Post::Options post = options.post;
  post.seed = mix64(options.seed + salt);
  return post;
}

}  // namespace

Member::Member(MemberOptions options, std::shared_ptr<transport::Transport> transport,
               const Clock& clock)
    : options_(std::move(options)), transport_(std::move(transport)), clock_(clock) {}

Member::~Member() {
  bool tell = false;
  {
    const std::lock_guard lock(mutex_);
    tell = roster_ && !has_left_ && !failure_;
  }
  if (tell) fail_here("it ended without Finalize");
  if (data_) data_->stop();
  if (control_) control_->stop();
}

std::string Member::self() const {
  return (roster_ ? node_name(roster_->you) : "a " + std::string(role_name(options_.role))) + " (" +
         options_.name + ")";
}

Result<std::unique_ptr<transport::Channel>> Member::listen() {
  Result<std::unique_ptr<transport::Channel>> channel =
      dlrun::fail(Errc::kInvalidArgument, "nowhere to listen");
  for (const auto& endpoints : options_.bind) {
    transport::ListenOptions listen;
    listen.bind = endpoints;
    channel = transport_->listen(listen);
    if (channel) break;
  }
  return channel;
}

Status Member::open(Lock& /*lock*/) {
  if (control_) return {};
  if (options_.role == Role::kScheduler) {
    auto channel = listen();
    if (!channel) return fail_as("the scheduler cannot listen at " + options_.root, channel);
    RollCore::Options roll{options_.workers, options_.servers, mix64(options_.seed + 3) | 1,
                           options_.start_within};
    roll_.emplace(roll, clock_.now());
    control_ =
        std::make_unique<Post>(std::move(*channel), post_options(options_, 1), *this, clock_);
    control_->start();
    return {};
  }
  DLRUN_ASSIGN(auto control, transport_->dial());
  std::unique_ptr<transport::Channel> data;
  if (options_.role == Role::kServer) {
    DLRUN_ASSIGN(data, listen());
  } else {
    DLRUN_ASSIGN(data, transport_->dial());
  }
  control_ = std::make_unique<Post>(std::move(control), post_options(options_, 1), *this, clock_);
  data_ = std::make_unique<Post>(std::move(data), post_options(options_, 2), *this, clock_);
  to_scheduler_ = control_->dial({options_.root});
  control_->start();
  data_->start();
  return {};
}

Status Member::start(int customer) {
  Lock lock(mutex_);
  if (has_left_) return dlrun::fail(Errc::kFailedPrecondition, "it has left");
  DLRUN_TRY(open(lock));
  if (options_.role != Role::kScheduler && !failure_) {
    Register wish;
    wish.role = options_.role;
    wish.customer = customer;
    wish.rank = customer == 0 ? options_.rank : kNobody;
    wish.workers = options_.workers;
    wish.servers = options_.servers;
    wish.name = options_.name;
    if (options_.role == Role::kServer) {
      const std::vector<std::string> endpoints = data_->endpoints();
      wish.tcp = endpoints.front();
      if (endpoints.size() > 1 && !options_.host_mark.empty())
        wish.shm = options_.host_mark + " " + endpoints[1];
    }
    (void)control_->send(to_scheduler_, wish);
  }
  // The scheduler has the same bound, and knows who is missing: it speaks first.
  const bool came = changed_.wait_for(lock, options_.start_within + std::chrono::seconds(5),
                                      [&] { return roster_.has_value() || failure_.has_value(); });
  if (failure_) return tl::unexpected(*failure_);
  if (!came)
    return dlrun::fail(Errc::kDeadlineExceeded, "no answer from the scheduler at " + options_.root);
  return {};
}

Status Member::barrier(int group) {
  Lock lock(mutex_);
  if (failure_) return tl::unexpected(*failure_);
  if (!roster_ || has_left_)
    return dlrun::fail(Errc::kFailedPrecondition, "a barrier wants Start before it");
  if ((group & bit_of(options_.role)) == 0)
    return dlrun::fail(Errc::kInvalidArgument, "a barrier of " + group_name(group) +
                                                   " is none for a " + role_name(options_.role));
  const std::uint64_t round = passed_[group];
  if (roll_) {
    apply(roll_->on_enter(RollCore::kSelf, group));
  } else if (left_.contains(kSchedulerId) || !control_->send(to_scheduler_, Enter{group})) {
    return dlrun::fail(Errc::kUnavailable, "the scheduler has left: no barrier can be passed");
  }
  changed_.wait(lock, [&] {
    return passed_[group] != round || failure_ || (!roll_ && left_.contains(kSchedulerId));
  });
  if (passed_[group] != round) return {};
  if (failure_) return tl::unexpected(*failure_);
  return dlrun::fail(Errc::kUnavailable, "the scheduler has left before a barrier was passed");
}

void Member::about_to_leave() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
}

void Member::leave(bool together) {
  const TimePoint until = clock_.now() + kLeaveWithin;
  {
    const std::lock_guard lock(mutex_);
    if (has_left_) return;
    leaving_ = has_left_ = true;
    told_ = true;
  }
  if (!control_) return;
  if (!failed()) {
    if (data_) (void)data_->flush(until - clock_.now());
    (void)control_->flush(until - clock_.now());
    std::map<int, Route> routes;
    {
      const std::lock_guard lock(mutex_);
      routes = routes_;
    }
    for (const auto& [id, route] : routes) (void)route.post->send(route.session, Goodbye{});
    if (data_) (void)data_->flush(until - clock_.now());
    (void)control_->flush(until - clock_.now());
    if (roll_ && together) {
      Lock lock(mutex_);
      changed_.wait_for(lock, until - clock_.now(), [&] { return roll_->all_left(); });
    }
  }
  // The last acknowledgements are on their way, and whoever waits for one waits longer without it.
  if (!failed()) std::this_thread::sleep_for(kLastWords);
  if (data_) data_->stop();
  control_->stop();
}

Status Member::send(Mail mail, std::vector<transport::Frame> arrays) {
  DLRUN_ASSERT(arrays.size() == mail.arrays);
  if (mail.total() > kMailBytesMax)
    return dlrun::fail(Errc::kInvalidArgument,
                       "mail of " + std::to_string(mail.total()) + " bytes is too large");
  Lock lock(mutex_);
  if (failure_) return tl::unexpected(*failure_);
  if (!roster_) return dlrun::fail(Errc::kFailedPrecondition, "nothing can be sent before Start");
  if (!process_of_.contains(mail.recver))
    return dlrun::fail(Errc::kInvalidArgument, "there is no node " + std::to_string(mail.recver));
  const int process = process_of_.at(mail.recver);
  mail.sender = roster_->you;
  if (process == roster_->you) {
    deliver({mail, std::move(arrays), nullptr, 0, 0});
    return {};
  }
  if (role_of(process) == options_.role)
    return dlrun::fail(Errc::kInvalidArgument, "there is no way from one " +
                                                   std::string(role_name(options_.role)) +
                                                   " to another (" + node_name(mail.recver) + ")");
  // A server learns the way to a worker when it is dialled.
  changed_.wait_for(lock, options_.start_within, [&] {
    return routes_.contains(process) || failure_ || left_.contains(process) || has_left_;
  });
  if (failure_) return tl::unexpected(*failure_);
  if (left_.contains(process) || has_left_ || !routes_.contains(process)) {
    if (!mail.request || leaving_) return {};  // nobody wants it any more
    return dlrun::fail(Errc::kUnavailable, node_name(mail.recver) + " has left (Finalize)");
  }
  const Route route = routes_.at(process);
  if (mail.request) ++outstanding_[process];
  lock.unlock();
  const Status sent = route.post->send(route.session, mail, std::move(arrays));
  if (sent) return {};
  lock.lock();
  if (failure_) return tl::unexpected(*failure_);
  return leaving_ || !mail.request ? Status{} : sent;
}

void Member::took(const Letter& letter) {
  if (letter.from != nullptr) letter.from->took(letter.session, letter.credit);
}

Status Member::attach(int app, int customer, Mailbox* box) {
  const std::lock_guard lock(mutex_);
  if (!boxes_.emplace(std::pair{app, customer}, box).second)
    return dlrun::fail(Errc::kAlreadyExists, "app " + std::to_string(app) + " has a customer " +
                                                 std::to_string(customer) + " already");
  if (failure_) box->on_failure();
  std::deque<Waiting> waiting;
  std::swap(waiting, waiting_);
  for (Waiting& each : waiting) {
    if (box_for(each.letter.mail) != nullptr)
      deliver(std::move(each.letter));
    else
      waiting_.push_back(std::move(each));
  }
  return {};
}

void Member::detach(int app, int customer) {
  const std::lock_guard lock(mutex_);
  boxes_.erase({app, customer});
}

int Member::id() const {
  const std::lock_guard lock(mutex_);
  return roster_ ? roster_->you : kNobody;
}

std::vector<int> Member::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool Member::failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

bool Member::has_left() const {
  const std::lock_guard lock(mutex_);
  return has_left_;
}

std::optional<Error> Member::failure_to_tell() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) return std::nullopt;
    told_ = true;
  }
  if (control_) (void)control_->flush(kTellWithin);
  std::this_thread::sleep_for(kLastWords);
  return failure_;
}

void Member::fail_here(const std::string& what) {
  {
    const std::lock_guard lock(mutex_);
    const std::string reason = self() + ": " + what;
    if (roll_)
      apply(roll_->on_failed(RollCore::kSelf, reason));
    else
      fail(reason, true);
  }
  (void)failure_to_tell();
}

// From the posts' threads.

void Member::on_packet(Post& post, Post::Arrived arrived) {
  const std::lock_guard lock(mutex_);
  // A worker may have the roster first.
  if (&post == data_.get() && !roster_) {
    early_.emplace_back(&post, std::move(arrived));
    return;
  }
  handle(post, std::move(arrived));
}

void Member::handle(Post& post, Post::Arrived arrived) {
  const Post::Session session = arrived.session;
  Payload& payload = arrived.payload;
  if (const auto* mail = std::get_if<Mail>(&payload)) {
    deliver({*mail, std::move(arrived.arrays), &post, session, arrived.credit});
  } else if (const auto* hello = std::get_if<Hello>(&payload)) {
    on_hello(post, session, *hello);
  } else if (std::holds_alternative<Goodbye>(payload)) {
    on_goodbye(session);
  } else if (const auto* refused = std::get_if<Refused>(&payload)) {
    fail(refused->reason, false);
  } else if (roll_) {
    if (const auto* wish = std::get_if<Register>(&payload)) {
      log(std::string(role_name(wish->role)) + " (" + wish->name + ") registers");
      apply(roll_->on_register(session, *wish));
    } else if (const auto* enter = std::get_if<Enter>(&payload)) {
      apply(roll_->on_enter(session, enter->group));
    } else if (const auto* failed = std::get_if<Failed>(&payload)) {
      apply(roll_->on_failed(session, failed->reason));
    }
  } else if (session == to_scheduler_) {
    if (const auto* roster = std::get_if<Roster>(&payload)) {
      on_roster(*roster);
    } else if (const auto* passed = std::get_if<Passed>(&payload)) {
      ++passed_[passed->group];
      changed_.notify_all();
    } else if (const auto* failed = std::get_if<Failed>(&payload)) {
      fail(failed->reason, false);
    }
  }
}

void Member::apply(const RollCore::Effects& effects) {
  for (const auto& [session, payload] : effects) {
    if (session != RollCore::kSelf) {
      if (const auto* roster = std::get_if<Roster>(&payload))
        routes_[roster->you] = {control_.get(), session};
      (void)control_->send(session, payload);
    } else if (const auto* roster = std::get_if<Roster>(&payload)) {
      on_roster(*roster);
    } else if (const auto* passed = std::get_if<Passed>(&payload)) {
      ++passed_[passed->group];
      changed_.notify_all();
    } else if (const auto* failed = std::get_if<Failed>(&payload)) {
      fail(failed->reason, false);
    }
  }
}

void Member::on_roster(const Roster& roster) {
  if (roster_) return;
  roster_ = roster;
  process_of_[kSchedulerId] = kSchedulerId;
  for (const RosterNode& node : roster.nodes) process_of_[node.id] = node.process;
  log("is " + self());
  if (!roll_) routes_[kSchedulerId] = {control_.get(), to_scheduler_};
  if (options_.role == Role::kWorker) {
    const std::string here = options_.host_mark + " ";
    for (const RosterNode& node : roster.nodes) {
      if (role_of(node.id) != Role::kServer || node.process != node.id) continue;
      std::vector<std::string> endpoints;
      if (!options_.host_mark.empty() && node.shm.rfind(here, 0) == 0)
        endpoints.push_back(node.shm.substr(here.size()));
      endpoints.push_back(node.tcp);
      log("dials " + node_name(node.id) + " at " + endpoints.front());
      const Post::Session session = data_->dial(std::move(endpoints));
      routes_[node.id] = {data_.get(), session};
      (void)data_->send(session, Hello{roster.job, roster.you});
    }
  }
  auto early = std::move(early_);
  early_.clear();
  for (auto& [post, arrived] : early) handle(*post, std::move(arrived));
  changed_.notify_all();
}

void Member::on_hello(Post& post, Post::Session session, const Hello& hello) {
  if (hello.job != roster_->job || !process_of_.contains(hello.from)) {
    (void)post.send(session, Refused{self() + " belongs to another job"});
    post.close(session);
    return;
  }
  routes_[hello.from] = {&post, session};
  changed_.notify_all();
}

int Member::process_at(Post::Session session) const {
  for (const auto& [process, route] : routes_)
    if (route.session == session) return process;
  return kNobody;
}

void Member::on_goodbye(Post::Session session) {
  const int process = process_at(session);
  if (roll_) apply(roll_->on_goodbye(session));
  if (process == kNobody) return;
  left_.insert(process);
  log(node_name(process) + " has left");
  if (outstanding_[process] > 0 && !leaving_)
    fail(node_name(process) + " has left (Finalize) with requests of " + self() + " unanswered",
         true);
  changed_.notify_all();
}

Mailbox* Member::box_for(const Mail& mail) const {
  const int customer = mail.request && options_.role != Role::kWorker ? mail.app : mail.customer;
  const auto exact = boxes_.find({mail.app, customer});
  if (exact != boxes_.end()) return exact->second;
  if (!mail.request) return nullptr;
  const auto any = boxes_.lower_bound({mail.app, 0});
  return any != boxes_.end() && any->first.first == mail.app ? any->second : nullptr;
}

void Member::deliver(Letter letter) {
  if (!letter.mail.request) {
    const auto open = outstanding_.find(letter.mail.sender);
    if (open != outstanding_.end() && open->second > 0) --open->second;
  }
  if (Mailbox* box = box_for(letter.mail))
    box->put(std::move(letter));
  else if (letter.mail.request)  // an answer that nobody waits for is dropped
    waiting_.push_back({std::move(letter), clock_.now()});
}

void Member::on_lost(Post& post, Post::Session session, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (has_left_) return;
  const int process = process_at(session);
  if (process != kNobody) lost_.push_back(process);
  if (roll_) {
    apply(roll_->on_lost(session, why));
  } else if (&post == control_.get()) {
    // Not in vain, for it may be in the scheduler's way alone: the servers would wait as long.
    fail("the scheduler at " + options_.root + " is lost: " + why, false);
  } else if (process != kNobody) {
    fail(self() + " has lost " + node_name(process) + ": " + why, true);
  }
}

void Member::on_turn(Post& post, TimePoint now) {
  std::string end;
  {
    const std::lock_guard lock(mutex_);
    if (&post != control_.get()) return;
    if (roll_) apply(roll_->on_time(now));
    if (!failure_ && !waiting_.empty() && now - waiting_.front().since > kAppWithin && !leaving_) {
      const std::string reason =
          self() + " has no customer for app " + std::to_string(waiting_.front().letter.mail.app) +
          ", which " + node_name(waiting_.front().letter.mail.sender) + " sent a request to";
      if (roll_)
        apply(roll_->on_failed(RollCore::kSelf, reason));
      else
        fail(reason, true);
    }
    if (failure_ && !told_ && now - failed_at_ > options_.grace) {
      told_ = true;
      end = failure_->context;
    }
  }
  if (!end.empty() && options_.end_process) options_.end_process(end);
}

void Member::fail(const std::string& reason, bool tell) {
  if (failure_) return;
  failure_ = Error{Errc::kUnavailable, reason};
  failed_at_ = clock_.now();
  log("failed: " + reason);
  if (tell && !roll_ && control_) (void)control_->send(to_scheduler_, Failed{reason});
  for (const auto& [who, box] : boxes_) box->on_failure();
  if (data_) data_->abandon();
  if (control_) control_->abandon();
  changed_.notify_all();
}

}  // namespace dlrun::pslite

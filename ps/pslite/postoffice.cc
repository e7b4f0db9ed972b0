#include <unistd.h>

#include <cstdio>
#include <random>
#include <utility>

#include "ps/pslite/office.h"
#include "runtime/transport/zmq_transport.h"

namespace ps {
namespace {

using dlrun::pslite::kSchedulerId;
using dlrun::pslite::Mail;
using dlrun::pslite::Member;
using dlrun::pslite::Role;
using dlrun::transport::Frame;

/// Of a process that ends because nobody in it asked why the job failed.
constexpr int kExitUntold = 70;

const char* find(const char* name) { return Environment::Get()->find(name); }

std::uint64_t random_number() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

Role role_of(Node::Role role) {
  switch (role) {
    case Node::SERVER:
      return Role::kServer;
    case Node::WORKER:
      return Role::kWorker;
    case Node::SCHEDULER:
      return Role::kScheduler;
    case Node::JOINT:
      break;
  }
  throw Error("the role joint is not supported: start a server and a worker");
}

}  // namespace

void throw_if(const dlrun::Status& status, Member* member) {
  if (status) return;
  if (member != nullptr)
    if (const auto failure = member->failure_to_tell()) throw Error(failure->context);
  throw Error(status.error().context);
}

void Postoffice::Impl::ensure() {
  if (member_ != nullptr) return;
  auto settings = dlrun::pslite::read_settings(find, wish_);
  if (!settings) throw Error(settings.error().context);
  dlrun::pslite::MemberOptions& options = settings->member;
  throw_if(dlrun::pslite::find_places(find, options), nullptr);
  options.seed = random_number();
  options.end_process = [](const std::string& reason) {
    std::fprintf(stderr, "dlrun ps-lite: the job has failed: %s\n", reason.c_str());
    ::_exit(kExitUntold);
  };
  if (settings->verbose > 0)
    options.log = [](const std::string& line) {
      std::fprintf(stderr, "dlrun ps-lite: %s\n", line.c_str());
    };
  settings_ = *settings;
  member_ =
      std::make_shared<Member>(options, std::make_shared<dlrun::transport::ZmqTransport>(), clock_);
  ids_.clear();
  ranges_.clear();
  const auto add = [&](Role role, int rank) {
    const int id = dlrun::pslite::id_of(role, rank);
    ids_[id].push_back(id);
    for (int group = 1; group < 8; ++group)
      if ((group & dlrun::pslite::bit_of(role)) != 0 && group != id) ids_[group].push_back(id);
  };
  for (int i = 0; i < static_cast<int>(options.workers); ++i) add(Role::kWorker, i);
  for (int i = 0; i < static_cast<int>(options.servers); ++i) add(Role::kServer, i);
  add(Role::kScheduler, 0);
}

std::shared_ptr<Member> Postoffice::Impl::member() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ensure();
  return member_;
}

dlrun::Duration Postoffice::Impl::request_within() {
  (void)member();
  return settings_.request_within;
}
int Postoffice::Impl::verbose() {
  (void)member();
  return settings_.verbose;
}

void Postoffice::Impl::set_role(Node::Role role) {
  const std::lock_guard<std::mutex> lock(mutex_);
  wish_.role = role_of(role);
}

void Postoffice::Impl::start(int customer, int rank, bool do_barrier) {
  std::shared_ptr<Member> here;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    wish_.rank = rank < 0 ? wish_.rank : rank;
    // After a Finalize it is somebody new.
    if (started_ && member_ != nullptr && member_->has_left()) member_ = nullptr;
    ensure();
    started_ = true;
    here = member_;
  }
  throw_if(here->start(customer), here.get());
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    node_.id = here->id();
    node_.customer_id = customer;
    node_.role = here->options().role == Role::kServer   ? Node::SERVER
                 : here->options().role == Role::kWorker ? Node::WORKER
                                                         : Node::SCHEDULER;
  }
  if (do_barrier) throw_if(here->barrier(kScheduler + kServerGroup + kWorkerGroup), here.get());
}

void Postoffice::Impl::finalize(int customer, bool do_barrier) {
  const std::shared_ptr<Member> here = member();
  if (customer == 0) here->about_to_leave();
  if (do_barrier) throw_if(here->barrier(kScheduler + kServerGroup + kWorkerGroup), here.get());
  if (customer != 0) return;
  here->leave(do_barrier);
  Postoffice::Callback callback;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::swap(callback, exit_callback_);
  }
  if (callback) callback();
}

void Postoffice::Impl::on_exit(const Postoffice::Callback& callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  exit_callback_ = callback;
}

const std::vector<int>& Postoffice::Impl::ids_of(int id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ensure();
  const auto at = ids_.find(id);
  if (at == ids_.end()) throw Error("there is no node or group " + std::to_string(id));
  return at->second;
}

const std::vector<Range>& Postoffice::Impl::key_ranges(uint64_t last_key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ensure();
  const uint64_t servers = settings_.member.servers;
  for (uint64_t i = ranges_.size(); i < servers; ++i)
    ranges_.emplace_back(last_key / servers * i,
                         i + 1 == servers ? last_key : last_key / servers * (i + 1));
  return ranges_;
}

const Node& Postoffice::Impl::node() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (node_.id == Node::kEmpty) throw Error("call Start first");
  return node_;
}

int Postoffice::Impl::send(const Message& message) {
  const Meta& meta = message.meta;
  Mail mail;
  mail.app = meta.app_id;
  mail.customer = meta.customer_id;
  mail.timestamp = meta.timestamp;
  mail.head = meta.head;
  mail.recver = meta.recver;
  mail.request = meta.request;
  mail.push = meta.push;
  mail.pull = meta.pull;
  mail.simple_app = meta.simple_app;
  if (message.data.size() + 1 > dlrun::pslite::kArraysMax)
    throw Error("a message of " + std::to_string(message.data.size()) + " arrays: at most 3");
  static constexpr std::byte kNothing{};
  std::vector<Frame> arrays;
  arrays.push_back(meta.body.empty() ? Frame{nullptr, &kNothing, 0}
                                     : Frame::copy(meta.body.data(), meta.body.size()));
  mail.bytes[mail.arrays++] = meta.body.size();
  for (std::size_t i = 0; i < message.data.size(); ++i) {
    const SArray<char>& data = message.data[i];
    arrays.push_back(
        data.empty()
            ? Frame{nullptr, &kNothing, 0}
            : Frame{data.ptr(), reinterpret_cast<const std::byte*>(data.data()), data.size()});
    mail.types[mail.arrays] = static_cast<std::uint8_t>(meta.data_type[i]);
    mail.bytes[mail.arrays++] = data.size();
  }
  const std::shared_ptr<Member> here = member();
  throw_if(here->send(mail, std::move(arrays)), here.get());
  return static_cast<int>(std::min<std::uint64_t>(mail.total(), std::numeric_limits<int>::max()));
}

Postoffice::Postoffice() : impl_(new Impl()) {}
Postoffice::~Postoffice() = default;

Postoffice* Postoffice::Get() {
  static Postoffice office;
  return &office;
}
void Postoffice::Init(Node::Role role) { Get()->impl_->set_role(role); }
Van* Postoffice::van() { return &impl_->van_; }

void Postoffice::Start(int customer_id, const char* /*argv0*/, bool do_barrier) {
  impl_->start(customer_id, -1, do_barrier);
}
void Postoffice::Start(int customer_id, Node::Role role, int rank, bool do_barrier,
                       const char* /*argv0*/) {
  impl_->set_role(role);
  impl_->start(customer_id, rank, do_barrier);
}
void Postoffice::Finalize(int customer_id, bool do_barrier) {
  impl_->finalize(customer_id, do_barrier);
}
void Postoffice::RegisterExitCallback(const Callback& callback) { impl_->on_exit(callback); }

void Postoffice::Barrier(int /*customer_id*/, int node_group) {
  if (GetNodeIDs(node_group).size() <= 1) return;
  const auto member = impl_->member();
  throw_if(member->barrier(node_group), member.get());
}

const std::vector<int>& Postoffice::GetNodeIDs(int id) { return impl_->ids_of(id); }
const std::vector<Range>& Postoffice::KeyRanges(uint64_t last_key) {
  return impl_->key_ranges(last_key);
}

int Postoffice::num_workers() const { return static_cast<int>(impl_->member()->options().workers); }
int Postoffice::num_servers() const { return static_cast<int>(impl_->member()->options().servers); }
int Postoffice::my_rank() const { return IDtoRank(impl_->node().id); }
int Postoffice::is_worker() const {
  return impl_->member()->options().role == Role::kWorker ? 1 : 0;
}
int Postoffice::is_server() const {
  return impl_->member()->options().role == Role::kServer ? 1 : 0;
}
int Postoffice::is_scheduler() const {
  return impl_->member()->options().role == Role::kScheduler ? 1 : 0;
}
int Postoffice::verbose() const { return impl_->verbose(); }
std::vector<int> Postoffice::GetDeadNodes(int /*t*/) const { return impl_->member()->lost(); }

int Van::Send(const Message& message) { return Postoffice::Get()->impl_->send(message); }
const Node& Van::my_node() const { return Postoffice::Get()->impl_->node(); }
bool Van::IsReady() const {
  const auto member = Postoffice::Get()->impl_->member();
  return member->id() != dlrun::pslite::kNobody && !member->has_left() && !member->failed();
}

}  // namespace ps

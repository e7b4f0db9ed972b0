#include "ps/internal/customer.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "ps/pslite/office.h"

namespace ps {

using dlrun::pslite::Letter;
using dlrun::pslite::Mail;
using dlrun::pslite::Member;

namespace {

/// The array's memory as ps-lite's programs hold it; nobody writes to it but its receiver.
SArray<char> array_of(const dlrun::transport::Frame& frame) {
  SArray<char> array;
  auto* data = reinterpret_cast<char*>(const_cast<std::byte*>(frame.data));
  const std::shared_ptr<const void> owner = frame.owner;
  array.reset(data, frame.size, [owner](char*) {});
  return array;
}

Message message_of(const Letter& letter, int self) {
  const Mail& mail = letter.mail;
  Message message;
  message.meta.head = mail.head;
  message.meta.app_id = mail.app;
  message.meta.customer_id = mail.customer;
  message.meta.timestamp = mail.timestamp;
  message.meta.sender = mail.sender;
  message.meta.recver = self;
  message.meta.request = mail.request;
  message.meta.push = mail.push;
  message.meta.pull = mail.pull;
  message.meta.simple_app = mail.simple_app;
  if (!letter.arrays.empty())
    message.meta.body.assign(reinterpret_cast<const char*>(letter.arrays[0].data),
                             letter.arrays[0].size);
  for (std::size_t i = 1; i < letter.arrays.size(); ++i) {
    message.data.push_back(array_of(letter.arrays[i]));
    message.meta.data_type.push_back(static_cast<DataType>(mail.types[i]));
  }
  return message;
}

}  // namespace

class Customer::Impl final : public dlrun::pslite::Mailbox {
 public:
  Impl(int app, int customer, RecvHandle handle)
      : app_(app),
        customer_(customer),
        handle_(std::move(handle)),
        member_(Postoffice::Get()->impl_->member()),
        request_within_(Postoffice::Get()->impl_->request_within()) {
    throw_if(member_->attach(app_, customer_, this), nullptr);
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() override {
    member_->detach(app_, customer_);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    came_.notify_all();
    thread_.join();
    for (const Letter& letter : letters_) member_->took(letter);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void put(Letter letter) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    letters_.push_back(std::move(letter));
    came_.notify_one();
  }
  void on_failure() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    failed_ = true;
    answered_.notify_all();
  }

  int new_request(int expected) {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_[next_] = {expected, 0};
    return next_++;
  }
  void wait(int timestamp) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (timestamp < 0 || timestamp >= next_)
      throw Error("there is no request " + std::to_string(timestamp) + " to wait for");
    const bool done = answered_.wait_for(lock, request_within_,
                                         [&] { return open_.count(timestamp) == 0 || failed_; });
    if (open_.count(timestamp) == 0) return;
    const auto [expected, came] = open_.at(timestamp);
    lock.unlock();
    if (done) throw_if(dlrun::fail(dlrun::Errc::kUnavailable, "the job has failed"), member_.get());
    const std::string why = "a request of app " + std::to_string(app_) + " has " +
                            std::to_string(came) + " of " + std::to_string(expected) +
                            " answers after " +
                            std::to_string(request_within_ / std::chrono::seconds(1)) +
                            " s (DLRUN_PSLITE_REQUEST_S): does a handler forget Response?";
    member_->fail_here(why);
    throw Error(why);
  }
  void add(int timestamp, int num) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = open_.find(timestamp);
    if (at == open_.end()) return;
    at->second.second += num;
    if (at->second.second < at->second.first) return;
    done_ = {timestamp, at->second.second};
    open_.erase(at);
    answered_.notify_all();
  }
  int answers(int timestamp) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = open_.find(timestamp);
    if (at != open_.end()) return at->second.second;
    return done_.first == timestamp ? done_.second : 0;
  }
  bool one_missing(int timestamp) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = open_.find(timestamp);
    return at != open_.end() && at->second.first - at->second.second == 1;
  }

  const int app_;
  const int customer_;

 private:
  void run() {
    while (true) {
      Letter letter;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        came_.wait(lock, [&] { return stop_ || !letters_.empty(); });
        if (stop_) return;
        letter = std::move(letters_.front());
        letters_.pop_front();
      }
      member_->took(letter);
      try {
        handle_(message_of(letter, member_->id()));
      } catch (const std::exception& e) {
        // The others hear why before this process ends.
        member_->fail_here(std::string("a handler or callback threw: ") + e.what());
        throw;
      }
      if (!letter.mail.request) add(letter.mail.timestamp, 1);
    }
  }

  const RecvHandle handle_;
  const std::shared_ptr<Member> member_;
  const dlrun::Duration request_within_;
  mutable std::mutex mutex_;
  std::condition_variable came_, answered_;
  std::deque<Letter> letters_;
  std::map<int, std::pair<int, int>> open_;  ///< request -> answers expected, come
  std::pair<int, int> done_{-1, 0};          ///< the last one that was done, and its answers
  int next_ = 0;
  bool stop_ = false;
  bool failed_ = false;
  std::thread thread_;
};

Customer::Customer(int app_id, int customer_id, const RecvHandle& handle, Postoffice* /*office*/)
    : impl_(new Impl(app_id, customer_id, handle)) {}
Customer::~Customer() = default;
int Customer::app_id() const { return impl_->app_; }
int Customer::customer_id() const { return impl_->customer_; }
int Customer::NewRequest(int recver) {
  return impl_->new_request(static_cast<int>(Postoffice::Get()->GetNodeIDs(recver).size()));
}
void Customer::WaitRequest(int timestamp) { impl_->wait(timestamp); }
int Customer::NumResponse(int timestamp) const { return impl_->answers(timestamp); }
void Customer::AddResponse(int timestamp, int num) { impl_->add(timestamp, num); }
bool Customer::OneMissing(int timestamp) const { return impl_->one_missing(timestamp); }

}  // namespace ps

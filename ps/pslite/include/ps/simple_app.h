#ifndef PS_SIMPLE_APP_H_
#define PS_SIMPLE_APP_H_
/// ps/simple_app.h: requests of a number and a string to a node or to each node of a group, and
/// their answers.
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "ps/internal/customer.h"
#include "ps/internal/message.h"
#include "ps/internal/postoffice.h"

namespace ps {

namespace internal {

/// A handle that one thread sets and another one calls. Copied once: it may hold state.
template <class Handle>
class HandleSlot {
 public:
  void Set(const Handle& handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    handle_ = std::make_shared<Handle>(handle);
    set_.notify_all();
  }
  /// Waits until one is set, for `limit` after this was made. nullptr: none.
  std::shared_ptr<Handle> Get(std::chrono::milliseconds limit) {
    std::unique_lock<std::mutex> lock(mutex_);
    set_.wait_until(lock, made_ + limit, [this] { return handle_ != nullptr; });
    return handle_;
  }

 private:
  const std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable set_;
  std::shared_ptr<Handle> handle_;
};

}  // namespace internal

/// A request or an answer that came.
struct SimpleData {
  int head;
  std::string body;
  int sender;
  int timestamp;
  int customer_id;  ///< the sender's
};

class SimpleApp {
 public:
  /// Called on the customer's thread.
  using Handle = std::function<void(const SimpleData& received, SimpleApp* app)>;

  explicit SimpleApp(int app_id) : SimpleApp(app_id, app_id) {}
  SimpleApp(int app_id, int customer_id, Postoffice* office = nullptr) : SimpleApp() {
    obj_ = new Customer(
        app_id, customer_id, [this](const Message& m) { Process(m); }, office);
  }
  virtual ~SimpleApp() {
    delete obj_;
    obj_ = nullptr;
  }
  SimpleApp(const SimpleApp&) = delete;
  SimpleApp& operator=(const SimpleApp&) = delete;

  /// Returns the number to wait for.
  virtual int Request(int req_head, const std::string& req_body, int recv_id) {
    Message message = Blank(req_head, req_body);
    message.meta.request = true;
    message.meta.customer_id = obj_->customer_id();
    message.meta.timestamp = obj_->NewRequest(recv_id);
    for (const int node : Postoffice::Get()->GetNodeIDs(recv_id)) {
      message.meta.recver = node;
      Postoffice::Get()->van()->Send(message);
    }
    return message.meta.timestamp;
  }
  /// All answers have come, and were handled.
  virtual void Wait(int timestamp) { obj_->WaitRequest(timestamp); }
  virtual void Response(const SimpleData& req, const std::string& res_body = "") {
    Message message = Blank(req.head, res_body);
    message.meta.customer_id = req.customer_id;
    message.meta.timestamp = req.timestamp;
    message.meta.recver = req.sender;
    Postoffice::Get()->van()->Send(message);
  }
  /// Without one a request is answered with its head; of a new app it waits for one, 100 ms.
  virtual void set_request_handle(const Handle& request_handle) {
    CHECK(request_handle) << "an empty request handle";
    request_handle_.Set(request_handle);
  }
  virtual void set_response_handle(const Handle& response_handle) {
    CHECK(response_handle) << "an empty response handle";
    response_handle_.Set(response_handle);
  }
  virtual Customer* get_customer() { return obj_; }

 protected:
  SimpleApp() : obj_(nullptr) {}

  virtual void Process(const Message& message) {
    const SimpleData data = {message.meta.head, message.meta.body, message.meta.sender,
                             message.meta.timestamp, message.meta.customer_id};
    internal::HandleSlot<Handle>& slot = message.meta.request ? request_handle_ : response_handle_;
    const std::shared_ptr<Handle> handle =
        slot.Get(std::chrono::milliseconds(message.meta.request ? 100 : 0));
    if (handle != nullptr)
      (*handle)(data, this);
    else if (message.meta.request)
      Response(data);
  }

  Customer* obj_;

 private:
  Message Blank(int head, const std::string& body) const {
    Message message;
    message.meta.head = head;
    message.meta.body = body;
    message.meta.simple_app = true;
    message.meta.app_id = obj_->app_id();
    return message;
  }

  internal::HandleSlot<Handle> request_handle_;
  internal::HandleSlot<Handle> response_handle_;
};

}  // namespace ps
#endif  // PS_SIMPLE_APP_H_

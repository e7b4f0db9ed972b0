#ifndef PS_INTERNAL_CUSTOMER_H_
#define PS_INTERNAL_CUSTOMER_H_
/// ps/internal/customer.h: one end of the traffic of an app in this process, with a thread of its
/// own that handles what comes for it, one message after the other.
#include <functional>
#include <memory>

#include "ps/internal/message.h"

namespace ps {

class Postoffice;

class Customer {
 public:
  using RecvHandle = std::function<void(const Message& received)>;

  /// Throws Error when the app has such a customer here.
  Customer(int app_id, int customer_id, const RecvHandle& handle, Postoffice* office = nullptr);
  /// What has come and was not handled is dropped.
  ~Customer();
  Customer(const Customer&) = delete;
  Customer& operator=(const Customer&) = delete;

  int app_id() const;
  int customer_id() const;
  /// A number for a request to a node or group; so many answers are expected. Thread safe.
  int NewRequest(int recver);
  /// Until all answers have come and were handled. Throws Error when they will not.
  void WaitRequest(int timestamp);
  /// How many have; of a request that is done, all.
  int NumResponse(int timestamp) const;
  /// So many will not come, and count as if they had.
  void AddResponse(int timestamp, int num = 1);
  /// Exactly one is missing: the one that is being handled, say.
  bool OneMissing(int timestamp) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ps
#endif  // PS_INTERNAL_CUSTOMER_H_

#pragma once
/// ps/pslite/office.h: what lies behind ps::Postoffice: the member of this process, from Start to
/// Finalize. Its calls throw ps::Error.
/// Threads: all from any.

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ps/internal/postoffice.h"
#include "ps/pslite/settings.h"

namespace ps {

class Postoffice::Impl {
 public:
  /// The member; read from the environment when there is none.
  std::shared_ptr<dlrun::pslite::Member> member();
  dlrun::Duration request_within();
  int verbose();
  void set_role(Node::Role role);
  void start(int customer, int rank, bool do_barrier);
  void finalize(int customer, bool do_barrier);
  const std::vector<int>& ids_of(int id);
  const std::vector<Range>& key_ranges(uint64_t last_key);
  const Node& node();
  int send(const Message& message);
  void on_exit(const Postoffice::Callback& callback);

  Van van_;

 private:
  void ensure();  ///< under mutex_

  std::mutex mutex_;
  dlrun::pslite::Wish wish_;
  std::shared_ptr<dlrun::pslite::Member> member_;
  dlrun::pslite::Settings settings_;
  bool started_ = false;
  std::map<int, std::vector<int>> ids_;
  std::vector<Range> ranges_;
  Node node_;
  Postoffice::Callback exit_callback_;
  dlrun::SystemClock clock_;
};

/// Throws the failure of the job, when there is one, else `status`'s error, when it is one.
void throw_if(const dlrun::Status& status, dlrun::pslite::Member* member);

}  // namespace ps

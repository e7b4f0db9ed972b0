#ifndef PS_INTERNAL_POSTOFFICE_H_
#define PS_INTERNAL_POSTOFFICE_H_
/// ps/internal/postoffice.h: this process's place among the others. One object in a process. Its
/// calls throw Error; docs/pslite.md of dlrun says when.
#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "ps/base.h"
#include "ps/internal/customer.h"
#include "ps/internal/env.h"
#include "ps/internal/van.h"
#include "ps/range.h"

namespace ps {

class Postoffice {
 public:
  using Callback = std::function<void()>;

  static Postoffice* Get();
  // There is one of each in a process.
  static Postoffice* GetWorker(int /*index*/ = 0) { return Get(); }
  static Postoffice* GetServer(int /*index*/ = 0) { return Get(); }
  static Postoffice* GetScheduler() { return Get(); }
  static void Init(Node::Role role);  ///< in place of DMLC_ROLE; before anything else

  Van* van();
  /// Returns when every node has registered; with `do_barrier`, when each has called it so.
  void Start(int customer_id, const char* argv0, bool do_barrier);
  void Start(const char* argv0, bool do_barrier) { Start(0, argv0, do_barrier); }
  /// `rank`: the one it would like, or -1.
  void Start(int customer_id, Node::Role role, int rank, bool do_barrier, const char* argv0);
  /// Customer 0 ends this process's part, and calls the exit callback.
  void Finalize(int customer_id, bool do_barrier = true);
  void RegisterExitCallback(const Callback& callback);

  /// Until every node of the group has called it.
  void Barrier(int customer_id, int node_group);
  void Barrier(int node_group) { Barrier(0, node_group); }

  /// The nodes of a group; {id} of a node.
  const std::vector<int>& GetNodeIDs(int id);
  /// Which keys each server owns. The last one owns the last key, kMaxKey, too.
  const std::vector<Range>& GetServerKeyRanges() { return KeyRanges(kMaxKey); }
  static int WorkerRankToID(int rank) { return 2 * rank + 9; }
  static int ServerRankToID(int rank) { return 2 * rank + 8; }
  static int IDtoRank(int id) { return std::max((id - 8) / 2, 0); }

  int num_workers() const;
  int num_servers() const;
  int my_rank() const;
  int group_size() const { return 1; }
  int is_worker() const;
  int is_server() const;
  int is_scheduler() const;
  int verbose() const;
  bool is_recovery() const { return false; }
  /// The nodes that are lost. One is when it was silent for PS_HEARTBEAT_TIMEOUT, whatever `t` is;
  /// the job has failed then.
  std::vector<int> GetDeadNodes(int t = 60) const;

 private:
  friend class Customer;
  friend class Van;
  class Impl;
  Postoffice();
  ~Postoffice();
  const std::vector<Range>& KeyRanges(uint64_t last_key);
  std::unique_ptr<Impl> impl_;
};

#define PS_VLOG(level) LOG_IF(INFO, (level) <= ::ps::Postoffice::Get()->verbose())

}  // namespace ps
#endif  // PS_INTERNAL_POSTOFFICE_H_

#ifndef PS_PS_H_
#define PS_PS_H_
/// ps/ps.h: ps-lite's public interface over dlrun: a program written for ps-lite is compiled again
/// and linked with dlrun_pslite. docs/pslite.md has what is the same, what differs, and what can
/// fail; calls that fail throw ps::Error. C++11.
#include <functional>
#include <string>

#include "ps/base.h"
#include "ps/kv_app.h"
#include "ps/simple_app.h"

namespace ps {

inline int NumWorkers() { return Postoffice::Get()->num_workers(); }
inline int NumServers() { return Postoffice::Get()->num_servers(); }
inline bool IsWorker() { return Postoffice::Get()->is_worker() != 0; }
inline bool IsServer() { return Postoffice::Get()->is_server() != 0; }
inline bool IsScheduler() { return Postoffice::Get()->is_scheduler() != 0; }
/// In its role, from 0. After Start.
inline int MyRank() { return Postoffice::Get()->my_rank(); }

/// Every process calls it once, and once more for each further customer that counts as a worker.
inline void Start(int customer_id, const char* argv0 = nullptr) {
  Postoffice::Get()->Start(customer_id, argv0, true);
}
inline void Start(const char* argv0 = nullptr) { Postoffice::Get()->Start(0, argv0, true); }
/// Does not wait for the others' call.
inline void StartAsync(int customer_id, const char* argv0 = nullptr) {
  Postoffice::Get()->Start(customer_id, argv0, false);
}
inline void StartAsync(const char* argv0 = nullptr) { Postoffice::Get()->Start(0, argv0, false); }
inline void Finalize(int customer_id, bool do_barrier = true) {
  Postoffice::Get()->Finalize(customer_id, do_barrier);
}
inline void Finalize(bool do_barrier = true) { Postoffice::Get()->Finalize(0, do_barrier); }

/// Runs at the end of Finalize.
inline void RegisterExitCallback(const std::function<void()>& callback) {
  Postoffice::Get()->RegisterExitCallback(callback);
}

// The generation that names the role in the call.

inline Node::Role GetRole(const std::string& role) {
  if (role == "worker") return Node::WORKER;
  if (role == "server") return Node::SERVER;
  if (role == "scheduler") return Node::SCHEDULER;
  throw Error("role '" + role + "' is none of worker, server, scheduler");
}
inline void StartPS(int customer_id, Node::Role role, int rank, bool do_barrier,
                    const char* argv0 = nullptr) {
  Postoffice::Get()->Start(customer_id, role, rank, do_barrier, argv0);
}
inline void Finalize(int customer_id, Node::Role /*role*/, bool do_barrier = true) {
  Postoffice::Get()->Finalize(customer_id, do_barrier);
}

}  // namespace ps
#endif  // PS_PS_H_

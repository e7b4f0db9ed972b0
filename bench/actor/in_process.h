#pragma once
/// bench/actor/in_process.h: a coordinator over a durable store and an agent whose programs end at
/// once, as actors of this process: what jobs cost the control plane alone, at a rate that real
/// processes do not reach. Gives up when it does not get on.

#include <cstdint>
#include <memory>
#include <string>

namespace dlrun::bench {

class InProcess {
 public:
  explicit InProcess(const std::string& folder);  ///< of the store
  ~InProcess();
  InProcess(const InProcess&) = delete;
  InProcess& operator=(const InProcess&) = delete;

  /// Submits jobs of one task, some hundred ahead of what has ended, until `total` have ended since
  /// the start.
  void run_to(std::uint64_t total);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::bench

#pragma once
/// runtime/node/coordinator_metrics.h: what /metrics of a coordinator says beyond the REST server's
/// own: the store, the queue, the logs and the process. docs/rest.md lists the names.

#include <string>

#include "runtime/cluster/actor/meters.h"
#include "runtime/logs/log_receiver.h"
#include "runtime/logs/log_store.h"
#include "web/server.h"

namespace dlrun::node {

class CoordinatorMetrics final : public web::MetricsSource {
 public:
  struct Sources {
    const cluster::Meters* meters = nullptr;
    const logs::LogStore* log_store = nullptr;
    const logs::LogReceiver* log_receiver = nullptr;
    std::string events_file;  ///< events.db; its -wal counts too
  };
  explicit CoordinatorMetrics(Sources sources)
      : sources_(std::move(sources)) {}  ///< they outlive it
  std::vector<web::Metric> collect() override;

 private:
  const Sources sources_;
};

/// process_resident_memory_bytes, process_open_fds and the like, under the names that Prometheus'
/// own clients use, from /proc/self.
void add_process_metrics(std::vector<web::Metric>& all);

}  // namespace dlrun::node

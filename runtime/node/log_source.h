#pragma once
/// runtime/node/log_source.h: the REST server's view of the coordinator's LogStore.

#include "runtime/logs/log_store.h"
#include "web/server.h"

namespace dlrun::node {

class StoreLogSource final : public web::LogSource {
 public:
  explicit StoreLogSource(logs::LogStore* store) : store_(store) {}  ///< `store` outlives it
  Result<web::LogSlice> read(const TaskId& task, web::LogStream stream, std::uint64_t offset,
                             std::size_t bytes_max) override;
  Result<std::vector<web::LogRef>> list(JobId job) override;
  std::shared_ptr<void> follow(const TaskId& task, web::LogStream stream,
                               std::function<void()> listener) override;

 private:
  logs::LogStore* const store_;
};

}  // namespace dlrun::node

#pragma once
/// runtime/client/table.h: one table, through the client that counts as this worker; reads go on
/// after Session::leave().
/// Shapes, clocks and errors: ps/client/client.h.
/// Threads: any; calls on one table run one after the other.

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "runtime/client/session.h"

namespace dlrun::client {

class Table {
 public:
  static Result<std::unique_ptr<Table>> open(std::shared_ptr<Session> session,
                                             ps::TableSchema schema, Duration timeout);

  const ps::TableSchema& schema() const { return schema_; }
  Status pull(std::span<const std::uint64_t> keys, std::span<float> out, Duration timeout);
  Status push(std::span<const std::uint64_t> keys, std::span<const float> grads, Duration timeout);
  Status pull_dense(std::span<float> out, Duration timeout);
  Status push_dense(std::span<const float> grads, Duration timeout);
  Status clock(Duration timeout);
  /// `path` ends in ".npy"; ps::Client::export_table says which files come of it.
  Status export_npy(const std::string& path, Duration timeout);

 private:
  Table(std::shared_ptr<Session> session, ps::TableSchema schema)
      : session_(std::move(session)), schema_(std::move(schema)) {}
  struct Use {
    ps::Client* client;
    const ps::Table* table;
  };
  Result<Use> to_write();
  Result<Use> to_read(Duration timeout);

  std::shared_ptr<Session> session_;
  ps::TableSchema schema_;
  std::mutex mutex_;
  std::optional<ps::Table> worker_;    ///< as the session's worker client knows it
  std::optional<ps::Table> observer_;  ///< as its observer knows it
};

}  // namespace dlrun::client

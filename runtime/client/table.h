#pragma once
/// runtime/client/table.h: one table, through the client that counts as this worker; reads go on
/// after Session::leave().
/// Shapes, clocks and errors: ps/client/client.h.
/// Threads: any; calls on one table run one after the other, but for what a Pending waits for.

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/client/session.h"

namespace dlrun::client {

/// A pull or push of a Table under way; its arrays are borrowed until it has ended or this is
/// destroyed, which gives it up.
class Pending {
 public:
  Pending(std::shared_ptr<Session> session, std::vector<std::uint64_t> keys)
      : session_(std::move(session)), keys_(std::move(keys)) {}
  ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  /// As ps::PendingCall::wait_for. kFailedPrecondition in a forked child.
  Result<bool> wait_for(Duration timeout);

 private:
  friend class Table;
  std::shared_ptr<Session> session_;
  std::vector<std::uint64_t> keys_;  ///< of a whole dense table
  ps::PendingCall call_;             ///< last: it uses what is above
};

class Table {
 public:
  static Result<std::unique_ptr<Table>> open(std::shared_ptr<Session> session,
                                             ps::TableSchema schema, Duration timeout);

  const ps::TableSchema& schema() const { return schema_; }
  Status pull(std::span<const std::uint64_t> keys, std::span<float> out, Duration timeout);
  Status push(std::span<const std::uint64_t> keys, std::span<const float> grads, Duration timeout);
  Status pull_dense(std::span<float> out, Duration timeout);
  Status push_dense(std::span<const float> grads, Duration timeout);
  /// These return when it has begun; clock() waits for it. `keys` null: the whole of a dense table.
  using Keys = std::optional<std::span<const std::uint64_t>>;
  Result<std::unique_ptr<Pending>> pull_async(Keys keys, std::span<float> out, Duration timeout);
  Result<std::unique_ptr<Pending>> push_async(Keys keys, std::span<const float> grads,
                                              Duration timeout);
  Status clock(Duration timeout);
  Status set_learning_rate(float rate, Duration timeout);
  /// Also of the reads after leave().
  Status set_codecs(ps::CodecSpec push, ps::CodecSpec pull);
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
  std::vector<std::uint64_t> own_keys(const Keys& keys) const;

  std::shared_ptr<Session> session_;
  ps::TableSchema schema_;
  std::mutex mutex_;
  std::optional<ps::Table> worker_;    ///< as the session's worker client knows it
  std::optional<ps::Table> observer_;  ///< as its observer knows it
  ps::CodecSpec pull_codec_;
};

}  // namespace dlrun::client

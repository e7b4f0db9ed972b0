#include "runtime/client/table.h"

#include <numeric>

namespace dlrun::client {
namespace {
Status check_size(const char* what, std::size_t got, std::size_t want) {
  if (got == want) return {};
  return fail(Errc::kInvalidArgument, std::string(what) + " has " + std::to_string(got) +
                                          " elements instead of " + std::to_string(want));
}
}  // namespace

Result<std::unique_ptr<Table>> Table::open(std::shared_ptr<Session> session, ps::TableSchema schema,
                                           Duration timeout) {
  std::unique_ptr<Table> table(new Table(std::move(session), std::move(schema)));
  if (table->session_->left()) {
    DLRUN_TRY(table->to_read(timeout));
  } else {
    DLRUN_ASSIGN(auto* client, table->session_->worker());
    DLRUN_ASSIGN(table->worker_, client->open_table(table->schema_, timeout));
  }
  return table;
}

Result<Table::Use> Table::to_write() {
  DLRUN_ASSIGN(auto* client, session_->worker());
  // a table opened after leave() has no worker_, but then worker() has failed
  return Use{client, &*worker_};
}

Result<Table::Use> Table::to_read(Duration timeout) {
  if (!session_->left()) return to_write();
  DLRUN_ASSIGN(auto* client, session_->observer());
  if (!observer_) {
    DLRUN_ASSIGN(observer_, client->open_table(schema_, timeout));
    DLRUN_TRY(client->set_codecs(*observer_, {}, pull_codec_));
  }
  return Use{client, &*observer_};
}

Status Table::pull(std::span<const std::uint64_t> keys, std::span<float> out, Duration timeout) {
  DLRUN_TRY(check_size("the array for the values", out.size(), keys.size() * schema_.dim));
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_read(timeout));
  return use.client->pull(*use.table, keys, out, timeout);
}

Status Table::push(std::span<const std::uint64_t> keys, std::span<const float> grads,
                   Duration timeout) {
  DLRUN_TRY(check_size("the array of gradients", grads.size(), keys.size() * schema_.dim));
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_write());
  return use.client->push(*use.table, keys, grads, timeout);
}

Status Table::pull_dense(std::span<float> out, Duration timeout) {
  DLRUN_TRY(check_size("the array for the values", out.size(), schema_.rows * schema_.dim));
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_read(timeout));
  return use.client->pull_dense(*use.table, out, timeout);
}

Status Table::push_dense(std::span<const float> grads, Duration timeout) {
  DLRUN_TRY(check_size("the array of gradients", grads.size(), schema_.rows * schema_.dim));
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_write());
  return use.client->push_dense(*use.table, grads, timeout);
}

std::vector<std::uint64_t> Table::own_keys(const Keys& keys) const {
  std::vector<std::uint64_t> all(keys ? 0 : schema_.rows);
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  return all;
}

Result<std::unique_ptr<Pending>> Table::pull_async(Keys keys, std::span<float> out,
                                                   Duration timeout) {
  if (!keys && schema_.kind != ps::KeyKind::kDense)
    return fail(Errc::kInvalidArgument, "table '" + schema_.name + "' is sparse: keys are missing");
  auto pending = std::make_unique<Pending>(session_, own_keys(keys));
  if (!keys) keys = pending->keys_;
  DLRUN_TRY(check_size("the array for the values", out.size(), keys->size() * schema_.dim));
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_read(timeout));
  DLRUN_ASSIGN(pending->call_, use.client->begin_pull(*use.table, *keys, out, timeout));
  return pending;
}

Result<std::unique_ptr<Pending>> Table::push_async(Keys keys, std::span<const float> grads,
                                                   Duration timeout) {
  if (!keys && schema_.kind != ps::KeyKind::kDense)
    return fail(Errc::kInvalidArgument, "table '" + schema_.name + "' is sparse: keys are missing");
  auto pending = std::make_unique<Pending>(session_, own_keys(keys));
  if (!keys) keys = pending->keys_;
  DLRUN_TRY(check_size("the array of gradients", grads.size(), keys->size() * schema_.dim));
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_write());
  DLRUN_ASSIGN(pending->call_, use.client->begin_push(*use.table, *keys, grads, timeout));
  return pending;
}

Pending::~Pending() {
  // The engine is the parent's: a thread of it may have held its lock at the fork.
  if (!session_->check_process()) static_cast<void>(new ps::PendingCall(std::move(call_)));
}

Result<bool> Pending::wait_for(Duration timeout) {
  DLRUN_TRY(session_->check_process());
  return call_.wait_for(timeout);
}

Status Table::set_learning_rate(float rate, Duration timeout) {
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_write());
  return use.client->set_learning_rate(*use.table, rate, timeout);
}

Status Table::set_codecs(ps::CodecSpec push, ps::CodecSpec pull) {
  std::scoped_lock lock(mutex_);
  if (!session_->left()) {
    DLRUN_ASSIGN(const auto use, to_write());
    DLRUN_TRY(use.client->set_codecs(*use.table, push, pull));
  } else if (observer_) {
    DLRUN_ASSIGN(auto* client, session_->observer());
    DLRUN_TRY(client->set_codecs(*observer_, {}, pull));
  }
  pull_codec_ = pull;
  return {};
}

Status Table::clock(Duration timeout) {
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_write());
  return use.client->clock(*use.table, timeout);
}

Status Table::export_npy(const std::string& path, Duration timeout) {
  constexpr std::string_view kSuffix = ".npy";
  if (path.size() <= kSuffix.size() || !path.ends_with(kSuffix)) {
    return fail(Errc::kInvalidArgument,
                "the path of an export must end in .npy, not \"" + path + "\"");
  }
  std::scoped_lock lock(mutex_);
  DLRUN_ASSIGN(const auto use, to_read(timeout));
  return use.client->export_table(*use.table, path.substr(0, path.size() - kSuffix.size()),
                                  timeout);
}

}  // namespace dlrun::client

#include "runtime/sim/sim_replica.h"

#include <cstring>
#include <vector>

#include "runtime/wire/ps_codec.h"

namespace dlrun::sim {
namespace {

/// false: not a whole number of T's.
template <class T>
bool frame_as(const transport::Message& message, std::size_t index, std::vector<T>& out) {
  if (index >= message.size() || message[index].size == 0) return true;
  out.resize(message[index].size / sizeof(T));
  std::memcpy(out.data(), message[index].data, out.size() * sizeof(T));
  return message[index].size % sizeof(T) == 0;
}

}  // namespace

void SimReplica::on_message(const transport::Message& message) {
  if (message.empty() || message.size() > 3) return;
  const auto request = wire::decode_ps_request({message[0].data, message[0].size});
  if (!request || request->kind == ps::Kind::kPull || request->kind == ps::Kind::kScan) return;
  std::vector<std::uint64_t> keys;
  std::vector<float> values;
  if (!frame_as(message, 1, keys) || !frame_as(message, 2, values)) return;
  core_.on_request(0, *request, keys, values, clock_->now(), ignored_);
  ignored_.clear();
}

void SimReplica::on_worker_left(ps::WorkerId worker) {
  core_.on_worker_left(worker, clock_->now(), ignored_);
  ignored_.clear();
}

void SimReplica::on_map(const ps::SlotMap& map) {
  (void)core_.install_map(map, clock_->now(), ignored_);
  ignored_.clear();
}

void SimReplica::on_slot(const ps::SlotImage& image) {
  (void)core_.import_slot(image, clock_->now(), ignored_);
  ignored_.clear();
}

std::string SimReplica::difference(const ps::ShardCore& shard) const {
  const std::uint64_t here = core_.stats().log_sequence, there = shard.stats().log_sequence;
  if (here != there) {
    return "its replica is at " + std::to_string(here) + " of the log, the shard at " +
           std::to_string(there);
  }
  return core_.digest() == shard.digest() ? "" : "its replica has another state";
}

}  // namespace dlrun::sim

#include "runtime/sim/sim_store.h"

#include <algorithm>
#include <map>

#include "runtime/wire/event_codec.h"

namespace dlrun::sim {

void SimStore::append(std::vector<cluster::Event> events, std::function<void(Status)> done) {
  auto batch = std::make_shared<Batch>(Batch{std::move(events), std::move(done)});
  under_way_.push_back(batch);
  if (bugs_.has("store_acks_before_durable"))
    loop_.after(std::chrono::microseconds(50), [batch] {
      if (!batch->gone) std::exchange(batch->done, [](Status) {})({});
    });
  loop_.post("store", loop_.between(std::chrono::microseconds(200), delay_max_), [this, batch] {
    if (batch->gone) return;
    std::erase(under_way_, batch);
    if (full_) {
      batch->done(fail(Errc::kResourceExhausted, "no space left on the simulated disk"));
      return;
    }
    flush(batch->events);
    batch->done({});
  });
}

void SimStore::crash() {
  bool lost = full_;
  for (const auto& batch : under_way_) {
    batch->gone = true;
    lost = lost || loop_.chance(0.5);
    if (!lost) flush(batch->events);
  }
  under_way_.clear();
}

std::vector<cluster::Event> SimStore::replayable(bool removed) const {
  if (!removed) return log_;
  std::vector<cluster::Event> kept;
  std::map<JobId, std::vector<const cluster::Event*>> later;
  for (auto event = log_.rbegin(); event != log_.rend(); ++event) {
    auto& of_job = later[cluster::job_of(*event)];
    const bool gone = std::any_of(of_job.begin(), of_job.end(), [&](const cluster::Event* by) {
      return cluster::is_superseded(*event, *by);
    });
    if (gone) continue;
    kept.push_back(*event);
    if (cluster::supersedes(*event)) of_job.push_back(&*event);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

void SimStore::flush(const std::vector<cluster::Event>& events) {
  for (const cluster::Event& event : events) {
    const std::string bytes = wire::encode(event);
    for (char c : bytes) digest_ = (digest_ ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
    auto record = wire::decode_event(bytes);
    if (!record || !(*record == event)) {
      violated_("the record of " + std::string(cluster::kind_of(event)) + " \"" +
                cluster::text_of(event) + "\" does not read back as it was written");
      continue;
    }
    log_.push_back(std::move(*record));
    on_durable_(log_.back());
  }
}

}  // namespace dlrun::sim

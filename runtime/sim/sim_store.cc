#include "runtime/sim/sim_store.h"

namespace dlrun::sim {

void SimStore::append(std::vector<cluster::Event> events, std::function<void(Status)> done) {
  auto batch = std::make_shared<Batch>(Batch{std::move(events), std::move(done)});
  under_way_.push_back(batch);
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

void SimStore::flush(const std::vector<cluster::Event>& events) {
  for (const cluster::Event& event : events) {
    log_.push_back(event);
    const auto mix = [this](std::string_view text) {
      for (char c : text) digest_ = (digest_ ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
    };
    mix(cluster::kind_of(event));
    mix(cluster::text_of(event));
    on_durable_(event);
  }
}

}  // namespace dlrun::sim

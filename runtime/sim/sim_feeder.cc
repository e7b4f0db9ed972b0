#include "runtime/sim/sim_feeder.h"

namespace dlrun::sim {

using namespace dlrun::cluster;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {
constexpr std::size_t kLeaseAhead = 2;
constexpr Duration kPoll = milliseconds(250);
constexpr Duration kTimeout = seconds(2);
constexpr Duration kDoneWithin = seconds(1);

std::vector<io::FileEntry> files() {
  std::vector<io::FileEntry> list;
  for (int i = 0; i < 3; ++i) list.push_back({"sim:/data/" + std::to_string(i), 5u << 20, "etag"});
  return list;
}
}  // namespace

void SimFeeder::attach(const TaskId& id, const std::string& input,
                       std::vector<io::SplitKey> taken) {
  if (consumers_.contains(id)) return;
  Consumer& c = consumers_[id];
  c.input = input;
  c.done.assign(taken.begin(), taken.end());
  step(id);
}

void SimFeeder::detach(const TaskId& id) {
  const auto it = consumers_.find(id);
  if (it == consumers_.end()) return;
  const Consumer& c = it->second;
  if (!c.done.empty())
    node_.ask_agent(id, [&](AgentCore& agent, Now now) {
      return agent.on_lease(id, c.input, 0, c.request + 1, false, {},
                            {c.done.begin(), c.done.end()}, now);
    });
  consumers_.erase(it);
}

/// Polls; the real one sleeps until something comes.
void SimFeeder::step(const TaskId& id) {
  const auto it = consumers_.find(id);
  if (it == consumers_.end()) return;
  Consumer& c = it->second;
  const TimePoint now = node_.loop().now();
  if (c.asking && now >= c.give_up) {  // its answer may be lost
    c.asking = false;
    c.resync = true;
  }
  const bool want = !c.end_of_input && now >= c.ask_at && c.leased.size() < kLeaseAhead;
  const bool tell = !c.done.empty() && (c.end_of_input || now >= c.done_at + kDoneWithin);
  if (!c.asking && (want || tell)) ask(id, c, want);
  if (!c.current && !c.leased.empty()) {
    c.current = std::move(c.leased.front());
    c.leased.pop_front();
    node_.split_for(id, *c.current);
  } else if (!c.current && c.end_of_input && c.done.empty() && !c.end_said) {
    c.end_said = true;
    return node_.input_ended(id);
  }
  node_.loop().after(kPoll, [this, alive = std::weak_ptr(alive_), id] {
    if (!alive.expired()) step(id);
  });
}

void SimFeeder::ask(const TaskId& id, Consumer& c, bool want) {
  // rises over all feeders of the consumer
  c.request = std::max<std::uint64_t>(
      c.request + 1, static_cast<std::uint64_t>(node_.loop().now().time_since_epoch().count()));
  std::vector<io::SplitKey> held;
  if (c.resync) {
    if (c.current) held.push_back({c.current->id, c.current->pass});
    for (const io::Split& split : c.leased) held.push_back({split.id, split.pass});
  }
  c.asking = true;
  c.asked_splits =
      want ? static_cast<std::uint32_t>(kLeaseAhead - std::min(kLeaseAhead, c.leased.size())) : 0;
  c.asked_done = c.files_known ? c.done.size() : 0;
  c.give_up = node_.loop().now() + kTimeout;
  node_.ask_agent(id, [&](AgentCore& agent, Now now) {
    if (!c.files_known) return agent.on_files(id, c.input, files(), c.request, now);
    return agent.on_lease(id, c.input, c.asked_splits, c.request, c.resync, held,
                          {c.done.begin(), c.done.end()}, now);
  });
}

void SimFeeder::on_reply(const LeaseReply& reply) {
  const auto it = consumers_.find(reply.task);
  if (it == consumers_.end() || !it->second.asking || it->second.request != reply.request) return;
  Consumer& c = it->second;
  c.asking = false;
  if (reply.error != Errc{}) {  // its epoch is over: it will be stopped
    if (reply.error != Errc::kStaleEpoch)
      node_.checker().violated("the feeder of " + to_string(reply.task) +
                               " was refused: " + reply.error_context);
    c.end_of_input = c.end_said = true;
    c.done.clear();
    return;
  }
  if (!c.files_known) {
    c.files_known = true;
    return;
  }
  c.resync = false;
  c.done.erase(c.done.begin(), c.done.begin() + static_cast<std::ptrdiff_t>(c.asked_done));
  c.done_at = node_.loop().now();
  if (c.asked_splits == 0) return;  // it only told
  c.leased.insert(c.leased.end(), reply.answer.splits.begin(), reply.answer.splits.end());
  c.end_of_input = reply.answer.state == io::LeaseState::kEndOfInput;
  c.ask_at =
      node_.loop().now() +
      (reply.answer.state == io::LeaseState::kWait ? Duration(milliseconds(400)) : Duration{0});
}

void SimFeeder::released(const TaskId& id) {
  const auto it = consumers_.find(id);
  if (it == consumers_.end() || !it->second.current) return;
  Consumer& c = it->second;
  node_.checker().inputs().on_released(id, c.input, *c.current);
  if (c.done.empty()) c.done_at = node_.loop().now();
  c.done.push_back({c.current->id, c.current->pass});
  c.current.reset();
}

}  // namespace dlrun::sim

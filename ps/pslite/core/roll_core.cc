#include "ps/pslite/core/roll_core.h"

#include <algorithm>
#include <set>

namespace dlrun::pslite {
namespace {

std::string plural(std::uint32_t n, Role role) {
  return std::to_string(n) + " " + role_name(role) + (n == 1 ? "" : "s");
}

}  // namespace

std::string group_name(int group) {
  std::string name;
  const auto add = [&](int bit, const char* who) {
    if ((group & bit) != 0) name += (name.empty() ? "" : " and ") + std::string(who);
  };
  add(kWorkerBit, "workers");
  add(kServerBit, "servers");
  add(kSchedulerBit, "scheduler");
  return "the " + name;
}

std::uint32_t RollCore::count(Role role) const noexcept {
  return static_cast<std::uint32_t>(std::count_if(
      entries_.begin(), entries_.end(), [&](const Entry& e) { return e.wish.role == role; }));
}

std::uint32_t RollCore::size_of(int group) const noexcept {
  return ((group & kWorkerBit) != 0 ? options_.workers : 0) +
         ((group & kServerBit) != 0 ? options_.servers : 0) +
         ((group & kSchedulerBit) != 0 ? 1 : 0);
}

std::string RollCore::name_of(Session session) const {
  if (session == kSelf) return "the scheduler";
  for (const Entry& e : entries_) {
    if (e.session != session) continue;
    return (e.id == kNobody ? std::string("a ") + role_name(e.wish.role) : node_name(e.id)) + " (" +
           e.wish.name + ")";
  }
  return "a node that has not registered";
}

RollCore::Effects RollCore::on_register(Session session, const Register& wish) {
  const auto refuse = [&](const std::string& why) {
    return Effects{{session, Refused{"the scheduler refuses this " +
                                     std::string(role_name(wish.role)) + ": " + why}}};
  };
  if (state_ == State::kFailed) return refuse(reason_);
  if (wish.version != kProtocolVersion)
    return refuse("it speaks version " + std::to_string(wish.version) + ", not " +
                  std::to_string(kProtocolVersion));
  if (wish.role == Role::kScheduler) return refuse("there is a scheduler already");
  if (wish.workers != options_.workers || wish.servers != options_.servers)
    return refuse("it counts " + plural(wish.workers, Role::kWorker) + " and " +
                  plural(wish.servers, Role::kServer) + ", the scheduler " +
                  plural(options_.workers, Role::kWorker) + " and " +
                  plural(options_.servers, Role::kServer) + " (DMLC_NUM_WORKER, DMLC_NUM_SERVER)");
  const std::uint32_t most = wish.role == Role::kWorker ? options_.workers : options_.servers;
  if (count(wish.role) >= most)
    return refuse("the job has its " + plural(most, wish.role) + " already");
  entries_.push_back({session, wish});
  if (count(Role::kWorker) < options_.workers || count(Role::kServer) < options_.servers) return {};
  return give_out_ranks();
}

RollCore::Effects RollCore::give_out_ranks() {
  state_ = State::kRunning;
  for (const Role role : {Role::kServer, Role::kWorker}) {
    std::set<int> free;
    for (std::uint32_t i = 0; i < count(role); ++i) free.insert(static_cast<int>(i));
    for (Entry& e : entries_)
      if (e.wish.role == role && free.erase(e.wish.rank) > 0) e.id = id_of(role, e.wish.rank);
    for (Entry& e : entries_)
      if (e.wish.role == role && e.id == kNobody)
        e.id = id_of(role, free.extract(free.begin()).value());
  }
  std::map<Session, int> process;
  for (const Entry& e : entries_) {
    const auto [at, fresh] = process.emplace(e.session, e.id);
    at->second = std::min(at->second, e.id);
  }
  Roster roster{options_.job, kSchedulerId, {}};
  for (const Entry& e : entries_)
    roster.nodes.push_back({e.id, process[e.session], e.wish.tcp, e.wish.shm, e.wish.name});
  std::sort(roster.nodes.begin(), roster.nodes.end(),
            [](const RosterNode& a, const RosterNode& b) { return a.id < b.id; });
  Effects effects = {{kSelf, roster}};
  for (const auto& [session, id] : process) {
    roster.you = id;
    effects.emplace_back(session, roster);
  }
  return effects;
}

RollCore::Effects RollCore::on_enter(Session session, int group) {
  if (state_ != State::kRunning) return {};
  if (size_of(group) == 0) return {{session, Passed{group}}};
  Barrier& barrier = barriers_[group];
  ++barrier.entered;
  ++barrier.by[session];
  if (barrier.entered < size_of(group)) return check_barriers();
  Effects effects;
  for (const auto& [who, times] : barrier.by) effects.emplace_back(who, Passed{group});
  barriers_.erase(group);
  return effects;
}

/// A barrier that somebody waits in and that one who has left did not enter is never passed.
RollCore::Effects RollCore::check_barriers() {
  for (const auto& [group, barrier] : barriers_)
    for (const Entry& e : entries_)
      if (e.left && (group & bit_of(e.wish.role)) != 0 && !barrier.by.contains(e.session))
        return fail("a barrier of " + group_name(group) + " waits for " + name_of(e.session) +
                    ", which has left (Finalize without a barrier)");
  return {};
}

RollCore::Effects RollCore::on_goodbye(Session session) {
  for (Entry& e : entries_)
    if (e.session == session) e.left = true;
  return state_ == State::kRunning ? check_barriers() : Effects{};
}

bool RollCore::all_left() const noexcept {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.left; });
}

RollCore::Effects RollCore::on_lost(Session session, const std::string& why) {
  for (const Entry& e : entries_)
    if (e.session == session && !e.left) return fail(name_of(session) + " is lost: " + why);
  return {};
}

RollCore::Effects RollCore::on_failed(Session /*session*/, const std::string& reason) {
  return fail(reason);
}

RollCore::Effects RollCore::on_time(TimePoint now) {
  if (state_ != State::kGathering || now - began_ <= options_.start_within) return {};
  return fail("not all nodes have come within " +
              std::to_string(options_.start_within / std::chrono::seconds(1)) +
              " s: " + std::to_string(count(Role::kWorker)) + " of " +
              plural(options_.workers, Role::kWorker) + ", " +
              std::to_string(count(Role::kServer)) + " of " +
              plural(options_.servers, Role::kServer));
}

RollCore::Effects RollCore::fail(const std::string& reason) {
  if (state_ == State::kFailed) return {};
  state_ = State::kFailed;
  reason_ = reason;
  Effects effects;
  to_all(effects, Failed{reason});
  return effects;
}

void RollCore::to_all(Effects& effects, const Payload& payload) const {
  effects.emplace_back(kSelf, payload);
  std::set<Session> sessions;
  for (const Entry& e : entries_)
    if (!e.left) sessions.insert(e.session);
  for (const Session session : sessions) effects.emplace_back(session, payload);
}

}  // namespace dlrun::pslite

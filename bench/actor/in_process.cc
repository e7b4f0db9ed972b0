#include "bench/actor/in_process.h"

#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

#include "bench/cluster/bench_cluster.h"
#include "runtime/actor/agent_link.h"
#include "runtime/actor/system.h"
#include "runtime/cluster/actor/agent_actor.h"
#include "runtime/cluster/actor/coordinator_node.h"
#include "runtime/cluster/actor/hmac_tokens.h"
#include "runtime/cluster/actor/messages.h"
#include "runtime/store/sqlite_event_log.h"
#include "scheduler/core/scheduler_core.h"

namespace dlrun::bench {

using namespace dlrun::cluster;

namespace {

/// A machine on which every program ends well at once.
struct EndsAtOnce {
  std::mutex mutex;
  caf::actor agent;
  std::vector<HostEvent> early;
  void perform(AgentEffect effect) {
    if (const auto* dir = std::get_if<PrepareDir>(&effect)) emit(TaskPrepared{dir->task.task, {}});
    if (const auto* spawn = std::get_if<SpawnShim>(&effect)) {
      emit(TaskStarted{spawn->task.task, 4711});
      emit(TaskExited{spawn->task.task, TaskEnd{.cause = Cause::kExit}});
    }
  }
  void emit(HostEvent event) {
    const std::lock_guard lock(mutex);
    if (agent)
      caf::anon_send(agent, FromHost{std::move(event)});
    else
      early.push_back(std::move(event));
  }
  void attach(caf::actor a) {
    const std::lock_guard lock(mutex);
    agent = std::move(a);
    for (HostEvent& event : early)
      if (agent) caf::anon_send(agent, FromHost{std::move(event)});
    early.clear();
  }
};

}  // namespace

struct InProcess::Impl {
  explicit Impl(const std::string& folder) {
    auto system = actor::System::start({}, clock_.wall());
    if (!system) give_up(system.error().to_string());
    system_ = std::move(*system);
    CoordinatorNodeOptions options;
    auto log = store::SqliteEventLog::open(folder + "/events.db");
    if (!log) give_up(log.error().to_string());
    options.log = std::move(*log);
    options.placer = std::make_shared<sched::SchedulerCore>();
    options.tokens = &tokens_;
    options.clock = &clock_;
    options.make_ledger = [](const auto&) { return std::unique_ptr<io::Ledger>(); };
    auto node = CoordinatorNode::start(system_->get(), std::move(options));
    if (!node) give_up(node.error().to_string());
    node_ = std::move(*node);

    AgentSettings settings;
    settings.node = NodeId("a");
    settings.incarnation = Incarnation(1);
    settings.address = "127.0.0.1";
    settings.capacity.node = settings.node;
    settings.capacity.cpu_milli = 256'000;
    settings.capacity.ports = {20000, 1000};
    AgentActorOptions agent;
    agent.core = std::make_shared<AgentCore>(settings);
    agent.clock = &clock_;
    agent.perform = [this](AgentEffect effect) { machine_.perform(std::move(effect)); };
    actor::AgentLinkOptions link;
    link.local = [this] { return node_->hub(); };
    wire::LinkHello hello;
    hello.node = settings.node;
    hello.incarnation = settings.incarnation;
    link.hello = [hello]() -> Result<wire::LinkHello> { return hello; };
    agent_ = spawn_agent(system_->get(), std::move(agent), [this, link](const caf::actor& owner) {
      return actor::spawn_agent_link(system_->get(), owner, link);
    });
    machine_.attach(agent_);
    wait([&] { return finished_and_nodes().second > 0; });
  }
  ~Impl() {
    machine_.attach(nullptr);
    caf::anon_send_exit(agent_, caf::exit_reason::user_shutdown);
    agent_ = nullptr;
    node_.reset();
    system_.reset();
  }

  void run_to(std::uint64_t total) {
    while (submitted_ < total) {
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, std::chrono::seconds(60), [&] { return under_way_ < 400; }))
          give_up("submits are not answered");
        ++under_way_;
      }
      ++submitted_;
      JobSpec spec;
      spec.name = "filler";
      spec.owner = "bench";
      spec.cwd = "/";
      RoleSpec role;
      role.name = "worker";
      role.argv = {"/bin/true"};
      role.resources.cpu_milli = 500;
      spec.roles = {role};
      const std::string key = "a-key-as-the-launcher-makes-it-" + std::to_string(submitted_);
      node_->call(SubmitJob{std::move(spec), key}, std::chrono::seconds(60),
                  [this](Result<ApiReply> reply) {
                    const std::lock_guard lock(mutex_);
                    if (!reply) refused_ = reply.error().to_string();
                    --under_way_;
                    changed_.notify_all();
                  });
      if (submitted_ % 200 == 0)  // no more than that many ahead of what has ended
        wait([&] { return finished_and_nodes().first + 600 > submitted_; });
    }
    wait([&] { return finished_and_nodes().first >= total; });
    const std::lock_guard lock(mutex_);
    if (!refused_.empty()) give_up("a submit was refused: " + refused_);
  }

  template <class Done>
  void wait(Done done) {
    const std::int64_t until = monotonic_ns() + 60'000'000'000;
    while (!done()) {
      if (monotonic_ns() > until) give_up("the coordinator in this process does not get on");
      usleep(1000);
    }
  }
  std::pair<std::uint64_t, std::uint32_t> finished_and_nodes() {
    std::mutex mutex;
    std::condition_variable answered;
    std::optional<Health> health;
    bool done = false;
    node_->call(GetHealth{}, std::chrono::seconds(60), [&](Result<ApiReply> reply) {
      const std::lock_guard lock(mutex);
      if (reply) health = std::get<Health>(*reply);
      done = true;
      answered.notify_all();
    });
    std::unique_lock lock(mutex);
    answered.wait(lock, [&] { return done; });
    return health ? std::pair(health->jobs_finished, health->nodes_up)
                  : std::pair(std::uint64_t{0}, 0u);
  }

  SystemClock clock_;
  HmacTokens tokens_{std::string(32, 'k')};
  EndsAtOnce machine_;
  std::unique_ptr<actor::System> system_;
  std::unique_ptr<CoordinatorNode> node_;
  caf::actor agent_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int under_way_ = 0;
  std::string refused_;
  std::uint64_t submitted_ = 0;
};

InProcess::InProcess(const std::string& folder) : impl_(std::make_unique<Impl>(folder)) {}
InProcess::~InProcess() = default;
void InProcess::run_to(std::uint64_t total) { impl_->run_to(total); }

}  // namespace dlrun::bench

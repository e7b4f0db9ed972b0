#include "runtime/cluster/actor/coordinator_node.h"

#include <caf/actor_system.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <future>
#include <map>
#include <mutex>

#include "runtime/actor/link_hub.h"
#include "runtime/actor/link_messages.h"
#include "runtime/cluster/actor/control_log.h"
#include "runtime/cluster/actor/coordinator_actor.h"
#include "runtime/cluster/actor/messages.h"
#include "runtime/cluster/actor/store_actor.h"

namespace dlrun::cluster {
namespace {

/// Who wants to hear of changes. The listeners run under the lock, so that a destroyed
/// handle's never runs later.
class Listeners : public std::enable_shared_from_this<Listeners> {
 public:
  std::shared_ptr<void> add(std::function<void(JobId)> listener) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t id = ++last_id_;
    listeners_.emplace(id, std::move(listener));
    return std::shared_ptr<void>(nullptr, [self = shared_from_this(), id](void*) {
      const std::lock_guard inner(self->mutex_);
      self->listeners_.erase(id);
    });
  }
  void tell(JobId job) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, listener] : listeners_) listener(job);
  }

 private:
  std::mutex mutex_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, std::function<void(JobId)>> listeners_;
};

}  // namespace

struct CoordinatorNode::Impl {
  explicit Impl(caf::actor_system& s) : system(s) {}
  caf::actor_system& system;
  std::shared_ptr<Listeners> listeners = std::make_shared<Listeners>();
  std::mutex mutex;  ///< of the handles
  caf::actor store, reader, hub, coordinator;
};

CoordinatorNode::CoordinatorNode(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CoordinatorNode::~CoordinatorNode() { stop(); }

Result<std::unique_ptr<CoordinatorNode>> CoordinatorNode::start(caf::actor_system& system,
                                                                CoordinatorNodeOptions options) {
  auto impl = std::make_unique<Impl>(system);
  auto core = std::make_shared<CoordinatorCore>(options.settings, *options.placer);
  auto log = std::make_unique<ControlLog>(std::move(options.log));
  if (Status ok =
          log->replay(options.settings.keys_max, [&](const Event& event) { core->apply(event); });
      !ok)
    return fail_as("replay", ok);

  StoreOptions store_options;
  store_options.clock = options.clock;
  store_options.on_retired = std::move(options.on_retired);
  store_options.log = options.say;
  store_options.meters = options.meters;
  store_options.retention = options.retention;
  impl->store = spawn_store(system, std::move(log), std::move(store_options));

  CoordinatorActorOptions actor_options;
  if (options.log_reader)
    actor_options.reader = impl->reader =
        spawn_store_reader(system, std::make_unique<ControlLog>(std::move(options.log_reader)));
  actor_options.core = std::move(core);
  actor_options.placer = std::move(options.placer);
  actor_options.job_settings = options.job_settings;
  actor_options.tokens = options.tokens;
  actor_options.clock = options.clock;
  actor_options.log = std::move(options.say);
  actor_options.make_ledger = std::move(options.make_ledger);
  actor_options.on_peer = std::move(options.on_peer);
  actor_options.on_change = [listeners = impl->listeners](JobId job) { listeners->tell(job); };
  actor_options.meters = options.meters;
  // The hub is linked to the coordinator, so the coordinator makes it; it runs its init before this
  // function goes on.
  auto made = std::make_shared<std::promise<caf::actor>>();
  auto make_hub = [&system, made, verify = std::move(options.verify),
                   log = actor_options.log](const caf::actor& coordinator) {
    actor::LinkHubOptions hub_options;
    hub_options.verify = verify;
    hub_options.log = log;
    caf::actor hub = actor::spawn_link_hub(system, coordinator, std::move(hub_options));
    made->set_value(hub);
    return hub;
  };
  impl->coordinator =
      spawn_coordinator(system, impl->store, std::move(actor_options), std::move(make_hub));
  impl->hub = made->get_future().get();
  return std::unique_ptr<CoordinatorNode>(new CoordinatorNode(std::move(impl)));
}

void CoordinatorNode::stop() {
  caf::actor store, reader, coordinator, hub;
  {
    const std::lock_guard lock(impl_->mutex);
    coordinator = std::exchange(impl_->coordinator, nullptr);
    store = std::exchange(impl_->store, nullptr);
    reader = std::exchange(impl_->reader, nullptr);
    hub = std::exchange(impl_->hub, nullptr);
  }
  if (!coordinator) return;
  caf::scoped_actor self(impl_->system);
  for (const caf::actor& a : {coordinator, hub, reader, store}) {
    if (!a) continue;
    caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
    self->wait_for(a);
  }
}

void CoordinatorNode::call(ApiCall request, Duration timeout, Reply reply) {
  auto answer = std::make_shared<ApiAnswer>(std::move(reply));
  const std::lock_guard lock(impl_->mutex);
  if (impl_->coordinator)
    caf::anon_send(impl_->coordinator, ApiRequest{std::move(request), timeout, std::move(answer)});
}

std::shared_ptr<void> CoordinatorNode::subscribe(std::function<void(JobId)> listener) {
  return impl_->listeners->add(std::move(listener));
}

void CoordinatorNode::drop_peer(const NodeId& node, const std::string& reason) {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->hub) caf::anon_send(impl_->hub, actor::PeerDrop{node, reason});
}

caf::actor CoordinatorNode::hub() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->hub;
}

}  // namespace dlrun::cluster

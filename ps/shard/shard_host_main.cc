#include "ps/shard/shard_host_main.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>

#include "ps/checkpoint/folder.h"
#include "ps/checkpoint/part_reader.h"
#include "ps/shard/shard_actor.h"
#include "runtime/task/task_client.h"
#include "runtime/transport/zmq_transport.h"
#include "runtime/wire/ps_checkpoint_codec.h"

namespace dlrun::ps {
namespace {

int complain(int code, const std::string& what) {
  std::fprintf(stderr, "dlrun shard-host: %s\n", what.c_str());
  return code;
}

/// What the agent says, from its thread to the shard and to main. Messages before the shard exists
/// are kept.
class Mail {
 public:
  Mail() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Mail() {
    if (fd_ >= 0) ::close(fd_);
  }
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  void take(const task::ToClient& message) {
    if (const auto* left = std::get_if<task::WorkerLeft>(&message)) {
      const std::lock_guard lock(mutex_);
      if (shard_) {
        shard_->worker_left(worker_id(left->worker));
      } else {
        early_.push_back(worker_id(left->worker));
      }
    } else if (const auto* order = std::get_if<task::PsOrder>(&message)) {
      const std::lock_guard lock(mutex_);
      if (shard_) obey(*order);  // else: not ready yet, so nobody has asked this shard
    } else if (std::holds_alternative<task::StopNow>(message)) {
      ring();
    }
  }
  void agent_lost(const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      lost_ = error;
    }
    ring();
  }
  /// `agent` outlives the shard.
  void attach(const ShardHandle& shard, task::TaskClient* agent) {
    const std::lock_guard lock(mutex_);
    shard_ = shard;
    agent_ = agent;
    for (const WorkerId worker : early_) shard_->worker_left(worker);
    early_.clear();
  }
  std::optional<Error> lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  int fd() const noexcept { return fd_; }  ///< readable: stop

 private:
  void obey(const task::PsOrder& order) {
    const auto decoded = wire::decode_cut_order(order.order);
    if (!decoded) {
      complain(0, decoded.error().context);  // of a newer coordinator: it gets no answer
      return;
    }
    // On the shard's thread. What cannot be queued is lost: who asked has a deadline.
    const auto report = [agent = agent_](const CutReport& said) {
      (void)agent->send(task::PsReport{wire::encode(said)});
    };
    if (std::holds_alternative<CutAsk>(*decoded)) {
      shard_->ask_progress([report](std::vector<TableProgress> progress) {
        report(CutAnswer{std::move(progress)});
      });
    } else if (const auto* cancel = std::get_if<CutCancel>(&*decoded)) {
      shard_->cancel_cut(cancel->checkpoint, cancel->why);
    } else {
      const auto& begin = std::get<CutBegin>(*decoded);
      const std::uint64_t id = begin.plan.id;
      shard_->begin_cut(
          begin.plan, {.folder = begin.folder, .zstd_level = begin.zstd_level},
          [report, id](const Status& begun) {
            report(begun ? CutBegun{.checkpoint = id}
                         : CutBegun{id, begun.error().code, begun.error().context});
          },
          [report, id](Result<PartInfo> part) {
            report(part ? CutPart{.checkpoint = id, .part = std::move(*part)}
                        : CutPart{id, part.error().code, part.error().context, {}});
          });
    }
  }
  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(fd_, &one, sizeof one);
  }
  const int fd_;
  mutable std::mutex mutex_;
  std::optional<ShardHandle> shard_;
  task::TaskClient* agent_ = nullptr;
  std::vector<WorkerId> early_;
  std::optional<Error> lost_;
};

std::string value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string random_name() {
  std::random_device random;
  char name[48];
  std::snprintf(name, sizeof name, "@dlrun-ps-%08x%08x%08x", random(), random(), random());
  return name;
}

transport::ListenOptions listen_options(const std::string& address) {
  const bool v6 = address.find(':') != std::string::npos && address.front() != '[';
  const std::string name = random_name();
  return {.bind = {"tcp://" + (v6 ? "[" + address + "]" : address) + ":*", "ipc://" + name,
                   "shm://" + name + "-shm"}};  // clients look there first: ps/client/shard_link.h
}

/// Blocks TERM and INT in this thread and all that it starts; restores at the end.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (fd_ >= 0) ::close(fd_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int fd() const noexcept { return fd_; }
  void take() const {
    signalfd_siginfo info;
    [[maybe_unused]] const auto n = ::read(fd_, &info, sizeof info);
  }

 private:
  sigset_t before_{};
  int fd_ = -1;
};

/// Before anybody can ask it anything.
Status restore(ShardCore& core, const task::RestoreFrom& from) {
  if (from.folder.empty()) return {};
  DLRUN_ASSIGN(const Manifest manifest, read_manifest(from.folder, from.digest));
  return restore_shard(core, from.folder, manifest, false, SystemClock().now());
}

/// Until StopNow, a signal, the agent's loss, or the end of the shard.
void wait_for_end(const Signals& signals, const Mail& mail, int shard_ended_fd) {
  pollfd fds[] = {{signals.fd(), POLLIN, 0}, {mail.fd(), POLLIN, 0}, {shard_ended_fd, POLLIN, 0}};
  while (::poll(fds, 3, -1) < 0 && errno == EINTR) {
  }
  if ((fds[0].revents & POLLIN) != 0) signals.take();  // else it would be delivered once unblocked
}

}  // namespace

int shard_host_main(int argc, char**) {
  if (argc > 1)
    return complain(
        2,
        "takes no arguments: it is started by an agent, for a role with program = \"shard-host\"");
  auto options = task::client_options(value_of("DLRUN_SOCKET"), value_of("DLRUN_TOKEN"),
                                      task::PeerKind::kShardHost);
  if (!options) return complain(2, options.error().context);
  const std::string address =
      value_of("DLRUN_ADDRESS").empty() ? "127.0.0.1" : value_of("DLRUN_ADDRESS");

  const Signals signals;  // before any thread is started
  Mail mail;
  if (signals.fd() < 0 || mail.fd() < 0) return complain(1, "no file descriptors left");
  // an agent may be restarted; a node that is lost ends us otherwise
  options->reconnect_for = std::chrono::minutes(30);
  options->on_message = [&mail](const task::ToClient& message) { mail.take(message); };
  options->on_closed = [&mail](const Error& error) { mail.agent_lost(error); };
  auto agent = task::TaskClient::connect(std::move(*options));
  if (!agent) return complain(1, "agent: " + agent.error().to_string());
  task::Welcome welcome = (*agent)->welcome();
  if (welcome.ps.map.owner.size() != kSlots)
    return complain(1, "the agent gave no slot map for " + to_string(welcome.task));

  ShardSettings settings;
  settings.shard = ShardId{welcome.task.rank};
  settings.token = welcome.ps.token;
  settings.workers = welcome.ps.workers;
  ShardCore core(settings, std::move(welcome.ps.map));
  if (const Status ok = restore(core, welcome.restore); !ok)
    return complain(1, "restore: " + ok.error().to_string());

  transport::ZmqTransport transport;
  auto channel = transport.listen(listen_options(address));
  if (!channel) return complain(1, channel.error().to_string());
  const std::vector<std::string> endpoints = (*channel)->endpoints();
  auto loop = std::make_shared<ShardLoop>(std::move(core), std::move(*channel),
                                          std::make_shared<SystemClock>());

  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("sharing"));  // no wake-ups when idle
  config.set("scheduler.max-threads", 1);
  caf::actor_system system(config);
  const ShardHandle shard = spawn_shard(system, std::move(loop));
  const int ended = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  shard.actor()->attach_functor([ended](const caf::error&) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(ended, &one, sizeof one);
  });
  mail.attach(shard, agent->get());

  int code = 0;
  const Status told = (*agent)->send(
      task::Ready{{endpoints[0], endpoints[1].substr(std::string("ipc://").size())}});
  if (told) {
    wait_for_end(signals, mail, ended);
    if (const auto lost = mail.lost()) code = complain(1, "lost the agent: " + lost->to_string());
  } else {
    code = complain(1, "agent: " + told.error().to_string());
  }
  std::uint64_t ended_early = 0;
  if (::read(ended, &ended_early, sizeof ended_early) > 0)
    code = complain(1, "the shard's sockets failed");
  shard.stop();
  caf::scoped_actor self(system);
  self->wait_for(shard.actor());
  ::close(ended);
  agent->reset();  // its thread uses `mail`
  return code;
}

}  // namespace dlrun::ps

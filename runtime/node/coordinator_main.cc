#include "runtime/node/coordinator_main.h"

#include <arpa/inet.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <caf/actor.hpp>
#include <cstdlib>
#include <map>

#include "io/core/ledger_core.h"
#include "runtime/actor/link_hub.h"
#include "runtime/actor/system.h"
#include "runtime/cluster/actor/coordinator_node.h"
#include "runtime/cluster/actor/hmac_tokens.h"
#include "runtime/logs/log_receiver.h"
#include "runtime/node/cluster_file.h"
#include "runtime/node/coordinator_metrics.h"
#include "runtime/node/coordinator_settings.h"
#include "runtime/node/daemon.h"
#include "runtime/node/log_source.h"
#include "runtime/node/node_probe.h"
#include "runtime/node/security_desk.h"
#include "runtime/os/address.h"
#include "runtime/os/serial_worker.h"
#include "runtime/security/secret.h"
#include "runtime/store/sqlite_event_log.h"
#include "scheduler/core/scheduler_core.h"
#include "web/server.h"

namespace dlrun::node {
namespace {

constexpr Duration kTendEveryMin = std::chrono::seconds(1);
constexpr Duration kTendRetry = std::chrono::minutes(1);
constexpr Duration kTendEveryMax = std::chrono::hours(24);

void say(const std::string& text) { log_line("coordinator", text); }

bool is_wildcard(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

/// Everything that runs, in the order in which it is made; destroyed the other way round.
class Coordinator {
 public:
  Coordinator(CoordinatorFlags flags, std::unique_ptr<DataFolder> data)
      : flags_(std::move(flags)), data_(std::move(data)) {}
  ~Coordinator() {
    rest_.reset();  // no new calls
    if (desk_) desk_->stop_joining();
    if (node_) node_->stop();
    node_.reset();
    system_.reset();
  }

  Status start() {
    DLRUN_TRY(open_desk());
    DLRUN_ASSIGN(ports_, read_ports(*data_ / "ports.json"));
    DLRUN_TRY(open_rest_token());
    DLRUN_TRY(open_logs());
    DLRUN_TRY(start_node());
    DLRUN_TRY(start_joining());
    DLRUN_TRY(start_rest());
    DLRUN_TRY(write_ports(*data_ / "ports.json", ports_));
    DLRUN_TRY(desk_->renew_join_token());
    token_due_ = clock_.now() + desk_->join_token_every();
    return write_cluster();
  }

  /// What must be done from time to time; returns when to call again.
  Duration tend() {
    if (clock_.now() >= token_due_) {
      if (Status ok = desk_->renew_join_token(); !ok)
        say("no new join token: " + ok.error().context);
      token_due_ = clock_.now() + desk_->join_token_every();
    }
    Duration renewal = kTendRetry;
    if (Status ok = renew_certificates(); ok)
      renewal = Duration(desk_->credentials().renew_at.ns - clock_.wall().ns);
    else
      say("the coordinator's certificate is not renewed: " + ok.error().context);
    return std::clamp<Duration>(std::min(token_due_ - clock_.now(), renewal), kTendEveryMin,
                                kTendEveryMax);
  }
  const ClusterFile& file() const { return file_; }

 private:
  std::string host() const {
    if (!flags_.advertise.empty()) return flags_.advertise;
    if (!is_wildcard(flags_.listen)) return flags_.listen;
    // Where packets for the world would leave: a documentation address, nothing is sent.
    const auto out = address_towards(flags_.listen == "::" ? "2001:db8::1" : "192.0.2.1", 9);
    return out ? *out : "127.0.0.1";
  }

  Status open_desk() {
    SecurityDesk::Options options;
    options.folder = data_->path();
    options.join_token_life = std::chrono::minutes(flags_.join_token_minutes);
    options.certificate_life = std::chrono::seconds(flags_.certificate_life_s);
    options.clock = &clock_;
    options.cut = [this](const NodeId& node, const std::string& reason) {
      log_receiver_->forbid(node);
      node_->drop_peer(node, reason);
      say(reason);
    };
    DLRUN_ASSIGN(desk_, SecurityDesk::open(std::move(options)));
    return {};
  }

  /// Connections that stand go on; the next ones see the new certificates.
  Status renew_certificates() {
    DLRUN_ASSIGN(const bool renewed, desk_->renew_if_due());
    if (!renewed) return {};
    if (!rest_names_.empty()) {
      DLRUN_TRY(desk_->make_rest_certificate(rest_names_));
      DLRUN_TRY(rest_->reload_certificate());
    }
    say("the coordinator's certificate is renewed");
    return {};
  }

  Status open_rest_token() {
    const std::string path = *data_ / "rest.token";
    Result<std::string> token = security::read_private_file(path, 4096);
    if (!token && token.error().code == Errc::kNotFound) {
      DLRUN_ASSIGN(const std::string bytes, security::random_bytes(32));
      rest_token_ =
          security::to_hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      return security::write_private_file(path, rest_token_ + "\n");
    }
    if (!token) return tl::unexpected(token.error());
    while (!token->empty() && (token->back() == '\n' || token->back() == ' ')) token->pop_back();
    rest_token_ = std::move(*token);
    return {};
  }

  logs::StoreLimits log_limits() const {
    logs::StoreLimits limits;
    limits.job_bytes = static_cast<std::uint64_t>(flags_.log_job_bytes);
    limits.total_bytes = static_cast<std::uint64_t>(flags_.log_total_bytes);
    return limits;
  }

  Status open_logs() {
    DLRUN_ASSIGN(auto task_tokens, cluster::HmacTokens::open(*data_ / "task.key"));
    task_tokens_ = std::make_unique<cluster::HmacTokens>(std::move(task_tokens));
    DLRUN_ASSIGN(log_store_, logs::LogStore::open(*data_ / "logs", log_limits()));
    logs::ReceiverOptions options;
    const bool v6 = flags_.listen.find(':') != std::string::npos;
    const std::uint16_t wanted = flags_.log_port != 0 ? flags_.log_port : ports_.logs;
    options.bind = "tcp://" + (v6 ? "[" + flags_.listen + "]" : flags_.listen) + ":" +
                   (wanted == 0 ? "*" : std::to_string(wanted));
    DLRUN_ASSIGN(options.keys, logs::make_curve_keys());
    options.may_ship = [this](const NodeId& node, const TaskId& task, Epoch epoch,
                              std::string_view proof) {
      return cluster::may_ship(*task_tokens_, node, task, epoch, proof);
    };
    // The next start may do better; agents keep what they could not ship.
    options.on_failure = [](const Error& error) { end_with("coordinator", error); };
    auto started = logs::LogReceiver::start(options, *log_store_);
    if (!started && flags_.log_port == 0 && wanted != 0) {  // agents are told: any other will do
      options.bind.replace(options.bind.rfind(':') + 1, std::string::npos, "*");
      started = logs::LogReceiver::start(options, *log_store_);
    }
    if (!started) return tl::unexpected(started.error());
    log_receiver_ = std::move(*started);
    const std::string endpoint = log_receiver_->endpoint();
    ports_.logs = static_cast<std::uint16_t>(std::stoul(endpoint.substr(endpoint.rfind(':') + 1)));
    log_source_ = std::make_unique<StoreLogSource>(log_store_.get());
    metrics_ = std::make_unique<CoordinatorMetrics>(CoordinatorMetrics::Sources{
        &meters_, log_store_.get(), log_receiver_.get(), *data_ / "events.db"});
    return {};
  }

  Status start_node() {
    actor::SystemOptions system_options;
    system_options.credentials = desk_->credentials().files;
    system_options.kind = security::CertKind::kCoordinator;
    DLRUN_ASSIGN(system_, actor::System::start(system_options, clock_.wall()));

    cluster::CoordinatorNodeOptions options;
    DLRUN_ASSIGN(options.log, store::SqliteEventLog::open(*data_ / "events.db"));
    DLRUN_ASSIGN(options.log_reader, store::SqliteEventLog::open_reader(*data_ / "events.db"));
    options.say = say;
    options.on_retired = [this](const std::vector<JobId>& jobs) {
      for (const JobId job : jobs)
        janitor_.post([this, job] {
          if (Status ok = log_store_->drop_job(job); !ok) say(ok.error().to_string());
        });
    };
    options.settings.membership.heartbeat = std::chrono::milliseconds(flags_.heartbeat_ms);
    options.settings.membership.suspect_after = std::chrono::milliseconds(flags_.suspect_ms);
    options.settings.membership.lost_after = std::chrono::milliseconds(flags_.lost_ms);
    options.job_settings.commit_stall = std::chrono::seconds(flags_.commit_stall_s);
    options.settings.jobs_live_max = static_cast<std::uint32_t>(flags_.jobs_max);
    options.retention = std::chrono::hours(24) * flags_.retention_days;
    options.settings.version = DLRUN_VERSION_TEXT;
    // Agents put the host there under which they reach this machine.
    options.settings.log_endpoint = "tcp://*:" + std::to_string(ports_.logs);
    options.settings.log_key = log_receiver_->public_key();
    options.placer = std::make_shared<sched::SchedulerCore>();
    options.tokens = task_tokens_.get();
    options.clock = &clock_;
    options.meters = &meters_;
    options.make_ledger =
        [](const std::vector<io::InputSpec>& inputs) -> std::unique_ptr<io::Ledger> {
      if (inputs.empty()) return nullptr;
      return std::make_unique<io::LedgerCore>(inputs);
    };
    options.verify = [this](const wire::LinkHello& hello) { return desk_->verify(hello); };
    options.on_peer = [this](const NodeId& node, const std::string& log_key) {
      std::string& known = log_keys_[node];
      if (known == log_key || !desk_->is_member(node)) return;
      if (!known.empty()) log_receiver_->forbid(known);
      if (!log_key.empty()) log_receiver_->allow(log_key, node);
      known = log_key;
    };
    DLRUN_ASSIGN(node_, cluster::CoordinatorNode::start(system_->get(), std::move(options)));
    const std::uint16_t wanted = flags_.port != 0 ? flags_.port : ports_.cluster;
    DLRUN_ASSIGN(ports_.cluster,
                 actor::publish_hub(system_->get(), node_->hub(), flags_.listen, wanted));
    return {};
  }

  Status start_joining() {
    const std::uint16_t wanted = flags_.join_port != 0 ? flags_.join_port : ports_.join;
    DLRUN_ASSIGN(ports_.join, desk_->start_joining(flags_.listen, wanted, ports_.cluster, host()));
    return {};
  }

  Status start_rest() {
    web::ServerOptions options;
    DLRUN_ASSIGN(const Endpoint rest, parse_endpoint(flags_.rest));
    options.listen_address = rest.address;
    options.port = rest.port != 0 ? rest.port : ports_.rest;
    options.bearer_token = rest_token_;
    options.allowed_hosts = flags_.rest_hosts;
    if (!os::is_loopback(options.listen_address)) {
      if (!flags_.advertise.empty()) options.allowed_hosts.push_back(flags_.advertise);
      if (is_wildcard(options.listen_address)) options.allowed_hosts.push_back(host());
      rest_host_ = is_wildcard(options.listen_address) ? host() : options.listen_address;
      rest_names_ = {"DNS:localhost"};
      for (const std::string& name : options.allowed_hosts)
        rest_names_.push_back((os::is_address(name) ? "IP:" : "DNS:") + name);
      if (os::is_address(rest_host_)) rest_names_.push_back("IP:" + rest_host_);
      DLRUN_ASSIGN(const security::CredentialFiles files,
                   desk_->make_rest_certificate(rest_names_));
      options.tls_cert_path = files.certificate_path;
      options.tls_key_path = files.key_path;
    }
    DLRUN_ASSIGN(rest_, web::RestServer::start(std::move(options), *node_, *log_source_, *metrics_,
                                               desk_.get()));
    ports_.rest = rest_->port();
    return {};
  }

  Status write_cluster() {
    file_.rest =
        rest_host_.empty() ? rest_->url() : "https://" + host_port(rest_host_, ports_.rest);
    file_.token_file = *data_ / "rest.token";
    file_.cluster = host_port(host(), ports_.cluster);
    file_.join = desk_->join_address();
    file_.ca_file = desk_->credentials().files.ca_path;
    file_.ca_fingerprint = desk_->credentials().ca_fingerprint;
    file_.join_token_file = desk_->join_token_file();
    file_.join_line = desk_->join_line();
    file_.pid = ::getpid();
    return write_cluster_file(*data_ / "cluster.json", file_);
  }

  const CoordinatorFlags flags_;
  std::unique_ptr<DataFolder> data_;
  SystemClock clock_;
  TimePoint token_due_;
  std::unique_ptr<SecurityDesk> desk_;
  Ports ports_;
  std::string rest_token_;
  std::vector<std::string> rest_names_;  ///< in its certificate; empty = it is on loopback
  std::string rest_host_;  ///< under which other machines reach REST; "" = it is on loopback
  ClusterFile file_;
  std::unique_ptr<cluster::HmacTokens> task_tokens_;
  std::unique_ptr<logs::LogStore> log_store_;
  os::SerialWorker janitor_;  ///< removes the logs of jobs that retention forgot
  std::unique_ptr<logs::LogReceiver> log_receiver_;
  std::map<NodeId, std::string> log_keys_;  ///< of the coordinator actor; one a node
  std::unique_ptr<StoreLogSource> log_source_;
  cluster::Meters meters_;
  std::unique_ptr<CoordinatorMetrics> metrics_;
  std::unique_ptr<actor::System> system_;
  std::unique_ptr<cluster::CoordinatorNode> node_;
  std::unique_ptr<web::RestServer> rest_;
};

}  // namespace

int coordinator_main(int argc, char** argv) {
  auto parsed = parse_coordinator_flags(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  CoordinatorFlags flags = std::get<CoordinatorFlags>(std::move(parsed));
  keep_memory_small();
  const Signals signals;
  auto data = DataFolder::open(flags.data, "coordinator");
  if (!data) {
    say(data.error().context);
    return 1;
  }
  Coordinator coordinator(std::move(flags), std::move(*data));
  if (Status ok = coordinator.start(); !ok) {
    say(ok.error().context);
    return 1;
  }
  say("serving at " + coordinator.file().rest + ", agents at " + coordinator.file().cluster);
  say("next machine: " + coordinator.file().join_line);
  for (;;) {
    const int signal = signals.wait(coordinator.tend());
    if (signal == SIGTERM || signal == SIGINT) break;
  }
  say("stopping; jobs run on");
  return 0;
}

}  // namespace dlrun::node

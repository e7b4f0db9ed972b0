#include "runtime/node/coordinator_main.h"

#include <arpa/inet.h>
#include <signal.h>
#include <unistd.h>

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
#include "runtime/node/coordinator_settings.h"
#include "runtime/node/daemon.h"
#include "runtime/node/log_source.h"
#include "runtime/node/node_probe.h"
#include "runtime/security/join_client.h"
#include "runtime/security/join_listener.h"
#include "runtime/security/secret.h"
#include "runtime/store/sqlite_event_log.h"
#include "scheduler/core/scheduler_core.h"
#include "web/server.h"

namespace dlrun::node {
namespace {

using security::CredentialFiles;

void say(const std::string& text) { log_line("coordinator", text); }

bool is_wildcard(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

/// What /metrics says beyond the server's own.
class NodeMetrics final : public web::MetricsSource {
 public:
  explicit NodeMetrics(const logs::LogReceiver* receiver) : receiver_(receiver) {}
  std::vector<web::Metric> collect() override {
    web::Metric refused;
    refused.name = "dlrun_log_messages_refused_total";
    refused.help = "Log messages and handshakes refused by the log receiver.";
    refused.counter = true;
    refused.samples.push_back({{}, static_cast<double>(receiver_->refused())});
    return {refused};
  }

 private:
  const logs::LogReceiver* receiver_;
};

/// Everything that runs, in the order in which it is made; destroyed the other way round.
class Coordinator {
 public:
  Coordinator(CoordinatorFlags flags, std::unique_ptr<DataFolder> data)
      : flags_(std::move(flags)), data_(std::move(data)) {}
  ~Coordinator() {
    rest_.reset();  // no new calls
    join_.reset();
    if (node_) node_->stop();
    node_.reset();
    system_.reset();
  }

  Status start() {
    DLRUN_ASSIGN(credentials_, security::open_or_make_cluster(*data_ / "tls", clock_.wall()));
    DLRUN_ASSIGN(ports_, read_ports(*data_ / "ports.json"));
    DLRUN_TRY(open_rest_token());
    DLRUN_TRY(open_logs());
    DLRUN_TRY(start_node());
    DLRUN_TRY(start_joining());
    DLRUN_TRY(start_rest());
    DLRUN_TRY(write_ports(*data_ / "ports.json", ports_));
    DLRUN_TRY(renew_join_token());
    return write_cluster();
  }

  /// A new token while the old one still has half of its life, so that the file always holds a good
  /// one.
  Duration join_token_every() const { return std::chrono::minutes(flags_.join_token_minutes) / 2; }
  Status renew_join_token() {
    DLRUN_ASSIGN(const std::string token,
                 tokens_->issue(std::chrono::minutes(flags_.join_token_minutes), clock_.wall()));
    return security::write_private_file(*data_ / "join.token", token + "\n");
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

  Status open_logs() {
    DLRUN_ASSIGN(log_store_, logs::LogStore::open(*data_ / "logs", logs::StoreLimits{}));
    logs::ReceiverOptions options;
    const bool v6 = flags_.listen.find(':') != std::string::npos;
    options.bind = "tcp://" + (v6 ? "[" + flags_.listen + "]" : flags_.listen) + ":*";
    DLRUN_ASSIGN(options.keys, logs::make_curve_keys());
    DLRUN_ASSIGN(log_receiver_, logs::LogReceiver::start(std::move(options), *log_store_));
    log_source_ = std::make_unique<StoreLogSource>(log_store_.get());
    metrics_ = std::make_unique<NodeMetrics>(log_receiver_.get());
    return {};
  }

  Status start_node() {
    DLRUN_ASSIGN(auto task_tokens, cluster::HmacTokens::open(*data_ / "task.key"));
    task_tokens_ = std::make_unique<cluster::HmacTokens>(std::move(task_tokens));
    DLRUN_ASSIGN(revoked_, security::RevocationList::open(*data_ / "revoked"));
    actor::SystemOptions system_options;
    system_options.credentials = credentials_.files;
    system_options.kind = security::CertKind::kCoordinator;
    DLRUN_ASSIGN(system_, actor::System::start(system_options, clock_.wall()));

    cluster::CoordinatorNodeOptions options;
    DLRUN_ASSIGN(options.log, store::SqliteEventLog::open(*data_ / "events.db"));
    options.settings.membership.heartbeat = std::chrono::milliseconds(flags_.heartbeat_ms);
    options.settings.membership.suspect_after = std::chrono::milliseconds(flags_.suspect_ms);
    options.settings.membership.lost_after = std::chrono::milliseconds(flags_.lost_ms);
    options.settings.version = DLRUN_VERSION_TEXT;
    // Agents put the host there under which they reach this machine.
    const std::string endpoint = log_receiver_->endpoint();
    options.settings.log_endpoint = "tcp://*" + endpoint.substr(endpoint.rfind(':'));
    options.settings.log_key = log_receiver_->public_key();
    options.placer = std::make_shared<sched::SchedulerCore>();
    options.tokens = task_tokens_.get();
    options.clock = &clock_;
    options.make_ledger =
        [](const std::vector<io::InputSpec>& inputs) -> std::unique_ptr<io::Ledger> {
      if (inputs.empty()) return nullptr;
      return std::make_unique<io::LedgerCore>(inputs);
    };
    options.verify = [this](const wire::LinkHello& hello) { return verify(hello); };
    options.on_peer = [this](const NodeId& node, const std::string& log_key) {
      std::string& known = log_keys_[node];
      if (known == log_key) return;
      if (!known.empty()) log_receiver_->forbid(known);
      if (!log_key.empty()) log_receiver_->allow(log_key);
      known = log_key;
    };
    DLRUN_ASSIGN(node_, cluster::CoordinatorNode::start(system_->get(), std::move(options)));
    const std::uint16_t wanted = flags_.port != 0 ? flags_.port : ports_.cluster;
    DLRUN_ASSIGN(ports_.cluster,
                 actor::publish_hub(system_->get(), node_->hub(), flags_.listen, wanted));
    return {};
  }

  /// The peer holds the key of an agent's certificate of this cluster, for this name, and it was
  /// not revoked.
  Status verify(const wire::LinkHello& hello) const {
    DLRUN_TRY(revoked_->reload());
    DLRUN_ASSIGN(
        const security::CertInfo info,
        security::verify_statement(credentials_.ca.certificate_pem, hello.certificate_pem,
                                   wire::link_statement(hello), hello.signature, clock_.wall()));
    if (info.common_name != hello.node.value)
      return fail(Errc::kPermissionDenied,
                  "the certificate is for node " + info.common_name + ", not " + hello.node.value);
    if (revoked_->contains(info.serial_hex))
      return fail(Errc::kPermissionDenied,
                  "the certificate of node " + info.common_name + " is revoked");
    return {};
  }

  Status start_joining() {
    DLRUN_ASSIGN(tokens_,
                 security::JoinTokens::open(*data_ / "join_tokens", credentials_.ca_fingerprint));
    DLRUN_TRY(tokens_->clear());
    join_service_ = std::make_unique<security::JoinService>(
        credentials_.ca, tokens_.get(), revoked_.get(), &clock_, ports_.cluster);
    const std::uint16_t wanted = flags_.join_port != 0 ? flags_.join_port : ports_.join;
    DLRUN_ASSIGN(join_, security::JoinListener::start(credentials_.files, flags_.listen, wanted,
                                                      join_service_.get()));
    ports_.join = join_->port();
    return {};
  }

  Status start_rest() {
    web::ServerOptions options;
    const auto colon = flags_.rest.rfind(':');
    if (colon == std::string::npos)
      return fail(Errc::kInvalidArgument, "--rest wants ADDRESS:PORT, not \"" + flags_.rest + "\"");
    options.listen_address = flags_.rest.substr(0, colon);
    if (options.listen_address.size() > 2 && options.listen_address.front() == '[')
      options.listen_address = options.listen_address.substr(1, options.listen_address.size() - 2);
    options.port =
        static_cast<std::uint16_t>(std::strtoul(flags_.rest.c_str() + colon + 1, nullptr, 10));
    if (options.port == 0) options.port = ports_.rest;
    options.bearer_token = rest_token_;
    options.allowed_hosts = flags_.rest_hosts;
    const bool loopback =
        options.listen_address == "::1" || options.listen_address.rfind("127.", 0) == 0;
    if (!loopback) {
      if (!flags_.advertise.empty()) options.allowed_hosts.push_back(flags_.advertise);
      std::vector<std::string> names = {"DNS:localhost"};
      for (const std::string& name : options.allowed_hosts)
        names.push_back((is_address(name) ? "IP:" : "DNS:") + name);
      names.push_back("IP:" +
                      (is_wildcard(options.listen_address) ? host() : options.listen_address));
      DLRUN_ASSIGN(const CredentialFiles files,
                   security::make_server_certificate(*data_ / "tls", "rest", credentials_.ca, names,
                                                     clock_.wall()));
      options.tls_cert_path = files.certificate_path;
      options.tls_key_path = files.key_path;
    }
    DLRUN_ASSIGN(rest_,
                 web::RestServer::start(std::move(options), *node_, *log_source_, *metrics_));
    ports_.rest = rest_->port();
    return {};
  }

  Status write_cluster() {
    file_.rest = rest_->url();
    file_.token_file = *data_ / "rest.token";
    file_.cluster = host_port(host(), ports_.cluster);
    file_.join = host_port(host(), ports_.join);
    file_.ca_file = credentials_.files.ca_path;
    file_.ca_fingerprint = credentials_.ca_fingerprint;
    file_.join_token_file = *data_ / "join.token";
    file_.join_line = security::join_line(file_.join, file_.ca_fingerprint, file_.join_token_file);
    file_.pid = ::getpid();
    return write_cluster_file(*data_ / "cluster.json", file_);
  }

  const CoordinatorFlags flags_;
  std::unique_ptr<DataFolder> data_;
  SystemClock clock_;
  security::CoordinatorCredentials credentials_;
  Ports ports_;
  std::string rest_token_;
  ClusterFile file_;
  std::unique_ptr<logs::LogStore> log_store_;
  std::unique_ptr<logs::LogReceiver> log_receiver_;
  std::map<NodeId, std::string> log_keys_;  ///< of the coordinator actor; one a node
  std::unique_ptr<StoreLogSource> log_source_;
  std::unique_ptr<NodeMetrics> metrics_;
  std::unique_ptr<cluster::HmacTokens> task_tokens_;
  std::unique_ptr<security::RevocationList> revoked_;
  std::unique_ptr<security::JoinTokens> tokens_;
  std::unique_ptr<security::JoinService> join_service_;
  std::unique_ptr<actor::System> system_;
  std::unique_ptr<cluster::CoordinatorNode> node_;
  std::unique_ptr<security::JoinListener> join_;
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
    const int signal = signals.wait(coordinator.join_token_every());
    if (signal == SIGTERM || signal == SIGINT) break;
    if (signal == 0)
      if (Status ok = coordinator.renew_join_token(); !ok)
        say("no new join token: " + ok.error().context);
  }
  say("stopping; jobs run on");
  return 0;
}

}  // namespace dlrun::node

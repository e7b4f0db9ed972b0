#include "runtime/node/agent_main.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/actor/system.h"
#include "runtime/client/paths.h"
#include "runtime/cluster/actor/agent_node.h"
#include "runtime/logs/curve.h"
#include "runtime/node/agent_settings.h"
#include "runtime/node/cluster_file.h"
#include "runtime/node/daemon.h"
#include "runtime/node/node_probe.h"
#include "runtime/os/address.h"
#include "runtime/security/credentials.h"
#include "runtime/security/join_client.h"
#include "runtime/security/secret.h"

namespace dlrun::node {
namespace {

constexpr Duration kRenewalCheckMin = std::chrono::seconds(1);
constexpr Duration kRenewalRetryMax = std::chrono::hours(1);
constexpr Duration kRenewalCheckMax = std::chrono::hours(24);
constexpr std::size_t kRunDirBytesMax = 50;  ///< so that sockets below it keep to 107

bool is_loopback(const std::string& address) {
  return address == "::1" || address.rfind("127.", 0) == 0;
}

/// Where an agent lives that was started with the join line alone.
std::string default_data() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string home = variable("DLRUN_HOME"); !home.empty()) return home + "/agent";
  if (::geteuid() == 0 || variable("HOME").empty()) return "/var/lib/dlrun/agent";
  return variable("HOME") + "/.dlrun/agent";
}

/// Everything that runs, in the order in which it is made; destroyed the other way round.
class Agent {
 public:
  Agent(AgentFlags flags, std::unique_ptr<DataFolder> data)
      : flags_(std::move(flags)), data_(std::move(data)) {
    if (flags_.name.empty()) flags_.name = default_node_name();
  }
  ~Agent() {
    node_.reset();
    system_.reset();
  }

  Status start() {
    if (!security::is_node_name(flags_.name))
      return fail(Errc::kInvalidArgument,
                  "a node's name has 1 to 64 of A-Z a-z 0-9 . _ -, not \"" + flags_.name + "\"");
    DLRUN_TRY(join());
    DLRUN_ASSIGN(const std::string address,
                 address_towards(coordinator_.host, coordinator_.cluster_port));
    DLRUN_ASSIGN(auto capacity, capacity_of_node());

    actor::SystemOptions system_options;
    system_options.credentials = credentials_.files;
    DLRUN_ASSIGN(system_, actor::System::start(system_options, clock_.wall()));

    cluster::AgentNodeOptions options;
    DLRUN_ASSIGN(const Incarnation incarnation, new_incarnation());
    options.settings.node = NodeId(flags_.name);
    options.settings.incarnation = incarnation;
    options.settings.address = address;
    options.settings.version = DLRUN_VERSION_TEXT;
    options.settings.capacity = std::move(capacity);
    DLRUN_ASSIGN(const logs::CurveKeys log_keys, logs::make_curve_keys());
    DLRUN_ASSIGN(options.host, host_options(address, log_keys));
    options.link = link_options(incarnation, log_keys.public_key);
    options.clock = &clock_;
    DLRUN_ASSIGN(node_, cluster::AgentNode::start(system_->get(), std::move(options)));
    say("node " + flags_.name + " at " + address + ", coordinator " +
        host_port(coordinator_.host, coordinator_.cluster_port));
    return {};
  }

  /// Renews the certificate when it is time; returns when to call again. The next handshake uses
  /// the new files: CAF reads them for each connection.
  Duration tend_certificate() {
    const auto current = security::open_node(tls_dir(), security::CertKind::kAgent, clock_.wall());
    if (!current) return kRenewalCheckMax;
    const auto until = [&](WallTime time) { return Duration(time.ns - clock_.wall().ns); };
    Duration next = until(current->renew_at);
    if (next <= Duration(0)) {
      const auto renewed = security::renew_certificate(join_target(), tls_dir(), clock_.wall());
      if (renewed) {
        say("the certificate is renewed");
        const auto fresh =
            security::open_node(tls_dir(), security::CertKind::kAgent, clock_.wall());
        next = fresh ? until(fresh->renew_at) : kRenewalCheckMax;
      } else {
        say("the certificate is not renewed: " + renewed.error().context);
        next = std::min(until(current->info.not_after) / 10, kRenewalRetryMax);
      }
    }
    return std::clamp(next, kRenewalCheckMin, kRenewalCheckMax);
  }

  void say(const std::string& text) const { log_line("agent " + flags_.name, text); }

 private:
  std::string tls_dir() const { return *data_ / "tls"; }
  security::JoinTarget join_target() const {
    return {coordinator_.host, coordinator_.join_port, coordinator_.ca_fingerprint,
            std::chrono::seconds(10)};
  }

  /// Joins when asked and not yet a member of that cluster; else goes by what an earlier start
  /// left.
  Status join() {
    const std::string path = *data_ / "coordinator.json";
    DLRUN_ASSIGN(const auto stored, read_coordinator_file(path));
    auto credentials = security::open_node(tls_dir(), security::CertKind::kAgent, clock_.wall());
    const bool member = stored && credentials && credentials->info.common_name == flags_.name &&
                        (flags_.join.empty() || flags_.ca_fingerprint == stored->ca_fingerprint);
    if (member) coordinator_ = *stored;
    if (!flags_.join.empty()) {
      DLRUN_ASSIGN(const security::JoinTarget target, security::parse_host_port(flags_.join));
      coordinator_.host = target.host;
      coordinator_.join_port = target.port;
      coordinator_.ca_fingerprint = flags_.ca_fingerprint;
    }
    if (!coordinator_.host.empty()) DLRUN_TRY(may_run_tasks());
    if (!member) {
      if (flags_.join.empty()) {
        if (!credentials)
          return fail_as("this node has not joined: give --join, --token-file and --ca-fingerprint",
                         credentials);
        return fail(Errc::kFailedPrecondition, "this data folder belongs to node " +
                                                   credentials->info.common_name +
                                                   ": give that --name, or join anew");
      }
      DLRUN_ASSIGN(std::string token, security::read_file(flags_.token_file, 4096));
      while (!token.empty() && (token.back() == '\n' || token.back() == ' ')) token.pop_back();
      const auto joined =
          security::join_cluster(join_target(), token, flags_.name, tls_dir(), clock_.wall());
      if (!joined) return fail_as("join " + flags_.join, joined);
      coordinator_.cluster_port = *joined;
      say("joined " + flags_.join);
    }
    DLRUN_TRY(write_coordinator_file(path, coordinator_));
    tend_certificate();
    DLRUN_ASSIGN(credentials_,
                 security::open_node(tls_dir(), security::CertKind::kAgent, clock_.wall()));
    return {};
  }

  /// Before anything is sent: tasks of a root agent are root's, which others beyond this machine
  /// could start.
  Status may_run_tasks() const {
    DLRUN_ASSIGN(const std::string address,
                 address_towards(coordinator_.host, coordinator_.join_port));
    if (::geteuid() != 0 || is_loopback(address) || flags_.tasks_as_root) return {};
    return fail(Errc::kPermissionDenied,
                "this agent runs as root and would serve a coordinator beyond this machine (from " +
                    address +
                    "): its tasks would run as root. Start it as another user, or say "
                    "--tasks-as-root");
  }

  Result<sched::NodeCapacity> capacity_of_node() const {
    Machine machine = probe_machine();
    sched::NodeCapacity out = std::move(machine.capacity);
    if (flags_.gpus != "none" && !machine.no_gpu.empty()) say(machine.no_gpu);
    out.node = NodeId(flags_.name);
    if (flags_.cpus > 0) out.cpu_milli = std::llround(flags_.cpus * 1000);
    if (flags_.memory_bytes > 0) out.memory_bytes = flags_.memory_bytes;
    if (flags_.gpus == "none") out.gpu_uuids.clear();
    out.labels = flags_.labels;
    DLRUN_ASSIGN(out.ports, parse_port_range(flags_.ports));
    if (overlap(out.ports, ephemeral_ports()))
      say("the ports " + flags_.ports +
          " overlap those that the kernel hands out by itself: a task may find its port taken");
    return out;
  }

  static Result<Incarnation> new_incarnation() {
    std::uint64_t value = 0;
    while (value == 0) {
      DLRUN_ASSIGN(const std::string bytes, security::random_bytes(sizeof value));
      std::memcpy(&value, bytes.data(), sizeof value);
    }
    return Incarnation(value);
  }

  /// DATA/run, or a short folder in /tmp when DATA's path is long: a Unix socket's path has 107
  /// bytes at most.
  std::string run_dir() const {
    const std::string near = *data_ / "run";
    if (near.size() <= kRunDirBytesMax) return near;
    const std::string digest = security::to_hex(security::sha256(data_->path())).substr(0, 12);
    return "/tmp/dlrun-" + std::to_string(::geteuid()) + "-" + digest;
  }

  Result<cluster::AgentHostOptions> host_options(const std::string& address,
                                                 const logs::CurveKeys& keys) const {
    cluster::AgentHostOptions out;
    out.node = NodeId(flags_.name);
    out.data_dir = data_->path();
    out.run_dir = run_dir();
    DLRUN_ASSIGN(out.self_program, self_path());
    DLRUN_ASSIGN(out.shim_program, find_shim(out.self_program));
    const client::ClientPaths paths = client::client_paths(out.self_program);
    out.client_env = {
        {"DLRUN_LIB", paths.library}, {"DLRUN_NODE", flags_.name}, {"DLRUN_ADDRESS", address}};
    // The way to the other nodes, which need not be what NCCL and Gloo would guess. NCCL takes a
    // name without '=' for the beginning of one.
    if (const std::string interface = os::interface_of(address); !interface.empty())
      out.default_env = {{"NCCL_SOCKET_IFNAME", "=" + interface},
                         {"GLOO_SOCKET_IFNAME", interface}};
    out.python_dir = paths.python_dir;
    out.coordinator_host = coordinator_.host;
    out.log_public_key = keys.public_key;
    out.log_secret_key = keys.secret_key;
    out.log = [name = flags_.name](const std::string& line) { log_line("agent " + name, line); };
    return out;
  }

  actor::AgentLinkOptions link_options(Incarnation incarnation, const std::string& log_key) const {
    actor::AgentLinkOptions out;
    out.coordinators = {{coordinator_.host, coordinator_.cluster_port}};
    out.hello = [folder = tls_dir(), node = NodeId(flags_.name), incarnation,
                 log_key]() -> Result<wire::LinkHello> {
      DLRUN_ASSIGN(const security::NodeCredentials own,
                   security::open_node(folder, security::CertKind::kAgent, SystemClock().wall()));
      wire::LinkHello hello{wire::kLinkVersion,  node, incarnation,
                            own.certificate_pem, "",   log_key};
      DLRUN_ASSIGN(hello.signature,
                   security::sign_statement(own.key_pem, wire::link_statement(hello)));
      return hello;
    };
    out.seed = incarnation.value;
    return out;
  }

  AgentFlags flags_;
  std::unique_ptr<DataFolder> data_;
  SystemClock clock_;
  CoordinatorFile coordinator_;
  security::NodeCredentials credentials_;
  std::unique_ptr<actor::System> system_;
  std::unique_ptr<cluster::AgentNode> node_;
};

}  // namespace

int agent_main(int argc, char** argv) {
  auto parsed = parse_agent_flags(argc, argv, default_data());
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  AgentFlags flags = std::get<AgentFlags>(std::move(parsed));
  keep_memory_small();
  const Signals signals;
  auto data = DataFolder::open(flags.data, "agent");
  if (!data) {
    log_line("agent", data.error().context);
    return 1;
  }
  Agent agent(std::move(flags), std::move(*data));
  if (Status ok = agent.start(); !ok) {
    agent.say(ok.error().context);
    return 1;
  }
  for (;;) {
    const int signal = signals.wait(agent.tend_certificate());
    if (signal == SIGTERM || signal == SIGINT) break;
  }
  agent.say("stopping; tasks run on");
  return 0;
}

}  // namespace dlrun::node

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/openssl/remote_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "runtime/actor/agent_link.h"
#include "runtime/actor/link_hub.h"
#include "runtime/actor/link_messages.h"
#include "runtime/actor/system.h"
#include "tests/security/temp_folder.h"

namespace dlrun::actor {
namespace {

using security::CertKind;
using security::TempFolder;

/// What an owner actor heard, as text, for the test's thread.
class Heard {
 public:
  void add(std::string text) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(text));
    changed_.notify_all();
  }
  /// Waits until a line starts with `prefix` and takes it out.
  bool wait(const std::string& prefix, std::chrono::seconds limit = std::chrono::seconds(20)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] {
      for (auto it = lines_.begin(); it != lines_.end(); ++it)
        if (it->rfind(prefix, 0) == 0) {
          last_ = *it;
          lines_.erase(it);
          return true;
        }
      return false;
    });
  }
  std::string last() const { return last_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::string last_;
};

caf::behavior owner_actor(caf::event_based_actor* self, std::shared_ptr<Heard> heard) {
  self->set_default_handler(caf::drop);
  return {
      [=](const LinkUp&) { heard->add("up"); },
      [=](const LinkDown& m) { heard->add("down " + m.reason); },
      [=](const LinkBytes& m) { heard->add("bytes " + m.bytes); },
      [=](const PeerUp& m) { heard->add("peer up " + m.node.value); },
      [=](const PeerDown& m) { heard->add("peer down " + m.node.value); },
      [=](const PeerBytes& m) { heard->add("peer bytes " + m.node.value + " " + m.bytes); },
  };
}

WallTime wall() { return SystemClock().wall(); }

/// A cluster's credentials, and what a joined agent has.
struct Cluster {
  Cluster() : coordinator(security::open_or_make_cluster(temp / "coordinator", wall()).value()) {}
  security::CredentialFiles agent(const std::string& name) {
    const std::string folder = temp / name;
    const std::string key = security::make_key().value();
    const std::string certificate =
        security::sign_csr(coordinator.ca, security::make_csr(key, name).value(),
                           {CertKind::kAgent, name, std::chrono::hours(24), wall()})
            .value();
    EXPECT_TRUE(security::store_node(folder, key, certificate, coordinator.ca.certificate_pem));
    return security::CredentialFiles::in(folder);
  }
  wire::LinkHello hello(const std::string& name, std::uint64_t incarnation,
                        std::uint32_t version = wire::kLinkVersion) {
    const auto node = security::open_node(temp / name, CertKind::kAgent, wall()).value();
    wire::LinkHello out{version, NodeId(name), Incarnation(incarnation), node.certificate_pem,
                        "",      "key"};
    out.signature = security::sign_statement(node.key_pem, wire::link_statement(out)).value();
    return out;
  }
  std::function<Status(const wire::LinkHello&)> verifier() {
    return [ca = coordinator.ca.certificate_pem](const wire::LinkHello& hello) -> Status {
      auto info = security::verify_statement(ca, hello.certificate_pem, wire::link_statement(hello),
                                             hello.signature, wall());
      if (!info) return tl::unexpected(info.error());
      if (info->common_name != hello.node.value)
        return fail(Errc::kPermissionDenied, "another node's certificate");
      return {};
    };
  }

  TempFolder temp;
  security::CoordinatorCredentials coordinator;
};

/// An actor system with one owner actor.
struct Side {
  explicit Side(std::optional<security::CredentialFiles> files, CertKind kind = CertKind::kAgent)
      : system(System::start({files, kind}, wall()).value()),
        owner(system->get().spawn(owner_actor, heard)) {}
  ~Side() { stop(); }
  void stop() {
    if (!system) return;
    caf::anon_send_exit(owner, caf::exit_reason::user_shutdown);
    owner = nullptr;
    link = nullptr;
    system.reset();
  }
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
  std::unique_ptr<System> system;
  caf::actor owner;
  caf::actor link;
};

AgentLinkOptions link_options(std::uint16_t port, wire::LinkHello hello) {
  AgentLinkOptions out;
  out.coordinators = {{"127.0.0.1", port}};
  out.hello = [hello = std::move(hello)]() -> Result<wire::LinkHello> { return hello; };
  out.retry_max = std::chrono::milliseconds(400);
  return out;
}

TEST(Link, BytesTravelBothWaysOverMutualTls) {
  Cluster cluster;
  const auto agent_files = cluster.agent("node-1");
  Side coordinator(cluster.coordinator.files, CertKind::kCoordinator);
  coordinator.link =
      spawn_link_hub(coordinator.system->get(), coordinator.owner, {cluster.verifier()});
  const auto port = publish_hub(coordinator.system->get(), coordinator.link, "127.0.0.1", 0);
  ASSERT_TRUE(port) << port.error().to_string();
  Side agent(agent_files);
  agent.link = spawn_agent_link(agent.system->get(), agent.owner,
                                link_options(*port, cluster.hello("node-1", 7)));
  ASSERT_TRUE(agent.heard->wait("up"));
  ASSERT_TRUE(coordinator.heard->wait("peer up node-1"));
  const std::string bytes("a\0b\xff", 4);
  caf::anon_send(agent.link, LinkSend{bytes});
  EXPECT_TRUE(coordinator.heard->wait("peer bytes node-1 " + bytes));
  caf::anon_send(coordinator.link, PeerSend{NodeId("node-1"), bytes});
  EXPECT_TRUE(agent.heard->wait("bytes " + bytes));
  agent.stop();
  EXPECT_TRUE(coordinator.heard->wait("peer down node-1"));
}

TEST(Link, ComesBackWhenTheCoordinatorDoes) {
  Cluster cluster;
  const auto agent_files = cluster.agent("node-1");
  auto coordinator = std::make_unique<Side>(cluster.coordinator.files, CertKind::kCoordinator);
  coordinator->link =
      spawn_link_hub(coordinator->system->get(), coordinator->owner, {cluster.verifier()});
  const std::uint16_t port =
      publish_hub(coordinator->system->get(), coordinator->link, "127.0.0.1", 0).value();
  Side agent(agent_files);
  agent.link = spawn_agent_link(agent.system->get(), agent.owner,
                                link_options(port, cluster.hello("node-1", 7)));
  ASSERT_TRUE(agent.heard->wait("up"));
  coordinator.reset();
  ASSERT_TRUE(agent.heard->wait("down"));
  coordinator = std::make_unique<Side>(cluster.coordinator.files, CertKind::kCoordinator);
  coordinator->link =
      spawn_link_hub(coordinator->system->get(), coordinator->owner, {cluster.verifier()});
  ASSERT_TRUE(publish_hub(coordinator->system->get(), coordinator->link, "127.0.0.1", port));
  EXPECT_TRUE(agent.heard->wait("up"));
  EXPECT_TRUE(coordinator->heard->wait("peer up node-1"));
}

/// A TCP connection to `port` that sends `bytes`, waits for the answer and is gone without a
/// farewell.
void send_and_die(std::uint16_t port, const std::string& bytes) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  ASSERT_EQ(::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  const timeval limit{bytes.empty() ? 0 : 5, 1000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char answer[512];
  [[maybe_unused]] const ssize_t n = ::recv(fd, answer, sizeof answer, 0);
  ::close(fd);
}

/// A TLS connection of a member of the cluster, killed right after the handshake.
void handshake_and_die(std::uint16_t port, const security::CredentialFiles& files) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  ASSERT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), files.certificate_path.c_str()), 1);
  ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), files.key_path.c_str(), SSL_FILETYPE_PEM),
            1);
  BIO* bio = BIO_new_connect(("127.0.0.1:" + std::to_string(port)).c_str());
  ASSERT_EQ(BIO_do_connect(bio), 1);
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), &SSL_free);
  SSL_set_bio(tls.get(), bio, bio);
  ASSERT_EQ(SSL_connect(tls.get()), 1);
  char greeting[64];  // the server has finished its handshake too
  ASSERT_GT(SSL_read(tls.get(), greeting, sizeof greeting), 0);
  SSL_set_quiet_shutdown(tls.get(), 1);
}

TEST(Link, OnesDeathOrGarbageIsNoOtherConnectionsEnd) {
  Cluster cluster;
  const auto agent_files = cluster.agent("node-1"), other_files = cluster.agent("node-2");
  Side coordinator(cluster.coordinator.files, CertKind::kCoordinator);
  coordinator.link =
      spawn_link_hub(coordinator.system->get(), coordinator.owner, {cluster.verifier()});
  const std::uint16_t port =
      publish_hub(coordinator.system->get(), coordinator.link, "127.0.0.1", 0).value();
  Side agent(agent_files);
  agent.link = spawn_agent_link(agent.system->get(), agent.owner,
                                link_options(port, cluster.hello("node-1", 7)));
  ASSERT_TRUE(agent.heard->wait("up"));
  for (int round = 0; round < 20; ++round) {
    switch (round % 4) {
      case 0:
        send_and_die(port, "GET / HTTP/1.0\r\n\r\n");
        break;
      case 1:
        send_and_die(port, std::string("\x16\x03\x01\x00\x05garba", 10));
        break;
      case 2:
        send_and_die(port, "");
        break;
      default:
        handshake_and_die(port, other_files);
    }
    const std::string bytes = "round " + std::to_string(round);
    caf::anon_send(agent.link, LinkSend{bytes});
    EXPECT_TRUE(coordinator.heard->wait("peer bytes node-1 " + bytes)) << "lost with the stranger";
    caf::anon_send(coordinator.link, PeerSend{NodeId("node-1"), bytes});
    EXPECT_TRUE(agent.heard->wait("bytes " + bytes));
  }
  EXPECT_FALSE(agent.heard->wait("down", std::chrono::seconds(0))) << agent.heard->last();
}

TEST(Link, ForeignCaGetsNoConnection) {
  Cluster cluster, foreign;
  const auto foreign_files = foreign.agent("node-1");
  Side coordinator(cluster.coordinator.files, CertKind::kCoordinator);
  coordinator.link =
      spawn_link_hub(coordinator.system->get(), coordinator.owner, {cluster.verifier()});
  const std::uint16_t port =
      publish_hub(coordinator.system->get(), coordinator.link, "127.0.0.1", 0).value();
  Side agent(foreign_files);
  AgentLinkOptions options = link_options(port, foreign.hello("node-1", 7));
  options.connect_timeout = std::chrono::seconds(2);
  agent.link = spawn_agent_link(agent.system->get(), agent.owner, options);
  ASSERT_TRUE(agent.heard->wait("down cannot connect"));
  EXPECT_FALSE(coordinator.heard->wait("peer", std::chrono::seconds(0)));
}

TEST(Link, NodeCannotSpeakForAnother) {
  Cluster cluster;
  const auto agent_files = cluster.agent("node-1");
  cluster.agent("node-2");
  Side coordinator(cluster.coordinator.files, CertKind::kCoordinator);
  coordinator.link =
      spawn_link_hub(coordinator.system->get(), coordinator.owner, {cluster.verifier()});
  const std::uint16_t port =
      publish_hub(coordinator.system->get(), coordinator.link, "127.0.0.1", 0).value();
  Side agent(agent_files);
  wire::LinkHello lie = cluster.hello("node-1", 7);
  lie.node = NodeId("node-2");
  agent.link = spawn_agent_link(agent.system->get(), agent.owner, link_options(port, lie));
  ASSERT_TRUE(agent.heard->wait("down the coordinator refuses"));
  EXPECT_FALSE(coordinator.heard->wait("peer up", std::chrono::seconds(0)));
}

TEST(Link, ALaterVersionIsTakenAndOneThatIsTooOldIsRefusedByName) {
  Cluster cluster;
  const auto old_files = cluster.agent("node-1"), new_files = cluster.agent("node-2");
  Side coordinator(cluster.coordinator.files, CertKind::kCoordinator);
  coordinator.link =
      spawn_link_hub(coordinator.system->get(), coordinator.owner, {cluster.verifier()});
  const std::uint16_t port =
      publish_hub(coordinator.system->get(), coordinator.link, "127.0.0.1", 0).value();
  Side old(old_files), later(new_files);
  old.link =
      spawn_agent_link(old.system->get(), old.owner,
                       link_options(port, cluster.hello("node-1", 7, wire::kLinkVersionMin - 1)));
  EXPECT_TRUE(
      old.heard->wait("down the coordinator refuses this node: its version of the link, 1,"));
  later.link =
      spawn_agent_link(later.system->get(), later.owner,
                       link_options(port, cluster.hello("node-2", 7, wire::kLinkVersion + 1)));
  EXPECT_TRUE(later.heard->wait("up"));
  EXPECT_TRUE(coordinator.heard->wait("peer up node-2"));
}

TEST(Link, AFrameThatIsTooLargeOrNotUnderstoodIsToldAndAFloodOfThemInAFewLines) {
  Cluster cluster;
  Side side(std::nullopt);
  const auto told = std::make_shared<Heard>();
  LinkHubOptions options{cluster.verifier()};
  options.log = [told](const std::string& line) { told->add(line); };
  side.link = spawn_link_hub(side.system->get(), side.owner, std::move(options));
  caf::scoped_actor self{side.system->get()};
  self->send(side.link, Envelope{std::string(kEnvelopeBytesMax + 1, 'x')});
  EXPECT_TRUE(told->wait("a frame of a process that is no node was dropped (1 so far): it has"));
  for (int i = 0; i < 31; ++i) self->send(side.link, Envelope{"no frame"});
  EXPECT_TRUE(told->wait("a frame of a process that is no node was dropped (32 so far)"));
  int lines = 0;
  while (told->wait("a frame", std::chrono::seconds(0))) ++lines;
  EXPECT_EQ(lines, 4) << "the 2nd, 4th, 8th and 16th";
}

TEST(Link, LaterProcessOfANodeReplacesTheEarlierOne) {
  Cluster cluster;
  cluster.agent("node-1");
  Side side(std::nullopt);  // no network: all in one process
  side.link = spawn_link_hub(side.system->get(), side.owner, {cluster.verifier()});
  const auto first = std::make_shared<Heard>();
  const auto second = std::make_shared<Heard>();
  const caf::actor first_owner = side.system->get().spawn(owner_actor, first);
  const caf::actor second_owner = side.system->get().spawn(owner_actor, second);
  AgentLinkOptions options = link_options(0, cluster.hello("node-1", 1));
  options.local = [hub = side.link] { return hub; };
  options.retry_first = options.retry_max = std::chrono::hours(1);
  spawn_agent_link(side.system->get(), first_owner, options);
  ASSERT_TRUE(first->wait("up"));
  options.hello = [hello = cluster.hello("node-1", 2)]() -> Result<wire::LinkHello> {
    return hello;
  };
  spawn_agent_link(side.system->get(), second_owner, options);
  ASSERT_TRUE(second->wait("up"));
  EXPECT_TRUE(first->wait("down"));
  caf::anon_send(side.link, PeerSend{NodeId("node-1"), "x"});
  EXPECT_TRUE(second->wait("bytes x"));
  EXPECT_FALSE(first->wait("bytes", std::chrono::seconds(0)));
  caf::anon_send_exit(first_owner, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(second_owner, caf::exit_reason::user_shutdown);
}

TEST(System, RefusesToStartWithoutGoodCredentials) {
  Cluster cluster, foreign;
  const TempFolder empty;
  EXPECT_EQ(System::start({security::CredentialFiles::in(empty / "tls")}, wall()).error().code,
            Errc::kNotFound);
  security::CredentialFiles mixed = cluster.agent("node-1");
  mixed.ca_path = foreign.coordinator.files.ca_path;
  EXPECT_EQ(System::start({mixed}, wall()).error().code, Errc::kPermissionDenied);
  EXPECT_EQ(System::start({cluster.agent("node-2"), CertKind::kCoordinator}, wall()).error().code,
            Errc::kPermissionDenied);
}

}  // namespace
}  // namespace dlrun::actor

// Strangers at every port of a coordinator, and of a node at work, get nothing and harm nobody.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/security/credentials.h"
#include "runtime/security/pki.h"
#include "tests/node/process.h"

namespace dlrun::node {
namespace {

int connect_to(const std::string& host_port) {
  const auto colon = host_port.rfind(':');
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  timeval limit{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(host_port.substr(colon + 1))));
  ::inet_pton(AF_INET, host_port.substr(0, colon).c_str(), &to.sin_addr);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

/// Handshakes with what `files` holds ("" = nothing) and asks for a byte: the number of bytes that
/// came.
int bytes_from(const std::string& host_port, const security::CredentialFiles* files) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  if (files != nullptr) {
    SSL_CTX_use_certificate_chain_file(context, files->certificate_path.c_str());
    SSL_CTX_use_PrivateKey_file(context, files->key_path.c_str(), SSL_FILETYPE_PEM);
  }
  SSL* ssl = SSL_new(context);
  const int fd = connect_to(host_port);
  SSL_set_fd(ssl, fd);
  int got = 0;
  char byte = 'x';
  // TLS 1.3: the client's side of the handshake ends before the server has judged its certificate;
  // the read tells.
  if (SSL_connect(ssl) == 1) {
    SSL_write(ssl, &byte, 1);
    got = SSL_read(ssl, &byte, 1);
  }
  SSL_free(ssl);
  SSL_CTX_free(context);
  ERR_clear_error();
  ::close(fd);
  return got;
}

struct Strangers : ::testing::Test {
  void SetUp() override { cluster.start_coordinator(); }
  TestCluster cluster;
};

TEST_F(Strangers, WithoutACertificateNoByteComesFromTheClusterPort) {
  EXPECT_LE(bytes_from(cluster.cluster().at("cluster"), nullptr), 0);
}

TEST_F(Strangers, ForeignCaGetsNoByteFromTheClusterPort) {
  const auto foreign = security::open_or_make_cluster(cluster / "foreign", SystemClock().wall());
  ASSERT_TRUE(foreign);
  EXPECT_LE(bytes_from(cluster.cluster().at("cluster"), &foreign->files), 0);
}

TEST_F(Strangers, ForeignCaGetsNoByteFromTheJoinPort) {
  const auto foreign = security::open_or_make_cluster(cluster / "foreign", SystemClock().wall());
  ASSERT_TRUE(foreign);
  EXPECT_LE(bytes_from(cluster.cluster().at("join"), &foreign->files), 0);
}

TEST_F(Strangers, RestWantsTheTokenAndTheRightHost) {
  EXPECT_EQ(cluster.http("GET", "/api/v1/jobs", "").status, 200);
  EXPECT_EQ(cluster.http("GET", "/api/v1/jobs", "", "wrong-token-wrong-token").status, 401);
  const int status = cluster.http("GET", "/api/v1/jobs", "", "", "evil.example").status;
  EXPECT_GE(status, 400);
  EXPECT_LT(status, 500);
}

TEST_F(Strangers, PlainBytesAtTheTlsPortsAreDropped) {
  for (const char* port : {"cluster", "join"}) {
    const int fd = connect_to(cluster.cluster().at(port));
    const std::string rubbish(4096, 'A');
    (void)!::send(fd, rubbish.data(), rubbish.size(), MSG_NOSIGNAL);
    char buffer[256];
    std::string got;
    for (ssize_t n; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
      got.append(buffer, static_cast<std::size_t>(n));
    ::close(fd);
    EXPECT_LE(got.size(), 16u) << port << ": at most a TLS alert";
  }
  EXPECT_EQ(cluster.http("GET", "/api/v1/jobs", "").status, 200) << "and the coordinator lives";
}

// ---- everything that listens, whoever opened it

struct Listener {
  std::string program;  ///< who listens, for the failure's text
  int family = 0;
  int type = SOCK_STREAM;
  sockaddr_storage address{};
  socklen_t size = 0;
  std::string name;
};

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::set<std::string> socket_inodes(pid_t pid) {
  std::set<std::string> out;
  std::error_code gone;
  for (auto it = std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone);
       !gone && it != std::filesystem::directory_iterator(); it.increment(gone)) {
    const std::string target = std::filesystem::read_symlink(it->path(), gone);
    if (target.rfind("socket:[", 0) == 0) out.insert(target.substr(8, target.size() - 9));
  }
  return out;
}

/// TCP and Unix sockets on which the processes that carry `folder` in their command line or
/// environment listen.
std::vector<Listener> listeners_of(const std::string& folder) {
  std::map<std::string, std::string> owner;  // inode -> program
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    std::string line = slurp(entry.path() / "cmdline");
    if ((line + slurp(entry.path() / "environ")).find(folder) == std::string::npos) continue;
    std::replace(line.begin(), line.end(), '\0', ' ');
    for (const std::string& inode : socket_inodes(pid)) owner.emplace(inode, line.substr(0, 120));
  }
  std::vector<Listener> out;
  for (const bool v6 : {false, true}) {
    std::istringstream lines(slurp(v6 ? "/proc/net/tcp6" : "/proc/net/tcp"));
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {
      std::istringstream words(line);
      std::string slot, local, remote, state, skip, inode;
      words >> slot >> local >> remote >> state >> skip >> skip >> skip >> skip >> skip >> inode;
      if (state != "0A" || !owner.contains(inode)) continue;
      Listener l{owner[inode], v6 ? AF_INET6 : AF_INET, SOCK_STREAM, {}, 0, "tcp port "};
      const auto port =
          static_cast<std::uint16_t>(std::stoul(local.substr(local.find(':') + 1), nullptr, 16));
      l.name += std::to_string(port);
      if (v6) {
        auto* to = reinterpret_cast<sockaddr_in6*>(&l.address);
        to->sin6_family = AF_INET6, to->sin6_port = htons(port), to->sin6_addr = in6addr_loopback;
        l.size = sizeof *to;
      } else {
        auto* to = reinterpret_cast<sockaddr_in*>(&l.address);
        to->sin_family = AF_INET, to->sin_port = htons(port),
        to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        l.size = sizeof *to;
      }
      out.push_back(l);
    }
  }
  std::istringstream lines(slurp("/proc/net/unix"));
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, refs, protocol, flags, type, state, inode, path;
    words >> number >> refs >> protocol >> flags >> type >> state >> inode >> path;
    if (flags != "00010000" || !owner.contains(inode) || path.empty()) continue;
    // A shim's name is relative to its task's folder: nobody else finds it.
    Listener l{owner[inode], AF_UNIX, std::stoi(type, nullptr, 16), {}, 0, "unix socket " + path};
    auto* to = reinterpret_cast<sockaddr_un*>(&l.address);
    to->sun_family = AF_UNIX;
    if (path.size() >= sizeof to->sun_path) continue;
    std::memcpy(to->sun_path, path.data(), path.size());
    if (path[0] == '@') to->sun_path[0] = '\0';
    l.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                    (path[0] == '@' ? 0 : 1));
    out.push_back(l);
  }
  return out;
}

/// -1 when it does not take one.
int connect_to(const Listener& listener, int seconds) {
  const int fd = ::socket(listener.family, listener.type | SOCK_CLOEXEC, 0);
  timeval limit{seconds, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&listener.address), listener.size) == 0)
    return fd;
  ::close(fd);
  return -1;
}

/// Sends, says that no more comes, and returns what came back until the peer closed or was silent
/// for `seconds`.
std::string answer_to(const Listener& listener, const std::string& bytes, int seconds = 2) {
  const int fd = connect_to(listener, seconds);
  if (fd < 0) return "";
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) break;
    at += static_cast<std::size_t>(n);
  }
  ::shutdown(fd, SHUT_WR);
  std::string got;
  char buffer[4096];
  for (ssize_t n; got.size() < 100'000 && (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
    got.append(buffer, static_cast<std::size_t>(n));
  ::close(fd);
  return got;
}

std::string noise(std::size_t bytes, std::uint32_t seed) {
  std::string out(bytes, '\0');
  for (char& c : out) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

/// A peer of ZeroMQ that asks for no security, with a message that nothing here understands.
std::string zmtp_without_security() {
  std::string out = std::string("\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL", 16) + std::string(48, '\0');
  const std::string ready = std::string("\5READY\13Socket-Type\0\0\0\6DEALER", 28);
  out += std::string("\4", 1) + static_cast<char>(ready.size()) + ready;
  const std::string message = noise(100, 7);
  return out + std::string("\0", 1) + static_cast<char>(message.size()) + message;
}

/// What a stranger may see: how a protocol says no, or hello.
bool is_harmless(const std::string& got) {
  if (got.size() <= 64) return true;  // a TLS alert, a greeting of ZeroMQ
  if (got.rfind("HTTP/1.1 4", 0) == 0) return got.size() < 2000;
  return got[0] == '\xff' && got.size() <= 512;  // ZeroMQ's greeting and its READY or ERROR
}

/// A cluster at work: a worker, a shard, a feeder; everything that a node opens is open.
struct StrangersAtWork : ::testing::Test {
  void SetUp() override {
    cluster.start_coordinator();
    cluster.start_agent("n0");
    cluster.wait("/api/v1/nodes", [](const nlohmann::json& body) {
      return body.at("nodes").size() == 1 && body["nodes"][0].value("state", "") == "up";
    });
    std::ofstream data(cluster / "train.libsvm");
    for (int i = 0; i < 1000; ++i) data << i % 2 << " 1:1\n";
    data.close();
    const nlohmann::json spec{
        {"name", "train"},
        {"owner", "tester"},
        {"cwd", cluster / ""},
        {"grace", 1},
        {"failure_grace", 1},
        {"role",
         {{"worker", {{"argv", {DLRUN_HOSTS_WORKER, "20"}}, {"count", 1}, {"after", {"ps"}}}},
          {"ps", {{"program", "shard-host"}, {"count", 1}}}}},
        {"input",
         {{"train",
           {{"uri", cluster / "train.libsvm"},
            {"format", "libsvm"},
            {"batch_rows", 10},
            {"passes", 100000}}}}}};
    HttpAnswer answer;
    const SystemClock clock;
    for (const TimePoint until = clock.now() + std::chrono::seconds(20);
         clock.now() < until && answer.status != 201;)
      answer = cluster.post("/api/v1/jobs", spec);
    ASSERT_EQ(answer.status, 201) << answer.body.dump();
    job = answer.body.at("id");
    ASSERT_GT(batches_after(0), 0u);
    before = tasks();
  }
  void TearDown() override {
    if (!job.empty()) {
      cluster.post("/api/v1/jobs/" + job + "/kill", nlohmann::json::object());
      cluster.wait_final(job);
    }
  }
  /// Waits until the worker has printed more than `count` lines; how many there are, 0 when none
  /// more came.
  std::size_t batches_after(std::size_t count) {
    const SystemClock clock;
    for (const TimePoint until = clock.now() + std::chrono::seconds(40); clock.now() < until;) {
      const std::string text = cluster.get_text("/api/v1/jobs/" + job + "/logs/worker/0/stdout");
      const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
      if (lines > count) return lines;
      ::usleep(50'000);
    }
    return 0;
  }
  std::set<std::int64_t> tasks() {
    std::set<std::int64_t> pids;
    const nlohmann::json list = cluster.get("/api/v1/jobs/" + job).body.at("tasks");
    for (const auto& task : list) pids.insert(task.value("pid", 0));
    return pids;
  }
  void expect_unharmed() {
    const std::size_t now = batches_after(0);
    EXPECT_GT(batches_after(now), now) << "the job goes on";
    EXPECT_EQ(tasks(), before) << "with the same processes";
    EXPECT_TRUE(cluster.coordinator().running());
    EXPECT_TRUE(cluster.agent("n0").running());
  }

  TestCluster cluster;
  std::string job;
  std::set<std::int64_t> before;
};

TEST_F(StrangersAtWork, NoiseAtEveryPortIsAnsweredWithNothing) {
  const std::vector<Listener> listeners = listeners_of(cluster / "");
  std::size_t tcp = 0, unix_sockets = 0;
  for (const Listener& l : listeners) ++(l.family == AF_UNIX ? unix_sockets : tcp);
  EXPECT_GE(tcp, 5u) << "cluster, join, REST, logs, the shard";
  EXPECT_GE(unix_sockets, 4u) << "tasks, feeder, shard";
  const std::string large = noise(10u << 20, 3);
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (const Listener& l : listeners)
    threads.emplace_back([&l, &large, &done] {
      const auto check = [&](const char* what, const std::string& got) {
        EXPECT_TRUE(is_harmless(got)) << l.name << " of " << l.program << " answers " << what
                                      << " with " << got.size() << " bytes: " << got.substr(0, 200);
      };
      check("silence", answer_to(l, ""));
      check("noise", answer_to(l, noise(4096, 1)));
      check("letters", answer_to(l, std::string(4096, 'A')));
      check("a request without a token",
            answer_to(l, "GET /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
      check("a peer without security", answer_to(l, zmtp_without_security()));
      check("10 MB of noise", answer_to(l, large));
      check("10 MB after a good beginning", answer_to(l, zmtp_without_security() + large));
      ++done;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(done, static_cast<int>(listeners.size()));
  expect_unharmed();
}

TEST_F(StrangersAtWork, HeldConnectionsKeepNobodyOutAndAreClosedInTime) {
  const std::vector<Listener> listeners = listeners_of(cluster / "");
  std::map<int, const Listener*> held;
  for (const Listener& l : listeners)
    for (int i = 0; i < 40; ++i)
      if (const int fd = connect_to(l, 2); fd >= 0) held[fd] = &l;
  // While they stand: the job goes on, another machine joins, a person is answered.
  expect_unharmed();
  cluster.start_agent("n1");
  cluster.wait("/api/v1/nodes", [](const nlohmann::json& body) {
    int up = 0;
    for (const auto& node : body.at("nodes")) up += node.value("state", "") == "up";
    return up == 2;
  });
  EXPECT_EQ(cluster.wait_final(cluster.submit({"/bin/true"})).value("state", ""), "SUCCEEDED");
  // What says nothing is closed: it must not eat a daemon's descriptors for ever.
  const SystemClock clock;
  for (const TimePoint until = clock.now() + std::chrono::seconds(45);
       !held.empty() && clock.now() < until;) {
    for (auto it = held.begin(); it != held.end();) {
      char buffer[256];
      ssize_t n = 0;
      while ((n = ::recv(it->first, buffer, sizeof buffer, MSG_DONTWAIT)) > 0) {
      }
      const bool closed = n == 0 || (errno != EAGAIN && errno != EINTR);
      if (closed) ::close(it->first);
      it = closed ? held.erase(it) : std::next(it);
    }
    ::usleep(100'000);
  }
  std::map<std::string, int> left;
  for (const auto& [fd, l] : held) {
    ++left[l->name + " of " + l->program];
    ::close(fd);
  }
  // Not yet: the port where agents register keeps a connection that never begins its handshake
  // (docs/cluster.md). It is always among those left, so any other would be the second.
  std::string names;
  for (const auto& [name, count] : left) names += name + ": " + std::to_string(count) + "; ";
  EXPECT_LE(left.size(), 1u) << names;
  expect_unharmed();
}

}  // namespace
}  // namespace dlrun::node

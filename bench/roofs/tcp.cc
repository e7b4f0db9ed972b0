#include "bench/roofs/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "runtime/base/assert.h"

namespace dlrun::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kReadBytes = 256u << 10;

struct Connection {
  int client = -1;
  int server = -1;
  Connection() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* name = reinterpret_cast<sockaddr*>(&address);
    DLRUN_ASSERT(::bind(listener, name, size) == 0 && ::listen(listener, 1) == 0);
    DLRUN_ASSERT(::getsockname(listener, name, &size) == 0);
    client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    DLRUN_ASSERT(::connect(client, name, size) == 0);
    server = ::accept(listener, nullptr, nullptr);
    DLRUN_ASSERT(server >= 0);
    const int on = 1;
    ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::close(listener);
  }
  ~Connection() {
    ::close(client);
    ::close(server);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

void send_all(int fd, const void* bytes, std::size_t n) {
  const auto* at = static_cast<const char*>(bytes);
  while (n > 0) {
    const ssize_t sent = ::send(fd, at, n, MSG_NOSIGNAL);
    DLRUN_ASSERT(sent > 0);
    at += sent;
    n -= static_cast<std::size_t>(sent);
  }
}

std::size_t read_some(int fd, void* bytes, std::size_t n) {
  const ssize_t got = ::recv(fd, bytes, n, 0);
  DLRUN_ASSERT(got > 0);
  return static_cast<std::size_t>(got);
}

/// Adds what was read at `at` in the stream of messages; a float may be cut by a read.
class Adder {
 public:
  explicit Adder(const MoveJob& job) : sums_(job.message_bytes / 4) {}
  void add(const std::byte* bytes, std::size_t n) {
    while (n > 0 && rest_ > 0) {  // the float that the last read cut
      cut_[rest_++] = *bytes++;
      --n;
      if (rest_ == 4) {
        float x;
        std::memcpy(&x, cut_, 4);
        sums_[at_] += x;
        at_ = (at_ + 1) % sums_.size();
        rest_ = 0;
      }
    }
    std::size_t floats = n / 4;
    while (floats > 0) {
      const std::size_t run = std::min(floats, sums_.size() - at_);
      float* to = sums_.data() + at_;
      for (std::size_t i = 0; i < run; ++i) {
        float x;
        std::memcpy(&x, bytes + 4 * i, 4);
        to[i] += x;
      }
      bytes += 4 * run;
      n -= 4 * run;
      floats -= run;
      at_ = (at_ + run) % sums_.size();
    }
    std::memcpy(cut_, bytes, n);
    rest_ = n;
  }

 private:
  std::vector<float> sums_;
  std::size_t at_ = 0;
  std::byte cut_[4]{};
  std::size_t rest_ = 0;
};

double gbps(const MoveJob& job, Clock::time_point start) {
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return static_cast<double>(job.message_bytes) * static_cast<double>(job.messages) / seconds *
         1e-9;
}

}  // namespace

double tcp_push(const MoveJob& job, Acks acks) {
  Connection c;
  const std::vector<float> source(job.message_bytes / 4, 1.0f);
  std::thread receiver([&] {
    Adder adder(job);
    // One message at a time; or as much as there is.
    std::vector<std::byte> buffer(acks == Acks::kEach ? std::min(job.message_bytes, kReadBytes)
                                                      : kReadBytes);
    std::uint64_t read = 0, told = 0;
    const std::uint64_t total = std::uint64_t{job.message_bytes} * job.messages;
    while (read < total) {
      std::size_t most = buffer.size();
      if (acks == Acks::kEach)
        most = std::min<std::uint64_t>(most, job.message_bytes - read % job.message_bytes);
      const std::size_t got = read_some(c.server, buffer.data(), most);
      adder.add(buffer.data(), got);
      read += got;
      const std::uint64_t messages = read / job.message_bytes;
      if (messages == told) continue;
      const auto count = static_cast<std::uint32_t>(messages - told);
      send_all(c.server, &count, sizeof count);
      told = messages;
    }
  });
  const auto start = Clock::now();
  std::size_t sent = 0, acked = 0;
  while (acked < job.messages) {
    while (sent < job.messages && sent - acked < job.window) {
      send_all(c.client, source.data(), job.message_bytes);
      ++sent;
    }
    std::uint32_t counts[64];
    std::size_t got = read_some(c.client, counts, sizeof counts);
    while (got % 4 != 0) got += read_some(c.client, reinterpret_cast<char*>(counts) + got, 1);
    for (std::size_t i = 0; i < got / 4; ++i) acked += counts[i];
  }
  const double rate = gbps(job, start);
  receiver.join();
  return rate;
}

double tcp_pull(const MoveJob& job, Acks acks) {
  Connection c;
  const std::vector<float> source(job.message_bytes / 4, 1.0f);
  std::thread server([&] {
    for (std::size_t sent = 0; sent < job.messages;) {
      char asked[4096];
      std::size_t n = read_some(c.server, asked, acks == Acks::kEach ? 1 : sizeof asked);
      for (; n > 0; --n, ++sent) send_all(c.server, source.data(), job.message_bytes);
    }
  });
  const auto start = Clock::now();
  std::vector<std::byte> out(job.message_bytes);
  const std::string asking(job.window, 'g');
  std::size_t asked = std::min(job.window, job.messages);
  send_all(c.client, asking.data(), asked);
  for (std::size_t m = 0; m < job.messages; ++m) {
    for (std::size_t at = 0; at < job.message_bytes;)
      at += read_some(c.client, out.data() + at, job.message_bytes - at);
    if (asked < job.messages && (acks == Acks::kEach || (m + 1) % ((job.window + 1) / 2) == 0)) {
      const std::size_t more = std::min(job.messages, m + 1 + job.window) - asked;
      send_all(c.client, asking.data(), more);
      asked += more;
    }
  }
  const double rate = gbps(job, start);
  server.join();
  return rate;
}

std::vector<double> zmq_round_trips(std::size_t n) {
  void* context = zmq_ctx_new();
  void* router = zmq_socket(context, ZMQ_ROUTER);
  DLRUN_ASSERT(zmq_bind(router, "tcp://127.0.0.1:*") == 0);
  char endpoint[256];
  std::size_t size = sizeof endpoint;
  DLRUN_ASSERT(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
  std::thread server([&] {
    char id[256], data[64];
    for (std::size_t i = 0; i < n; ++i) {
      const int id_bytes = zmq_recv(router, id, sizeof id, 0);
      const int bytes = zmq_recv(router, data, sizeof data, 0);
      DLRUN_ASSERT(id_bytes > 0 && bytes == 64);
      zmq_send(router, id, static_cast<std::size_t>(id_bytes), ZMQ_SNDMORE);
      zmq_send(router, data, sizeof data, 0);
    }
  });
  void* dealer = zmq_socket(context, ZMQ_DEALER);
  DLRUN_ASSERT(zmq_connect(dealer, endpoint) == 0);
  std::vector<double> ns;
  char data[64] = {};
  for (std::size_t i = 0; i < n; ++i) {
    const auto start = Clock::now();
    zmq_send(dealer, data, sizeof data, 0);
    zmq_recv(dealer, data, sizeof data, 0);
    ns.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  server.join();
  zmq_close(dealer);
  zmq_close(router);
  zmq_ctx_term(context);
  return ns;
}

}  // namespace dlrun::bench

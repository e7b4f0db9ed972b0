#include "tests/web/http_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "tests/web/fake_cluster.h"

namespace dlrun::test {
namespace {
using Clock = std::chrono::steady_clock;

HttpReply parse_head(std::string_view head) {
  HttpReply out;
  if (!head.starts_with("HTTP/1.1 ") || head.size() < 12) return out;
  out.status = std::atoi(std::string(head.substr(9, 3)).c_str());
  for (auto at = head.find("\r\n"); at != std::string_view::npos;) {
    head.remove_prefix(at + 2);
    at = head.find("\r\n");
    const auto line = head.substr(0, at);
    const auto colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    out.headers[name] = std::string(line.substr(colon + 2));
  }
  return out;
}
}  // namespace

HttpClient::HttpClient(std::uint16_t port) {
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(fd_);
    fd_ = -1;
  }
}

HttpClient::~HttpClient() {
  if (fd_ >= 0) ::close(fd_);
}

bool HttpClient::send(std::string_view bytes) {
  const auto until = Clock::now() + std::chrono::seconds(10);
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    if (errno != EAGAIN || Clock::now() > until) return false;
    pollfd p{fd_, POLLOUT, 0};
    ::poll(&p, 1, 100);
  }
  return true;
}

bool HttpClient::fill(Clock::time_point until) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left < 0 || fd_ < 0) return false;
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, static_cast<int>(left) + 1) <= 0) continue;
    char buffer[65536];
    const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
    if (n <= 0) return false;
    in_.append(buffer, static_cast<std::size_t>(n));
    return true;
  }
}

HttpReply HttpClient::receive_head(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  for (;;) {
    const auto end = in_.find("\r\n\r\n");
    if (end != std::string::npos) {
      HttpReply out = parse_head(std::string_view(in_).substr(0, end + 2));
      in_.erase(0, end + 4);
      if (out.status == 100) continue;
      return out;
    }
    if (!fill(until)) return {};
  }
}

HttpReply HttpClient::receive(bool no_body, std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  HttpReply out = receive_head(limit);
  if (out.status == 0 || no_body) return out;
  if (const auto length = out.headers.find("content-length"); length != out.headers.end()) {
    const std::size_t n = std::stoull(length->second);
    while (in_.size() < n)
      if (!fill(until)) return {};
    out.body = in_.substr(0, n);
    in_.erase(0, n);
    return out;
  }
  for (;;) {  // chunked
    std::size_t line = 0;
    while ((line = in_.find("\r\n")) == std::string::npos)
      if (!fill(until)) return {};
    const std::size_t n = std::stoull(in_.substr(0, line), nullptr, 16);
    while (in_.size() < line + 2 + n + 2)
      if (!fill(until)) return {};
    out.body += in_.substr(line + 2, n);
    in_.erase(0, line + 2 + n + 2);
    if (n == 0) return out;
  }
}

std::optional<HttpClient::Event> HttpClient::next_event(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  for (;;) {
    if (const auto end = events_.find("\n\n"); end != std::string::npos) {
      std::string_view block = std::string_view(events_).substr(0, end + 1);
      Event out;
      bool any = false;
      while (!block.empty()) {
        const auto newline = block.find('\n');
        const std::string_view line = block.substr(0, newline);
        block.remove_prefix(newline + 1);
        if (line.starts_with(':'))
          ++comments;
        else if (line.starts_with("id: "))
          out.id = std::string(line.substr(4)), any = true;
        else if (line.starts_with("event: "))
          out.event = std::string(line.substr(7)), any = true;
        else if (line.starts_with("data: "))
          out.data += std::string(line.substr(6)), any = true;
      }
      events_.erase(0, end + 2);
      if (any) return out;
      continue;
    }
    if (ended) return std::nullopt;
    const auto line = in_.find("\r\n");
    if (line != std::string::npos) {
      const std::size_t n = std::stoull(in_.substr(0, line), nullptr, 16);
      if (in_.size() >= line + 2 + n + 2) {
        events_ += in_.substr(line + 2, n);
        in_.erase(0, line + 2 + n + 2);
        if (n == 0) ended = true;
        continue;
      }
    }
    if (!fill(until)) return std::nullopt;
  }
}

bool HttpClient::closed_within(std::chrono::milliseconds limit) {
  const auto until = Clock::now() + limit;
  while (fill(until)) in_.clear();
  return Clock::now() < until;
}

std::string get(std::string_view target, std::string_view more) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
         kToken + "\r\n" + std::string(more) + "\r\n";
}

std::string post(std::string_view target, std::string_view body, std::string_view more) {
  return "POST " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
         kToken + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more) + "\r\n" + std::string(body);
}

HttpReply fetch(std::uint16_t port, std::string_view request) {
  HttpClient client(port);
  client.send(request);
  return client.receive();
}

}  // namespace dlrun::test

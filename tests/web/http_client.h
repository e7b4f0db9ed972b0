#pragma once
/// tests/web/http_client.h: a small blocking HTTP client over a raw socket, written apart from the
/// server's engine, so that a shared mistake cannot hide. Every call has a deadline.

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace dlrun::test {

struct HttpReply {
  int status = 0;  ///< 0 = the connection ended without a whole response
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool send(std::string_view bytes);  ///< false when the peer has closed
  /// Reads one response; for HEAD set `no_body`.
  HttpReply receive(bool no_body = false,
                    std::chrono::milliseconds limit = std::chrono::seconds(10));
  /// Reads until the head is complete; the body stays for next_event().
  HttpReply receive_head(std::chrono::milliseconds limit = std::chrono::seconds(10));

  struct Event {
    std::string id, event, data;
  };
  /// The next server-sent event of a chunked body; comments are skipped. nullopt at its end, or at
  /// the limit.
  std::optional<Event> next_event(std::chrono::milliseconds limit = std::chrono::seconds(10));
  /// Whether the peer closes within the limit; what it still sends is dropped.
  bool closed_within(std::chrono::milliseconds limit);
  std::size_t comments = 0;
  bool ended = false;  ///< the last chunk was seen

 private:
  bool fill(std::chrono::steady_clock::time_point until);
  int fd_ = -1;
  std::string in_, events_;
};

std::string get(std::string_view target, std::string_view more_headers = "");
std::string post(std::string_view target, std::string_view body,
                 std::string_view more_headers = "");
/// One request on a connection of its own.
HttpReply fetch(std::uint16_t port, std::string_view request);

}  // namespace dlrun::test

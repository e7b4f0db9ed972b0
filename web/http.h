#pragma once
/// web/http.h: requests and answers as values, and the seams between the HTTP engine (server.cc,
/// Beast) and what answers (everything else, no Beast). All of it lives on the server's one thread,
/// but for Loop::post.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/time.h"

namespace dlrun::web {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string target;  ///< as sent: "/api/v1/jobs?limit=3"
  Headers headers;     ///< in the order they came; names as sent
  std::string body;

  /// The first value of the header, ASCII case ignored; nullopt when absent.
  std::optional<std::string_view> header(std::string_view name) const;
  std::size_t header_count(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers;
  std::string body;
};

/// Where a Pump writes. Valid from Pump::start to Pump::stop.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual bool writable() const = 0;         ///< less than a fixed amount is waiting to be written
  virtual void send(std::string bytes) = 0;  ///< queues; a pump asks writable() first
  virtual void finish() = 0;                 ///< a good end of the body; the connection may go on
  virtual void abort() = 0;  ///< the body cannot be completed: the peer sees a cut connection
};

/// Produces a long body: an event stream, or a log too large for memory.
class Pump {
 public:
  virtual ~Pump() = default;
  virtual void start(Sink& sink) = 0;
  virtual void on_writable() = 0;  ///< the sink has room again
  /// the sink is gone; nothing may be sent, every handle is dropped. Called once.
  virtual void stop() = 0;
};

struct StreamStart {
  int status = 200;
  std::string content_type = "text/event-stream";
  Headers headers;
  std::optional<std::uint64_t> content_length;  ///< else chunked
  bool events = true;                           ///< comment lines keep it alive
  std::shared_ptr<Pump> pump;
};

using Answer = std::variant<Response, StreamStart>;
using Reply = std::function<void(Answer)>;  ///< exactly once, on the loop

/// The server's thread, as the rest sees it.
class Loop {
 public:
  virtual ~Loop() = default;
  /// from any thread; dropped once the server stops
  virtual void post(std::function<void()> work) = 0;
  /// On the loop. Destroying the handle cancels.
  virtual std::shared_ptr<void> after(Duration delay, std::function<void()> work) = 0;
};

}  // namespace dlrun::web

#pragma once
/// web/server.h: the REST face of a cluster: /api/v1, /metrics, /openapi.json over HTTP/1.1
/// (Boost.Beast 1.74).
/// Sources: RFC 9110 and 9112 (HTTP), RFC 9457 (errors), RFC 6750 (bearer token), WHATWG
/// server-sent events. Every request needs `Authorization: Bearer <token>`; Host, and Origin where
/// it is sent, must name this server. Plain HTTP is served on loopback addresses only; elsewhere a
/// certificate is wanted.
/// Errors: start() returns them; a request's own become application/problem+json.
/// Bounds: ServerOptions. A slow, broken or hostile peer costs one connection for at most its time
/// limits.
/// Threads: one of its own. ControlApi, LogSource, MetricsSource and SecurityAdmin are called from
/// it, must outlive the server and must not block for long; their callbacks may come from any
/// thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/meter.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/cluster/core/api.h"
#include "web/security_admin.h"

namespace dlrun::web {

enum class LogStream : std::uint8_t {
  kStdout = 1,
  kStderr = 2
};  ///< the numbers are those of the file descriptors

struct LogRef {
  TaskId task;
  LogStream stream = LogStream::kStdout;
  friend auto operator<=>(const LogRef&, const LogRef&) = default;
};

struct LogSlice {
  /// of the first byte of `bytes`: the asked one, or the oldest kept when that was dropped
  std::uint64_t offset = 0;
  std::string bytes;        ///< exact; empty at the end
  std::uint64_t first = 0;  ///< oldest byte kept (rotation drops from the front)
  std::uint64_t size = 0;   ///< one past the newest byte known
  bool complete = false;    ///< no byte will ever follow `size`
};

/// Where logs are read from; the coordinator adapts its LogStore. Thread safe.
class LogSource {
 public:
  virtual ~LogSource() = default;
  /// At most `bytes_max` bytes from `offset`. `task.generation` is never 0. An offset past the end
  /// gives empty bytes. kNotFound when nothing is known of this stream (yet). Reads a local file:
  /// no network, no waiting.
  virtual Result<LogSlice> read(const TaskId& task, LogStream stream, std::uint64_t offset,
                                std::size_t bytes_max) = 0;
  /// Every stream of the job that bytes are kept of, older generations too. Without it the job's
  /// latest tasks are all there is.
  virtual Result<std::vector<LogRef>> list(JobId job) {
    return static_cast<void>(job), std::vector<LogRef>{};
  }
  /// Calls `listener` after bytes were appended to the stream or it became complete, until the
  /// handle is destroyed; a stream that nothing is known of yet may be followed. The listener is
  /// cheap and may be called too often, never too seldom; it is not called any more once the
  /// handle's destructor has returned.
  virtual std::shared_ptr<void> follow(const TaskId& task, LogStream stream,
                                       std::function<void()> listener) = 0;
};

/// One sample line family of GET /metrics.
struct Metric {
  std::string name;  ///< with unit and _total as Prometheus wants: dlrun_jobs_submitted_total
  std::string help;
  bool counter = false;  ///< else a gauge
  struct Sample {
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0;
  };
  std::vector<Sample> samples;
  /// Not empty: the family is a histogram, and `samples` is not looked at.
  std::vector<HistogramValues> histogram;
};

/// Thread safe, cheap. The server adds its own (requests, connections) and those of Health and of
/// the nodes.
class MetricsSource {
 public:
  virtual ~MetricsSource() = default;
  virtual std::vector<Metric> collect() = 0;
};

struct ServerOptions {
  std::string listen_address = "127.0.0.1";  ///< a literal IPv4 or IPv6 address
  std::uint16_t port = 0;                    ///< 0 = any free one
  std::string bearer_token;                  ///< at least 16 characters
  std::vector<std::string>
      /// names in Host and Origin besides the address itself and, on loopback, localhost
      allowed_hosts;
  std::string tls_cert_path;  ///< PEM chain; with it HTTPS only
  std::string tls_key_path;   ///< PEM

  std::uint32_t connections_max = 512;                 ///< further ones get 503 and are closed
  std::uint32_t streams_max = 256;                     ///< server-sent event streams among them
  std::size_t body_bytes_max = 4u << 20;               ///< 413 beyond
  std::size_t header_bytes_max = 32u << 10;            ///< 431 beyond
  Duration header_timeout{std::chrono::seconds(10)};   ///< a request's header, from its first byte
  Duration body_timeout{std::chrono::seconds(30)};     ///< a request's body
  Duration write_timeout{std::chrono::seconds(30)};    ///< one write of a response
  Duration idle_timeout{std::chrono::seconds(60)};     ///< keep-alive between requests
  Duration control_timeout{std::chrono::seconds(10)};  ///< a call of ControlApi; 504 beyond
  Duration heartbeat{std::chrono::seconds(15)};        ///< comment line on a silent event stream
  /// job over, a stream not complete, no byte for this long: it ends
  Duration log_grace{std::chrono::seconds(5)};
};

class RestServer {
 public:
  /// Listens and starts its thread. kInvalidArgument: plain HTTP beyond loopback, a short token, a
  /// bad address; kAlreadyExists: the port is taken; kIo and kPermissionDenied name what was
  /// refused.
  static Result<std::unique_ptr<RestServer>> start(ServerOptions options,
                                                   cluster::ControlApi& control, LogSource& logs,
                                                   MetricsSource& metrics,
                                                   SecurityAdmin* security = nullptr);
  ~RestServer();  ///< stop()
  RestServer(const RestServer&) = delete;
  RestServer& operator=(const RestServer&) = delete;

  std::uint16_t port() const;
  std::string url() const;  ///< "http://127.0.0.1:40123", without a slash at the end
  /// From the next connection on with the certificate that lies in the files of the options now.
  Status reload_certificate();
  /// Closes every connection and joins the thread. May be called twice.
  void stop();

 private:
  struct Impl;
  explicit RestServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlrun::web

#pragma once
/// launcher/rest_client.h: the REST face as the launcher uses it (libcurl behind a pimpl).
/// Errors: kUnavailable (nobody answers), kDeadlineExceeded, kPermissionDenied (token), else the
/// code of the server's problem with its detail.
/// Threads: single owner.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/sse_parser.h"
#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::launcher {

struct ClusterInfo {
  std::string rest;  ///< "http://127.0.0.1:40123"
  std::string token;
  std::string ca_file;  ///< for https
};

/// Reads <folder>/cluster.json and the token file that it names. kNotFound when there is no
/// cluster.json.
Result<ClusterInfo> read_cluster_info(const std::string& folder);

class RestClient {
 public:
  /// `locate` is asked again whenever the server cannot be reached: it may have come back
  /// elsewhere. `stands` is asked then, too: its error says that it never will, and ends calls and
  /// followed streams at once.
  explicit RestClient(std::function<Result<ClusterInfo>()> locate,
                      std::function<Status()> stands = {});
  ~RestClient();

  struct Call {
    std::string method = "GET";
    std::string target;
    std::string body;
    std::string content_type = "application/json";
    std::string idempotency_key;
    Duration timeout = std::chrono::seconds(30);
    /// while unreachable or 503; only for calls that may be repeated
    Duration retry_for = std::chrono::seconds(5);
  };
  /// The body of a 2xx answer.
  Result<std::string> call(const Call& call);

  /// A followed event stream, opened again where it was cut until `finished` says that it is over.
  struct Stream {
    /// asked at each opening: it holds the place to resume at
    std::function<std::string()> target;
    std::function<void(const SseEvent&)> on_event;
    std::function<bool()> finished;
  };
  void follow(Stream stream);
  /// Moves the followed streams along, waits at most `wait`, or until `extra_fd` (-1 = none) is
  /// readable: true then. An error when a stream can never go on: the server refused it, does not
  /// stand any more, or was unreachable for kGiveUp.
  Result<bool> pump(Duration wait, int extra_fd);
  bool idle() const;  ///< no stream is left
  void stop_following();

  static constexpr Duration kGiveUp = std::chrono::seconds(60);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string url_encode(std::string_view text);

}  // namespace dlrun::launcher

#include "launcher/rest_client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace dlrun::launcher {
namespace {

using SteadyClock = std::chrono::steady_clock;
using nlohmann::json;

constexpr std::size_t kBodyBytesMax = 256u << 20;

Errc errc_of(const std::string& name) {
  for (int i = 1; i <= static_cast<int>(Errc::kInternal); ++i)
    if (errc_name(static_cast<Errc>(i)) == name) return static_cast<Errc>(i);
  return Errc::kInternal;
}

Error problem_error(long status, const std::string& body) {
  const json problem = json::parse(body, nullptr, false);
  if (problem.is_object() && problem.contains("detail") && problem["detail"].is_string()) {
    const Errc code = problem.contains("code") && problem["code"].is_string()
                          ? errc_of(problem["code"])
                          : Errc::kInternal;
    return {code, problem["detail"].get<std::string>()};
  }
  return {status == 503 ? Errc::kUnavailable : Errc::kInternal,
          fmt::format("the server answered {} without a reason", status)};
}

struct Slist {
  curl_slist* list = nullptr;
  Slist() = default;
  Slist(const Slist&) = delete;
  Slist& operator=(const Slist&) = delete;
  ~Slist() { curl_slist_free_all(list); }
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
};

struct Followed {
  RestClient::Stream stream;
  CURL* easy = nullptr;
  std::unique_ptr<Slist> headers;
  std::unique_ptr<SseParser> parser;
  std::string error_body;
  SteadyClock::time_point retry_at{}, alive_at = SteadyClock::now();
  Duration backoff = std::chrono::milliseconds(50);
  bool broken = false;
};

std::size_t on_bytes(char* bytes, std::size_t, std::size_t n, void* user) {
  auto* out = static_cast<std::string*>(user);
  if (out->size() + n > kBodyBytesMax) return 0;
  out->append(bytes, n);
  return n;
}

std::size_t on_stream_bytes(char* bytes, std::size_t, std::size_t n, void* user) {
  auto* followed = static_cast<Followed*>(user);
  long status = 0;
  curl_easy_getinfo(followed->easy, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200) {
    if (followed->error_body.size() < 65536) followed->error_body.append(bytes, n);
    return n;
  }
  followed->alive_at = SteadyClock::now();
  followed->backoff = std::chrono::milliseconds(50);
  if (!followed->parser->feed({bytes, n})) {
    followed->broken = true;
    return 0;
  }
  return n;
}

}  // namespace

struct RestClient::Impl {
  std::function<Result<ClusterInfo>()> locate;
  std::function<Status()> stands = [] { return Status(); };
  Result<ClusterInfo> info = fail(Errc::kUnavailable, "not looked for yet");
  CURL* easy = nullptr;
  CURLM* multi = nullptr;
  std::vector<std::unique_ptr<Followed>> streams;
  std::uint64_t delivered = 0;  ///< events, in all

  void prepare(CURL* handle, const std::string& target, Slist& headers) const {
    curl_easy_setopt(handle, CURLOPT_URL, (info->rest + target).c_str());
    curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(handle, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    if (!info->ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, info->ca_file.c_str());
    headers.add("Authorization: Bearer " + info->token);
    headers.add("Expect:");
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.list);
  }

  void drop(Followed& followed) {
    if (followed.easy == nullptr) return;
    curl_multi_remove_handle(multi, followed.easy);
    curl_easy_cleanup(followed.easy);
    followed.easy = nullptr;
  }

  void open(Followed& followed) {
    if (!info) info = locate();
    if (!info) return later(followed);
    followed.easy = curl_easy_init();
    followed.headers = std::make_unique<Slist>();
    followed.parser = std::make_unique<SseParser>([this, &followed](const SseEvent& event) {
      ++delivered;
      followed.stream.on_event(event);
    });
    followed.error_body.clear();
    followed.broken = false;
    prepare(followed.easy, followed.stream.target(), *followed.headers);
    curl_easy_setopt(followed.easy, CURLOPT_WRITEFUNCTION, &on_stream_bytes);
    curl_easy_setopt(followed.easy, CURLOPT_WRITEDATA, &followed);
    curl_easy_setopt(followed.easy, CURLOPT_PRIVATE, &followed);
    // The server beats every 15 s: a minute of nothing is a dead peer.
    curl_easy_setopt(followed.easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(followed.easy, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_multi_add_handle(multi, followed.easy);
  }

  void later(Followed& followed) {
    followed.retry_at = SteadyClock::now() + followed.backoff;
    followed.backoff = std::min<Duration>(followed.backoff * 2, std::chrono::seconds(2));
  }
};

RestClient::RestClient(std::function<Result<ClusterInfo>()> locate, std::function<Status()> stands)
    : impl_(std::make_unique<Impl>()) {
  impl_->locate = std::move(locate);
  if (stands) impl_->stands = std::move(stands);
  impl_->multi = curl_multi_init();
}

RestClient::~RestClient() {
  stop_following();
  if (impl_->easy) curl_easy_cleanup(impl_->easy);
  curl_multi_cleanup(impl_->multi);
}

Result<std::string> RestClient::call(const Call& call) {
  const auto until = SteadyClock::now() + call.retry_for;
  const bool repeatable = call.method == "GET" || !call.idempotency_key.empty();
  Duration backoff = std::chrono::milliseconds(20);
  for (;;) {
    Error error;
    if (!impl_->info) impl_->info = impl_->locate();
    if (!impl_->info) return tl::unexpected(impl_->info.error());
    if (!impl_->easy) impl_->easy = curl_easy_init();
    curl_easy_reset(impl_->easy);  // keeps the connection
    Slist headers;
    if (call.method == "POST") headers.add("Content-Type: " + call.content_type);
    if (!call.idempotency_key.empty()) headers.add("Idempotency-Key: " + call.idempotency_key);
    impl_->prepare(impl_->easy, call.target, headers);
    curl_easy_setopt(
        impl_->easy, CURLOPT_TIMEOUT_MS,
        static_cast<long>(
            std::chrono::duration_cast<std::chrono::milliseconds>(call.timeout).count()));
    if (call.method == "POST") {
      curl_easy_setopt(impl_->easy, CURLOPT_POST, 1L);
      curl_easy_setopt(impl_->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                       static_cast<curl_off_t>(call.body.size()));
      curl_easy_setopt(impl_->easy, CURLOPT_POSTFIELDS, call.body.data());
    }
    std::string body;
    curl_easy_setopt(impl_->easy, CURLOPT_WRITEFUNCTION, &on_bytes);
    curl_easy_setopt(impl_->easy, CURLOPT_WRITEDATA, &body);
    const CURLcode code = curl_easy_perform(impl_->easy);
    if (code == CURLE_OK) {
      long status = 0;
      curl_easy_getinfo(impl_->easy, CURLINFO_RESPONSE_CODE, &status);
      if (status >= 200 && status < 300) return body;
      error = problem_error(status, body);
      if (status == 401)
        error = {Errc::kPermissionDenied, fmt::format("{} refused the token", impl_->info->rest)};
      if (status != 503) return tl::unexpected(error);
    } else {
      error = {code == CURLE_OPERATION_TIMEDOUT ? Errc::kDeadlineExceeded : Errc::kUnavailable,
               fmt::format("the cluster at {} does not answer: {}", impl_->info->rest,
                           curl_easy_strerror(code))};
      impl_->info = fail(error.code, error.context);
      DLRUN_TRY(impl_->stands());
    }
    if (!repeatable || SteadyClock::now() + backoff > until) return tl::unexpected(error);
    std::this_thread::sleep_for(backoff);
    backoff = std::min<Duration>(backoff * 2, std::chrono::milliseconds(500));
  }
}

void RestClient::follow(Stream stream) {
  impl_->streams.push_back(std::make_unique<Followed>());
  impl_->streams.back()->stream = std::move(stream);
  impl_->open(*impl_->streams.back());
}

bool RestClient::idle() const { return impl_->streams.empty(); }

void RestClient::stop_following() {
  for (const auto& followed : impl_->streams) impl_->drop(*followed);
  impl_->streams.clear();
}

Result<bool> RestClient::pump(Duration wait, int extra_fd) {
  int running = 0;
  const std::uint64_t before = impl_->delivered;
  curl_multi_perform(impl_->multi, &running);
  int left = 0;
  bool changed = impl_->delivered != before;  // the caller may have what it waits for
  while (CURLMsg* message = curl_multi_info_read(impl_->multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    changed = true;
    Followed* followed = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &followed);
    long status = 0;
    curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &status);
    const CURLcode code = message->data.result;
    impl_->drop(*followed);
    if (followed->stream.finished()) continue;
    if (followed->broken) return fail(Errc::kCorrupt, "the server sent an event that is too long");
    if (code == CURLE_OK && status != 200) {
      Error error = problem_error(status, followed->error_body);
      if (status != 503 && status != 504) return tl::unexpected(error);
    }
    if (code != CURLE_OK) {
      impl_->info = fail(Errc::kUnavailable, curl_easy_strerror(code));
      DLRUN_TRY(impl_->stands());
    }
    if (SteadyClock::now() - followed->alive_at > kGiveUp)
      return fail(Errc::kUnavailable,
                  fmt::format("the cluster has not answered for {} s: {}",
                              std::chrono::duration_cast<std::chrono::seconds>(kGiveUp).count(),
                              curl_easy_strerror(code)));
    impl_->later(*followed);
  }
  std::erase_if(impl_->streams, [](const auto& followed) {
    return followed->easy == nullptr && followed->stream.finished();
  });
  auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(wait);
  for (const auto& followed : impl_->streams) {
    if (followed->easy != nullptr) continue;
    const auto now = SteadyClock::now();
    if (now >= followed->retry_at) {
      impl_->open(*followed);
      changed = true;
      if (followed->easy == nullptr) DLRUN_TRY(impl_->stands());
      if (followed->easy == nullptr && now - followed->alive_at > kGiveUp)
        return tl::unexpected(impl_->info.error());
    } else {
      limit = std::min(
          limit, std::chrono::duration_cast<std::chrono::milliseconds>(followed->retry_at - now) +
                     std::chrono::milliseconds(1));
    }
  }
  if (changed) limit = std::chrono::milliseconds(0);
  curl_waitfd extra{extra_fd, CURL_WAIT_POLLIN, 0};
  curl_multi_poll(impl_->multi, extra_fd >= 0 ? &extra : nullptr, extra_fd >= 0 ? 1 : 0,
                  static_cast<int>(limit.count()), nullptr);
  return extra_fd >= 0 && (extra.revents & CURL_WAIT_POLLIN) != 0;
}

std::string url_encode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain)
      out.push_back(c);
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Result<ClusterInfo> read_cluster_info(const std::string& folder) {
  const auto slurp = [](const std::string& path) -> Result<std::string> {
    std::ifstream in(path, std::ios::binary);
    if (!in) return fail_errno(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  };
  const std::string path = folder + "/cluster.json";
  DLRUN_ASSIGN(const std::string text, slurp(path));
  const json info = json::parse(text, nullptr, false);
  if (!info.is_object() || !info.contains("rest") || !info["rest"].is_string() ||
      !info.contains("token_file") || !info["token_file"].is_string())
    return fail(Errc::kCorrupt, path + " must hold {\"rest\": URL, \"token_file\": PATH}");
  ClusterInfo out;
  out.rest = info["rest"].get<std::string>();
  while (out.rest.ends_with('/')) out.rest.pop_back();
  if (info.contains("ca_file") && info["ca_file"].is_string())
    out.ca_file = info["ca_file"].get<std::string>();
  if (!out.ca_file.empty() && !out.ca_file.starts_with('/'))
    out.ca_file = folder + "/" + out.ca_file;
  std::string token_path = info["token_file"].get<std::string>();
  if (!token_path.starts_with('/')) token_path = folder + "/" + token_path;
  auto token = slurp(token_path);
  if (!token) return fail_as("token of " + path, token);
  while (!token->empty() &&
         (token->back() == '\n' || token->back() == '\r' || token->back() == ' '))
    token->pop_back();
  if (token->empty() || token->find_first_of("\r\n") != std::string::npos)
    return fail(Errc::kCorrupt, token_path + " holds no token");
  out.token = std::move(*token);
  return out;
}

}  // namespace dlrun::launcher

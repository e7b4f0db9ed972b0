// Damaged HTTP against a live server, under ASan and UBSan in the dev preset: it never crashes, and
// it serves good requests all the while. DLRUN_FUZZ_SECONDS sets the time, DLRUN_FUZZ_SEED replays
// from a seed.
#include <cstdlib>

#include "runtime/base/rng.h"
#include "tests/web/server_fixture.h"

namespace dlrun::test {
namespace {
using namespace std::chrono_literals;

std::string damaged(std::string text, SplitMix64& rng) {
  static const std::string_view kBits[] = {"\r\n",
                                           "\n",
                                           "\r",
                                           " ",
                                           ":",
                                           "\r\n\r\n",
                                           std::string_view("\0", 1),
                                           "%00",
                                           "%",
                                           "Content-Length: 99\r\n",
                                           "Content-Length: -1\r\n",
                                           "Transfer-Encoding: chunked\r\n",
                                           "HTTP/9.9",
                                           "HTTP/1.0",
                                           "\xFF\xFE",
                                           "Host: a\r\n",
                                           "Range: bytes=0-\r\n",
                                           "Expect: 100-continue\r\n",
                                           "Connection: close\r\n",
                                           "Upgrade: h2c\r\n",
                                           "?follow=1",
                                           "/../",
                                           "ffffffffffffffff\r\n",
                                           "0\r\n\r\n",
                                           "{",
                                           "\"",
                                           "[[[["};
  for (std::uint64_t n = rng.below(5); n > 0; --n) {
    const std::size_t at = rng.below(text.size() + 1);
    switch (rng.below(5)) {
      case 0:
      case 1:
        text.insert(at, kBits[rng.below(std::size(kBits))]);
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(rng.next());
        break;
      case 3:
        text.erase(at, rng.below(12));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

class HttpMutator : public ServerFixture {};

TEST_F(HttpMutator, NeverBreaksTheServer) {
  web::ServerOptions options;
  options.header_timeout = options.body_timeout = options.idle_timeout = 200ms;
  options.heartbeat = 100ms;
  serve(options);
  const JobId id = control.add(running_job());
  logs.append({{.job = id, .role = "worker", .rank = 0, .generation = Generation{1}},
               web::LogStream::kStdout},
              "hello");
  const std::string seeds[] = {
      get("/api/v1/jobs?limit=3&state=RUNNING"),
      get("/api/v1/jobs/j1"),
      get("/api/v1/jobs/j1/logs/worker/0/stdout", "Range: bytes=1-3\r\n"),
      get("/api/v1/jobs/j1/logs?follow=1&from=worker/0%231/stdout:2"),
      get("/api/v1/events?follow=1", "Last-Event-ID: 1\r\n"),
      get("/metrics"),
      post("/api/v1/jobs", R"({"name":"x","role":{"main":{"argv":["true"]}}})",
           "Idempotency-Key: a\r\n"),
      post("/api/v1/jobs/j1/kill", R"({"reason":"x"})"),
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " +
          std::string(kToken) +
          "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n"};
  const char* seconds = std::getenv("DLRUN_FUZZ_SECONDS");
  const char* first = std::getenv("DLRUN_FUZZ_SEED");
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds ? std::atoi(seconds) : 3);
  std::uint64_t seed = first ? std::strtoull(first, nullptr, 10) : 1, answered = 0;
  for (; std::chrono::steady_clock::now() < until; ++seed) {
    SCOPED_TRACE("DLRUN_FUZZ_SEED=" + std::to_string(seed));
    SplitMix64 rng(seed);
    HttpClient client(port);
    std::string bytes = damaged(seeds[rng.below(std::size(seeds))], rng);
    if (rng.below(4) == 0) bytes += damaged(seeds[rng.below(std::size(seeds))], rng);
    if (rng.below(8) == 0) {  // in two pieces
      const std::size_t cut = rng.below(bytes.size() + 1);
      client.send(bytes.substr(0, cut));
      client.send(bytes.substr(cut));
    } else {
      client.send(bytes);
    }
    if (rng.below(3) != 0) {
      const auto reply = client.receive_head(20ms);
      if (reply.status != 0) {
        ++answered;
        ASSERT_GE(reply.status, 200);
        ASSERT_LT(reply.status, 600);
        ASSERT_NE(reply.status, 500);
      }
    }
    if (seed % 64 == 0) {
      ASSERT_EQ(ask(get("/api/v1/health")).status, 200);
    }
  }
  EXPECT_GT(answered, 0u);
  EXPECT_EQ(ask(get("/api/v1/health")).status, 200);
}

}  // namespace
}  // namespace dlrun::test

#include "web/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/web/server_fixture.h"

namespace dlrun::test {
namespace {
using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kJob = R"({"name":"x","role":{"main":{"argv":["true"]}}})";

class Server : public ServerFixture {};

TEST_F(Server, RefusesWithoutTokenWithAWrongOneAndForAnotherHostOrOrigin) {
  serve();
  EXPECT_EQ(ask("GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 401);
  EXPECT_EQ(ask("GET /api/v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                "0123456789abcdef0123456789abcdee\r\n\r\n")
                .status,
            401);
  EXPECT_EQ(ask("GET /api/v1/version HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer "
                "0123456789abcdef0123456789abcdef\r\n\r\n")
                .status,
            421);
  EXPECT_EQ(ask("GET /api/v1/version HTTP/1.1\r\nAuthorization: Bearer "
                "0123456789abcdef0123456789abcdef\r\n\r\n")
                .status,
            400);
  EXPECT_EQ(ask(get("/api/v1/version", "Origin: http://evil.example\r\n")).status, 403);
  EXPECT_EQ(ask(get("/api/v1/version", "Origin: null\r\n")).status, 403);
  EXPECT_EQ(ask(get("/api/v1/version", "Origin: http://localhost:1\r\n")).status, 200);
  const auto refused = ask("GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(refused.status, 401) << "a stranger does not even learn which paths exist";
  EXPECT_EQ(refused.headers.at("content-type"), "application/problem+json");
  EXPECT_THAT(refused.headers.at("www-authenticate"), HasSubstr("Bearer"));
  EXPECT_EQ(control.calls(), 0u);
}

TEST_F(Server, AnAnswerThatComesAfterItsEndTouchesNothing) {
  serve();
  // The fake's thread may still be at the promises when this test is over.
  const auto asked = std::make_shared<std::promise<void>>();
  std::promise<void> gone;
  control.intercept([asked, is_gone = gone.get_future().share()](
                        const cluster::ApiCall&) -> std::optional<Result<cluster::ApiReply>> {
    asked->set_value();
    is_gone.wait();
    return fail(Errc::kNotFound, "too late");
  });
  HttpClient client(port);
  ASSERT_TRUE(client.send(get("/api/v1/jobs/j1")));
  ASSERT_EQ(asked->get_future().wait_for(20s), std::future_status::ready);
  server.reset();
  gone.set_value();
  // The fake's end waits for the answer, which lets go of the connection (seen by ASan).
}

TEST_F(Server, SubmitsOnceForOneIdempotencyKey) {
  serve();
  const auto first = ask(post("/api/v1/jobs", kJob, "Idempotency-Key: k1\r\n"));
  const auto again = ask(post("/api/v1/jobs", kJob, "Idempotency-Key: k1\r\n"));
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(first.headers.at("location"), "/api/v1/jobs/j1");
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(json::parse(again.body)["id"], "j1");
  EXPECT_EQ(control.submitted().size(), 1u);
  for (const char* key : {"Idempotency-Key: k1\r\nIdempotency-Key: k2\r\n", "Idempotency-Key:\r\n"})
    EXPECT_EQ(ask(post("/api/v1/jobs", kJob, key)).status, 400) << key;
  EXPECT_EQ(control.submitted().size(), 1u);
}

TEST_F(Server, TellsWhatIsWrongWithAJobAndWhere) {
  serve();
  const auto reply = ask(post("/api/v1/jobs", "{\"role\":{\"main\":{\n\"argvv\":[\"true\"]}}}"));
  EXPECT_EQ(reply.status, 400);
  const json body = json::parse(reply.body);
  EXPECT_EQ(body["code"], "kInvalidArgument");
  EXPECT_EQ(body["status"], 400);
  EXPECT_THAT(body["detail"].get<std::string>(),
              HasSubstr("body:2:1: unknown key 'argvv' in [role.main]; did you mean 'argv'?"));
  EXPECT_EQ(
      ask(post("/api/v1/jobs", "[role.main]\nargv=['true']", "Content-Type: application/toml\r\n"))
          .status,
      201);
  EXPECT_EQ(ask(post("/api/v1/jobs", "x", "Content-Type: text/html\r\n")).status, 415);
  EXPECT_EQ(
      ask(post("/api/v1/jobs", kJob, "Idempotency-Key: " + std::string(200, 'k') + "\r\n")).status,
      400);
}

TEST_F(Server, AnswersUnknownAndFinishedJobsClearly) {
  serve();
  const JobId id = control.add(running_job());
  control.update(id, [](auto& view) { end_job(view, 0); });
  for (const char* path : {"/api/v1/jobs/j99", "/api/v1/jobs/j99/tasks", "/api/v1/jobs/j99/why",
                           "/api/v1/jobs/j99/logs", "/api/v1/jobs/j99/logs/worker/0/stdout"}) {
    const auto reply = ask(get(path));
    EXPECT_EQ(reply.status, 404) << path;
    EXPECT_THAT(reply.body, HasSubstr("no job j99")) << path;
  }
  EXPECT_EQ(ask(get("/api/v1/jobs/banana")).status, 400);
  EXPECT_EQ(ask(post("/api/v1/jobs/j1/kill", "")).status, 409);
  EXPECT_EQ(ask(post("/api/v1/jobs/j99/kill", "")).status, 404);
  EXPECT_EQ(ask(get("/api/v1/jobs/j1/logs/worker/7/stdout")).status, 404);
  EXPECT_EQ(ask(get("/api/v1/jobs/j1/logs/worker/0/stdlog")).status, 404);
  const auto unknown = ask(get("/api/v1/jobs?limt=3"));
  EXPECT_EQ(unknown.status, 400);
  EXPECT_THAT(unknown.body, HasSubstr("did you mean 'limit'?"));
  EXPECT_EQ(ask(get("/nothing/here")).status, 404);
  const auto method =
      ask("DELETE /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
          "0123456789abcdef0123456789abcdef\r\n\r\n");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.headers.at("allow"), "POST, GET");
}

TEST_F(Server, RefusesATenMegabyteBodyWithoutReadingItAndTheAnswerArrives) {
  serve();
  const std::string body(10'000'000, ' ');
  HttpClient client(port);
  client.send(post("/api/v1/jobs", body));
  const auto reply = client.receive();
  EXPECT_EQ(reply.status, 413);
  EXPECT_THAT(reply.body, HasSubstr("4194304"));
  EXPECT_TRUE(client.closed_within(10s));
  // A chunked one has no length to judge by: it is cut when the limit is passed.
  HttpClient chunked(port);
  std::string request =
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
      "0123456789abcdef0123456789abcdef\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 100; ++i) request += "186a0\r\n" + std::string(100000, 'a') + "\r\n";
  chunked.send(request);
  EXPECT_EQ(chunked.receive().status, 413);
}

TEST_F(Server, RefusesAHeaderThatIsTooLong) {
  serve();
  EXPECT_EQ(ask(get("/api/v1/version", "X: " + std::string(40000, 'x') + "\r\n")).status, 431);
}

TEST_F(Server, ClosesConnectionsThatDribble) {
  web::ServerOptions options;
  options.header_timeout = 300ms;
  options.body_timeout = 300ms;
  options.idle_timeout = 300ms;
  serve(options);
  HttpClient silent(port), half(port), body(port), idle(port);
  half.send("GET /api/v1/version HTTP/1.1\r\nHo");
  body.send(
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
      "0123456789abcdef0123456789abcdef\r\nContent-Length: 100\r\n\r\n{");
  idle.send(get("/api/v1/version"));
  EXPECT_EQ(idle.receive().status, 200);
  EXPECT_EQ(half.receive().status, 408);
  EXPECT_EQ(body.receive().status, 408);
  EXPECT_TRUE(silent.closed_within(10s));
  EXPECT_TRUE(idle.closed_within(10s));
}

TEST_F(Server, KeepsAConnectionForManyRequestsAndAnswersPipelinedOnesInOrder) {
  serve();
  HttpClient client(port);
  client.send(get("/api/v1/version") + get("/api/v1/jobs") + get("/nothing"));
  EXPECT_THAT(client.receive().body, HasSubstr("\"api\""));
  EXPECT_THAT(client.receive().body, HasSubstr("\"jobs\""));
  EXPECT_EQ(client.receive().status, 404);
  client.send(
      "HEAD /api/v1/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
      "0123456789abcdef0123456789abcdef\r\n\r\n");
  const auto head = client.receive(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
  client.send(get("/api/v1/health", "Connection: close\r\n"));
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(client.closed_within(10s));
}

TEST_F(Server, AnswersExpectContinue) {
  serve();
  HttpClient client(port);
  client.send(
      "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
      "0123456789abcdef0123456789abcdef\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(std::strlen(kJob)) + "\r\n\r\n");
  client.send(kJob);
  EXPECT_EQ(client.receive().status, 201);
}

TEST_F(Server, RefusesConnectionsBeyondItsBoundAndServesAgainAfterwards) {
  web::ServerOptions options;
  options.connections_max = 3;
  serve(options);
  {
    HttpClient a(port), b(port), c(port);
    for (HttpClient* client : {&a, &b, &c}) {
      client->send(get("/api/v1/version"));
      EXPECT_EQ(client->receive().status, 200);
    }
    EXPECT_EQ(ask(get("/api/v1/version")).status, 503);
  }
  const auto until = std::chrono::steady_clock::now() + 10s;
  int status = 0;
  while (status != 200 && std::chrono::steady_clock::now() < until)
    status = ask(get("/api/v1/version")).status;
  EXPECT_EQ(status, 200);
}

TEST_F(Server, TurnsEveryErrorOfTheControlPlaneIntoAProblem) {
  serve();
  const std::pair<Errc, int> cases[] = {
      {Errc::kUnavailable, 503},       {Errc::kOverloaded, 503},    {Errc::kDeadlineExceeded, 504},
      {Errc::kResourceExhausted, 507}, {Errc::kAlreadyExists, 409}, {Errc::kInternal, 500},
      {Errc::kInvalidArgument, 400}};
  for (const auto& [code, status] : cases) {
    control.intercept(
        [code = code](const auto&) { return Result<cluster::ApiReply>(fail(code, "said so")); });
    const auto reply = ask(post("/api/v1/jobs", kJob));
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(json::parse(reply.body)["detail"], "said so");
  }
}

TEST_F(Server, ShowsMetrics) {
  serve();
  ask(get("/nothing"));
  const auto reply = ask(get("/metrics"));
  EXPECT_THAT(reply.headers.at("content-type"), HasSubstr("version=0.0.4"));
  EXPECT_THAT(reply.body, HasSubstr("dlrun_test_total{a=\"x\\\"y\"} 3\n"));
  EXPECT_THAT(reply.body, HasSubstr("dlrun_http_responses_total{status=\"404\"} 1\n"));
  EXPECT_THAT(reply.body, HasSubstr("dlrun_coordinator_term 3\n"));
}

TEST_F(Server, DoesNotStartWhereItMustNot) {
  const auto error = [&](web::ServerOptions options) {
    const auto started = web::RestServer::start(options, control, logs, metrics);
    return started ? Error{} : started.error();
  };
  EXPECT_THAT(error({.listen_address = "0.0.0.0", .bearer_token = kToken}).context,
              HasSubstr("TLS certificate"));
  EXPECT_EQ(error({.bearer_token = "short"}).code, Errc::kInvalidArgument);
  EXPECT_EQ(error({.listen_address = "localhost", .bearer_token = kToken}).code,
            Errc::kInvalidArgument);
  serve();
  EXPECT_EQ(error({.port = port, .bearer_token = kToken}).code, Errc::kAlreadyExists);
  EXPECT_THAT(error({.bearer_token = kToken, .tls_cert_path = "/nonexistent", .tls_key_path = "/x"})
                  .context,
              HasSubstr("/nonexistent"));
}

TEST_F(Server, StopsWithRequestsAndStreamsUnderWay) {
  serve();
  control.add(running_job());
  HttpClient stream(port);
  stream.send(get("/api/v1/jobs/j1?follow=1"));
  EXPECT_EQ(stream.receive_head().status, 200);
  std::promise<void> asked, stopped;
  control.intercept([&, over = stopped.get_future().share()](
                        const auto& call) -> std::optional<Result<cluster::ApiReply>> {
    if (!std::holds_alternative<cluster::ListNodes>(call)) return std::nullopt;
    asked.set_value();
    over.wait_for(20s);  // the answer comes after the server's end
    return std::nullopt;
  });
  HttpClient waiting(port);
  waiting.send(get("/api/v1/nodes"));
  ASSERT_EQ(asked.get_future().wait_for(20s), std::future_status::ready);
  server->stop();
  stopped.set_value();
  EXPECT_TRUE(stream.closed_within(10s));
  EXPECT_TRUE(waiting.closed_within(10s));
}

// A key and a self-signed certificate in files.
void make_certificate(const std::string& cert, const std::string& key) {
  EVP_PKEY* pair = EVP_EC_gen("P-256");
  X509* x = X509_new();
  ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
  X509_gmtime_adj(X509_getm_notBefore(x), -60);
  X509_gmtime_adj(X509_getm_notAfter(x), 3600);
  X509_set_pubkey(x, pair);
  X509_NAME* name = X509_get_subject_name(x);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(x, name);
  X509_sign(x, pair, EVP_sha256());
  if (FILE* f = std::fopen(cert.c_str(), "w")) PEM_write_X509(f, x), std::fclose(f);
  if (FILE* f = std::fopen(key.c_str(), "w"))
    PEM_write_PrivateKey(f, pair, nullptr, nullptr, 0, nullptr, nullptr), std::fclose(f);
  X509_free(x);
  EVP_PKEY_free(pair);
}

TEST_F(Server, SpeaksTlsWithACertificateAndThenNothingElse) {
  const auto dir =
      std::filesystem::temp_directory_path() / ("dlrun_web_test_" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  make_certificate(dir / "cert.pem", dir / "key.pem");
  serve({.tls_cert_path = dir / "cert.pem", .tls_key_path = dir / "key.pem"});
  std::filesystem::remove_all(dir);
  EXPECT_THAT(server->url(), testing::StartsWith("https://127.0.0.1:"));
  EXPECT_EQ(ask(get("/api/v1/version")).status, 0) << "plain HTTP gets no answer";

  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  BIO* bio = BIO_new_ssl_connect(context);
  BIO_set_conn_hostname(bio, ("127.0.0.1:" + std::to_string(port)).c_str());
  ASSERT_EQ(BIO_do_connect(bio), 1);
  const std::string request = get("/api/v1/version", "Connection: close\r\n");
  ASSERT_EQ(BIO_write(bio, request.data(), static_cast<int>(request.size())),
            static_cast<int>(request.size()));
  std::string reply;
  char buffer[4096];
  for (int n = 0; (n = BIO_read(bio, buffer, sizeof buffer)) > 0;)
    reply.append(buffer, static_cast<std::size_t>(n));
  BIO_free_all(bio);
  SSL_CTX_free(context);
  EXPECT_THAT(reply, testing::StartsWith("HTTP/1.1 200 OK\r\n"));
}

}  // namespace
}  // namespace dlrun::test

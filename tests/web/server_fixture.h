#pragma once
/// tests/web/server_fixture.h: a live server over fakes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/web/fake_cluster.h"
#include "tests/web/http_client.h"
#include "web/server.h"

namespace dlrun::test {

class ServerFixture : public testing::Test {
 protected:
  void serve(web::ServerOptions options = {}) {
    options.bearer_token = kToken;
    auto started = web::RestServer::start(std::move(options), control, logs, metrics, &security);
    ASSERT_TRUE(started) << started.error().context;
    server = std::move(*started);
    port = server->port();
  }
  HttpReply ask(std::string_view request) { return fetch(port, request); }

  FakeControl control;
  FakeLogs logs;
  FakeMetrics metrics;
  FakeSecurity security;
  std::unique_ptr<web::RestServer> server;
  std::uint16_t port = 0;
};

}  // namespace dlrun::test

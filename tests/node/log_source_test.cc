// The REST server over the coordinator's real log store: what the fakes of tests/web stand for.

#include "runtime/node/log_source.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "tests/web/fake_cluster.h"
#include "tests/web/http_client.h"

namespace dlrun::node {
namespace {

class LogSourceTest : public testing::Test {
 protected:
  LogSourceTest() {
    char name[] = "/tmp/dlrun-logsource-XXXXXX";
    folder_ = ::mkdtemp(name);
    store_ = logs::LogStore::open(folder_, logs::StoreLimits{}).value();
    source_ = std::make_unique<StoreLogSource>(store_.get());
    job_ = control_.add(test::running_job(1));
    web::ServerOptions options;
    options.bearer_token = test::kToken;
    server_ = web::RestServer::start(std::move(options), control_, *source_, metrics_).value();
  }
  ~LogSourceTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  logs::StreamId out(std::uint32_t generation = 1) const {
    return {TaskId{job_, "worker", 0, Generation{generation}}, logs::Stream::kStdout};
  }
  void append(const logs::StreamId& id, const std::string& bytes) {
    const auto end = store_->end_of(id);
    ASSERT_TRUE(end);
    ASSERT_TRUE(store_->append(id, *end, bytes));
  }
  test::HttpReply ask(const std::string& query = "", const std::string& headers = "") {
    return test::fetch(server_->port(), test::get(path() + query, headers));
  }
  std::string path() const { return "/api/v1/jobs/" + to_string(job_) + "/logs/worker/0/stdout"; }

  std::string folder_;
  test::FakeControl control_;
  test::FakeMetrics metrics_;
  std::unique_ptr<logs::LogStore> store_;
  std::unique_ptr<StoreLogSource> source_;
  std::unique_ptr<web::RestServer> server_;
  JobId job_;
};

TEST_F(LogSourceTest, TheStoresBytesAreServedExactlyAndByRange) {
  const std::string bytes("one\0two\xFF\r\nthree", 15);
  append(out(), bytes);
  ASSERT_TRUE(store_->finish(out()));
  const auto whole = ask();
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.body, bytes);
  const auto part = ask("", "Range: bytes=4-6\r\n");
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.body, "two");
}

TEST_F(LogSourceTest, AStreamThatIsFollowedGrowsAndEndsWithTheStore) {
  append(out(), "first");
  test::HttpClient client(server_->port());
  ASSERT_TRUE(client.send(test::get(path() + "?follow=1")));
  ASSERT_EQ(client.receive_head().status, 200);
  const auto first = client.next_event();
  ASSERT_TRUE(first);
  append(out(), "second");
  const auto second = client.next_event();
  ASSERT_TRUE(second) << "an append is told";
  EXPECT_NE(second->data, first->data);
  ASSERT_TRUE(store_->finish(out()));
  control_.update(job_, [](cluster::JobView& view) { test::end_job(view, 0); });
  while (client.next_event()) {
  }
  EXPECT_TRUE(client.ended);
}

TEST_F(LogSourceTest, EveryGenerationIsListedAndRead) {
  append(out(1), "of the first try");
  append(out(2), "of the second");
  const auto streams = source_->list(job_);
  ASSERT_TRUE(streams);
  ASSERT_EQ(streams->size(), 2u);
  EXPECT_EQ((*streams)[0].task.generation, Generation{1});
  EXPECT_EQ((*streams)[1].task.generation, Generation{2});
  EXPECT_EQ(ask("?generation=1").body, "of the first try");
  EXPECT_EQ(ask("?generation=2").body, "of the second");
}

TEST_F(LogSourceTest, WhatTheStoreForgotIsNotFound) {
  append(out(), "soon gone");
  ASSERT_TRUE(store_->drop_job(job_));
  EXPECT_FALSE(source_->read(out().task, web::LogStream::kStdout, 0, 100));
  EXPECT_TRUE(source_->list(job_)->empty());
}

}  // namespace
}  // namespace dlrun::node

// Logs by range, and what is followed live.
#include <nlohmann/json.hpp>

#include "runtime/jobspec/json.h"
#include "tests/web/server_fixture.h"

namespace dlrun::test {
namespace {
using namespace std::chrono_literals;
using nlohmann::json;
using testing::HasSubstr;

class Streams : public ServerFixture {
 protected:
  web::LogRef ref(JobId job, std::uint32_t rank = 0,
                  web::LogStream stream = web::LogStream::kStdout, std::uint32_t generation = 1) {
    return {{.job = job, .role = "worker", .rank = rank, .generation = Generation{generation}},
            stream};
  }
  std::string all_bytes() {
    std::string bytes;
    for (int i = 0; i < 300'000; ++i) bytes.push_back(static_cast<char>(i * 7 + i / 256));
    return bytes;
  }
  const std::string path = "/api/v1/jobs/j1/logs/worker/0/stdout";
};

TEST_F(Streams, GivesLogsByteForByteWholeAndByRange) {
  serve();
  const JobId id = control.add(running_job());
  const std::string bytes = all_bytes();
  EXPECT_EQ(ask(get(path)).body, "") << "no output yet is not an error";
  logs.append(ref(id), bytes);
  const auto whole = ask(get(path));
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.headers.at("content-type"), "application/octet-stream");
  EXPECT_EQ(whole.headers.at("dlrun-log-complete"), "false");
  EXPECT_EQ(whole.body, bytes);
  const auto part = ask(get(path, "Range: bytes=100-199\r\n"));
  EXPECT_EQ(part.status, 206);
  EXPECT_EQ(part.headers.at("content-range"), "bytes 100-199/300000");
  EXPECT_EQ(part.body, bytes.substr(100, 100));
  EXPECT_EQ(ask(get(path, "Range: bytes=299990-\r\n")).body, bytes.substr(299990));
  EXPECT_EQ(ask(get(path, "Range: bytes=-5\r\n")).body, bytes.substr(299995));
  EXPECT_EQ(ask(get(path, "Range: bytes=-999999999\r\n")).body.size(), 300000u);
  const auto beyond = ask(get(path, "Range: bytes=300000-\r\n"));
  EXPECT_EQ(beyond.status, 416);
  EXPECT_EQ(beyond.headers.at("content-range"), "bytes */300000");
  EXPECT_EQ(ask(get(path, "Range: lines=1-2\r\n")).status, 400);
  logs.drop_before(ref(id), 1000);
  const auto rotated = ask(get(path, "Range: bytes=0-1999\r\n"));
  EXPECT_EQ(rotated.headers.at("content-range"), "bytes 1000-1999/300000");
  EXPECT_EQ(rotated.headers.at("dlrun-log-first"), "1000");
  EXPECT_EQ(rotated.body, bytes.substr(1000, 1000));
}

TEST_F(Streams, KeepsTheConnectionAfterALogBody) {
  serve();
  const JobId id = control.add(running_job());
  logs.append(ref(id), all_bytes());
  HttpClient client(port);
  client.send(get(path));
  EXPECT_EQ(client.receive().body.size(), 300000u);
  client.send(get("/api/v1/version"));
  EXPECT_EQ(client.receive().status, 200);
  client.send(get(path, "Range: bytes=0-1\r\n") + get("/api/v1/version"));
  EXPECT_EQ(client.receive().body.size(), 2u);
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(Streams, FollowsOneLogExactlyAndResumesAtTheOffset) {
  serve();
  const JobId id = control.add(running_job());
  const std::string bytes = all_bytes();
  logs.append(ref(id), bytes.substr(0, 1000));
  std::string got, last;
  {
    HttpClient client(port);
    client.send(get(path + "?follow=1"));
    EXPECT_EQ(client.receive_head().headers.at("content-type"), "text/event-stream");
    auto event = client.next_event();
    ASSERT_TRUE(event);
    got += *jobspec::base64_decode(event->data);
    last = event->id;
    EXPECT_EQ(last, "1000");
  }
  HttpClient client(port);
  client.send(get(path + "?follow=1", "Last-Event-ID: " + last + "\r\n"));
  client.receive_head();
  std::thread writer([&] {
    for (std::size_t at = 1000; at < bytes.size(); at += 977)
      logs.append(ref(id), bytes.substr(at, 977));
    logs.complete(ref(id));
    control.update(id, [](auto& view) { end_job(view, 0); });
  });
  bool end = false;
  while (auto event = client.next_event()) {
    if (event->event == "log") got += *jobspec::base64_decode(event->data);
    if (event->event == "end") end = true;
  }
  writer.join();
  EXPECT_TRUE(end);
  EXPECT_TRUE(client.ended);
  EXPECT_EQ(got, bytes);
}

TEST_F(Streams, FollowsAllLogsOfAJobThroughARestartOfItsGang) {
  serve();
  const JobId id = control.add(running_job(2));
  HttpClient client(port);
  client.send(get("/api/v1/jobs/j1/logs?follow=1"));
  client.receive_head();
  std::map<std::string, std::string> got;
  const auto take = [&](const HttpClient::Event& event) {
    if (event.event != "log") return;
    const json data = json::parse(event.data);
    std::string& text =
        got[data["role"].get<std::string>() + "/" + std::to_string(data["rank"].get<int>()) + "#" +
            std::to_string(data["generation"].get<int>()) + data["stream"].get<std::string>()];
    EXPECT_EQ(data["offset"].get<std::size_t>(), text.size());
    text += *jobspec::base64_decode(data["bytes"].get<std::string>());
  };
  logs.append(ref(id, 0), "zero");
  logs.append(ref(id, 1, web::LogStream::kStderr), "err\xFF");
  for (int i = 0; i < 2; ++i) {
    const auto event = client.next_event();
    ASSERT_TRUE(event);
    take(*event);
  }
  // The gang starts again: streams nobody knew of appear.
  control.update(id, [](auto& view) {
    view.generation = Generation{2};
    for (auto& task : view.tasks) task.task.generation = Generation{2};
  });
  logs.append(ref(id, 0, web::LogStream::kStdout, 2), "second");
  auto event = client.next_event();
  ASSERT_TRUE(event);
  take(*event);
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    for (const auto stream : {web::LogStream::kStdout, web::LogStream::kStderr})
      for (std::uint32_t generation = 1; generation <= 2; ++generation)
        logs.complete(ref(id, rank, stream, generation));
  control.update(id, [](auto& view) { end_job(view, 0); });
  bool end = false;
  while ((event = client.next_event())) end = event->event == "end" || end;
  EXPECT_TRUE(end);
  EXPECT_EQ(got["worker/0#1stdout"], "zero");
  EXPECT_EQ(got["worker/1#1stderr"], "err\xFF");
  EXPECT_EQ(got["worker/0#2stdout"], "second");
}

TEST_F(Streams, EndsAFollowAfterAGraceWhenALogNeverBecomesComplete) {
  web::ServerOptions options;
  options.log_grace = 300ms;
  serve(options);
  const JobId id = control.add(running_job());
  logs.append(ref(id), "x");
  control.update(id, [](auto& view) { end_job(view, 1); });
  HttpClient client(port);
  client.send(get("/api/v1/jobs/j1/logs?follow=1"));
  client.receive_head();
  EXPECT_EQ(client.next_event()->event, "log");
  EXPECT_EQ(client.next_event()->event, "end");
}

TEST_F(Streams, WithoutFollowSendsWhatIsStoredFromTheTailOrTheCursor) {
  serve();
  const JobId id = control.add(running_job());
  logs.append(ref(id), "0123456789");
  const auto bytes_of = [&](std::string query) {
    HttpClient client(port);
    client.send(get("/api/v1/jobs/j1/logs?" + query));
    client.receive_head();
    std::string out;
    while (auto event = client.next_event())
      if (event->event == "log")
        out += *jobspec::base64_decode(json::parse(event->data)["bytes"].get<std::string>());
    EXPECT_TRUE(client.ended);
    return out;
  };
  EXPECT_EQ(bytes_of(""), "0123456789");
  EXPECT_EQ(bytes_of("tail=3"), "789");
  EXPECT_EQ(bytes_of("from=worker/0%231/stdout:4"), "456789");
  EXPECT_EQ(bytes_of("stream=stderr"), "");
  EXPECT_EQ(ask(get("/api/v1/jobs/j1/logs?rank=1")).status, 404);
  EXPECT_EQ(ask(get("/api/v1/jobs/j1/logs?role=ps")).status, 404);
  EXPECT_EQ(ask(get("/api/v1/jobs/j1/logs?from=banana")).status, 400);
}

TEST_F(Streams, SaysWhereOldBytesWereDropped) {
  serve();
  const JobId id = control.add(running_job());
  logs.append(ref(id), "0123456789");
  logs.drop_before(ref(id), 6);
  HttpClient client(port);
  client.send(get(path + "?follow=1"));
  client.receive_head();
  const auto gap = client.next_event();
  EXPECT_EQ(gap->event, "gap");
  EXPECT_EQ(gap->data, R"({"from":0,"to":6})");
  EXPECT_EQ(*jobspec::base64_decode(client.next_event()->data), "6789");
}

TEST_F(Streams, FollowsAJobToItsEndWithProgressThatNoEventAnnounces) {
  serve();
  const JobId id = control.add(running_job());
  HttpClient client(port);
  client.send(get("/api/v1/jobs/j1?follow=1"));
  client.receive_head();
  EXPECT_EQ(json::parse(client.next_event()->data)["state"], "RUNNING");
  control.touch(id, [](auto& view) { view.progress = 0.5; });
  EXPECT_EQ(json::parse(client.next_event()->data)["progress"], 0.5);
  control.update(id, [](auto& view) { end_job(view, 7); });
  const auto last = client.next_event();
  ASSERT_TRUE(last);
  EXPECT_EQ(json::parse(last->data)["exit_code"], 7);
  EXPECT_EQ(client.next_event()->event, "end");
  EXPECT_FALSE(client.next_event());
  EXPECT_TRUE(client.ended);
}

TEST_F(Streams, AskNothingWhileNothingChanges) {
  serve();
  const JobId id = control.add(running_job());
  HttpClient job(port), log(port);
  job.send(get("/api/v1/jobs/j1?follow=1"));
  log.send(get("/api/v1/jobs/j1/logs?follow=1"));
  job.receive_head();
  log.receive_head();
  EXPECT_EQ(job.next_event()->event, "job");
  control.touch(id, [](auto& view) { view.progress = 0.25; });
  EXPECT_EQ(job.next_event()->event, "job");
  // Both look once more, whenever the machine lets them; then a second and more goes by unasked.
  using Clock = std::chrono::steady_clock;
  std::size_t calls = control.calls();
  auto since = Clock::now();
  for (const auto until = since + 20s; since + 1200ms > Clock::now() && Clock::now() < until;
       std::this_thread::sleep_for(5ms))
    if (const std::size_t now = control.calls(); now != calls) calls = now, since = Clock::now();
  EXPECT_GE(Clock::now() - since, 1200ms) << "it never ends: " << calls << " calls";
  EXPECT_LE(calls, 8u) << "what a stream looks at: at its start, and at each change";
}

TEST_F(Streams, EndsThoughTheEventWasToldBeforeTheViewShowedItWithoutAnother) {
  serve();
  const JobId id = control.add(running_job());
  HttpClient job(port), log(port);
  job.send(get("/api/v1/jobs/j1?follow=1"));
  log.send(get("/api/v1/jobs/j1/logs?follow=1"));
  job.receive_head();
  log.receive_head();
  EXPECT_EQ(job.next_event()->event, "job");
  control.event(id, "job_ended", "told");
  // Only once the streams have asked does the view change; that is told, but is no event.
  const std::size_t before = control.calls();
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (control.calls() < before + 2 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  logs.complete(ref(id));
  logs.complete(ref(id, 0, web::LogStream::kStderr));
  control.touch(id, [](auto& view) { end_job(view, 0); });
  EXPECT_EQ(job.next_event()->event, "job");
  EXPECT_EQ(job.next_event()->event, "end");
  EXPECT_EQ(log.next_event()->event, "end");
}

TEST_F(Streams, FollowsEventsAndResumesWithoutLossOrRepeat) {
  serve();
  const JobId id = control.add(running_job());
  for (int i = 0; i < 450; ++i) control.event(id, "tick", std::to_string(i));
  std::uint64_t expected = 1;
  std::string last;
  {
    HttpClient client(port);
    client.send(get("/api/v1/events?follow=1"));
    client.receive_head();
    for (int i = 0; i < 100; ++i) {
      const auto event = client.next_event();
      ASSERT_TRUE(event);
      EXPECT_EQ(event->id, std::to_string(expected++));
      last = event->id;
    }
  }
  HttpClient client(port);
  client.send(
      get("/api/v1/events", "Accept: text/event-stream\r\nLast-Event-ID: " + last + "\r\n"));
  client.receive_head();
  std::thread more([&] {
    for (int i = 0; i < 50; ++i) control.event(i % 2 ? id : JobId{}, "tock", "x");
  });
  while (expected <= 500) {
    const auto event = client.next_event();
    if (!event) break;
    EXPECT_EQ(event->id, std::to_string(expected++));
  }
  more.join();
  EXPECT_EQ(expected, 501u);
  HttpClient filtered(port);
  filtered.send(get("/api/v1/events?follow=1&job=j1&after=450"));
  filtered.receive_head();
  for (int i = 0; i < 25; ++i) EXPECT_EQ(json::parse(filtered.next_event()->data)["job"], "j1");
}

TEST_F(Streams, BeatsWhileSilentAndFreesTheStreamWhenItsReaderLeaves) {
  web::ServerOptions options;
  options.heartbeat = 50ms;
  options.streams_max = 1;
  serve(options);
  control.add(running_job());
  {
    HttpClient client(port);
    client.send(get("/api/v1/events?follow=1"));
    client.receive_head();
    EXPECT_FALSE(client.next_event(400ms));
    EXPECT_GE(client.comments, 2u);
    HttpClient second(port);
    second.send(get("/api/v1/events?follow=1"));
    EXPECT_EQ(second.receive().status, 503);
  }
  const auto until = std::chrono::steady_clock::now() + 10s;
  int status = 0;
  while (status != 200 && std::chrono::steady_clock::now() < until) {
    HttpClient client(port);
    client.send(get("/api/v1/events?follow=1"));
    status = client.receive_head().status;
  }
  EXPECT_EQ(status, 200);
}

TEST_F(Streams, DoesNotBufferWithoutBoundForAReaderThatDoesNotRead) {
  web::ServerOptions options;
  options.write_timeout = 500ms;
  serve(options);
  const JobId id = control.add(running_job());
  logs.append(ref(id), std::string(64u << 20, 'x'));
  HttpClient client(port);
  client.send(get(path + "?follow=1"));
  // It is closed by the time limit of a write. That nothing near 64 MiB was queued shows in the
  // sanitizer's and the limit's peace.
  const auto until = std::chrono::steady_clock::now() + 10s;
  std::string open = "1";
  while (std::chrono::steady_clock::now() < until) {
    const std::string text = ask(get("/metrics")).body;
    const auto at = text.find("\ndlrun_http_streams ");
    ASSERT_NE(at, std::string::npos);
    open = text.substr(at + 20, 1);
    if (open == "0") break;
  }
  EXPECT_EQ(open, "0");
}

}  // namespace
}  // namespace dlrun::test

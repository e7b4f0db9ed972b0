// Fuzz entry of the REST port, without sockets: bytes as a stranger (or somebody with the token)
// sends them -> the HTTP parser with the server's bounds -> the router -> the answer, streams
// included. The first byte says how much of a good request stands before the rest. Whatever comes:
// one answer to each request, never 500, and without the token the control plane is not even asked.
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>

#include "web/handlers.h"

namespace {

using namespace dlrun;
namespace http = boost::beast::http;

constexpr std::string_view kToken = "0123456789abcdef0123456789abcdef";

class QueueLoop final : public web::Loop {
 public:
  void post(std::function<void()> work) override { work_.push_back(std::move(work)); }
  std::shared_ptr<void> after(Duration, std::function<void()>) override {
    return std::make_shared<int>(0);  // no time passes
  }
  void run() {
    for (int turns = 0; !work_.empty() && turns < 1000; ++turns) {
      auto work = std::move(work_.front());
      work_.pop_front();
      work();
    }
  }

 private:
  std::deque<std::function<void()>> work_;
};

class Control final : public cluster::ControlApi {
 public:
  std::size_t calls = 0;
  void call(cluster::ApiCall request, Duration, Reply reply) override {
    ++calls;
    if (const auto* get = std::get_if<cluster::GetJob>(&request)) {
      if (get->job.value != 1) return reply(fail(Errc::kNotFound, "no such job"));
      return reply(cluster::ApiReply(job()));
    }
    if (std::holds_alternative<cluster::SubmitJob>(request))
      return reply(cluster::ApiReply(cluster::SubmitAck{JobId{2}, false}));
    if (std::holds_alternative<cluster::KillJob>(request))
      return reply(cluster::ApiReply(cluster::KillAck{}));
    if (std::holds_alternative<cluster::ListJobs>(request))
      return reply(cluster::ApiReply(cluster::JobList{{job()}}));
    if (std::holds_alternative<cluster::ListNodes>(request))
      return reply(cluster::ApiReply(cluster::NodeList{}));
    if (const auto* why = std::get_if<cluster::WhyJob>(&request))
      return reply(cluster::ApiReply(cluster::WhyAnswer{why->job, {}, "waits", {}}));
    if (std::holds_alternative<cluster::ListEvents>(request))
      return reply(cluster::ApiReply(
          cluster::EventList{{{.sequence = 1, .job = JobId{1}, .kind = "job_submitted"}}, 1}));
    if (std::holds_alternative<cluster::HoldJob>(request) ||
        std::holds_alternative<cluster::RequeueJob>(request))
      return reply(cluster::ApiReply(cluster::JobAck{}));
    if (std::holds_alternative<cluster::ExpelNode>(request))
      return reply(cluster::ApiReply(cluster::ExpelAck{}));
    reply(cluster::ApiReply(cluster::Health{}));
  }
  std::shared_ptr<void> subscribe(std::function<void(JobId)>) override {
    return std::make_shared<int>(0);
  }

 private:
  static cluster::JobView job() {
    cluster::JobView view;
    view.id = JobId{1};
    view.state = cluster::JobState::kRunning;
    view.spec.name = "fuzz";
    cluster::TaskView task;
    task.task = TaskId{JobId{1}, "worker", 0, Generation{1}};
    view.tasks.push_back(task);
    view.generation = Generation{1};
    return view;
  }
};

class Logs final : public web::LogSource {
 public:
  Result<web::LogSlice> read(const TaskId&, web::LogStream, std::uint64_t offset,
                             std::size_t bytes_max) override {
    static const std::string text = "one line\nand \xff another\n";
    web::LogSlice slice{.offset = std::min<std::uint64_t>(offset, text.size()),
                        .size = text.size()};
    slice.bytes = text.substr(slice.offset, bytes_max);
    slice.complete = true;
    return slice;
  }
  Result<std::vector<web::LogRef>> list(JobId job) override {
    return std::vector<web::LogRef>{{{job, "worker", 0, Generation{1}}, web::LogStream::kStdout}};
  }
  std::shared_ptr<void> follow(const TaskId&, web::LogStream, std::function<void()>) override {
    return std::make_shared<int>(0);
  }
};

class NoMetrics final : public web::MetricsSource {
 public:
  std::vector<web::Metric> collect() override { return {}; }
};

class CountingSink final : public web::Sink {
 public:
  std::size_t bytes = 0;
  bool over = false;
  bool writable() const override { return bytes < (256u << 10); }
  void send(std::string text) override {
    if (over) std::abort();
    bytes += text.size();
  }
  void finish() override { over = true; }
  void abort() override { over = true; }
};

struct Server {
  web::ServerOptions options = [] {
    web::ServerOptions o;
    o.bearer_token = kToken;
    return o;
  }();
  std::shared_ptr<QueueLoop> loop = std::make_shared<QueueLoop>();
  Control control;
  Logs logs;
  NoMetrics metrics;
  std::shared_ptr<web::Hub> hub = std::make_shared<web::Hub>(loop, control);
  web::Handlers handlers{web::Context{loop, control, logs, hub, options}, metrics, "fuzz"};
};

void check(int status) {
  if (status < 200 || status > 599 || status == 500) std::abort();
}

void answer(Server& server, const web::Request& request) {
  const auto bearer = request.header("Authorization");
  const bool trusted = bearer && bearer->find(kToken) != std::string_view::npos;
  const std::size_t calls_before = server.control.calls;
  if (const auto refused = server.handlers.refuse(request)) {
    check(refused->status);
    if (refused->status < 400) std::abort();
  } else {
    if (!trusted) std::abort();
    int answers = 0;
    server.handlers.handle(request, [&](web::Answer given) {
      ++answers;
      if (const auto* response = std::get_if<web::Response>(&given)) return check(response->status);
      const auto& stream = std::get<web::StreamStart>(given);
      check(stream.status);
      CountingSink sink;
      stream.pump->start(sink);
      for (int i = 0; i < 4 && !sink.over; ++i) {
        server.loop->run();
        if (!sink.over) stream.pump->on_writable();
      }
      stream.pump->stop();
    });
    server.loop->run();
    if (answers != 1) std::abort();
  }
  if (!trusted && server.control.calls != calls_before) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string head =
      "Host: localhost\r\nAuthorization: Bearer " + std::string(kToken) + "\r\n";
  switch (data[0] % 4) {
    case 0:
      break;
    case 1:
      bytes = "GET /" + bytes.substr(0, bytes.find('\n')) + " HTTP/1.1\r\n" + head +
              (bytes.find('\n') == std::string::npos ? "\r\n" : bytes.substr(bytes.find('\n') + 1));
      break;
    case 2:
      bytes = "GET /api/v1/" + bytes + " HTTP/1.1\r\n" + head + "\r\n";
      break;
    default:
      bytes = "POST /api/v1/jobs HTTP/1.1\r\n" + head +
              "Content-Type: application/json\r\nContent-Length: " + std::to_string(bytes.size()) +
              "\r\n\r\n" + bytes;
      break;
  }
  Server server;
  std::string_view rest = bytes;
  for (int requests = 0; requests < 8 && !rest.empty(); ++requests) {  // as session.cc reads
    http::request_parser<http::string_body> parser;
    parser.eager(true);
    parser.header_limit(static_cast<std::uint32_t>(server.options.header_bytes_max));
    parser.body_limit(server.options.body_bytes_max);
    boost::system::error_code error;
    while (!parser.is_done() && !rest.empty()) {
      const std::size_t taken = parser.put(boost::asio::buffer(rest.data(), rest.size()), error);
      rest.remove_prefix(taken);
      if (error || taken == 0) break;
    }
    if (error || !parser.is_done()) return 0;
    const auto& message = parser.get();
    web::Request request;
    request.method = std::string(message.method_string());
    request.target = std::string(message.target());
    for (const auto& field : message)
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    request.body = message.body();
    answer(server, request);
    if (!message.keep_alive()) return 0;
  }
  return 0;
}

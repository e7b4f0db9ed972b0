#include <fmt/format.h>

#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <ctime>
#include <type_traits>

#include "web/engine.h"
#include "web/problem.h"

namespace dlrun::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kOutBytesSoftMax = 256u << 10;  // a pump stops here
constexpr std::size_t kLingerBytesMax = 32u << 20;
constexpr Duration kLingerTime = std::chrono::seconds(3);

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  const std::size_t n = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text, n);
}

/// States: Idle -1-> Head -2-> Body -3-> Answering -4-> Idle | Streaming -5-> Idle | Lingering;
///         any -6-> Closed
///   1: a byte came. 2: the head is complete and not refused. 3: the body is complete. 4: the
///   response is written and the connection is kept. 5: the pump finished. 6: error, time limit,
///   stop(). Lingering reads and drops what a refused request still sends, so that its response is
///   not lost to a reset.
template <class Stream>
class Session final : public Connection,
                      public Sink,
                      public std::enable_shared_from_this<Session<Stream>> {
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

 public:
  template <class... Args>
  explicit Session(Engine& engine, Args&&... args)
      : engine_(engine),
        stream_(std::forward<Args>(args)...),
        deadline_(engine.loop->io),
        heartbeat_(engine.loop->io),
        buffer_(engine.options.header_bytes_max + (64u << 10)) {}

  void start() override {
    engine_.connections.insert(self());
    if constexpr (kTls) {
      arm(engine_.options.header_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server, [self = self()](ErrorCode error) {
        if (error) return self->close();
        self->first_ = true;
        self->next();
      });
    } else {
      next();
    }
  }

  void close() override {
    if (closed_) return;
    const auto alive = self();
    closed_ = true;
    drop_pump();
    engine_.connections.erase(alive);
    deadline_.cancel();
    heartbeat_.cancel();
    ErrorCode ignored;
    socket().close(ignored);
  }

  // ---- Sink
  bool writable() const override {
    return !closed_ && out_.size() + writing_.size() < kOutBytesSoftMax;
  }
  void send(std::string bytes) override {
    if (closed_ || !pump_ || bytes.empty()) return;
    silent_ = false;
    if (head_only_) return;
    if (chunked_) out_ += fmt::format("{:x}\r\n", bytes.size());
    out_ += bytes;
    if (chunked_) out_ += "\r\n";
    flush();
  }
  void finish() override {
    if (closed_ || !pump_) return;
    drop_pump();
    if (chunked_ && !head_only_) out_ += "0\r\n\r\n";
    finishing_ = true;
    if (out_.empty() && writing_.empty()) return written();
    flush();
  }
  void abort() override { close(); }

 private:
  std::shared_ptr<Session> self() { return this->shared_from_this(); }
  tcp::socket& socket() {
    if constexpr (kTls)
      return stream_.next_layer();
    else
      return stream_;
  }

  void arm(Duration limit) {
    deadline_.expires_after(limit);
    deadline_.async_wait([weak = this->weak_from_this(), serial = ++serial_](ErrorCode error) {
      const auto self = weak.lock();
      if (error || !self || self->closed_ || serial != self->serial_) return;
      self->expired();
    });
  }
  void disarm() {
    ++serial_;
    deadline_.cancel();
  }
  void expired() {
    if (state_ == State::kHead || state_ == State::kBody)
      refuse(problem(408, Errc::kDeadlineExceeded, "the request took too long to arrive"));
    else
      close();
  }

  // ---- reading
  void next() {
    if (closed_) return;
    state_ = State::kIdle;
    if (buffer_.size() > 0) return read_head();
    arm(first_ ? engine_.options.header_timeout : engine_.options.idle_timeout);
    if (watching_) return;  // its read is still out: it goes on from there
    stream_.async_read_some(buffer_.prepare(4096), [self = self()](ErrorCode error, std::size_t n) {
      if (error || self->closed_) return self->close();
      self->buffer_.commit(n);
      self->read_head();
    });
  }

  void read_head() {
    state_ = State::kHead;
    first_ = false;
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(engine_.options.header_bytes_max));
    parser_->body_limit(engine_.options.body_bytes_max);
    arm(engine_.options.header_timeout);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = self()](ErrorCode error, std::size_t) {
                              if (self->closed_ || self->state_ != State::kHead) return;
                              if (error) return self->read_failed(error);
                              self->take_head();
                            });
  }

  void read_failed(ErrorCode error) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
      return refuse(
          problem(431, Errc::kInvalidArgument,
                  fmt::format("the header may have {} bytes", engine_.options.header_bytes_max)));
    if (error == http::error::body_limit)
      return refuse(
          problem(413, Errc::kInvalidArgument,
                  fmt::format("the body may have {} bytes", engine_.options.body_bytes_max)));
    if (error == http::error::end_of_stream ||
        error.category() != http::make_error_code(http::error::end_of_stream).category())
      return close();  // the peer left, or the network failed
    refuse(problem(400, Errc::kInvalidArgument, "malformed HTTP: " + error.message()));
  }

  void take_head() {
    const auto& message = parser_->get();
    request_ = Request{};
    request_.method = std::string(message.method_string());
    request_.target = std::string(message.target());
    for (const auto& field : message)
      request_.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    keep_ = message.keep_alive();
    http11_ = message.version() >= 11;
    head_only_ = request_.method == "HEAD";
    if (auto response = engine_.handlers->refuse(request_)) {
      if (!parser_->is_done()) return refuse(std::move(*response));
      return respond(std::move(*response));
    }
    if (request_.header("Expect").value_or("") == "100-continue" && !parser_->is_done()) {
      writing_ = "HTTP/1.1 100 Continue\r\n\r\n";
      asio::async_write(stream_, asio::buffer(writing_),
                        [self = self()](ErrorCode error, std::size_t) {
                          self->writing_.clear();
                          if (error || self->closed_) return self->close();
                          if (self->state_ == State::kHead) self->read_body();
                        });
      return;
    }
    read_body();
  }

  void read_body() {
    state_ = State::kBody;
    if (parser_->is_done()) return answer();
    arm(engine_.options.body_timeout);
    http::async_read(stream_, buffer_, *parser_, [self = self()](ErrorCode error, std::size_t) {
      if (self->closed_ || self->state_ != State::kBody) return;
      if (error) return self->read_failed(error);
      self->answer();
    });
  }

  void answer() {
    state_ = State::kAnswering;
    disarm();
    request_.body = std::move(parser_->get().body());
    parser_.reset();
    engine_.handlers->handle(request_,
                             [self = self(), once = std::make_shared<bool>(false)](Answer reply) {
                               if (std::exchange(*once, true) || self->closed_) return;
                               if (auto* response = std::get_if<Response>(&reply))
                                 return self->respond(std::move(*response));
                               self->start_stream(std::move(std::get<StreamStart>(reply)));
                             });
    request_.body.clear();
    request_.body.shrink_to_fit();
  }

  // ---- writing
  std::string head(int status, const std::string& type, const Headers& headers,
                   std::optional<std::uint64_t> length) const {
    std::string out = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\nContent-Type: {}\r\n", status,
                                  reason_phrase(status), http_date(), type);
    out += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    for (const auto& [name, value] : headers) out += fmt::format("{}: {}\r\n", name, value);
    if (length)
      out += fmt::format("Content-Length: {}\r\n", *length);
    else if (chunked_)
      out += "Transfer-Encoding: chunked\r\n";
    out +=
        keep_ ? (http11_ ? "\r\n" : "Connection: keep-alive\r\n\r\n") : "Connection: close\r\n\r\n";
    return out;
  }

  void respond(Response response) {
    if (closed_) return;
    state_ = State::kAnswering;
    engine_.handlers->count(response.status);
    chunked_ = false;
    out_ += head(response.status, response.content_type, response.headers, response.body.size());
    if (!head_only_) out_ += response.body;
    finishing_ = true;
    flush();
  }

  /// The rest of the request is not wanted.
  void refuse(Response response) {
    keep_ = false;
    linger_ = true;
    respond(std::move(response));
  }

  void start_stream(StreamStart start) {
    if (engine_.streams >= engine_.options.streams_max)
      return respond(problem(503, Errc::kOverloaded, "too many event streams are open"));
    state_ = State::kStreaming;
    engine_.handlers->count(start.status);
    ++engine_.streams;
    pump_ = std::move(start.pump);
    chunked_ = !start.content_length && http11_;
    if (!start.content_length && !http11_) keep_ = false;
    events_ = start.events;
    out_ += head(start.status, start.content_type, start.headers, start.content_length);
    flush();
    if (head_only_) return finish();
    watch();
    if (events_) beat();
    const auto pump = pump_;
    pump->start(*this);
  }

  void drop_pump() {
    if (!pump_) return;
    --engine_.streams;
    heartbeat_.cancel();
    const auto pump = std::move(pump_);
    pump_ = nullptr;
    pump->stop();
  }

  /// Notices that the peer left while a stream is on.
  void watch() {
    if (watching_ || buffer_.size() > 0) return;
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(4096), [self = self()](ErrorCode error, std::size_t n) {
      self->watching_ = false;
      if (error || self->closed_) return self->close();
      self->buffer_.commit(n);
      // the stream ended meanwhile: these are the next request
      if (self->state_ == State::kIdle) self->read_head();
    });
  }

  void beat() {
    silent_ = true;
    heartbeat_.expires_after(engine_.options.heartbeat);
    heartbeat_.async_wait([weak = this->weak_from_this()](ErrorCode error) {
      const auto self = weak.lock();
      if (error || !self || self->closed_ || !self->pump_) return;
      if (self->silent_ && self->writable()) self->send(": still here\n\n");
      self->beat();
    });
  }

  void flush() {
    if (!writing_.empty() || closed_) return;
    if (out_.empty()) return;
    writing_.swap(out_);
    arm(engine_.options.write_timeout);
    asio::async_write(stream_, asio::buffer(writing_),
                      [self = self()](ErrorCode error, std::size_t) {
                        self->writing_.clear();
                        if (error || self->closed_) return self->close();
                        self->written();
                      });
  }

  void written() {
    if (!out_.empty()) return flush();
    disarm();
    if (pump_) {
      const auto pump = pump_;
      return pump->on_writable();
    }
    if (!finishing_) return;
    finishing_ = false;
    if (keep_) return next();
    if (linger_) return linger();
    ErrorCode ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    close();
  }

  void linger() {
    state_ = State::kLingering;
    ErrorCode ignored;
    socket().shutdown(tcp::socket::shutdown_send, ignored);
    arm(kLingerTime);
    discard();
  }

  void discard() {
    linger_space_.resize(64u << 10);
    socket().async_read_some(asio::buffer(linger_space_),
                             [self = self()](ErrorCode error, std::size_t n) {
                               self->lingered_ += n;
                               if (error || self->closed_ || self->lingered_ > kLingerBytesMax)
                                 return self->close();
                               self->discard();
                             });
  }

  enum class State { kIdle, kHead, kBody, kAnswering, kStreaming, kLingering };

  Engine& engine_;
  Stream stream_;
  asio::steady_timer deadline_, heartbeat_;
  std::uint64_t serial_ = 0;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  Request request_;
  std::string out_, writing_;
  std::shared_ptr<Pump> pump_;
  std::string linger_space_;
  std::size_t lingered_ = 0;
  State state_ = State::kIdle;
  bool first_ = true, closed_ = false, keep_ = true, http11_ = true, head_only_ = false,
       chunked_ = false, events_ = false;
  bool finishing_ = false, linger_ = false, watching_ = false, silent_ = true;
};

}  // namespace

void start_connection(Engine& engine, tcp::socket socket) {
  if (engine.connections.size() >= engine.options.connections_max) {
    // Best effort: the connection is refused either way.
    static constexpr char kBusy[] =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: "
        "close\r\n\r\n";
    ErrorCode ignored;
    socket.non_blocking(true, ignored);
    if (!engine.tls) socket.send(asio::buffer(kBusy, sizeof kBusy - 1), 0, ignored);
    return;
  }
  ErrorCode ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  if (engine.tls)
    std::make_shared<Session<asio::ssl::stream<tcp::socket>>>(engine, std::move(socket),
                                                              *engine.tls)
        ->start();
  else
    std::make_shared<Session<tcp::socket>>(engine, std::move(socket))->start();
}

}  // namespace dlrun::web

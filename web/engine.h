#pragma once
/// web/engine.h: the HTTP engine behind RestServer. Private to server.cc and session.cc: it
/// includes Asio. One io_context on one thread; nothing here is locked.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "web/handlers.h"
#include "web/http.h"
#include "web/hub.h"
#include "web/server.h"

namespace dlrun::web {

class AsioLoop final : public Loop {
 public:
  boost::asio::io_context io{1};

  void post(std::function<void()> work) override { boost::asio::post(io, std::move(work)); }
  std::shared_ptr<void> after(Duration delay, std::function<void()> work) override {
    struct Timer {
      explicit Timer(boost::asio::io_context& context) : timer(context) {}
      boost::asio::steady_timer timer;
    };
    auto handle = std::make_shared<Timer>(io);
    handle->timer.expires_after(delay);
    handle->timer.async_wait([weak = std::weak_ptr<Timer>(handle),
                              work = std::move(work)](const boost::system::error_code& error) {
      if (!error && weak.lock()) work();
    });
    return handle;
  }
};

/// One connection.
class Connection {
 public:
  virtual ~Connection() = default;
  virtual void start() = 0;
  virtual void close() = 0;  ///< at once; idempotent
};

struct Engine {
  ServerOptions options;
  std::shared_ptr<AsioLoop> loop = std::make_shared<AsioLoop>();
  std::shared_ptr<Hub> hub;
  std::unique_ptr<Handlers> handlers;
  std::optional<boost::asio::ssl::context> tls;
  std::set<std::shared_ptr<Connection>> connections;  ///< what keeps one alive until close()
  std::size_t streams = 0;
};

/// Takes the accepted socket.
void start_connection(Engine& engine, boost::asio::ip::tcp::socket socket);

}  // namespace dlrun::web

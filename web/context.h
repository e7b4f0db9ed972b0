#pragma once
/// web/context.h: what every answer is made from. Lives as long as the server's connections.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/cluster/core/api.h"
#include "web/http.h"
#include "web/hub.h"
#include "web/security_admin.h"
#include "web/server.h"

namespace dlrun::web {

/// The hub tells a stream when its job changed. It looks again this often in any case, while its
/// job is not over: why a job waits changes with the nodes, and no change of the job says so.
inline constexpr Duration kRecheck = std::chrono::seconds(15);

struct Context {
  std::weak_ptr<Loop> loop;
  cluster::ControlApi& control;
  LogSource& logs;
  std::shared_ptr<Hub> hub;
  const ServerOptions& options;
  SecurityAdmin* security = nullptr;  ///< null: its endpoints are not there

  /// Asks the control plane; `then` runs on the loop, unless the server has stopped.
  void ask(cluster::ApiCall call, std::function<void(Result<cluster::ApiReply>)> then) const {
    const auto asked = std::make_shared<const Asked>(Asked{loop.lock(), std::move(then)});
    control.call(
        std::move(call), options.control_timeout, [asked](Result<cluster::ApiReply> reply) {
          if (asked->loop == nullptr) return;
          asked->loop->post(
              [then = asked->then, reply = std::move(reply)]() mutable { then(std::move(reply)); });
        });
  }

 private:
  /// What waits for an answer keeps a connection, and a connection's timers live on the loop: an
  /// answer that comes after the server's end drops the connection first, then the loop.
  struct Asked {
    std::shared_ptr<Loop> loop;
    std::function<void(Result<cluster::ApiReply>)> then;
  };
};

/// One server-sent event: `id:` when not empty, `event:`, one `data:` line. `data` holds no
/// newline.
inline std::string sse(std::string_view id, std::string_view event, std::string_view data) {
  std::string out;
  out.reserve(data.size() + event.size() + id.size() + 32);
  if (!id.empty()) out.append("id: ").append(id).append("\n");
  out.append("event: ").append(event).append("\ndata: ").append(data).append("\n\n");
  return out;
}

}  // namespace dlrun::web

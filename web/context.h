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

/// A stream looks again this often in any case, while its job is not over.
inline constexpr Duration kRecheck = std::chrono::milliseconds(500);

struct Context {
  std::weak_ptr<Loop> loop;
  cluster::ControlApi& control;
  LogSource& logs;
  std::shared_ptr<Hub> hub;
  const ServerOptions& options;
  SecurityAdmin* security = nullptr;  ///< null: its endpoints are not there

  /// Asks the control plane; `then` runs on the loop, unless the server has stopped.
  void ask(cluster::ApiCall call, std::function<void(Result<cluster::ApiReply>)> then) const {
    control.call(
        std::move(call), options.control_timeout,
        [weak = loop, then = std::move(then)](Result<cluster::ApiReply> reply) {
          if (const auto loop = weak.lock())
            loop->post([then, reply = std::move(reply)]() mutable { then(std::move(reply)); });
        });
  }
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

#pragma once
/// web/handlers.h: the table of endpoints and what each answers. No sockets, no Beast: tests call
/// it as a function. web/openapi.json describes the same table; tests/web compares the two both
/// ways.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "web/context.h"
#include "web/http.h"
#include "web/parse.h"

namespace dlrun::web {

class Handlers {
 public:
  Handlers(Context context, MetricsSource& metrics, std::string version);

  /// What can be judged from the head of a request alone, before its body is read: Host, Origin,
  /// token, route, method, content type. nullopt = go on.
  std::optional<Response> refuse(const Request& head) const;
  /// Answers a request that `refuse` let pass. `reply` runs once, on the loop, perhaps before this
  /// returns.
  void handle(const Request& request, Reply reply);

  /// "GET /api/v1/jobs/{id}" of every endpoint.
  static std::vector<std::string> endpoints();
  /// For /metrics.
  void count(int status) { ++answers_[status]; }
  void set_gauges(
      std::function<std::pair<std::uint64_t, std::uint64_t>()> connections_and_streams) {
    gauges_ = std::move(connections_and_streams);
  }

  const Context& context() const { return context_; }

 private:
  struct Call;
  struct Endpoint;
  struct Order {
    std::string reason;
    bool hold = false;
  };
  static std::optional<Order> order(Call& call, bool with_hold);
  static const std::vector<Endpoint>& table();
  static const Endpoint* find(const Target& target, std::string_view method, std::string* allow);
  bool host_allowed(std::string_view name) const;

  void submit(Call call);
  void list_jobs(Call call);
  void get_job(Call call);
  void tasks(Call call);
  void kill(Call call);
  void hold(Call call);
  void release(Call call);
  void requeue(Call call);
  void hold_or_release(Call call, bool hold);
  void why(Call call);
  void job_logs(Call call);
  void log(Call call);
  void events(Call call);
  void nodes(Call call);
  void revoke(Call call);
  void certificates(Call call);
  void join_token(Call call);
  void health(Call call);
  void version(Call call);
  void metrics(Call call);
  void openapi(Call call);
  void add_own_metrics(std::vector<Metric>& all);
  void log_of(Call call, const cluster::JobView& view);

  /// Asks, and answers with a problem unless the reply holds a T.
  template <class T>
  void ask(Call call, cluster::ApiCall request, std::function<void(Call&, T&)> then);

  Context context_;
  MetricsSource& metrics_;
  std::string version_;
  std::map<int, std::uint64_t> answers_;
  Histogram request_seconds_{kSecondsBuckets};
  std::function<std::pair<std::uint64_t, std::uint64_t>()> gauges_;
};

extern const std::string_view kOpenApi;  ///< web/openapi.json, embedded by the build

}  // namespace dlrun::web

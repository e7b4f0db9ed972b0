#pragma once
/// tests/web/fake_cluster.h: a control plane and a log store in memory, for the tests of the REST
/// server and of the launcher. Replies come from a thread of its own, as the real one's do.

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/cluster/core/api.h"
#include "web/server.h"

namespace dlrun::test {

class FakeControl final : public cluster::ControlApi {
 public:
  FakeControl();
  ~FakeControl() override;

  void call(cluster::ApiCall request, Duration timeout, Reply reply) override;
  std::shared_ptr<void> subscribe(std::function<void(JobId)> listener) override;

  /// Runs first, on the fake's thread; an answer of it is the answer.
  void intercept(
      std::function<std::optional<Result<cluster::ApiReply>>(const cluster::ApiCall&)> hook);
  /// Called with each new job, on the fake's thread, after the submit was answered.
  void on_submit(std::function<void(JobId)> hook);
  void on_kill(std::function<void(JobId)> hook);
  std::vector<std::string> kill_reasons();

  JobId add(cluster::JobView view);  ///< the id is given
  /// Changes a job and records an event of it.
  void update(JobId job, const std::function<void(cluster::JobView&)>& change,
              std::string kind = "job_changed");
  /// Changes a job and tells so without an event, as progress does.
  void touch(JobId job, const std::function<void(cluster::JobView&)>& change);
  void event(JobId job, std::string kind, std::string text);
  cluster::JobView job(JobId id);
  std::vector<cluster::JobSpec> submitted();
  void set_nodes(std::vector<cluster::NodeView> nodes);
  std::size_t calls();

 private:
  Result<cluster::ApiReply> answer(const cluster::ApiCall& request);
  void notify(JobId job);
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  std::map<JobId, cluster::JobView> jobs_;
  std::map<std::string, JobId> keys_;
  std::vector<cluster::JobSpec> submitted_;
  std::vector<cluster::EventView> events_;
  std::vector<cluster::NodeView> nodes_;
  std::vector<std::weak_ptr<std::function<void(JobId)>>> listeners_;
  std::function<std::optional<Result<cluster::ApiReply>>(const cluster::ApiCall&)> hook_;
  std::function<void(JobId)> submit_hook_, kill_hook_;
  std::vector<std::string> kill_reasons_;
  std::uint64_t next_job_ = 1;
  std::size_t calls_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

class FakeLogs final : public web::LogSource {
 public:
  Result<web::LogSlice> read(const TaskId& task, web::LogStream stream, std::uint64_t offset,
                             std::size_t bytes_max) override;
  Result<std::vector<web::LogRef>> list(JobId job) override;
  std::shared_ptr<void> follow(const TaskId& task, web::LogStream stream,
                               std::function<void()> listener) override;

  void append(const web::LogRef& ref, std::string_view bytes);
  void complete(const web::LogRef& ref);
  void drop_before(const web::LogRef& ref, std::uint64_t first);

 private:
  struct Stream {
    std::string bytes;
    std::uint64_t first = 0;
    bool complete = false;
    bool known = false;
    std::vector<std::weak_ptr<std::function<void()>>> listeners;
  };
  void notify(const web::LogRef& ref);
  std::mutex mutex_;
  std::map<web::LogRef, Stream> streams_;
};

/// Knows node "j1", which has one certificate; minutes = 7: too many tokens.
class FakeSecurity final : public web::SecurityAdmin {
 public:
  Result<web::JoinTokenView> issue_join_token(Duration life) override {
    if (life == std::chrono::minutes(7)) return fail(Errc::kOverloaded, "too many live tokens");
    return web::JoinTokenView{"dlj-00", WallTime{life.count()}, "dlrun agent --join"};
  }
  std::vector<web::CertificateView> certificates() override {
    return {{"ab01", "j1", WallTime{1}, WallTime{2}, true, {}},
            {"ab02", "j1", WallTime{1}, WallTime{2}, false, WallTime{2}}};
  }
  Result<std::vector<std::string>> revoke(const std::string& node) override {
    if (node != "j1") return fail(Errc::kNotFound, "no such node");
    return std::vector<std::string>{"ab01"};
  }
};

class FakeMetrics final : public web::MetricsSource {
 public:
  std::vector<web::Metric> collect() override {
    return {{.name = "dlrun_test_total",
             .help = "A \\ test\nmetric.",
             .counter = true,
             .samples = {{{{"a", "x\"y"}}, 3}}}};
  }
};

inline constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

/// A job of `count` workers in state RUNNING, generation 1.
cluster::JobView running_job(std::uint32_t count = 1);
/// Ends it well, or with the code.
void end_job(cluster::JobView& view, int code);

}  // namespace dlrun::test

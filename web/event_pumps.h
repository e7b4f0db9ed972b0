#pragma once
/// web/event_pumps.h: event streams of the cluster's log, and of one job's state. Level triggered:
/// a pump remembers where it is and asks again, so a slow reader delays nobody and queues nothing.

#include <cstdint>
#include <memory>
#include <string>

#include "web/context.h"

namespace dlrun::web {

/// `event: event`, id = sequence, data = EventView; from after `after`, then live, for ever.
class EventsPump final : public Pump, public std::enable_shared_from_this<EventsPump> {
 public:
  EventsPump(const Context& context, JobId job, std::uint64_t after)
      : context_(context), job_(job), after_(after) {}
  void start(Sink& sink) override;
  void on_writable() override { fetch(); }
  void stop() override;

 private:
  void fetch();

  const Context& context_;
  JobId job_;
  std::uint64_t after_;
  Sink* sink_ = nullptr;
  std::shared_ptr<void> watch_;
  bool asking_ = false, dirty_ = true;
};

/// `event: job`, data = JobView, at once and after each change (why it waits: within kRecheck);
/// `event: end` after the view of a final state. An error of the control plane is `event: error`
/// with a problem, and the end.
class JobPump final : public Pump, public std::enable_shared_from_this<JobPump> {
 public:
  JobPump(const Context& context, cluster::JobView first);
  void start(Sink& sink) override;
  void on_writable() override { fetch(); }
  void stop() override;

 private:
  void fetch();
  void again();  ///< the job changed, or may have
  void show(const cluster::JobView& view);
  void arm();

  const Context& context_;
  JobId job_;
  std::unique_ptr<cluster::JobView> first_;
  std::string last_;
  Sink* sink_ = nullptr;
  std::shared_ptr<void> watch_, timer_;
  bool asking_ = false, dirty_ = true;
};

}  // namespace dlrun::web

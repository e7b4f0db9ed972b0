#include "web/metrics.h"
#include "web/control_metrics.h"

#include <gtest/gtest.h>

#include <limits>

namespace dlrun::web {
namespace {

TEST(Prometheus, EscapesHelpAndLabelsAndLeavesOutBadNames) {
  const std::vector<Metric> metrics = {
      {.name = "a_total",
       .help = "x\ny\\",
       .counter = true,
       .samples = {{{{"l", "q\"\\\n"}}, 1}, {{}, 2.5}}},
      {.name = "bad name", .help = "", .samples = {{{}, 1}}},
      {.name = "inf", .help = "h", .samples = {{{}, std::numeric_limits<double>::infinity()}}},
  };
  EXPECT_EQ(prometheus_text(metrics),
            "# HELP a_total x\\ny\\\\\n# TYPE a_total counter\na_total{l=\"q\\\"\\\\\\n\"} "
            "1\na_total 2.5\n"
            "# HELP inf h\n# TYPE inf gauge\ninf +Inf\n");
}

TEST(Prometheus, AHistogramHasCumulativeBucketsItsSumAndItsCount) {
  static constexpr double kBounds[] = {1, 2.5};
  Histogram h(kBounds);
  for (const double value : {0.5, 1.0, 2.0, 9.0}) h.add(value);
  EXPECT_EQ(prometheus_text({{.name = "wait_seconds", .help = "h", .histogram = {h.values()}}}),
            "# HELP wait_seconds h\n# TYPE wait_seconds histogram\n"
            "wait_seconds_bucket{le=\"1\"} 2\nwait_seconds_bucket{le=\"2.5\"} 3\n"
            "wait_seconds_bucket{le=\"+Inf\"} 4\nwait_seconds_sum 12.5\nwait_seconds_count 4\n");
}

TEST(ControlMetrics, EveryStateHasASeriesAlsoWhenNothingIsInIt) {
  cluster::Health health;
  health.jobs_pending = 3;
  health.jobs_by_state[cluster::JobState::kHeld] = 1;
  health.oldest_wait = std::chrono::milliseconds(1500);
  std::vector<Metric> all;
  add_control_metrics(&health, nullptr, all);
  const std::string text = prometheus_text(all);
  for (const char* line :
       {"dlrun_jobs{state=\"RUNNING\"} 0\n", "dlrun_jobs{state=\"HELD\"} 1\n",
        "dlrun_jobs_ended_total{state=\"OOM\"} 0\n", "dlrun_nodes{state=\"suspect\"} 0\n",
        "dlrun_queue_jobs 2\n", "dlrun_queue_oldest_seconds 1.5\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
}

}  // namespace
}  // namespace dlrun::web

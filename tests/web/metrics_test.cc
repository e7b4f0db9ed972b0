#include "web/metrics.h"

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

}  // namespace
}  // namespace dlrun::web

#include "bench/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlrun::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figure figure(Better better, std::vector<double> values, std::vector<double> baselines, Must must) {
  return {"b", "m", "u", better, std::move(values), "roof", std::move(baselines), "", must};
}

TEST(BenchReport, ARatioIsMoreWhenBetterForRatesAndForTimes) {
  EXPECT_THAT(to_json(figure(Better::kMore, {8}, {10}, {})), HasSubstr("\"ratio\":0.8,"));
  EXPECT_THAT(to_json(figure(Better::kLess, {8}, {10}, {})), HasSubstr("\"ratio\":1.25,"));
}

TEST(BenchReport, JudgesByTheLowerQuartileNotTheMedian) {
  // Ratios 0.7 0.7 0.9 0.9 0.9: the median keeps the must, the lower quartile does not.
  const std::vector<double> values = {7, 7, 9, 9, 9}, roof(5, 10);
  EXPECT_THAT(
      to_json(figure(Better::kMore, values, roof, {.ratio_at_least = 0.8, .value_at_most = {}})),
      HasSubstr("\"must\":\"ratio >= 0.8\",\"ok\":false"));
  EXPECT_THAT(
      to_json(figure(Better::kMore, values, roof, {.ratio_at_least = 0.7, .value_at_most = {}})),
      HasSubstr("\"ok\":true"));
}

TEST(BenchReport, AnAbsoluteMustIsJudgedByTheUpperQuartile) {
  const Must must{.ratio_at_least = {}, .value_at_most = 20};
  EXPECT_THAT(to_json(figure(Better::kLess, {19, 19, 19, 21, 21}, {1, 1, 1, 1, 1}, must)),
              HasSubstr("\"ok\":false"));
  EXPECT_THAT(to_json(figure(Better::kLess, {19, 19, 19, 19, 21}, {1, 1, 1, 1, 1}, must)),
              HasSubstr("\"ok\":true"));
}

TEST(BenchReport, AMissingBaselineHasItsReasonAndARatioMustIsThenNotKept) {
  Figure f = figure(Better::kMore, {1}, {}, {.ratio_at_least = 0.5, .value_at_most = {}});
  f.reason = "no \"wheel\"";
  EXPECT_THAT(to_json(f), HasSubstr("\"baseline\":null,\"reason\":\"no \\\"wheel\\\"\""));
  EXPECT_THAT(to_json(f), HasSubstr("\"ok\":false"));
}

TEST(BenchReport, WithoutAMustNothingIsJudged) {
  EXPECT_THAT(to_json(figure(Better::kMore, {1}, {1}, {})), Not(HasSubstr("\"ok\"")));
}

TEST(BenchReport, SpreadIsTheRangeOfTheRatiosByTheirMedian) {
  EXPECT_THAT(to_json(figure(Better::kMore, {9, 10, 11}, {10, 10, 10}, {})),
              HasSubstr("\"spread\":0.2,"));
}

}  // namespace
}  // namespace dlrun::bench

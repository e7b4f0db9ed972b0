#pragma once
/// examples/ctr_gen/auc.h: area under the ROC curve, by ranks (Mann-Whitney), ties counted half.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace dlrun::examples {

/// scores [n], labels [n] (> 0.5 is positive). O(n log n). 0.5 when one of the classes is missing.
inline double auc(std::span<const float> scores, std::span<const float> labels) {
  std::vector<std::size_t> order(scores.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] < scores[b]; });
  double rank_sum = 0, positives = 0;
  for (std::size_t i = 0; i < order.size();) {
    std::size_t end = i;
    while (end < order.size() && scores[order[end]] == scores[order[i]]) ++end;
    const double rank = 0.5 * static_cast<double>(i + 1 + end);  // mean of ranks i+1 .. end
    for (; i < end; ++i) {
      if (labels[order[i]] > 0.5f) {
        rank_sum += rank;
        positives += 1;
      }
    }
  }
  const double negatives = static_cast<double>(scores.size()) - positives;
  if (positives == 0 || negatives == 0) return 0.5;
  return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives);
}

}  // namespace dlrun::examples

#pragma once
/// scheduler/core/why.h: sentences for a person: what stands in the way of a gang, counted per
/// constraint.
/// Complexity: O(distinct demands * nodes); asked by people, not by the placement.

#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/node_book.h"
#include "scheduler/core/shape.h"

namespace dlrun::sched {

/// One line per distinct demand and constraint that at least one known node fails, in the order
/// node, label, gpu, cpu, memory, port. `why` looks at what is free now.
std::vector<WhyLine> explain_demands(const NodeBook& book, const GangRequest& gang,
                                     const std::vector<ShapePart>& parts);

/// The reason why no placement on the known nodes' totals can ever hold the gang: a task that
/// exceeds every node, or a sum that exceeds the cluster; nullopt: neither.
std::optional<std::string> explain_impossible(const NodeBook& book, const GangRequest& gang,
                                              const std::vector<ShapePart>& parts);

}  // namespace dlrun::sched

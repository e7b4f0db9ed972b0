#pragma once
/// scheduler/core/gang_fit.h: fits a gang into the free room, whole or not at all.
/// Algorithm: demands from the hardest to the easiest, each onto the first node of the index that
/// has room (nodes with the fewest GPUs first, then by age). For a gang of one demand that is
/// exact: tasks that are alike do not get in each other's way. When it fails for a gang of several
/// demands, a depth-first search over the same order tries other nodes, at most kSearchSteps of
/// them; beyond that the gang counts as not fitting now.
/// Complexity: O(tasks * log nodes); the search adds at most kSearchSteps * log nodes.

#include <optional>
#include <vector>

#include "scheduler/core/node_book.h"
#include "scheduler/core/shape.h"

namespace dlrun::sched {

inline constexpr std::uint32_t kSearchSteps = 2000;

/// The node of each task, in the order of GangRequest::tasks; nullopt when it does not fit now.
/// `book` is as before.
std::optional<std::vector<NodeBook::Index>> fit_gang(NodeBook& book,
                                                     const std::vector<ShapePart>& parts);

/// How many tasks the simple pass places together, for `why`. `book` is as before.
std::uint32_t count_placeable(NodeBook& book, const std::vector<ShapePart>& parts);

}  // namespace dlrun::sched

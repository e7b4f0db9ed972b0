#pragma once
/// scheduler/core/shape.h: what a task asks for, what a node has left, and the shape of a gang: its
/// tasks without their names. Gangs of one shape fit or do not fit together, so that a pile of them
/// costs one try.
/// Units: cpu in 1/1000 of a core, memory in bytes.

#include <compare>
#include <cstdint>
#include <vector>

#include "scheduler/core/msg.h"

namespace dlrun::sched {

/// Free resources of one node. Negative when the node was given more than it has (its capacity
/// shrank, or a gang was adopted).
struct Room {
  std::int64_t cpu_milli = 0;
  std::int64_t memory_bytes = 0;
  std::int32_t gpus = 0;
  std::int32_t ports = 0;
};

/// One task's needs; equal demands are interchangeable.
struct Demand {
  Resources need;
  Labels require;
  friend bool operator==(const Demand&, const Demand&) = default;
};

/// Orders demands from the hardest to place to the easiest: GPUs, then CPUs, memory, ports, labels.
std::strong_ordering operator<=>(const Demand& a, const Demand& b);

/// A need of nothing always fits, also where the room is negative.
constexpr bool fits_number(std::int64_t need, std::int64_t room) {
  return need == 0 || need <= room;
}
bool fits(const Resources& need, const Room& room);
bool has_labels(const Labels& node, const Labels& require);
Room minus(Room room, const Resources& need);
Room plus(Room room, const Resources& need);

struct ShapePart {
  Demand demand;
  std::vector<std::uint32_t> tasks;  ///< indices into GangRequest::tasks, ascending
};
/// The gang's distinct demands, hardest first.
std::vector<ShapePart> parts_of(const GangRequest& gang);

/// Comparable identity of a gang's shape.
using ShapeKey = std::vector<std::pair<Demand, std::uint32_t>>;
ShapeKey shape_key(const std::vector<ShapePart>& parts);

}  // namespace dlrun::sched

#include "scheduler/core/shape.h"

#include <map>
#include <tuple>

namespace dlrun::sched {

std::strong_ordering operator<=>(const Demand& a, const Demand& b) {
  const auto key = [](const Demand& d) {
    return std::make_tuple(-d.need.gpus, -d.need.cpu_milli, -d.need.memory_bytes, -d.need.ports);
  };
  if (const auto c = key(a) <=> key(b); c != 0) return c;
  if (const auto c = b.require.size() <=> a.require.size(); c != 0) return c;
  return a.require <=> b.require;
}

bool fits(const Resources& need, const Room& room) {
  return fits_number(need.cpu_milli, room.cpu_milli) &&
         fits_number(need.memory_bytes, room.memory_bytes) && fits_number(need.gpus, room.gpus) &&
         fits_number(need.ports, room.ports);
}

bool has_labels(const Labels& node, const Labels& require) {
  for (const auto& [name, value] : require) {
    const auto at = node.find(name);
    if (at == node.end() || at->second != value) return false;
  }
  return true;
}

Room minus(Room room, const Resources& need) {
  return Room{room.cpu_milli - need.cpu_milli, room.memory_bytes - need.memory_bytes,
              room.gpus - need.gpus, room.ports - need.ports};
}

Room plus(Room room, const Resources& need) {
  return Room{room.cpu_milli + need.cpu_milli, room.memory_bytes + need.memory_bytes,
              room.gpus + need.gpus, room.ports + need.ports};
}

std::vector<ShapePart> parts_of(const GangRequest& gang) {
  std::map<Demand, std::vector<std::uint32_t>> grouped;
  for (std::uint32_t i = 0; i < gang.tasks.size(); ++i)
    grouped[Demand{gang.tasks[i].need, gang.tasks[i].require}].push_back(i);
  std::vector<ShapePart> parts;
  parts.reserve(grouped.size());
  for (auto& [demand, tasks] : grouped) parts.push_back(ShapePart{demand, std::move(tasks)});
  return parts;
}

ShapeKey shape_key(const std::vector<ShapePart>& parts) {
  ShapeKey key;
  key.reserve(parts.size());
  for (const ShapePart& part : parts)
    key.emplace_back(part.demand, static_cast<std::uint32_t>(part.tasks.size()));
  return key;
}

}  // namespace dlrun::sched

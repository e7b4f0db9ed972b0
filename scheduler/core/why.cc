#include "scheduler/core/why.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>

namespace dlrun::sched {
namespace {

std::string number(double value, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4g %s", value, unit);
  return text;
}

std::string cpus(std::int64_t milli) {
  return number(static_cast<double>(milli) / 1000, milli == 1000 ? "CPU" : "CPUs");
}
std::string bytes(std::int64_t n) {
  const double v = static_cast<double>(n);
  if (n >= std::int64_t{1} << 30) return number(v / (std::int64_t{1} << 30), "GiB");
  if (n >= std::int64_t{1} << 20) return number(v / (std::int64_t{1} << 20), "MiB");
  return std::to_string(n) + " bytes";
}
std::string gpus(std::int64_t n) { return std::to_string(n) + (n == 1 ? " GPU" : " GPUs"); }
std::string ports(std::int64_t n) { return std::to_string(n) + (n == 1 ? " port" : " ports"); }

/// A resource by name: how much a task needs, how much room there is, how it is printed.
struct Dimension {
  const char* name;
  std::int64_t (*need)(const Resources&);
  std::int64_t (*room)(const Room&);
  std::string (*print)(std::int64_t);
};
constexpr std::array<Dimension, 4> kDimensions = {{
    {"gpu", [](const Resources& r) -> std::int64_t { return r.gpus; },
     [](const Room& r) -> std::int64_t { return r.gpus; }, gpus},
    {"cpu", [](const Resources& r) { return r.cpu_milli; },
     [](const Room& r) { return r.cpu_milli; }, cpus},
    {"memory", [](const Resources& r) { return r.memory_bytes; },
     [](const Room& r) { return r.memory_bytes; }, bytes},
    {"port", [](const Resources& r) -> std::int64_t { return r.ports; },
     [](const Room& r) -> std::int64_t { return r.ports; }, ports},
}};

std::string task_name(const GangRequest& gang, const ShapePart& part) {
  const TaskDemand& first = gang.tasks[part.tasks.front()];
  std::string name = first.role + "/" + std::to_string(first.rank);
  if (part.tasks.size() > 1) name += " (and " + std::to_string(part.tasks.size() - 1) + " like it)";
  return name;
}

std::string label_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) text += (text.empty() ? "" : ", ") + name + "=" + value;
  return text;
}

Room total_of(const NodeBook::Node& node) {
  return Room{node.capacity.cpu_milli, node.capacity.memory_bytes,
              static_cast<std::int32_t>(node.capacity.gpu_uuids.size()), node.capacity.ports.count};
}

struct Tally {
  std::uint32_t failing = 0;
  std::uint32_t total = 0;
  std::int64_t best = 0;  ///< the most that any node has
  std::string best_node;
};

Tally tally(const NodeBook& book, const Dimension& dimension, const Resources& need, bool totals) {
  Tally t;
  book.for_each_known([&](const NodeBook::Node& node) {
    const std::int64_t room = dimension.room(totals ? total_of(node) : node.room);
    ++t.total;
    if (!fits_number(dimension.need(need), room)) ++t.failing;
    if (t.best_node.empty() || room > t.best) {
      t.best = room;
      t.best_node = node.capacity.node.value;
    }
  });
  t.best = std::max<std::int64_t>(t.best, 0);
  return t;
}

}  // namespace

std::vector<WhyLine> explain_demands(const NodeBook& book, const GangRequest& gang,
                                     const std::vector<ShapePart>& parts) {
  std::vector<WhyLine> lines;
  std::uint32_t total = 0, shut = 0;
  std::string reasons;
  book.for_each_known([&](const NodeBook::Node& node) {
    ++total;
    if (node.schedulable) return;
    if (++shut <= 3)
      reasons += (reasons.empty() ? "" : "; ") + node.capacity.node.value + ": " +
                 (node.reason.empty() ? "not schedulable" : node.reason);
  });
  if (total == 0) {
    lines.push_back(WhyLine{"node", 0, 0, "no node has joined the cluster"});
    return lines;
  }
  if (shut > 0) lines.push_back(WhyLine{"node", shut, total, reasons});
  for (const ShapePart& part : parts) {
    const std::string name = task_name(gang, part);
    std::uint32_t unlabelled = 0;
    book.for_each_known([&](const NodeBook::Node& node) {
      if (!has_labels(node.capacity.labels, part.demand.require)) ++unlabelled;
    });
    if (unlabelled > 0)
      lines.push_back(WhyLine{"label", unlabelled, total,
                              name + " requires " + label_text(part.demand.require)});
    for (const Dimension& dimension : kDimensions) {
      const Tally t = tally(book, dimension, part.demand.need, false);
      if (t.failing == 0) continue;
      lines.push_back(WhyLine{dimension.name, t.failing, t.total,
                              name + " needs " + dimension.print(dimension.need(part.demand.need)) +
                                  ", the most free on one node is " + dimension.print(t.best) +
                                  " on " + t.best_node});
    }
  }
  return lines;
}

std::optional<std::string> explain_impossible(const NodeBook& book, const GangRequest& gang,
                                              const std::vector<ShapePart>& parts) {
  std::uint32_t known = 0;
  book.for_each_known([&](const NodeBook::Node&) { ++known; });
  if (known == 0) return "no node has joined the cluster";
  for (const ShapePart& part : parts) {
    const std::string name = task_name(gang, part);
    for (const Dimension& dimension : kDimensions) {
      const Tally t = tally(book, dimension, part.demand.need, true);
      if (t.failing == t.total)
        return name + " needs " + dimension.print(dimension.need(part.demand.need)) +
               ", the most any node has is " + dimension.print(t.best);
    }
    bool labelled = false, whole = false;
    book.for_each_known([&](const NodeBook::Node& node) {
      if (!has_labels(node.capacity.labels, part.demand.require)) return;
      labelled = true;
      whole = whole || fits(part.demand.need, total_of(node));
    });
    if (!labelled)
      return name + " requires " + label_text(part.demand.require) + ", which no node has";
    if (!whole) return name + " asks for more than any one node has of everything together";
  }
  for (const Dimension& dimension : kDimensions) {
    std::int64_t need = 0, have = 0;
    for (const ShapePart& part : parts)
      need += dimension.need(part.demand.need) * static_cast<std::int64_t>(part.tasks.size());
    book.for_each_known(
        [&](const NodeBook::Node& node) { have += dimension.room(total_of(node)); });
    if (!fits_number(need, have))
      return "the gang of " + std::to_string(gang.tasks.size()) + " needs " +
             dimension.print(need) + ", all nodes together have " + dimension.print(have);
  }
  return std::nullopt;
}

}  // namespace dlrun::sched

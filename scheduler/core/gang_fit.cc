#include "scheduler/core/gang_fit.h"

#include <utility>

namespace dlrun::sched {
namespace {

struct Choice {
  const Demand* demand = nullptr;
  std::uint32_t task = 0;
  IndexPlace place;
  NodeBook::Index node = NodeBook::kNone;
};

std::vector<Choice> choices_of(const std::vector<ShapePart>& parts) {
  std::vector<Choice> choices;
  for (const ShapePart& part : parts)
    for (const std::uint32_t task : part.tasks)
      choices.push_back(
          Choice{.demand = &part.demand, .task = task, .place = {}, .node = NodeBook::kNone});
  return choices;
}

/// Places choice by choice; with `steps` > 0 it goes back and tries other nodes. Returns how many
/// stand at the end; what stands has been taken from the book.
std::size_t place(NodeBook& book, std::vector<Choice>& choices, std::uint32_t steps) {
  std::size_t depth = 0;
  while (depth < choices.size()) {
    Choice& choice = choices[depth];
    IndexPlace from = choice.place;  // after going back: just past the node tried last
    if (choice.node == NodeBook::kNone) {
      // Tasks that are alike are placed in ascending order, so that no permutation is tried twice.
      const bool alike = depth > 0 && choices[depth - 1].demand == choice.demand;
      from = alike ? choices[depth - 1].place : IndexPlace{};
    }
    if (const auto hit = book.index().find(*choice.demand, from)) {
      choice.place = hit->place;
      choice.node = hit->node;
      book.take(hit->node, choice.demand->need);
      ++depth;
      continue;
    }
    if (steps == 0 || depth == 0) return depth;
    choice.node = NodeBook::kNone;
    Choice& before = choices[--depth];
    book.give(before.node, before.demand->need);
    ++before.place.position;
    --steps;
  }
  return depth;
}

void give_back(NodeBook& book, const std::vector<Choice>& choices, std::size_t placed) {
  for (std::size_t i = 0; i < placed; ++i) book.give(choices[i].node, choices[i].demand->need);
}

}  // namespace

std::optional<std::vector<NodeBook::Index>> fit_gang(NodeBook& book,
                                                     const std::vector<ShapePart>& parts) {
  for (const ShapePart& part : parts)
    if (!book.index().find(part.demand, IndexPlace{})) return std::nullopt;
  std::vector<Choice> choices = choices_of(parts);
  std::size_t placed = place(book, choices, 0);
  if (placed < choices.size() && parts.size() > 1) {
    give_back(book, choices, placed);
    choices = choices_of(parts);
    placed = place(book, choices, kSearchSteps);
  }
  give_back(book, choices, placed);
  if (placed < choices.size()) return std::nullopt;
  std::vector<NodeBook::Index> nodes(choices.size());
  for (const Choice& choice : choices) nodes[choice.task] = choice.node;
  return nodes;
}

std::uint32_t count_placeable(NodeBook& book, const std::vector<ShapePart>& parts) {
  std::uint32_t count = 0;
  std::vector<std::pair<NodeBook::Index, const Resources*>> taken;
  for (const ShapePart& part : parts) {
    for (std::size_t i = 0; i < part.tasks.size(); ++i) {
      const auto hit = book.index().find(part.demand, IndexPlace{});
      if (!hit) break;
      book.take(hit->node, part.demand.need);
      taken.emplace_back(hit->node, &part.demand.need);
      ++count;
    }
  }
  for (const auto& [node, need] : taken) book.give(node, *need);
  return count;
}

}  // namespace dlrun::sched

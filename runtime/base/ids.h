#pragma once
/// runtime/base/ids.h: strong identifiers. Two kinds never mix by accident; each prints as people
/// see it.

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"

namespace dlrun {

template <class Tag, class T>
struct Strong {
  T value{};
  constexpr Strong() = default;
  constexpr explicit Strong(T v) : value(std::move(v)) {}
  friend auto operator<=>(const Strong&, const Strong&) = default;
};

/// operator's name of a node, [A-Za-z0-9._-]{1,64}
using NodeId = Strong<struct NodeIdTag, std::string>;
/// printed j<n>, from 1; 0 = none
using JobId = Strong<struct JobIdTag, std::uint64_t>;
/// rank of a parameter shard in its job
using ShardId = Strong<struct ShardIdTag, std::uint32_t>;
/// random, one per process start; 0 = none
using Incarnation = Strong<struct IncarnationTag, std::uint64_t>;
using Generation = Strong<struct GenerationTag, std::uint32_t>;  ///< gang starts of a job, from 1
/// incarnation of a parameter-server client
using ClientId = Strong<struct ClientIdTag, std::uint64_t>;

/// One placement decision. Ordered: first by coordinator term, then by counter. {0,0} = none.
struct Epoch {
  std::uint64_t term = 0;
  std::uint64_t counter = 0;
  friend auto operator<=>(const Epoch&, const Epoch&) = default;
};

/// A task: rank `rank` of role `role` in gang start `generation` of `job`. Printed
/// "j12:worker/0#1".
struct TaskId {
  JobId job;
  std::string role;
  std::uint32_t rank = 0;
  Generation generation;
  friend auto operator<=>(const TaskId&, const TaskId&) = default;
};

std::string to_string(JobId id);
std::string to_string(const TaskId& id);
std::string to_string(Epoch epoch);                 ///< "term.counter"
Result<JobId> parse_job_id(std::string_view text);  ///< "j12" or "12"; kInvalidArgument
/// "j12:worker/0#1"; "#g" may be left out (generation 0)
Result<TaskId> parse_task_id(std::string_view text);

}  // namespace dlrun

template <class Tag, class T>
struct std::hash<dlrun::Strong<Tag, T>> {
  std::size_t operator()(const dlrun::Strong<Tag, T>& id) const noexcept {
    return std::hash<T>{}(id.value);
  }
};
template <>
struct std::hash<dlrun::TaskId> {
  std::size_t operator()(const dlrun::TaskId& id) const noexcept {
    std::size_t h = std::hash<std::string>{}(id.role);
    h ^= id.job.value * 0x9e3779b97f4a7c15ULL;
    h ^= (std::size_t{id.rank} << 32 | id.generation.value) * 0xc2b2ae3d27d4eb4fULL;
    return h;
  }
};

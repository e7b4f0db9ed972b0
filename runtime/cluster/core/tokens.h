#pragma once
/// runtime/cluster/core/tokens.h: where secrets come from, so that a core needs no randomness and a
/// recovered job gets the same tokens as before. The daemons derive them with HMAC-SHA256 from the
/// cluster's key; the simulator from its seed.

#include <string>
#include <string_view>

#include "runtime/cluster/core/msg.h"

namespace dlrun::cluster {

class TokenIssuer {
 public:
  virtual ~TokenIssuer() = default;
  /// A pure function of (purpose, epoch). Purposes: "task/<task id>", "ps/<job id>" and
  /// "job/<job id>" (tasks among each other). Thread safe.
  virtual Token issue(std::string_view purpose, Epoch epoch) const = 0;
};

inline std::string task_purpose(const TaskId& task) { return "task/" + to_string(task); }

}  // namespace dlrun::cluster

#ifndef PS_INTERNAL_VAN_H_
#define PS_INTERNAL_VAN_H_
/// ps/internal/van.h: the way for messages.
#include "ps/internal/message.h"

namespace ps {

class Van {
 public:
  /// To meta.recver, a node. Returns its bytes. Throws Error.
  int Send(const Message& message);
  /// Throws Error before Start.
  const Node& my_node() const;
  bool IsReady() const;
};

}  // namespace ps
#endif  // PS_INTERNAL_VAN_H_

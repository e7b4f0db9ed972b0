#ifndef PS_BASE_H_
#define PS_BASE_H_
/// ps/base.h: keys, and the numbers of nodes and groups.
#include <limits>
#include <string>

#include "ps/internal/utils.h"

namespace ps {

#if USE_KEY32
using Key = uint32_t;
#else
using Key = uint64_t;
#endif
static const Key kMaxKey = std::numeric_limits<Key>::max();

/// Groups are added to each other: kServerGroup + kWorkerGroup.
static const int kScheduler = 1;
static const int kServerGroup = 2;
static const int kWorkerGroup = 4;

/// Why a call failed: one sentence for a person. docs/pslite.md of dlrun says what can.
struct __attribute__((visibility("default"))) Error : public dmlc::Error {
  explicit Error(const std::string& what) : dmlc::Error(what) {}
};

}  // namespace ps
#endif  // PS_BASE_H_

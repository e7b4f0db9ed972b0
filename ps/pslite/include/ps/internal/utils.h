#ifndef PS_INTERNAL_UTILS_H_
#define PS_INTERNAL_UTILS_H_
/// ps/internal/utils.h: what is in the environment, as a value; logging.
#include <cstdint>
#include <cstdlib>

#include "dmlc/logging.h"
#include "ps/internal/env.h"

namespace ps {

template <typename V>
inline V GetEnv(const char* key, V otherwise) {
  const char* value = Environment::Get()->find(key);
  return value == nullptr ? otherwise : V(value);
}
inline int GetEnv(const char* key, int otherwise) {
  const char* value = Environment::Get()->find(key);
  return value == nullptr ? otherwise : std::atoi(value);
}

#ifndef DISALLOW_COPY_AND_ASSIGN
#define DISALLOW_COPY_AND_ASSIGN(TypeName) \
  TypeName(const TypeName&) = delete;      \
  void operator=(const TypeName&) = delete
#endif

#define LL LOG(ERROR)

}  // namespace ps
#endif  // PS_INTERNAL_UTILS_H_

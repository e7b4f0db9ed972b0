#ifndef PS_INTERNAL_ENV_H_
#define PS_INTERNAL_ENV_H_
/// ps/internal/env.h: the variables that configure this process: those given to Init() before the
/// process's own. Not thread safe against Init().
#include <memory>
#include <string>
#include <unordered_map>

namespace ps {

class Environment {
 public:
  static Environment* Get();
  static std::shared_ptr<Environment> _GetSharedRef();
  static Environment* Init(const std::unordered_map<std::string, std::string>& envs);
  /// nullptr: not set.
  const char* find(const char* key) const;

 private:
  Environment() = default;
  std::unordered_map<std::string, std::string> given_;
};

}  // namespace ps
#endif  // PS_INTERNAL_ENV_H_

// The one place of the facade that reads the environment: ps-lite's programs are configured by it.
#include "ps/internal/env.h"

#include <cstdlib>

namespace ps {

std::shared_ptr<Environment> Environment::_GetSharedRef() {
  static const std::shared_ptr<Environment> instance(new Environment());
  return instance;
}
Environment* Environment::Get() { return _GetSharedRef().get(); }

Environment* Environment::Init(const std::unordered_map<std::string, std::string>& envs) {
  Get()->given_ = envs;
  return Get();
}

const char* Environment::find(const char* key) const {
  const auto at = given_.find(key);
  return at == given_.end() ? std::getenv(key) : at->second.c_str();
}

}  // namespace ps

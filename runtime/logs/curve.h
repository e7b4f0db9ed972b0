#pragma once
/// runtime/logs/curve.h: CURVE key pairs of ZeroMQ, Z85 text (40 characters).

#include <string>

#include "runtime/base/result.h"

namespace dlrun::logs {

struct CurveKeys {
  std::string public_key;
  std::string secret_key;
};
Result<CurveKeys> make_curve_keys();
/// The public key that belongs to `secret_key`. kInvalidArgument when it is no Z85 key.
Result<std::string> curve_public(const std::string& secret_key);

}  // namespace dlrun::logs

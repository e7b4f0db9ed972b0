#include "runtime/logs/curve.h"

#include <zmq.h>

namespace dlrun::logs {

Result<CurveKeys> make_curve_keys() {
  char public_key[41] = {}, secret_key[41] = {};
  if (zmq_curve_keypair(public_key, secret_key) != 0) {
    return fail(Errc::kUnsupported, std::string("CURVE keys: ") + zmq_strerror(zmq_errno()));
  }
  return CurveKeys{public_key, secret_key};
}

Result<std::string> curve_public(const std::string& secret_key) {
  char public_key[41] = {};
  if (secret_key.size() != 40 || zmq_curve_public(public_key, secret_key.c_str()) != 0) {
    return fail(Errc::kInvalidArgument, "no CURVE key: 40 characters of Z85 are expected");
  }
  return std::string(public_key);
}

}  // namespace dlrun::logs

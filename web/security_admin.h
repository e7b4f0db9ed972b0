#pragma once
/// web/security_admin.h: what REST lets an operator do about who belongs to the cluster. The
/// coordinator implements it over its own files. Thread safe; a call may write a file, no more.
/// Errors: kNotFound (no such node or certificate), kOverloaded (too many live tokens), kIo.

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"

namespace dlrun::web {

struct JoinTokenView {
  std::string token;
  WallTime expires;
  std::string join_line;  ///< with FILE where the token's file goes
};

struct CertificateView {
  std::string serial, node;
  WallTime issued, expires;
  bool seen = false;  ///< the node has registered with it
  WallTime revoked;   ///< 0 = it counts
};

class SecurityAdmin {
 public:
  virtual ~SecurityAdmin() = default;
  virtual Result<JoinTokenView> issue_join_token(Duration life) = 0;
  virtual std::vector<CertificateView> certificates() = 0;
  /// All certificates of `node`; every join token ends with them, and the node is cut off. Returns
  /// the serials that count no more. Again: the same answer.
  virtual Result<std::vector<std::string>> revoke(const std::string& node) = 0;
};

}  // namespace dlrun::web

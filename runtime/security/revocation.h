#pragma once
/// runtime/security/revocation.h: serial numbers of certificates that no longer count, one a line
/// in a 0600 file. Consulted at each registration and renewal. Bounds: kSerialsMax. Threads: safe
/// from any thread.

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "runtime/base/result.h"

namespace dlrun::security {

class RevocationList {
 public:
  static constexpr std::size_t kSerialsMax = 10'000;
  static Result<std::unique_ptr<RevocationList>> open(std::string path);
  /// Durable when it returns. Again: nothing happens.
  Status revoke(const std::string& serial_hex);
  bool contains(const std::string& serial_hex) const;
  /// Reads the file again: another process (`dlrun revoke`) may have added to it.
  Status reload();

 private:
  explicit RevocationList(std::string path) : path_(std::move(path)) {}
  const std::string path_;
  mutable std::mutex mutex_;
  std::set<std::string> serials_;
};

}  // namespace dlrun::security

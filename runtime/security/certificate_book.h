#pragma once
/// runtime/security/certificate_book.h: every certificate that this cluster's CA gave to an agent
/// and that has not ended: whose it is, whether a node has shown it, whether it was revoked. In a
/// 0600 file that only grows while the coordinator runs and is written anew at its start; what has
/// ended by itself is forgotten then. A line is one word of (issued, seen, revoked), then serial,
/// node, when it began, when it ends and when it was revoked (0: it counts), in ns of Unix time.
/// Errors: kNotFound (nothing to revoke), kResourceExhausted (kEntriesMax), kCorrupt (names the
/// line), kIo.
/// Bounds: kEntriesMax. Durable when a call returns.
/// Threads: safe from any thread.

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/time.h"
#include "runtime/security/pki.h"

namespace dlrun::security {

class CertificateBook {
 public:
  static constexpr std::size_t kEntriesMax = 100'000;
  struct Entry {
    std::string serial_hex;
    std::string node;
    WallTime issued, until;
    bool seen = false;  ///< a node has registered with it
    WallTime revoked;   ///< 0 = it counts
  };

  static Result<std::unique_ptr<CertificateBook>> open(std::string path, WallTime now);
  ~CertificateBook();

  /// Before the certificate is handed out.
  Status issued(const CertInfo& info);
  /// A node showed it; one that the book does not know (a lost file) is entered.
  Status seen(const CertInfo& info);
  bool is_revoked(const std::string& serial_hex) const;
  /// Some node uses a certificate of this name: nobody else may get one for a token.
  bool is_taken(const std::string& node, WallTime now) const;
  /// Revokes what `node` has; the serials that count no more, those of earlier calls included.
  /// kNotFound: the node has no certificate that has not ended.
  Result<std::vector<std::string>> revoke(const std::string& node, WallTime now);
  /// By node, then by the time it was issued.
  std::vector<Entry> list() const;

 private:
  explicit CertificateBook(std::string path) : path_(std::move(path)) {}
  Status read();
  Status rewrite();
  Status append(const std::string& lines);
  Status enter(const CertInfo& info);

  const std::string path_;
  mutable std::mutex mutex_;
  int fd_ = -1;
  std::map<std::string, Entry> entries_;  ///< by serial
};

}  // namespace dlrun::security

#include "runtime/security/revocation.h"

#include <sstream>

#include "runtime/security/secret.h"

namespace dlrun::security {

Result<std::unique_ptr<RevocationList>> RevocationList::open(std::string path) {
  std::unique_ptr<RevocationList> out(new RevocationList(std::move(path)));
  DLRUN_TRY(out->reload());
  return out;
}

Status RevocationList::reload() {
  std::set<std::string> serials;
  Result<std::string> text = read_private_file(path_);
  if (!text && text.error().code != Errc::kNotFound) return tl::unexpected(text.error());
  std::istringstream lines(text ? *text : std::string());
  for (std::string serial; lines >> serial;) serials.insert(serial);
  const std::lock_guard lock(mutex_);
  serials_ = std::move(serials);
  return {};
}

Status RevocationList::revoke(const std::string& serial_hex) {
  if (serial_hex.empty() || !from_hex(serial_hex))
    return fail(Errc::kInvalidArgument, "not a serial number in hex: \"" + serial_hex + "\"");
  const std::lock_guard lock(mutex_);
  if (serials_.contains(serial_hex)) return {};
  if (serials_.size() >= kSerialsMax) return fail(Errc::kOverloaded, "the revocation list is full");
  std::string text;
  for (const std::string& s : serials_) text += s + "\n";
  DLRUN_TRY(write_private_file(path_, text + serial_hex + "\n"));
  serials_.insert(serial_hex);
  return {};
}

bool RevocationList::contains(const std::string& serial_hex) const {
  const std::lock_guard lock(mutex_);
  return serials_.contains(serial_hex);
}

}  // namespace dlrun::security

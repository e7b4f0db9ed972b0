#include "runtime/security/join_token.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace dlrun::security {

Result<std::unique_ptr<JoinTokens>> JoinTokens::open(std::string path, std::string ca_fingerprint) {
  std::unique_ptr<JoinTokens> out(new JoinTokens(std::move(path), std::move(ca_fingerprint)));
  Result<std::string> text = read_private_file(out->path_);
  if (!text && text.error().code == Errc::kNotFound) return out;
  if (!text) return tl::unexpected(text.error());
  std::istringstream lines(*text);
  std::string digest_hex;
  std::int64_t until_ns = 0;
  std::size_t line = 0;
  while (lines >> digest_hex >> until_ns) {
    ++line;
    const Result<std::string> digest = from_hex(digest_hex);
    if (!digest || digest->size() != std::tuple_size_v<Digest> ||
        out->entries_.size() == kTokensMax)
      return fail(Errc::kCorrupt,
                  out->path_ + ": line " + std::to_string(line) + " is not a join token");
    Entry entry{{}, WallTime{until_ns}};
    std::copy(digest->begin(), digest->end(), entry.digest.begin());
    out->entries_.push_back(entry);
  }
  return out;
}

Digest JoinTokens::digest_of(const std::string& token) const {
  return sha256(ca_fingerprint_ + "|" + token);
}

Status JoinTokens::store(const std::vector<Entry>& entries) const {
  std::string text;
  for (const Entry& e : entries) text += to_hex(e.digest) + " " + std::to_string(e.until.ns) + "\n";
  return write_private_file(path_, text);
}

Result<std::string> JoinTokens::issue(Duration life, WallTime now) {
  DLRUN_ASSIGN(const std::string bytes, random_bytes(32));
  const std::string token =
      "dlj-" + to_hex({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  for (const Entry& e : entries_)
    if (e.until > now) entries.push_back(e);
  if (entries.size() >= kTokensMax)
    return fail(Errc::kOverloaded,
                "already " + std::to_string(kTokensMax) + " live join tokens: wait until one ends");
  entries.push_back({digest_of(token), WallTime{now.ns + life.count()}});
  DLRUN_TRY(store(entries));
  entries_ = std::move(entries);
  return token;
}

Status JoinTokens::check(const std::string& token, WallTime now) const {
  const Digest digest = digest_of(token);
  const std::string_view mine(reinterpret_cast<const char*>(digest.data()), digest.size());
  bool ok = false;
  const std::lock_guard lock(mutex_);
  for (Entry& e : entries_) {
    if (e.until <= now) e.until = WallTime{};  // for good, also when the clock goes back
    const bool same = equal_constant_time(
        mine, std::string_view(reinterpret_cast<const char*>(e.digest.data()), e.digest.size()));
    ok |= same && e.until > now;
  }
  if (!ok)
    return fail(Errc::kPermissionDenied,
                "the join token is wrong or has expired: ask the coordinator for a new one");
  return {};
}

Status JoinTokens::clear() {
  const std::lock_guard lock(mutex_);
  DLRUN_TRY(store({}));
  entries_.clear();
  return {};
}

}  // namespace dlrun::security
